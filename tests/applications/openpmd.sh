# source pip openpmd-api 0.15.2
# needs gcc g++ cmake make zlib1g-dev
# uses files through the parallel HDF5 of hdf5.sh: independent and collective datasets, attributes, hints;
#   MPI_Comm_dup, MPI_Gather, MPI_Allreduce
# proves its own parallel tests of meshes and particles in HDF5 files; its examples, which write a mesh, and
#   write and read fields of many shapes, with independent and with collective access
build() {
    prepare hdf5
    cmake -S . -B build -DopenPMD_USE_MPI=ON -DopenPMD_USE_HDF5=ON -DopenPMD_USE_ADIOS2=OFF -DopenPMD_USE_PYTHON=OFF -DopenPMD_BUILD_CLI_TOOLS=OFF \
        -DHDF5_ROOT="$kept/hdf5/source/installed" -DHDF5_PREFER_PARALLEL=ON -DCMAKE_BUILD_TYPE= -DCMAKE_CXX_FLAGS='-O1 -w' -DCMAKE_C_FLAGS='-O1 -w' || return 1
    make -s -C build -j"$jobs" ParallelIOTests 5_write_parallel 8_benchmark_parallel
}
verify() {
    cd build
    mkdir -p ../samples
    for ranks in 2 3 4; do
        says "ParallelIOTests, $ranks ranks" 300 'All tests passed' mpiexec -n $ranks bin/ParallelIOTests
    done
    # In the tests above some ranks write what others do not, which collective access does not allow.
    for independent in ON OFF; do
        export OPENPMD_HDF5_INDEPENDENT=$independent
        says "5_write_parallel, independent $independent" 60 'fully written' mpiexec -n 4 bin/5_write_parallel
        says "8_benchmark_parallel, independent $independent" 300 'on rank 3.*read time' mpiexec -n 4 bin/8_benchmark_parallel
    done
}
