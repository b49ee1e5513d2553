#!/bin/sh
# tools/fuzz.sh [SECONDS] [TARGET…]: runs libFuzzer with AddressSanitizer on every target of fuzz/, or on
# some, each for a time.
#
# An input that breaks a target is left in build/fuzz/TARGET/; the printed command runs it once more. When the
# error is fixed, the input goes to fuzz/found/TARGET/, where `cargo test` finds it. The compiler is the
# stable one: RUSTC_BOOTSTRAP lets it take the options that libFuzzer needs.
set -eu

top=$(cd "$(dirname "$0")/.." && pwd)
cd "$top"
seconds=${1:-60}
[ $# -eq 0 ] || shift
host=$(rustc -vV | sed -n 's/^host: //p')
target_dir=${CARGO_TARGET_DIR:-$top/target}
flags="--cfg fuzzing -Cdebug-assertions -Zsanitizer=address -Cpasses=sancov-module \
-Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
-Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares"

cargo build --quiet --package weft-fuzz --bin targets
# The target is named so that programs which run while it is built are not instrumented.
RUSTC_BOOTSTRAP=1 RUSTFLAGS=$flags CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
    cargo build --quiet --release --target "$host" --package weft-fuzz --bin fuzz --features libfuzzer
targets=$target_dir/debug/targets
[ $# -gt 0 ] || set -- $("$targets" list)
failed=
for name in "$@"; do
    echo "fuzz: $name for $seconds s"
    mkdir -p "build/fuzz/$name"
    "$targets" seeds "$name" "build/fuzz/$name/corpus"
    # No input may ask for more than 64 MiB at once, or take longer than 10 seconds.
    if ! WEFT_FUZZ_TARGET=$name "$target_dir/$host/release/fuzz" "build/fuzz/$name/corpus" \
        -max_total_time="$seconds" -max_len=65536 -timeout=10 -rss_limit_mb=1024 -malloc_limit_mb=64 -print_final_stats=1 \
        -artifact_prefix="build/fuzz/$name/" >"build/fuzz/$name/log" 2>&1; then
        failed="$failed $name"
        tail -n 30 "build/fuzz/$name/log"
        echo "fuzz: $name breaks; once more: cargo run -p weft-fuzz --bin targets run $name build/fuzz/$name/{crash,oom,timeout}-*"
    fi
    sed -n 's/^stat::number_of_executed_units: */  inputs: /p; s/^stat::average_exec_per_sec: */  a second: /p' \
        "build/fuzz/$name/log"
done
[ -z "$failed" ] || { echo "fuzz: broken:$failed" >&2; exit 1; }
