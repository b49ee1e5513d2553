# source apt petsc
# needs gcc g++ make python3 libblas-dev liblapack-dev
# uses MPI_Fint and its conversions, attributes with callbacks, persistent requests, user operations,
#   MPI_Type_create_struct, nonblocking collectives, windows of all flavors with fences, groups and locks,
#   MPI_Fetch_and_op and MPI_Accumulate with its own types; collective access to files with offsets and views
# proves the whole library builds against mpi.h, and `make check`: a nonlinear solver with 1 and 2 ranks gives
#   its known output; its own tests of communication between parts of an index set (PetscSF) over windows of
#   each flavor with each way to synchronize
build() {
    PETSC_DIR=$PWD PETSC_ARCH=weft ./configure --with-fc=0 --with-cc=mpicc --with-cxx=mpicxx --with-debugging=0 COPTFLAGS=-O1 CXXOPTFLAGS=-O1 --with-x=0 \
        --with-mpiexec="$shared/bin/mpiexec" --with-blaslapack-lib='-llapack -lblas'
    make PETSC_DIR="$PWD" PETSC_ARCH=weft all
}
# its_tests PATTERN…: runs those of its own tests whose names match. Its driver takes one pattern at a time,
# and prints a Test Anything Protocol.
its_tests() {
    for pattern in "$@"; do
        rm -rf weft/tests/counts
        words=$home/said/tests
        timeout 900 make PETSC_DIR="$PWD" PETSC_ARCH=weft -f gmakefile.test test search="$pattern" >"$words" 2>&1 </dev/null || true
        sed -n -e '/ # SKIP /d' -e 's/^ *ok /ok /p' -e 's/^ *not ok /FAILED /p' "$words"
        left_out=$(grep -c '^ *ok .* # SKIP ' "$words" || true)
        [ "$left_out" = 0 ] || skip "$left_out tests of $pattern" "they need libraries or options that PETSc is built without"
        if ! grep '^ *ok ' "$words" | grep -q -v ' # SKIP '; then
            echo "FAILED no test of $pattern has run"
            tail -n 25 "$words"
        fi
    done
}
verify() {
    says "make check" 240 'ex19 run successfully with 2 MPI processes' make PETSC_DIR="$PWD" PETSC_ARCH=weft check
    its_tests 'vec_is_sf_*-ex*window' 'vec_is_sf_*-ex*window_dupped' 'vec_is_sf_tutorials-ex1_[1-8]' vec_is_sf_tutorials-ex1_10 '*_mpiio*'
    if [ -z "${WEFT_HOSTS:-}" ]; then
        its_tests 'vec_is_sf_*-ex*_shared'
    else
        skip "PetscSF over MPI_Win_allocate_shared" "its windows are of all processes, and those of two hosts share no memory"
    fi
}
