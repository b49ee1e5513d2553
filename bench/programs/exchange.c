/* Exchange in a periodic chain (as in the Intel MPI Benchmarks): each rank sends to both neighbours and
 * receives from both. The value counts all four messages of a rank. */
#include "common.h"

static int neighbour(const bench *b, int step)
{
    return (b->rank + b->ranks + step) % b->ranks;
}

static double run(bench *b, size_t size, long iterations)
{
    int left = neighbour(b, -1), right = neighbour(b, 1);
    unsigned char *from_right = b->receive + bench_stride(size);
    double began = bench_now();
    for (long i = 0; i < iterations; i++) {
        /* The tag tells the direction: with two ranks both neighbours are the same. */
        MPI_Isend(b->send, (int)size, MPI_BYTE, left, BENCH_TAG, MPI_COMM_WORLD, &b->requests[0]);
        MPI_Isend(b->send, (int)size, MPI_BYTE, right, BENCH_TAG + 1, MPI_COMM_WORLD, &b->requests[1]);
        MPI_Recv(b->receive, (int)size, MPI_BYTE, left, BENCH_TAG + 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Recv(from_right, (int)size, MPI_BYTE, right, BENCH_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Waitall(2, b->requests, MPI_STATUSES_IGNORE);
    }
    return bench_now() - began;
}

static void buffers(const bench *b, size_t size, size_t *send, size_t *receive)
{
    (void)b;
    *send = size;
    *receive = 2 * bench_stride(size);
}

static int check(const bench *b, size_t size, char why[BENCH_WHY_MAX])
{
    return bench_filled(b, b->receive, size, neighbour(b, -1), why)
        && bench_filled(b, b->receive + bench_stride(size), size, neighbour(b, 1), why);
}

static double value(const bench *b, size_t size, double seconds)
{
    (void)b;
    return 4.0 * (double)size / seconds / 1e6;
}

int main(int argc, char **argv)
{
    static const bench_case c = {.unit = "MB/s", .ranks_min = 2, .buffers = buffers, .prepare = bench_pair_prepare,
        .run = run, .check = check, .value = value, .fields = bench_time_fields};
    bench b;
    bench_start(&b, "exchange", "8,1k,16k,64k,256k,1m,4m", &argc, &argv, NULL, 0);
    return bench_end(&b, bench_measure(&b, &c));
}
