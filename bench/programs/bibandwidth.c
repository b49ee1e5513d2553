/* Bytes a second of both directions together, a window of nonblocking messages outstanding each way. */
#include "common.h"

static double run(bench *b, size_t size, long iterations)
{
    int window = bench_window(b, size);
    double began = bench_now();
    if (b->peer < 0)
        return 0;
    for (long i = 0; i < iterations; i++) {
        for (int w = 0; w < window; w++)
            MPI_Irecv(b->receive + (size_t)w * bench_stride(size), (int)size, MPI_BYTE, b->peer, BENCH_TAG, MPI_COMM_WORLD, &b->requests[w]);
        for (int w = 0; w < window; w++)
            MPI_Isend(b->send, (int)size, MPI_BYTE, b->peer, BENCH_TAG, MPI_COMM_WORLD, &b->requests[window + w]);
        MPI_Waitall(2 * window, b->requests, MPI_STATUSES_IGNORE);
    }
    return bench_now() - began;
}

static double value(const bench *b, size_t size, double seconds)
{
    return 2.0 * (double)size * bench_window(b, size) * bench_pairs(b) / seconds / 1e6;
}

int main(int argc, char **argv)
{
    static const bench_case c = {.unit = "MB/s", .ranks_min = 2, .buffers = bench_window_buffers, .prepare = bench_pair_prepare,
        .run = run, .check = bench_window_check, .value = value, .fields = bench_window_fields};
    bench b;
    bench_start(&b, "bibandwidth", "1k,4k,16k,64k,256k,1m,4m", &argc, &argv, NULL, 0);
    return bench_end(&b, bench_measure(&b, &c));
}
