#!/bin/sh
# deb-in-base.sh: installs the Debian packages in /packages on an empty system (packaging/in-base.sh), uses
# them, upgrades them, and removes and purges them: what is there then was there before. It needs no network.
set -eu
cd /root
fail() {
    echo "deb-in-base.sh: $*" >&2
    exit 1
}
# apt ARGUMENT...: runs apt-get quietly.
apt() { apt-get -q -y --no-install-recommends "$@" >log 2>&1 || fail "apt-get $*: $(tail -n 30 log)"; }
# Everything but what apt, dpkg and ldconfig keep for themselves, and the backups of the files of groups.
files() {
    find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /packages -o -path /tmp -o -path /root \
        -o -path /var/log -o -path /var/lib/dpkg -o -path /var/lib/apt -o -path /var/cache \) -prune \
        -o -path '/etc/*-' -o -print | sort
    sort /etc/group
}

files >before
began=$(date +%s%N)
apt install /packages/*.deb
mpicc -O2 -o hello /packages/examples/hello.c
mpiexec -n 2 ./hello >said
echo "installed, and hello from two ranks: $((($(date +%s%N) - began) / 1000000)) ms"
use() {
    [ "$(mpirun -n 2 ./hello | grep -c 'of 2')" = 2 ] || fail "two ranks do not say hello"
    mpicc -O2 -o heat /packages/examples/heat.c -lm
    mpiexec -n 4 ./heat >said || fail "heat: $(cat said)"
    cat >modules.f90 <<EOF
program modules
  use mpi_f08
  integer :: rank
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Finalize()
end program
EOF
    mpifort -o modules modules.f90 2>said || fail "mpifort: $(cat said)"
    mpiexec -n 2 ./modules
    [ ! -d /root/.cache/weft ] || fail "the installed modules were compiled once more"
    # shellcheck disable=SC2046 # lists of words
    cc -o by-pkg-config /packages/examples/hello.c $(pkg-config --cflags --libs mpi-c) || fail "pkg-config mpi-c"
    weft info >said || fail "weft info: $(head -n 20 said)"
    weft doctor >said || fail "weft doctor: $(tail -n 20 said)"
    grep -q ' 0 faults' said || fail "weft doctor: $(tail -n 20 said)"
    getent group weft >/dev/null || fail "weft-netd has made no group weft"
}
use
for name in mpirun mpi "mpi-$(gcc -print-multiarch)"; do
    update-alternatives --query "$name" >said || fail "there is no alternative $name"
done

# The same packages with a higher version, as if something had changed.
for package in /packages/*.deb; do
    name=${package##*/}
    version=$(dpkg-deb -f "$package" Version)
    dpkg-deb -R "$package" "${name%.deb}"
    sed -i -E "/^(Version|Depends|Pre-Depends):|^ lib/s/$version/$version+1/g" "${name%.deb}/DEBIAN/control"
    mkdir -p newer
    dpkg-deb --root-owner-group -b "${name%.deb}" newer >/dev/null
    rm -rf "${name%.deb}"
done
apt install ./newer/*.deb
[ "$(dpkg-query -W -f '${Version}' weft-mpi-bin)" = "$version+1" ] || fail "the upgrade did not upgrade"
use
echo 'used, upgraded, and used again'

apt remove 'libweft-*' 'weft-*'
# Only this one has scripts that run after it has been removed.
dpkg --purge weft-netd >log 2>&1 || fail "purge: $(cat log)"
[ ! -e /usr/bin/mpicc ] && [ ! -e /usr/bin/mpirun ] || fail "an alternative is left"
files >after
cmp -s before after || fail "this is not as it was before: $(diff before after)"
echo 'removed and purged: nothing is left'
