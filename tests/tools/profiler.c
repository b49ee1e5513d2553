/*
 * A profiler by the profiling interface (MPI-5.0 15.2). It has the names MPI_Send, MPI_Recv and
 * MPI_Allreduce, counts and times them, calls the library by the names PMPI_*, and prints its counts in
 * MPI_Finalize. MPI_Pcontrol(0) stops the counting, MPI_Pcontrol(1) goes on with it (15.2.4). It is preloaded
 * to programs that know nothing of it, or linked.
 */
#include <mpi.h>
#include <stdio.h>

enum { SEND, RECEIVE, ALLREDUCE, KINDS };

static const char *const names[KINDS] = {"MPI_Send", "MPI_Recv", "MPI_Allreduce"};
static long calls[KINDS];
static long long bytes[KINDS];
static double seconds[KINDS];
static int counts = 1;

static void note(int kind, long long count, MPI_Datatype type, double began)
{
    int size = 0;
    if (!counts)
        return;
    PMPI_Type_size(type, &size);
    calls[kind]++;
    bytes[kind] += count * size;
    seconds[kind] += PMPI_Wtime() - began;
}

int MPI_Send(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm)
{
    double began = PMPI_Wtime();
    int code = PMPI_Send(buf, count, type, dest, tag, comm);
    note(SEND, count, type, began);
    return code;
}

int MPI_Recv(void *buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Status *status)
{
    double began = PMPI_Wtime();
    MPI_Status own;
    if (status == MPI_STATUS_IGNORE)
        status = &own;
    int code = PMPI_Recv(buf, count, type, source, tag, comm, status), received = 0;
    PMPI_Get_count(status, type, &received);
    note(RECEIVE, received, type, began);
    return code;
}

int MPI_Allreduce(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    double began = PMPI_Wtime();
    int code = PMPI_Allreduce(in, out, count, type, op, comm);
    note(ALLREDUCE, count, type, began);
    return code;
}

int MPI_Pcontrol(const int level, ...)
{
    counts = level > 0;
    return MPI_SUCCESS;
}

int MPI_Finalize(void)
{
    int rank;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int kind = 0; kind < KINDS; kind++)
        if (seconds[kind] >= 0)
            printf("profile: rank %d: %s %ld calls, %lld bytes\n", rank, names[kind], calls[kind], bytes[kind]);
    fflush(stdout);
    return PMPI_Finalize();
}
