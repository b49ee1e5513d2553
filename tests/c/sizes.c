/* Messages of every size from 0 to 4 MB, expected and unexpected, and floods of small ones. */
#include "check.h"

static int next, previous;

static void every_size(void)
{
    static const int size[] = {0,    1,    7,    8,    39,   40,   41,    63,    64,    65,     127,    128,     1000,   1371,
                               1372, 1373, 1400, 4095, 4096, 4097, 8191,  16384, 16385, 65535,  65536,  65537,   262145, 1 << 20,
                               4 << 20};
    enum { SIZES = sizeof size / sizeof *size };
    unsigned char *out = memory(4 << 20), *in = memory(4 << 20);
    for (int late = 0; late < 2; late++)
        for (int i = 0; i < SIZES; i++) {
            STORY(late ? "a message that arrives before its receive" : "a message that arrives after its receive");
            MPI_Request request[2];
            MPI_Status status;
            int count;
            fill(out, size[i], rank, i);
            memset(in, 0, size[i]);
            if (late) {
                MPI_Isend(out, size[i], MPI_BYTE, next, i, MPI_COMM_WORLD, &request[1]);
                MPI_Barrier(MPI_COMM_WORLD);
                MPI_Irecv(in, size[i], MPI_BYTE, previous, i, MPI_COMM_WORLD, &request[0]);
            } else {
                MPI_Irecv(in, size[i], MPI_BYTE, previous, i, MPI_COMM_WORLD, &request[0]);
                MPI_Barrier(MPI_COMM_WORLD);
                MPI_Isend(out, size[i], MPI_BYTE, next, i, MPI_COMM_WORLD, &request[1]);
            }
            MPI_Wait(&request[0], &status);
            MPI_Wait(&request[1], MPI_STATUS_IGNORE);
            MPI_Get_count(&status, MPI_BYTE, &count);
            CHECK_EQUAL(count, size[i]);
            CHECK_EQUAL(wrong_bytes(in, size[i], previous, i), 0);
        }
    free(out);
    free(in);
}

/* Both sides of a blocking message may copy it: each size some times, in both directions at once and one
 * after the other. */
static void long_ones_that_both_sides_wait_for(void)
{
    static const int size[] = {12000, 65535, 65537, 100001, 262144, 1000003, 3 << 20};
    enum { SIZES = sizeof size / sizeof *size, TIMES = 3, SPARE = 64 };
    unsigned char *out = memory(3 << 20), *in = memory((3 << 20) + SPARE);
    for (int i = 0; i < SIZES; i++)
        for (int time = 0; time < TIMES; time++) {
            MPI_Status status;
            int count, tag = i * TIMES + time;
            fill(out, size[i], rank, tag);
            memset(in, 0, size[i] + SPARE);
            STORY("both directions at once");
            MPI_Sendrecv(out, size[i], MPI_BYTE, next, tag, in, size[i] + SPARE, MPI_BYTE, time % 2 ? MPI_ANY_SOURCE : previous, tag, MPI_COMM_WORLD, &status);
            MPI_Get_count(&status, MPI_BYTE, &count);
            CHECK_EQUAL(count, size[i]);
            CHECK_EQUAL(wrong_bytes(in, size[i], previous, tag), 0);
            CHECK_EQUAL(in[size[i]], 0);
            STORY("one direction after the other");
            if (rank % 2 == 0 && rank + 1 < ranks) {
                if (time == 1)
                    usleep(2000);
                MPI_Send(out, size[i], MPI_BYTE, rank + 1, tag, MPI_COMM_WORLD);
                MPI_Recv(in, size[i], MPI_BYTE, rank + 1, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                CHECK_EQUAL(wrong_bytes(in, size[i], rank + 1, tag), 0);
            } else if (rank % 2) {
                if (time == 2)
                    usleep(2000);
                MPI_Recv(in, size[i], MPI_BYTE, rank - 1, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                CHECK_EQUAL(wrong_bytes(in, size[i], rank - 1, tag), 0);
                MPI_Send(out, size[i], MPI_BYTE, rank - 1, tag, MPI_COMM_WORLD);
            }
        }
    free(out);
    free(in);
}

static void many_long_ones_at_once(void)
{
    STORY("long messages in flight to everyone");
    enum { SIZE = 200000 };
    unsigned char *out = memory(SIZE), *in = memory((size_t)SIZE * ranks);
    MPI_Request *request = memory(2 * ranks * sizeof *request);
    fill(out, SIZE, rank, 1);
    for (int other = 0; other < ranks; other++)
        MPI_Isend(out, SIZE, MPI_BYTE, other, 1, MPI_COMM_WORLD, &request[ranks + other]);
    for (int other = ranks; other-- > 0;)
        MPI_Irecv(in + (size_t)SIZE * other, SIZE, MPI_BYTE, other, 1, MPI_COMM_WORLD, &request[other]);
    MPI_Waitall(2 * ranks, request, MPI_STATUSES_IGNORE);
    for (int other = 0; other < ranks; other++)
        CHECK_EQUAL(wrong_bytes(in + (size_t)SIZE * other, SIZE, other, 1), 0);
    free(out);
    free(in);
    free(request);
}

static void flood(void)
{
    STORY("a flood that nobody expects");
    enum { MESSAGES = 5000 };
    if (rank > 0) {
        for (int i = 0; i < MESSAGES; i++)
            MPI_Send(&i, 1, MPI_INT, 0, i % 3, MPI_COMM_WORLD);
        int last = rank;
        MPI_Send(&last, 1, MPI_INT, 0, 3, MPI_COMM_WORLD);
    } else {
        /* The last message of each rank is received first: all others wait meanwhile. */
        for (int other = 1; other < ranks; other++) {
            int value = -1;
            MPI_Recv(&value, 1, MPI_INT, other, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            CHECK_EQUAL(value, other);
        }
        for (int tag = 2; tag >= 0; tag--)
            for (int other = 1; other < ranks; other++)
                for (int i = tag; i < MESSAGES; i += 3) {
                    int value = -1;
                    MPI_Recv(&value, 1, MPI_INT, other, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                    CHECK_EQUAL(value, i);
                }
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static void stream(void)
{
    STORY("a stream of messages with a window");
    enum { WINDOW = 64, ROUNDS = 20, SIZE = 1000 };
    static unsigned char out[SIZE], in[WINDOW][SIZE];
    MPI_Request request[2 * WINDOW];
    fill(out, SIZE, rank, 4);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < WINDOW; i++) {
            MPI_Irecv(in[i], SIZE, MPI_BYTE, previous, i, MPI_COMM_WORLD, &request[i]);
            MPI_Isend(out, SIZE, MPI_BYTE, next, i, MPI_COMM_WORLD, &request[WINDOW + i]);
        }
        MPI_Waitall(2 * WINDOW, request, MPI_STATUSES_IGNORE);
        for (int i = 0; i < WINDOW; i++)
            CHECK_EQUAL(wrong_bytes(in[i], SIZE, previous, 4), 0);
    }
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    next = (rank + 1) % ranks;
    previous = (rank + ranks - 1) % ranks;
    every_size();
    long_ones_that_both_sides_wait_for();
    many_long_ones_at_once();
    flood();
    stream();
    return end();
}
