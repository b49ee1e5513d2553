# source apt sundials
# needs gcc g++ cmake make
# uses MPI_Comm_f2c, reductions with user operations, derived datatypes, nonblocking point-to-point
# proves the unit tests of its parallel vectors and of the iterative solvers over them
build() {
    cmake -S . -B build -DENABLE_MPI=ON -DBUILD_SHARED_LIBS=OFF -DEXAMPLES_INSTALL=OFF -DCMAKE_BUILD_TYPE= -DCMAKE_C_FLAGS=-O1 -DCMAKE_C_COMPILER=gcc \
        -DMPIEXEC_EXECUTABLE="$shared/bin/mpiexec"
    make -s -C build -j"$jobs"
}
verify() {
    cd build
    for test in $(ctest -N | sed -n 's/.*: \(test_.*\(mpi\|parallel\).*\)/\1/p'); do
        check "$test" 60 ctest -R "^$test\$" --output-on-failure --no-tests=error
    done
}
