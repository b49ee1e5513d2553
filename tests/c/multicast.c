/* Broadcasts that a library may multicast. Their lengths are around those at which the library cuts. They
 * come from every root, on several communicators with messages between. Receivers come late; nonblocking and
 * persistent broadcasts stand among blocking ones; communicators are freed at once. */
#include "check.h"

enum { LONGEST = 3000001, MARGIN = 64 };

static const int lengths[] = {0,    1,    4,    100,   1300,   1400,   1431,   1432,    1472,
                              1836, 5000, 65536, 262143, 262144, 262145, 1000000, LONGEST};
enum { LENGTHS = sizeof lengths / sizeof *lengths };

static unsigned char *data;

static void all_lengths(void)
{
    STORY("§6.4 Bcast of all lengths from all roots");
    for (int turn = 0; turn < LENGTHS; turn++)
        for (int root = 0; root < ranks; root++) {
            int length = lengths[turn];
            memset(data, 255, (size_t)length + MARGIN);
            if (rank == root)
                fill(data, length, root, turn);
            MPI_Bcast(data, length, MPI_BYTE, root, MPI_COMM_WORLD);
            CHECK_EQUAL(wrong_bytes(data, length, root, turn), 0);
            CHECK_EQUAL(data[length], 255);
        }
}

static void back_to_back(MPI_Comm twin)
{
    STORY("broadcasts back to back, with messages between, and receivers that come late");
    for (int turn = 0; turn < 300; turn++) {
        int root = turn / 50 % ranks, next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks, token = -1;
        if (rank != root && turn % 60 == 7 * (rank % 8))
            usleep(3000);
        if (rank == root)
            fill(data, 40, root, turn);
        MPI_Bcast(data, 40, MPI_BYTE, root, turn % 3 ? MPI_COMM_WORLD : twin);
        CHECK_EQUAL(wrong_bytes(data, 40, root, turn), 0);
        if (turn % 10 == 0) {
            MPI_Sendrecv(&rank, 1, MPI_INT, next, turn, &token, 1, MPI_INT, before, turn, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE);
            CHECK_EQUAL(token, before);
        }
    }
}

static void among_some(void)
{
    STORY("a communicator of some, in another order");
    MPI_Comm some;
    int own, count;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &some);
    MPI_Comm_rank(some, &own);
    MPI_Comm_size(some, &count);
    for (int turn = 0; turn < 40; turn++) {
        if (own == turn % count)
            fill(data, 2000, turn % count, turn);
        MPI_Bcast(data, 2000, MPI_BYTE, turn % count, some);
        size_t wrong = wrong_bytes(data, 2000, turn % count, turn);
        CHECK_EQUAL(wrong, 0);
    }
    MPI_Comm_free(&some);
}

static void several_at_a_time(MPI_Comm twin)
{
    STORY("§6.12.2 Ibcast, several at a time");
    enum { EACH = 70000, LENGTH = 65536, SEVERAL = 4 };
    MPI_Request requests[SEVERAL];
    for (int turn = 0; turn < 20; turn++) {
        for (int which = 0; which < SEVERAL; which++) {
            int root = (turn + which) % ranks;
            if (rank == root)
                fill(data + which * EACH, LENGTH, root, turn + which);
            MPI_Ibcast(data + which * EACH, LENGTH, MPI_BYTE, root, which % 2 ? twin : MPI_COMM_WORLD, &requests[which]);
        }
        MPI_Waitall(SEVERAL, requests, MPI_STATUSES_IGNORE);
        for (int which = 0; which < SEVERAL; which++) {
            int root = (turn + which) % ranks;
            CHECK_EQUAL(wrong_bytes(data + which * EACH, LENGTH, root, turn + which), 0);
        }
    }
}

static void again_and_again(MPI_Comm twin)
{
    STORY("§6.13.2 Bcast_init");
    MPI_Request request;
    int root = ranks - 1;
    MPI_Bcast_init(data, 3000, MPI_BYTE, root, twin, MPI_INFO_NULL, &request);
    for (int turn = 0; turn < 50; turn++) {
        if (rank == root)
            fill(data, 3000, root, turn);
        MPI_Start(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        CHECK_EQUAL(wrong_bytes(data, 3000, root, turn), 0);
    }
    MPI_Request_free(&request);
}

static void gaps(void)
{
    STORY("bytes at the root, a datatype with gaps at the others");
    MPI_Datatype type;
    MPI_Type_vector(500, 4, 8, MPI_BYTE, &type);
    MPI_Type_commit(&type);
    for (int turn = 0; turn < 10; turn++) {
        memset(data, 255, 4000);
        if (rank == 0)
            fill(data, 2000, 0, turn);
        MPI_Bcast(data, rank == 0 ? 2000 : 1, rank == 0 ? MPI_BYTE : type, 0, MPI_COMM_WORLD);
        int count = 0;
        for (int at = 0; at < 2000; at++)
            count += data[rank == 0 ? at : at / 4 * 8 + at % 4] != pattern(0, turn, (size_t)at);
        CHECK_EQUAL(count, 0);
        CHECK(rank == 0 || data[4] == 255, "a gap was written to");
    }
    MPI_Type_free(&type);
}

static void freed_at_once(void)
{
    STORY("§7.4.3 Comm_free right after a broadcast; others have the context afterwards");
    for (int turn = 0; turn < 10; turn++) {
        MPI_Comm brief;
        MPI_Comm_dup(MPI_COMM_WORLD, &brief);
        for (int times = 0; times < 5; times++) {
            if (rank == turn % ranks)
                fill(data, 500, 0, turn + times);
            MPI_Bcast(data, 500, MPI_BYTE, turn % ranks, brief);
            CHECK_EQUAL(wrong_bytes(data, 500, 0, turn + times), 0);
        }
        MPI_Comm_free(&brief);
    }
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    data = memory(LONGEST + MARGIN);
    MPI_Comm twin;
    MPI_Comm_dup(MPI_COMM_WORLD, &twin);
    all_lengths();
    back_to_back(twin);
    among_some();
    several_at_a_time(twin);
    again_and_again(twin);
    gaps();
    freed_at_once();
    MPI_Comm_free(&twin);
    free(data);
    return end();
}
