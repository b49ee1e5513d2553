# source pip mpi4py-fft 2.0.6
# needs gcc make libfftw3-dev zlib1g-dev
# uses Cartesian communicators and their subgrids, MPI_Dims_create, MPI_Type_create_subarray, MPI_Alltoallw
#   over them, the Python objects of mpi4py, files through h5py.sh
# proves its own tests: arrays divided over ranks in every way are redistributed, and transforms forth and
#   back give the array again; arrays are written and read by all ranks
build() {
    prepare h5py
    "$top/tools/mpi4py.sh" "$prefix"
    CFLAGS='-O1 -w' "$python" -m pip install -q --no-deps --no-build-isolation --no-cache-dir --target site .
}
verify() {
    export PYTHONPATH="$PWD/site:$top/build/mpi4py/site"
    for test in pencil darray libfft; do
        for ranks in 2 4; do
            check "test_$test, $ranks ranks" 240 mpiexec -n $ranks "$python" tests/test_$test.py
        done
    done
    # Hundreds of transforms that every rank computes: minutes.
    check "test_mpifft, 2 ranks" 900 mpiexec -n 2 "$python" tests/test_mpifft.py
    export PYTHONPATH="$PYTHONPATH:$kept/h5py/source/site"
    check "h5py is one with MPI" 60 mpiexec -n 1 "$python" -c 'import h5py; assert h5py.get_config().mpi'
    for ranks in 2 4; do
        check "test_io with HDF5, $ranks ranks" 400 mpiexec -n $ranks "$python" tests/test_io.py
    done
    skip "test_io with netCDF" "it takes a Python package over a parallel netCDF"
}
