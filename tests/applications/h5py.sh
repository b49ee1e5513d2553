# source pip h5py 3.16.0
# needs gcc make zlib1g-dev
# uses files through the parallel HDF5 of hdf5.sh, with communicators and hints of mpi4py; atomic mode
# proves its own tests of the driver mpio: files that 2 and 4 ranks create, append to and set to atomic mode
build() {
    prepare hdf5
    "$top/tools/mpi4py.sh" "$prefix" || return 1
    "$python" -m pip install -q --disable-pip-version-check --no-cache-dir --target tools pytest==8.4.2 pytest-mpi==0.6 || return 1
    PYTHONPATH=$top/build/mpi4py/site CC=mpicc HDF5_MPI=ON HDF5_DIR=$kept/hdf5/source/installed CFLAGS='-O0 -g0 -w' \
        "$python" -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation --no-cache-dir --target site .
}
verify() {
    export PYTHONPATH="$PWD/site:$PWD/tools:$top/build/mpi4py/site"
    # Beside the source of the same name, Python would not find what is installed.
    cd tools
    for ranks in 2 4; do
        says "its tests of MPI, $ranks ranks" 240 ' passed' mpiexec -n $ranks "$python" -m pytest -q -p no:cacheprovider --only-mpi --pyargs h5py
    done
}
