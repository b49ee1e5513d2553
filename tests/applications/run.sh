#!/bin/sh
# tests/applications/run.sh NAME fetch|build|verify: takes one step of a program that others wrote, which
# NAME.sh beside this file describes.
#
# APPLICATIONS_PREFIX is the prefix of the installed Weft, APPLICATIONS_KEPT the directory where everything is
# kept. `verify` runs between the hosts in WEFT_HOSTS if that is set (`weft hosts run`). It prints a line for
# each check, `ok CHECK`, `FAILED CHECK` or `skip CHECK: why`, and the output of a failed check. No part of a
# program is changed: it is configured by options, variables and input.
#
# NAME.sh has comments. Each may go on in lines that begin with `#` and three blanks:
#   source KIND NAME     the source: `apt` (the upstream source of a Debian package), `deb` (Debian packages
#                        as they are), `cargo`, `pip`, or `wheel` (a Python package as it is published;
#                        packages that its tests need may follow its version)
#   needs PACKAGE…       Debian packages that building the program takes
#   uses …               the parts of MPI on which its run depends
#   proves …             what a passed run shows
#
# and defines `build` and `verify`, which run in the unpacked source.
set -eu

name=$1
step=$2
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
# The Python that builds mpi4py, from `tools/setup.sh tests`.
python=$top/build/venv/bin/python
prefix=$(cd "$APPLICATIONS_PREFIX" && pwd -P)
mkdir -p "$APPLICATIONS_KEPT"
kept=$(cd "$APPLICATIONS_KEPT" && pwd -P)
home=$kept/$name
shared=$kept/shared
log=$home/log
jobs=$(nproc)
mkdir -p "$home/archives" "$home/said" "$shared/bin"

fail() {
    echo "$name: $1" >&2
    exit 1
}

# field WORD: prints the text of NAME.sh behind the word, which may go on in further lines.
field() {
    awk -v start="# $1 " '
        index($0, start) == 1 { text = substr($0, length(start) + 1); inside = 1; next }
        inside && /^#   / { text = text " " substr($0, 5); next }
        { inside = 0 }
        END { print text }' "$here/$name.sh"
}

# Every launcher that a program's own tests call is Weft's; between hosts, it runs one rank on each in turn.
# The directory is the same there.
for launcher in mpiexec mpirun; do
    printf '#!/bin/sh\nexec "%s/bin/mpiexec" ${WEFT_HOSTS:+--hosts "$WEFT_HOSTS" --map-by node} "$@"\n' "$prefix" >"$shared/bin/$launcher.$$"
    chmod 755 "$shared/bin/$launcher.$$"
    mv -f "$shared/bin/$launcher.$$" "$shared/bin/$launcher"
done
PATH=$shared/bin:$prefix/bin:$PATH
export PATH

# The user's variables of other libraries do not reach the tests, which may ask which library this is.
unset OMPI_CC MPICH_CC I_MPI_CC MPIEXEC_TIMEOUT 2>/dev/null || true

# apt_options: an apt of its own, which knows the sources of the packages that the machine's apt knows.
apt_options() {
    state=$shared/apt
    options="-q -o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts=$state/parts -o Dir::State::Lists=$state/lists -o Dir::Cache=$state/cache -o APT::Sandbox::User="
    [ ! -e "$state/ready" ] || return 0
    mkdir -p "$state/parts" "$state/lists/partial" "$state/cache/archives/partial"
    for file in /etc/apt/sources.list.d/*.sources; do
        [ ! -e "$file" ] || sed 's/^Types:.*/Types: deb-src/' "$file" >"$state/parts/${file##*/}"
    done
    cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null | sed -n 's/^deb /deb-src /p' >"$state/parts/all.list" || true
    # shellcheck disable=SC2086 # a list of words
    apt-get $options update >"$log" 2>&1 || fail "apt-get update failed: $(tail -n 1 "$log")"
    touch "$state/ready"
}

# fetch: puts the archives into $home/archives, if they are not there.
fetch() {
    [ ! -e "$home/fetched" ] || return 0
    # shellcheck disable=SC2046 # two words
    set -- $(field source)
    rm -rf "$home/archives"
    mkdir "$home/archives"
    case $1 in
        apt)
            apt_options
            # shellcheck disable=SC2086
            (cd "$home/archives" && apt-get $options source --download-only --tar-only "$2" >"$log" 2>&1) ||
                fail "apt-get cannot fetch the source of $2: $(tail -n 1 "$log")"
            for file in "$home/archives/$2"_*.tar.*; do
                file=${file##*/"$2"_}
                printf '%s\n' "${file%%.orig*}" >"$home/version"
            done
            ;;
        deb)
            # Programs as Debian compiled them, for the ABI of its own MPI library. Only the packages that are
            # named are fetched: not that library.
            shift
            (cd "$home/archives" && apt-get -q -o APT::Sandbox::User= download "$@" >"$log" 2>&1) ||
                fail "apt-get cannot fetch $*: $(tail -n 1 "$log")"
            printf '%s\n' "$home/archives/$1"_*.deb | sed 's/.*_\([^_]*\)_[^_]*$/\1/' >"$home/version"
            ;;
        cargo)
            # An empty package that depends on the crate: cargo fetches the crate and its dependencies.
            mkdir "$home/archives/src"
            echo >"$home/archives/src/lib.rs"
            printf '[package]\nname = "fetch"\nversion = "0.0.0"\nedition = "2021"\n[dependencies]\n%s = "=%s"\n[workspace]\n' "$2" "$3" >"$home/archives/Cargo.toml"
            (cd "$home/archives" && cargo vendor -q vendor >"$log" 2>&1) || fail "cargo cannot fetch $2: $(tail -n 1 "$log")"
            # Cargo fetches the program's own dependencies, also those of its tests.
            mv "$home/archives/vendor/$2" "$home/archives/crate"
            rm -rf "$home/archives/vendor" "$home/archives/crate/.cargo-checksum.json"
            printf '%s\n' "$3" >"$home/version"
            ;;
        pip)
            "$python" -m pip download -q --disable-pip-version-check --no-deps --no-binary :all: --no-build-isolation -d "$home/archives" "$2==$3" >"$log" 2>&1 ||
                fail "pip cannot fetch $2: $(tail -n 1 "$log")"
            printf '%s\n' "$3" >"$home/version"
            ;;
        wheel)
            package=$2 version=$3
            shift 3
            "$python" -m pip download -q --disable-pip-version-check -d "$home/archives" "$package==$version" "$@" >"$log" 2>&1 ||
                fail "pip cannot fetch $package: $(tail -n 1 "$log")"
            printf '%s\n' "$version" >"$home/version"
            ;;
        *) fail "$1 is no kind of source" ;;
    esac
    touch "$home/fetched"
}

# unpack: unpacks the archives into an empty $home/source.
unpack() {
    rm -rf "$home/source"
    mkdir "$home/source"
    if [ -d "$home/archives/crate" ]; then
        cp -R "$home/archives/crate/." "$home/source/"
        return
    fi
    for archive in "$home/archives"/*.tar.* "$home/archives"/*.deb; do
        case $archive in
            *.asc | *\**) ;;
            *.deb) dpkg -x "$archive" "$home/source" ;;
            *) tar -xf "$archive" -C "$home/source" --strip-components=1 ;;
        esac
    done
}

# prepare NAME: fetches and builds another program, on which this one is built.
prepare() {
    for other in fetch build; do
        APPLICATIONS_PREFIX=$prefix APPLICATIONS_KEPT=$kept sh "$here/run.sh" "$1" $other || fail "it takes $1, which is not there"
    done
}

# check CHECK SECONDS COMMAND…: the command must end with 0 within that time.
check() {
    checked=$1
    limit=$2
    shift 2
    says "$checked" "$limit" '' "$@"
}

# says CHECK SECONDS PATTERN COMMAND…: the command must also print the pattern, a basic regular expression.
says() {
    checked=$1
    limit=$2
    pattern=$3
    shift 3
    words=$home/said/$(printf %s "$checked" | tr -c 'A-Za-z0-9_.-' _)
    status=0
    timeout -k 5 "$limit" "$@" >"$words" 2>&1 </dev/null || status=$?
    case $status in
        0) why= ;;
        124 | 137) why="it did not end within $limit s" ;;
        *) why="it ended with $status" ;;
    esac
    if [ -z "$why" ] && [ -n "$pattern" ] && ! grep -q -e "$pattern" "$words"; then
        why="it does not say \"$pattern\""
    fi
    if [ -z "$why" ]; then
        echo "ok $checked"
    else
        echo "FAILED $checked: $why"
        tail -n 25 "$words" | sed 's/^/  | /'
    fi
}

# skip CHECK WHY…
skip() {
    checked=$1
    shift
    echo "skip $checked: $*"
}

# read_options WORD…: reads what a line of MPICH's lists of tests says behind the program and its number of
# ranks. Sets `limit` (seconds), `arguments`, and `gigabytes` (of memory).
read_options() {
    limit=180
    arguments=
    gigabytes=0
    for word in "$@"; do
        case $word in
            timeLimit=*) limit=${word#timeLimit=} ;;
            arg=*) arguments="$arguments ${word#arg=}" ;;
            mem=*) gigabytes=${word#mem=} ;;
        esac
    done
}

# libraries: the directories of the libraries in the packages, as the loader wants them.
libraries() { find "$PWD/usr/lib" -name 'lib*.so.*' -exec dirname {} ';' | sort -u | paste -sd:; }

# with_own ABI RANKS COMMAND…: runs a program as Debian compiled it with the library for which it was
# compiled, by that one's launcher. `tools/setup.sh tests` unpacks both libraries.
with_own() {
    abi=$1
    ranks=$2
    shift 2
    debian=$top/build/debian-$abi/usr
    own=$debian/lib/x86_64-linux-gnu
    case $abi in
        mpich) timeout -k 5 300 env LD_LIBRARY_PATH="$own:$LD_LIBRARY_PATH" "$top/build/venv/bin/mpiexec" -n "$ranks" "$@" ;;
        *)
            timeout -k 5 300 env OPAL_PREFIX="$debian" LD_LIBRARY_PATH="$own:$own/openmpi/lib:$LD_LIBRARY_PATH" \
                "$debian/bin/orterun" --allow-run-as-root --oversubscribe -n "$ranks" "$@"
            ;;
    esac
}

# same CHECK SECONDS ABI RANKS PATTERN COMMAND…: the command prints the same lines with the pattern, a basic
# regular expression, over Weft and over the library for which it was compiled.
same() {
    checked=$1
    limit=$2
    abi=$3
    ranks=$4
    pattern=$5
    shift 5
    if [ ! -e "$top/build/debian-$abi/complete" ]; then
        skip "$checked" "tools/setup.sh tests unpacks Debian's $abi"
        return
    fi
    with_own "$abi" "$ranks" "$@" 2>/dev/null </dev/null | grep -e "$pattern" >"$home/own" || true
    # shellcheck disable=SC2016 # for the inner shell
    check "$checked" "$limit" sh -c 'own=$1 ranks=$2 pattern=$3; shift 3
        test -s "$own" || { echo "its own library finds nothing"; exit 1; }
        mpiexec -n "$ranks" "$@" </dev/null | tee "$own.said" | grep -e "$pattern" >"$own.weft"
        diff "$own" "$own.weft" || { tail -n 12 "$own.said"; exit 1; }' sh "$home/own" "$ranks" "$pattern" "$@"
}

case $step in
    fetch) fetch ;;
    build)
        key=$(cat "$prefix/include/mpi.h" "$prefix/include/mpif.h" "$prefix/bin/mpicc" "$prefix/bin/mpicxx" "$prefix/bin/mpif77" "$here/$name.sh" "$home/version" | sha256sum | cut -d' ' -f1)
        [ "$(cat "$home/built" 2>/dev/null)" != "$key" ] || exit 0
        rm -f "$home/built"
        unpack
        # shellcheck source=/dev/null
        . "$here/$name.sh"
        cd "$home/source"
        if ! (set -e; build) >"$log" 2>&1; then
            tail -n 25 "$log" >&2
            fail "it could not be built; all that was said is in $log"
        fi
        echo "$key" >"$home/built"
        ;;
    verify)
        # shellcheck source=/dev/null
        . "$here/$name.sh"
        cd "$home/source"
        verify
        ;;
    *) fail "there is no step $step" ;;
esac
