#!/bin/sh
# make bench: measures Weft beside MPICH, Open MPI and Intel MPI, all in the same runs. Makes the page of this
# kind of machine from the figures (docs/performance-amd.md, docs/performance-intel.md). Adds the figures to
# the record docs/performance.jsonl, and makes docs/performance.md from it. Takes about fifteen minutes on
# two processors, and the time to fetch the peers. Where no virtual hosts can be made, it measures only one
# node.
set -eu
cd "$(dirname "$0")/.."
weft=build/prefix/bin/weft
runs=build/bench/$(date -u +%Y%m%d-%H%M%S)
mkdir -p "$runs"

# compare FILE ARGUMENT...: samples are kept also when the run is interrupted; then no charts are drawn from
# them.
compare() {
    file=$1
    shift
    "$weft" compare --fetch --output "$runs/$file.jsonl" "$@" >"$runs/$file.txt"
}

main="pingpong bandwidth bibandwidth rate sendrecv exchange halo barrier availability"
# shellcheck disable=SC2086 # a list of words
{
    compare 1-one-node $main --rounds 3 --limit 120
    compare 2-start launch --rounds 3 --ranks 2,64
    # Files are in the page cache of TMPDIR: at most 200 MB at a time, removed afterwards.
    compare 6-files file_write file_read file_write_all file_read_all --ranks 4 --rounds 2 --limit 60
    compare 7-files-availability file_availability --ranks 1 --rounds 2 --limit 60
    compare 8-files-open file_open --ranks 64 --rounds 2 --limit 60
    if why=$("$weft" hosts run --count 2 -- true 2>&1); then
        compare 9-start-eight-hosts launch --hosts 8 --ranks 64 --rounds 3
        compare 3-two-hosts $main --hosts 2 --rounds 3 --limit 120
        compare 4-shaped $main --hosts 2 --rate 10gbit --rounds 2 --sizes 8,64k,1m
        # Peers over TCP need seconds for a round trip at times: a job that does not end in time is reported.
        compare 5-loss $main --hosts 2 --loss 1% --rounds 2 --sizes 8,64k,1m --limit 20
    else
        echo "bench: two hosts are left out: $why" >&2
    fi
}
case $(sed -n 's/^vendor_id[^:]*: *//p' /proc/cpuinfo | head -n 1) in
AuthenticAMD) kind=amd ;;
GenuineIntel) kind=intel ;;
*) kind=$(uname -m) ;;
esac
# The page is made anew, and so are its charts.
rm -f "docs/performance-$kind"/*.svg
"$weft" report --markdown "docs/performance-$kind.md" "$runs"/*.jsonl
# Figures of a tree with changes belong to no commit.
if commit=$(git rev-parse --verify HEAD) && git diff --quiet HEAD -- crates bench Cargo.lock; then
    record=docs/performance.jsonl
    "$weft" report --record "$record" --commit "$commit" --counts tests/instructions/counts.json "$runs"/*.jsonl
    rm -f docs/performance/*.svg
    "$weft" report --history "$record"
else
    echo "bench: the performance record stays as it is: the tree is no commit" >&2
fi
