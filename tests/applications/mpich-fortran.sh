# source apt mpich
# needs gcc gfortran make
# uses mpif.h and the module mpi: messages, collectives, communicators, attributes, datatypes, windows,
#   topologies
# proves the Fortran tests of another MPI library's own suite for mpif.h and the module mpi, with the numbers
#   of ranks that its list says, but for files and spawning
# parts: the directories of tests that need no files and start no processes.
parts() {
    for binding in f77 f90; do
        for part in "$binding"/*/; do
            case $part in
                */io/ | */spawn/ | */ext/) ;;
                *) printf '%s\n' "${part%/}" ;;
            esac
        done
    done
}
build() {
    cd test/mpi
    ./configure -q --with-mpi="$prefix" --disable-cxx --disable-spawn --disable-romio CFLAGS=-O1 \
        FFLAGS='-O1 -w -fallow-argument-mismatch' FCFLAGS='-O1 -w -fallow-argument-mismatch'
    make -s -j"$jobs" -C dtpools
    make -s -j"$jobs" -C util
    for part in $(parts); do
        # What cannot be compiled is missing when it is run.
        make -s -k -j"$jobs" -C "$part" || true
    done
}
# without TEST: why this test is left out; nothing for the others.
without() {
    case $1 in
        greqf*) echo "it expects its callback to change a variable of the caller that is INTENT(IN)" ;;
        typecntsf | allctypesf*) echo "it uses constants that MPI-3.0 removed" ;;
        baseenvf*) echo "it knows no MPI 5" ;;
        aintf) echo "it declares MPI_AINT_ADD, which mpif.h declares too" ;;
        alltoallvf90 | split_typef90 | vw_inplacef90 | nonblocking_inpf90)
            echo "it passes arrays for scalars, which the interfaces of the module mpi refuse"
            ;;
        profile1f90) echo "it defines a procedure of the module that it uses" ;;
    esac
}
verify() {
    # Its tests of graphs let the library reorder ranks, and expect that it does not.
    export WEFT_REORDER=0
    cd test/mpi
    for part in $(parts); do
        # A line of the list: the program, how many ranks, and for whom it is.
        sed -e '/^ *#/d' -e '/^ *$/d' -e '/^@/d' "$part/testlist" | sort -u >list
        while read -r program ranks _; do
            why=$(without "$program")
            if [ -n "$why" ]; then
                skip "$part/$program" "$why"
                continue
            fi
            # shellcheck disable=SC2016 # for the inner shell
            says "$part/$program, $ranks ranks" 60 'No Errors' sh -c 'cd "$1" && mpiexec -n "$2" "./$3"' sh "$part" "$ranks" "$program"
        done <list
    done
}
