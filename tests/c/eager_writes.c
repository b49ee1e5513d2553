/*
 * Messages that a carrier writes at once, `eager_writes written|packets|either [long]`, between the ranks 0
 * and 1 of two hosts. `written`: the carrier must have written some. `packets`: it must not. `either`: that
 * depends on the load of the machine.
 *
 * A send within the eager limit must complete though no receive is there; one above it (`long`) may. Its
 * buffer may change at once. The receive may be posted before or after, for any source and tag, with other
 * types of data, and too short.
 */
#include "counters.h"

enum { WITHIN = 48000, ABOVE = 100000, SHORT = 20000, MESSAGES = 5, TAG = 3, OTHER_TAG = 4, GAP = 2, ROUNDS = 40 };

static unsigned char out[ABOVE], in[GAP * ABOVE];
static int length = WITHIN;

static unsigned char content(int i, int round)
{
    return (unsigned char)(i * 7 + i / 251 + round * 13);
}

static void fill_out(int round)
{
    for (int i = 0; i < length; i++)
        out[i] = content(i, round);
}

static void check(int bytes, int gap, int round, const char *when)
{
    for (int i = 0; i < bytes; i++)
        if (in[i * gap] != content(i, round)) {
            CHECK(0, "%s, round %d: byte %d is %d", when, round, i, in[i * gap]);
            return;
        }
}

/* Rank 0 sends a message, and changes its buffer as soon as the send is complete. */
static void send_one(int round)
{
    fill_out(round);
    MPI_Send(out, length, MPI_BYTE, 1, TAG, MPI_COMM_WORLD);
    memset(out, 0, length);
}

/* The ranks answer each other, so that nothing is under way. */
static void settle(void)
{
    MPI_Sendrecv(NULL, 0, MPI_BYTE, 1 - rank, OTHER_TAG, NULL, 0, MPI_BYTE, 1 - rank, OTHER_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void before_the_receive(void)
{
    STORY("messages whose receives come later, and in another order");
    for (int round = 0; round < ROUNDS; round++) {
        if (rank == 0) {
            send_one(round);
            MPI_Send(NULL, 0, MPI_BYTE, 1, OTHER_TAG, MPI_COMM_WORLD);
        } else {
            MPI_Status status;
            int bytes;
            MPI_Recv(NULL, 0, MPI_BYTE, 0, OTHER_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
            MPI_Get_count(&status, MPI_BYTE, &bytes);
            CHECK_EQUAL(bytes, length);
            CHECK_EQUAL(status.MPI_TAG, TAG);
            MPI_Recv(in, length, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
            CHECK_EQUAL(status.MPI_SOURCE, 0);
            check(length, 1, round, "received later");
        }
        settle();
    }
}

static void after_the_receive(void)
{
    STORY("messages whose receives are posted");
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Request request;
        if (rank == 1)
            MPI_Irecv(in, length, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &request);
        settle();
        if (rank == 0)
            send_one(round);
        else {
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            check(length, 1, round, "posted");
        }
    }
}

static void in_turns(void)
{
    STORY("each rank answers with a message");
    for (int round = 0; round < ROUNDS; round++) {
        if (rank == 0)
            send_one(round);
        MPI_Recv(in, length, MPI_BYTE, 1 - rank, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        check(length, 1, round, "in turns");
        if (rank == 1)
            MPI_Send(in, length, MPI_BYTE, 0, TAG, MPI_COMM_WORLD);
        memset(in, 0, length);
    }
}

static void several(void)
{
    STORY("several messages, none of which has a receive yet, in the order in which they were sent");
    if (rank == 0) {
        for (int message = 0; message < MESSAGES; message++)
            send_one(message);
        MPI_Send(NULL, 0, MPI_BYTE, 1, OTHER_TAG, MPI_COMM_WORLD);
    } else {
        MPI_Recv(NULL, 0, MPI_BYTE, 0, OTHER_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int message = 0; message < MESSAGES; message++) {
            MPI_Recv(in, length, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            check(length, 1, message, "several");
        }
    }
    settle();
}

static void to_gaps(void)
{
    STORY("memory with gaps, posted before and after");
    MPI_Datatype strided;
    MPI_Type_vector(length, 1, GAP, MPI_BYTE, &strided);
    MPI_Type_commit(&strided);
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Request request = MPI_REQUEST_NULL;
        memset(in, 1, sizeof in);
        if (rank == 1 && round % 2)
            MPI_Irecv(in, 1, strided, 0, TAG, MPI_COMM_WORLD, &request);
        settle();
        if (rank == 0)
            send_one(round);
        else if (round % 2)
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        else
            MPI_Recv(in, 1, strided, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank == 1) {
            check(length, GAP, round, "with gaps");
            CHECK_EQUAL(in[1], 1);
            CHECK_EQUAL(in[GAP * length - 1], 1);
        }
        settle();
    }
    MPI_Type_free(&strided);
}

static void too_short(void)
{
    STORY("receives that are too short, posted before and after");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int round = 0; round < ROUNDS; round++) {
        int room = round % 4 < 2 ? SHORT : 0, error = MPI_SUCCESS;
        MPI_Request request = MPI_REQUEST_NULL;
        memset(in, 1, sizeof in);
        if (rank == 1 && round % 2)
            MPI_Irecv(in, room, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &request);
        settle();
        if (rank == 0)
            send_one(round);
        else if (round % 2)
            error = MPI_Wait(&request, MPI_STATUS_IGNORE);
        else
            error = MPI_Recv(in, room, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank == 1) {
            int class = MPI_SUCCESS;
            MPI_Error_class(error, &class);
            CHECK_EQUAL(class, MPI_ERR_TRUNCATE);
            CHECK_EQUAL(in[room], 1);
            CHECK_EQUAL(in[length - 1], 1);
        }
        settle();
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "either";
    begin(&argc, &argv);
    open_counters();
    int is_long = argc > 2 && strcmp(argv[2], "long") == 0;
    if (is_long)
        length = ABOVE;
    MPI_T_pvar_handle writes = counter("network_remote_writes");
    in_turns();
    after_the_receive();
    if (!is_long) {
        before_the_receive();
        several();
    }
    to_gaps();
    too_short();
    in_turns();
    unsigned long long all = counted(writes);
    if (rank == 0 && strcmp(how, "either") != 0)
        CHECK((strcmp(how, "written") == 0) == (all > 0), "%llu messages were written", all);
    /* No receive takes this one. */
    if (rank == 0 && !is_long)
        send_one(0);
    int code = end();
    close_counters();
    return code;
}
