/* Broadcasts that a library may multicast, under hardship: `hardship interleaved`, `paused`, `gone`,
 * `stream COUNT LENGTH [FILE]`, `nonblocking COUNT LENGTH FILE` or `hint SCHEME`.
 *
 * - interleaved: broadcasts of several roots on several communicators at a time, with messages between.
 * - paused: a rank is stopped for two seconds in the middle.
 * - gone: a rank is stopped for good. A root that goes on is told within the bound, and the job ends with
 *   code 42.
 * - stream: COUNT broadcasts of LENGTH bytes from rank 0, to be counted on the wire. In the middle rank 0
 *   makes FILE, and waits until the file is taken away.
 * - nonblocking: as stream, by MPI_Ibcast and persistent broadcasts, after a few blocking ones.
 * - hint: broadcasts on a communicator with that hint. */
#include "check.h"

#include <time.h>

enum { COMMUNICATORS = 3, TURNS = 60, LONGEST = 40000, TAG = 9, HEARD = 42, PAUSE_SECONDS = 2, PAUSED_TURNS = 3000 };

static void interleaved(void)
{
    STORY("§6.12 broadcasts of several roots on several communicators, with messages between");
    MPI_Comm comms[COMMUNICATORS];
    int own[COMMUNICATORS];
    MPI_Comm_dup(MPI_COMM_WORLD, &comms[0]);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &comms[1]);
    MPI_Comm_dup(MPI_COMM_WORLD, &comms[2]);
    unsigned char *data = memory((size_t)COMMUNICATORS * LONGEST), *in = memory(LONGEST), *out = memory(LONGEST);
    for (int which = 0; which < COMMUNICATORS; which++)
        MPI_Comm_rank(comms[which], &own[which]);
    for (int turn = 0; turn < TURNS; turn++) {
        MPI_Request requests[COMMUNICATORS + 2];
        int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks, length = turn * 977 % LONGEST;
        MPI_Irecv(in, LONGEST, MPI_BYTE, before, TAG, MPI_COMM_WORLD, &requests[COMMUNICATORS]);
        for (int which = 0; which < COMMUNICATORS; which++) {
            int root = (turn * (which + 1) + which) % ranks;
            unsigned char *part = data + (size_t)which * LONGEST;
            if (own[which] == root)
                fill(part, length, root, turn + which);
            /* Blocking broadcasts on one communicator, among the others. */
            if (which == 2) {
                MPI_Bcast(part, length, MPI_BYTE, root, comms[which]);
                requests[which] = MPI_REQUEST_NULL;
            } else {
                MPI_Ibcast(part, length, MPI_BYTE, root, comms[which], &requests[which]);
            }
        }
        fill(out, length, rank, turn);
        MPI_Isend(out, length, MPI_BYTE, next, TAG, MPI_COMM_WORLD, &requests[COMMUNICATORS + 1]);
        MPI_Waitall(COMMUNICATORS + 2, requests, MPI_STATUSES_IGNORE);
        CHECK_EQUAL(wrong_bytes(in, length, before, turn), 0);
        for (int which = 0; which < COMMUNICATORS; which++) {
            int root = (turn * (which + 1) + which) % ranks;
            CHECK_EQUAL(wrong_bytes(data + (size_t)which * LONGEST, length, root, turn + which), 0);
        }
    }
    for (int which = 0; which < COMMUNICATORS; which++)
        MPI_Comm_free(&comms[which]);
    free(data);
    free(in);
    free(out);
}

/* Stops this process for some seconds, with all its threads. */
static void stop_for(int seconds)
{
    pid_t self = getpid();
    if (fork() == 0) {
        sleep((unsigned)seconds);
        kill(self, SIGCONT);
        _exit(0);
    }
    raise(SIGSTOP);
}

static void paused(void)
{
    STORY("a rank is stopped for two seconds while others broadcast");
    unsigned char data[2000];
    for (int turn = 0; turn < PAUSED_TURNS; turn++) {
        int root = turn / 500 % ranks, length = turn * 37 % (int)sizeof data;
        /* A rank that is no root then. */
        if (turn == PAUSED_TURNS / 2 + 100 && rank == (root + 1) % ranks)
            stop_for(PAUSE_SECONDS);
        if (rank == root)
            fill(data, length, root, turn);
        MPI_Bcast(data, length, MPI_BYTE, root, MPI_COMM_WORLD);
        CHECK_EQUAL(wrong_bytes(data, length, root, turn), 0);
    }
}

/* The first rank behind the root is a co-root, if there is any. */
static int gone(void)
{
    STORY("a rank is stopped for good while rank 0 broadcasts");
    unsigned char data[1000] = {0};
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int turn = 0; turn < 20; turn++)
        MPI_Bcast(data, sizeof data, MPI_BYTE, 0, MPI_COMM_WORLD);
    if (rank == 1)
        raise(SIGSTOP);
    int code = MPI_SUCCESS, count = 0;
    while (code == MPI_SUCCESS) {
        if (rank == 0)
            fill(data, sizeof data, 0, count);
        code = MPI_Bcast(data, sizeof data, MPI_BYTE, 0, MPI_COMM_WORLD);
        if (code == MPI_SUCCESS && rank != 0)
            CHECK_EQUAL(wrong_bytes(data, sizeof data, 0, count), 0);
        count++;
    }
    if (rank == 0) {
        char text[MPI_MAX_ERROR_STRING];
        int length;
        MPI_Error_string(code, text, &length);
        printf("rank 0 was told after %d broadcasts: %s\n", count, text);
        fflush(stdout);
        MPI_Abort(MPI_COMM_WORLD, failures ? 1 : HEARD);
    }
    /* The end of the job ends the others. */
    pause();
    return 1;
}

/* Lets the program that started this one do something now: FILE exists until that is done. */
static void hand_over(const char *file)
{
    FILE *made = fopen(file, "w");
    CHECK(made && !fclose(made), "%s cannot be made", file);
    for (int look = 0; look < 2000 && !access(file, F_OK); look++)
        nanosleep(&(struct timespec){0, 10000000}, NULL);
    CHECK(access(file, F_OK), "%s is still there", file);
}

static void stream(int count, int length, const char *file)
{
    STORY("a stream of broadcasts");
    unsigned char *data = memory((size_t)length);
    for (int turn = 0; turn < count; turn++) {
        if (rank == 0 && file && turn == count / 2)
            hand_over(file);
        if (rank == 0)
            fill(data, length, 0, turn);
        MPI_Bcast(data, length, MPI_BYTE, 0, MPI_COMM_WORLD);
        CHECK_EQUAL(wrong_bytes(data, length, 0, turn), 0);
        /* Each rank leaves by itself. */
        MPI_Barrier(MPI_COMM_WORLD);
    }
    free(data);
}

static void nonblocking(int count, int length, const char *file)
{
    STORY("§6.12, §6.13 nonblocking and persistent broadcasts, after a few blocking ones");
    enum { SEVERAL = 3 };
    unsigned char *data = memory((size_t)length * SEVERAL);
    MPI_Request requests[SEVERAL];
    for (int turn = 0; turn < 4; turn++)
        MPI_Bcast(data, length, MPI_BYTE, 0, MPI_COMM_WORLD);
    MPI_Bcast_init(data, length, MPI_BYTE, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]);
    for (int turn = 0; turn < count; turn++) {
        if (rank == 0 && turn == count / 2)
            hand_over(file);
        for (int which = 0; which < SEVERAL && rank == 0; which++)
            fill(data + (size_t)which * (size_t)length, length, which, turn);
        MPI_Start(&requests[0]);
        for (int which = 1; which < SEVERAL; which++)
            MPI_Ibcast(data + (size_t)which * (size_t)length, length, MPI_BYTE, 0, MPI_COMM_WORLD, &requests[which]);
        MPI_Waitall(SEVERAL, requests, MPI_STATUSES_IGNORE);
        for (int which = 0; which < SEVERAL; which++)
            CHECK_EQUAL(wrong_bytes(data + (size_t)which * (size_t)length, length, which, turn), 0);
    }
    MPI_Request_free(&requests[0]);
    free(data);
}

/* A communicator whose broadcasts travel as a hint says; only a library that knows the hint reports it. */
static void hint(const char *scheme)
{
    STORY("§7.4.4 a hint of the communicator");
    enum { LENGTH = 700 };
    unsigned char data[LENGTH];
    MPI_Comm comm;
    MPI_Info info, told;
    MPI_Info_create(&info);
    MPI_Info_set(info, "weft_bcast", scheme);
    MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &comm);
    MPI_Info_free(&info);
    char value[64] = "";
    int length = sizeof value, known = 0;
    MPI_Comm_get_info(comm, &told);
    MPI_Info_get_string(told, "weft_bcast", &length, value, &known);
    MPI_Info_free(&told);
    CHECK(known && !strcmp(value, scheme), "told: %s", value);
    for (int turn = 0; turn < 100; turn++) {
        int root = turn % ranks;
        if (rank == root)
            fill(data, LENGTH, root, turn);
        MPI_Bcast(data, LENGTH, MPI_BYTE, root, comm);
        CHECK_EQUAL(wrong_bytes(data, LENGTH, root, turn), 0);
    }
    MPI_Comm_free(&comm);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    const char *what = argc > 1 ? argv[1] : "";
    if (!strcmp(what, "interleaved"))
        interleaved();
    else if (!strcmp(what, "paused"))
        paused();
    else if (!strcmp(what, "gone"))
        return gone();
    else if (!strcmp(what, "nonblocking") && argc == 5)
        nonblocking(atoi(argv[2]), atoi(argv[3]), argv[4]);
    else if (!strcmp(what, "stream") && (argc == 4 || argc == 5))
        stream(atoi(argv[2]), atoi(argv[3]), argv[4]);
    else if (!strcmp(what, "hint") && argc == 3)
        hint(argv[2]);
    else
        CHECK(0, "usage: interleaved, paused, gone, stream COUNT LENGTH [FILE] or hint SCHEME");
    return end();
}
