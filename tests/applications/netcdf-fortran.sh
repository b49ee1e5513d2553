# source apt netcdf-fortran
# needs gcc gfortran make m4 zlib1g-dev
# uses mpif.h and the module mpi; communicators and hints that Fortran passes to C; files through netcdf.sh
# proves its own parallel tests of netCDF-4 in Fortran 77, Fortran 90 and through the interfaces of Fortran
#   2003: 4 and 8 ranks write and read variables, also compressed ones and those with fill values
build() {
    prepare netcdf
    hdf5=$kept/hdf5/source/installed
    netcdf=$kept/netcdf/source
    ./configure CC=mpicc FC=mpif90 F77=mpif77 CPPFLAGS="-I$netcdf/include" FCFLAGS='-O1 -w -fallow-argument-mismatch' \
        FFLAGS='-O1 -w -fallow-argument-mismatch' CFLAGS='-O1 -w' --enable-parallel-tests --disable-shared \
        LDFLAGS="-L$netcdf/liblib/.libs -Wl,-rpath,$netcdf/liblib/.libs -L$hdf5/lib -Wl,-rpath,$hdf5/lib"
    make -s -C libsrc && make -s -C fortran
    make -s -C nf_test4 ftst_parallel ftst_parallel_nasa f03tst_parallel
    make -s -C nf03_test4 f90tst_parallel f90tst_parallel2 f90tst_parallel3 f90tst_nc4_par f90tst_parallel_fill f90tst_parallel_compressed
}
verify() {
    cd nf_test4
    for test in ftst_parallel ftst_parallel_nasa f03tst_parallel; do
        says "$test, 4 ranks" 120 SUCCESS mpiexec -n 4 ./$test
    done
    cd ../nf03_test4
    for test in f90tst_parallel f90tst_parallel2 f90tst_parallel3 f90tst_parallel_fill f90tst_parallel_compressed; do
        says "$test, 4 ranks" 120 SUCCESS mpiexec -n 4 ./$test
    done
    # It ends with another code than 0 if it reads anything else than what was written.
    check "f90tst_nc4_par, 8 ranks" 120 mpiexec -n 8 ./f90tst_nc4_par
}
