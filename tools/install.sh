#!/bin/sh
# tools/install.sh PREFIX: puts Weft into PREFIX (under $DESTDIR, if that is set).
#
# $LIBDIR and $INCLUDEDIR name the directories of libraries and headers below PREFIX, by default lib and
# include. $FORTRAN_COMPILERS lists the Fortran compilers for which modules are compiled, by default all that
# are found; `none` compiles none.
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
lib=${LIBDIR:-lib}
include=${INCLUDEDIR:-include}
libraries=$into/$lib
headers=$into/$include
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$top/Cargo.toml" | head -n 1)

for file in libmpi_abi.so mpiexec weft weft-netd; do
    if [ ! -f "$build/$file" ]; then
        echo "tools/install.sh: $build/$file is missing; run \`cargo build --release\` first" >&2
        exit 1
    fi
done

mkdir -p "$into/bin" "$into/sbin" "$libraries/pkgconfig" "$into/lib/systemd/system" "$into/lib/weft/faces" "$headers"

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
    sed -e "s|@NAME@|$name|g" -e "s|@VERSION@|$version|g" -e "s|@LIB@|$lib|g" -e "s|@INCLUDE@|$include|g" "$@" \
        "$template" >"$into/bin/$name.text.$$"
    put 755 "$into/bin/$name.text.$$" "$into/bin/$name"
    rm -f "$into/bin/$name.text.$$"
}

# wrapper NAME LANGUAGE OPTION PATTERNS VARIABLES COMPILER IS_FORTRAN
wrapper() {
    script mpicc.in "$1" -e "s/@LANGUAGE@/$2/g" -e "s/@OPTION@/$3/g" -e "s/@ALSO@/$4/g" -e "s/@VARIABLES@/$5/g" -e "s|@COMPILER@|$6|g" -e "s/@FORTRAN@/$7/g"
}

put 755 "$build/libmpi_abi.so" "$libraries/libmpi_abi.so.1.0.0"
ln -sfn libmpi_abi.so.1.0.0 "$libraries/libmpi_abi.so.1"
ln -sfn libmpi_abi.so.1 "$libraries/libmpi_abi.so"
# MPICH 5.0.0 and 5.0.1 linked programs against this name, with the same constants.
ln -sfn libmpi_abi.so.1 "$libraries/libmpi_abi.so.0"
put 644 "$top/include/mpi.h" "$headers/mpi.h"
put 644 "$top/include/mpi-ext.h" "$headers/mpi-ext.h"
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

# Libraries for programs that were linked with other MPI libraries. Only mpiexec and `weft run` lead to them.
"$top/tools/faces.sh" "$build"
for name in libmpi.so.12 libmpifort.so.12 libmpi.so.40 libmpi_mpifh.so.40; do
    put 755 "$build/faces/$name" "$into/lib/weft/faces/$name"
done
# Debian's names of MPICH's libraries. Open MPI has libraries of their own for the modules.
ln -sfn libmpi.so.12 "$into/lib/weft/faces/libmpich.so.12"
ln -sfn libmpifort.so.12 "$into/lib/weft/faces/libmpichfort.so.12"
ln -sfn libmpi_mpifh.so.40 "$into/lib/weft/faces/libmpi_usempif08.so.40"
ln -sfn libmpi_mpifh.so.40 "$into/lib/weft/faces/libmpi_usempi_ignore_tkr.so.40"

# Fortran: the library needs only a C compiler. The modules are compiled for each Fortran compiler that is
# found; mpifort compiles them for others when it is first called. Without a Fortran compiler it says so.
"$top/tools/fortran-library.sh" "$build"
put 755 "$build/libmpifort_abi.so" "$libraries/libmpifort_abi.so.1.0.0"
ln -sfn libmpifort_abi.so.1.0.0 "$libraries/libmpifort_abi.so.1"
ln -sfn libmpifort_abi.so.1 "$libraries/libmpifort_abi.so"
put 644 "$top/fortran/include/mpif.h" "$headers/mpif.h"
mkdir -p "$into/share/weft/fortran" "$libraries/weft/fortran"
for file in "$top"/fortran/modules/*.f90; do
    put 644 "$file" "$into/share/weft/fortran/${file##*/}"
done
cat "$top"/fortran/modules/* "$top/fortran/include/mpif.h" | cksum | tr ' ' - >"$into/share/weft/fortran/checksum"
put 644 "$top/fortran/modules/kinds" "$into/share/weft/fortran/kinds"
sed -e "s|@LIB@|$lib|g" -e "s|@INCLUDE@|$include|g" "$top/tools/fortran-modules.sh" >"$into/share/weft/fortran/text.$$"
put 755 "$into/share/weft/fortran/text.$$" "$into/share/weft/fortran/fortran-modules.sh"
rm -f "$into/share/weft/fortran/text.$$"
fc=${FC:-}
case $fc in *mpif*) fc= ;; esac
keys=
for compiler in $(
    case ${FORTRAN_COMPILERS:-} in
        none) exit ;;
        ?*) echo "$FORTRAN_COMPILERS" && exit ;;
    esac
    echo "$fc"
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
    if key=$("$into/share/weft/fortran/fortran-modules.sh" --install "$libraries/weft/fortran" "$compiler"); then
        [ -n "$fc" ] || fc=$compiler
        [ -n "$keys" ] || modules=$key
        keys="$keys $key"
    fi
done
variables='WEFT_FC MPICH_FC OMPI_FC I_MPI_FC'
wrapper mpifort Fortran fc ' | -f90=* | -f77=*' "$variables" "${fc:-gfortran}" yes
wrapper mpif90 Fortran fc ' | -f90=* | -f77=*' "$variables MPICH_F90 I_MPI_F90" "${fc:-gfortran}" yes
wrapper mpif77 Fortran fc ' | -f90=* | -f77=*' "$variables MPICH_F77 OMPI_F77 I_MPI_F77" "${fc:-gfortran}" yes
# description FILE: writes a file for pkg-config, which finds the prefix from its own place.
description() {
    sed -e "s|@VERSION@|$version|g" -e "s|@MODULES@|${modules:-}|g" -e "s|@LIB@|$lib|g" -e "s|@INCLUDE@|$include|g" \
        -e "s|@UP@|$(echo "$lib" | sed 's|[^/][^/]*|..|g')/..|g" "$top/tools/$1.in" >"$libraries/pkgconfig/$1"
}
description weft-fort.pc
if [ -z "$keys" ]; then
    # Without a Fortran compiler there are no modules to name.
    sed -i -e '/oduledir=/d' -e '/^# Modules/d' -e 's| -I${moduledir}||' -e 's|-L${moduledir} -lweft_mpi_modules ||' \
        "$libraries/pkgconfig/weft-fort.pc"
fi
ln -sfn weft-fort.pc "$libraries/pkgconfig/mpi-fort.pc"

ln -sfn mpicxx "$into/bin/mpic++"
ln -sfn mpicxx "$into/bin/mpiCC"

# The manual, and the completion of shells. page NAME SECTION WHAT: makes a page of what --help says.
"$build/weft" manual "$into/share"
mkdir -p "$into/share/man/man8"
page() {
    awk -v name="$1" -v section="$2" -v what="$3" -v version="$version" '
        function text(line) {
            gsub(/\\/, "\\e", line)
            gsub(/-/, "\\-", line)
            return (line ~ /^[.\047]/ ? "\\\&" : "") line
        }
        BEGIN {
            printf ".TH %s %s \"\" \"Weft %s\" \"Weft\047s manual\"\n", name, section, version
            printf ".SH NAME\n%s \\- %s\n", text(name), text(what)
        }
        /^usage: / { printf ".SH SYNOPSIS\n%s\n", text(substr($0, 8)); next }
        !described { print ".SH DESCRIPTION"; described = 1 }
        /^  -/ && match(substr($0, 3), /  +/) {
            line = substr($0, 3)
            printf ".TP\n\\fB%s\\fR\n%s\n", text(substr(line, 1, RSTART - 1)), text(substr(line, RSTART + RLENGTH))
            next
        }
        /^$/ { blank = 1; next }
        { if (blank) print ".PP"; blank = 0; sub("^" name ": ", ""); print text($0) }
    ' >"$into/share/man/man$2/$1.$2.new"
    mv -f "$into/share/man/man$2/$1.$2.new" "$into/share/man/man$2/$1.$2"
}
"$build/weft-netd" --help | page weft-netd 8 'hands packet sockets to MPI jobs without the privilege'
"$into/bin/mpicc" -help | page mpicc 1 'compiles and links C programs that use MPI'
"$into/bin/mpicxx" -help | page mpicxx 1 'compiles and links C++ programs that use MPI'
for name in mpifort mpif90 mpif77; do
    "$into/bin/$name" -help | page "$name" 1 'compiles and links Fortran programs that use MPI'
done
ln -sfn mpicxx.1 "$into/share/man/man1/mpic++.1"
ln -sfn mpicxx.1 "$into/share/man/man1/mpiCC.1"
ln -sfn mpiexec.1 "$into/share/man/man1/mpirun.1"
mkdir -p "$into/share/weft"
put 644 "$top/tools/wireshark/weft.lua" "$into/share/weft/weft.lua"
put 644 "$top/tools/weft-gdb.py" "$into/share/weft/weft-gdb.py"
description weft.pc
# The files for pkg-config.
for name in mpi mpi-c mpi-cxx mpich; do
    ln -sfn weft.pc "$libraries/pkgconfig/$name.pc"
done
echo "Weft $version is in $into"
