/* NAS kernel IS: integer sort of keys that follow a bell-like distribution. Written from report RNR-94-007,
 * section 2.3.5, with the classes and test values that NASA publishes for them.
 *
 * Each of the ten timed iterations changes two keys, ranks all keys (counts them by value; no key moves
 * between ranks in memory order) and checks five ranks against the published ones. After them the keys are
 * sorted by their ranks and checked.
 *
 * The keys are spread by value: each rank owns a range of key values, chosen so that all own about the same
 * number of keys; keys travel to the owner of their value (Alltoall of counts, Alltoallv of keys), which
 * counts them. */
#include "nas.h"

enum { ITERATIONS = 10, TESTS = 5, BUCKETS_LOG = 10, BUCKETS = 1 << BUCKETS_LOG };

typedef struct class {
    const char *name;
    int keys_log, values_log;
    int test_index[TESTS], test_rank[TESTS];
    /* The number that iteration i adds to the expected rank: + (i + lift) for the first `rising` tests, - (i
     * + drop) for the others. */
    int rising, lift, drop;
} class;

static const class classes[] = {
    {"S", 16, 11, {48427, 17148, 23627, 62548, 4431}, {0, 18, 346, 64917, 65463}, 3, 0, 0},
    {"W", 20, 16, {357773, 934767, 875723, 898999, 404505}, {1249, 11698, 1039987, 1043896, 1048018}, 2, -2, 0},
    {"A", 23, 19, {2112377, 662041, 5336171, 3642833, 4250760}, {104, 17523, 123928, 8288932, 8388264}, 3, -1, -1},
};

typedef struct sorter {
    const class *class;
    int ranks, rank, bucket_shift;
    int keys_count;             /* given to this rank: positions from first_position on */
    long first_position;
    int *keys, *outgoing, *incoming;
    int incoming_room, incoming_count;
    int *bucket_counts, *bucket_totals, *bucket_owner;
    int *send_counts, *send_at, *receive_counts, *receive_at;
    int value_first, value_end; /* values this rank owns */
    int *below;                 /* for each of its values: its own keys that are smaller */
    long keys_before;           /* keys with values below value_first, on other ranks */
} sorter;

static void *memory(size_t bytes)
{
    void *p = malloc(bytes ? bytes : 1);
    if (!p) {
        fprintf(stderr, "nas_is: no memory for %zu bytes\n", bytes);
        MPI_Abort(MPI_COMM_WORLD, 2);
        exit(2);
    }
    return p;
}

static void create(sorter *s, const bench *b, const class *c)
{
    size_t n = (size_t)b->ranks;
    memset(s, 0, sizeof *s);
    s->class = c;
    s->rank = b->rank;
    s->ranks = b->ranks;
    s->keys_count = (1 << c->keys_log) / b->ranks;
    s->first_position = (long)s->keys_count * b->rank;
    s->bucket_shift = c->values_log - BUCKETS_LOG;
    s->keys = memory((size_t)s->keys_count * sizeof(int));
    s->outgoing = memory((size_t)s->keys_count * sizeof(int));
    s->bucket_counts = memory(BUCKETS * sizeof(int));
    s->bucket_totals = memory(BUCKETS * sizeof(int));
    s->bucket_owner = memory(BUCKETS * sizeof(int));
    s->send_counts = memory(n * sizeof(int));
    s->send_at = memory(n * sizeof(int));
    s->receive_counts = memory(n * sizeof(int));
    s->receive_at = memory(n * sizeof(int));
    s->below = memory(((size_t)1 << c->values_log) * sizeof(int));
}

static void destroy(sorter *s)
{
    int *all[] = {s->keys, s->outgoing, s->incoming, s->bucket_counts, s->bucket_totals, s->bucket_owner, s->send_counts, s->send_at,
        s->receive_counts, s->receive_at, s->below};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

/* A key is a quarter of the range times the sum of four uniform numbers. */
static void make_keys(sorter *s)
{
    nas_word x = nas_jump(NAS_SEED, 4ULL * (nas_word)s->first_position);
    double quarter = (double)(1 << s->class->values_log) / 4;
    for (int i = 0; i < s->keys_count; i++) {
        double sum = nas_next(&x);
        sum += nas_next(&x);
        sum += nas_next(&x);
        sum += nas_next(&x);
        s->keys[i] = (int)(quarter * sum);
    }
}

static void set_key(sorter *s, long position, int value)
{
    if (position >= s->first_position && position < s->first_position + s->keys_count)
        s->keys[position - s->first_position] = value;
}

/* Cuts the buckets into one run per rank with about equally many keys each. */
static void give_buckets(sorter *s)
{
    long share = (1L << s->class->keys_log) / s->ranks, so_far = 0;
    s->keys_before = 0;
    s->value_first = s->value_end = 0;
    for (int i = 0, owner = 0; i < BUCKETS; i++) {
        if (so_far >= share * (owner + 1) && owner + 1 < s->ranks)
            owner++;
        s->bucket_owner[i] = owner;
        if (owner < s->rank) {
            s->keys_before += s->bucket_totals[i];
            s->value_first = (i + 1) << s->bucket_shift;
        }
        if (owner <= s->rank)
            s->value_end = (i + 1) << s->bucket_shift;
        so_far += s->bucket_totals[i];
    }
}

static void pack_keys(sorter *s)
{
    memset(s->send_counts, 0, (size_t)s->ranks * sizeof(int));
    for (int i = 0; i < BUCKETS; i++)
        s->send_counts[s->bucket_owner[i]] += s->bucket_counts[i];
    for (int r = 0, at = 0; r < s->ranks; at += s->send_counts[r++])
        s->send_at[r] = at;
    for (int i = 0; i < s->keys_count; i++)
        s->outgoing[s->send_at[s->bucket_owner[s->keys[i] >> s->bucket_shift]]++] = s->keys[i];
    for (int r = 0; r < s->ranks; r++)
        s->send_at[r] -= s->send_counts[r];
}

static void move_keys(sorter *s)
{
    MPI_Alltoall(s->send_counts, 1, MPI_INT, s->receive_counts, 1, MPI_INT, MPI_COMM_WORLD);
    s->incoming_count = 0;
    for (int r = 0; r < s->ranks; r++) {
        s->receive_at[r] = s->incoming_count;
        s->incoming_count += s->receive_counts[r];
    }
    if (s->incoming_count > s->incoming_room || !s->incoming) {
        free(s->incoming);
        s->incoming_room = s->incoming_count + s->incoming_count / 8;
        s->incoming = memory((size_t)s->incoming_room * sizeof(int));
    }
    MPI_Alltoallv(s->outgoing, s->send_counts, s->send_at, MPI_INT, s->incoming, s->receive_counts, s->receive_at, MPI_INT, MPI_COMM_WORLD);
}

static void count_keys(sorter *s)
{
    int values = s->value_end - s->value_first, sum = 0;
    memset(s->below, 0, (size_t)values * sizeof(int));
    for (int i = 0; i < s->incoming_count; i++)
        s->below[s->incoming[i] - s->value_first]++;
    for (int v = 0; v < values; v++) {
        int here = s->below[v];
        s->below[v] = sum;
        sum += here;
    }
}

/* The value at each test position, to all ranks; read before the keys are ranked. */
static void test_values(const sorter *s, int values[TESTS])
{
    int mine[TESTS];
    for (int t = 0; t < TESTS; t++) {
        long at = s->class->test_index[t] - s->first_position;
        mine[t] = at >= 0 && at < s->keys_count ? s->keys[at] : 0;
    }
    MPI_Allreduce(mine, values, TESTS, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}

/* The number of this iteration's tests that pass on this rank: each test is judged by the owner of its value.
 */
static int passed_tests(const sorter *s, const int values[TESTS], int iteration)
{
    const class *c = s->class;
    int passed = 0;
    for (int t = 0; t < TESTS; t++) {
        long want = c->test_rank[t] + (t < c->rising ? iteration + c->lift : -(iteration + c->drop));
        if (values[t] >= s->value_first && values[t] < s->value_end)
            passed += s->keys_before + s->below[values[t] - s->value_first] == want;
    }
    return passed;
}

static int iterate(sorter *s, int iteration)
{
    int values[TESTS];
    set_key(s, iteration, iteration);
    set_key(s, iteration + ITERATIONS, (1 << s->class->values_log) - iteration);
    test_values(s, values);
    memset(s->bucket_counts, 0, BUCKETS * sizeof(int));
    for (int i = 0; i < s->keys_count; i++)
        s->bucket_counts[s->keys[i] >> s->bucket_shift]++;
    MPI_Allreduce(s->bucket_counts, s->bucket_totals, BUCKETS, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    give_buckets(s);
    pack_keys(s);
    move_keys(s);
    count_keys(s);
    return passed_tests(s, values, iteration);
}

/* Full verification: the keys put in the order of their ranks ascend, within and across ranks, and none is
 * missing. Returns 1 when that is so. */
static int sorted(sorter *s)
{
    int *order = memory((size_t)s->incoming_count * sizeof(int));
    int highest = -1, before = -1, right = 1;
    long mine = s->incoming_count, all = 0;
    memset(order, 0xff, (size_t)s->incoming_count * sizeof(int));
    for (int i = 0; i < s->incoming_count; i++)
        order[s->below[s->incoming[i] - s->value_first]++] = s->incoming[i];
    for (int i = 0; i < s->incoming_count; i++) {
        right &= order[i] >= (i ? order[i - 1] : 0);
        highest = order[i];
    }
    /* A rank may own no key: the highest key so far, not the left neighbour's. */
    MPI_Exscan(&highest, &before, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (s->rank > 0 && s->incoming_count > 0)
        right &= before <= order[0];
    MPI_Allreduce(&mine, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    free(order);
    return right && all == 1L << s->class->keys_log;
}

static int measure(bench *b, const class *c, int sample)
{
    char why[BENCH_WHY_MAX] = "";
    int passed = 0, all_passed = 0, valid, in_order;
    double began, seconds, keys = (double)(1 << c->keys_log);
    sorter s;
    create(&s, b, c);
    make_keys(&s);
    iterate(&s, 1);
    MPI_Barrier(MPI_COMM_WORLD);
    bench_lines_before(b);
    began = bench_now();
    for (int i = 1; i <= ITERATIONS; i++)
        passed += iterate(&s, i);
    seconds = bench_max(bench_now() - began);
    bench_lines_after(b);
    MPI_Allreduce(&passed, &all_passed, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    in_order = sorted(&s);
    if (!in_order)
        snprintf(why, sizeof why, "rank %d: the keys are not sorted", b->rank);
    else if (all_passed != TESTS * ITERATIONS)
        snprintf(why, sizeof why, "%d of %d published ranks agree", all_passed, TESTS * ITERATIONS);
    valid = bench_agree(b, in_order && all_passed == TESTS * ITERATIONS, why);
    nas_print(b, c->name, 1LL << c->keys_log, ITERATIONS, sample, seconds, ITERATIONS * keys, valid, why);
    destroy(&s);
    return !valid;
}

int main(int argc, char **argv)
{
    int status = 0;
    bench b;
    const class *c = nas_start(&b, "nas_is", &argc, &argv, classes, sizeof classes / sizeof *classes, sizeof *classes);
    if (!c)
        return bench_end(&b, 2);
    if (!nas_power_of_two(b.ranks) || b.ranks > BUCKETS) {
        bench_failed(&b, 0, "Mop/s", "IS wants a power of two of ranks, at most 1024");
        return bench_end(&b, 1);
    }
    for (int sample = 0; sample < b.samples; sample++)
        status |= measure(&b, c, sample);
    return bench_end(&b, status);
}
