/* Sum of doubles on all ranks, back to back; `size` is what each rank gives, in bytes. The slowest rank counts. */
#include "common.h"

static double run(bench *b, size_t size, long iterations)
{
    double began = bench_now();
    for (long i = 0; i < iterations; i++)
        MPI_Allreduce(b->send, b->receive, (int)(size / sizeof(double)), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return bench_now() - began;
}

static void buffers(const bench *b, size_t size, size_t *send, size_t *receive)
{
    (void)b;
    *send = *receive = size;
}

/* Small whole numbers: their sum is exact in any order. */
static double given(const bench *b, size_t i, int rank)
{
    return (double)(i % 1013 + b->seed) * (rank + 1);
}

static void prepare(bench *b, size_t size)
{
    double *mine = (double *)(void *)b->send;
    for (size_t i = 0; i < size / sizeof(double); i++)
        mine[i] = given(b, i, b->rank);
    memset(b->receive, 0, size);
}

static int check(const bench *b, size_t size, char why[BENCH_WHY_MAX])
{
    const double *sum = (const double *)(const void *)b->receive;
    double ranks = (double)b->ranks * (b->ranks + 1) / 2;
    for (size_t i = 0; i < size / sizeof(double); i++) {
        double want = given(b, i, 0) * ranks;
        if (sum[i] != want) {
            snprintf(why, BENCH_WHY_MAX, "rank %d: element %zu is %g, not %g", b->rank, i, sum[i], want);
            return 0;
        }
    }
    return 1;
}

static size_t whole(size_t size)
{
    return size < sizeof(double) ? sizeof(double) : size / sizeof(double) * sizeof(double);
}

int main(int argc, char **argv)
{
    static const bench_case c = {.unit = "us", .ranks_min = 1, .buffers = buffers, .prepare = prepare,
        .run = run, .check = check, .value = bench_microseconds, .round = whole};
    bench b;
    bench_start(&b, "allreduce", "8,64,1k,16k,64k,1m", &argc, &argv, NULL, 0);
    return bench_end(&b, bench_measure(&b, &c));
}
