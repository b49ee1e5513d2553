#!/bin/sh
# tools/dependencies.sh [--fetch]: checks the crates on which Weft depends: their licences, sources and
# doubles by cargo-deny (deny.toml), their known faults by cargo-audit.
#
# The advisories are looked up in a copy of RustSec's database, $WEFT_ADVISORIES or build/advisory-db. Without
# a copy, and without the two tools (tools/setup.sh check), a sentence says what was left out, and this
# succeeds: no check needs the network. --fetch gets the newest copy first, and fails where something is left
# out.
set -eu
cd "$(dirname "$0")/.."
PATH=$PWD/build/venv-check/bin:${CARGO_HOME:-$HOME/.cargo}/bin:$PATH
database=${WEFT_ADVISORIES:-build/advisory-db}
source=https://github.com/RustSec/advisory-db.git
case ${1:-} in
    '') must=no ;;
    --fetch) must=yes ;;
    *)
        echo "usage: tools/dependencies.sh [--fetch]" >&2
        exit 2
        ;;
esac

# skip SENTENCE: says what is left out.
skip() {
    echo "dependencies: $*" >&2
    [ $must = no ] || exit 1
}

if [ $must = yes ] && [ -z "${WEFT_ADVISORIES:-}" ]; then
    rm -rf $database.new
    timeout 300 git clone --quiet --depth 1 "$source" $database.new || skip "the advisories could not be fetched from $source"
    rm -rf $database
    mv $database.new $database
fi

if ! command -v cargo-deny >/dev/null; then
    skip "licences, sources and doubles were not checked: cargo-deny is not here; tools/setup.sh check installs it"
# It reads all crates of Cargo.lock, also those of other systems, which no build here has fetched.
elif ! cargo fetch --locked --quiet; then
    skip "licences, sources and doubles were not checked: a crate of Cargo.lock is not here and could not be fetched"
else
    cargo deny --offline --log-level error check --hide-inclusion-graph bans licenses sources
fi
if ! command -v cargo-audit >/dev/null; then
    skip "advisories were not looked up: cargo-audit is not here; tools/setup.sh check installs it"
elif [ ! -d "$database/crates" ]; then
    skip "advisories were not looked up: there is no copy of RustSec's database in $database; with a network, \`make advisories\` fetches one"
else
    cargo audit --quiet --no-fetch --stale --db "$database" --deny warnings
    echo "dependencies: no advisory of $database is about a crate of Cargo.lock"
fi
