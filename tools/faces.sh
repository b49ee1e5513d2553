#!/bin/sh
# tools/faces.sh DIRECTORY: builds the faces, libmpi.so.12 and libmpi.so.40, into DIRECTORY/faces, unless they
# are newer than their sources. DIRECTORY has libmpi_abi.so. Only a C compiler is needed, ${CC:-cc}.
set -eu

if [ $# -ne 1 ]; then
    echo "usage: tools/faces.sh DIRECTORY" >&2
    exit 2
fi
top=$(cd "$(dirname "$0")/.." && pwd)
into=$1/faces
cc=${CC:-cc}
case $cc in *mpicc*) cc=cc ;; esac
mkdir -p "$into"

# face ABI SONAME
face() {
    library=$into/$2
    if [ -f "$library" ] && [ -z "$(find "$top/faces" "$top/include/mpi.h" "$0" -newer "$library")" ]; then
        return
    fi
    objects=$(mktemp -d "$into/objects.XXXXXX")
    trap 'rm -rf "$objects"' EXIT
    for source in "$top"/faces/library/*.c "$top/faces/$1"/*.c; do
        echo "$source $objects/$(basename "$source" .c).o"
    done |
        xargs -L 1 -P "$(getconf _NPROCESSORS_ONLN)" sh -c '"$0" -std=gnu11 -O2 -Wall -Wextra -Wno-cast-function-type \
            -Wno-deprecated-declarations -fvisibility=hidden -fPIC -I"$1/include" -I"$1/faces/library" \
            -I"$1/faces/$2" -c "$3" -o "$4"' "$cc" "$top" "$1"
    # The face finds the libmpi_abi that was installed with it, whatever LD_LIBRARY_PATH says: it knows
    # what is in handles and statuses of that one.
    "$cc" -shared -Wl,-soname,"$2" -Wl,--no-undefined -Wl,-z,now -Wl,-rpath,'$ORIGIN/../..' -Wl,--disable-new-dtags \
        -Wl,--no-as-needed -o "$library.new" "$objects"/*.o -L"${into%/faces}" -lmpi_abi -pthread -ldl
    mv -f "$library.new" "$library"
    rm -rf "$objects"
    trap - EXIT
}

face mpich libmpi.so.12
face openmpi libmpi.so.40
