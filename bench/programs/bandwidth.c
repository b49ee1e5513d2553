/* Bytes a second from one rank of a pair to the other, a window of nonblocking messages outstanding. */
#include "common.h"

static double value(const bench *b, size_t size, double seconds)
{
    return (double)size * bench_window(b, size) * bench_pairs(b) / seconds / 1e6;
}

int main(int argc, char **argv)
{
    static const bench_case c = {.unit = "MB/s", .ranks_min = 2, .buffers = bench_window_buffers, .prepare = bench_pair_prepare,
        .run = bench_stream, .check = bench_stream_check, .value = value, .fields = bench_window_fields};
    bench b;
    bench_start(&b, "bandwidth", "1k,4k,16k,64k,256k,1m,4m", &argc, &argv, NULL, 0);
    return bench_end(&b, bench_measure(&b, &c));
}
