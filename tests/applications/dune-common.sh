# source apt dune-common
# needs gcc g++ cmake make pkg-config python3
# uses MPI_Pack and MPI_Unpack, MPI_Issend, MPI_Mprobe, persistent requests with MPI_Testsome, nonblocking
#   collectives whose requests are futures, MPI_Type_create_struct, _hindexed and _resized, user operations,
#   error handlers
# proves its own tests of parallel index sets, of communication along them, of objects packed into messages,
#   and of its collectives and futures
build() {
    cmake -S . -B build -DCMAKE_C_COMPILER=gcc -DCMAKE_CXX_COMPILER=g++ -DMPI_C_COMPILER=mpicc -DMPI_CXX_COMPILER=mpicxx -DCMAKE_CXX_FLAGS='-O0 -w' -DCMAKE_DISABLE_FIND_PACKAGE_Python3=ON \
        -DDUNE_ENABLE_PYTHONBINDINGS=OFF -DCMAKE_DISABLE_FIND_PACKAGE_BLAS=ON -DCMAKE_DISABLE_FIND_PACKAGE_LAPACK=ON -DCMAKE_DISABLE_FIND_PACKAGE_TBB=ON
    # shellcheck disable=SC2086 # a list of words
    make -C build -j"$jobs" $programs
}
programs='communicationtest indexsettest remoteindicestest selectiontest syncertest variablesizecommunicatortest mpidatatest mpifuturetest mpipacktest mpigatherscattertest'
verify() {
    for program in $programs; do
        # Those that say so are for two.
        case $program in
            mpidatatest | mpipacktest | mpigatherscattertest) counts=2 ;;
            *) counts='1 2 4' ;;
        esac
        for ranks in $counts; do
            check "$program, $ranks ranks" 60 mpiexec -n "$ranks" "build/dune/common/parallel/test/$program"
        done
    done
}
