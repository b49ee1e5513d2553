#!/bin/sh
# tools/faces.sh DIRECTORY: builds the faces into DIRECTORY/faces, unless they are newer than their
# sources: libmpi.so.12 and libmpi.so.40, and for Fortran libmpifort.so.12 and libmpi_mpifh.so.40.
# DIRECTORY has libmpi_abi.so. Only a C compiler is needed, ${CC:-cc}.
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
trap 'rm -rf "${objects:-}"' EXIT

# is_new LIBRARY DIRECTORY…: the library is newer than all files there.
is_new() {
    library=$1
    shift
    [ -f "$library" ] && [ -z "$(find "$@" "$top/include/mpi.h" "$0" -newer "$library")" ]
}

# compile OPTION…: reads lines of a source, an object, and an option.
compile() {
    options=$*
    export options
    xargs -L 1 -P "$(getconf _NPROCESSORS_ONLN)" sh -c 'source=$1 object=$2 option=$3; shift 3
        "$0" -std=gnu11 -O2 -Wall -Wextra -Wno-cast-function-type -Wno-deprecated-declarations -fPIC \
            "$option" $options -c "$source" -o "$object"' "$cc"
}

# link NAME OPTION…: the library finds others that were installed with it, whatever LD_LIBRARY_PATH says:
# a face knows what is in handles and statuses of its libmpi_abi.
link() {
    name=$1
    shift
    "$cc" -shared -Wl,-soname,"$name" -Wl,--no-undefined -Wl,--disable-new-dtags -Wl,--no-as-needed \
        -o "$into/$name.new" "$objects"/*.o "$@" -pthread -ldl
    mv -f "$into/$name.new" "$into/$name"
    rm -rf "$objects"
}

# face ABI NAME
face() {
    ! is_new "$into/$2" "$top/faces/library" "$top/faces/$1" || return 0
    objects=$(mktemp -d "$into/objects.XXXXXX")
    for source in "$top"/faces/library/*.c "$top/faces/$1"/*.c; do
        echo "$source $objects/$(basename "$source" .c).o -fvisibility=hidden"
    done |
        compile -I"$top/include" -I"$top/faces/library" -I"$top/faces/$1"
    link "$2" -Wl,-z,now -Wl,-rpath,'$ORIGIN/../..' -L"${into%/faces}" -lmpi_abi
}

# Other spellings of the names of Fortran: those of other compilers, those that the other library's
# modules use for procedures of mpi_f08, and those of Intel's compiler for procedures of a module.
spellings() {
    nm --defined-only --extern-only "$objects"/*.o | awk -v abi="$1" '
        function also(name) { if (!(name in known)) { known[name] = 1; print name " = " $3 ";" } }
        NF == 3 { known[$3] = 1; names[++count] = $3 }
        END {
            for (i = 1; i <= count; i++) {
                $3 = names[i]
                if (match($3, /^__[a-z0-9_]*_MOD_/)) {
                    module = substr($3, 3, RLENGTH - 7)
                    also(module "_mp_" substr($3, RLENGTH + 1) "_")
                } else if ($3 ~ /^p?mpi_[a-z0-9_]*_f08(ts)?_$/) {
                    if (abi == "mpich") {
                        other = $3
                        sub(/^pmpi/, "pmpir", other)
                        also(other)
                        if (other ~ /_c_f08/) {
                            large = other
                            sub(/_c_f08/, "_f08", large)
                            also(large "large_")
                        }
                    }
                } else if ($3 ~ /^p?mpi_[a-z0-9_]*_$/) {
                    base = substr($3, 1, length($3) - 1)
                    also(base)
                    also(base "__")
                    also(toupper(base))
                    if (base ~ /_fn(_null|_null_c)?$/ && base ~ /^mpi/) {
                        also("__mpi_f08_callbacks_MOD_" base)
                        also("mpi_f08_callbacks_mp_" base "_")
                    }
                    if (abi == "openmpi") {
                        also(base "_f08_")
                    }
                }
            }
        }'
}

# fortran ABI NAME FACE
fortran() {
    ! is_new "$into/$2" "$top/fortran/library" "$top/faces/fortran" "$top/faces/$1" || return 0
    objects=$(mktemp -d "$into/objects.XXXXXX")
    "$top/tools/fortran-sources.sh" "$top/faces/$1/fortran" "$objects" |
        compile -ffunction-sections -I"$top/faces/$1/fortran" -I"$top/faces/fortran" -I"$top/faces/$1" -I"$top/fortran/library"
    spellings "$1" >"$objects/spellings.ld"
    # Functions are looked up when they are called: the library runs over the other MPI, too, and older
    # versions of it lack some.
    link "$2" -Wl,-z,lazy -Wl,--gc-sections -Wl,--strip-all -Wl,-rpath,'$ORIGIN' "$objects/spellings.ld" "$into/$3"
}

face mpich libmpi.so.12
face openmpi libmpi.so.40
fortran mpich libmpifort.so.12 libmpi.so.12
fortran openmpi libmpi_mpifh.so.40 libmpi.so.40
