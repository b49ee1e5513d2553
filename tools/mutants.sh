#!/bin/sh
# tools/mutants.sh [NAME...]: builds weft-sim with one error at a time put in by hand, and demands that
# programs by chance find the error: those of collective accesses to files by accesses by chance, those of
# agreements and of meetings by programs of their own.
#
# Errors are the lines marked `weft_mutant = "NAME"` in the sources. A compiler wrapper of that name sets the
# mark, for the workspace's own crates only: so each build is kept apart, and libraries are built once.
set -eu
cd "$(dirname "$0")/.."

# The rarest error, a lock that is given to a dead process, shows in one of 4,600 programs.
programs=20000
all=$(grep -rhoE 'weft_mutant = "[a-z_]+"' crates --include=*.rs | sed 's/.*"\(.*\)"/\1/' | sort -u)
wrappers=$PWD/target/mutants/wrappers
mkdir -p "$wrappers"
cat > "$wrappers/wrapper" <<'WRAPPER'
#!/bin/sh
# The first argument is the compiler; this script's own name is the error's.
exec "$@" --cfg "weft_mutant=\"$(basename "$0")\""
WRAPPER
chmod +x "$wrappers/wrapper"

missed=
for name in ${*:-$all}; do
    echo "$all" | grep -qx "$name" || { echo "mutants: nothing is marked $name; there are:" $all >&2; exit 2; }
    ln -sf wrapper "$wrappers/$name"
    export RUSTC_WORKSPACE_WRAPPER="$wrappers/$name" CARGO_TARGET_DIR=target/mutants
    cargo build --quiet --package weft-sim
    case $(grep -rlF "weft_mutant = \"$name\"" crates --include=*.rs) in
    *two_phase*) kind=files ;;
    *) case $name in agreement_*) kind=agreements ;; meeting_*) kind=jobs ;; *) kind=programs ;; esac ;;
    esac
    if found=$(timeout 540 target/mutants/debug/weft-sim $kind --runs $programs --until-failure --jobs "$(nproc)" 2>&1); then
        echo "$name: not found by $programs $kind"
        missed="$missed $name"
    else
        case $found in
        *' failed; '*) echo "$name: $(echo "$found" | head -n 1 | cut -c 1-180)" ;;
        *) echo "$found" >&2; echo "mutants: $name: the programs did not end" >&2; exit 2 ;;
        esac
    fi
done
[ -z "$missed" ] || { echo "mutants: not found:$missed" >&2; exit 1; }
