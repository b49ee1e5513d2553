# source deb netpipe-openmpi netpipe-mpich2
# needs dpkg
# uses MPICH's ABI (libmpich.so.12) and Open MPI's (libmpi.so.40): blocking, synchronous and nonblocking
#   point-to-point, MPI_ANY_SOURCE
# proves the programs as Debian compiled them run over Weft: every message of 1 B to 64 KiB arrives unchanged,
#   sent and received in each of its ways
build() { test -x usr/bin/NPopenmpi && test -x usr/bin/NPmpich2; }
verify() {
    for program in NPopenmpi NPmpich2; do
        says "weft info: $program loads Weft's library" 20 "weft/faces/libmpi.so.[14][20], Weft's" weft info "$PWD/usr/bin/$program"
        # With -z the program receives from rank -1, which is MPI_ANY_SOURCE for Open MPI only.
        [ "$program" = NPmpich2 ] && ways='-a -S' || ways='-a -S -z'
        for way in '' $ways; do
            says "$program: integrity${way:+ with $way}" 60 'Integrity check passed' \
                mpiexec -n 2 "usr/bin/$program" -i -u 65536 -n 3 $way -o "$home/np.out"
        done
        says "$program: pingpong to 1 MiB" 60 '1048576 bytes' mpiexec -n 2 "usr/bin/$program" -u 1048576 -n 5 -o "$home/np.out"
    done
}
