#!/bin/sh
# tools/install.sh PREFIX: puts Weft into PREFIX (under $DESTDIR, if that is set).
#
# The programs must have been built: `cargo build --release`. They are taken from $WEFT_BUILD, by default
# target/release; CARGO_TARGET_DIR is respected. The wrappers use ${CC:-cc} and ${CXX:-c++}, unless told
# otherwise. Files are replaced whole, never written into: programs that run with the old library keep it.
set -eu

if [ $# -ne 1 ] || [ -z "$1" ] || [ "${1#-}" != "$1" ]; then
    echo "usage: tools/install.sh PREFIX" >&2
    exit 2
fi
top=$(cd "$(dirname "$0")/.." && pwd)
build=${WEFT_BUILD:-${CARGO_TARGET_DIR:-$top/target}/release}
case $1 in
    /*) prefix=$1 ;;
    *) prefix=$PWD/$1 ;;
esac
into=${DESTDIR:-}$prefix
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$top/Cargo.toml" | head -n 1)

for file in libmpi_abi.so mpiexec weft weft-netd; do
    if [ ! -f "$build/$file" ]; then
        echo "tools/install.sh: $build/$file is missing; run \`cargo build --release\` first" >&2
        exit 1
    fi
done

mkdir -p "$into/bin" "$into/sbin" "$into/lib/pkgconfig" "$into/lib/systemd/system" "$into/include"

# put MODE SOURCE DESTINATION: makes a copy that appears all at once.
put() {
    install -m "$1" "$2" "$3.new.$$"
    mv -f "$3.new.$$" "$3"
}

# script TEMPLATE NAME [EXPRESSION...]: makes a program of a template by sed.
script() {
    template=$top/tools/$1
    name=$2
    shift 2
    sed -e "s|@NAME@|$name|g" -e "s|@VERSION@|$version|g" "$@" "$template" >"$into/bin/$name.text.$$"
    put 755 "$into/bin/$name.text.$$" "$into/bin/$name"
    rm -f "$into/bin/$name.text.$$"
}

# wrapper NAME LANGUAGE OPTION PATTERNS VARIABLES COMPILER IS_FORTRAN
wrapper() {
    script mpicc.in "$1" -e "s/@LANGUAGE@/$2/g" -e "s/@OPTION@/$3/g" -e "s/@ALSO@/$4/g" -e "s/@VARIABLES@/$5/g" -e "s|@COMPILER@|$6|g" -e "s/@FORTRAN@/$7/g"
}

put 755 "$build/libmpi_abi.so" "$into/lib/libmpi_abi.so.1.0.0"
ln -sfn libmpi_abi.so.1.0.0 "$into/lib/libmpi_abi.so.1"
ln -sfn libmpi_abi.so.1 "$into/lib/libmpi_abi.so"
# MPICH 5.0.0 and 5.0.1 linked programs against this name, with the same constants.
ln -sfn libmpi_abi.so.1 "$into/lib/libmpi_abi.so.0"
put 644 "$top/include/mpi.h" "$into/include/mpi.h"
put 644 "$top/include/mpi-ext.h" "$into/include/mpi-ext.h"
put 755 "$build/mpiexec" "$into/bin/mpiexec"
ln -sfn mpiexec "$into/bin/mpirun"
put 755 "$build/weft" "$into/bin/weft"
put 755 "$build/weft-netd" "$into/sbin/weft-netd"
put 644 "$top/tools/weft-netd.socket" "$into/lib/systemd/system/weft-netd.socket"
sed "s|@PREFIX@|$prefix|g" "$top/tools/weft-netd.service.in" >"$into/lib/systemd/system/weft-netd.service"
# A wrapper that calls itself would never end.
cc=${CC:-cc}
cxx=${CXX:-c++}
case $cc in *mpicc*) cc=cc ;; esac
case $cxx in *mpicxx* | *mpic++* | *mpiCC*) cxx=c++ ;; esac
wrapper mpicc C cc '' 'WEFT_CC MPICH_CC OMPI_CC I_MPI_CC' "$cc" no
wrapper mpicxx C++ cxx ' | -CC=*' 'WEFT_CXX MPICH_CXX OMPI_CXX I_MPI_CXX' "$cxx" no

# Fortran: the library needs only a C compiler. The modules are compiled for each Fortran compiler that is
# found; mpifort compiles them for others when it is first called. Without a Fortran compiler it says so.
"$top/tools/fortran-library.sh" "$build"
put 755 "$build/libmpifort_abi.so" "$into/lib/libmpifort_abi.so.1.0.0"
ln -sfn libmpifort_abi.so.1.0.0 "$into/lib/libmpifort_abi.so.1"
ln -sfn libmpifort_abi.so.1 "$into/lib/libmpifort_abi.so"
put 644 "$top/fortran/include/mpif.h" "$into/include/mpif.h"
mkdir -p "$into/share/weft/fortran" "$into/lib/weft/fortran"
for file in "$top"/fortran/modules/*.f90; do
    put 644 "$file" "$into/share/weft/fortran/${file##*/}"
done
cat "$top"/fortran/modules/*.f90 | cksum | tr ' ' - >"$into/share/weft/fortran/checksum"
put 755 "$top/tools/fortran-modules.sh" "$into/share/weft/fortran/fortran-modules.sh"
fc=${FC:-}
case $fc in *mpif*) fc= ;; esac
keys=
for compiler in $fc $(
    IFS=:
    for directory in $PATH; do
        for file in "$directory"/gfortran "$directory"/gfortran-[0-9]* "$directory"/flang "$directory"/flang-new \
            "$directory"/flang-new-[0-9]* "$directory"/flang-[0-9]*; do
            [ ! -x "$file" ] || echo "${file##*/}"
        done
    done
); do
    key=$("$into/share/weft/fortran/fortran-modules.sh" --key "$compiler") || continue
    case " $keys " in *" $key "*) continue ;; esac
    if key=$("$into/share/weft/fortran/fortran-modules.sh" --install "$into/lib/weft/fortran" "$compiler"); then
        [ -n "$fc" ] || fc=$compiler
        [ -n "$keys" ] || modules=$key
        keys="$keys $key"
    fi
done
variables='WEFT_FC MPICH_FC OMPI_FC I_MPI_FC'
wrapper mpifort Fortran fc ' | -f90=* | -f77=*' "$variables" "${fc:-gfortran}" yes
wrapper mpif90 Fortran fc ' | -f90=* | -f77=*' "$variables MPICH_F90 I_MPI_F90" "${fc:-gfortran}" yes
wrapper mpif77 Fortran fc ' | -f90=* | -f77=*' "$variables MPICH_F77 OMPI_F77 I_MPI_F77" "${fc:-gfortran}" yes
sed -e "s|@VERSION@|$version|g" -e "s|@MODULES@|${modules:-}|g" "$top/tools/weft-fort.pc.in" >"$into/lib/pkgconfig/weft-fort.pc"
if [ -z "$keys" ]; then
    # Without a Fortran compiler there are no modules to name.
    sed -i -e '/oduledir=/d' -e '/^# Modules/d' -e 's| -I${moduledir}||' -e 's|-L${moduledir} -lweft_mpi_modules ||' \
        "$into/lib/pkgconfig/weft-fort.pc"
fi
ln -sfn weft-fort.pc "$into/lib/pkgconfig/mpi-fort.pc"

ln -sfn mpicxx "$into/bin/mpic++"
ln -sfn mpicxx "$into/bin/mpiCC"
mkdir -p "$into/share/weft"
put 644 "$top/tools/wireshark/weft.lua" "$into/share/weft/weft.lua"
put 644 "$top/tools/weft-gdb.py" "$into/share/weft/weft-gdb.py"
sed "s|@VERSION@|$version|g" "$top/tools/weft.pc.in" >"$into/lib/pkgconfig/weft.pc"
# The files for pkg-config.
for name in mpi mpi-c mpi-cxx mpich; do
    ln -sfn weft.pc "$into/lib/pkgconfig/$name.pc"
done
echo "Weft $version is in $into"
