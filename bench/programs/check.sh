#!/bin/sh
# check.sh PREFIX [MPIEXEC [ARGUMENT...]]: checks that every program here builds with PREFIX/bin/mpicc without
# a warning, and with 2 and 4 ranks prints only lines that are JSON and valid. MPIEXEC is PREFIX/bin/mpiexec
# when it is not given. PROGRAMS="a b" checks only some; CLASS=S is the class of the NAS kernels; RANKS="2 4"
# is the default; CC is the compiler driver when it is not PREFIX/bin/mpicc. Programs that end with status 0
# but say that the library lacks a feature count as skipped, and are named at the end.
set -eu
[ $# -ge 1 ] || { echo "usage: $0 PREFIX [MPIEXEC [ARGUMENT...]]" >&2; exit 2; }
prefix=$1
shift
[ $# -ge 1 ] || set -- "$prefix/bin/mpiexec"
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
failed=0
skipped=
attempts_max=10

# Short runs: the check is that the programs work, not what they measure.
options() {
    case $1 in
    startup | memory) ;;
    waitcpu) echo --seconds 0.1 --samples 1 ;;
    get_computing) echo --iterations 10 --compute 0.1 --samples 2 ;;
    barrier) echo --seconds 0.005 --samples 2 ;;
    rate) echo --seconds 0.005 --samples 2 --window 8 ;;
    # Where ranks take turns with other programs, an iteration may take ten thousand times as long.
    availability) echo --seconds 0.0002 --samples 1 --sizes 8,64k ;;
    file_open) echo --seconds 0.005 --samples 2 ;;
    file_availability) echo --samples 1 --sizes 64k ;;
    file_*) echo --seconds 0.005 --samples 2 --sizes 64,1000,64k --bytes 128k ;;
    nas_is | nas_cg) echo --class "${CLASS:-S}" --samples 1 ;;
    *) echo --seconds 0.005 --samples 2 --sizes 8,1000,64k --window 8 ;;
    esac
}

# Prints one sentence about FILE: why it is not what the program NAME with RANKS ranks should print. Prints
# nothing when it is right.
judge() {
    python3 - "$@" <<'PYTHON'
import json, sys
path, name, ranks = sys.argv[1:]
lines = open(path).read().splitlines()
if not lines:
    sys.exit("no line at all")
for line in lines:
    try:
        sample = json.loads(line, parse_constant=lambda word: sys.exit(f"{word} is not JSON: {line}"))
    except ValueError as error:
        sys.exit(f"not JSON ({error}): {line}")
    if sample["measurement"] not in (name, name + "_sample"):
        sys.exit(f"measurement is not {name}: {line}")
    if sample["ranks"] != int(ranks):
        sys.exit(f"ranks is not {ranks}: {line}")
    for field in ("size", "unit", "value", "valid"):
        if field not in sample:
            sys.exit(f"no {field}: {line}")
    # A sample that complains of a busy machine says nothing about the program.
    if sample["valid"] is not True and sample.get("why", "").startswith("disturbed: "):
        print(sample["why"])
        sys.exit(78)
    if sample["valid"] is not True:
        print(sample.get("why", "no reason given"))
        sys.exit(77 if sample["value"] is None else line)
    if not isinstance(sample["value"], (int, float)):
        sys.exit(f"no value: {line}")
PYTHON
}

# collective_times prints lines for `weft tune`, and is tested with it.
programs=${PROGRAMS:-$(cd "$here" && ls *.c | sed 's/\.c$//' | grep -v -x -e common -e collective_times)}
for name in $programs; do
    "${CC:-$prefix/bin/mpicc}" -std=c99 -O2 -Wall -Wextra -Werror -o "$work/$name" "$here/$name.c" "$here/common.c" -lm \
        || { echo "$name: does not build"; failed=1; continue; }
    for ranks in ${RANKS:-2 4}; do
        attempt=0
        # On a busy machine a run is repeated, until one is undisturbed.
        while attempt=$((attempt + 1)); do
            status=0
            # shellcheck disable=SC2046 # options are words without spaces
            timeout 120 "$@" -n "$ranks" "$work/$name" $(options "$name") >"$work/out" 2>"$work/err" </dev/null \
                || status=$?
            verdict=0
            judge "$work/out" "$name" "$ranks" >"$work/verdict" 2>&1 || verdict=$?
            [ "$verdict" = 78 ] && [ "$attempt" -lt "$attempts_max" ] || break
        done
        if [ "$status" = 0 ] && [ "$verdict" = 77 ]; then
            skipped="$skipped $name"
            echo "$name, $ranks ranks: skipped: $(cat "$work/verdict")"
        elif [ "$status" != 0 ] || [ "$verdict" != 0 ]; then
            failed=1
            echo "$name, $ranks ranks: FAILED (status $status): $(cat "$work/verdict")"
            head -n 5 "$work/err"
        else
            echo "$name, $ranks ranks: $(wc -l <"$work/out") lines"
        fi
    done
done
[ -z "$skipped" ] || echo "skipped:$skipped"
[ $failed = 0 ] && echo "all right" || { echo "something failed"; exit 1; }
