#!/bin/sh
# tests/cmake-fortran/run.sh PREFIX: checks that CMake's find_package(MPI) finds the three Fortran bindings of
# the Weft that is installed in PREFIX, and that programs it builds run on two ranks.
set -eu

[ $# -eq 1 ] || { echo "usage: tests/cmake-fortran/run.sh PREFIX" >&2; exit 2; }
prefix=$(cd "$1" && pwd -P)
here=$(cd "$(dirname "$0")" && pwd)
build=$(mktemp -d "${TMPDIR:-/tmp}/weft-cmake.XXXXXX")
trap 'rm -rf "$build"' EXIT
trap 'exit 130' INT TERM

PATH=$prefix/bin:$PATH
export PATH
{ cmake -S "$here" -B "$build/way" -DCMAKE_Fortran_COMPILER=gfortran && cmake --build "$build/way"; } >"$build/log" 2>&1 || {
    tail -n 30 "$build/log" >&2
    exit 1
}
for program in fixed modern classic; do
    line=$(timeout 60 mpiexec -n 2 "$build/way/$program")
    [ "$line" = "failures: 0" ] || { echo "$program printed \"$line\"" >&2; exit 1; }
done
echo "cmake: find_package(MPI) found mpif.h, mpi and mpi_f08; programs of all three ran on two ranks"
