#!/bin/sh
# make bench-multicast: measures broadcasts by each scheme of multicast and down trees, on eight virtual hosts
# and in simulation, and makes docs/book/multicast/ from the figures. Takes about seven minutes on two
# processors. It makes charts as SVG, which the book shows, and as PNG. Where no virtual hosts can be made,
# only the simulation runs.
set -eu
cd "$(dirname "$0")/.."
weft=build/prefix/bin/weft
book=docs/book/multicast
runs=build/bench/multicast-$(date -u +%Y%m%d-%H%M%S)
mkdir -p "$runs"

# The measurements of the paper: latency and throughput by size, then the time in the call where receivers
# come late by up to this number of microseconds.
bench() {
    file=$1
    shift
    "$weft" bench --limit 120 --output "$runs/$file.jsonl" "$@" >"$runs/$file.txt"
}
if why=$("$weft" hosts run --count 2 -- true 2>&1); then
    # The cost of one packet to all for the system, beside packets down a tree, without MPI.
    "${CC:-cc}" -O2 -o "$runs/wakeups" bench/wakeups.c
    # shellcheck disable=SC2016 # The hosts' shell knows them.
    "$weft" hosts run --count 8 -- sh -c '"$0" -n 8 -ppn 1 --hosts "$WEFT_HOSTS" --agent "$WEFT_AGENT" "$1"' \
        "${weft%/weft}/mpiexec" "$runs/wakeups" | tee "$runs/wakeups.txt"
    bench 1-schemes multicast --rounds 3 --sizes 4,64,512,1836,8k,64k,256k,1m --samples 10 --seconds 0.05
    for skew in 0 100 400; do
        for at in root receivers; do
            bench "2-skew-$skew-$at" multicast-skew --rounds 2 --sizes 4,1836,16k --samples 6 --seconds 0.03 -- --skew-us "$skew" --at "$at"
        done
    done
    "$weft" report "$runs"/*.jsonl --charts "$book" --markdown "$runs/multicast.md"
    # The runs are in the order of their names, which say what the runs show.
    for kind in svg png; do
        mv "$book"/run-1-bcast-throughput-*."$kind" "$book/throughput.$kind"
        mv "$book"/run-1-bcast-*."$kind" "$book/latency.$kind"
        run=2
        for skew in 0 100 400; do
            for at in receivers root; do
                mv "$book/run-$run"-*."$kind" "$book/skew-$skew-$at.$kind"
                run=$((run + 1))
            done
        done
    done
    "$weft" report "$runs"/*.jsonl --json >"$runs/multicast.json"
else
    echo "bench-multicast: hosts are left out: $why" >&2
fi
"$weft" simulate bcast --charts "$book" >"$runs/simulated.txt"
echo "tables: $runs/multicast.md, $runs/wakeups.txt, $runs/simulated.txt; figures for programs: $runs/multicast.json; charts: $book"
