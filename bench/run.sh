#!/bin/sh
# make bench: start-up and latency beside MPICH, on one node and, for root, on two hosts.
set -eu
cd "$(dirname "$0")/.."
set -- build/venv/bin/python bench/skeleton.py "$@"
if [ "$(id -u)" = 0 ] && build/prefix/bin/weft hosts run -- true 2>/dev/null; then
    exec build/prefix/bin/weft hosts run --count 2 -- "$@"
fi
exec "$@"
