#!/bin/sh
# usage: tools/mpi4py.sh PREFIX Builds mpi4py from PyPI's source distribution, unmodified, with
# PREFIX/bin/mpicc, into build/mpi4py/site; its tests are in build/mpi4py/source/test. Nothing is done when
# that was built with the same headers and mpicc.
set -eu
cd "$(dirname "$0")/.."
version=4.1.2
prefix=$(cd "$1" && pwd)
home=$PWD/build/mpi4py
python=build/venv/bin/python
export PIP_DISABLE_PIP_VERSION_CHECK=1

fail() { printf 'mpi4py: %s\n' "$*" >&2; exit 1; }
[ -x "$prefix/bin/mpicc" ] || fail "there is no $prefix/bin/mpicc"

# Suites run side by side, and several of them ask for it: one builds, and the others find it built.
mkdir -p "$home"
exec 9>"$home/lock"
flock 9

# The build may be moved together with the prefix, which it finds from where it lies.
lib=$(realpath -m --relative-to="$home/site/mpi4py" "$prefix/lib")
key=$(cat "$prefix/include/mpi.h" "$prefix/include/mpi-ext.h" "$prefix/bin/mpicc" tools/requirements.txt "$0" | sha256sum | cut -d' ' -f1)
if [ "$(cat "$home/key" 2>/dev/null || true)" != "$key $lib" ]; then
    archive=$home/mpi4py-$version.tar.gz
    if [ ! -f "$archive" ]; then
        $python -m pip download -q --no-deps --no-binary mpi4py --no-build-isolation -d "$home" "mpi4py==$version" \
            >"$home/log" 2>&1 || { tail -n 20 "$home/log" >&2; fail "PyPI's source distribution could not be had"; }
    fi
    rm -rf "$home/source" "$home/site"
    mkdir "$home/source"
    tar -xzf "$archive" -C "$home/source" --strip-components=1
    # mpi4py looks for recovery from failures only where a library says that it is Open MPI: it is told.
    recovery='-include mpi-ext.h'
    for name in ERR_REVOKED ERR_PROC_FAILED ERR_PROC_FAILED_PENDING Comm_revoke Comm_is_revoked Comm_get_failed \
        Comm_ack_failed Comm_agree Comm_iagree Comm_shrink Comm_ishrink; do
        recovery="$recovery -DPyMPI_HAVE_MPIX_$name=1"
    done
    # Without optimization the one large file compiles in a quarter of the time. MPI's own speed stays the
    # same.
    LDFLAGS="-Wl,-rpath,\$ORIGIN/$lib" CFLAGS="-O0 -g0 $recovery" MPICC="$prefix/bin/mpicc" $python -m pip install -q --no-deps --no-build-isolation --no-cache-dir \
        --target "$home/site" "$archive" >"$home/log" 2>&1 || { tail -n 40 "$home/log" >&2; fail "it did not build"; }
    printf '%s' "$key $lib" >"$home/key"
fi
module=$(echo "$home"/site/mpi4py/MPI.*.so)
readelf -d "$module" | grep -q 'NEEDED.*\[libmpi_abi\.so\.1\]' || fail "$module does not need libmpi_abi.so.1"
printf 'mpi4py is ready: %s, linked with %s\n' "$(basename "$module")" \
    "$(ldd "$module" | sed -n 's/.*libmpi_abi\.so\.1 => \([^ ]*\).*/\1/p')"
