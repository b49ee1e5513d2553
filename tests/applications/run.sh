#!/bin/sh
# tests/applications/run.sh NAME fetch|build|verify: one step of a program that others wrote, described by NAME.sh beside this file.
#
# WEFT_PREFIX is where Weft is installed, WEFT_APPLICATIONS where everything is kept (build/applications). `verify` runs between the hosts in
# WEFT_HOSTS if that is set (`weft hosts run`). It prints a line for each check, `ok NAME`, `FAILED NAME` or `skip NAME: why`, and what was said
# by one that failed. Nothing of a program is changed: what it needs is said in options, variables and input.
#
# NAME.sh defines `build` and `verify`, which run in the program's own directory, and says in comments:
#   package KIND NAME    where it comes from: `apt` (the upstream source of a Debian package), `crate` or `pip`
#   needs PACKAGE…       Debian packages that it is built with
#   uses …               chapters of MPI that its run depends on
#   proves …             what a passed run shows
set -eu

name=$1
step=$2
here=$(cd "$(dirname "$0")" && pwd)
prefix=$(cd "$WEFT_PREFIX" && pwd -P)
home=$WEFT_APPLICATIONS/$name
shared=$WEFT_APPLICATIONS/shared
mkdir -p "$home" "$shared"
log=$home/log
jobs=$(nproc)

fail() {
    echo "$name: $1" >&2
    exit 1
}

# field WORD: what NAME.sh says of it in its comments.
field() { sed -n "s/^# $1 //p" "$here/$name.sh"; }

# Whatever program a test suite calls, it starts Weft's; between hosts, one rank on each in turn.
mkdir -p "$shared/bin"
for launcher in mpiexec mpirun; do
    printf '#!/bin/sh\nexec "%s/bin/mpiexec" ${WEFT_HOSTS:+--hosts "$WEFT_HOSTS" --map-by node} "$@"\n' "$prefix" >"$shared/bin/$launcher.$$"
    chmod 755 "$shared/bin/$launcher.$$"
    mv -f "$shared/bin/$launcher.$$" "$shared/bin/$launcher"
done
PATH=$shared/bin:$prefix/bin:$PATH
export PATH PKG_CONFIG_PATH="$prefix/lib/pkgconfig"

# apt_source PACKAGE: the tar archives of its upstream source, fetched by apt from the sources that it is set up with, and unpacked in $home/source.
apt_source() {
    state=$shared/apt
    mkdir -p "$state/parts" "$state/lists/partial" "$state/cache/archives/partial" "$home/archives"
    options="-o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts=$state/parts -o Dir::State::Lists=$state/lists -o Dir::Cache=$state/cache -o APT::Sandbox::User= -q"
    if [ ! -e "$state/ready" ]; then
        for file in /etc/apt/sources.list.d/*.sources; do
            [ -e "$file" ] && sed 's/^Types:.*/Types: deb-src/' "$file" >"$state/parts/${file##*/}"
        done
        cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null | sed -n 's/^deb /deb-src /p' >"$state/parts/all.list" || true
        # shellcheck disable=SC2086 # a list of words
        apt-get $options update >"$log" 2>&1 || fail "apt-get update failed: $(tail -n 1 "$log")"
        touch "$state/ready"
    fi
    # shellcheck disable=SC2086
    (cd "$home/archives" && apt-get $options source --download-only --tar-only "$1" >"$log" 2>&1) || fail "cannot fetch the source of $1: $(tail -n 1 "$log")"
    rm -rf "$home/source"
    mkdir "$home/source"
    for archive in "$home/archives"/*.tar.*; do
        case $archive in *.asc) continue ;; esac
        tar -xf "$archive" -C "$home/source" --strip-components=1
        ls "$home/archives" | sed -n 's/^[^_]*_\([^_]*\)\.orig\.tar\..*/\1/p' | head -n 1 >"$home/version"
    done
}

# check NAME SECONDS COMMAND…: the command ends with 0 within that time.
check() { check_says "$1" "$2" '' "${@:3}"; }
