#!/bin/sh
# fortran-modules.sh [--install DIRECTORY | --key] COMPILER: prints the directory with Weft's modules `mpi`
# and `mpi_f08` for a Fortran compiler. Modules belong to one version of one compiler. Those of the compilers
# that were found at installation are below lib/weft/fortran; for others they are compiled into the user's
# cache at first use. With --install they are compiled into DIRECTORY instead. With --key the name of such a
# directory is printed, which is the compiler's version.
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
sources=$(cd "$(dirname "$0")" && pwd -P)
installed=$sources/../../../@LIB@/weft/fortran

# The compiler's version names the directory.
version=$($compiler --version 2>/dev/null | head -n 1)
if [ -z "$version" ]; then
    echo "the Fortran compiler $compiler does not say its version" >&2
    exit 1
fi
key=$(printf %s "$version" | tr -c 'A-Za-z0-9.\n' _)
if [ $only_key = yes ]; then
    echo "$key"
    exit
fi
case $version in
    GNU*) into_option=-J ;;
    *flang*) into_option='-module-dir ' ;;
    *) into_option='-module ' ;;
esac

# Several calls at the same time each compile, and the first one that is done counts.
compile() {
    directory=$1
    mkdir -p "${directory%/*}"
    work=$(mktemp -d "$directory.XXXXXX")
    for module in weft_mpi_base mpi mpi_f08; do
        (cd "$work" && $compiler -O2 -fPIC -c "$sources/$module.f90" ${into_option}. >log 2>&1) && continue
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
