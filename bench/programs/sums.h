/* The common part of the reductions: doubles whose sum over the ranks is known. Sizes are whole doubles. */
#ifndef WEFT_BENCH_SUMS_H
#define WEFT_BENCH_SUMS_H

#include "common.h"

/* Small whole numbers: their sum is exact in any order. */
static inline double sums_given(const bench *b, size_t i, int rank)
{
    return (double)(i % 1013 + b->seed) * (rank + 1);
}

/* Fills b->send, all of it. */
static inline void sums_prepare(bench *b, size_t size)
{
    double *mine = (double *)(void *)b->send;
    for (size_t i = 0; i < b->send_bytes / sizeof(double); i++)
        mine[i] = sums_given(b, i, b->rank);
    memset(b->receive, 0, size);
}

/* Says whether b->receive holds the sums from element `first` on. */
static inline int sums_right(const bench *b, size_t first, size_t size, char why[BENCH_WHY_MAX])
{
    const double *sum = (const double *)(const void *)b->receive;
    double ranks = (double)b->ranks * (b->ranks + 1) / 2;
    for (size_t i = 0; i < size / sizeof(double); i++) {
        double want = sums_given(b, first + i, 0) * ranks;
        if (sum[i] != want) {
            snprintf(why, BENCH_WHY_MAX, "rank %d: element %zu is %g, not %g", b->rank, i, sum[i], want);
            return 0;
        }
    }
    return 1;
}

static inline size_t sums_whole(size_t size)
{
    return size < sizeof(double) ? sizeof(double) : size / sizeof(double) * sizeof(double);
}

#endif
