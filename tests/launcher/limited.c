/* Uses the features that take files, descriptors, memory and threads, once each: for runs under limits
 * (`ulimit`) that are too low. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    int rank, ranks, sum = 0;
    char *base;
    MPI_Win win;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Win_allocate(1 << 20, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
    MPI_Win_free(&win);
    void *large = calloc(1, 1 << 20);
    MPI_Bcast(large, large ? 1 << 20 : 0, MPI_BYTE, 0, MPI_COMM_WORLD);
    free(large);
    if (rank == 0)
        printf("the sum is %d\n", sum);
    MPI_Finalize();
    return sum != ranks * (ranks - 1) / 2;
}
