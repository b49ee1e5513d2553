/* Put and get between the ranks of a pair with a passive target (MPI-5.0 §12.5.3): lock_all once, flush to complete. */
#ifndef WEFT_BENCH_ONESIDED_H
#define WEFT_BENCH_ONESIDED_H

#include "common.h"

static struct {
    MPI_Win window;
    unsigned char *memory;      /* this rank's part of the window */
    size_t bytes;
    int put, bandwidth;
} side;

static int operations(const bench *b, size_t size)
{
    return side.bandwidth ? bench_window(b, size) : 1;
}

/* The leading rank alone acts. Each operation of a window has its own place at the target. */
static double run(bench *b, size_t size, long iterations)
{
    int count = operations(b, size);
    double began = bench_now();
    if (b->peer < 0 || !b->leads)
        return 0;
    for (long i = 0; i < iterations; i++) {
        for (int o = 0; o < count; o++) {
            size_t at = (size_t)o * bench_stride(size);
            if (side.put)
                MPI_Put(b->send, (int)size, MPI_BYTE, b->peer, (MPI_Aint)at, (int)size, MPI_BYTE, side.window);
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

/* All access epochs are open for the whole run; Win_sync makes own stores and others' puts visible (MPI-5.0 §12.7). */
static void prepare(bench *b, size_t size)
{
    bench_pair_prepare(b, size);
    for (int o = 0; o < operations(b, size); o++) {
        unsigned char *at = side.memory + (size_t)o * bench_stride(size);
        if (side.put)
            memset(at, 0, size);
        else
            bench_fill(b, at, size, b->rank);
    }
    MPI_Win_sync(side.window);
    MPI_Barrier(MPI_COMM_WORLD);
}

static int check(const bench *b, size_t size, char why[BENCH_WHY_MAX])
{
    const unsigned char *bytes = side.put ? side.memory : b->receive;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_sync(side.window);
    if (b->peer < 0 || b->leads == side.put)
        return 1;
    for (int o = 0; o < operations(b, size); o++)
        if (!bench_filled(b, bytes + (size_t)o * bench_stride(size), size, b->peer, why))
            return 0;
    return 1;
}

static double value(const bench *b, size_t size, double seconds)
{
    if (!side.bandwidth)
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

/* 1 when every rank has the window. A library without one-sided operations is a finding, not a failure of the program;
 * `missing` says that this was the reason. */
static int open_window(bench *b, int *missing, char why[BENCH_WHY_MAX])
{
    char text[MPI_MAX_ERROR_STRING + 1];
    int class = MPI_SUCCESS, length = 0, code, right;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    code = MPI_Win_allocate((MPI_Aint)side.bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &side.memory, &side.window);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    if (code != MPI_SUCCESS) {
        MPI_Error_class(code, &class);
        MPI_Error_string(code, text, &length);
        text[length] = 0;
        snprintf(why, BENCH_WHY_MAX, "MPI_Win_allocate: %.130s", text);
    }
    *missing = class == MPI_ERR_UNSUPPORTED_OPERATION;
    right = bench_agree(b, code == MPI_SUCCESS, why);
    MPI_Bcast(missing, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return right;
}

/* The whole program: measures `put` (else get), one operation a flush for latency or a window of them for `bandwidth`. */
static int onesided_main(const char *measurement, const char *sizes, int put, int bandwidth, int argc, char **argv)
{
    bench_case c = {.ranks_min = 2, .buffers = buffers, .prepare = prepare, .run = run, .check = check, .value = value, .fields = fields};
    char why[BENCH_WHY_MAX] = "";
    int missing, status;
    bench b;
    c.unit = bandwidth ? "MB/s" : "us";
    side.put = put;
    side.bandwidth = bandwidth;
    bench_start(&b, measurement, sizes, &argc, &argv, NULL, 0);
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
