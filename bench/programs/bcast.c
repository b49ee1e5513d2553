/* Broadcast from rank 0, a barrier before each (not timed); the slowest rank counts. */
#include "broadcast.h"

static double run(bench *b, size_t size, long iterations)
{
    double inside = 0;
    for (long i = 0; i < iterations; i++) {
        double began;
        MPI_Barrier(MPI_COMM_WORLD);
        began = bench_now();
        MPI_Bcast(b->receive, (int)size, MPI_BYTE, 0, MPI_COMM_WORLD);
        inside += bench_now() - began;
    }
    return inside;
}

int main(int argc, char **argv)
{
    static const bench_case c = {.unit = "us", .ranks_min = 2, .buffers = broadcast_buffers, .prepare = broadcast_prepare,
        .run = run, .check = broadcast_check, .value = bench_microseconds};
    bench b;
    bench_start(&b, "bcast", "4,64,1836,16k,64k,1m", &argc, &argv, NULL, 0);
    return bench_end(&b, bench_measure(&b, &c));
}
