"""Weft as a Spack package: it provides `mpi`.

    spack repo add packaging/spack/spack_repo/weft
    spack install weft-mpi
"""

import os

from spack_repo.builtin.build_systems.generic import Package

from spack.package import *


class WeftMpi(Package):
    """An MPI 5.0 library with the standard's binary interface, for machines joined by Ethernet: library,
    mpiexec, compiler wrappers for C, C++ and Fortran, and tools."""

    homepage = "https://github.com/weft-mpi/weft"
    git = "https://github.com/weft-mpi/weft.git"

    license("Apache-2.0 OR MIT", checked_by="weft-mpi")

    version("main", branch="main")

    variant("fortran", default=True, description="Compile the Fortran modules mpi and mpi_f08")

    provides("mpi@:5.0")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("fortran", type="build", when="+fortran")
    depends_on("rust@1.89:", type="build")

    conflicts("platform=darwin", msg="Weft runs on Linux")
    conflicts("platform=windows", msg="Weft runs on Linux")

    # The wrappers shall call the compilers, and not Spack's wrappers of these.
    filter_compiler_wrappers("mpicc", "mpicxx", "mpifort", "mpif90", "mpif77", relative_root="bin")

    def install(self, spec, prefix):
        Executable("cargo")(
            "build", "--locked", "--release", f"--jobs={make_jobs}",
            "--package=weft-library", "--package=weft-launch", "--package=weft-cli", "--package=weft-netd",
        )
        # Modules for this compiler alone; mpifort compiles those of others at first use.
        os.environ["FORTRAN_COMPILERS"] = os.environ["FC"] if spec.satisfies("+fortran") else "none"
        Executable("tools/install.sh")(prefix)

    @run_after("install")
    @on_package_attributes(run_tests=True)
    def check_hello(self):
        """Two ranks say hello."""
        with working_dir("hello", create=True):
            Executable(self.prefix.bin.mpicc)("-o", "hello", "../examples/hello.c")
            said = Executable(self.prefix.bin.mpiexec)("-n", "2", "./hello", output=str)
        if said.count("of 2") != 2:
            raise InstallError(f"two ranks do not say hello: {said}")

    def setup_run_environment(self, env):
        env.set("MPICC", self.prefix.bin.mpicc)
        env.set("MPICXX", self.prefix.bin.mpicxx)
        env.set("MPIF77", self.prefix.bin.mpif77)
        env.set("MPIF90", self.prefix.bin.mpif90)

    def setup_dependent_build_environment(self, env, dependent_spec):
        self.setup_run_environment(env)
        for language in ("cc", "cxx", "fc"):
            found = getattr(dependent_spec.package.module, f"spack_{language}", None)
            if found:
                env.set(f"WEFT_{language.upper()}", found)

    def setup_dependent_package(self, module, dependent_spec):
        self.spec.mpicc = self.prefix.bin.mpicc
        self.spec.mpicxx = self.prefix.bin.mpicxx
        if self.spec.satisfies("+fortran"):
            self.spec.mpifc = self.prefix.bin.mpif90
            self.spec.mpif77 = self.prefix.bin.mpif77
