/* Half the round trip of blocking Send and Recv between the ranks of a pair. */
#include "common.h"

static double run(bench *b, size_t size, long iterations)
{
    double began = bench_now();
    if (b->peer < 0)
        return 0;
    for (long i = 0; i < iterations; i++) {
        if (b->leads)
            MPI_Send(b->send, (int)size, MPI_BYTE, b->peer, BENCH_TAG, MPI_COMM_WORLD);
        MPI_Recv(b->receive, (int)size, MPI_BYTE, b->peer, BENCH_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (!b->leads)
            MPI_Send(b->send, (int)size, MPI_BYTE, b->peer, BENCH_TAG, MPI_COMM_WORLD);
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
    return b->peer < 0 || bench_filled(b, b->receive, size, b->peer, why);
}

static double value(const bench *b, size_t size, double seconds)
{
    (void)b;
    (void)size;
    return seconds * 1e6 / 2;
}

static void fields(const bench *b, size_t size, double seconds)
{
    (void)size;
    (void)seconds;
    json_integer("pairs", bench_pairs(b));
}

int main(int argc, char **argv)
{
    static const bench_case c = {.unit = "us", .ranks_min = 2, .buffers = buffers, .prepare = bench_pair_prepare,
        .run = run, .check = check, .value = value, .fields = fields};
    bench b;
    bench_start(&b, "pingpong", "8,64,1k,4k,16k,64k,256k,1m,4m", &argc, &argv, NULL, 0);
    return bench_end(&b, bench_measure(&b, &c));
}
