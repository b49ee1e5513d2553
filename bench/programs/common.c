#include "common.h"
#include <limits.h>

enum {
    PAGE = 4096,
    CHOICES_MAX = 3,            /* times that a size's iterations are chosen again, after a short sample */
    TRIALS_MAX = 40,            /* steps of the search for the number of iterations */
    SAMPLES_MAX = 100000,
    BYTES_MAX = 1 << 30         /* of one buffer */
};

static const long iterations_max = 1000000000L;
static const double seconds_max = 3600;

int bench_thread_level = MPI_THREAD_SINGLE;

double bench_now(void)
{
    return MPI_Wtime();
}

double bench_max(double value)
{
    double largest = value;
    MPI_Allreduce(&value, &largest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return largest;
}

void bench_failed(const bench *b, size_t size, const char *unit, const char *why)
{
    if (b->rank != 0)
        return;
    json_open(b->measurement);
    json_integer("size", (long long)size);
    json_integer("ranks", b->ranks);
    json_text("unit", unit);
    printf(",\"value\":null");
    json_true("valid", 0);
    json_text("why", why);
    json_close();
}

/* ---- Lines ---- */

static void start_lines(bench *b)
{
    int is_on = lines_start(&b->lines, b->ranks < 2 ? -1 : b->rank == 0 ? 0 : b->rank == b->ranks / 2 ? 1 : -1), all_on;
    MPI_Allreduce(&is_on, &all_on, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (!all_on || b->ranks < 2)
        lines_end(&b->lines);
}

void bench_lines_before(bench *b)
{
    b->lines.before = lines_probe(&b->lines);
}

void bench_lines_after(bench *b)
{
    b->lines.after = lines_probe(&b->lines);
}

void bench_lines_fields(const bench *b)
{
    lines_fields(&b->lines);
}

int bench_lines_repeat(const bench *b, int *again)
{
    int repeat;
    if (!b->lines.word || *again >= b->lines.repeats)
        return 0;
    repeat = lines_changed(&b->lines);
    MPI_Bcast(&repeat, 1, MPI_INT, 0, MPI_COMM_WORLD);
    *again += repeat;
    return repeat;
}

/* ---- Options ---- */

static const char *const common_help =
    "  --sizes A,B,C        message sizes in bytes (k, m: 1024, 1048576)\n"
    "  --min-size A         with --max-size: the powers of two from A to B instead\n"
    "  --max-size B\n"
    "  --iterations N       per sample; 0: as many as fill --seconds (default 0)\n"
    "  --warmup N           iterations before the samples of a size (default: those that --iterations 0 tries, else 10)\n"
    "  --samples N          lines per size (default 5)\n"
    "  --seconds S          aimed length of a sample (default 0.05)\n"
    "  --window N           messages outstanding at once (default 64)\n"
    "  --window-bytes N     the window shrinks to fit here, to no less than 2 messages (default 16m)\n"
    "  --pairs N            pairs that talk, rank i with rank i + ranks/2; 0: all (default 0)\n";

static void stop(int rank, int status, const char *sentence, const char *word)
{
    if (rank == 0 && sentence)
        fprintf(stderr, sentence, word);
    MPI_Finalize();
    exit(status);
}

static void add_size(bench *b, double size, const char *text)
{
    if (size < 0 || size > BYTES_MAX || size != floor(size))
        stop(b->rank, 2, "wrong message size: '%s' (whole bytes, at most 1g)\n", text);
    if (b->sizes_count == BENCH_SIZES_MAX)
        stop(b->rank, 2, "too many message sizes: '%s'\n", text);
    b->sizes[b->sizes_count++] = (size_t)size;
}

static void list_sizes(bench *b, const char *text)
{
    char word[32];
    const char *rest = text;
    b->sizes_count = 0;
    while (*rest) {
        size_t length = strcspn(rest, ",");
        if (length == 0 || length >= sizeof word)
            stop(b->rank, 2, "wrong list of sizes: '%s'\n", text);
        memcpy(word, rest, length);
        word[length] = 0;
        add_size(b, plain_number(word), word);
        rest += length + (rest[length] == ',');
    }
}

static void range_sizes(bench *b, double least, double most)
{
    b->sizes_count = 0;
    for (double size = least; size <= most; size = size == 0 ? 1 : size * 2)
        add_size(b, size, "--max-size");
    if (b->sizes_count == 0)
        stop(b->rank, 2, "%s is larger than --max-size\n", "--min-size");
}

static void help(const bench *b, const char *sizes, const bench_option *own, int own_count)
{
    if (b->rank == 0) {
        printf("%s: one JSON line per sample\n\n%s", b->measurement, common_help);
        for (int i = 0; i < own_count; i++)
            printf("  %-20s %s\n", own[i].name, own[i].help);
        if (*sizes)
            printf("\nDefault sizes: %s\n", sizes);
    }
    stop(b->rank, 0, NULL, NULL);
}

/* The raw values of the options that are numbers, before they are checked. */
typedef struct raw {
    double least, most, iterations, warmup, samples, seconds, window, window_bytes, pairs;
    const char *sizes;
} raw;

static void check_options(bench *b, const raw *r)
{
    const struct { const char *name; double value, least, most; } limits[] = {
        {"--iterations", r->iterations, 0, (double)iterations_max}, {"--warmup", r->warmup, -1, (double)iterations_max},
        {"--samples", r->samples, 1, SAMPLES_MAX}, {"--window", r->window, 1, BENCH_WINDOW_MAX},
        {"--window-bytes", r->window_bytes, 1, BYTES_MAX}, {"--pairs", r->pairs, 0, b->ranks / 2 > 0 ? b->ranks / 2 : 0},
    };
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        if (limits[i].value < limits[i].least || limits[i].value > limits[i].most || limits[i].value != floor(limits[i].value))
            stop(b->rank, 2, "%s: not a number in its range\n", limits[i].name);
    if (!(r->seconds > 0 && r->seconds <= seconds_max))
        stop(b->rank, 2, "%s: not a number in its range\n", "--seconds");
    if (r->sizes && r->least >= 0)
        stop(b->rank, 2, "%s: either a list or a range of sizes\n", "--sizes");
    if ((r->least >= 0) != (r->most >= 0))
        stop(b->rank, 2, "%s: --min-size and --max-size belong together\n", "sizes");
    b->iterations = (long)r->iterations;
    b->warmup = (long)r->warmup;
    b->samples = (int)r->samples;
    b->seconds = r->seconds;
    b->window = (int)r->window;
    b->window_bytes = (size_t)r->window_bytes;
    b->pairs = (int)r->pairs;
}

static void parse_options(bench *b, const char *sizes, int argc, char **argv, const bench_option *own, int own_count)
{
    raw r = {-1, -1, 0, -1, 5, 0.05, 64, 16 << 20, 0, NULL};
    bench_option all[10 + BENCH_OPTIONS_MAX] = {
        {"--sizes", NULL, &r.sizes, ""}, {"--min-size", &r.least, NULL, ""}, {"--max-size", &r.most, NULL, ""},
        {"--iterations", &r.iterations, NULL, ""}, {"--warmup", &r.warmup, NULL, ""}, {"--samples", &r.samples, NULL, ""},
        {"--seconds", &r.seconds, NULL, ""}, {"--window", &r.window, NULL, ""}, {"--window-bytes", &r.window_bytes, NULL, ""},
        {"--pairs", &r.pairs, NULL, ""},
    };
    int count = 10 + own_count;
    for (int i = 0; i < own_count; i++)
        all[10 + i] = own[i];
    for (int i = 1; i < argc; i++) {
        int o = 0;
        if (strcmp(argv[i], "--help") == 0)
            help(b, sizes, own, own_count);
        while (o < count && strcmp(argv[i], all[o].name) != 0)
            o++;
        if (o == count)
            stop(b->rank, 2, "unknown option '%s' (--help lists them)\n", argv[i]);
        if (++i == argc)
            stop(b->rank, 2, "%s needs a value\n", argv[i - 1]);
        if (all[o].text)
            *all[o].text = argv[i];
        else if ((*all[o].number = plain_number(argv[i])) < 0)
            stop(b->rank, 2, "not a number: '%s'\n", argv[i]);
    }
    check_options(b, &r);
    if (r.least >= 0)
        range_sizes(b, r.least, r.most);
    else
        list_sizes(b, r.sizes ? r.sizes : sizes);
}

static void find_peer(bench *b)
{
    int half = b->ranks / 2, pairs = bench_pairs(b);
    b->peer = -1;
    b->leads = 0;
    if (b->rank < pairs) {
        b->peer = b->rank + half;
        b->leads = 1;
    } else if (b->rank >= half && b->rank - half < pairs) {
        b->peer = b->rank - half;
    }
}

void bench_start(bench *b, const char *measurement, const char *sizes, int *argc, char ***argv, const bench_option *own, int own_count)
{
    int provided;
    memset(b, 0, sizeof *b);
    b->measurement = measurement;
    MPI_Init_thread(argc, argv, bench_thread_level, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &b->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &b->ranks);
    if (provided < bench_thread_level)
        stop(b->rank, 2, "%s: the library has no such thread level\n", measurement);
    parse_options(b, sizes, *argc, *argv, own, own_count);
    find_peer(b);
    start_lines(b);
    b->requests = malloc(2 * BENCH_WINDOW_MAX * sizeof *b->requests);
    if (!b->requests)
        stop(b->rank, 2, "%s: no memory\n", measurement);
}

int bench_end(bench *b, int status)
{
    lines_end(&b->lines);
    free(b->send);
    free(b->receive);
    free(b->requests);
    MPI_Finalize();
    return status;
}

/* ---- Buffers and contents ---- */

static unsigned char *grow(unsigned char *old, size_t *have, size_t need)
{
    void *fresh = NULL;
    if (*have >= need && old)
        return old;
    free(old);
    if (need == 0)
        need = 1;
    if (posix_memalign(&fresh, PAGE, need) != 0) {
        fprintf(stderr, "no memory for a buffer of %zu bytes\n", need);
        MPI_Abort(MPI_COMM_WORLD, 2);
        exit(2);
    }
    memset(fresh, 0, need);
    *have = need;
    return fresh;
}

void bench_buffers(bench *b, size_t send, size_t receive)
{
    b->send = grow(b->send, &b->send_bytes, send);
    b->receive = grow(b->receive, &b->receive_bytes, receive);
}

void bench_fill(const bench *b, unsigned char *bytes, size_t length, int rank)
{
    for (size_t i = 0; i < length; i++)
        bytes[i] = plain_content(i, (unsigned)rank, b->seed);
}

int bench_filled(const bench *b, const unsigned char *bytes, size_t length, int rank, char why[BENCH_WHY_MAX])
{
    for (size_t i = 0; i < length; i++) {
        unsigned char want = plain_content(i, (unsigned)rank, b->seed);
        if (bytes[i] != want) {
            snprintf(why, BENCH_WHY_MAX, "rank %d: byte %zu of %zu from rank %d is %d, not %d", b->rank, i, length, rank, bytes[i], want);
            return 0;
        }
    }
    return 1;
}

int bench_agree(const bench *b, int right, char why[BENCH_WHY_MAX])
{
    int finder = right ? INT_MAX : b->rank, first = INT_MAX;
    MPI_Allreduce(&finder, &first, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (first == INT_MAX)
        return 1;
    MPI_Bcast(why, BENCH_WHY_MAX, MPI_CHAR, first, MPI_COMM_WORLD);
    return 0;
}

int bench_made(const bench *b, int code, const char *what, int *missing, char why[BENCH_WHY_MAX])
{
    char text[MPI_MAX_ERROR_STRING + 1];
    int class = MPI_SUCCESS, length = 0, right;
    if (code != MPI_SUCCESS) {
        MPI_Error_class(code, &class);
        MPI_Error_string(code, text, &length);
        text[length] = 0;
        snprintf(why, BENCH_WHY_MAX, "%s: %.130s", what, text);
    }
    *missing = class == MPI_ERR_UNSUPPORTED_OPERATION;
    right = bench_agree(b, code == MPI_SUCCESS, why);
    MPI_Bcast(missing, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return right;
}

/* ---- Pairs and windows ---- */

int bench_pairs(const bench *b)
{
    return b->pairs ? b->pairs : b->ranks / 2;
}

size_t bench_stride(size_t size)
{
    return size < PAGE ? (size + 64) / 64 * 64 : (size + PAGE - 1) / PAGE * PAGE;
}

int bench_window(const bench *b, size_t size)
{
    size_t fit = b->window_bytes / bench_stride(size);
    if (fit < 2)
        fit = 2;
    return fit < (size_t)b->window ? (int)fit : b->window;
}

/* Every receive of a window has memory of its own: MPI forbids two outstanding receives into the same memory
 * (MPI-5.0 §3.7.2). */
void bench_window_buffers(const bench *b, size_t size, size_t *send, size_t *receive)
{
    *send = size;
    *receive = bench_stride(size) * (size_t)bench_window(b, size);
}

void bench_pair_prepare(bench *b, size_t size)
{
    bench_fill(b, b->send, size, b->rank);
    memset(b->receive, 0, b->receive_bytes);
}

int bench_window_check(const bench *b, size_t size, char why[BENCH_WHY_MAX])
{
    if (b->peer < 0)
        return 1;
    for (int slot = 0; slot < bench_window(b, size); slot++)
        if (!bench_filled(b, b->receive + slot * bench_stride(size), size, b->peer, why))
            return 0;
    return 1;
}

int bench_stream_check(const bench *b, size_t size, char why[BENCH_WHY_MAX])
{
    return b->leads || bench_window_check(b, size, why);
}

void bench_window_fields(const bench *b, size_t size, double seconds)
{
    (void)seconds;
    json_integer("window", bench_window(b, size));
    json_integer("pairs", bench_pairs(b));
}

static void stream_out(bench *b, size_t size, int window)
{
    for (int i = 0; i < window; i++)
        MPI_Isend(b->send, (int)size, MPI_BYTE, b->peer, BENCH_TAG, MPI_COMM_WORLD, &b->requests[i]);
    MPI_Waitall(window, b->requests, MPI_STATUSES_IGNORE);
    MPI_Recv(NULL, 0, MPI_BYTE, b->peer, BENCH_TAG + 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void stream_in(bench *b, size_t size, int window)
{
    for (int i = 0; i < window; i++)
        MPI_Irecv(b->receive + (size_t)i * bench_stride(size), (int)size, MPI_BYTE, b->peer, BENCH_TAG, MPI_COMM_WORLD, &b->requests[i]);
    MPI_Waitall(window, b->requests, MPI_STATUSES_IGNORE);
    MPI_Send(NULL, 0, MPI_BYTE, b->peer, BENCH_TAG + 1, MPI_COMM_WORLD);
}

double bench_stream(bench *b, size_t size, long iterations)
{
    int window = bench_window(b, size);
    double began = bench_now();
    if (b->peer < 0)
        return 0;
    for (long i = 0; i < iterations; i++) {
        if (b->leads)
            stream_out(b, size, window);
        else
            stream_in(b, size, window);
    }
    return bench_now() - began;
}

double bench_microseconds(const bench *b, size_t size, double seconds)
{
    (void)b;
    (void)size;
    return seconds * 1e6;
}

void bench_time_fields(const bench *b, size_t size, double seconds)
{
    json_number("time_us", bench_microseconds(b, size, seconds));
}

/* ---- Samples ---- */

/* Seconds of the slowest rank in the timed part; `whole` gets the duration of the whole run, with the parts
 * that do not count. */
static double timed(bench *b, const bench_case *c, size_t size, long iterations, double *whole)
{
    double began, counted;
    MPI_Barrier(MPI_COMM_WORLD);
    began = bench_now();
    counted = c->run(b, size, iterations);
    if (whole)
        *whole = bench_max(bench_now() - began);
    return bench_max(counted);
}

static double trial_time(bench *b, const bench_case *c, size_t size, long iterations)
{
    double whole;
    timed(b, c, size, iterations, &whole);
    return whole;
}

/* Grows the number of iterations until a run takes an eighth of a sample, then scales it. So the time of a
 * sample is bounded however slow the library or crowded the machine is, and the trials warm up the parts that
 * need it. */
static long choose_iterations(bench *b, const bench_case *c, size_t size)
{
    long iterations = 1;
    for (int trial = 0; trial < TRIALS_MAX; trial++) {
        double took = trial_time(b, c, size, iterations), fit;
        /* The first contact of two ranks may make a connection: the quicker of two trials counts. */
        if (took * 8 > b->seconds) {
            double again = trial_time(b, c, size, iterations);
            took = again < took ? again : took;
        }
        fit = took > 0 ? b->seconds / took : 16;
        if (fit <= 8 || iterations * 2 > iterations_max) {
            double scaled = (double)iterations * fit;
            return scaled < 1 ? 1 : scaled > (double)iterations_max ? iterations_max : (long)scaled;
        }
        iterations *= fit > 64 ? 16 : fit > 16 ? 4 : 2;
    }
    return iterations;
}

static void print_sample(const bench *b, const bench_case *c, size_t size, int sample, long iterations, double seconds, int valid, const char *why)
{
    double value = c->value(b, size, seconds);
    if (valid && !(isfinite(value) && value >= 0)) {
        valid = 0;
        why = "the time of the sample is not a positive number";
    }
    json_open(b->measurement);
    json_integer("size", (long long)size);
    json_integer("ranks", b->ranks);
    json_text("unit", c->unit);
    json_number("value", value);
    json_integer("iterations", iterations);
    json_integer("sample", sample);
    json_true("checked", c->check != NULL);
    if (c->fields)
        c->fields(b, size, seconds);
    bench_lines_fields(b);
    json_true("valid", valid);
    if (!valid)
        json_text("why", why);
    json_close();
}

/* Status of the samples of one size: 0, or 1 when one was wrong. */
static int measure_size(bench *b, const bench_case *c, size_t size)
{
    size_t send = 0, receive = 0;
    long iterations = b->iterations;
    int status = 0, again = 0, choices = iterations ? 0 : CHOICES_MAX;
    if (c->buffers)
        c->buffers(b, size, &send, &receive);
    if (send > BYTES_MAX || receive > BYTES_MAX) {
        bench_failed(b, size, c->unit, "this size with so many ranks needs a buffer of more than 1 GiB");
        return 1;
    }
    bench_buffers(b, send, receive);
    if (c->prepare)
        c->prepare(b, size);
    if (b->warmup > 0)
        timed(b, c, size, b->warmup, NULL);
    else if (b->warmup < 0 && iterations)
        timed(b, c, size, iterations < 10 ? iterations : 10, NULL);
    if (!iterations)
        iterations = choose_iterations(b, c, size);
    for (int sample = 0; sample < b->samples + again; sample++) {
        char why[BENCH_WHY_MAX] = "";
        double seconds, whole;
        int valid;
        b->seed++;
        if (c->prepare)
            c->prepare(b, size);
        if (b->lines.word)
            MPI_Barrier(MPI_COMM_WORLD);
        bench_lines_before(b);
        seconds = timed(b, c, size, iterations, &whole) / (double)iterations;
        bench_lines_after(b);
        /* What was slow in the trials only, such as the first use of memory, made the sample short. */
        if (whole * 2 < b->seconds && choices-- > 0) {
            iterations = choose_iterations(b, c, size);
            sample--;
            continue;
        }
        valid = bench_agree(b, !c->check || c->check(b, size, why), why);
        status |= !valid;
        if (b->rank == 0)
            print_sample(b, c, size, sample, iterations, seconds, valid, why);
        bench_lines_repeat(b, &again);
    }
    return status;
}

int bench_measure(bench *b, const bench_case *c)
{
    size_t last = (size_t)-1;
    int status = 0, count = b->sizes_count ? b->sizes_count : 1;
    if (b->ranks < c->ranks_min) {
        char why[BENCH_WHY_MAX];
        snprintf(why, sizeof why, "needs at least %d ranks, has %d", c->ranks_min, b->ranks);
        bench_failed(b, 0, c->unit, why);
        return 1;
    }
    for (int i = 0; i < count; i++) {
        size_t size = b->sizes_count ? b->sizes[i] : 0;
        if (c->round)
            size = c->round(size);
        if (size == last)
            continue;
        last = size;
        status |= measure_size(b, c, size);
    }
    return status;
}
