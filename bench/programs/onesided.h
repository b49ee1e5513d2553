/* Put, get and fetch-and-op between the ranks of a pair with a passive target (MPI-5.0 §12.5.3): lock_all
 * once, flush to complete.
 *
 * MPI allocates the window's memory; with `--memory create` it is the program's own. */
#ifndef WEFT_BENCH_ONESIDED_H
#define WEFT_BENCH_ONESIDED_H

#include "common.h"
#include <stdint.h>
#include <time.h>

enum onesided { PUT, GET, FETCH };

static struct {
    MPI_Win window;
    unsigned char *memory;      /* this rank's part of the window */
    size_t bytes;
    enum onesided operation;
    int many;                   /* a window of operations before the flush */
    int rate;                   /* the value is operations a second, not bytes */
    double compute;             /* seconds that the target computes meanwhile; 0: it waits in MPI */
    const char *kind;           /* "allocate" or "create" */
} side;

static int operations(const bench *b, size_t size)
{
    return side.many ? bench_window(b, size) : 1;
}

static double clock_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Computes, without a call to MPI. */
static void compute(double seconds)
{
    volatile uint64_t x = 1;
    double until = clock_seconds() + seconds;
    while (clock_seconds() < until)
        for (int i = 0; i < 10000; i++)
            x = x * 6364136223846793005u + 1442695040888963407u;
}

/* Only the leading rank acts. Each operation of a window has its own place at the target. */
static double run(bench *b, size_t size, long iterations)
{
    static const uint64_t one = 1;
    int count = operations(b, size);
    double began = bench_now();
    if (b->peer < 0 || !b->leads) {
        if (side.compute > 0 && b->peer >= 0)
            compute(side.compute);
        return 0;
    }
    for (long i = 0; i < iterations; i++) {
        for (int o = 0; o < count; o++) {
            size_t at = (size_t)o * bench_stride(size);
            if (side.operation == PUT)
                MPI_Put(b->send, (int)size, MPI_BYTE, b->peer, (MPI_Aint)at, (int)size, MPI_BYTE, side.window);
            else if (side.operation == FETCH)
                MPI_Fetch_and_op(&one, b->receive + at, MPI_UINT64_T, b->peer, (MPI_Aint)at, MPI_SUM, side.window);
            else
                MPI_Get(b->receive + at, (int)size, MPI_BYTE, b->peer, (MPI_Aint)at, (int)size, MPI_BYTE, side.window);
        }
        MPI_Win_flush(b->peer, side.window);
    }
    return bench_now() - began;
}

static void buffers(const bench *b, size_t size, size_t *send, size_t *receive)
{
    *send = size;
    *receive = bench_stride(size) * (size_t)operations(b, size);
}

/* All access epochs are open for the whole run; Win_sync makes own stores and others' puts visible (MPI-5.0
 * §12.7). */
static void prepare(bench *b, size_t size)
{
    bench_pair_prepare(b, size);
    for (int o = 0; o < operations(b, size); o++) {
        unsigned char *at = side.memory + (size_t)o * bench_stride(size);
        if (side.operation != GET)
            memset(at, 0, size);
        else
            bench_fill(b, at, size, b->rank);
    }
    MPI_Win_sync(side.window);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* The value that the last operation found at the target is the sum of all operations before it: the target
 * tells their number. */
static int counted(const bench *b, char why[BENCH_WHY_MAX])
{
    uint64_t found, there = 0;
    memcpy(&found, b->receive, sizeof found);
    MPI_Get(&there, 8, MPI_BYTE, b->peer, 0, 8, MPI_BYTE, side.window);
    MPI_Win_flush(b->peer, side.window);
    if (there != 0 && found + 1 == there)
        return 1;
    snprintf(why, BENCH_WHY_MAX, "the last MPI_Fetch_and_op found %llu, and there is %llu", (unsigned long long)found, (unsigned long long)there);
    return 0;
}

static int check(const bench *b, size_t size, char why[BENCH_WHY_MAX])
{
    const unsigned char *bytes = side.operation == PUT ? side.memory : b->receive;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_sync(side.window);
    if (b->peer < 0 || b->leads == (side.operation == PUT))
        return 1;
    if (side.operation == FETCH)
        return counted(b, why);
    for (int o = 0; o < operations(b, size); o++)
        if (!bench_filled(b, bytes + (size_t)o * bench_stride(size), size, b->peer, why))
            return 0;
    return 1;
}

static double value(const bench *b, size_t size, double seconds)
{
    if (side.rate)
        return (double)operations(b, size) * bench_pairs(b) / seconds;
    if (!side.many)
        return seconds * 1e6;
    return (double)size * operations(b, size) * bench_pairs(b) / seconds / 1e6;
}

static void fields(const bench *b, size_t size, double seconds)
{
    (void)seconds;
    json_integer("window", operations(b, size));
    json_integer("pairs", bench_pairs(b));
}

static size_t memory_needed(const bench *b)
{
    size_t most = 64;
    for (int i = 0; i < b->sizes_count; i++) {
        size_t need = bench_stride(b->sizes[i]) * (size_t)operations(b, b->sizes[i]);
        if (need > most)
            most = need;
    }
    return most;
}

/* Returns 1 when every rank has the window. A library without one-sided operations is a finding, not a
 * failure of the program; `missing` says that this was the reason. */
static int open_window(bench *b, int *missing, char why[BENCH_WHY_MAX])
{
    int code;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (!strcmp(side.kind, "create")) {
        void *memory = NULL;
        if (posix_memalign(&memory, 4096, side.bytes))
            MPI_Abort(MPI_COMM_WORLD, 2);
        side.memory = memory;
        code = MPI_Win_create(side.memory, (MPI_Aint)side.bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &side.window);
    } else {
        code = MPI_Win_allocate((MPI_Aint)side.bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &side.memory, &side.window);
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    return bench_made(b, code, "the window", missing, why);
}

/* MPI_Fetch_and_op takes one element. */
static size_t one_element(size_t size)
{
    (void)size;
    return sizeof(uint64_t);
}

/* The whole program, with the settings of `side`. */
static int onesided_main(const char *measurement, const char *unit, const char *sizes, int argc, char **argv)
{
    bench_case c = {.unit = unit, .ranks_min = 2, .buffers = buffers, .prepare = prepare, .run = run, .check = check, .value = value, .fields = fields};
    static const bench_option own[] = {{"--memory", NULL, &side.kind, "allocate (default), or create: a window over the program's own memory"},
        {"--compute", &side.compute, NULL, "seconds that the target computes during a sample, without a call to MPI"}};
    char why[BENCH_WHY_MAX] = "";
    int missing, status;
    bench b;
    side.kind = "allocate";
    if (side.operation == FETCH)
        c.round = one_element;
    bench_start(&b, measurement, sizes, &argc, &argv, own, 2);
    /* Each trial of the search for a number of iterations would take as long as the target computes. */
    if (side.compute > 0 && b.iterations == 0) {
        b.iterations = 100;
        b.warmup = 0;
    }
    side.bytes = memory_needed(&b);
    if (!open_window(&b, &missing, why)) {
        bench_failed(&b, 0, c.unit, why);
        return bench_end(&b, missing ? 0 : 1);
    }
    MPI_Win_lock_all(0, side.window);
    status = bench_measure(&b, &c);
    MPI_Win_unlock_all(side.window);
    MPI_Win_free(&side.window);
    return bench_end(&b, status);
}

#endif
