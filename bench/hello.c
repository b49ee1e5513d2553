/* The least an MPI program can do: what is left is the launcher's and the library's time to start and end. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    printf("hello from %d\n", rank);
    MPI_Finalize();
    return 0;
}
