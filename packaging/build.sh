#!/bin/sh
# packaging/build.sh DIRECTORY: builds the programs from which all packages are made, into DIRECTORY.
#
# Two builds of one commit give the same bytes, wherever the sources and DIRECTORY lie and whoever builds:
# the compilers write the paths /weft and /crates in the place of the real ones.
set -eu

if [ $# -ne 1 ] || [ -z "$1" ]; then
    echo "usage: packaging/build.sh DIRECTORY" >&2
    exit 2
fi
top=$(cd "$(dirname "$0")/.." && pwd -P)
mkdir -p "$1"
into=$(cd "$1" && pwd -P)
home=${CARGO_HOME:-$HOME/.cargo}
PATH=$home/bin:$PATH
sysroot=$(rustc --print sysroot)

cd "$top"
cargo fetch --quiet --locked
# Registries have a directory of their own below registry/src, whose name says how they were reached. The last
# prefix that fits a path counts. The flags have a separator of their own, as paths may have blanks.
separator=$(printf '\037')
flags=--remap-path-prefix=$sysroot=/rust
for directory in "$home"/registry/src/*; do
    flags=$flags$separator--remap-path-prefix=$directory=/crates
done
flags=$flags$separator--remap-path-prefix=$top=/weft$separator--remap-path-prefix=$into/target=/target
export CARGO_ENCODED_RUSTFLAGS="$flags"
export CARGO_TARGET_DIR="$into/target" CARGO_PROFILE_RELEASE_DEBUG=false
export CARGO_INCREMENTAL=0
WEFT_COMMIT=$("$top/packaging/commit.sh")
export WEFT_COMMIT

cargo build --quiet --locked --release --package weft-library --package weft-launch --package weft-cli --package weft-netd
rm -f "$into/target/release/libmpifort_abi.so"
tools/fortran-library.sh "$into/target/release"

mkdir -p "$into/components"
python3 packaging/components.py "$into/components"
packaging/strip.sh "$into/target/release" "$into/programs"
for path in "$top" "$into" "$home" "$sysroot"; do
    if grep -lF "$path" "$into/programs"/* >&2; then
        echo "packaging/build.sh: these programs have the path $path of this machine in them" >&2
        exit 1
    fi
done
