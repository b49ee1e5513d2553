/* The common part of the measurements: options, the clock, samples of bounded length, contents that can be
 * checked, and one JSON line per sample.
 *
 * Each program is one file: mpicc -O2 -pthread -o NAME NAME.c common.c -lm. It is C99 over the MPI API only,
 * so the same source measures any MPI library. Every rank calls the functions marked "collective" in the same
 * order; rank 0 of MPI_COMM_WORLD prints the lines. */
#ifndef WEFT_BENCH_COMMON_H
#define WEFT_BENCH_COMMON_H

/* clock_gettime, nanosleep and posix_memalign: this header comes before any other. */
#define _POSIX_C_SOURCE 200809L

#include "lines.h"
#include "plain.h"
#include <mpi.h>
#include <string.h>

enum {
    BENCH_SIZES_MAX = 64,       /* message sizes in one run */
    BENCH_OPTIONS_MAX = 12,     /* options a program adds to the common ones */
    BENCH_WINDOW_MAX = 4096,    /* messages outstanding at once */
    BENCH_WHY_MAX = 160,        /* bytes of a sentence about an error */
    BENCH_TAG = 7
};

/* An option of one program: exactly one of `number` and `text` is set; its value on entry is the default. */
typedef struct bench_option {
    const char *name;           /* with the dashes */
    double *number;
    const char **text;
    const char *help;
} bench_option;

typedef struct bench {
    const char *measurement;
    int rank, ranks;
    /* Options. */
    size_t sizes[BENCH_SIZES_MAX];
    int sizes_count;
    long iterations;            /* per sample; 0: as many as fill `seconds` */
    long warmup;                /* iterations before the first sample of a size; -1: as many as the search for `iterations` ran */
    int samples;
    double seconds;             /* aimed length of a sample */
    int window;                 /* messages outstanding at once */
    size_t window_bytes;        /* the window shrinks so that a window of messages fits here */
    int pairs;                  /* pairs that talk; 0: all */
    /* The place of this rank: rank i talks to rank i + ranks/2. */
    int peer;                   /* -1: none, this rank waits for the others */
    int leads;                  /* the lower rank of the pair */
    /* Buffers of the running size, made by bench_buffers. */
    unsigned char *send, *receive;
    size_t send_bytes, receive_bytes;
    unsigned seed;              /* of the contents; another for each sample */
    MPI_Request *requests;      /* 2 * BENCH_WINDOW_MAX of them */
    lines lines;                /* between rank 0 and its peer */
} bench;

/* A measurement that bench_measure can drive. */
typedef struct bench_case {
    const char *unit;           /* of the value */
    int ranks_min;
    /* Bytes of the two buffers for a size; the contents are filled in by `prepare`, which may be NULL. */
    void (*buffers)(const bench *b, size_t size, size_t *send, size_t *receive);
    void (*prepare)(bench *b, size_t size);
    /* The timed part: seconds that this rank spent on the iterations. */
    double (*run)(bench *b, size_t size, long iterations);
    /* Checks a sample, not timed: returns 1 when it is right; else 0 and a sentence in `why`. NULL: nothing
     * can be checked. */
    int (*check)(const bench *b, size_t size, char why[BENCH_WHY_MAX]);
    /* The value of a sample from the mean time of an iteration on the slowest rank, in seconds. */
    double (*value)(const bench *b, size_t size, double seconds);
    /* Adds fields to the sample's line; may be NULL. Called on rank 0 only. */
    void (*fields)(const bench *b, size_t size, double seconds);
    /* Returns the size that is really measured when `size` is asked for (whole elements). NULL: the same
     * size. */
    size_t (*round)(size_t size);
} bench_case;

/* The thread level that bench_start asks for; MPI_THREAD_SINGLE unless set before. */
extern int bench_thread_level;

/* Starts MPI and reads the options. `sizes` is the default list, "" when the measurement has no size. Ends
 * the program with one sentence and status 2 on wrong options, with 0 after --help. Collective. */
void bench_start(bench *b, const char *measurement, const char *sizes, int *argc, char ***argv, const bench_option *own, int own_count);

/* Runs the case for every size and prints every sample. Returns the program's exit status. Collective. */
int bench_measure(bench *b, const bench_case *c);

/* Ends MPI and returns `status`. Collective. */
int bench_end(bench *b, int status);

/* Prints a line with the reason why there is no figure: {"valid":false,"why":…}. Rank 0 prints, the other
 * ranks do nothing. */
void bench_failed(const bench *b, size_t size, const char *unit, const char *why);

/* Measure the time of a cache line between rank 0 and its peer, before and after a sample: both ranks call
 * them at the same place in the program. bench_lines_fields adds the times to the sample's line. The
 * functions do nothing unless BENCH_LINES is set (lines.h). */
void bench_lines_before(bench *b);
void bench_lines_after(bench *b);
void bench_lines_fields(const bench *b);
/* Returns 1 on all ranks when the sample is to be taken again because the lines changed; `again` counts.
 * Collective. */
int bench_lines_repeat(const bench *b, int *again);

/* Seconds since some moment; MPI_Wtime, which every library here makes from a clock of nanoseconds. */
double bench_now(void);

/* The largest of the ranks' values, on all ranks. Collective. */
double bench_max(double value);

/* Returns the verdict of all ranks: 1, or 0 and in `why` the sentence of the lowest rank that found an error.
 * Collective. */
int bench_agree(const bench *b, int right, char why[BENCH_WHY_MAX]);

/* Returns 1 when every rank has made `what`, as MPI's `code` says. Else `why` gets the sentence. `missing`
 * says whether the library has no such things: that is a finding, and no failure of the program.
 * Collective. */
int bench_made(const bench *b, int code, const char *what, int *missing, char why[BENCH_WHY_MAX]);

/* Makes b->send and b->receive at least this large, page aligned and touched. Ends the program when there is
 * no memory. */
void bench_buffers(bench *b, size_t send, size_t receive);

/* Contents that name their owner: `rank`, the running seed, and the position. */
void bench_fill(const bench *b, unsigned char *bytes, size_t length, int rank);
/* 1 when `bytes` hold what bench_fill wrote for `rank`; else 0 and a sentence. */
int bench_filled(const bench *b, const unsigned char *bytes, size_t length, int rank, char why[BENCH_WHY_MAX]);

/* Messages of a window when each has `size` bytes, and the bytes between two of them in memory. */
int bench_window(const bench *b, size_t size);
size_t bench_stride(size_t size);

/* The common shape of point-to-point cases: `slots` messages into b->receive, one out of b->send, filled for
 * the pair. */
void bench_window_buffers(const bench *b, size_t size, size_t *send, size_t *receive);
void bench_pair_prepare(bench *b, size_t size);
int bench_window_check(const bench *b, size_t size, char why[BENCH_WHY_MAX]);
/* Sends windows of messages from the leading rank; an empty message answers each. The other rank checks them.
 */
double bench_stream(bench *b, size_t size, long iterations);
int bench_stream_check(const bench *b, size_t size, char why[BENCH_WHY_MAX]);
void bench_window_fields(const bench *b, size_t size, double seconds);
int bench_pairs(const bench *b);

/* Microseconds of an iteration: the `value` of latencies, and the field `time_us` beside other values. */
double bench_microseconds(const bench *b, size_t size, double seconds);
void bench_time_fields(const bench *b, size_t size, double seconds);

#endif
