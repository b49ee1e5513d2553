#!/bin/sh
# make bench-auto: measures Weft between two virtual hosts with all carriers and with one alone, in turns.
# Fails where the choice of the carrier (WEFT_LINK=auto) is more than 5 % slower than the best single carrier,
# quiet and beside a program that keeps a processor busy. Takes about five minutes on two processors.
set -eu
cd "$(dirname "$0")/.."
weft=build/prefix/bin/weft
runs=build/bench/auto-$(date -u +%Y%m%d-%H%M%S)
mkdir -p "$runs"
stranger=
trap '[ -z "$stranger" ] || kill "$stranger"' EXIT
compare() {
    "$weft" compare pingpong bandwidth sendrecv --hosts 2 --no-carriers --rounds 7 --limit 60 \
        --sizes 8,64,1k,4k,16k,64k,256k,1m,4m \
        --library weft,weft:WEFT_LINK=udp,weft:WEFT_LINK=tcp --output "$runs/$1.jsonl"
}
compare quiet
(while :; do :; done) &
stranger=$!
compare stranger
kill "$stranger"
stranger=
"$weft" report --bar --output "$runs/auto.html" "$runs/quiet.jsonl" "$runs/stranger.jsonl"
