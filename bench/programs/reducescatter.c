/* Sum of doubles, scattered in equal blocks (Reduce_scatter_block), back to back; `size` is the block that
 * each rank gets, in bytes. The slowest rank counts. */
#include "sums.h"

static double run(bench *b, size_t size, long iterations)
{
    double began = bench_now();
    for (long i = 0; i < iterations; i++)
        MPI_Reduce_scatter_block(b->send, b->receive, (int)(size / sizeof(double)), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return bench_now() - began;
}

static void buffers(const bench *b, size_t size, size_t *send, size_t *receive)
{
    *send = size * (size_t)b->ranks;
    *receive = size;
}

static int check(const bench *b, size_t size, char why[BENCH_WHY_MAX])
{
    return sums_right(b, size / sizeof(double) * (size_t)b->rank, size, why);
}

int main(int argc, char **argv)
{
    static const bench_case c = {.unit = "us", .ranks_min = 1, .buffers = buffers, .prepare = sums_prepare,
        .run = run, .check = check, .value = bench_microseconds, .round = sums_whole};
    bench b;
    bench_start(&b, "reducescatter", "8,64,1k,16k,64k,1m", &argc, &argv, NULL, 0);
    return bench_end(&b, bench_measure(&b, &c));
}
