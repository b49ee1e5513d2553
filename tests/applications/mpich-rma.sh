# source apt mpich
# needs gcc make
# uses windows of every flavor, all one-sided operations and their requests, derived datatypes at both ends,
#   all epochs, flushes, shared memory, MPI_Win_shared_query, hints and assertions
# proves the tests of one-sided communication of another MPI library's own suite, with the numbers of ranks
#   that its list says
build() {
    cd test/mpi
    ./configure -q --with-mpi="$prefix" --disable-fortran --disable-cxx --disable-spawn --disable-romio CFLAGS=-O1
    make -s -j"$jobs" -C dtpools
    make -s -j"$jobs" -C util
    make -s -j"$jobs" -C rma
}
verify() {
    cd test/mpi/rma
    # A line of the list: the program, how many ranks, and what it is told.
    sed -e '/^ *#/d' -e '/^ *$/d' -e 's/^@largetest@//' testlist.in | sort -u >list
    while read -r program ranks rest; do
        # shellcheck disable=SC2086 # a list of words
        read_options $rest
        case $program in
            win_shared_noncontig_put)
                skip "$program, $ranks ranks" "it expects no address of a rank without memory, of which MPI says nothing"
                continue
                ;;
            win_large_shm)
                # A gigabyte for each rank.
                if [ "$(df --output=avail -k /dev/shm | tail -n 1)" -lt $(((ranks + 1) * 1048576)) ]; then
                    skip "$program, $ranks ranks" "/dev/shm has no room for $ranks GiB"
                    continue
                fi
                ;;
        esac
        # shellcheck disable=SC2086 # a list of words
        says "$program$arguments, $ranks ranks" "$limit" 'No Errors' mpiexec -n "$ranks" "./$program" $arguments
    done <list
}
