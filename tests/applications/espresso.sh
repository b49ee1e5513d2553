# source apt espresso
# needs gcc gfortran make liblapack-dev libblas-dev libfftw3-dev
# uses mpif.h, communicators split several times, MPI_Alltoall and MPI_Alltoallv of complex numbers,
#   reductions in place, MPI_Type_create_subarray and _resized, MPI_Gatherv, MPI_Testall
# proves Quantum ESPRESSO's pw.x: 1, 2 and 4 ranks, which divide plane waves or k-points among them, find the
#   energies of its own benchmarks of a crystal of silicon
build() {
    ./configure --enable-parallel --with-scalapack=no --disable-openmp MPIF90=mpif90 CC=mpicc F90=gfortran \
        FFLAGS='-O1 -g0 -fallow-argument-mismatch' CFLAGS=-O1
    make -s -j"$jobs" pw
}
# finds TEST RANKS POOLS: the energy of a test is that of its benchmark, to 0.00001 Ry. Pools divide the
# k-points.
finds() {
    # shellcheck disable=SC2016 # for the inner shell
    says "$1, $2 ranks in $3 pools" 180 '^the same energy$' sh -c \
        'mpiexec -n "$2" ../bin/pw.x -nk "$3" -input "pw_scf/$1.in" >said.out && awk "
            /^!/ {energy[FILENAME] = \$5}
            END {
                apart = energy[\"said.out\"] - energy[ARGV[2]]
                same = energy[ARGV[2]] < 0 && apart * apart < 1e-10
                print same ? \"the same energy\" : \"another energy, by \" apart \" Ry\"
            }" said.out "pw_scf/benchmark.out.git.inp=$1.in"' sh "$1" "$2" "$3"
}
verify() {
    cd test-suite
    ESPRESSO_PSEUDO=$PWD/../atomic/examples/pseudo-LDA-0.5
    ESPRESSO_TMPDIR=$PWD/out
    export ESPRESSO_PSEUDO ESPRESSO_TMPDIR
    for test in scf scf-kauto scf-cg scf-gamma scf-occ; do
        for ranks in 1 2 4; do
            finds "$test" "$ranks" 1
        done
    done
    finds scf 2 2
    finds scf-kauto 4 2
}
