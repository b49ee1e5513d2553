# source apt petsc
# needs gcc g++ make python3 libblas-dev liblapack-dev
# uses MPI_Fint and its conversions, attributes with callbacks, persistent requests, user operations, MPI_Type_create_struct, nonblocking collectives
# proves the whole library builds against mpi.h, and `make check`: a nonlinear solver with 1 and 2 ranks gives its known output
build() {
    PETSC_DIR=$PWD PETSC_ARCH=weft ./configure --with-fc=0 --with-cc=mpicc --with-cxx=mpicxx --with-debugging=0 COPTFLAGS=-O1 CXXOPTFLAGS=-O1 --with-x=0 \
        --with-mpiexec="$shared/bin/mpiexec" --with-blaslapack-lib='-llapack -lblas'
    make PETSC_DIR="$PWD" PETSC_ARCH=weft all
}
verify() {
    says "make check" 240 'ex19 run successfully with 2 MPI processes' make PETSC_DIR="$PWD" PETSC_ARCH=weft check
}
