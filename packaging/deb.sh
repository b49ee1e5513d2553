#!/bin/sh
# packaging/deb.sh BUILD DIRECTORY: makes Debian packages in DIRECTORY of what packaging/build.sh has built in
# BUILD. The changelog and the copyright file are made here: the version is Cargo.toml's, the time that of the
# commit, and the licences those of everything that is linked in.
#
# Who answers for the packages is $DEBFULLNAME <$DEBEMAIL>, as for all of Debian's tools. Without an address
# they have one of the domain that never is (RFC 2606).
set -eu

if [ $# -ne 2 ]; then
    echo "usage: packaging/deb.sh BUILD DIRECTORY" >&2
    exit 2
fi
cd "$(dirname "$0")/.."
top=$PWD
build=$(cd "$1" && pwd -P)
mkdir -p "$2"
into=$(cd "$2" && pwd -P)
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
SOURCE_DATE_EPOCH=$(packaging/date.sh)
export SOURCE_DATE_EPOCH
maintainer=$(sed -n 's/^Maintainer: //p' packaging/debian/control)
[ -z "${DEBEMAIL:-}" ] || maintainer="${DEBFULLNAME:-${maintainer% <*}} <$DEBEMAIL>"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/tree"
cp -R packaging/debian "$work/tree/debian"
cd "$work/tree"
sed -i "s|^Maintainer: .*|Maintainer: $maintainer|" debian/control
cat >debian/changelog <<EOF
weft-mpi ($version) unstable; urgency=medium

  * What has changed is in /usr/share/doc/weft-mpi-bin/NEWS.md.gz.

 -- $maintainer  $(LC_ALL=C date -u -R -d "@$SOURCE_DATE_EPOCH")
EOF
{
    cat debian/copyright.in
    # In this format a line of a paragraph begins with a blank, and an empty one has a dot.
    sed -e 's/^$/./' -e 's/^/ /' "$build/components/LICENSES.txt"
} >debian/copyright
rm debian/copyright.in
# Everything in a package has one owner and mode, whoever builds.
umask 022
export SOURCE="$top" BUILD="$build" DEB_BUILD_OPTIONS=noautodbgsym
dpkg-buildpackage --build=binary --no-sign --no-check-builddeps >"$work/log" 2>&1 || {
    tail -n 40 "$work/log" >&2
    exit 1
}
for package in "$work"/*.deb; do
    mv -f "$package" "$into/${package##*/}"
    echo "$into/${package##*/}"
done
