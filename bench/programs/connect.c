/* The time for two groups of one job to meet at a port and to part, as two jobs do, µs. Each half of the
 * ranks is a group. */
#include "common.h"

static struct {
    MPI_Comm half;
    int accepts;
    char port[MPI_MAX_PORT_NAME];
} groups;

static MPI_Comm meet(void)
{
    MPI_Comm inter;
    if (groups.accepts)
        MPI_Comm_accept(groups.port, MPI_INFO_NULL, 0, groups.half, &inter);
    else
        MPI_Comm_connect(groups.port, MPI_INFO_NULL, 0, groups.half, &inter);
    return inter;
}

static double run(bench *b, size_t size, long iterations)
{
    double began = bench_now();
    (void)b;
    (void)size;
    for (long i = 0; i < iterations; i++) {
        MPI_Comm inter = meet();
        MPI_Comm_disconnect(&inter);
    }
    return bench_now() - began;
}

static int check(const bench *b, size_t size, char why[BENCH_WHY_MAX])
{
    MPI_Comm inter = meet();
    int first = groups.accepts ? b->ranks / 2 : 0, end = groups.accepts ? b->ranks : b->ranks / 2;
    int expected = 0, sum = -1, word = b->rank;
    (void)size;
    MPI_Allreduce(&word, &sum, 1, MPI_INT, MPI_SUM, inter);
    MPI_Comm_disconnect(&inter);
    for (int other = first; other < end; other++)
        expected += other;
    if (sum == expected)
        return 1;
    snprintf(why, BENCH_WHY_MAX, "the ranks of the other group give %d and not %d", sum, expected);
    return 0;
}

int main(int argc, char **argv)
{
    static const bench_case c = {.unit = "us", .ranks_min = 2, .run = run, .check = check, .value = bench_microseconds};
    bench b;
    int status;
    bench_start(&b, "connect", "", &argc, &argv, NULL, 0);
    groups.accepts = b.rank < b.ranks / 2;
    MPI_Comm_split(MPI_COMM_WORLD, groups.accepts, b.rank, &groups.half);
    if (b.rank == 0)
        MPI_Open_port(MPI_INFO_NULL, groups.port);
    MPI_Bcast(groups.port, sizeof groups.port, MPI_CHAR, 0, MPI_COMM_WORLD);
    status = bench_measure(&b, &c);
    if (b.rank == 0)
        MPI_Close_port(groups.port);
    MPI_Comm_free(&groups.half);
    return bench_end(&b, status);
}
