/* hello: every rank prints its number and its host, in order of rank. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    char name[MPI_MAX_PROCESSOR_NAME];
    int rank, ranks, length;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Get_processor_name(name, &length);
    if (rank > 0) {
        MPI_Send(name, length + 1, MPI_CHAR, 0, 0, MPI_COMM_WORLD);
    } else {
        printf("hello from rank 0 of %d on %s\n", ranks, name);
        for (int other = 1; other < ranks; other++) {
            MPI_Recv(name, sizeof name, MPI_CHAR, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            printf("hello from rank %d of %d on %s\n", other, ranks, name);
        }
    }
    MPI_Finalize();
    return 0;
}
