#!/bin/sh
# packaging/strip.sh FROM INTO: copies the programs of a build from a directory into another one, without
# their symbols. mpiexec keeps those by which a debugger finds the ranks of a job (MPIR).
set -eu

if [ $# -ne 2 ]; then
    echo "usage: packaging/strip.sh FROM INTO" >&2
    exit 2
fi
mkdir -p "$2"
for file in libmpi_abi.so libmpifort_abi.so mpiexec weft weft-netd; do
    strip --strip-all --wildcard --keep-symbol='MPIR_*' -o "$2/$file.new" "$1/$file"
    chmod 755 "$2/$file.new"
    mv -f "$2/$file.new" "$2/$file"
done
