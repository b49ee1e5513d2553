#!/bin/sh
# Installs what is missing on a Debian 12 machine, and nothing that is there already:
# Debian packages (as root; otherwise it says what to type), Rust, and Python packages in build/venv.
# `setup.sh tests` adds what only tests use: a browser, for the pages of `weft report`, tshark, for captured packets, and valgrind,
# which counts instructions. They do without what cannot be had.
set -eu
cd "$(dirname "$0")/.."

say() { printf 'setup: %s\n' "$*"; }
have() { command -v "$1" >/dev/null 2>&1; }

# --- Debian packages -------------------------------------------------------------------------------------------------
missing=
need() { missing="$missing $1"; }
have gcc || need gcc
have g++ || need g++
echo 'int main(void){return 0;}' | { have gcc && gcc -x c -o /dev/null - 2>/dev/null; } || need libc6-dev
have cmake || need cmake
have curl || need "curl ca-certificates"
have pkg-config || need pkg-config
have ip && have tc || need iproute2
have nft || need nftables
have ethtool || need ethtool
if ! have python3; then
    need "python3 python3-venv python3-dev"
else
    python3 -c 'import ensurepip, venv' 2>/dev/null || need python3-venv
    python3 -c 'import os, sysconfig; os.stat(sysconfig.get_path("include") + "/Python.h")' 2>/dev/null || need python3-dev
fi
if [ -n "$missing" ]; then
    if [ "$(id -u)" != 0 ]; then
        say "please install what is missing, then run it again:  sudo apt-get install -y$missing" >&2
        exit 1
    fi
    say "installing$missing"
    export DEBIAN_FRONTEND=noninteractive
    # shellcheck disable=SC2086 # a list of words
    apt-get update -q >/dev/null && apt-get install -q -y --no-install-recommends $missing >/dev/null || {
        say "apt-get could not install$missing; is there a network?" >&2
        exit 1
    }
fi

# for_tests PACKAGE: installs what some tests are skipped without.
for_tests() {
    if [ "$(id -u)" != 0 ]; then
        say "without $1 some tests are skipped; to have it:  sudo apt-get install -y $1"
    else
        say "installing $1"
        export DEBIAN_FRONTEND=noninteractive
        { apt-get update -q && apt-get install -q -y --no-install-recommends "$1"; } >/dev/null ||
            say "apt-get could not install $1: some tests are skipped"
    fi
}
if [ "${1:-}" = tests ]; then
    have chromium || have chromium-browser || have google-chrome || for_tests chromium
    have tshark || for_tests tshark
    have valgrind || for_tests valgrind
fi

# --- Rust ------------------------------------------------------------------------------------------------------------
PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"
wanted=$(sed -n 's/^rust-version = "\([0-9.]*\)"/\1/p' Cargo.toml)
# Whether there is a Rust that is new enough; `version` is the one that is there.
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
    # Debian's own packages are no way out: Debian 12 has 1.63.
    if ! rust_is_there; then
        say "Rust $wanted or newer could not be installed (found: ${version:-none}); if https://sh.rustup.rs cannot be" >&2
        say "reached from here, install Rust another way, so that \`cargo\` is in PATH, and run this again" >&2
        exit 1
    fi
fi

# --- Python packages -------------------------------------------------------------------------------------------------
# The mark holds what was installed, so that the second run needs no network.
mark=build/venv/requirements
if ! cmp -s tools/requirements.txt "$mark"; then
    say "making build/venv with $(grep -c == tools/requirements.txt) Python packages"
    rm -rf build/venv
    mkdir -p build
    python3 -m venv build/venv
    build/venv/bin/python -m pip install -q --disable-pip-version-check -r tools/requirements.txt
    cp tools/requirements.txt "$mark"
fi
