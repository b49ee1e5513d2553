/* Messages a second from one rank of a pair to the other, a window of messages outstanding; all pairs
 * together. */
#include "common.h"

static double value(const bench *b, size_t size, double seconds)
{
    return (double)bench_window(b, size) * bench_pairs(b) / seconds;
}

int main(int argc, char **argv)
{
    static const bench_case c = {.unit = "messages/s", .ranks_min = 2, .buffers = bench_window_buffers, .prepare = bench_pair_prepare,
        .run = bench_stream, .check = bench_stream_check, .value = value, .fields = bench_window_fields};
    bench b;
    bench_start(&b, "rate", "8", &argc, &argv, NULL, 0);
    return bench_end(&b, bench_measure(&b, &c));
}
