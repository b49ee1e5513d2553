#!/bin/sh
# spack.sh SOURCES DIRECTORY: lets the Spack in PATH build Weft from SOURCES, by the package there, into a
# store in DIRECTORY, compiles a program by the installed wrapper, runs it, and removes the package.
#
# Spack's own packages are those that it is set up with. Compilers, Rust, make and Python are this machine's.
# The settings of the user, and what Spack has installed, are neither read nor changed.
set -eu

sources=$1
place=$(cd "$2" && pwd -P)
package=$sources/packaging/spack/spack_repo/weft
path() { command -v "$1" || { echo "spack.sh: $1 is missing" >&2 && exit 1; }; }
prefix() { dirname "$(dirname "$(readlink -f "$(path "$1")")")"; }

mkdir -p "$place/settings"
cat >"$place/settings/config.yaml" <<EOF
config:
  install_tree:
    root: $place/store
  build_stage: [$place/stage]
  source_cache: $place/sources
  misc_cache: $place/misc
EOF
cat >"$place/settings/repos.yaml" <<EOF
repos:
  weft: $package
EOF
gcc=$(gcc -dumpfullversion)
cat >"$place/settings/packages.yaml" <<EOF
packages:
  gcc:
    externals:
    - spec: gcc@$gcc languages:='c,c++,fortran'
      prefix: $(prefix gcc)
      extra_attributes:
        compilers:
          c: $(path gcc)
          cxx: $(path g++)
          fortran: $(path gfortran)
    buildable: false
  gmake:
    externals:
    - spec: gmake@$(make --version | sed -n '1s/.* //p')
      prefix: $(prefix make)
    buildable: false
  rust:
    externals:
    - spec: rust@$(rustc --version | cut -d ' ' -f 2)
      prefix: $(rustc --print sysroot)
    buildable: false
EOF
export SPACK_USER_CACHE_PATH="$place/cache"
spack() { command spack -C "$place/settings" "$@"; }

# The sources of this tree in the place of those that the package would fetch.
spack install --no-cache "weft-mpi@main dev_path=$sources"
root=$(spack location --install-dir weft-mpi)
echo "installed into $root"
cd "$place"
"$root/bin/mpicc" -O2 -o hello "$sources/examples/hello.c"
"$root/bin/mpiexec" -n 2 ./hello
spack uninstall --yes-to-all weft-mpi
[ ! -e "$root" ] || { echo "spack.sh: $root is left" >&2 && exit 1; }
echo "and removed"
