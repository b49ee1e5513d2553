#!/bin/sh
# oci.sh IMAGE PROGRAMS WORKER LAUNCHER OPENMPI: unpacks an image in memory, in a namespace of its own, and
# runs jobs there as the image's user: hello by mpiexec, also on a worker that the image's ssh server plays,
# and the jobs of examples/kubernetes. PROGRAMS is a directory with hello and ring. WORKER is the command of
# the workers' pods, LAUNCHER and OPENMPI are those of the launchers' pods in ring.yaml and
# ring-openmpi.yaml. It needs root.
set -eu
image=$(realpath "$1")
programs=$(realpath "$2")
worker=$3
launcher=$4
openmpi=$5
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
    # The names of all pods lead to the one server, and the operator mounts the list of them.
    for job in ring ring-openmpi; do
        echo "127.0.0.1 $job-worker-0.$job.default.svc $job-worker-1.$job.default.svc"
    done >>root/etc/hosts
    mkdir root/etc/mpi
    chown 1000:1000 root/etc/mpi
    cp "$2/hello" "$2/ring" root/home/mpiuser
    echo "
        set -eu
        cd
        mpiexec -n 2 ./hello
        mkdir -p .ssh
        ssh-keygen -q -t ed25519 -N \"\" -f .ssh/id_rsa
        cp .ssh/id_rsa.pub .ssh/authorized_keys
        $4 2>log &
        tries=0
        until ssh -o BatchMode=yes worker true 2>/dev/null; do
            tries=\$((tries + 1))
            [ \$tries -lt 100 ] || { cat log; exit 1; }
            sleep 0.1
        done
        WEFT_AGENT=\"ssh -o BatchMode=yes {host}\" mpiexec --hosts worker:2 -n 2 ./hello
        weft doctor | tail -n 1
        echo \"the image runs programs, here and by its ssh server\"
        # What the operator prepares for MPICH, and for Open MPI.
        for pod in 0 1; do echo ring-worker-\$pod.ring.default.svc:2; done >/etc/mpi/hostfile
        env HYDRA_HOST_FILE=/etc/mpi/hostfile HYDRA_LAUNCH_EXTRA_ARGS=\"-o ConnectionAttempts=10\" $5
        for pod in 0 1; do echo ring-openmpi-worker-\$pod.ring-openmpi.default.svc slots=2; done >/etc/mpi/hostfile
        env OMPI_MCA_orte_keep_fqdn_hostnames=true OMPI_MCA_orte_default_hostfile=/etc/mpi/hostfile \\
            OMPI_MCA_plm_rsh_args=\"-o ConnectionAttempts=10\" OMPI_MCA_orte_set_default_slots=2 $6
    " >root/tmp/steps
    exec env -i PATH=/usr/bin:/usr/sbin:/bin:/sbin HOME=/home/mpiuser chroot --userspec=1000:1000 root sh /tmp/steps
' sh "$image" "$programs" "$place" "$worker" "$launcher" "$openmpi"
