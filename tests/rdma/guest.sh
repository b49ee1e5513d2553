#!/bin/sh
# What a guest does once it has a root: a name, a network, and one device of RDMA in software. Then it does what it is told through the share.
# /mnt/share/setting says what is the same in all guests.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C
fail() { echo "guest: $*"; busybox poweroff -f; }

number=$(sed -n 's/.*weft\.guest=\([0-9]*\).*/\1/p' /proc/cmdline)
. /mnt/share/setting
{
    echo '127.0.0.1 localhost'
    for i in $(seq "$guests"); do echo "192.0.2.$i node$i"; done
} >/etc/hosts || fail "the root cannot be written"
busybox hostname "node$number"
busybox ip link set lo up
# Without the second in which an address of IPv6 does not count yet: RoCE's addresses are made of it.
echo 0 >/proc/sys/net/ipv6/conf/eth0/accept_dad
{ busybox ip address add "192.0.2.$number/24" dev eth0 && busybox ip link set eth0 up; } || fail "there is no eth0"
ulimit -l unlimited
rdma link add "${device}0" type "$device" netdev eth0 || fail "no device $device could be made; is the package iproute2 installed?"
exec "$xtask" guest serve "/mnt/share/node$number"
