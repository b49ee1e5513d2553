#!/bin/sh
# tools/fortran-library.sh DIRECTORY: builds libmpifort_abi.so there, beside libmpi_abi.so, unless it is newer
# than its sources. Only a C compiler is needed, ${CC:-cc}.
set -eu

if [ $# -ne 1 ]; then
    echo "usage: tools/fortran-library.sh DIRECTORY" >&2
    exit 2
fi
top=$(cd "$(dirname "$0")/.." && pwd)
into=$1
library=$into/libmpifort_abi.so
cc=${CC:-cc}
case $cc in *mpicc*) cc=cc ;; esac

if [ -f "$library" ] && [ -z "$(find "$top/fortran/library" "$top/include/mpi.h" "$0" -newer "$library")" ]; then
    exit 0
fi
objects=$(mktemp -d "$into/fortran.XXXXXX")
trap 'rm -rf "$objects"' EXIT

# In errors libmpi_abi names the procedure by the return addresses on the stack. So each procedure stays in
# one piece and on the stack. Compilers without the first option do not divide functions.
whole=-fno-reorder-blocks-and-partition
echo 'int main(void) { return 0; }' >"$objects/whole.c"
"$cc" -Werror "$whole" -c "$objects/whole.c" -o "$objects/whole.try" 2>/dev/null || whole=-O2

"$top/tools/fortran-sources.sh" "$top/fortran/library/abi" "$objects" |
    xargs -L 1 -P "$(getconf _NPROCESSORS_ONLN)" sh -c '"$0" -std=gnu11 -O2 "$2" -fno-optimize-sibling-calls -Wall -Wextra \
        -Wno-cast-function-type -Wno-deprecated-declarations -fPIC -I"$1/include" -I"$1/fortran/library" -I"$1/fortran/library/abi" -c "$3" -o "$4" "$5"' "$cc" "$top" "$whole"
# The name in the standard is mpifort_abi (MPI-5.0 §20.4.2).
# Functions are looked up when they are called: another libmpi_abi may lack some. The library finds libmpi_abi
# beside itself, unless LD_LIBRARY_PATH leads to another one.
"$cc" -shared -Wl,-z,lazy -Wl,-soname,libmpifort_abi.so.1 -Wl,--no-undefined -Wl,-rpath,'$ORIGIN' -Wl,--enable-new-dtags -o "$library.new" \
    "$objects"/*.o -L"$into" -lmpi_abi -pthread
mv -f "$library.new" "$library"
