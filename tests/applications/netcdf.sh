# source apt netcdf
# needs gcc make m4 zlib1g-dev
# uses files through the parallel HDF5 of hdf5.sh, with hints; MPI_File_seek and individual pointers in one
#   test
# proves its own parallel tests of netCDF-4: variables written and read by up to 16 ranks, collectively and
#   independently, also compressed ones
parallel='tst_mode tst_mpi_parallel tst_parallel tst_parallel3 tst_parallel4 tst_parallel5 tst_parallel6 tst_nc4perf tst_simplerw_coll_r tst_parallel_zlib tst_parallel_compress tst_quantize_par'
build() {
    prepare hdf5
    hdf5=$kept/hdf5/source/installed
    ./configure CC=mpicc CFLAGS='-O1 -w' CPPFLAGS="-I$hdf5/include" LDFLAGS="-L$hdf5/lib -Wl,-rpath,$hdf5/lib" --enable-parallel-tests \
        --disable-dap --disable-byterange --disable-nczarr --disable-plugins --disable-libxml2 --disable-utilities --disable-examples --disable-static || return 1
    for part in include libdispatch libsrc libsrc4 libhdf5 liblib; do
        make -s -j"$jobs" -C "$part" || return 1
    done
    # shellcheck disable=SC2086 # a list of words
    make -s -j"$jobs" -C nc_test4 $parallel && make -s -j"$jobs" -C h5_test tst_h_par tst_h_par_compress
}
verify() {
    cd nc_test4
    check "tst_mode, 1 rank" 60 mpiexec -n 1 ./tst_mode
    for test in tst_mpi_parallel tst_parallel tst_parallel5 tst_parallel6 tst_nc4perf tst_parallel_zlib tst_parallel_compress tst_quantize_par; do
        check "$test, 4 ranks" 240 mpiexec -n 4 ./$test
    done
    check "tst_parallel3, 16 ranks" 240 mpiexec -n 16 ./tst_parallel3
    for ranks in 2 4 8; do
        check "tst_parallel4, $ranks ranks" 240 mpiexec -n $ranks ./tst_parallel4
    done
    for ranks in 1 2 4; do
        check "tst_simplerw_coll_r, $ranks ranks" 240 mpiexec -n $ranks ./tst_simplerw_coll_r
    done
    cd ../h5_test
    for test in tst_h_par tst_h_par_compress; do
        for ranks in 2 4; do
            check "$test, $ranks ranks" 240 mpiexec -n $ranks ./$test
        done
    done
}
