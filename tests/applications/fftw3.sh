# source apt fftw3
# needs gcc make perl
# uses MPI_Comm_f2c, MPI_Alltoall and MPI_Alltoallv, MPI_Sendrecv, split and duplicated communicators,
#   reductions
# proves its own random tests of distributed transforms, compared with transforms of one process
build() {
    ./configure -q --enable-mpi --disable-fortran --disable-doc MPICC=mpicc CFLAGS=-O1
    make -s -j"$jobs"
}
verify() {
    for ranks in 1 2 3 4; do
        check "40 random transforms, $ranks ranks" 240 perl -w tests/check.pl -r -c=40 -v --nthreads=1 --mpi "mpirun -np $ranks $PWD/mpi/mpi-bench"
    done
}
