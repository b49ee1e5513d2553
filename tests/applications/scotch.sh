# source apt scotch
# needs gcc make flex bison zlib1g-dev
# uses MPI_Type_f2c and MPI_Comm_f2c, MPI_Alltoallv, MPI_Ialltoallv, MPI_Allgatherv, user operations, derived
#   datatypes, persistent requests, threads
# proves its own test programs of distributed graphs: built, checked, coarsened, induced, redistributed,
#   ordered and partitioned
build() {
    cd src
    cp Make.inc/Makefile.inc.x86-64_pc_linux2 Makefile.inc
    make -j"$jobs" CCD=mpicc CCP=mpicc ptscotch
    cd check
    for program in $programs; do
        mpicc -O1 -DSCOTCH_PTHREAD -I../../include "$program.c" -o "$program" -L../../lib -lptscotch -lscotch -lptscotcherrexit -lz -lm -lpthread
    done
}
programs='test_scotch_dgraph_band test_scotch_dgraph_check test_scotch_dgraph_coarsen test_scotch_dgraph_grow test_scotch_dgraph_induce test_scotch_dgraph_redist'
verify() {
    cd src/check
    for graph in bump bump_b100000; do
        for program in $programs; do
            check "$program of $graph, 3 ranks" 60 mpirun -n 3 ./$program data/$graph.grf
        done
        check "dgord of $graph, 3 ranks" 60 mpirun -n 3 ../scotch/dgord data/$graph.grf /dev/null -vt
        check "dgpart of $graph, 3 ranks" 60 mpirun -n 3 ../scotch/dgpart 9 data/$graph.grf /dev/null -vmt
    done
    check "dgpart of a graph in pieces, 4 ranks" 60 mpirun -n 4 ../scotch/dgpart 50 'data/small_%r.grf' /dev/null -vmt
}
