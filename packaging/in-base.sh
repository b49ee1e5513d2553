#!/bin/sh
# packaging/in-base.sh ARCHIVE DIRECTORY COMMAND [ARGUMENT...]: runs a command, as root of an empty Debian
# that is unpacked from ARCHIVE (packaging/base.sh) for this one command. It sees the files of DIRECTORY in
# /packages. The system lies in memory, in a namespace of its own, and is gone with the command and all that
# this has started.
set -eu

if [ $# -lt 3 ]; then
    echo "usage: packaging/in-base.sh ARCHIVE DIRECTORY COMMAND [ARGUMENT...]" >&2
    exit 2
fi
archive=$(realpath "$1")
directory=$(realpath "$2")
shift 2
place=$(mktemp -d)
trap 'rmdir "$place"' EXIT
unshare --mount --pid --fork --kill-child sh -euc '
    mount -t tmpfs -o mode=755 tmpfs "$3"
    cd "$3"
    tar --numeric-owner -xzf "$1"
    mkdir -p packages
    mount --bind "$2" packages
    mount -o remount,bind,ro packages
    mount -t proc proc proc
    mount --rbind /dev dev
    mount -t tmpfs -o mode=1777 tmpfs dev/shm
    mount --rbind /sys sys
    # Daemons are not started by packages.
    printf "#!/bin/sh\nexit 101\n" >usr/sbin/policy-rc.d
    chmod 755 usr/sbin/policy-rc.d
    echo "127.0.0.1 localhost $(cat /proc/sys/kernel/hostname)" >etc/hosts
    shift 3
    # Nothing of this session counts there.
    exec env -i PATH=/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin:/bin:/sbin HOME=/root LC_ALL=C.UTF-8 \
        DEBIAN_FRONTEND=noninteractive chroot . "$@"
' sh "$archive" "$directory" "$place" "$@"
