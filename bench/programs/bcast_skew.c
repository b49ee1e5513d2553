/* Broadcast whose receivers come late by a random time: how long the root is held up, and how long a receiver
 * that is there at last still waits. The value is the root's time inside, which includes the lateness of
 * receivers that it must wait for. With `--at receivers` the value is the receivers' mean time. */
#include "broadcast.h"

static double skew_us = 100;
static const char *at = "root";
static unsigned long draws;     /* state of the generator, another on every rank */
static double lateness;         /* mean of the drawn delays on this rank, seconds */
static double root_us, receivers_us, receivers_max_us, skew_mean_us;

/* Returns a uniform number in [0, 1). A linear congruential generator is random enough for delays, and the
 * same on every machine. */
static double draw(void)
{
    draws = (draws * 1103515245UL + 12345UL) & 0x7fffffffUL;
    return (double)draws / 2147483648.0;
}

static double be_late(void)
{
    double delay = draw() * skew_us * 1e-6, until = bench_now() + delay;
    while (bench_now() < until)
        ;
    return delay;
}

static double run(bench *b, size_t size, long iterations)
{
    double inside = 0, mine, mean, others, longest, late = 0;
    for (long i = 0; i < iterations; i++) {
        double began;
        MPI_Barrier(MPI_COMM_WORLD);
        if (b->rank != 0)
            late += be_late();
        began = bench_now();
        MPI_Bcast(b->receive, (int)size, MPI_BYTE, 0, MPI_COMM_WORLD);
        inside += bench_now() - began;
    }
    lateness = late / (double)iterations;
    mine = b->rank == 0 ? 0 : inside / (double)iterations;
    MPI_Reduce(&mine, &others, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Reduce(&mine, &longest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    MPI_Reduce(&lateness, &mean, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (b->rank == 0) {
        root_us = inside / (double)iterations * 1e6;
        receivers_us = others / (b->ranks - 1) * 1e6;
        receivers_max_us = longest * 1e6;
        skew_mean_us = mean / (b->ranks - 1) * 1e6;
    }
    return inside;
}

static void prepare(bench *b, size_t size)
{
    draws = b->seed * 7919UL + (unsigned long)b->rank * 104729UL + 1;
    broadcast_prepare(b, size);
}

static double value(const bench *b, size_t size, double seconds)
{
    (void)b;
    (void)size;
    (void)seconds;
    return strcmp(at, "receivers") == 0 ? receivers_us : root_us;
}

static void fields(const bench *b, size_t size, double seconds)
{
    (void)b;
    (void)size;
    (void)seconds;
    if (strcmp(at, "receivers") == 0)
        json_text("kind", "at the receivers");
    json_number("skew_us_max", skew_us);
    json_number("skew_us_mean", skew_mean_us);
    json_number("root_us", root_us);
    json_number("receivers_us", receivers_us);
    json_number("slowest_receiver_us", receivers_max_us);
}

int main(int argc, char **argv)
{
    static const bench_option own[] = {{"--skew-us", &skew_us, NULL, "receivers come up to this much late (default 100)"},
        {"--at", NULL, &at, "whose time is the value: root (default) or receivers"}};
    static const bench_case c = {.unit = "us", .ranks_min = 2, .buffers = broadcast_buffers, .prepare = prepare,
        .run = run, .check = broadcast_check, .value = value, .fields = fields};
    bench b;
    bench_start(&b, "bcast_skew", "4,1836,16k,64k", &argc, &argv, own, 2);
    return bench_end(&b, bench_measure(&b, &c));
}
