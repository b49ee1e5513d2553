/*
 * ring: a number goes round all ranks, and each adds its own; rank 0 checks the sum and prints the name of
 * the library. The demo compiles it with another library's compiler wrapper and runs it, unchanged, on Weft.
 */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

enum { ROUNDS = 100 };

int main(int argc, char **argv)
{
    char library[MPI_MAX_LIBRARY_VERSION_STRING];
    int rank, ranks, length;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
    long sum = 0;
    for (int round = 0; round < ROUNDS; round++) {
        if (rank > 0)
            MPI_Recv(&sum, 1, MPI_LONG, previous, round, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        long with_mine = sum + rank;
        MPI_Request request;
        MPI_Isend(&with_mine, 1, MPI_LONG, next, round, MPI_COMM_WORLD, &request);
        if (rank == 0)
            MPI_Recv(&sum, 1, MPI_LONG, previous, round, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    int code = 0;
    if (rank == 0) {
        long expected = (long)ROUNDS * ranks * (ranks - 1) / 2;
        MPI_Get_library_version(library, &length);
        library[strcspn(library, "\n")] = '\0';
        printf("ring: %d rounds over %d ranks, sum %ld (%s) on %s\n", ROUNDS, ranks, sum,
               sum == expected ? "right" : "WRONG", library);
        code = sum != expected;
    }
    MPI_Finalize();
    return code;
}
