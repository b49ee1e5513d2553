#!/bin/sh
# usage: tools/mpi4py-wheel.sh: puts mpi4py as it is published into build/mpi4py-wheel/site. It has a module
# for the ABI of MPICH and one for that of Open MPI. Its tests, from the source distribution, are in
# build/mpi4py-wheel/source/test. Nothing is done when they are there.
set -eu
cd "$(dirname "$0")/.."
version=4.1.2
home=$PWD/build/mpi4py-wheel
python=build/venv/bin/python
export PIP_DISABLE_PIP_VERSION_CHECK=1

fail() { printf 'mpi4py: %s\n' "$*" >&2; exit 1; }
[ -x "$python" ] || fail "there is no $python; tools/setup.sh tests makes it"
mkdir -p "$home"
exec 9>"$home/lock"
flock 9
[ "$(cat "$home/version" 2>/dev/null || true)" != "$version" ] || exit 0

rm -rf "$home/site" "$home/source"
$python -m pip install -q --no-deps --only-binary :all: --no-cache-dir --target "$home/site" "mpi4py==$version" \
    >"$home/log" 2>&1 || { tail -n 5 "$home/log" >&2; fail "PyPI's wheel could not be had"; }
$python -m pip download -q --no-deps --no-binary mpi4py --no-build-isolation -d "$home" "mpi4py==$version" \
    >"$home/log" 2>&1 || { tail -n 5 "$home/log" >&2; fail "PyPI's source distribution could not be had"; }
mkdir "$home/source"
tar -xzf "$home/mpi4py-$version.tar.gz" -C "$home/source" --strip-components=1
printf '%s' "$version" >"$home/version"
