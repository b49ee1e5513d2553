/* Rank 0 waits for a message that never comes, and has a message for which it does not ask: for the views of
 * debuggers. */
#define _DEFAULT_SOURCE
#include <mpi.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int rank, value = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0)
        MPI_Recv(&value, 1, MPI_INT, 1, 42, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Send(&value, 1, MPI_INT, 0, 43, MPI_COMM_WORLD);
    for (;;)
        pause();
}
