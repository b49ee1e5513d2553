/* The common part of the NAS kernels (D. Bailey et al., "The NAS Parallel Benchmarks", report RNR-94-007,
 * 1994): the generator of section 2.3, the classes, and the result line. Written from the report. */
#ifndef WEFT_BENCH_NAS_H
#define WEFT_BENCH_NAS_H

#include "common.h"

#define NAS_SEED 314159265UL        /* s of the report */
#define NAS_MULTIPLIER 1220703125UL /* a = 5^13 */

/* x' = a x mod 2^46 in whole numbers; the uniform number of the report is x' 2^-46, exact in a double. */
typedef unsigned long long nas_word;

static inline nas_word nas_multiply(nas_word a, nas_word x)
{
    /* Arithmetic modulo 2^64 keeps the low 46 bits right. */
    return (a * x) & ((1ULL << 46) - 1);
}

static inline double nas_next(nas_word *x)
{
    *x = nas_multiply(NAS_MULTIPLIER, *x);
    return (double)*x / 70368744177664.0;
}

/* The state after `steps` numbers, by repeated squaring of the multiplier. */
static inline nas_word nas_jump(nas_word x, nas_word steps)
{
    nas_word a = NAS_MULTIPLIER;
    for (; steps; steps >>= 1) {
        if (steps & 1)
            x = nas_multiply(a, x);
        a = nas_multiply(a, a);
    }
    return x;
}

static inline int nas_power_of_two(int n)
{
    return n > 0 && (n & (n - 1)) == 0;
}

/* Starts MPI, reads the options, and finds the class that --class names among `count` classes of `bytes`
 * each, whose first member is their name: S, W and A. Returns NULL, with a sentence from rank 0, when there
 * is no such class. Collective. */
static inline const void *nas_start(bench *b, const char *measurement, int *argc, char ***argv, const void *classes, size_t count, size_t bytes)
{
    static const char *wanted = "S";
    static const bench_option own[] = {{"--class", NULL, &wanted, "S, W or A (default S)"}};
    bench_start(b, measurement, "", argc, argv, own, 1);
    for (size_t i = 0; i < count; i++) {
        const char *const *name = (const void *)((const char *)classes + i * bytes);
        if (strcmp(*name, wanted) == 0)
            return name;
    }
    if (b->rank == 0)
        fprintf(stderr, "--class: '%s' is none of S, W, A\n", wanted);
    return NULL;
}

/* The line of one run, from rank 0. `size` is the problem's, `seconds` of the slowest rank. */
static inline void nas_print(const bench *b, const char *class, long long size, int iterations, int sample, double seconds, double operations, int valid, const char *why)
{
    if (b->rank != 0)
        return;
    json_open(b->measurement);
    json_integer("size", size);
    json_integer("ranks", b->ranks);
    json_text("unit", "Mop/s");
    json_number("value", operations / seconds / 1e6);
    json_integer("iterations", iterations);
    json_integer("sample", sample);
    json_text("class", class);
    json_number("seconds", seconds);
    json_true("checked", 1);
    bench_lines_fields(b);
    json_true("valid", valid);
    if (!valid)
        json_text("why", why);
    json_close();
}

#endif
