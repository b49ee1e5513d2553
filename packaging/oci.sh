#!/bin/sh
# packaging/oci.sh BUILD DIRECTORY: makes an OCI image in DIRECTORY: a small Debian 12 with mpiexec, weft, the
# library and an ssh server that an ordinary user runs, as Kubernetes' MPI Operator wants it. No daemon is
# needed, but root, debootstrap, and the network the first time.
#
# The layer has no logs, caches, keys or times of its own, so two builds on the same Debian give the same
# bytes.
set -eu

if [ $# -ne 2 ]; then
    echo "usage: packaging/oci.sh BUILD DIRECTORY" >&2
    exit 2
fi
cd "$(dirname "$0")/.."
build=$(cd "$1" && pwd -P)
mkdir -p "$2"
into=$(cd "$2" && pwd -P)
base=$PWD/build/base/image.tar.gz
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
SOURCE_DATE_EPOCH=$(packaging/date.sh)
export SOURCE_DATE_EPOCH
packaging/base.sh "$base" openssh-client,openssh-server

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/debs" "$work/root"
packaging/deb.sh "$build" "$work/debs" >/dev/null
unshare --mount sh -euc '
    mount -t tmpfs -o mode=755 tmpfs "$1/root"
    cd "$1/root"
    tar --numeric-owner -xzf "$2"
    cp "$1"/debs/libweft-mpi-abi1_*.deb "$1"/debs/weft-mpi-bin_*.deb tmp
    chroot . sh -euc "dpkg --install /tmp/*.deb && useradd --create-home --uid 1000 mpiuser"
    rm tmp/*.deb

    # The launcher reaches workers at this port. The operator mounts the same pair of keys into all pods of a
    # job, and names of pods come and go, so keys of hosts are not compared.
    printf "%s\n" "Host *" "    Port 2222" "    StrictHostKeyChecking no" "    UserKnownHostsFile /dev/null" \
        "    LogLevel ERROR" >etc/ssh/ssh_config.d/mpi-operator.conf
    # The server of an ordinary user: the mounted key is its own key too, and Secrets have modes that ssh
    # would refuse.
    printf "%s\n" "Port 2222" "PidFile none" "HostKey /home/mpiuser/.ssh/id_rsa" "StrictModes no" "UsePAM no" \
        >home/mpiuser/.sshd_config
    mkdir -p run/sshd

    # What is of this day or this machine.
    rm -rf etc/ssh/ssh_host_* etc/machine-id etc/*- etc/hostname etc/resolv.conf var/log/* var/cache/* var/lib/apt/* \
        var/lib/dpkg/*-old var/backups/* usr/share/man usr/share/info usr/share/locale tmp/*
    find usr/share/doc ! -type d ! -name copyright -delete
    sed -i -E "s/^([^:]*:[^:]*):[0-9]+:/\1:$((SOURCE_DATE_EPOCH / 86400)):/" etc/shadow
    tar --create --numeric-owner --sort=name --mtime="@$SOURCE_DATE_EPOCH" --format=gnu --exclude=./dev/* \
        --file "$1/layer.tar" .
' sh "$work" "$base" >"$work/log" 2>&1 || {
    tail -n 20 "$work/log" >&2
    exit 1
}
python3 packaging/oci.py "$work/layer.tar" "$version" "$into/weft-$version-oci.tar"
echo "$into/weft-$version-oci.tar"
