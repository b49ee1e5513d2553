/* Start-up seen from inside: the time of MPI_Init on the slowest rank, and of the first barrier, in which
 * libraries that connect late make their connections. The program that starts this one times the whole, from
 * typing mpiexec to its end. */
#include "common.h"
#include <time.h>

static double clock_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int main(int argc, char **argv)
{
    /* MPI_Wtime may not be called before MPI_Init. */
    double began = clock_now(), init, barrier, slowest_init, slowest_barrier;
    bench b;
    bench_start(&b, "startup", "", &argc, &argv, NULL, 0);
    init = clock_now() - began;
    began = clock_now();
    MPI_Barrier(MPI_COMM_WORLD);
    barrier = clock_now() - began;
    slowest_init = bench_max(init);
    slowest_barrier = bench_max(barrier);
    if (b.rank == 0) {
        json_open(b.measurement);
        json_integer("size", 0);
        json_integer("ranks", b.ranks);
        json_text("unit", "ms");
        json_number("value", slowest_init * 1e3);
        json_integer("iterations", 1);
        json_integer("sample", 0);
        json_true("checked", 0);
        json_number("first_barrier_ms", slowest_barrier * 1e3);
        json_number("init_rank_0_ms", init * 1e3);
        json_true("valid", 1);
        json_close();
    }
    return bench_end(&b, 0);
}
