/*
 * The common part of every test program: checks that count, and a clock that ends a program which hangs.
 *
 * A program is a list of stories. Each names itself with STORY. A CHECK that fails prints the story, the rank
 * and the values that were found. The program's exit code says whether a check failed on this rank.
 */
#ifndef WEFT_TESTS_CHECK_H
#define WEFT_TESTS_CHECK_H

#define _DEFAULT_SOURCE /* usleep */

#include <mpi.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { TIME_LIMIT_SECONDS = 50, PRINTED_MAX = 10 };

static int rank = -1, ranks = -1;
static int failures;
static const char *volatile story = "start";

#define STORY(name) (story = (name))

/* CHECK(condition, "format", values...): prints where the check failed; the program goes on. */
#define CHECK(condition, ...)                                                                                          \
    do {                                                                                                               \
        if (!(condition) && ++failures <= PRINTED_MAX) {                                                               \
            char found_text_[700];                                                                                     \
            snprintf(found_text_, sizeof found_text_, __VA_ARGS__);                                                    \
            fprintf(stderr, "%s:%d: rank %d of %d, %s: %s: %s\n", __FILE__, __LINE__, rank, ranks, story, #condition,  \
                    found_text_);                                                                                      \
        }                                                                                                              \
    } while (0)

#define CHECK_EQUAL(found, expected)                                                                                   \
    do {                                                                                                               \
        long long found_ = (long long)(found), expected_ = (long long)(expected);                                      \
        CHECK(found_ == expected_, #found " is %lld, expected %lld", found_, expected_);                               \
    } while (0)

/* The call must fail with an error of this class (the error handler must be one that returns). */
#define CHECK_CLASS(call, expected)                                                                                    \
    do {                                                                                                               \
        int code_ = (call), class_ = -1;                                                                               \
        MPI_Error_class(code_, &class_);                                                                               \
        CHECK(class_ == (expected), #call " gave class %d, expected %s = %d", class_, #expected, (expected));           \
    } while (0)

/* Says whether a part of the program is left out in this run, because the library is known to do it wrong.
 * LEAVE_OUT has the parts' names with a space between two (tests/c/left-out.txt has the parts, the libraries,
 * and the reasons). */
static inline int left_out(const char *part)
{
    const char *names = getenv("LEAVE_OUT");
    size_t length = strlen(part);
    while (names && *names) {
        size_t until = strcspn(names, " ");
        if (until == length && strncmp(names, part, length) == 0)
            return 1;
        names += until + (names[until] == ' ');
    }
    return 0;
}

/* The place of a name in a list; a name that is not there ends the program. */
static inline int place_of(const char *name, const char *const *names, int count)
{
    for (int place = 0; place < count; place++)
        if (!strcmp(names[place], name))
            return place;
    fprintf(stderr, "%s is none of the names that this program knows\n", name);
    exit(2);
}

/* The time limit, in seconds. WEFT_TEST_SECONDS sets another one, for machines on which a processor is
 * slower. */
static inline int time_limit(void)
{
    const char *given = getenv("WEFT_TEST_SECONDS");
    int seconds = given ? atoi(given) : 0;
    return seconds > 0 ? seconds : TIME_LIMIT_SECONDS;
}

static void out_of_time(int signal)
{
    (void)signal;
    char line[200];
    int length = snprintf(line, sizeof line, "%s: rank %d of %d did not end in %d s, in: %s\n", __FILE__, rank, ranks,
                          time_limit(), story);
    if (write(2, line, length) < 0)
        _exit(4);
    _exit(3);
}

static void watch_the_clock(void)
{
    signal(SIGALRM, out_of_time);
    alarm((unsigned)time_limit());
}

static inline void begin(int *argc, char ***argv)
{
    watch_the_clock();
    MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
}

/* Begins a program with several threads; returns the level that the library gives. */
static inline int begin_threads(int *argc, char ***argv)
{
    int level = -1;
    watch_the_clock();
    MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    return level;
}

/* Ends MPI; returns the exit code for main. */
static inline int end(void)
{
    STORY("finalize");
    if (failures > PRINTED_MAX)
        fprintf(stderr, "%s: rank %d: %d more failures\n", __FILE__, rank, failures - PRINTED_MAX);
    MPI_Finalize();
    return failures > 0;
}

/* Seconds by the clock that all ranks of one machine share, in whatever network they are. MPI_Wtime begins at
 * each rank when the rank first asks, so it cannot compare times of two ranks. */
static inline double machine_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* A value that depends on source, tag and place: a byte in the wrong place shows where it comes from. */
static inline unsigned char pattern(int source, int tag, size_t index)
{
    uint32_t x = (uint32_t)source * 2654435761u ^ (uint32_t)tag * 40503u ^ (uint32_t)index * 2246822519u;
    return (unsigned char)(x ^ x >> 13 ^ x >> 24);
}

static inline void fill(unsigned char *bytes, size_t length, int source, int tag)
{
    for (size_t i = 0; i < length; i++)
        bytes[i] = pattern(source, tag, i);
}

/* The number of bytes that differ from those that `fill` wrote. */
static inline size_t wrong_bytes(const unsigned char *bytes, size_t length, int source, int tag)
{
    size_t wrong = 0;
    for (size_t i = 0; i < length; i++)
        wrong += bytes[i] != pattern(source, tag, i);
    return wrong;
}

static inline void *memory(size_t length)
{
    void *result = calloc(1, length ? length : 1);
    if (!result) {
        fprintf(stderr, "no memory\n");
        _exit(5);
    }
    return result;
}

#endif
