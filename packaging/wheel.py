#!/usr/bin/env python3
"""packaging/wheel.py ROOT COMPONENTS DIRECTORY: makes a Python wheel of an installed Weft, and prints its path.

ROOT is the prefix of the installed tree, COMPONENTS the directory with the files of components.py. The wheel
installs the same tree into the prefix of a Python environment, and no Python module: programs are on PATH
wherever that environment's are, and the library is where mpi4py looks for one.

Wheels have no symbolic links, so a library has one file, under the name that programs ask for, and what links
ask for is a text that leads the linker to it. A second name of a program is a script. The bytes of a wheel
depend on ROOT and $SOURCE_DATE_EPOCH alone.
"""

import base64
import hashlib
import os
import re
import subprocess
import sys
import time
import zipfile

from components import FURTHER, TOP, read

NAME = "weft_mpi"
# Directories of the tree that only an administrator's installation has: raw frames for unprivileged ranks.
LEFT_OUT = ("sbin/", "lib/systemd/")
# Second names of libraries that a wheel does without: see docs/book/install.md.
ABSENT = {"lib/libmpi_abi.so.0"}
# The oldest glibc of a manylinux tag.
GLIBC_MIN = (2, 5)
SECOND_NAME = """\
#!/bin/sh
# {name}: another name of {other}.
self=$(readlink -f -- "$0") || exit 1
exec "${{self%/*}}/{other}" "$@"
"""
METADATA = """\
Metadata-Version: 2.4
Name: weft-mpi
Version: {version}
Summary: MPI 5.0 for machines joined by Ethernet: library, mpiexec, compiler wrappers and tools
License-Expression: {licence}
{files}
Requires-Python: >=3.8
Keywords: MPI
Classifier: Intended Audience :: Science/Research
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: C
Classifier: Programming Language :: Fortran
Classifier: Programming Language :: Rust
Classifier: Topic :: System :: Distributed Computing
Project-URL: Source, https://github.com/weft-mpi/weft
Description-Content-Type: text/markdown

{description}
"""
DESCRIPTION = """\
# Weft

An MPI library with the standard's binary interface (`libmpi_abi.so.1`), `mpiexec`, `mpicc`, `mpifort` and `weft`.

    pip install weft-mpi
    MPICC=$(which mpicc) pip install --no-binary mpi4py mpi4py
    mpiexec -n 2 python -m mpi4py.bench helloworld

The commands are in the environment's `bin`. The library needs nothing but glibc."""


def is_elf(data):
    return data.startswith(b"\x7fELF")


def dynamic(path, tag):
    """The values of a tag in the dynamic section of a program or library."""
    text = subprocess.run(["readelf", "--wide", "--dynamic", path], check=True, capture_output=True, text=True).stdout
    return re.findall(rf"\({tag}\).*\[(.*)\]", text)


def glibc(path):
    """The newest version of glibc of which a program or library uses a symbol."""
    words = ["readelf", "--wide", "--version-info", path]
    text = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    return max(((int(a), int(b)) for a, b in re.findall(r"GLIBC_(\d+)\.(\d+)", text)), default=GLIBC_MIN)


def tree(root):
    """The files below a directory, by their names there. Links to directories are none of them."""
    for directory, directories, names in os.walk(root):
        for name in names + [name for name in directories if os.path.islink(os.path.join(directory, name))]:
            path = os.path.join(directory, name)
            yield os.path.relpath(path, root), path


def contents(root):
    """The files of the wheel: the mode and bytes of each by its name, and the newest glibc that one needs."""
    files, newest = {}, GLIBC_MIN
    for name, path in tree(root):
        if name.startswith(LEFT_OUT) or name in ABSENT:
            continue
        target = os.path.realpath(path)
        if not os.path.isfile(target):
            sys.exit(f"packaging/wheel.py: {name} leads to {target}, which is no file")
        with open(target, "rb") as file:
            data = file.read()
        mode = 0o755 if os.stat(target).st_mode & 0o100 else 0o644
        if is_elf(data):
            newest = max(newest, glibc(target))
            (soname, *_) = dynamic(target, "SONAME") or [None]
            if soname and os.path.islink(path) and os.path.basename(name) != soname:
                data, mode = f"INPUT({soname})\n".encode(), 0o644
            elif soname:
                name = os.path.join(os.path.dirname(name), soname)
            elif os.path.islink(path):
                other = os.path.basename(target)
                data = SECOND_NAME.format(name=os.path.basename(name), other=other).encode()
        files[name] = (mode, data)
    return files, newest


def expression():
    return " AND ".join(["(Apache-2.0 OR MIT)", "MIT", *sorted(FURTHER)])


def write(path, files, epoch):
    """Writes the archive, whose order, times and modes depend on nothing else."""
    moment = time.gmtime(max(epoch, 315532800))[:6]
    with zipfile.ZipFile(path + ".new", "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, (mode, data) in files:
            info = zipfile.ZipInfo(name, moment)
            info.external_attr = (0o100000 | mode) << 16
            info.create_system = 3
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, data)
    os.replace(path + ".new", path)


def main():
    if len(sys.argv) != 4:
        sys.exit("usage: packaging/wheel.py ROOT COMPONENTS DIRECTORY")
    root, components, into = sys.argv[1:]
    version = re.search(r'^version = "(.*)"', read(os.path.join(TOP, "Cargo.toml")), re.M).group(1)
    tree_files, (major, minor) = contents(root)
    tag = f"py3-none-manylinux_{major}_{minor}_{os.uname().machine}"
    information = f"{NAME}-{version}.dist-info"
    licences = {
        "LICENSE-APACHE": os.path.join(TOP, "LICENSE-APACHE"),
        "LICENSE-MIT": os.path.join(TOP, "LICENSE-MIT"),
        "LICENSES.txt": os.path.join(components, "LICENSES.txt"),
    }
    metadata = METADATA.format(
        version=version,
        licence=expression(),
        files="\n".join(f"License-File: {name}" for name in licences),
        description=DESCRIPTION,
    )
    wheel = f"Wheel-Version: 1.0\nGenerator: weft ({version})\nRoot-Is-Purelib: false\nTag: {tag}\n"
    files = [(f"{NAME}-{version}.data/data/{name}", file) for name, file in sorted(tree_files.items())]
    for name, path in licences.items():
        files.append((f"{information}/licenses/{name}", (0o644, read(path).encode() + b"\n")))
    with open(os.path.join(components, "sbom.cdx.json"), "rb") as file:
        files.append((f"{information}/sboms/weft.cdx.json", (0o644, file.read())))
    files.append((f"{information}/METADATA", (0o644, metadata.encode())))
    files.append((f"{information}/WHEEL", (0o644, wheel.encode())))
    record = ""
    for name, (_, data) in files:
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(data)}\n"
    record += f"{information}/RECORD,,\n"
    files.append((f"{information}/RECORD", (0o644, record.encode())))
    os.makedirs(into, exist_ok=True)
    path = os.path.join(into, f"{NAME}-{version}-{tag}.whl")
    write(path, files, int(os.environ["SOURCE_DATE_EPOCH"]))
    print(path)


if __name__ == "__main__":
    main()
