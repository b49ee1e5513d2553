#!/bin/sh
# A cluster of Slurm on virtual hosts, until standard input ends: each host but the last is a node, and the
# last one has the controller, as the host where users log in. Prints `ready` when all nodes are idle.
#
# usage: weft hosts run --count NODES+1 -- tests/slurm/cluster.sh DIRECTORY
#
# DIRECTORY is made, holds the configuration (slurm.conf), the key and socket of MUNGE, and the logs, and is
# removed at the end. It may hold a daemon's files only, so it must not exist. Nodes are named n0, n1 and so
# on, which only nodes can resolve; each has its own /dev/shm.
set -u
directory=$1
head=${WEFT_HOSTS##*,}
nodes=$(echo "${WEFT_HOSTS%,*}" | tr , ' ')
# The time for all nodes to report to the controller, in tenths of a second.
limit=300

# Daemons keep nothing outside of the directory, so they need no time to end.
finish() {
    trap '' EXIT HUP INT TERM
    for pid in $daemons; do
        kill -KILL "$pid" 2>/dev/null && wait "$pid" 2>/dev/null
    done
    rm -rf "$directory"
}
daemons=
mkdir "$directory" || exit 1
trap finish EXIT
trap 'exit 130' HUP INT TERM
# Programs of any user on the nodes reach the socket of MUNGE.
chmod 711 "$directory"
mkdir "$directory/state" "$directory/log"
head -c 1024 /dev/urandom >"$directory/munge.key"
chmod 400 "$directory/munge.key"

address=0
{
    echo '127.0.0.1 localhost'
    for host in $nodes; do
        echo "198.18.0.$((address + 1)) n$address"
        address=$((address + 1))
    done
} >"$directory/hosts"
count=$address
cat >"$directory/slurm.conf" <<END
ClusterName=weft
SlurmctldHost=$(cat /proc/sys/kernel/hostname)(198.18.0.$((count + 1)))
AuthType=auth/munge
AuthInfo=socket=$directory/munge.socket
SlurmUser=root
SlurmdUser=root
MailProg=/bin/true
StateSaveLocation=$directory/state
SlurmdSpoolDir=$directory/spool-%n
TmpFS=$directory/tmp-%n
SlurmctldPidFile=$directory/slurmctld.pid
SlurmdPidFile=$directory/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0
MpiDefault=none
MpiParams=ports=12000-12999
ReturnToService=2
KillWait=2
MessageTimeout=30
END
# Slurm 22.05 looks for a hierarchy of cgroups even where nothing uses one.
printf 'CgroupPlugin=cgroup/v1\nCgroupMountpoint=%s\n' "$directory/cgroup" >"$directory/cgroup.conf"
address=0
for host in $nodes; do
    mkdir -m 755 "$directory/spool-n$address"
    mkdir -m 1777 "$directory/tmp-n$address"
    echo "NodeName=n$address NodeHostname=n$address NodeAddr=198.18.0.$((address + 1)) CPUs=64 RealMemory=1000"
    address=$((address + 1))
done >>"$directory/slurm.conf"
echo 'PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP' >>"$directory/slurm.conf"
SLURM_CONF=$directory/slurm.conf
export SLURM_CONF

# on HOST LOG COMMAND…: starts a daemon on a host.
on() {
    host=$1 log=$directory/log/$2
    shift 2
    ip netns exec "$host" "$@" >"$log" 2>&1 </dev/null &
    daemons="$! $daemons"
}
on "$head" munged munged --foreground --key-file="$directory/munge.key" --socket="$directory/munge.socket" \
    --pid-file="$directory/munged.pid" --log-file="$directory/log/munged.log" --seed-file="$directory/munge.seed" --force
waited=0
while [ ! -S "$directory/munge.socket" ] && [ "$waited" -lt "$limit" ]; do
    sleep 0.1
    waited=$((waited + 1))
done
on "$head" slurmctld slurmctld -D
address=0
for host in $nodes; do
    on "$host" "n$address" unshare --mount --uts sh -c '
        mount --bind "$1/hosts" /etc/hosts && mount -t tmpfs -o mode=1777 tmpfs /dev/shm && hostname "$2" &&
            exec slurmd -D -N "$2"' sh "$directory" "n$address"
    address=$((address + 1))
done
idle() { ip netns exec "$head" sinfo --noheader --Node --format=%T 2>/dev/null | grep -c '^idle$'; }
while [ "$(idle)" != "$count" ] && [ "$waited" -lt "$limit" ]; do
    sleep 0.1
    waited=$((waited + 1))
done
if [ "$(idle)" != "$count" ]; then
    echo "the nodes do not report to the controller:" && tail -n 5 "$directory"/log/*
    exit 1
fi
echo ready
cat >/dev/null
