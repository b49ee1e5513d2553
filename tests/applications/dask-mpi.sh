# source wheel dask-mpi 2026.3.0 pytest requests
# needs gcc make
# uses the Python objects of mpi4py: ranks that become a scheduler, a client and workers, broadcasts of its
#   address, barriers, MPI_Abort where there are too few ranks; messages of its own go over TCP
# proves its own tests: 1 to 5 ranks become a scheduler with workers that compute, and all of them end
build() {
    "$top/tools/mpi4py.sh" "$prefix" || return 1
    # Its tests start the launcher that lies beside Python.
    "$python" -m venv --without-pip env || return 1
    "$python" -m pip --python env/bin/python install -q --disable-pip-version-check --no-index --find-links "$home/archives" dask-mpi pytest requests || return 1
    ln -s "$shared/bin/mpirun" env/bin/mpirun
}
verify() {
    export PYTHONPATH="$top/build/mpi4py/site" PATH="$PWD/env/bin:$PATH"
    # Dask looks for the address of a rank by a route to the Internet, which virtual hosts have not.
    if [ -n "${WEFT_HOSTS:-}" ]; then
        says "its tests, too few ranks" 100 ' passed' env/bin/python -m pytest -q -p no:cacheprovider --pyargs dask_mpi.tests.test_initialize -k small_world
        skip "its other tests" "Dask finds no address of a virtual host"
        return
    fi
    for test in initialize execute cli; do
        says "its tests, $test" 300 ' passed' env/bin/python -m pytest -q -p no:cacheprovider --pyargs dask_mpi.tests.test_$test \
            -k 'not dashboard and not stale_sched'
    done
    skip test_dashboard "it takes the package bokeh"
    skip test_stale_sched "it expects Python and its packages to start within 5 s"
}
