/* Allgather back to back; `size` is the block of one rank, in bytes. The slowest rank counts. */
#include "common.h"

static double run(bench *b, size_t size, long iterations)
{
    double began = bench_now();
    for (long i = 0; i < iterations; i++)
        MPI_Allgather(b->send, (int)size, MPI_BYTE, b->receive, (int)size, MPI_BYTE, MPI_COMM_WORLD);
    return bench_now() - began;
}

static void buffers(const bench *b, size_t size, size_t *send, size_t *receive)
{
    *send = size;
    *receive = size * (size_t)b->ranks;
}

static int check(const bench *b, size_t size, char why[BENCH_WHY_MAX])
{
    for (int rank = 0; rank < b->ranks; rank++)
        if (!bench_filled(b, b->receive + size * (size_t)rank, size, rank, why))
            return 0;
    return 1;
}

int main(int argc, char **argv)
{
    static const bench_case c = {.unit = "us", .ranks_min = 1, .buffers = buffers, .prepare = bench_pair_prepare,
        .run = run, .check = check, .value = bench_microseconds};
    bench b;
    bench_start(&b, "allgather", "8,64,1k,16k,64k,1m", &argc, &argv, NULL, 0);
    return bench_end(&b, bench_measure(&b, &c));
}
