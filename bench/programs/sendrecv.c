/* Sendrecv around a periodic chain (as in the Intel MPI Benchmarks): each rank sends to the right and
 * receives from the left. The value counts what a rank sends and receives, so a full-duplex link shows up as
 * twice its rate. */
#include "common.h"

static int left(const bench *b)
{
    return (b->rank + b->ranks - 1) % b->ranks;
}

static double run(bench *b, size_t size, long iterations)
{
    int to = (b->rank + 1) % b->ranks, from = left(b);
    double began = bench_now();
    for (long i = 0; i < iterations; i++)
        MPI_Sendrecv(b->send, (int)size, MPI_BYTE, to, BENCH_TAG, b->receive, (int)size, MPI_BYTE, from, BENCH_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return bench_now() - began;
}

static void buffers(const bench *b, size_t size, size_t *send, size_t *receive)
{
    (void)b;
    *send = *receive = size;
}

static int check(const bench *b, size_t size, char why[BENCH_WHY_MAX])
{
    return bench_filled(b, b->receive, size, left(b), why);
}

static double value(const bench *b, size_t size, double seconds)
{
    (void)b;
    return 2.0 * (double)size / seconds / 1e6;
}

int main(int argc, char **argv)
{
    static const bench_case c = {.unit = "MB/s", .ranks_min = 2, .buffers = buffers, .prepare = bench_pair_prepare,
        .run = run, .check = check, .value = value, .fields = bench_time_fields};
    bench b;
    bench_start(&b, "sendrecv", "8,1k,16k,64k,80k,256k,1m,4m", &argc, &argv, NULL, 0);
    return bench_end(&b, bench_measure(&b, &c));
}
