/* A profiler for the ABI of one library, to be loaded before a program: counts sends and says how many there
 * were. Expect: it sees the program's calls, and none of those that a face makes. */
#include <mpi.h>
#include <stdio.h>

static int sends, sizes;

int MPI_Send(const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm)
{
    sends++;
    return PMPI_Send(buf, count, datatype, dest, tag, comm);
}

int MPI_Comm_size(MPI_Comm comm, int *size)
{
    sizes++;
    return PMPI_Comm_size(comm, size);
}

int MPI_Finalize(void)
{
    int rank;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0)
        printf("profiler: %d sends, %d questions for the size\n", sends, sizes);
    return PMPI_Finalize();
}
