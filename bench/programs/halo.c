/* One step of a program that exchanges the borders of its part of a grid: each rank receives from the left
 * and sends to the right by MPI_Irecv and MPI_Isend, and waits for both by MPI_Waitall. The value is the time
 * of a step. */
#include "common.h"

static int left(const bench *b)
{
    return (b->rank + b->ranks - 1) % b->ranks;
}

static double run(bench *b, size_t size, long iterations)
{
    int to = (b->rank + 1) % b->ranks, from = left(b);
    double began = bench_now();
    for (long i = 0; i < iterations; i++) {
        MPI_Irecv(b->receive, (int)size, MPI_BYTE, from, BENCH_TAG, MPI_COMM_WORLD, &b->requests[0]);
        MPI_Isend(b->send, (int)size, MPI_BYTE, to, BENCH_TAG, MPI_COMM_WORLD, &b->requests[1]);
        MPI_Waitall(2, b->requests, MPI_STATUSES_IGNORE);
    }
    return bench_now() - began;
}

static void buffers(const bench *b, size_t size, size_t *send, size_t *receive)
{
    (void)b;
    *send = *receive = size;
}

static int check(const bench *b, size_t size, char why[BENCH_WHY_MAX])
{
    return bench_filled(b, b->receive, size, left(b), why);
}

int main(int argc, char **argv)
{
    static const bench_case c = {.unit = "us", .ranks_min = 2, .buffers = buffers, .prepare = bench_pair_prepare,
        .run = run, .check = check, .value = bench_microseconds};
    bench b;
    bench_start(&b, "halo", "8,1k,16k,64k,256k,1m,4m", &argc, &argv, NULL, 0);
    return bench_end(&b, bench_measure(&b, &c));
}
