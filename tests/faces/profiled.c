/* A program with calls that profiler.c counts: one send, one question for the size, and an MPI_Alltoallw, for
 * which a face asks the library for the size itself. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    int rank, size, in[64] = {0}, out[64] = {0}, counts[64], displacements[64];
    MPI_Datatype types[64];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != 2)
        MPI_Abort(MPI_COMM_WORLD, 2);
    if (rank == 0)
        MPI_Send(in, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
    else
        MPI_Recv(out, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < size; i++) {
        in[i] = 10 * rank + i;
        counts[i] = 1;
        displacements[i] = i * (int)sizeof(int);
        types[i] = MPI_INT;
    }
    MPI_Alltoallw(in, counts, displacements, types, out, counts, displacements, types, MPI_COMM_WORLD);
    if (out[0] != rank || out[1] != 10 + rank)
        printf("rank %d got %d and %d\n", rank, out[0], out[1]);
    MPI_Finalize();
    return 0;
}
