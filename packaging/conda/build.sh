#!/bin/sh
# The step of the conda recipe that installs Weft into $PREFIX: from the sources in $SRC_DIR, or, if
# $WEFT_BUILD is a directory that packaging/build.sh has filled, from the programs there.
set -eu
cd "$SRC_DIR"
build=${WEFT_BUILD:-}
if [ -z "$build" ]; then
    build=$SRC_DIR/build/packages/build
    packaging/build.sh "$build"
else
    # These files are copies, and so newer than what was made of them.
    find . -exec touch --no-dereference --date=@0 {} +
fi
cp "$build/components/LICENSES.txt" LICENSES.txt

# The wrappers call the compilers by the names that they have in an environment.
CC=$(basename "${CC:-cc}")
CXX=$(basename "${CXX:-c++}")
FC=$(basename "${FC:-}")
export CC CXX FC
WEFT_BUILD=$build/programs FORTRAN_COMPILERS=${FC:-none} tools/install.sh "$PREFIX"
# These are an administrator's: raw frames for unprivileged ranks.
rm -rf "$PREFIX/sbin" "$PREFIX/lib/systemd" "$PREFIX/share/man/man8"
find "$PREFIX/lib/weft" -name 'lib*.so*' -type f -exec strip --strip-all {} +
