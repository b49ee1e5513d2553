/* collective_times OPERATION SECONDS SIZE…: measures the time of one collective, or, as "pingpong", of half
 * a round trip between the first two ranks, for `weft tune`. Sizes are counted as Weft's table of choices
 * counts them: the message, each rank's contribution, or one block; for allgather and reduce_scatter all
 * blocks together.
 *
 * Prints "RANKS NODES RANKS-OF-THE-FULLEST-NODE", then a line "SIZE MICROSECONDS" for each size: the least of
 * several samples, in each of which the slowest rank counts. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 5 };

static int ranks;
static unsigned char *from, *to;

static int rank;

/* A message to the other rank, and one back. */
static void exchange(int bytes)
{
    if (rank == 0)
        MPI_Send(from, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
    if (rank < 2)
        MPI_Recv(to, bytes, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 1)
        MPI_Send(from, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
}

static void once(const char *what, int bytes)
{
    MPI_Comm all = MPI_COMM_WORLD;
    int share = bytes / ranks;
    if (!strcmp(what, "pingpong"))
        exchange(bytes);
    else if (!strcmp(what, "barrier"))
        MPI_Barrier(all);
    else if (!strcmp(what, "bcast"))
        MPI_Bcast(to, bytes, MPI_BYTE, 0, all);
    else if (!strcmp(what, "gather"))
        MPI_Gather(from, bytes, MPI_BYTE, to, bytes, MPI_BYTE, 0, all);
    else if (!strcmp(what, "scatter"))
        MPI_Scatter(from, bytes, MPI_BYTE, to, bytes, MPI_BYTE, 0, all);
    else if (!strcmp(what, "allgather"))
        MPI_Allgather(from, share, MPI_BYTE, to, share, MPI_BYTE, all);
    else if (!strcmp(what, "alltoall"))
        MPI_Alltoall(from, bytes, MPI_BYTE, to, bytes, MPI_BYTE, all);
    else if (!strcmp(what, "reduce"))
        MPI_Reduce(from, to, bytes / 4, MPI_INT, MPI_SUM, 0, all);
    else if (!strcmp(what, "allreduce"))
        MPI_Allreduce(from, to, bytes / 4, MPI_INT, MPI_SUM, all);
    else if (!strcmp(what, "reduce_scatter"))
        MPI_Reduce_scatter_block(from, to, share / 4, MPI_INT, MPI_SUM, all);
    else
        MPI_Scan(from, to, bytes / 4, MPI_INT, MPI_SUM, all);
}

/* Seconds of `calls` calls, at the slowest rank; the same value on all ranks. */
static double sample(const char *what, int bytes, int calls)
{
    double own, slowest;
    MPI_Barrier(MPI_COMM_WORLD);
    own = MPI_Wtime();
    for (int i = 0; i < calls; i++)
        once(what, bytes);
    own = MPI_Wtime() - own;
    MPI_Allreduce(&own, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return slowest;
}

int main(int argc, char **argv)
{
    int per_node, fullest, leads, nodes, at_node;
    MPI_Comm node;
    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_size(node, &per_node);
    MPI_Comm_rank(node, &at_node);
    leads = at_node == 0;
    MPI_Allreduce(&per_node, &fullest, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    MPI_Allreduce(&leads, &nodes, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%d %d %d\n", ranks, nodes, fullest);
    for (int i = 3; i < argc; i++) {
        long bytes = strtol(argv[i], NULL, 10);
        size_t room = (size_t)bytes * (size_t)ranks + 64;
        double aim = strtod(argv[2], NULL) / SAMPLES, took, least = 1e30;
        int calls = 1;
        from = calloc(room, 1);
        to = calloc(room, 1);
        if (!from || !to || bytes > 1 << 30)
            MPI_Abort(MPI_COMM_WORLD, 1);
        while ((took = sample(argv[1], (int)bytes, calls)) < aim && calls < 1 << 20)
            calls *= took > 0 && aim / took < 2 ? 2 : 4;
        for (int j = 0; j < SAMPLES; j++) {
            took = sample(argv[1], (int)bytes, calls) / calls;
            least = took < least ? took : least;
        }
        if (rank == 0)
            printf("%ld %.3f\n", bytes, least * (strcmp(argv[1], "pingpong") ? 1e6 : 5e5));
        free(from);
        free(to);
    }
    MPI_Comm_free(&node);
    MPI_Finalize();
    return 0;
}
