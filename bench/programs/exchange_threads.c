/* The time of one step of a pattern that every thread of every rank repeats with MPI_THREAD_MULTIPLE, all at
 * the same time. Patterns:
 *   all   to every other rank, received from MPI_ANY_SOURCE: MPI_Irecv, MPI_Isend, MPI_Waitall;
 *         the threads have tags of their own
 *   ring  MPI_Sendrecv with the neighbours of the ring; the threads have communicators of their own
 *   root  to rank 0, which receives from MPI_ANY_SOURCE, and back;
 *         the threads have communicators of their own */
#include "common.h"
#include <pthread.h>

enum { THREADS_MAX = 64 };

typedef struct thread {
    const bench *b;
    MPI_Comm comm;
    MPI_Request *requests;      /* two for each rank, and their statuses */
    MPI_Status *statuses;
    int *sources;               /* the sender of each slot's message; -1: none */
    unsigned char *receive;     /* a slot for each rank */
    int tag;
    size_t size;
    long iterations;
} thread;

static double threads_wanted = 5;
static const char *pattern = "all";
static thread all[THREADS_MAX];
static int threads;

static unsigned char *slot(const thread *t, int at)
{
    return t->receive + (size_t)at * bench_stride(t->size);
}

static void to_all(const thread *t)
{
    const bench *b = t->b;
    int others = b->ranks - 1, sends = 0;
    for (int i = 0; i < others; i++)
        MPI_Irecv(slot(t, i), (int)t->size, MPI_BYTE, MPI_ANY_SOURCE, t->tag, MPI_COMM_WORLD, &t->requests[i]);
    for (int to = 0; to < b->ranks; to++)
        if (to != b->rank)
            MPI_Isend(b->send, (int)t->size, MPI_BYTE, to, t->tag, MPI_COMM_WORLD, &t->requests[others + sends++]);
    MPI_Waitall(2 * others, t->requests, t->statuses);
    for (int i = 0; i < others; i++)
        t->sources[i] = t->statuses[i].MPI_SOURCE;
}

static void ring(const thread *t)
{
    const bench *b = t->b;
    int next = (b->rank + 1) % b->ranks, previous = (b->rank + b->ranks - 1) % b->ranks;
    MPI_Sendrecv(b->send, (int)t->size, MPI_BYTE, next, BENCH_TAG, slot(t, 0), (int)t->size, MPI_BYTE, previous, BENCH_TAG, t->comm,
        MPI_STATUS_IGNORE);
    t->sources[0] = previous;
}

static void root(const thread *t)
{
    const bench *b = t->b;
    MPI_Status status;
    if (b->rank != 0) {
        MPI_Send(b->send, (int)t->size, MPI_BYTE, 0, BENCH_TAG, t->comm);
        MPI_Recv(slot(t, 0), (int)t->size, MPI_BYTE, 0, BENCH_TAG, t->comm, MPI_STATUS_IGNORE);
        t->sources[0] = 0;
        return;
    }
    for (int i = 0; i < b->ranks - 1; i++) {
        MPI_Recv(slot(t, i), (int)t->size, MPI_BYTE, MPI_ANY_SOURCE, BENCH_TAG, t->comm, &status);
        t->sources[i] = status.MPI_SOURCE;
    }
    for (int to = 1; to < b->ranks; to++)
        MPI_Send(b->send, (int)t->size, MPI_BYTE, to, BENCH_TAG, t->comm);
}

static void *work(void *argument)
{
    const thread *t = argument;
    for (long i = 0; i < t->iterations; i++) {
        if (pattern[0] == 'a')
            to_all(t);
        else if (pattern[1] == 'i')
            ring(t);
        else
            root(t);
    }
    return NULL;
}

static double run(bench *b, size_t size, long iterations)
{
    pthread_t others[THREADS_MAX];
    double began;
    for (int i = 0; i < threads; i++) {
        all[i].b = b;
        all[i].tag = BENCH_TAG + i;
        all[i].size = size;
        all[i].receive = b->receive + (size_t)i * (size_t)b->ranks * bench_stride(size);
        all[i].iterations = iterations;
        for (int at = 0; at < b->ranks; at++)
            all[i].sources[at] = -1;
    }
    began = bench_now();
    for (int i = 1; i < threads; i++)
        if (pthread_create(&others[i], NULL, work, &all[i]) != 0) {
            fprintf(stderr, "exchange_threads: no thread to be had\n");
            MPI_Abort(MPI_COMM_WORLD, 2);
        }
    work(&all[0]);
    for (int i = 1; i < threads; i++)
        pthread_join(others[i], NULL);
    return bench_now() - began;
}

static void buffers(const bench *b, size_t size, size_t *send, size_t *receive)
{
    *send = size;
    *receive = (size_t)threads * (size_t)b->ranks * bench_stride(size);
}

static void prepare(bench *b, size_t size)
{
    memset(b->receive, 0, b->receive_bytes);
    bench_fill(b, b->send, size, b->rank);
}

static int check(const bench *b, size_t size, char why[BENCH_WHY_MAX])
{
    for (int i = 0; i < threads; i++)
        for (int at = 0; at < b->ranks; at++)
            if (all[i].sources[at] >= 0 && !bench_filled(b, slot(&all[i], at), size, all[i].sources[at], why))
                return 0;
    return 1;
}

static void fields(const bench *b, size_t size, double seconds)
{
    (void)b, (void)size, (void)seconds;
    json_integer("threads", threads);
    json_text("pattern", pattern);
}

int main(int argc, char **argv)
{
    static const bench_case c = {.unit = "us", .ranks_min = 2, .buffers = buffers, .prepare = prepare, .run = run, .check = check,
        .value = bench_microseconds, .fields = fields};
    static const bench_option own[] = {
        {"--threads", &threads_wanted, NULL, "threads of each rank (default 5)"},
        {"--pattern", NULL, &pattern, "all, ring or root (default all)"},
    };
    bench b;
    int status;
    bench_thread_level = MPI_THREAD_MULTIPLE;
    bench_start(&b, "exchange_threads", "8,4096", &argc, &argv, own, 2);
    if (strcmp(pattern, "all") != 0 && strcmp(pattern, "ring") != 0 && strcmp(pattern, "root") != 0) {
        if (b.rank == 0)
            fprintf(stderr, "exchange_threads: there are the patterns all, ring and root, and no %s\n", pattern);
        return bench_end(&b, 2);
    }
    threads = threads_wanted < 1 ? 1 : threads_wanted > THREADS_MAX ? THREADS_MAX : (int)threads_wanted;
    for (int i = 0; i < threads; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &all[i].comm);
        all[i].requests = malloc(2 * (size_t)b.ranks * sizeof *all[i].requests);
        all[i].statuses = malloc(2 * (size_t)b.ranks * sizeof *all[i].statuses);
        all[i].sources = malloc((size_t)b.ranks * sizeof *all[i].sources);
        if (!all[i].requests || !all[i].statuses || !all[i].sources) {
            fprintf(stderr, "exchange_threads: no memory\n");
            MPI_Abort(MPI_COMM_WORLD, 2);
        }
    }
    status = bench_measure(&b, &c);
    for (int i = 0; i < threads; i++) {
        MPI_Comm_free(&all[i].comm);
        free(all[i].requests);
        free(all[i].statuses);
        free(all[i].sources);
    }
    return bench_end(&b, status);
}
