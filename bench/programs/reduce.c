/* Sum of doubles on rank 0, a barrier before each (not timed); `size` is each rank's contribution, in bytes.
 * The slowest rank counts. */
#include "sums.h"

static double run(bench *b, size_t size, long iterations)
{
    double inside = 0;
    for (long i = 0; i < iterations; i++) {
        double began;
        MPI_Barrier(MPI_COMM_WORLD);
        began = bench_now();
        MPI_Reduce(b->send, b->receive, (int)(size / sizeof(double)), MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
        inside += bench_now() - began;
    }
    return inside;
}

static void buffers(const bench *b, size_t size, size_t *send, size_t *receive)
{
    (void)b;
    *send = *receive = size;
}

static int check(const bench *b, size_t size, char why[BENCH_WHY_MAX])
{
    return b->rank != 0 || sums_right(b, 0, size, why);
}

int main(int argc, char **argv)
{
    static const bench_case c = {.unit = "us", .ranks_min = 1, .buffers = buffers, .prepare = sums_prepare,
        .run = run, .check = check, .value = bench_microseconds, .round = sums_whole};
    bench b;
    bench_start(&b, "reduce", "8,64,1k,16k,64k,1m", &argc, &argv, NULL, 0);
    return bench_end(&b, bench_measure(&b, &c));
}
