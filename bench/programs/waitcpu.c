/* Processor time that rank 0 spends while it is blocked: in Recv or Probe for a message that comes late, or
 * in Barrier with a last rank that comes late. The last rank sleeps for --seconds outside MPI; ranks between
 * wait in the same call. */
#include "common.h"
#include <sys/resource.h>
#include <time.h>

static const char *operation = "all";

static double processor_seconds(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)u.ru_utime.tv_sec + (double)u.ru_stime.tv_sec + ((double)u.ru_utime.tv_usec + (double)u.ru_stime.tv_usec) * 1e-6;
}

static void sleep_for(double seconds)
{
    struct timespec t;
    t.tv_sec = (time_t)seconds;
    t.tv_nsec = (long)((seconds - (double)t.tv_sec) * 1e9);
    while (nanosleep(&t, &t) != 0)
        ;
}

/* The last rank's part: it sleeps, then makes the call for which the others wait. */
static void come_late(const bench *b, const char *what)
{
    int word = (int)b->seed;
    sleep_for(b->seconds);
    if (strcmp(what, "barrier") == 0)
        MPI_Barrier(MPI_COMM_WORLD);
    else
        for (int rank = 0; rank < b->ranks - 1; rank++)
            MPI_Send(&word, 1, MPI_INT, rank, BENCH_TAG, MPI_COMM_WORLD);
}

/* 0 when the word that came is wrong. */
static int wait_in(const bench *b, const char *what)
{
    int word = (int)b->seed, last = b->ranks - 1;
    if (strcmp(what, "barrier") == 0) {
        MPI_Barrier(MPI_COMM_WORLD);
        return 1;
    }
    word = -1;
    if (strcmp(what, "probe") == 0)
        MPI_Probe(last, BENCH_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Recv(&word, 1, MPI_INT, last, BENCH_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return word == (int)b->seed;
}

static int sample(bench *b, const char *what, int number)
{
    double used, began, waited;
    int right = 1, valid;
    char why[BENCH_WHY_MAX] = "";
    b->seed++;
    /* Two barriers: the first may still make connections. */
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    used = processor_seconds();
    began = bench_now();
    if (b->rank == b->ranks - 1)
        come_late(b, what);
    else
        right = wait_in(b, what);
    used = processor_seconds() - used;
    waited = bench_now() - began;
    if (!right)
        snprintf(why, sizeof why, "rank %d got a wrong message", b->rank);
    else if (waited < b->seconds * 0.9)
        right = 0, snprintf(why, sizeof why, "disturbed: rank %d waited %.3f s, not %.3f s", b->rank, waited, b->seconds);
    valid = bench_agree(b, right, why);
    if (b->rank != 0)
        return !valid;
    json_open(b->measurement);
    json_integer("size", 0);
    json_integer("ranks", b->ranks);
    json_text("unit", "s");
    json_number("value", used);
    json_integer("iterations", 1);
    json_integer("sample", number);
    json_true("checked", 1);
    json_text("operation", what);
    json_number("waited_s", waited);
    json_number("percent", used / waited * 100);
    json_true("valid", valid);
    if (!valid)
        json_text("why", why);
    json_close();
    return !valid;
}

int main(int argc, char **argv)
{
    static const char *const whats[] = {"recv", "barrier", "probe"};
    static const bench_option own[] = {{"--operation", NULL, &operation, "recv, barrier, probe or all (default all)"}};
    int status = 0, known;
    bench b;
    bench_start(&b, "waitcpu", "", &argc, &argv, own, 1);
    known = strcmp(operation, "all") == 0;
    if (b.ranks < 2) {
        bench_failed(&b, 0, "s", "needs at least 2 ranks, has 1");
        return bench_end(&b, 1);
    }
    for (int w = 0; w < 3; w++) {
        if (strcmp(operation, "all") != 0 && strcmp(operation, whats[w]) != 0)
            continue;
        known = 1;
        for (int s = 0; s < b.samples; s++)
            status |= sample(&b, whats[w], s);
    }
    if (!known && b.rank == 0)
        fprintf(stderr, "--operation: '%s' is none of recv, barrier, probe, all\n", operation);
    return bench_end(&b, known ? status : 2);
}
