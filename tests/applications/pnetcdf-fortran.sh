# source apt pnetcdf
# needs gcc gfortran make m4 autoconf automake libtool
# uses mpif.h and the module mpi: files with views of subarray, hindexed and struct types, hints of MPI_Info,
#   derived datatypes of buffers, reductions
# proves its own tests and examples in Fortran 77 and Fortran 90, with 1 and 4 ranks: each file that is
#   written is read back and checked by its validator
build() {
    autoreconf -i
    ./configure -q --disable-cxx --disable-shared MPICC=mpicc MPIF77=mpif77 MPIF90=mpif90 CFLAGS='-O1 -w' \
        FFLAGS='-O1 -w -fallow-argument-mismatch' FCFLAGS='-O1 -w -fallow-argument-mismatch'
    make -s -j"$jobs"
    make -s -j"$jobs" tests
    for part in examples/F77 examples/F90; do
        make -s -j"$jobs" -C $part check TESTS=
    done
}
verify() {
    for part in test/nf_test test/nf90_test; do
        check "$part" 600 make -s -C "$part" check
    done
    for part in test/F90 test/testcases test/nonblocking examples/F77 examples/F90; do
        check "$part, 4 ranks" 600 make -s -C "$part" ptest4 TESTMPIRUN='mpiexec -n NP'
    done
}
