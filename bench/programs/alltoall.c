/* Alltoall back to back; `size` is the block from one rank to another, in bytes. The slowest rank counts. */
#include "common.h"

static double run(bench *b, size_t size, long iterations)
{
    double began = bench_now();
    for (long i = 0; i < iterations; i++)
        MPI_Alltoall(b->send, (int)size, MPI_BYTE, b->receive, (int)size, MPI_BYTE, MPI_COMM_WORLD);
    return bench_now() - began;
}

static void buffers(const bench *b, size_t size, size_t *send, size_t *receive)
{
    *send = *receive = size * (size_t)b->ranks;
}

/* The seed of a block from one rank to another names both ranks. */
static int edge(const bench *b, int from, int to)
{
    return from * b->ranks + to;
}

static void prepare(bench *b, size_t size)
{
    for (int to = 0; to < b->ranks; to++)
        bench_fill(b, b->send + size * (size_t)to, size, edge(b, b->rank, to));
    memset(b->receive, 0, size * (size_t)b->ranks);
}

static int check(const bench *b, size_t size, char why[BENCH_WHY_MAX])
{
    for (int from = 0; from < b->ranks; from++)
        if (!bench_filled(b, b->receive + size * (size_t)from, size, edge(b, from, b->rank), why)) {
            snprintf(why, BENCH_WHY_MAX, "rank %d: the block from rank %d is wrong", b->rank, from);
            return 0;
        }
    return 1;
}

int main(int argc, char **argv)
{
    static const bench_case c = {.unit = "us", .ranks_min = 1, .buffers = buffers, .prepare = prepare,
        .run = run, .check = check, .value = bench_microseconds};
    bench b;
    bench_start(&b, "alltoall", "8,64,1k,16k,64k,1m", &argc, &argv, NULL, 0);
    return bench_end(&b, bench_measure(&b, &c));
}
