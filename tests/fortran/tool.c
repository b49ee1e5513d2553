/* A profiler in C: counts the calls of MPI_Send and says how many there were (MPI-5.0 §15.2). */
#include <mpi.h>
#include <stdio.h>

static int sent;

int MPI_Send(const void *buffer, int count, MPI_Datatype type, int destination, int tag, MPI_Comm comm) {
    sent++;
    return PMPI_Send(buffer, count, type, destination, tag, comm);
}

int MPI_Finalize(void) {
    printf("seen in C: %d\n", sent);
    fflush(stdout);
    return PMPI_Finalize();
}
