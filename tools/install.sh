#!/bin/sh
# tools/install.sh PREFIX: puts Weft into PREFIX (under $DESTDIR, if that is set).
#
# The programs must have been built: `cargo build --release`. They are taken from $WEFT_BUILD, by default
# target/release; CARGO_TARGET_DIR is respected. The wrappers use ${CC:-cc} and ${CXX:-c++}, unless told otherwise.
# Files are replaced whole, never written into: programs that run with the old library keep it.
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

# put MODE SOURCE DESTINATION: a copy that appears all at once.
put() {
    install -m "$1" "$2" "$3.new.$$"
    mv -f "$3.new.$$" "$3"
}

# wrapper NAME LANGUAGE OPTION VARIABLE COMPILER
wrapper() {
    sed -e "s|@NAME@|$1|g" -e "s|@LANGUAGE@|$2|g" -e "s|@OPTION@|$3|g" -e "s|@VARIABLE@|$4|g" \
        -e "s|@COMPILER@|$5|g" -e "s|@VERSION@|$version|g" "$top/tools/mpicc.in" >"$into/bin/$1.text.$$"
    put 755 "$into/bin/$1.text.$$" "$into/bin/$1"
    rm -f "$into/bin/$1.text.$$"
}

put 755 "$build/libmpi_abi.so" "$into/lib/libmpi_abi.so.1.0.0"
ln -sfn libmpi_abi.so.1.0.0 "$into/lib/libmpi_abi.so.1"
ln -sfn libmpi_abi.so.1 "$into/lib/libmpi_abi.so"
# MPICH 5.0.0 and 5.0.1 linked programs against this name, with the same constants.
ln -sfn libmpi_abi.so.1 "$into/lib/libmpi_abi.so.0"
put 644 "$top/include/mpi.h" "$into/include/mpi.h"
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
wrapper mpicc C cc WEFT_CC "$cc"
wrapper mpicxx C++ cxx WEFT_CXX "$cxx"
ln -sfn mpicxx "$into/bin/mpic++"
ln -sfn mpicxx "$into/bin/mpiCC"
mkdir -p "$into/share/weft"
put 644 "$top/tools/wireshark/weft.lua" "$into/share/weft/weft.lua"
sed "s|@VERSION@|$version|g" "$top/tools/weft.pc.in" >"$into/lib/pkgconfig/weft.pc"
echo "Weft $version is in $into"
