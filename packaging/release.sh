#!/bin/sh
# packaging/release.sh VERSION: makes a release of the commit that is checked out. It runs all checks, writes
# the version into Cargo.toml, CHANGELOG.md, the conda recipe and the examples, commits, builds all packages
# with their checksums, and tags. Nothing is published. $CHECKS and $PACKAGES name other targets of make than
# the usual ones.
#
# The tag comes last: until then `git reset --hard HEAD^` takes back a release that has failed.
set -eu
fail() {
    echo "packaging/release.sh: $*" >&2
    exit 1
}

[ $# -eq 1 ] || fail "usage: make release VERSION=MAJOR.MINOR.PATCH"
version=$1
cd "$(dirname "$0")/.."
PATH=${CARGO_HOME:-$HOME/.cargo}/bin:$PATH
number='(0|[1-9][0-9]*)'
echo "$version" | grep -Eqx "$number\.$number\.$number(-[0-9A-Za-z.-]+)?" ||
    fail "$version is no semantic version, such as 1.2.3 or 1.2.3-rc.1"
last=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
[ -z "$(git status --porcelain)" ] || fail "files have been changed: commit them first"
! git rev-parse -q --verify "refs/tags/v$version" >/dev/null || fail "there is a tag v$version already"
# In the order of semantic versions a candidate comes before its release; sort has ~ for that.
newest=$(printf '%s\n%s\n' "$last" "$version" | sed 's/-/~/' | sort -V | tail -n 1 | sed 's/~/-/')
[ "$newest" = "$version" ] || fail "$version is older than $last"
news=$(sed -n '/^## Unreleased$/,/^## [0-9]/p' CHANGELOG.md | grep -c '^- ' || true)
[ "$news" -gt 0 ] || fail "CHANGELOG.md lists nothing below Unreleased"

# shellcheck disable=SC2086 # lists of words
[ -z "${CHECKS-test test-packages advisories}" ] || make ${CHECKS-test test-packages advisories}

sed -i "s/^version = \"$last\"/version = \"$version\"/" Cargo.toml
sed -i "s/^## Unreleased\$/## Unreleased\n\n## $version - $(date -u +%F)/" CHANGELOG.md
# conda's versions have no hyphen.
conda=$(echo "$version" | sed -E ':next; s/(-.*)\./\1/; t next; s/-//')
sed -i -E "s/^(  version: )\".*\"/\1\"$conda\"/" packaging/conda/recipe.yaml
# Names of the image in examples and in the book.
sed -i "s/weft\([-:]\)$last/weft\1$version/g" examples/kubernetes/Dockerfile docs/book/install.md docs/book/kubernetes.md
cargo update --quiet --offline --workspace
git commit --quiet --all --message "release: $version"

# shellcheck disable=SC2086 # lists of words
if [ -n "${PACKAGES-wheel deb oci}" ]; then
    rm -rf build/packages
    make ${PACKAGES-wheel deb oci}
    (cd build/packages && find . -maxdepth 1 -type f ! -name SHA256SUMS | LC_ALL=C sort | xargs sha256sum >SHA256SUMS)
fi
git tag --annotate --message "Weft $version" "v$version"
echo "v$version is tagged; its packages are in build/packages. git push --follow-tags publishes the tag"
