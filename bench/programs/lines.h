/* Measures the time of a cache line between two processors: one side writes a number, the other answers with
 * the next one, to and fro over a line that both have mapped. Virtual processors are moved about by their
 * host, and the same program then runs at another pace; so a sample records the time of a line before and
 * after it. Shared with the programs of ../carriers, needs no MPI.
 *
 * Both sides call lines_probe together, the same number of times. The call is bounded in time: when the other
 * side does not run (there are more programs than processors), a side gives up, and there is no figure. */
#ifndef WEFT_BENCH_LINES_H
#define WEFT_BENCH_LINES_H

#include "plain.h"
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum {
    LINES_BATCHES = 15,         /* counts of which the median is taken */
    LINES_BATCHES_MIN = 5,      /* fewer make no figure */
    LINES_TRIPS = 100,          /* to and fro, in a batch */
    LINES_POLLS = 256,          /* between looks at the clock */
    LINES_BYTES = 4096
};

/* The seconds for which the measuring side tries, and for which the other side waits for it. */
static const double lines_limit_s = 0.05, lines_answer_limit_s = 0.15;

typedef struct lines {
    uint64_t *word;             /* NULL: nothing is measured */
    int side;                   /* 0 measures, 1 answers, -1 neither */
    uint32_t probes;            /* so far; the upper half of the word, so that no two are mistaken for each other */
    double ratio;               /* of the figures before and after a sample, above which the lines have changed */
    int repeats;                /* samples that may be taken again for that, of one size */
    double before, after;       /* nanoseconds one way around the last sample; NAN: no figure */
} lines;

static inline double lines_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Reads BENCH_LINES, `RATIO:REPEATS:FILE`. Returns 1 when lines are to be measured. `side` as above. */
static inline int lines_start(lines *l, int side)
{
    const char *told = getenv("BENCH_LINES");
    int at = 0, file;
    void *area;
    l->word = NULL;
    l->side = side;
    l->probes = 0;
    l->before = l->after = NAN;
    if (!told || sscanf(told, "%lf:%d:%n", &l->ratio, &l->repeats, &at) != 2 || at == 0 || !(l->ratio > 1) || l->repeats < 0)
        return 0;
    file = open(told + at, O_RDWR | O_CREAT, 0600);
    if (file < 0)
        return 0;
    area = ftruncate(file, LINES_BYTES) == 0 ? mmap(NULL, LINES_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
    close(file);
    if (area == MAP_FAILED)
        return 0;
    l->word = area;
    return 1;
}

static inline void lines_end(lines *l)
{
    if (l->word)
        munmap(l->word, LINES_BYTES);
    l->word = NULL;
}

static inline void lines_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

/* Returns 1 when the word got the value in time. */
static inline int lines_await(const uint64_t *word, uint64_t value, double until)
{
    for (unsigned polls = 1; __atomic_load_n(word, __ATOMIC_ACQUIRE) != value; polls++) {
        if (polls % LINES_POLLS == 0 && lines_now() > until)
            return 0;
        lines_pause();
    }
    return 1;
}

static inline int lines_ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The side that measures: returns nanoseconds one way, or NAN. Its last word has all lower bits set: the
 * other side may go. */
static inline double lines_measure(uint64_t *word, uint64_t base)
{
    double batches[LINES_BATCHES], until = lines_now() + lines_limit_s;
    uint64_t turn = base;
    int count = -1, in_time = 1; /* the first batch warms up */
    while (in_time && count < LINES_BATCHES) {
        double began = lines_now();
        for (int trip = 0; trip < LINES_TRIPS && in_time; trip++) {
            __atomic_store_n(word, turn + 1, __ATOMIC_RELEASE);
            in_time = lines_await(word, turn + 2, until);
            turn += 2;
        }
        if (in_time && count >= 0)
            batches[count] = (lines_now() - began) / (2 * LINES_TRIPS) * 1e9;
        count += in_time;
    }
    __atomic_store_n(word, base | UINT32_MAX, __ATOMIC_RELEASE);
    if (count < LINES_BATCHES_MIN)
        return NAN;
    qsort(batches, (size_t)count, sizeof *batches, lines_ascending);
    return batches[count / 2];
}

/* The side that answers, until the other has ended or is not heard of any more. */
static inline void lines_answer(uint64_t *word, uint64_t base)
{
    double until = lines_now() + lines_answer_limit_s;
    for (unsigned polls = 1;; polls++) {
        uint64_t said = __atomic_load_n(word, __ATOMIC_ACQUIRE);
        if (said == (base | UINT32_MAX))
            return;
        if (said >> 32 == base >> 32 && said % 2 == 1)
            __atomic_store_n(word, said + 1, __ATOMIC_RELEASE);
        else if (polls % LINES_POLLS == 0 && lines_now() > until)
            return;
        lines_pause();
    }
}

/* Returns the nanoseconds that a line takes from one side to the other, on side 0; NAN on the other side, and
 * when the line could not be measured. */
static inline double lines_probe(lines *l)
{
    uint64_t base = (uint64_t)++l->probes << 32;
    if (!l->word || l->side < 0)
        return NAN;
    if (l->side == 0)
        return lines_measure(l->word, base);
    lines_answer(l->word, base);
    return NAN;
}

/* Says whether the lines before and after the last sample differ; an unknown time has not changed. */
static inline int lines_changed(const lines *l)
{
    return l->before > l->after * l->ratio || l->after > l->before * l->ratio;
}

/* The sample's fields, when lines are measured. */
static inline void lines_fields(const lines *l)
{
    if (!l->word)
        return;
    json_number("line_ns_before", l->before);
    json_number("line_ns_after", l->after);
}

#endif
