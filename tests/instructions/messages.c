/* messages DIRECTORY MODE BLOCKS MESSAGES: rank 0 sends messages of 8 bytes to rank 1, for a counter of
 * instructions.
 *
 * The cost of a message must not depend on which rank is quicker, nor on how slow the counter makes the
 * program. So:
 *
 * - No rank looks for a message in vain: a rank enters MPI only when the message that it will find is there.
 *   The two ranks tell each other through two FIFOs in DIRECTORY, outside MPI.
 * - Time is made of looks at the clock: each is CLOCK_STEP_NS after the one before, see `clock_gettime`
 *   below.
 * - Threads of the library that sleep in epoll_wait(2) sleep on, so that the calls of the program do all the
 *   work.
 *
 * The counter (callgrind) counts inside `counted` and nowhere else, and notes its count each time `mark` is
 * called: the first count is that of the warm-up, then come BLOCKS counts of MESSAGES messages each. Any MPI
 * library; both ranks run on one machine.
 *
 *   blocking:    MPI_Send at rank 0, MPI_Recv at rank 1; the answer, of 8 bytes too, is not counted.
 *   nonblocking: a window of MPI_Irecv at rank 1, then a window of MPI_Isend and MPI_Waitall at rank 0, then
 *                MPI_Waitall at rank 1; the answer to each window is counted at both.
 *   statuses:    MPI_Send at rank 0, MPI_Recv with a status at rank 1, on a communicator of the program.
 *   single:      MPI_Isend and MPI_Wait at rank 0, MPI_Irecv and MPI_Wait at rank 1; no answer.
 *   completion:  windows as those of nonblocking, but MPI_Waitall alone is counted, at both.
 *   one-sided:   on a window that MPI_Win_allocate has made, rank 0 counts MPI_Put and MPI_Win_flush,
 *                rank 1 MPI_Fetch_and_op and MPI_Win_flush.
 *   accumulates: there rank 0 counts MPI_Accumulate of 16 KB of char, rank 1 MPI_Get_accumulate of 16 KB of
 *                short, each with MPI_Win_flush. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    TAG = 7,
    TALKS = 256,
    WINDOW = 64,            /* messages of a window, as in the measurements of message rate */
    CLOCK_STEP_NS = 200,    /* about the time of a small message where no counter runs */
    LARGE = 16 << 10,       /* bytes of an accumulate */
    BLOCKS_MAX = 1000,
    MESSAGES_MAX = 1000000
};

static int rank, tells, hears;
static long long out[WINDOW], in[WINDOW];
static MPI_Request requests[WINDOW], answer;
/* The number of the message that is sent or expected next. */
static long long number;

static void end(const char *what)
{
    fprintf(stderr, "messages: rank %d: %s\n", rank, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

/* ---- The library's calls of the system, answered here: the program's symbols come before the C library's.
 * ---- */

static atomic_bool counting;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t counted_all = PTHREAD_COND_INITIALIZER;
/* The clock while counting; it is behind the real one, which runs on, so it never goes back. */
static _Atomic long long clock_ns;

static long long real_ns(void)
{
    struct timespec now;
    if (syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now))
        abort();
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    long long ns;
    if (clock != CLOCK_MONOTONIC || !counting)
        return (int)syscall(SYS_clock_gettime, clock, now);
    ns = clock_ns += CLOCK_STEP_NS;
    now->tv_sec = ns / 1000000000;
    now->tv_nsec = ns % 1000000000;
    return 0;
}

/* Without the kernel's vDSO, which a counter hides, it would be a system call. */
int sched_getcpu(void)
{
    unsigned processor;
    if (counting)
        return rank;
    return syscall(SYS_getcpu, &processor, NULL, NULL) ? -1 : (int)processor;
}

int epoll_wait(int epoll, struct epoll_event *events, int events_max, int timeout)
{
    int ready = epoll_pwait(epoll, events, events_max, timeout, NULL);
    int error = errno;
    pthread_mutex_lock(&lock);
    while (counting)
        pthread_cond_wait(&counted_all, &lock);
    pthread_mutex_unlock(&lock);
    errno = error;
    return ready;
}

static void count(bool on)
{
    pthread_mutex_lock(&lock);
    clock_ns = real_ns();
    counting = on;
    pthread_cond_broadcast(&counted_all);
    pthread_mutex_unlock(&lock);
}

/* ---- Messages ---- */

static int fifo(const char *directory, const char *name)
{
    char path[4096];
    int descriptor;
    if (snprintf(path, sizeof path, "%s/%s", directory, name) >= (int)sizeof path)
        end("the directory's name is too long");
    if (mkfifo(path, 0600) && errno != EEXIST)
        end(strerror(errno));
    /* For reading and writing: neither waits for the other to open it. */
    descriptor = open(path, O_RDWR | O_CLOEXEC);
    if (descriptor < 0)
        end(strerror(errno));
    return descriptor;
}

/* This rank's messages are on their way: on loopback, a virtual Ethernet or a ring that means they are there.
 * RDMA devices in software have threads of their own: SETTLE_MS in the environment is the time that they are
 * given. */
static void tell(void)
{
    const char *settle = getenv("SETTLE_MS");
    struct timespec pause = {0, (settle ? atol(settle) : 0) % 1000 * 1000000};
    nanosleep(&pause, NULL);
    if (write(tells, "", 1) != 1)
        end("cannot tell the other rank");
}

static void hear(void)
{
    char byte;
    if (read(hears, &byte, 1) != 1)
        end("cannot hear the other rank");
}

static void check(const long long *values, int count)
{
    for (int i = 0; i < count; i++)
        if (values[i] != number + i)
            end("a message has not the expected contents");
}

static void send_one(void)
{
    MPI_Send(out, sizeof *out, MPI_BYTE, 1 - rank, TAG, MPI_COMM_WORLD);
}

static void receive_one(void)
{
    MPI_Recv(in, sizeof *in, MPI_BYTE, 1 - rank, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static MPI_Comm own;
static MPI_Status status;

static void send_on_own(void)
{
    MPI_Send(out, sizeof *out, MPI_BYTE, 1 - rank, TAG, own);
}

static void receive_with_status(void)
{
    MPI_Recv(in, sizeof *in, MPI_BYTE, 1 - rank, TAG, own, &status);
}

static void send_window(void)
{
    int here;
    for (int i = 0; i < WINDOW; i++)
        MPI_Isend(&out[i], sizeof *out, MPI_BYTE, 1 - rank, TAG, MPI_COMM_WORLD, &requests[i]);
    MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
    MPI_Irecv(in, sizeof *in, MPI_BYTE, 1 - rank, TAG, MPI_COMM_WORLD, &answer);
    /* One look in vain, which any rank that waits for an answer makes at least: messages that were kept back
     * leave by then. */
    MPI_Test(&answer, &here, MPI_STATUS_IGNORE);
    if (here)
        end("the answer was here before the window");
}

static void finish_answer(void)
{
    MPI_Wait(&answer, MPI_STATUS_IGNORE);
}

static void send_single(void)
{
    MPI_Isend(out, sizeof *out, MPI_BYTE, 1 - rank, TAG, MPI_COMM_WORLD, &answer);
    MPI_Wait(&answer, MPI_STATUS_IGNORE);
}

static void receive_single(void)
{
    MPI_Irecv(in, sizeof *in, MPI_BYTE, 1 - rank, TAG, MPI_COMM_WORLD, &answer);
    MPI_Wait(&answer, MPI_STATUS_IGNORE);
}

static void post_window(void)
{
    for (int i = 0; i < WINDOW; i++)
        MPI_Irecv(&in[i], sizeof *in, MPI_BYTE, 1 - rank, TAG, MPI_COMM_WORLD, &requests[i]);
}

static void finish_window(void)
{
    MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
}

/* The two places the counter knows by name: kept as functions, with an effect that the compiler cannot see
 * through. */
__attribute__((noinline)) void counted(void (*step)(void))
{
    step();
    __asm__ volatile("" ::: "memory");
}

__attribute__((noinline)) void mark(void)
{
    __asm__ volatile("" ::: "memory");
}

static void fill(int count)
{
    for (int i = 0; i < count; i++)
        out[i] = number + i;
}

static void blocking(void)
{
    if (rank == 0) {
        fill(1);
        counted(send_one);
        tell();
        hear();
        receive_one();
    } else {
        hear();
        counted(receive_one);
        fill(1);
        send_one();
        tell();
    }
    check(in, 1);
    number++;
}

static void statuses(void)
{
    int bytes;
    if (rank == 0) {
        fill(1);
        counted(send_on_own);
        tell();
        hear();
    } else {
        hear();
        counted(receive_with_status);
        check(in, 1);
        if (MPI_Get_count(&status, MPI_BYTE, &bytes) || bytes != sizeof *in || status.MPI_SOURCE != 0 || status.MPI_TAG != TAG)
            end("a status is not that of the message");
        tell();
    }
    number++;
}

static void nonblocking(void)
{
    if (rank == 0) {
        fill(WINDOW);
        hear();
        counted(send_window);
        tell();
        hear();
        counted(finish_answer);
        check(in, 1);
    } else {
        counted(post_window);
        tell();
        hear();
        counted(finish_window);
        check(in, WINDOW);
        fill(1);
        counted(send_one);
        tell();
    }
    number += WINDOW;
}

static void single(void)
{
    if (rank == 0) {
        fill(1);
        counted(send_single);
        tell();
        hear();
    } else {
        hear();
        counted(receive_single);
        check(in, 1);
        tell();
    }
    number++;
}

static void completion(void)
{
    if (rank == 0) {
        fill(WINDOW);
        hear();
        for (int i = 0; i < WINDOW; i++)
            MPI_Isend(&out[i], sizeof *out, MPI_BYTE, 1 - rank, TAG, MPI_COMM_WORLD, &requests[i]);
        counted(finish_window);
        tell();
    } else {
        post_window();
        tell();
        hear();
        counted(finish_window);
        check(in, WINDOW);
    }
    number += WINDOW;
}

static MPI_Win win;

static void put_many(void)
{
    for (int i = 0; i < WINDOW; i++) {
        MPI_Put(&out[i], sizeof *out, MPI_BYTE, 1 - rank, i * (int)sizeof *out, sizeof *out, MPI_BYTE, win);
        MPI_Win_flush(1 - rank, win);
    }
}

static void fetch_many(void)
{
    for (int i = 0; i < WINDOW; i++) {
        MPI_Fetch_and_op(&out[i], &in[i], MPI_LONG_LONG, 1 - rank, 0, MPI_SUM, win);
        MPI_Win_flush(1 - rank, win);
    }
}

static void one_sided(void)
{
    if (rank == 0) {
        fill(WINDOW);
        counted(put_many);
    } else {
        for (int i = 0; i < WINDOW; i++)
            out[i] = 1;
        counted(fetch_many);
        check(in, WINDOW);
    }
    number += WINDOW;
}

static char addend[LARGE], was[LARGE];

static void accumulate_many(void)
{
    for (int i = 0; i < WINDOW; i++) {
        MPI_Accumulate(addend, LARGE, MPI_CHAR, 1 - rank, 0, LARGE, MPI_CHAR, MPI_SUM, win);
        MPI_Win_flush(1 - rank, win);
    }
}

static void get_accumulate_many(void)
{
    for (int i = 0; i < WINDOW; i++) {
        MPI_Get_accumulate(addend, LARGE / 2, MPI_SHORT, was, LARGE / 2, MPI_SHORT, 1 - rank, 0, LARGE / 2, MPI_SHORT, MPI_SUM, win);
        MPI_Win_flush(1 - rank, win);
    }
}

static void accumulates(void)
{
    memset(addend, 1, sizeof addend);
    counted(rank == 0 ? accumulate_many : get_accumulate_many);
    number += WINDOW;
    /* The last access has got the sum of all additions before it, to the bytes of each short. */
    for (int i = 0; rank == 1 && i < LARGE / 2; i++)
        if (((short *)was)[i] != (short)(0x0101 * (number - 1)))
            end("an element is not the sum");
}

static void (*step_of(const char *mode))(void)
{
    static const struct {
        const char *mode;
        void (*step)(void);
    } steps[] = {{"blocking", blocking},     {"nonblocking", nonblocking}, {"single", single},
                 {"completion", completion}, {"one-sided", one_sided},     {"accumulates", accumulates},
                 {"statuses", statuses}};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        if (!strcmp(mode, steps[i].mode))
            return steps[i].step;
    return NULL;
}

int main(int argc, char **argv)
{
    long blocks, messages;
    void (*step)(void);
    long long *cells;
    int ranks, window, has_window;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc != 5 || ranks != 2)
        end("usage: mpiexec -n 2 messages DIRECTORY MODE BLOCKS MESSAGES");
    step = step_of(argv[2]);
    if (!step)
        end("the second argument is blocking, nonblocking, single, completion, one-sided, accumulates or statuses");
    has_window = step == one_sided || step == accumulates;
    window = step == blocking || step == statuses || step == single ? 1 : WINDOW;
    blocks = strtol(argv[3], NULL, 10);
    messages = strtol(argv[4], NULL, 10);
    if (blocks < 1 || blocks > BLOCKS_MAX || messages < 1 || messages > MESSAGES_MAX || messages % window)
        end("blocks are 1 to 1000 of 1 to 1000000 messages each, whole windows");
    if (step == statuses)
        MPI_Comm_dup(MPI_COMM_WORLD, &own);
    tells = fifo(argv[1], rank == 0 ? "to-1" : "to-0");
    hears = fifo(argv[1], rank == 0 ? "to-0" : "to-1");
    if (has_window) {
        MPI_Win_allocate(LARGE, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &cells, &win);
        memset(cells, 0, LARGE);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Win_lock(MPI_LOCK_SHARED, 1 - rank, 0, win);
    }
    /* A rank that has sent little may have room for one packet only. A packet that waits for room when its
     * sender leaves MPI would be left to the threads that sleep on. So both ranks have talked a while before.
     */
    for (int i = 0; i < TALKS; i++)
        MPI_Sendrecv(&out[0], 1, MPI_LONG_LONG, 1 - rank, TAG, &in[0], 1, MPI_LONG_LONG, 1 - rank, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    count(true);
    /* One block more than BLOCKS: the first is the warm-up. */
    for (long block = 0; block <= blocks; block++) {
        for (long i = 0; i < messages; i += window)
            step();
        mark();
    }
    count(false);
    if (has_window) {
        MPI_Win_unlock(1 - rank, win);
        MPI_Win_free(&win);
    }
    if (step == statuses)
        MPI_Comm_free(&own);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
