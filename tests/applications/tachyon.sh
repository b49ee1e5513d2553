# source apt tachyon
# needs gcc make
# uses persistent requests with MPI_Startall, MPI_Testsome, MPI_Testany and MPI_Waitall, MPI_Allgather
# proves a picture that ranks make together is the one that one rank makes, byte for byte
build() { cd unix && make linux-mpi-64 MPIDIR="$prefix"; }
verify() {
    for scene in 2balls.dat balls.dat clipplanes.dat; do
        check "$scene, 1 rank" 60 mpiexec -n 1 compile/linux-mpi-64/tachyon scenes/$scene -res 160 120 -format PPM -o "$home/one.ppm"
        for ranks in 2 4; do
            rm -f "$home/several.ppm"
            check "$scene, $ranks ranks" 60 sh -c "mpiexec -n $ranks compile/linux-mpi-64/tachyon scenes/$scene -res 160 120 -format PPM -o '$home/several.ppm' && cmp '$home/one.ppm' '$home/several.ppm'"
        done
    done
}
