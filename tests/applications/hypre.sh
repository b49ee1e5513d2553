# source apt hypre
# needs gcc make bash
# uses MPI_Comm_f2c, persistent requests, MPI_Testall, MPI_Allgatherv, MPI_Scan, MPI_Iprobe and MPI_Probe
# proves three of its regression suites, of structured and unstructured solvers: results with several ranks
#   are compared with those of one
build() {
    cd src
    ./configure --disable-fortran --without-fei CC=mpicc CXX=mpicxx CFLAGS=-O1 CXXFLAGS=-O1
    make -s -j"$jobs"
    make -s -C test -j"$jobs"
}
verify() {
    cd src/test
    for suite in struct/cgpfmg3d struct/migrate ij/default; do
        [ -e "TEST_${suite%/*}/${suite#*/}.sh" ] || continue
        check "$suite" 400 sh -c "rm -f TEST_${suite%/*}/${suite#*/}.err; bash ./runtest.sh -t TEST_${suite%/*}/${suite#*/}.sh && ! test -s TEST_${suite%/*}/${suite#*/}.err"
    done
}
