#!/bin/bash
# make demo: programs that others wrote run over Weft, between two hosts.
#
# The two hosts are network namespaces joined by a bridge (`weft hosts`), an ordinary user's in a user
# namespace. Where the kernel gives that user none, the hosts are two sets of ranks that treat each other as
# remote, over loopback. Afterwards everything that the demo made is gone, also after Ctrl-C.
set -eu -o pipefail
cd "$(dirname "$0")/.."
root=$PWD
prefix=$root/build/prefix

# Inside `weft hosts run` this script runs a second time, with the hosts' names in WEFT_HOSTS.
if [ -z "${DEMO_HOSTS:-}" ]; then
    if why=$("$prefix/bin/weft" hosts run --count 2 -- true 2>&1); then
        export DEMO_HOSTS='network namespaces'
        case $why in *'user namespace'*) DEMO_HOSTS="$DEMO_HOSTS in a user namespace, without root," ;; esac
        exec "$prefix/bin/weft" hosts run --count 2 -- "$root/demo/demo.sh"
    fi
    printf '%s\n' "$why" >&2
    export DEMO_HOSTS=loopback WEFT_HOSTS=h0,h1 WEFT_AGENT='env WEFT_NODE={host}'
fi

work=$root/build/demo
rm -rf "$work"
mkdir -p "$work"
lines=$work/steps
: >"$lines"
ended=0

# Ends a background job with everything it started: it has a process group of its own, see `start`.
stop() {
    [ -n "$1" ] || return 0
    kill -TERM -- "-$1" 2>/dev/null || true
    wait "$1" 2>/dev/null || true
}

start() {
    set -m
    "$@" &
    set +m
}

finish() {
    code=$?
    stop "${spinner:-}"
    stop "${job:-}"
    [ "$ended" = 1 ] || printf '\nThe demo ended early (%s).\n' "$code"
    exit "$code"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

if [ -t 1 ]; then bold=$(printf '\033[1m') plain=$(printf '\033[0m') terminal=1; else bold= plain= terminal=; fi

now() { date +%s.%N; }
since() { awk -v a="$1" -v b="$(now)" 'BEGIN { printf "%.1f", b - a }'; }

# Prints a dot every second where no cursor can be moved, and a running clock where one can.
spin() {
    seconds=0
    while sleep 1; do
        seconds=$((seconds + 1))
        if [ -n "$terminal" ]; then printf '\r   … %d s ' "$seconds"; else printf '.'; fi
    done
}

step() { number=$1 title=$2; printf '\n%s%s. %s%s\n' "$bold" "$number" "$title" "$plain"; step_began=$(now); }

# run NAME COMMAND…: runs the command with a sign of life, shows its output, and stops the demo when it fails.
run() {
    name=$1
    shift
    log=$work/$name.log
    start spin
    spinner=$!
    began=$(now) second=$SECONDS
    start "$@" >"$log" 2>&1
    job=$!
    code=0
    wait "$job" || code=$?
    job=
    stop "$spinner"
    spinner=
    if [ -n "$terminal" ]; then printf '\r\033[K'; elif [ "$SECONDS" -gt "$second" ]; then printf '\n'; fi
    if [ "$code" != 0 ]; then
        sed 's/^/   | /' "$log" | tail -n 40
        printf '   %s failed with exit code %s\n' "$name" "$code"
        exit 1
    fi
    # The statistics of --stats go to the table at the end.
    sed -n '/^from  *to  *link/,$p' "$log" >"$work/$name.stats"
    sed '/^from  *to  *link/,$d' "$log" | sed 's/^/   /' | tail -n "${show:-12}"
    printf '%s\t%s\t%s\n' "$number" "$name" "$(since "$began")" >>"$lines"
}

on_hosts() { # on_hosts RANKS PROGRAM…: half of the ranks on each host
    ranks=$1
    shift
    echo "   \$ mpiexec -n $ranks -ppn $((ranks / 2)) --hosts $WEFT_HOSTS $(echo "$*" | sed "s|$root/||g")" >&3
    "$prefix/bin/mpiexec" -n "$ranks" -ppn $((ranks / 2)) --hosts "$WEFT_HOSTS" --agent "$WEFT_AGENT" --stats "$@"
}
exec 3>&1

demo_began=$(now)
printf '%sWeft: two hosts, %s%s\n' "$bold" "$WEFT_HOSTS" "$plain"
if [ "$DEMO_HOSTS" = loopback ]; then
    echo '(two sets of ranks on this machine that treat each other as remote, over UDP on loopback)'
else
    echo "($DEMO_HOSTS joined by a bridge; ranks of different hosts meet over Ethernet and UDP)"
fi

step 1 "mpi4py, from PyPI's source distribution, built with Weft's mpicc, unmodified"
run build-mpi4py tools/mpi4py.sh "$prefix"
export PYTHONPATH="$root/build/mpi4py/site"
run helloworld on_hosts 4 "$root/build/venv/bin/python" -m mpi4py.bench helloworld
run ringtest on_hosts 4 "$root/build/venv/bin/python" -m mpi4py.bench ringtest -l 100 -n 4096

step 2 'heat: two-dimensional, from an image to an image'
"$prefix/bin/mpicc" -O2 -o "$work/heat" examples/heat.c
heat() { on_hosts 4 "$work/heat" --input examples/heat.pgm --output "$1" --steps 500; }
run heat heat build/demo/heat.png

step 3 "a program compiled by MPICH's mpicc_abi (PyPI mpich), not rebuilt"
build/venv/bin/mpicc_abi -O2 -o "$work/ring" examples/ring.c
readelf -d "$work/ring" | sed -n 's/.*\(NEEDED\|RUNPATH\|RPATH\).*\[\(.*\)\]/   ring: \1 \2/p' | grep -v libc.so | sed "s|$root/||"
on_weft() { export LD_LIBRARY_PATH=$prefix/lib; on_hosts "$@"; }
run ring-on-mpich build/venv/bin/mpiexec -n 4 "$work/ring"
run ring on_weft 4 "$work/ring"

step 4 'heat again: 5 % of the packets dropped, 1 % repeated, 1 % reordered'
bad_day() { export WEFT_FAULTS='drop=5%,duplicate=1%,reorder=1%,seed=2026'; heat "$1"; }
run heat-with-faults bad_day build/demo/heat-with-faults.png
cmp "$work/heat.png" "$work/heat-with-faults.png" && echo '   the two images are the same, byte for byte'

step 5 'What went where'
printf '   %-18s %-12s %6s %9s %9s %8s %8s\n' program link pairs messages bytes resends seconds
while IFS=$'\t' read -r number name seconds; do
    if [ -s "$work/$name.stats" ]; then
        awk -v name="$name" -v seconds="$seconds" '
            # The lines behind the table of pairs begin with words.
            $1 ~ /^[0-9]+$/ && $2 ~ /^[0-9]+$/ { pairs[$3]++; messages[$3] += $4; bytes[$3] += $5; resends[$3] += $6 }
            END { for (link in pairs) {
                printf "   %-18s %-12s %6d %9d %9d %8d %8s\n", name, link, pairs[link], messages[link], bytes[link], resends[link], seconds
                name = seconds = "" } }' "$work/$name.stats"
    else
        printf '   %-18s %-12s %6s %9s %9s %8s %8s\n' "$name" '' '' '' '' '' "$seconds"
    fi
done <"$lines"
printf '   %-18s %57s\n' 'the whole demo' "$(since "$demo_began")"
grep -Eq '[[:space:]+](udp|ethernet|xdp)[[:space:]+]' "$work/heat.stats" || { echo '   nothing went over a network: these were not two hosts'; exit 1; }
printf '\nEach pair of ranks is in build/demo/*.stats, the image in build/demo/heat.png.\n'
ended=1
