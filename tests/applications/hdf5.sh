# source apt hdf5
# needs gcc make zlib1g-dev
# uses MPI_File_set_view with types of hindexed, hvector, struct and resized, access with offsets, blocking
#   and collective, MPI_File_get_size, _set_size and _sync, atomic mode, hints; MPI_Get_elements_x
# proves its own parallel tests: files, datasets, chunks, filters, selections of all shapes and metadata that
#   are written and read by 4 ranks, independently and collectively
build() {
    ./configure --enable-parallel --disable-fortran --disable-cxx --disable-static --disable-tools --enable-build-mode=production \
        --prefix="$PWD/installed" CC=mpicc CFLAGS='-O1 -w' RUNPARALLEL='mpiexec -n 4' || return 1
    for part in src hl/src; do
        make -s -j"$jobs" -C "$part" && make -s -C "$part" install || return 1
    done
    make -s -j"$jobs" -C test libh5test.la
    make -s -j"$jobs" -C testpar check TEST_PROG_PARA= TEST_SCRIPT_PARA=
}
verify() {
    cd testpar
    skip "t_cache and t_cache_image" "they test a cache above the files for many minutes"
    for test in t_mpi t_bigio testphdf5 t_pread t_pshutdown t_prestart t_init_term t_shapesame t_filters_parallel; do
        limit=300
        [ $test != testphdf5 ] || limit=900
        check "$test, 4 ranks" $limit mpiexec -n 4 ./$test
    done
    check "testphdf5, 3 ranks" 900 mpiexec -n 3 ./testphdf5
    # The first ends without closing its file, and the second reads what was flushed.
    check "testpflush" 120 sh ./testpflush.sh
}
