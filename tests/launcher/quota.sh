#!/bin/sh
# usage: quota.sh COMMAND [ARGUMENT…]
#
# Runs the command in a control group that may use one and a half processors, and removes the group. Says so
# where no such group can be made.
period=100000
quota=150000
group=
for root in /sys/fs/cgroup/cpu /sys/fs/cgroup/cpu,cpuacct /sys/fs/cgroup; do
    own=$root/weft-suite-$$
    mkdir "$own" 2>/dev/null || continue
    if { echo $period >"$own/cpu.cfs_period_us" && echo $quota >"$own/cpu.cfs_quota_us"; } 2>/dev/null \
        || echo "$quota $period" 2>/dev/null >"$own/cpu.max"; then
        group=$own
        break
    fi
    rmdir "$own"
done
[ -n "$group" ] || { echo 'no control group to be had'; exit 0; }
sh -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$group" "$@"
code=$?
rmdir "$group"
exit $code
