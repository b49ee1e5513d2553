#!/bin/sh
# fortran-modules.sh [--install DIRECTORY | --key] COMPILER [OPTION…]: prints the directory with Weft's
# modules `mpi` and `mpi_f08` for a Fortran compiler, and for options that change the length of REAL: then an
# mpif.h for them is there, too. Modules belong to one version of one compiler. Those of the compilers that
# were found at installation are below lib/weft/fortran; for others they are compiled into the user's cache at
# first use. With --install they are compiled into DIRECTORY instead. With --key the name of such a directory
# is printed, which is the compiler's version.
set -eu

install=
only_key=no
if [ "${1:-}" = --key ]; then
    only_key=yes
    shift
fi
if [ "${1:-}" = --install ]; then
    install=$2
    shift 2
fi
compiler=$1
shift
options=$*
sources=$(cd "$(dirname "$0")" && pwd -P)
installed=$sources/../../../@LIB@/weft/fortran

# The compiler's version names the directory.
version=$($compiler --version 2>/dev/null | head -n 1)
if [ -z "$version" ]; then
    echo "the Fortran compiler $compiler does not say its version" >&2
    exit 1
fi
key=$(printf %s "$version${options:+ $options}" | tr -c 'A-Za-z0-9.\n' _)
if [ $only_key = yes ]; then
    echo "$key"
    exit
fi
case $version in
    GNU*) into_option=-J ;;
    *flang*) into_option='-module-dir ' ;;
    *) into_option='-module ' ;;
esac

# kind_of CONSTANT: prints the kind of a real constant with the options. Only the compiler knows it.
kind_of() {
    for kind in 4 8 10 16; do
        printf '%s\n' "integer, parameter :: is = 1 / merge(1, 0, kind($1) == $kind)" 'print *, is' end >kind.f90
        if $compiler $options -c kind.f90 >/dev/null 2>&1; then
            echo $kind
            return
        fi
    done
}

# adapt_mpif DIRECTORY: writes the mpif.h there, with the datatypes of these kinds. It cannot ask the compiler
# itself: `kind` may be a variable of the program.
adapt_mpif() {
    real=$(cd "$1" && kind_of 1.0)
    double=$(cd "$1" && kind_of 1d0)
    if [ -z "$real" ] || [ -z "$double" ]; then
        echo "$compiler does not know $options" >&2
        rm -rf "$1"
        return 1
    fi
    {
        sed -n "s/^\([A-Z0-9_]*\) REAL $real \(.*\)/s|(\1=[0-9]*)|(\1=\2)|/p" "$sources/kinds"
        sed -n "s/^\([A-Z0-9_]*\) DOUBLE $double \(.*\)/s|(\1=[0-9]*)|(\1=\2)|/p" "$sources/kinds"
        # What these functions return stays as long as it is.
        echo 's/DOUBLE PRECISION/REAL(8)/'
    } >"$1/kind.sed"
    sed -f "$1/kind.sed" "$sources/../../../@INCLUDE@/mpif.h" >"$1/mpif.h"
}

# Several calls at the same time each compile, and the first one that is done counts.
compile() {
    directory=$1
    mkdir -p "${directory%/*}"
    work=$(mktemp -d "$directory.XXXXXX")
    [ -z "$options" ] || adapt_mpif "$work" || return 1
    for module in weft_mpi_base mpi mpi_f08; do
        (cd "$work" && $compiler $options -O2 -fPIC -c "$sources/$module.f90" ${into_option}. >log 2>&1) && continue
        # The module mpi_f08 takes more of a compiler than the others do: gfortran has it from version 12 on.
        if [ $module = mpi_f08 ]; then
            why=$(grep -i -m 1 error "$work/log" || tail -n 1 "$work/log")
            echo "programs for $compiler can use mpif.h and the module mpi; it cannot compile mpi_f08: $why" >&2
            rm -f "$work/$module.o" "$work/$module.mod"
            continue
        fi
        echo "$compiler cannot compile Weft's module $module:" >&2
        grep -i error "$work/log" | head -n 3 >&2
        rm -rf "$work"
        return 1
    done
    rm -f "$work"/kind.*
    ar rc "$work/libweft_mpi_modules.a" "$work"/*.o
    rm -f "$work"/*.o "$work/log"
    chmod 755 "$work"
    if [ -d "$directory" ] || ! mv -T "$work" "$directory" 2>/dev/null; then
        rm -rf "$work"
    fi
}

if [ -n "$install" ]; then
    rm -rf "${install:?}/$key"
    compile "$install/$key"
    echo "$key"
elif [ -d "$installed/$key" ]; then
    cd "$installed/$key" && pwd -P
else
    # Modules of other sources are other modules.
    cache=${XDG_CACHE_HOME:-$HOME/.cache}/weft/fortran/$(cat "$sources/checksum")
    if [ ! -d "$cache/$key" ]; then
        compile "$cache/$key"
        echo "compiled Weft's Fortran modules for $compiler ($version) into $cache/$key" >&2
    fi
    echo "$cache/$key"
fi
