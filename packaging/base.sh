#!/bin/sh
# packaging/base.sh ARCHIVE PACKAGES: makes ARCHIVE, a Debian 12 with almost nothing on it: the least that
# Debian installs, and PACKAGES, with commas between. It needs root and the network, once. Nothing of it is
# left unpacked.
set -eu

if [ $# -ne 2 ]; then
    echo "usage: packaging/base.sh ARCHIVE PACKAGES" >&2
    exit 2
fi
PATH=$PATH:/usr/sbin:/sbin
archive=$(realpath -m "$1")
[ ! -e "$archive" ] || exit 0
mkdir -p "$(dirname "$archive")"
packages=$2

# The system is made in memory that goes with the namespace.
log=$archive.log
place=$(mktemp -d)
trap 'rmdir "$place"' EXIT
unshare --mount sh -euc '
    mount -t tmpfs -o mode=755 tmpfs "$3"
    debootstrap --variant=minbase --include="$1" bookworm "$3/base"
    cd "$3/base"
    rm -rf var/cache/apt/archives/*.deb var/lib/apt/lists/* usr/share/locale usr/share/doc var/log/*
    tar --numeric-owner -cf - . | gzip -1 >"$2.new"
' sh "$packages" "$archive" "$place" >"$log" 2>&1 || {
    tail -n 20 "$log" >&2
    echo "packaging/base.sh: debootstrap could not make a base system; is there a network?" >&2
    exit 1
}
mv "$archive.new" "$archive"
rm -f "$log"
