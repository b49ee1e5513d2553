#!/bin/sh
# wheel.sh WHEEL EXAMPLES [ARCHIVES]: tries a wheel in the empty directory in which it is called: in a virtual
# environment, moved, read-only and as --user, with programs of EXAMPLES, and removes it. With ARCHIVES, a
# directory with mpi4py's source and what builds it, also mpi4py. It needs no network.
set -eu
wheel=$1
examples=$2
archives=${3:-}
fail() {
    echo "wheel.sh: $*" >&2
    exit 1
}
# seconds SINCE: the seconds since that time in nanoseconds.
seconds() { echo "$(($(date +%s%N) - $1))" | sed -E 's/^(.*)(.)........$/\1.\2/; s/^\./0./'; }

python3 -m venv venv
find venv ! -type d | sort >before
began=$(date +%s%N)
venv/bin/pip install -q --no-index "$wheel"
own=$PATH
PATH=$PWD/venv/bin:$own
mpicc -O2 -o hello "$examples/hello.c"
mpiexec -n 2 ./hello >said
echo "installed, and hello from two ranks: $(seconds "$began") s"
[ "$(grep -c 'of 2' said)" = 2 ] || fail "two ranks do not say hello: $(cat said)"
[ "$(mpirun -n 3 ./hello | wc -l)" = 3 ] || fail "mpirun does not start three ranks"
mpicc -O2 -o heat "$examples/heat.c" -lm
mpiexec -n 4 ./heat >said || fail "heat: $(cat said)"
weft info >said || fail "weft info: $(head -n 20 said)"
grep -q "$PWD/venv/lib/libmpi_abi.so.1" said || fail "weft info does not find the library: $(cat said)"
grep -q '^weft [0-9]' <<EOF || fail "weft --version"
$(weft --version)
EOF
weft doctor >said || fail "weft doctor: $(tail -n 20 said)"
grep -q ' 0 faults' said || fail "weft doctor: $(tail -n 20 said)"
for page in man1/mpiexec.1 man1/mpicc.1 man1/weft-info.1 man5/weft.conf.5; do
    [ -s "venv/share/man/$page" ] || fail "there is no page $page"
done

if [ -n "$archives" ]; then
    # Newer versions of pip build in environments of their own, for which there is no network.
    pip install -q --no-index --find-links "$archives" cython setuptools wheel
    CFLAGS='-O0 -g0' MPICC=$PWD/venv/bin/mpicc pip install -q --no-index --no-build-isolation \
        --find-links "$archives" --no-binary mpi4py mpi4py 2>log || fail "mpi4py: $(tail -n 20 log)"
    mpiexec -n 2 python -m mpi4py.bench helloworld >said
    [ "$(grep -c 'I am process [01] of 2' said)" = 2 ] || fail "mpi4py: $(cat said)"
    pip uninstall -q -y mpi4py cython setuptools wheel
    echo 'mpi4py, built from source, says hello from two ranks'
    rm -rf venv
    python3 -m venv venv
    find venv ! -type d | sort >before
    pip install -q --no-index "$wheel"
fi

# The tree may be moved, and nobody writes into it.
cp -R venv moved
chmod -R a-w moved
PATH=$PWD/moved/bin:$own
mpicc -O2 -o moved-hello "$examples/hello.c"
mv venv away
[ "$(mpiexec -n 2 ./moved-hello | wc -l)" = 2 ] || fail "a copy of the tree does not work without the first one"
mv away venv
chmod -R u+w moved
rm -rf moved

PATH=$PWD/venv/bin:$own
pip uninstall -q -y weft-mpi
# pip leaves empty directories.
find venv -name __pycache__ -prune -o ! -type d -print | sort >after
grep -v __pycache__ before | comm -13 - after >left || true
[ ! -s left ] || fail "pip uninstall leaves $(cat left)"

python3 -m venv --system-site-packages open
PYTHONUSERBASE=$PWD/user open/bin/pip install -q --no-index --user "$wheel"
PATH=$PWD/user/bin:$own
mpicc -O2 -o users-hello "$examples/hello.c"
[ "$(mpiexec -n 2 ./users-hello | wc -l)" = 2 ] || fail "--user does not work"
echo 'installed with --user, moved, read-only, and removed'
