#!/bin/sh
# packaging/wheel.sh BUILD DIRECTORY: makes a Python wheel in DIRECTORY of what packaging/build.sh has built
# in BUILD, and lets auditwheel check its tag.
set -eu

if [ $# -ne 2 ]; then
    echo "usage: packaging/wheel.sh BUILD DIRECTORY" >&2
    exit 2
fi
cd "$(dirname "$0")/.."
build=$(cd "$1" && pwd -P)
mkdir -p "$2"
into=$(cd "$2" && pwd -P)
python=build/venv-packages/bin/python
[ -x "$python" ] || {
    echo "packaging/wheel.sh: $python is missing; tools/setup.sh packages makes it" >&2
    exit 1
}
SOURCE_DATE_EPOCH=$(packaging/date.sh)
export SOURCE_DATE_EPOCH

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
DESTDIR=$root WEFT_BUILD=$build/programs CC=cc CXX=c++ FC=gfortran FORTRAN_COMPILERS=none tools/install.sh / >/dev/null
# Libraries for programs of other MPIs, where the sources have them.
[ ! -d "$root/lib/weft" ] || find "$root/lib/weft" -name 'lib*.so*' -type f -exec strip --strip-all {} +
wheel=$("$python" packaging/wheel.py "$root" "$build/components" "$into")

# The tag is derived from the symbols that are used; auditwheel has its own way to derive it.
tag=${wheel%.whl}
tag=${tag##*-}
"$python" -m auditwheel show "$wheel" >"$root/audit" 2>&1 || {
    cat "$root/audit" >&2
    exit 1
}
tr '\n' ' ' <"$root/audit" | grep -q "is consistent with the following platform tag: *\"$tag\"" || {
    cat "$root/audit" >&2
    echo "packaging/wheel.sh: auditwheel does not agree with the tag $tag" >&2
    exit 1
}
echo "$wheel"
