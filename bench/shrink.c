/*
 * shrink FILE DEATHS: ranks of one machine die one after the other, and the others go on. For each death the
 * program prints how long after it the last of them has noticed, and how long after it the last of them has a
 * communicator without the dead rank: by MPI_Barrier, MPIX_Comm_revoke and MPIX_Comm_shrink. All ranks share
 * FILE, in which a rank notes when it dies. Any MPI library with mpi-ext.h.
 *
 *   mpicc -O2 -o shrink bench/shrink.c
 *   mpiexec --on-failure continue -n 64 ./shrink /dev/shm/died 5        Weft
 *   mpirun --with-ft ulfm --oversubscribe -n 64 ./shrink /dev/shm/died 5    Open MPI
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <mpi-ext.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { SHRUNK, NOTICED, KINDS };

static long long now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static void end(const char *what)
{
    fprintf(stderr, "shrink: %s\n", what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* The time of the last death, in memory of all ranks. */
static _Atomic long long *shared(const char *name)
{
    int file = open(name, O_RDWR | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, sizeof(long long)) != 0)
        end("the file cannot be made");
    void *memory = mmap(NULL, sizeof(long long), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED)
        end("the file cannot be mapped");
    close(file);
    return memory;
}

int main(int argc, char **argv)
{
    int rank, size;
    long long own[KINDS], last[KINDS];
    MPI_Comm comm, smaller;
    MPI_Init(&argc, &argv);
    if (argc != 3)
        end("usage: shrink FILE DEATHS");
    _Atomic long long *died = shared(argv[1]);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    for (int death = 0; death < atoi(argv[2]); death++) {
        MPI_Comm_rank(comm, &rank);
        MPI_Comm_size(comm, &size);
        if (size < 2)
            end("fewer ranks than deaths");
        MPI_Barrier(comm);
        if (rank == size - 1) {
            atomic_store(died, now_ns());
            raise(SIGKILL);
        }
        /* Some ranks may leave a barrier that fails at others. */
        while (MPI_Barrier(comm) == MPI_SUCCESS)
            continue;
        own[NOTICED] = now_ns() - atomic_load(died);
        MPIX_Comm_revoke(comm);
        if (MPIX_Comm_shrink(comm, &smaller) != MPI_SUCCESS)
            end("the communicator cannot be shrunk");
        own[SHRUNK] = now_ns() - atomic_load(died);
        MPI_Comm_free(&comm);
        comm = smaller;
        MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
        if (MPI_Allreduce(own, last, KINDS, MPI_LONG_LONG, MPI_MAX, comm) != MPI_SUCCESS)
            end("the smaller communicator does not work");
        MPI_Comm_size(comm, &size);
        if (rank == 0)
            printf("%d ranks are left: all noticed after %.3f ms, and are in a new communicator after %.3f ms\n",
                   size, (double)last[NOTICED] / 1e6, (double)last[SHRUNK] / 1e6);
    }
    if (rank == 0)
        unlink(argv[1]);
    MPI_Comm_free(&comm);
    MPI_Finalize();
    return 0;
}
