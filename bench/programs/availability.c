/* Measures overhead and application availability of nonblocking sends and receives, by the post-work-wait
 * method of D. Doerfler and R. Brightwell, "Measuring MPI Send and Receive Overhead and Application
 * Availability in High Performance Network Interfaces", EuroPVM/MPI 2006.
 *
 * Rank 0 posts an operation, works without calling MPI, and waits; its peer is inside MPI all the time. The
 * work grows from nothing until an iteration takes `stop threshold` times as long as without work. Then
 *   transfer time = mean of the iterations before the work matters: those within `base threshold` of their
 *                   mean so far
 *   overhead      = iteration - work alone, at the last point
 *   availability  = 1 - overhead / transfer time
 *
 * A send starts when the peer has said that its receive is posted; a receive tells the peer to send once it
 * is posted itself. Iterations are timed one by one, and a point is their median (--statistic mean for the
 * paper's average): on a virtual machine one preemption is longer than a hundred transfers.
 *
 * The paper's transfer is one message from a rank that the receiver names, in one run of memory. Variants
 * measure other transfers that programs have: receives from MPI_ANY_SOURCE, blocks with gaps between them at
 * both ends (a vector), and several messages at once.
 *
 * The program measures nonblocking collectives of all ranks as well. Rank 0 starts one when all other ranks
 * have said that they have started it, works, and waits; the other ranks are inside MPI. `size` is each
 * rank's contribution; in an alltoall, its contribution for each other rank. */
#include "sums.h"
#include <math.h>

enum {
    POINTS_MAX = 64,            /* of a sweep */
    ITERATIONS_MIN = 5,         /* of a point */
    ITERATIONS_MAX = 10000,
    WARM_UP = 3,                /* iterations before those of a point that count */
    REPEATS = 2,                /* of a point that seems to end the sweep */
    PROBE = -1,
    READY = BENCH_TAG + 1, COMMAND = BENCH_TAG + 2, VERDICT = BENCH_TAG + 3
};

/* The first work after none is this part of the transfer time; each next is larger by the growth. */
static const double first_work = 1.0 / 32, growth = 1.25;
/* Iterations that the calibration of the work loop takes, in seconds. */
static const double calibration_s = 0.02;
/* An overhead this far below zero, in transfer times, is no measurement. */
static const double disturbance = 0.1;

/* The operation that rank 0 starts; it is the root of the first broadcast, and a receiver in the second. */
enum direction { SEND, RECEIVE, BCAST, BCAST_TO, ALLREDUCE, ALLGATHER, ALLTOALL, DIRECTIONS };
static const char *const direction_names[DIRECTIONS] = {"send", "receive", "bcast", "bcast-to", "allreduce", "allgather", "alltoall"};

static double base_threshold = 1.02, stop_threshold = 1.5;
static const char *direction_option = "both", *statistic = "median", *source_option = "named", *layout_option = "contiguous";
static double messages_option = 1, block_option = 1024;
static double steps_per_us;
static double times[ITERATIONS_MAX];
static volatile unsigned long sink;

typedef struct point {
    double work_us, iteration_us;
    long iterations;
    int valid;
    char why[BENCH_WHY_MAX];
} point;

/* An order of rank 0 to its peer, or to all others: 0 iterations end the program, PROBE measures a cache
 * line. */
typedef struct command {
    long iterations, direction, size, seed;
} command;

/* Work that touches no memory: no part of it can wait for the transfer. */
static void work(long steps)
{
    unsigned long x = sink;
    for (long i = 0; i < steps; i++)
        x = x * 6364136223846793005UL + 1442695040888963407UL;
    sink = x;
}

static void calibrate(void)
{
    long steps = 1000;
    for (;;) {
        double began = bench_now(), took;
        work(steps);
        took = bench_now() - began;
        if (took >= calibration_s || steps > 1000000000L) {
            steps_per_us = (double)steps / (took * 1e6);
            return;
        }
        steps *= 2;
    }
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The microseconds of an iteration, from `times`. */
static double summary(long count)
{
    double sum = 0;
    if (strcmp(statistic, "mean") != 0) {
        qsort(times, (size_t)count, sizeof *times, ascending);
        return (times[(count - 1) / 2] + times[count / 2]) / 2 * 1e6;
    }
    for (long i = 0; i < count; i++)
        sum += times[i];
    return sum / (double)count * 1e6;
}

static int is_collective(enum direction d)
{
    return d >= BCAST;
}

/* Says whether `direction_option` asks for this direction. */
static int is_asked(enum direction d)
{
    const char *several = is_collective(d) ? "collectives" : "both";
    return strcmp(direction_option, several) == 0 || strcmp(direction_option, direction_names[d]) == 0;
}

static int is_any_collective_asked(void)
{
    int asked = 0;
    for (int d = BCAST; d < DIRECTIONS; d++)
        asked |= is_asked((enum direction)d);
    return asked;
}

/* The first of the ranks that follow rank 0's orders: its peer alone, or all others. */
static int first_server(const bench *b)
{
    return is_any_collective_asked() ? 1 : b->peer;
}

static int last_server(const bench *b)
{
    return is_any_collective_asked() ? b->ranks - 1 : b->peer;
}

static void tell(const bench *b, command *c)
{
    for (int rank = first_server(b); rank <= last_server(b); rank++)
        MPI_Send(c, 4, MPI_LONG, rank, COMMAND, MPI_COMM_WORLD);
}

/* The data that is sent: `messages` of `count` elements of `type` each, `extent` bytes apart in memory. */
typedef struct transfer {
    int messages, count;
    MPI_Datatype type;
    size_t extent, block, stride; /* blocks of the datatype and how far apart they begin */
} transfer;

static transfer transfer_of(enum direction d, size_t size)
{
    transfer t = {(int)messages_option, (int)size, MPI_BYTE, size, size, size};
    size_t block = (size_t)block_option;
    if (is_collective(d)) {
        t.messages = 1;
        return t;
    }
    if (strcmp(layout_option, "strided") == 0 && size % block == 0) {
        t.block = block;
        t.stride = 2 * block;
        t.extent = 2 * size;
        t.count = 1;
        MPI_Type_vector((int)(size / block), (int)block, (int)t.stride, MPI_BYTE, &t.type);
        MPI_Type_commit(&t.type);
    }
    return t;
}

static void free_transfer(transfer *t)
{
    if (t->type != MPI_BYTE)
        MPI_Type_free(&t->type);
}

static size_t transfer_bytes(const transfer *t)
{
    return t->extent * (size_t)t->messages;
}

static void post_receives(bench *b, const transfer *t)
{
    int source = strcmp(source_option, "any") == 0 ? MPI_ANY_SOURCE : b->peer;
    for (int i = 0; i < t->messages; i++)
        MPI_Irecv(b->receive + (size_t)i * t->extent, t->count, t->type, source, BENCH_TAG, MPI_COMM_WORLD, &b->requests[i]);
}

static void post_sends(bench *b, const transfer *t)
{
    for (int i = 0; i < t->messages; i++)
        MPI_Isend(b->send + (size_t)i * t->extent, t->count, t->type, b->peer, BENCH_TAG, MPI_COMM_WORLD, &b->requests[i]);
}

static void complete(bench *b, const transfer *t)
{
    if (t->messages == 1)
        MPI_Wait(b->requests, MPI_STATUS_IGNORE);
    else
        MPI_Waitall(t->messages, b->requests, MPI_STATUSES_IGNORE);
}

/* The root of a broadcast: the last rank, if rank 0 is to receive. */
static int root_of(const bench *b, enum direction d)
{
    return d == BCAST_TO ? b->ranks - 1 : 0;
}

static void collective_buffers(bench *b, enum direction d, size_t size)
{
    size_t all = size * (size_t)b->ranks;
    bench_buffers(b, d == ALLTOALL ? all : size, d == ALLTOALL || d == ALLGATHER ? all : size);
}

/* Fills this rank's contribution; each block of an alltoall names sender and receiver. */
static void collective_prepare(bench *b, enum direction d, size_t size)
{
    int whole = b->ranks;
    memset(b->receive, 0, b->receive_bytes);
    if (d == ALLREDUCE)
        sums_prepare(b, size);
    else if (d == ALLTOALL)
        for (int to = 0; to < whole; to++)
            bench_fill(b, b->send + (size_t)to * size, size, b->rank * whole + to);
    else if (d == ALLGATHER)
        bench_fill(b, b->send, size, b->rank);
    else if (b->rank == root_of(b, d))
        bench_fill(b, b->receive, size, b->rank);
}

static int collective_right(const bench *b, enum direction d, size_t size, char why[BENCH_WHY_MAX])
{
    int right = 1, whole = b->ranks;
    if (d == ALLREDUCE)
        return sums_right(b, 0, size, why);
    if (d == BCAST || d == BCAST_TO)
        return bench_filled(b, b->receive, size, root_of(b, d), why);
    for (int from = 0; from < whole && right; from++)
        right = bench_filled(b, b->receive + (size_t)from * size, size, d == ALLTOALL ? from * whole + b->rank : from, why);
    return right;
}

static void start_collective(bench *b, enum direction d, size_t size)
{
    int count = (int)size;
    if (d == ALLREDUCE)
        MPI_Iallreduce(b->send, b->receive, count / (int)sizeof(double), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, b->requests);
    else if (d == ALLGATHER)
        MPI_Iallgather(b->send, count, MPI_BYTE, b->receive, count, MPI_BYTE, MPI_COMM_WORLD, b->requests);
    else if (d == ALLTOALL)
        MPI_Ialltoall(b->send, count, MPI_BYTE, b->receive, count, MPI_BYTE, MPI_COMM_WORLD, b->requests);
    else
        MPI_Ibcast(b->receive, count, MPI_BYTE, root_of(b, d), MPI_COMM_WORLD, b->requests);
}

static void await_ready(const bench *b)
{
    for (int rank = first_server(b); rank <= last_server(b); rank++)
        MPI_Recv(NULL, 0, MPI_BYTE, rank, READY, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static double post_work_wait(bench *b, enum direction d, const transfer *t, long steps)
{
    double began;
    if (is_collective(d)) {
        await_ready(b);
        began = bench_now();
        start_collective(b, d, t->extent);
    } else if (d == SEND) {
        MPI_Recv(NULL, 0, MPI_BYTE, b->peer, READY, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        began = bench_now();
        post_sends(b, t);
    } else {
        began = bench_now();
        post_receives(b, t);
        MPI_Send(NULL, 0, MPI_BYTE, b->peer, READY, MPI_COMM_WORLD);
    }
    work(steps);
    complete(b, t);
    return bench_now() - began;
}

static void answer(bench *b, enum direction d, const transfer *t)
{
    if (is_collective(d)) {
        start_collective(b, d, t->extent);
        MPI_Send(NULL, 0, MPI_BYTE, 0, READY, MPI_COMM_WORLD);
        complete(b, t);
    } else if (d == SEND) {
        post_receives(b, t);
        MPI_Send(NULL, 0, MPI_BYTE, b->peer, READY, MPI_COMM_WORLD);
        complete(b, t);
    } else {
        MPI_Recv(NULL, 0, MPI_BYTE, b->peer, READY, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (t->messages > 1) {
            post_sends(b, t);
            complete(b, t);
        } else {
            MPI_Send(b->send, t->count, t->type, b->peer, BENCH_TAG, MPI_COMM_WORLD);
        }
    }
}

/* Says whether the received bytes are those of the peer, and the gaps are as they were. */
static int is_right(const bench *b, const transfer *t, char why[BENCH_WHY_MAX])
{
    size_t bytes = transfer_bytes(t);
    if (t->stride == t->block)
        return bench_filled(b, b->receive, bytes, b->peer, why);
    for (size_t i = 0; i < bytes; i++) {
        int in_gap = i % t->extent % t->stride >= t->block;
        unsigned char want = in_gap ? 0 : plain_content(i, (unsigned)b->peer, b->seed);
        if (b->receive[i] != want) {
            snprintf(why, BENCH_WHY_MAX, "rank %d: byte %zu%s is %d, not %d", b->rank, i, in_gap ? ", in a gap," : "", b->receive[i], want);
            return 0;
        }
    }
    return 1;
}

static void prepare(bench *b, enum direction d, const transfer *t)
{
    if (is_collective(d)) {
        collective_buffers(b, d, t->extent);
        collective_prepare(b, d, t->extent);
    } else {
        bench_buffers(b, transfer_bytes(t), transfer_bytes(t));
        bench_pair_prepare(b, transfer_bytes(t));
    }
}

/* The side of another rank: follows the orders until the order to end. */
static void serve(bench *b)
{
    command c;
    transfer t;
    for (;;) {
        char why[BENCH_WHY_MAX] = "";
        enum direction d;
        MPI_Recv(&c, 4, MPI_LONG, 0, COMMAND, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (c.iterations == 0)
            return;
        if (c.iterations == PROBE) {
            if (b->peer == 0)
                bench_lines_before(b);
            continue;
        }
        d = (enum direction)c.direction;
        b->seed = (unsigned)c.seed;
        t = transfer_of(d, (size_t)c.size);
        prepare(b, d, &t);
        for (long i = 0; i < c.iterations + WARM_UP; i++)
            answer(b, d, &t);
        if (is_collective(d))
            collective_right(b, d, t.extent, why);
        else if (d == SEND)
            is_right(b, &t, why);
        free_transfer(&t);
        MPI_Send(why, BENCH_WHY_MAX, MPI_CHAR, 0, VERDICT, MPI_COMM_WORLD);
    }
}

/* The first complaint of the other ranks, "" if there is none. */
static void hear_verdicts(const bench *b, char why[BENCH_WHY_MAX])
{
    why[0] = 0;
    for (int rank = first_server(b); rank <= last_server(b); rank++) {
        char said[BENCH_WHY_MAX];
        MPI_Recv(said, BENCH_WHY_MAX, MPI_CHAR, rank, VERDICT, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (!why[0])
            memcpy(why, said, sizeof said);
    }
}

static void measure_point(bench *b, enum direction d, size_t size, double work_us, point *p)
{
    command c = {p->iterations, d, (long)size, (long)++b->seed};
    transfer t = transfer_of(d, size);
    long steps = (long)(work_us * steps_per_us);
    tell(b, &c);
    prepare(b, d, &t);
    for (int i = 0; i < WARM_UP; i++)
        post_work_wait(b, d, &t, steps);
    for (long i = 0; i < p->iterations; i++)
        times[i] = post_work_wait(b, d, &t, steps);
    p->iteration_us = summary(p->iterations);
    hear_verdicts(b, p->why);
    if (is_collective(d))
        collective_right(b, d, t.extent, p->why);
    else if (d == RECEIVE)
        is_right(b, &t, p->why);
    free_transfer(&t);
    p->valid = p->why[0] == 0;
    /* The same work alone; the peer waits inside MPI for the next command. */
    for (long i = 0; i < p->iterations; i++) {
        double began = bench_now();
        work(steps);
        times[i] = bench_now() - began;
    }
    p->work_us = steps ? summary(p->iterations) : 0;
}

static long iterations_for(const bench *b, double us)
{
    double fit = b->iterations ? (double)b->iterations : us > 0 ? b->seconds * 1e6 / us : ITERATIONS_MAX;
    return fit < ITERATIONS_MIN && !b->iterations ? ITERATIONS_MIN : fit > ITERATIONS_MAX ? ITERATIONS_MAX : (long)fit;
}

/* The fields that tell this transfer from the paper's. */
static void print_kind(void)
{
    char kind[BENCH_WHY_MAX] = "";
    size_t used = 0;
    if (strcmp(source_option, "any") == 0)
        used += (size_t)snprintf(kind + used, sizeof kind - used, "any source, ");
    if (strcmp(layout_option, "strided") == 0)
        used += (size_t)snprintf(kind + used, sizeof kind - used, "blocks of %.0f B, ", block_option);
    if (messages_option > 1)
        used += (size_t)snprintf(kind + used, sizeof kind - used, "%.0f messages, ", messages_option);
    if (used > 0) {
        kind[used - 2] = 0;
        json_text("kind", kind);
    }
}

static void print_common(const bench *b, const char *measurement, enum direction d, size_t size, int sample)
{
    json_open(measurement);
    json_integer("size", (long long)size);
    json_integer("ranks", b->ranks);
    json_integer("sample", sample);
    json_text("direction", direction_names[d]);
    json_text("statistic", statistic);
    print_kind();
}

static void print_point(const bench *b, enum direction d, size_t size, int sample, int number, const point *p)
{
    print_common(b, "availability_sample", d, size, sample);
    json_integer("point", number);
    json_text("unit", "us");
    json_number("value", p->iteration_us);
    json_number("work_us", p->work_us);
    json_number("iteration_us", p->iteration_us);
    json_integer("iterations", p->iterations);
    json_true("valid", p->valid);
    if (!p->valid)
        json_text("why", p->why);
    json_close();
}

/* Prints the result; `last` is the point where the sweep reached its threshold, if `reached`. */
static int print_result(const bench *b, enum direction d, size_t size, int sample, int points, const point *last, double transfer_us, int reached)
{
    double overhead_us = last->iteration_us - last->work_us, percent = (1 - overhead_us / transfer_us) * 100;
    /* Work that alone takes longer than beside a transfer was disturbed when it was alone. */
    int disturbed = overhead_us < -disturbance * transfer_us, valid = reached && last->valid && isfinite(percent) && !disturbed;
    print_common(b, "availability", d, size, sample);
    json_text("unit", "percent");
    json_number("value", percent);
    json_number("availability_percent", percent);
    json_number("overhead_us", overhead_us);
    json_number("transfer_us", transfer_us);
    json_number("work_us", last->work_us);
    json_number("iteration_us", last->iteration_us);
    json_integer("points", points);
    json_integer("iterations", last->iterations);
    json_number("base_threshold", base_threshold);
    json_number("stop_threshold", stop_threshold);
    json_true("checked", 1);
    bench_lines_fields(b);
    json_true("valid", valid);
    if (!valid)
        json_text("why", !last->valid ? last->why : disturbed ? "disturbed: the work took longer alone than beside the transfer"
                         : "the sweep did not reach the stop threshold");
    json_close();
    return !valid;
}

static void probe(bench *b, void (*around)(bench *))
{
    command c = {PROBE, 0, 0, 0};
    if (!b->lines.word)
        return;
    tell(b, &c);
    around(b);
}

/* Measures a point. A point that reaches the stop is measured again, and its quickest time counts: a
 * disturbance only adds time. */
static void measure_surely(bench *b, enum direction d, size_t size, double work_us, double stop_us, point *p)
{
    measure_point(b, d, size, work_us, p);
    for (int i = 0; i < REPEATS && p->valid && p->iteration_us >= stop_us; i++) {
        point again = *p;
        measure_point(b, d, size, work_us, &again);
        if (!again.valid || again.iteration_us < p->iteration_us)
            *p = again;
    }
}

/* Makes one sweep of the work. Returns 0, or 1 when a part of it is not valid.
 *
 * An iteration never gets shorter by more work, so a point is beyond the stop threshold only if the next one
 * is as well: otherwise a preemption at little work would end the sweep with a figure far below zero. The one
 * of the two with less overhead is the last point. */
static int sweep(bench *b, enum direction d, size_t size, int sample)
{
    point p = {0}, last = {0};
    double base_sum = 0, transfer_us = 0, work_us = 0;
    int base_points = 0, base_ended = 0, number = 0, beyond = 0, ended = 0;
    probe(b, bench_lines_before);
    p.iterations = ITERATIONS_MIN;
    measure_point(b, d, size, 0, &p);
    p.iterations = iterations_for(b, p.iteration_us);
    for (; number < POINTS_MAX && !ended; number++) {
        measure_surely(b, d, size, work_us, number > 0 ? transfer_us * stop_threshold : INFINITY, &p);
        print_point(b, d, size, sample, number, &p);
        if (!base_ended && (base_points == 0 || p.iteration_us <= transfer_us * base_threshold)) {
            base_sum += p.iteration_us;
            transfer_us = base_sum / ++base_points;
        } else {
            base_ended = 1;
        }
        beyond = p.iteration_us >= transfer_us * stop_threshold ? beyond + 1 : 0;
        if (beyond < 2 || p.iteration_us - p.work_us < last.iteration_us - last.work_us)
            last = p;
        ended = !p.valid || beyond == 2;
        work_us = work_us == 0 ? transfer_us * first_work : work_us * growth;
        p.iterations = iterations_for(b, p.iteration_us);
    }
    probe(b, bench_lines_after);
    return print_result(b, d, size, sample, number, p.valid ? &last : &p, transfer_us, ended);
}

/* Takes the samples of one size in one direction. Repeats some if the time of a cache line changed meanwhile.
 */
static int sweeps(bench *b, enum direction d, size_t size)
{
    int status = 0, again = 0;
    for (int sample = 0; sample < b->samples + again; sample++) {
        status |= sweep(b, d, size, sample);
        again += b->lines.word && again < b->lines.repeats && lines_changed(&b->lines);
    }
    return status;
}

static int lead(bench *b)
{
    command end = {0, 0, 0, 0};
    int status = 0;
    calibrate();
    for (int i = 0; i < b->sizes_count; i++)
        for (int d = SEND; d < DIRECTIONS; d++)
            if (is_asked((enum direction)d))
                status |= sweeps(b, (enum direction)d, d == ALLREDUCE ? sums_whole(b->sizes[i]) : b->sizes[i]);
    tell(b, &end);
    return status;
}

/* Returns NULL, or a sentence about wrong options. */
static const char *refuse_options(void)
{
    int known = 0;
    for (int d = SEND; d < DIRECTIONS; d++)
        known |= is_asked((enum direction)d);
    if (!known)
        return "--direction: one of send, receive, both, bcast, bcast-to, allreduce, allgather, alltoall, collectives";
    if (strcmp(statistic, "median") != 0 && strcmp(statistic, "mean") != 0)
        return "--statistic: one of median, mean";
    if (strcmp(source_option, "named") != 0 && strcmp(source_option, "any") != 0)
        return "--source: one of named, any";
    if (strcmp(layout_option, "contiguous") != 0 && strcmp(layout_option, "strided") != 0)
        return "--layout: one of contiguous, strided";
    if (!(block_option >= 1 && block_option <= 1 << 20 && block_option == floor(block_option)))
        return "--block: whole bytes, 1 to 1m";
    if (!(messages_option >= 1 && messages_option <= BENCH_WINDOW_MAX && messages_option == floor(messages_option)))
        return "--messages: 1 to 4096";
    if (!(base_threshold > 1 && stop_threshold > base_threshold && stop_threshold <= 1000))
        return "--base-threshold must be above 1, and --stop-threshold above it (and at most 1000)";
    return NULL;
}

int main(int argc, char **argv)
{
    static const bench_option own[] = {
        {"--base-threshold", &base_threshold, NULL, "iterations up to this times the transfer time count into it (default 1.02)"},
        {"--stop-threshold", &stop_threshold, NULL, "the work grows until an iteration takes so many transfer times (default 1.5)"},
        {"--direction", NULL, &direction_option, "send, receive or both (default both); or bcast, bcast-to, allreduce, allgather, alltoall, or collectives for all of these"},
        {"--statistic", NULL, &statistic, "of the iterations of a point: median or mean (default median)"},
        {"--source", NULL, &source_option, "receives name their source, or take any: named or any (default named)"},
        {"--layout", NULL, &layout_option, "contiguous, or strided: blocks with gaps of their size (default contiguous)"},
        {"--block", &block_option, NULL, "bytes of a block (default 1k); sizes that are no multiple stay contiguous"},
        {"--messages", &messages_option, NULL, "messages of the size at once (default 1)"},
    };
    const char *refused;
    bench b;
    int status = 0;
    bench_start(&b, "availability", "1k,4k,16k,64k,256k,1m,4m", &argc, &argv, own, sizeof own / sizeof *own);
    if ((refused = refuse_options())) {
        if (b.rank == 0)
            fprintf(stderr, "%s\n", refused);
        return bench_end(&b, 2);
    }
    if (b.ranks < 2) {
        bench_failed(&b, 0, "percent", "needs at least 2 ranks, has 1");
        return bench_end(&b, 1);
    }
    /* Only one pair exchanges messages; the other ranks then wait in MPI_Finalize, outside the figure. */
    if (b.rank == 0)
        status = lead(&b);
    else if (b.peer == 0 || is_any_collective_asked())
        serve(&b);
    return bench_end(&b, status);
}
