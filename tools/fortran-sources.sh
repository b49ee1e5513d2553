#!/bin/sh
# tools/fortran-sources.sh DIRECTORY OBJECTS: prints the sources of a library for Fortran: those that all such
# libraries have, and those of DIRECTORY. Each is a line with its object in OBJECTS and an option of the
# compiler. Sources of procedures are compiled twice, for mpi_x_ and for pmpi_x_ (fortran/library/fortran.h).
set -eu

if [ $# -ne 2 ]; then
    echo "usage: tools/fortran-sources.sh DIRECTORY OBJECTS" >&2
    exit 2
fi
top=$(cd "$(dirname "$0")/.." && pwd)
for source in "$top"/fortran/library/*.c "$1"/*.c; do
    name=$(basename "$source" .c)
    echo "$source $2/$name.o -UWEFT_PROFILING"
    case $name in
        calls_* | special) echo "$source $2/$name.profiling.o -DWEFT_PROFILING" ;;
    esac
done
