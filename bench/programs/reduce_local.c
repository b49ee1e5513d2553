/* Sum of two vectors of doubles in one rank (MPI_Reduce_local): bytes of one vector a second. The slowest
 * rank counts. */
#include "sums.h"

static double run(bench *b, size_t size, long iterations)
{
    double began = bench_now();
    for (long i = 0; i < iterations; i++)
        MPI_Reduce_local(b->send, b->receive, (int)(size / sizeof(double)), MPI_DOUBLE, MPI_SUM);
    return bench_now() - began;
}

static void buffers(const bench *b, size_t size, size_t *send, size_t *receive)
{
    (void)b;
    *send = *receive = size;
}

/* The number of additions is not known here: one more sum must make the difference of one vector. */
static int check(const bench *b, size_t size, char why[BENCH_WHY_MAX])
{
    double *sum = (double *)(void *)b->receive;
    size_t count = size / sizeof(double);
    for (size_t i = 0; i < count; i++)
        sum[i] = (double)i;
    MPI_Reduce_local(b->send, b->receive, (int)count, MPI_DOUBLE, MPI_SUM);
    for (size_t i = 0; i < count; i++)
        if (sum[i] != (double)i + sums_given(b, i, b->rank)) {
            snprintf(why, BENCH_WHY_MAX, "rank %d: element %zu is %g, not %g", b->rank, i, sum[i], (double)i + sums_given(b, i, b->rank));
            return 0;
        }
    return 1;
}

static double megabytes(const bench *b, size_t size, double seconds)
{
    (void)b;
    return (double)size / seconds / 1e6;
}

int main(int argc, char **argv)
{
    static const bench_case c = {.unit = "MB/s", .ranks_min = 1, .buffers = buffers, .prepare = sums_prepare,
        .run = run, .check = check, .value = megabytes, .fields = bench_time_fields, .round = sums_whole};
    bench b;
    bench_start(&b, "reduce_local", "1k,64k,1m,8m", &argc, &argv, NULL, 0);
    return bench_end(&b, bench_measure(&b, &c));
}
