#!/usr/bin/env python3
"""conda.py BUILD DIRECTORY: makes the conda packages of the programs in BUILD, whose recipes then test
themselves, and installs them into the empty prefix DIRECTORY/prefix as conda would. It needs no network and
no conda.

The compilers of the recipes are played by packages that lead to this machine's: what conda-forge's would do
is not tested. Without BUILD (`-`) the programs are built by the recipe.
"""

import asyncio
import os
import sys

import rattler
import rattler_build
from rattler.exceptions import SolverError

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import conda  # noqa: E402 -- packaging/conda.py

# The recipes' scripts have another home.
CARGO = os.environ.get("CARGO_HOME", os.path.expanduser("~/.cargo"))
RUSTUP = os.environ.get("RUSTUP_HOME", os.path.expanduser("~/.rustup"))
# What the recipes ask of a channel, and what a package of this name says in an environment.
STAND_INS = {
    "gcc_linux-64": "export CC=gcc",
    "gxx_linux-64": "export CXX=g++",
    "gfortran_linux-64": "export FC=gfortran",
    "rust_linux-64": f"export CARGO_HOME={CARGO} RUSTUP_HOME={RUSTUP}",
    "sysroot_linux-64": "",
    "python": "",
}
WANTED = ("weft-mpi", "weft-mpi-mpicc", "weft-mpi-mpicxx", "weft-mpi-mpifort")


def stand_in(name, says):
    version = "2.34" if name.startswith("sysroot") else "3.12"
    place = "$PREFIX/etc/conda/activate.d"
    return rattler_build.Stage0Recipe.from_dict({
        "schema_version": 1,
        "package": {"name": name, "version": version},
        "build": {
            "number": 0,
            "noarch": "generic",
            "script": [f"mkdir -p {place}", f"echo '{says}' >{place}/{name}.sh"],
        },
    })


async def install(channel, prefix):
    """Installs the packages, and checks that another MPI cannot be installed beside them."""
    virtual = rattler.VirtualPackage.detect()
    records = await rattler.solve([f"file://{channel}"], list(WANTED), virtual_packages=virtual)
    await rattler.install(records, target_prefix=prefix)
    try:
        await rattler.solve([f"file://{channel}"], ["weft-mpi", "mpi * mpich"], virtual_packages=virtual)
    except SolverError:
        return sorted(f"{record.name.normalized} {record.version} {record.build}" for record in records)
    sys.exit("conda.py: an environment has packages of two MPI libraries")


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: conda.py BUILD DIRECTORY")
    build, directory = sys.argv[1], os.path.realpath(sys.argv[2])
    if build != "-":
        os.environ["WEFT_BUILD"] = os.path.realpath(build)
    channel = os.path.join(directory, "channel")
    others = [stand_in(name, says) for name, says in STAND_INS.items()]
    # The mutex of another MPI, as conda-forge has it.
    others.append(rattler_build.Stage0Recipe.from_dict({
        "schema_version": 1,
        "package": {"name": "mpi", "version": "1.0.1"},
        "build": {"number": 0, "string": "mpich", "noarch": "generic", "script": []},
    }))
    made = conda.packages(channel, [], others)
    print("\n".join(os.path.basename(path) for path in made))
    for line in asyncio.run(install(channel, os.path.join(directory, "prefix"))):
        print(f"installed {line}")


if __name__ == "__main__":
    main()
    # All is done. A worker of rattler that has still to drop a Python object would crash an interpreter that
    # ends (a segmentation fault in libpython, now and then).
    sys.stdout.flush()
    os._exit(0)
