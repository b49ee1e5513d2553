#!/bin/sh
# A guest runs this script once it has a root. The guest gets a name, and on each of its networks an address
# and an RDMA device in software. Then it carries out the orders that come through the share.
# /mnt/share/setting has the settings that all guests share.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C
fail() { echo "guest: $*"; busybox poweroff -f; }

number=$(sed -n 's/.*weft\.guest=\([0-9]*\).*/\1/p' /proc/cmdline)
. /mnt/share/setting
# address INTERFACE NODE: the address of a guest on this network, with the length of its prefix.
address() {
    case $family$1 in
    40) echo "192.0.2.$2/24" ;;
    41) echo "198.51.100.$2/24" ;;
    *) echo "2001:db8:0:$1::$2/64" ;;
    esac
}
{
    echo '127.0.0.1 localhost'
    for i in $(seq "$guests"); do echo "$(address 0 "$i" | cut -d/ -f1) node$i"; done
} >/etc/hosts || fail "the root cannot be written"
busybox hostname "node$number"
busybox ip link set lo up
ulimit -l unlimited
for i in $(seq 0 $((interfaces - 1))); do
    # Without the second in which an address of IPv6 does not count yet: RoCE's addresses are made of it.
    echo 0 >"/proc/sys/net/ipv6/conf/eth$i/accept_dad"
    # An answer to who has an address comes from the interface that has it.
    echo 1 >"/proc/sys/net/ipv4/conf/eth$i/arp_ignore"
    { busybox ip address add "$(address "$i" "$number")" dev "eth$i" && busybox ip link set "eth$i" up; } || fail "there is no eth$i"
    rdma link add "$device$i" type "$device" netdev "eth$i" || fail "no device $device$i could be made; is the package iproute2 installed?"
done
exec "$xtask" guest serve "/mnt/share/node$number"
