/* Broadcast from rank 0, a barrier before each (not timed); the slowest rank counts. */
#include "common.h"

static double run(bench *b, size_t size, long iterations)
{
    double inside = 0;
    for (long i = 0; i < iterations; i++) {
        double began;
        MPI_Barrier(MPI_COMM_WORLD);
        began = bench_now();
        MPI_Bcast(b->receive, (int)size, MPI_BYTE, 0, MPI_COMM_WORLD);
        inside += bench_now() - began;
    }
    return inside;
}

static void buffers(const bench *b, size_t size, size_t *send, size_t *receive)
{
    (void)b;
    *send = 0;
    *receive = size;
}

static void prepare(bench *b, size_t size)
{
    memset(b->receive, 0, size);
    if (b->rank == 0)
        bench_fill(b, b->receive, size, 0);
}

static int check(const bench *b, size_t size, char why[BENCH_WHY_MAX])
{
    return bench_filled(b, b->receive, size, 0, why);
}

int main(int argc, char **argv)
{
    static const bench_case c = {.unit = "us", .ranks_min = 2, .buffers = buffers, .prepare = prepare,
        .run = run, .check = check, .value = bench_microseconds};
    bench b;
    bench_start(&b, "bcast", "4,64,1836,16k,64k,1m", &argc, &argv, NULL, 0);
    return bench_end(&b, bench_measure(&b, &c));
}
