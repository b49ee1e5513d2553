#!/bin/sh
# usage: tests/rdma/image.sh Makes what the guests of `cargo xtask rdma` boot, in build/rdma: `kernel`,
# Debian's own, and `initramfs`, with busybox and the modules that the guests need. Debian's kernel has no
# module `siw` (iWARP in software): this script builds it from the kernel's source of the same version.
#
# All packages are downloaded and unpacked here; none is installed. The script does nothing when the same
# script has made the files before: for a newer kernel remove build/rdma.
set -eu
cd "$(dirname "$0")/../.."
home=$PWD/build/rdma
scripts=$PWD/tests/rdma
# The modules by name. They are loaded in this order, each after the modules that it needs. rxe and siw ask
# for checksums by name only, and get the quickest that is loaded by then: the processor's own, as on other
# machines. There are two of siw. The unchanged one sends segments of the interface's size. In the other one
# large segments, which the kernel cuts as for TCP, are turned on; the source has them turned off.
modules='virtio_pci virtio_net 9pnet_virtio 9p overlay crc32_generic crc32_pclmul crc32c_generic crc32c_intel ib_uverbs rdma_ucm rdma_rxe'
LC_ALL=C
export LC_ALL

fail() { printf 'rdma: %s\n' "$*" >&2; exit 1; }
say() { printf 'rdma: %s\n' "$*" >&2; }

key=$(cat "$scripts/image.sh" "$scripts/init" | sha256sum | cut -d' ' -f1)
is_made() { [ "$(cat "$home/key" 2>/dev/null || true)" = "$key" ]; }
! is_made || exit 0

# One at a time: two suites may begin together.
mkdir -p "$home"
exec 9>"$home/lock"
flock -w 900 9 || fail "another run has been making the guests' kernel for 15 minutes; if there is none, remove $home/lock"
! is_made || exit 0

[ "$(uname -m)" = x86_64 ] || fail "guests are made for x86_64 only, and this machine is $(uname -m)"
for tool in apt-get apt-cache dpkg-deb busybox cpio make gcc strip zstd xz; do
    command -v "$tool" >/dev/null || fail "there is no $tool; run \`tools/setup.sh rdma\`"
done

# depends PACKAGE PATTERN: the packages that it depends on, and whose names match.
depends() { apt-cache depends --important "$1" 2>/dev/null | sed -n "s/^ *Depends: \($2\)\$/\1/p"; }
image=$(depends linux-image-amd64 'linux-image-.*') || true
[ -n "$image" ] || fail "apt knows no package linux-image-amd64: guests are made from Debian's kernel; try \`apt-get update\`"
release=${image#linux-image-}
version=$(apt-cache policy "$image" | sed -n 's/^ *Candidate: //p')
source=linux-source-$(printf %s "$release" | sed 's/^\([0-9]*\.[0-9]*\).*/\1/')
headers=linux-headers-$release
packages="$image $source $headers $(depends "$headers" 'linux-.*' | sort -u | tr '\n' ' ')"

debs=$home/debs/$version
mkdir -p "$debs"
for package in $packages; do
    set -- "$debs/${package}"_*.deb
    [ -e "$1" ] && continue
    say "downloading $package"
    # Kernel, headers and source must be the same; the compiler's package has the same version as they.
    (cd "$debs" && { apt-get download -q "$package=$version" || apt-get download -q "$package"; } >"$home/log" 2>&1) ||
        { tail -n 5 "$home/log" >&2; fail "$package could not be downloaded; is there a network, and has \`apt-get update\` run?"; }
done

tree=$home/tree
rm -rf "$tree"
mkdir -p "$tree"
for deb in "$debs"/*.deb; do
    case $deb in
        */linux-source-*) dpkg-deb --fsys-tarfile "$deb" | tar -xf - -C "$tree" "./usr/src/$source.tar.xz" ;;
        *) dpkg-deb -x "$deb" "$tree" ;;
    esac
done
say "building siw for $release"
tar -xJf "$tree/usr/src/$source.tar.xz" -C "$tree" "$source/drivers/infiniband/sw/siw"
siw=$tree/$source/drivers/infiniband/sw/siw
# The headers expect to be installed.
sed -i "s#/usr/src/#$tree/usr/src/#g" "$tree/usr/src/$headers/Makefile"
build() {
    make -C "$tree/usr/src/$headers" M="$siw" CONFIG_RDMA_SIW=m modules >"$home/log" 2>&1 ||
        { tail -n 20 "$home/log" >&2; fail "siw did not build; $home/log says more"; }
}
build
mv "$siw/siw.ko" "$tree/siw.ko"
sed -i 's/^const bool try_gso;$/const bool try_gso = true;/' "$siw/siw_main.c"
grep -q '^const bool try_gso = true;$' "$siw/siw_main.c" || fail "the source of siw for $release has no large segments that could be turned on"
build
mv "$siw/siw.ko" "$tree/siw_large.ko"

# Kernels of Debian 13 have their modules in /usr/lib.
all=$tree/lib/modules
[ -d "$all" ] || all=$tree/usr/lib/modules
root=$tree/initramfs
mkdir -p "$root/bin" "$root/modules" "$root/proc" "$root/sys" "$root/dev" "$root/lower" "$root/upper" "$root/root"
mkdir -p "$all/$release/kernel/siw"
cp "$tree/siw.ko" "$all/$release/kernel/siw/siw.ko"
find "$all/$release" -name '*.ko.xz' -exec xz -d {} +
mkdir -p "$tree/lib/modules"
[ "$all" = "$tree/lib/modules" ] || mv "$all/$release" "$tree/lib/modules/"
busybox depmod -b "$tree" "$release"
# Each module behind those that it needs.
awk -v wanted="$modules siw" '
    function name(path) { sub(/.*\//, "", path); sub(/\.ko$/, "", path); gsub(/-/, "_", path); return path }
    function load(module,   words, count, i) {
        if (module in loaded) return
        loaded[module] = 1
        count = split(needs[module], words, " ")
        for (i = 1; i <= count; i++) load(name(words[i]))
        if (!(module in path)) { print "there is no module " module > "/dev/stderr"; exit 1 }
        print path[module]
    }
    { file = $1; sub(/:$/, "", file); path[name(file)] = file; $1 = ""; needs[name(file)] = $0 }
    END { count = split(wanted, words, " "); for (i = 1; i <= count; i++) load(words[i]) }
' "$tree/lib/modules/$release/modules.dep" >"$tree/order" || fail "the kernel $release lacks a module"
while read -r path; do
    strip --strip-debug -o "$root/modules/${path##*/}" "$tree/lib/modules/$release/$path"
    printf '%s\n' "${path##*/}" >>"$root/modules/order"
done <"$tree/order"
strip --strip-debug -o "$root/modules/siw_large.ko" "$tree/siw_large.ko"
cp "$(command -v busybox)" "$root/bin/busybox"
cp "$scripts/init" "$root/init"
chmod 755 "$root/init" "$root/bin/busybox"
(cd "$root" && find . | cpio -o -H newc --quiet -R 0:0 | zstd -q -19) >"$home/initramfs.new"
cp "$tree/boot/vmlinuz-$release" "$home/kernel"
mv "$home/initramfs.new" "$home/initramfs"
printf '%s\n' "$release $version" >"$home/release"
rm -rf "$tree"
printf '%s' "$key" >"$home/key"
say "guests boot Debian's kernel $release"
