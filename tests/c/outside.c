/*
 * A rank starts an operation and then waits outside of MPI for what the other rank does behind its message: a
 * file appears. The message must move without a further call of MPI, whichever side came first.
 *
 * Messages within the eager limit need not even a receive: two ranks may send before they receive.
 *
 * Before that the ranks have exchanged messages and waited for them at once, again and again: a library may
 * expect that of them the next time, too.
 */
#include "check.h"
#include <sys/stat.h>

enum { AT_ONCE = 40, MOST = 3, LOOK_US = 100, EAGER_LENGTH = 40000, TAG = 5, PATH_BYTES = 64 };

static const int LENGTHS[] = {8, 5000, 20000, 40000, 70000, 300000, 2000000};
enum { LENGTH_COUNT = sizeof LENGTHS / sizeof LENGTHS[0], LONGEST = 2000000 };

static char directory[PATH_BYTES];
static int signs;

/* The sign number `sign` of the pair to which this rank belongs. */
static void path_of(char *path, int sign, int peer)
{
    snprintf(path, 2 * PATH_BYTES, "%s/%d.%d", directory, rank < peer ? rank : peer, sign);
}

static void give_sign(int peer)
{
    char path[2 * PATH_BYTES];
    path_of(path, signs++, peer);
    FILE *file = fopen(path, "w");
    CHECK(file != NULL, "%s", path);
    if (file)
        fclose(file);
}

/* Waits outside of MPI for the other rank's sign. */
static void await_sign(int peer)
{
    char path[2 * PATH_BYTES];
    struct stat found;
    path_of(path, signs++, peer);
    while (stat(path, &found) != 0)
        usleep(LOOK_US);
    remove(path);
}

static void wait_at_once(int peer, unsigned char *out, unsigned char *in, int length)
{
    for (int i = 0; i < AT_ONCE; i++) {
        MPI_Request request[2];
        MPI_Irecv(in, length, MPI_BYTE, peer, TAG, MPI_COMM_WORLD, &request[0]);
        MPI_Isend(out, length, MPI_BYTE, peer, TAG, MPI_COMM_WORLD, &request[1]);
        MPI_Waitall(2, request, MPI_STATUSES_IGNORE);
    }
}

static void fill_all(unsigned char *out, int length, int count)
{
    for (int i = 0; i < count; i++)
        fill(out + (size_t)i * LONGEST, length, rank, i);
}

static void start_receives(int peer, unsigned char *in, int length, int count, MPI_Request *request)
{
    memset(in, 0, (size_t)count * LONGEST);
    for (int i = 0; i < count; i++)
        MPI_Irecv(in + (size_t)i * LONGEST, length, MPI_BYTE, peer, i, MPI_COMM_WORLD, &request[i]);
}

static int are_synchronous;

static void start_sends(int peer, const unsigned char *out, int length, int count, MPI_Request *request)
{
    for (int i = 0; i < count; i++) {
        const unsigned char *from = out + (size_t)i * LONGEST;
        if (are_synchronous)
            MPI_Issend(from, length, MPI_BYTE, peer, i, MPI_COMM_WORLD, &request[i]);
        else
            MPI_Isend(from, length, MPI_BYTE, peer, i, MPI_COMM_WORLD, &request[i]);
    }
}

/* Sends all messages, and says so to the other rank by a file. */
static void send_and_give_sign(int peer, const unsigned char *out, int length, int count)
{
    MPI_Request request[MOST];
    start_sends(peer, out, length, count, request);
    MPI_Waitall(count, request, MPI_STATUSES_IGNORE);
    give_sign(peer);
}

static void check_all(const unsigned char *in, int length, int count, int peer)
{
    for (int i = 0; i < count; i++)
        CHECK_EQUAL(wrong_bytes(in + (size_t)i * LONGEST, length, peer, i), 0);
}

/* Waits outside of MPI until the other rank has sent all messages, and then ends the receives. */
static void end_receives_after_sign(int peer, const unsigned char *in, int length, int count, MPI_Request *request)
{
    await_sign(peer);
    MPI_Waitall(count, request, MPI_STATUSES_IGNORE);
    check_all(in, length, count, peer);
}

/* The receiver posts first and goes away. */
static void receives_are_posted(int peer, unsigned char *out, unsigned char *in, int length, int count)
{
    MPI_Request request[MOST];
    if (rank > peer) {
        start_receives(peer, in, length, count, request);
        give_sign(peer);
        end_receives_after_sign(peer, in, length, count, request);
    } else {
        await_sign(peer);
        send_and_give_sign(peer, out, length, count);
    }
}

/* The messages are there, their receives take them, and the receiver goes away. */
static void messages_are_there(int peer, unsigned char *out, unsigned char *in, int length, int count)
{
    MPI_Request request[MOST];
    if (rank > peer) {
        for (int i = 0; i < count; i++)
            MPI_Probe(peer, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        start_receives(peer, in, length, count, request);
        end_receives_after_sign(peer, in, length, count, request);
    } else {
        send_and_give_sign(peer, out, length, count);
    }
}

/* The sender goes away while its messages wait for their receives. */
static void sender_is_away(int peer, unsigned char *out, unsigned char *in, int length, int count)
{
    MPI_Request request[MOST];
    if (rank > peer) {
        await_sign(peer);
        start_receives(peer, in, length, count, request);
        MPI_Waitall(count, request, MPI_STATUSES_IGNORE);
        check_all(in, length, count, peer);
        give_sign(peer);
    } else {
        start_sends(peer, out, length, count, request);
        give_sign(peer);
        await_sign(peer);
        MPI_Waitall(count, request, MPI_STATUSES_IGNORE);
    }
}

/* The messages of a window: too long to be sent eagerly, too many for a ring, and too many for the memory in
 * which a receiver keeps messages that it does not expect. */
static const struct {
    int count, length;
} WINDOWS[] = {{8, 100000}, {64, 40000}, {4000, 500}};
enum { WINDOW_COUNT = sizeof WINDOWS / sizeof WINDOWS[0], WINDOW_MOST = 4000 };

/* Windows of messages go to the receiver, and both ranks wait for them. Then one rank starts its part of a
 * window, goes away, and waits outside of MPI until the other rank has its part. */
static void a_rank_is_away_behind_windows(int peer, unsigned char *out, unsigned char *in, int count, int length,
                                          int is_sender)
{
    enum { TURNS = 20 };
    static MPI_Request request[WINDOW_MOST];
    int receives = rank > peer;
    for (int i = 0; i <= TURNS; i++) {
        int is_last = i == TURNS, is_away = is_last && receives != is_sender;
        if (is_last && !is_away)
            await_sign(peer);
        for (int at = 0; at < count; at++)
            if (receives)
                MPI_Irecv(in + (size_t)at * length, length, MPI_BYTE, peer, at, MPI_COMM_WORLD, &request[at]);
            else
                MPI_Isend(out + (size_t)at * length, length, MPI_BYTE, peer, at, MPI_COMM_WORLD, &request[at]);
        if (is_away) {
            give_sign(peer);
            await_sign(peer);
        }
        MPI_Waitall(count, request, MPI_STATUSES_IGNORE);
        if (is_last && !is_away)
            give_sign(peer);
    }
}

/* Both ranks send before they receive. The messages are short enough to be sent eagerly, so each send
 * completes without its receiver, and its memory is the program's again. */
static void both_send_first(int peer, unsigned char *out, unsigned char *in, int length, int count)
{
    for (int i = 0; i < count; i++)
        MPI_Send(out + (size_t)i * LONGEST, length, MPI_BYTE, peer, i, MPI_COMM_WORLD);
    memset(out, 0xee, (size_t)count * LONGEST);
    memset(in, 0, (size_t)count * LONGEST);
    for (int i = 0; i < count; i++)
        MPI_Recv(in + (size_t)i * LONGEST, length, MPI_BYTE, peer, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    check_all(in, length, count, peer);
    fill_all(out, length, count);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    int peer = (rank + ranks / 2) % ranks;
    if (rank == 0) {
        strcpy(directory, "/tmp/weft-outside-XXXXXX");
        CHECK(mkdtemp(directory) != NULL, "%s", directory);
    }
    MPI_Bcast(directory, PATH_BYTES, MPI_CHAR, 0, MPI_COMM_WORLD);
    if (ranks % 2 == 0) {
        unsigned char *out = memory((size_t)MOST * LONGEST), *in = memory((size_t)MOST * LONGEST);
        for (int at = 0; at < LENGTH_COUNT; at++)
            for (int count = 1; count <= MOST; count += 2) {
                int length = LENGTHS[at];
                STORY("the ranks wait for their messages at once");
                fill_all(out, length, count);
                wait_at_once(peer, out, in, length);
                STORY("the receives are posted, and the receiver waits outside of MPI");
                receives_are_posted(peer, out, in, length, count);
                STORY("the same, and the sends are synchronous");
                are_synchronous = 1;
                receives_are_posted(peer, out, in, length, count);
                are_synchronous = 0;
                wait_at_once(peer, out, in, length);
                STORY("the receives take messages that are there, and the receiver waits outside of MPI");
                messages_are_there(peer, out, in, length, count);
                wait_at_once(peer, out, in, length);
                STORY("messages wait for their receives, and the sender waits outside of MPI");
                sender_is_away(peer, out, in, length, count);
                if (length <= EAGER_LENGTH) {
                    STORY("both ranks send before they receive");
                    both_send_first(peer, out, in, length, count);
                }
            }
        for (int at = 0; at < WINDOW_COUNT; at++) {
            STORY("the sender waits outside of MPI behind a window of messages");
            a_rank_is_away_behind_windows(peer, out, in, WINDOWS[at].count, WINDOWS[at].length, 1);
            STORY("the receiver waits outside of MPI behind the receives of a window");
            a_rank_is_away_behind_windows(peer, out, in, WINDOWS[at].count, WINDOWS[at].length, 0);
        }
        free(out);
        free(in);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        rmdir(directory);
    return end();
}
