/* A part of a program: compiled as a shared object with the mpi.h of one library, and loaded by
 * together.c beside one of the other library. */
#include <mpi.h>
#include <stddef.h>

int module_begin(void)
{
    int begun;
    MPI_Initialized(&begun);
    return begun ? MPI_SUCCESS : MPI_Init(NULL, NULL);
}

int module_rank(void)
{
    int rank = -1;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return rank;
}

int module_send(int value, int to) { return MPI_Send(&value, 1, MPI_INT, to, 7, MPI_COMM_WORLD); }

/* What the next message of any rank and with any tag holds, or -1. */
int module_receive(void)
{
    int value = -1, count = -1;
    MPI_Status status;
    if (MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status) != MPI_SUCCESS)
        return -1;
    MPI_Get_count(&status, MPI_INT, &count);
    return count == 1 && status.MPI_TAG == 7 ? value : -1;
}

/* The sum over all ranks, by a communicator of this module. */
int module_sum(int value)
{
    MPI_Comm copy;
    int sum = -1;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, copy);
    MPI_Comm_free(&copy);
    return sum;
}

int module_end(void) { return MPI_Finalize(); }
