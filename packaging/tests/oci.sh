#!/bin/sh
# oci.sh IMAGE PROGRAM: unpacks an image in memory, in a namespace of its own, and runs PROGRAM there by
# mpiexec as the image's user, also on a worker that the image's ssh server plays. It needs root.
set -eu
image=$(realpath "$1")
program=$(realpath "$2")
place=$(mktemp -d)
trap 'rmdir "$place"' EXIT
unshare --mount --pid --net --fork --kill-child sh -euc '
    mount -t tmpfs -o mode=755 tmpfs "$3"
    cd "$3"
    mkdir image root
    tar -C image -xf "$1"
    # Names of blobs are their digests: each must be true, and the layer is the largest.
    (cd image/blobs/sha256 && for blob in *; do echo "$blob  $blob"; done | sha256sum --check --quiet)
    tar -C root --numeric-owner -xzf "$(ls -S image/blobs/sha256/* | head -n 1)"
    rm -r image
    ip link set lo up
    mount -t proc proc root/proc
    mount --rbind /dev root/dev
    mount -t tmpfs -o mode=1777 tmpfs root/dev/shm
    echo "127.0.0.1 localhost worker $(cat /proc/sys/kernel/hostname)" >root/etc/hosts
    cp "$2" root/home/mpiuser/program
    echo "
        set -eu
        cd
        mpiexec -n 2 ./program
        mkdir -p .ssh
        ssh-keygen -q -t ed25519 -N \"\" -f .ssh/id_rsa
        cp .ssh/id_rsa.pub .ssh/authorized_keys
        /usr/sbin/sshd -De -f .sshd_config 2>log &
        tries=0
        until ssh -o BatchMode=yes worker true 2>/dev/null; do
            tries=\$((tries + 1))
            [ \$tries -lt 100 ] || { cat log; exit 1; }
            sleep 0.1
        done
        WEFT_AGENT=\"ssh -o BatchMode=yes {host}\" mpiexec --hosts worker:2 -n 2 ./program
        weft doctor | tail -n 1
        echo \"the image runs programs, here and by its ssh server\"
    " >root/tmp/steps
    exec env -i PATH=/usr/bin:/usr/sbin:/bin:/sbin HOME=/home/mpiuser chroot --userspec=1000:1000 root sh /tmp/steps
' sh "$image" "$program" "$place"
