/* Barriers back to back; the slowest rank counts. */
#include "common.h"

/* The delay of the late rank in the check, in seconds. */
static const double late = 1e-3;

static double run(bench *b, size_t size, long iterations)
{
    double began = bench_now();
    (void)b;
    (void)size;
    for (long i = 0; i < iterations; i++)
        MPI_Barrier(MPI_COMM_WORLD);
    return bench_now() - began;
}

static void come_late(const bench *b)
{
    double until;
    for (int other = 0; other < b->ranks; other++)
        if (other != b->rank)
            MPI_Recv(NULL, 0, MPI_BYTE, other, BENCH_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    until = bench_now() + late;
    while (bench_now() < until)
        ;
}

/* A barrier moves no contents but promises order. One rank, another one each time, hears that all others are
 * about to enter, waits a moment, and then enters: a rank that was inside for less than that moment did not
 * wait for it. */
static int check(const bench *b, size_t size, char why[BENCH_WHY_MAX])
{
    int last = (int)(b->seed % (unsigned)b->ranks);
    double entered = bench_now(), inside;
    (void)size;
    if (b->rank == last)
        come_late(b);
    else
        MPI_Send(NULL, 0, MPI_BYTE, last, BENCH_TAG, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    inside = bench_now() - entered;
    /* A tenth is allowed because clocks of different hosts do not run equally fast. */
    if (inside >= late * 0.9)
        return 1;
    snprintf(why, BENCH_WHY_MAX, "rank %d left the barrier after %.0f us, before rank %d entered it", b->rank, inside * 1e6, last);
    return 0;
}

int main(int argc, char **argv)
{
    static const bench_case c = {.unit = "us", .ranks_min = 1, .run = run, .check = check, .value = bench_microseconds};
    bench b;
    bench_start(&b, "barrier", "", &argc, &argv, NULL, 0);
    return bench_end(&b, bench_measure(&b, &c));
}
