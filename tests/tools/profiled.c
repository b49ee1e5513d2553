/* A program that knows nothing of profilers, except that it may tell one where to look (MPI_Pcontrol, MPI-5.0
 * 15.2.4). */
#include <mpi.h>

int main(int argc, char **argv)
{
    int rank, ranks, value[4] = {1, 2, 3, 4}, sum[4];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (int turn = 0; turn < 3; turn++) {
        if (rank == 0)
            MPI_Send(value, turn + 1, MPI_INT, 1, 7, MPI_COMM_WORLD);
        else if (rank == 1)
            MPI_Recv(value, 4, MPI_INT, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    MPI_Pcontrol(0);
    MPI_Allreduce(value, sum, 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Pcontrol(1);
    MPI_Allreduce(value, sum, 2, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
