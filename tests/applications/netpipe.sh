# source apt netpipe
# needs gcc make
# uses blocking, synchronous and nonblocking point-to-point, MPI_ANY_SOURCE
# proves every message of 1 B to 1 MiB arrives unchanged, sent and received in each of its ways
build() { make mpi MPICC=mpicc; }
verify() {
    for way in '' -a -S -z; do
        says "integrity${way:+ with $way}" 60 'Integrity check passed' mpiexec -n 2 ./NPmpi -i -u 65536 -n 3 $way -o "$home/np.out"
    done
    says "pingpong to 1 MiB" 60 '1048576 bytes' mpiexec -n 2 ./NPmpi -u 1048576 -n 5 -o "$home/np.out"
}
