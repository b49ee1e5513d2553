# source apt hdf5
# needs gcc gfortran make zlib1g-dev
# uses the module mpi; communicators that Fortran passes to C; collective and independent access to files as
#   in hdf5.sh
# proves HDF5's own parallel tests in Fortran: 1, 2 and 4 ranks write and read datasets, contiguous and in
#   chunks, independently and collectively
build() {
    ./configure --enable-parallel --enable-fortran --disable-cxx --disable-hl --disable-static --disable-tools --enable-build-mode=production \
        CC=mpicc FC=mpif90 CFLAGS='-O1 -w' FCFLAGS='-O1 -w' RUNPARALLEL='mpiexec -n 4' || return 1
    for part in src fortran/src; do
        make -s -j"$jobs" -C "$part" || return 1
    done
    make -s -j"$jobs" -C test libh5test.la
    # Its library of tests has modules that others use, which its makefile does not say.
    make -s -C fortran/test libh5test_fortran.la
    make -s -C fortran/testpar check TEST_PROG_PARA= TEST_SCRIPT_PARA=
}
verify() {
    cd fortran/testpar
    for ranks in 1 2 4; do
        says "parallel_test, $ranks ranks" 120 'several datasets.*PASSED' mpiexec -n $ranks ./parallel_test
    done
}
