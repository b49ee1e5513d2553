#!/bin/sh
# check.sh: checks that the carriers build without a warning, and print only JSON lines that are valid: on one
# host, and, beside virtual hosts (weft hosts run --count 2 -- bench/carriers/check.sh), between two. A
# carrier that ends with 77 (no privilege, no support) is named as skipped.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
failed=0
cc -std=gnu11 -O2 -Wall -Wextra -Werror -o "$work/carrier" "$here"/*.c -lm

# judge NAME STATUS: checks the content of $work/out.
judge() {
    if [ "$2" = 77 ]; then
        echo "$1: skipped: $(cat "$work/err")"
        return
    fi
    if [ "$2" = 0 ] && python3 - "$work/out" <<'PYTHON'
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
wrong = [line for line in lines if line["valid"] is not True or not isinstance(line["value"], (int, float))]
sys.exit(f"not valid: {wrong[0]}" if wrong else 0 if lines else "no line at all")
PYTHON
    then
        echo "$1: $(wc -l <"$work/out") lines"
    else
        failed=1
        echo "$1: FAILED (status $2)"
        cat "$work/err"
    fi
}

short="--samples 2 --seconds 0.01"
for name in shared-memory memcpy process-vm-readv udp udp-offload packet; do
    status=0
    # shellcheck disable=SC2086 # options are words without spaces
    timeout 60 "$work/carrier" "$name" $short >"$work/out" 2>"$work/err" || status=$?
    judge "$name" $status
done

if [ -n "${WEFT_HOSTS:-}" ]; then
    one=${WEFT_HOSTS%%,*}
    two=${WEFT_HOSTS##*,}
    for name in udp udp-offload packet xdp; do
        to=any
        case $name in udp*) to=198.18.0.1 ;; esac
        status=0
        served=0
        # shellcheck disable=SC2086
        timeout 60 ip netns exec "$one" "$work/carrier" "$name" --server any --interface e0 $short 2>"$work/server" &
        server=$!
        # shellcheck disable=SC2086
        timeout 60 ip netns exec "$two" "$work/carrier" "$name" --client "$to" --interface e0 $short >"$work/out" 2>"$work/err" || status=$?
        wait $server || served=$?
        if [ $status = 0 ] && [ $served != 0 ]; then
            status=$served
            cat "$work/server" >>"$work/err"
        fi
        judge "$name between two hosts" $status
        [ -z "${SHOW:-}" ] || cat "$work/out"
    done
else
    echo "between two hosts: skipped: none are named by WEFT_HOSTS"
fi
[ $failed = 0 ] && echo "all right" || { echo "something failed"; exit 1; }
