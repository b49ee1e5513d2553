# source apt p4est
# needs gcc g++ gfortran make autoconf automake libtool zlib1g-dev
# uses groups in all their forms, nonblocking point-to-point with MPI_Waitsome, MPI_Probe, scans, attributes,
#   MPI_Comm_split_type, individual file pointers
# proves `make check`: forests of octrees over ranks are refined, balanced, partitioned, searched, saved,
#   loaded and checked
build() {
    echo 2.2 >.tarball-version
    echo 2.2 >sc/.tarball-version
    ./bootstrap
    ./configure -q --enable-mpi --without-blas CC=mpicc CXX=mpicxx F77=gfortran FC=gfortran CFLAGS=-O1
    make -s -j"$jobs"
    make -s -j"$jobs" check TESTS=
}
verify() {
    for program in test/p4est_test_*; do
        [ -x "$program" ] && [ -f "$program" ] || continue
        for ranks in 2 3; do
            check "${program##*/p4est_test_}, $ranks ranks" 60 mpiexec -n $ranks "$program"
        done
    done
}
