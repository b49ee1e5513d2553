# source apt mpich
# needs gcc make
# uses all kinds of access to files, blocking, nonblocking, collective and split; views of hindexed, darray,
#   subarray and resized types; shared and ordered pointers, atomic mode, external32, hints, errors of files
# proves the tests of files of another MPI library's own suite, and those of ROMIO, with the numbers of ranks
#   that their lists say
# The programs that ROMIO's list runs, with the number of ranks and the arguments before the name of the
# file.
romio='simple 4 -fname
async 4 -fname
async-multiple 4 -fname
atomicity 4 -fname
coll_test 4 -fname
excl 4 -fname
file_info 4 -fname
aggregation1 4 -h -f
aggregation2 4
hindexed 4
shared_fp 4 -fname
ordered_fp 4 -fname
split_coll 4 -fname
psimple 4 -fname
status 1 -fname
types_with_zeros 2
darray_read 4'
build() {
    echo "$romio" >list
    while read -r program rest; do
        # The names of requests of files before MPI-2.1.
        mpicc -w -O1 -DMPIO_Request=MPI_Request -DMPIO_Wait=MPI_Wait "src/mpi/romio/test/$program.c" -o "src/mpi/romio/test/$program" || return 1
    done <list
    mpicc -w -O1 src/mpi/romio/test/external32.c -o src/mpi/romio/test/external32
    cd test/mpi
    ./configure -q --with-mpi="$prefix" --disable-fortran --disable-cxx --disable-spawn CFLAGS=-O1
    make -s -j"$jobs" -C dtpools
    make -s -j"$jobs" -C util
    make -s -j"$jobs" -C io
}
verify() {
    skip "ROMIO's noncontig, i_noncontig, noncontig_coll and noncontig_coll2" "they use MPI_LB and MPI_UB, which MPI-3.0 removed"
    skip "ROMIO's error" "it asks for words of ROMIO's own messages"
    while read -r program ranks arguments; do
        rm -f data data.*
        # shellcheck disable=SC2086 # a list of words
        says "ROMIO's $program, $ranks ranks" 180 'No Errors' mpiexec -n "$ranks" "src/mpi/romio/test/$program" $arguments "$PWD/data"
    done <list
    rm -f data data.*
    says "ROMIO's external32" 60 'external32 datarep is BIG ENDIAN' mpiexec -n 1 src/mpi/romio/test/external32
    cd test/mpi/io
    # A line of the list: the program, how many ranks, and what it is told.
    sed -e '/^ *#/d' -e '/^ *$/d' testlist.in | sort -u >list
    while read -r program ranks rest; do
        # shellcheck disable=SC2086 # a list of words
        read_options $rest
        if [ "$(sed -n 's/^MemAvailable: *\([0-9]*\) kB/\1/p' /proc/meminfo)" -lt $((${gigabytes%.*} * 1048576 * 2)) ]; then
            skip "$program, $ranks ranks" "it needs $gigabytes GB of memory"
            continue
        fi
        # shellcheck disable=SC2086 # a list of words
        says "$program, $ranks ranks" "$limit" 'No Errors' mpiexec -n "$ranks" "./$program" $arguments
    done <list
}
