/* Messages a second between the ranks of a pair with MPI_THREAD_MULTIPLE: thread i of one rank sends a window
 * of messages at a time to thread i of the other, each on a communicator of its own. The value counts all
 * threads and pairs together. */
#include "common.h"
#include <pthread.h>

enum { THREADS_MAX = 64 };

static double threads_wanted = 2;

typedef struct stream {
    const bench *b;
    MPI_Comm comm;
    MPI_Request *requests;      /* BENCH_WINDOW_MAX of them */
    unsigned char *receive;     /* a stride for each message of a window */
    size_t size;
    long iterations;
} stream;

static stream streams[THREADS_MAX];
static int threads;

static void out(const stream *s, int window)
{
    for (int i = 0; i < window; i++)
        MPI_Isend(s->b->send, (int)s->size, MPI_BYTE, s->b->peer, BENCH_TAG, s->comm, &s->requests[i]);
    MPI_Waitall(window, s->requests, MPI_STATUSES_IGNORE);
    MPI_Recv(NULL, 0, MPI_BYTE, s->b->peer, BENCH_TAG, s->comm, MPI_STATUS_IGNORE);
}

static void in(const stream *s, int window)
{
    for (int i = 0; i < window; i++)
        MPI_Irecv(s->receive + (size_t)i * bench_stride(s->size), (int)s->size, MPI_BYTE, s->b->peer, BENCH_TAG, s->comm, &s->requests[i]);
    MPI_Waitall(window, s->requests, MPI_STATUSES_IGNORE);
    MPI_Send(NULL, 0, MPI_BYTE, s->b->peer, BENCH_TAG, s->comm);
}

static void *work(void *argument)
{
    const stream *s = argument;
    int window = bench_window(s->b, s->size);
    for (long i = 0; i < s->iterations; i++) {
        if (s->b->leads)
            out(s, window);
        else
            in(s, window);
    }
    return NULL;
}

static double run(bench *b, size_t size, long iterations)
{
    pthread_t others[THREADS_MAX];
    size_t stride = bench_stride(size) * (size_t)bench_window(b, size);
    double began;
    if (b->peer < 0)
        return 0;
    for (int i = 0; i < threads; i++) {
        streams[i].b = b;
        streams[i].requests = b->requests + i * bench_window(b, size);
        streams[i].receive = b->receive + stride * (size_t)i;
        streams[i].size = size;
        streams[i].iterations = iterations;
    }
    began = bench_now();
    for (int i = 1; i < threads; i++)
        if (pthread_create(&others[i], NULL, work, &streams[i]) != 0) {
            fprintf(stderr, "rate_threads: no thread to be had\n");
            MPI_Abort(MPI_COMM_WORLD, 2);
        }
    work(&streams[0]);
    for (int i = 1; i < threads; i++)
        pthread_join(others[i], NULL);
    return bench_now() - began;
}

static void buffers(const bench *b, size_t size, size_t *send, size_t *receive)
{
    bench_window_buffers(b, size, send, receive);
    *receive *= (size_t)threads;
}

static int check(const bench *b, size_t size, char why[BENCH_WHY_MAX])
{
    if (b->peer < 0 || b->leads)
        return 1;
    for (int slot = 0; slot < threads * bench_window(b, size); slot++)
        if (!bench_filled(b, b->receive + (size_t)slot * bench_stride(size), size, b->peer, why))
            return 0;
    return 1;
}

static double value(const bench *b, size_t size, double seconds)
{
    return (double)bench_window(b, size) * bench_pairs(b) * threads / seconds;
}

static void fields(const bench *b, size_t size, double seconds)
{
    bench_window_fields(b, size, seconds);
    json_integer("threads", threads);
}

int main(int argc, char **argv)
{
    static const bench_case c = {.unit = "messages/s", .ranks_min = 2, .buffers = buffers, .prepare = bench_pair_prepare,
        .run = run, .check = check, .value = value, .fields = fields};
    static const bench_option own[] = {{"--threads", &threads_wanted, NULL, "threads of each rank that send or receive (default 2)"}};
    bench b;
    int status;
    bench_thread_level = MPI_THREAD_MULTIPLE;
    bench_start(&b, "rate_threads", "8", &argc, &argv, own, 1);
    threads = threads_wanted < 1 ? 1 : threads_wanted > THREADS_MAX ? THREADS_MAX : (int)threads_wanted;
    /* Every thread has its part of the requests. */
    if (b.window > 2 * BENCH_WINDOW_MAX / threads)
        b.window = 2 * BENCH_WINDOW_MAX / threads;
    for (int i = 0; i < threads; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &streams[i].comm);
    status = bench_measure(&b, &c);
    for (int i = 0; i < threads; i++)
        MPI_Comm_free(&streams[i].comm);
    return bench_end(&b, status);
}
