/* The common part of the broadcasts: the contents are rank 0's, in b->receive on every rank. */
#ifndef WEFT_BENCH_BROADCAST_H
#define WEFT_BENCH_BROADCAST_H

#include "common.h"

static void broadcast_buffers(const bench *b, size_t size, size_t *send, size_t *receive)
{
    (void)b;
    *send = 0;
    *receive = size;
}

static void broadcast_prepare(bench *b, size_t size)
{
    memset(b->receive, 0, size);
    if (b->rank == 0)
        bench_fill(b, b->receive, size, 0);
}

static int broadcast_check(const bench *b, size_t size, char why[BENCH_WHY_MAX])
{
    return bench_filled(b, b->receive, size, 0, why);
}

#endif
