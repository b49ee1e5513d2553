/* Broadcasts back to back: bytes a second that every rank receives, timed until the slowest rank has all. */
#include "broadcast.h"

static double run(bench *b, size_t size, long iterations)
{
    double began = bench_now();
    for (long i = 0; i < iterations; i++)
        MPI_Bcast(b->receive, (int)size, MPI_BYTE, 0, MPI_COMM_WORLD);
    return bench_now() - began;
}

static double value(const bench *b, size_t size, double seconds)
{
    (void)b;
    return (double)size / seconds / 1e6;
}

static void fields(const bench *b, size_t size, double seconds)
{
    (void)b;
    (void)size;
    json_number("time_us", seconds * 1e6);
    json_number("broadcasts_per_second", 1 / seconds);
}

int main(int argc, char **argv)
{
    static const bench_case c = {.unit = "MB/s", .ranks_min = 2, .buffers = broadcast_buffers, .prepare = broadcast_prepare,
        .run = run, .check = broadcast_check, .value = value, .fields = fields};
    bench b;
    bench_start(&b, "bcast_throughput", "4,1836,16k,64k,1m", &argc, &argv, NULL, 0);
    return bench_end(&b, bench_measure(&b, &c));
}
