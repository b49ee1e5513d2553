# source deb scalapack-mpi-test scalapack-test-common libscalapack-mpich2.2 libscalapack-openmpi2.2
#   libblas3 liblapack3 libgfortran5
# needs dpkg
# uses MPICH's ABI (libmpich.so.12) and Open MPI's (libmpi.so.40), of Fortran programs over the BLACS:
#   groups and communicators of process grids, MPI_Pack, derived datatypes, MPI_Iprobe, reductions with user
#   operations
# proves its own tests as Debian compiled them for each library: residuals of factorisations, of
#   eigenvalues and of least squares are small, and as many tests pass as over the library for which they
#   were compiled
build() { test -x usr/lib/x86_64-linux-gnu/scalapack/mpich-tests/xdlu; }
verify() {
    LD_LIBRARY_PATH=$(libraries)
    export LD_LIBRARY_PATH OPENBLAS_NUM_THREADS=1
    tests=$PWD/usr/lib/x86_64-linux-gnu/scalapack
    cd usr/share/scalapack
    for abi in mpich openmpi; do
        for test in xdlu xzllt xcqr xsls; do
            same "$test for $abi: the same tests pass" 120 $abi 2 'tests completed' "$tests/$abi-tests/$test"
            says "$test for $abi: none fails" 120 ' 0 tests completed and failed' mpiexec -n 2 "$tests/$abi-tests/$test"
        done
    done
}
