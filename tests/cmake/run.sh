#!/bin/sh
# tests/cmake/run.sh PREFIX: checks that CMake's find_package(MPI) finds the Weft that is installed in PREFIX,
# in two ways, and that the program it builds runs on two ranks.
set -eu

[ $# -eq 1 ] || { echo "usage: tests/cmake/run.sh PREFIX" >&2; exit 2; }
prefix=$(cd "$1" && pwd -P)
here=$(cd "$(dirname "$0")" && pwd)
build=$(mktemp -d "${TMPDIR:-/tmp}/weft-cmake.XXXXXX")
trap 'rm -rf "$build"' EXIT
trap 'exit 130' INT TERM

fail() {
    echo "cmake: $1" >&2
    [ ! -f "$build/log" ] || tail -n 30 "$build/log" >&2
    exit 1
}

# expect KEY VALUE: CMake found what it should have found.
expect() {
    found=$(sed -n "s|^$1 ||p" "$way/found.txt")
    [ "$(readlink -f "$found" || echo "$found")" = "$(readlink -f "$2" || echo "$2")" ] ||
        fail "$1 is \"$found\", expected \"$2\""
}

# check NAME OPTIONS...: configure, build and run.
check() {
    way=$build/$1
    shift
    cmake -S "$here" -B "$way" "$@" >"$build/log" 2>&1 || fail "configuration failed"
    expect library "$prefix/lib/libmpi_abi.so"
    expect include "$prefix/include"
    expect mpiexec "$prefix/bin/mpiexec"
    [ "$(sed -n 's/^version //p' "$way/found.txt")" = 5.0 ] || fail "the version is not 5.0"
    cmake --build "$way" >"$build/log" 2>&1 || fail "build failed"
    for program in sum_c sum_cxx; do
        readelf -d "$way/$program" | grep -q 'NEEDED.*\[libmpi_abi.so.1\]' || fail "$program is not linked with Weft"
        flag=$(sed -n 's/^numproc //p' "$way/found.txt")
        line=$(timeout 60 "$prefix/bin/mpiexec" "$flag" 2 "$way/$program" 2>"$build/log") || fail "$program failed"
        [ "$line" = "sum over 2 ranks: 3" ] || fail "$program printed \"$line\""
    done
}

# CMake finds Weft by the wrappers in PATH, and by a hint where the compilers are not in PATH.
(
    PATH=$prefix/bin:$PATH
    export PATH
    check path
)
check hint -DMPI_HOME="$prefix"
echo "cmake: find_package(MPI) found Weft by PATH and by MPI_HOME; C and C++ ran on two ranks"
