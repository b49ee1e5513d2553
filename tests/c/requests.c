/* Completion: Wait and Test in all forms, persistent requests, Cancel, Request_free, Request_get_status. */
#include "check.h"

enum { MANY = 20 };

static int next, previous;
static MPI_Request request[2 * MANY];
static int out[MANY], in[MANY];

/* Starts MANY messages round the ring; receives are request[0 .. MANY), sends follow. */
static void start(int base)
{
    for (int i = 0; i < MANY; i++) {
        in[i] = -1;
        MPI_Irecv(&in[i], 1, MPI_INT, previous, i, MPI_COMM_WORLD, &request[i]);
    }
    for (int i = 0; i < MANY; i++) {
        out[i] = base + rank * MANY + i;
        MPI_Isend(&out[i], 1, MPI_INT, next, i, MPI_COMM_WORLD, &request[MANY + i]);
    }
}

static void check_received(int base)
{
    for (int i = 0; i < MANY; i++)
        CHECK_EQUAL(in[i], base + previous * MANY + i);
    for (int i = 0; i < 2 * MANY; i++)
        CHECK(request[i] == MPI_REQUEST_NULL, "request %d is not null", i);
}

static void any_and_some(void)
{
    MPI_Status status, statuses[2 * MANY];
    int index, count, flag, indices[2 * MANY];

    STORY("Waitany");
    start(1000);
    for (int i = 0; i < 2 * MANY; i++) {
        MPI_Waitany(2 * MANY, request, &index, &status);
        CHECK(index >= 0 && index < 2 * MANY, "index %d", index);
        if (index < MANY)
            CHECK(status.MPI_TAG == index && status.MPI_SOURCE == previous, "tag %d", status.MPI_TAG);
    }
    check_received(1000);
    MPI_Waitany(2 * MANY, request, &index, &status);
    CHECK_EQUAL(index, MPI_UNDEFINED);
    CHECK_EQUAL(status.MPI_SOURCE, MPI_ANY_SOURCE);

    STORY("Waitsome");
    start(2000);
    for (int done = 0; done < 2 * MANY; done += count) {
        MPI_Waitsome(2 * MANY, request, &count, indices, statuses);
        CHECK(count > 0 && count <= 2 * MANY - done, "%d complete", count);
        for (int i = 0; i < count; i++)
            if (indices[i] < MANY)
                CHECK_EQUAL(statuses[i].MPI_TAG, indices[i]);
        if (count <= 0)
            break;
    }
    check_received(2000);
    MPI_Waitsome(2 * MANY, request, &count, indices, statuses);
    CHECK_EQUAL(count, MPI_UNDEFINED);

    STORY("Testany, Testsome, Testall");
    start(3000);
    for (int done = 0; done < 2 * MANY;) {
        MPI_Testany(2 * MANY, request, &index, &flag, &status);
        done += flag != 0;
        CHECK(!flag || index != MPI_UNDEFINED, "flag without an index");
    }
    check_received(3000);
    MPI_Testany(2 * MANY, request, &index, &flag, &status);
    CHECK(flag && index == MPI_UNDEFINED, "flag %d, index %d", flag, index);
    start(4000);
    for (int done = 0; done < 2 * MANY; done += count)
        MPI_Testsome(2 * MANY, request, &count, indices, MPI_STATUSES_IGNORE);
    check_received(4000);
    start(5000);
    for (flag = 0; !flag;)
        MPI_Testall(2 * MANY, request, &flag, statuses);
    check_received(5000);

    STORY("the null request");
    MPI_Wait(&request[0], &status);
    CHECK(status.MPI_SOURCE == MPI_ANY_SOURCE && status.MPI_TAG == MPI_ANY_TAG, "not the empty status");
    MPI_Get_count(&status, MPI_INT, &count);
    CHECK_EQUAL(count, 0);
    MPI_Test(&request[0], &flag, &status);
    CHECK(flag, "not complete");
    MPI_Waitall(0, NULL, MPI_STATUSES_IGNORE);
}

static void look_without_taking(void)
{
    STORY("Request_get_status");
    int flag = 0;
    MPI_Status status;
    start(6000);
    while (!flag)
        MPI_Request_get_status(request[0], &flag, &status);
    CHECK(request[0] != MPI_REQUEST_NULL, "the request is gone");
    CHECK_EQUAL(status.MPI_SOURCE, previous);
    MPI_Waitall(2 * MANY, request, MPI_STATUSES_IGNORE);
    check_received(6000);
}

static void persistent(void)
{
    STORY("persistent requests");
    static int (*const init[])(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *) = {
        MPI_Send_init, MPI_Ssend_init, MPI_Bsend_init, MPI_Rsend_init};
    char pool[1000 * sizeof(int) + MPI_BSEND_OVERHEAD];
    MPI_Buffer_attach(pool, sizeof pool);
    for (int mode = 0; mode < 4; mode++) {
        int values[100], got[100], flag;
        MPI_Request pair[2];
        MPI_Status status[2];
        MPI_Recv_init(got, 100, MPI_INT, previous, mode, MPI_COMM_WORLD, &pair[0]);
        init[mode](values, 100, MPI_INT, next, mode, MPI_COMM_WORLD, &pair[1]);
        MPI_Test(&pair[0], &flag, &status[0]);
        CHECK(flag, "an inactive request does not test as complete");
        for (int round = 0; round < 5; round++) {
            for (int i = 0; i < 100; i++)
                values[i] = rank * 1000 + round * 100 + i, got[i] = -1;
            MPI_Start(&pair[0]);
            MPI_Barrier(MPI_COMM_WORLD);
            MPI_Startall(1, &pair[1]);
            MPI_Waitall(2, pair, status);
            CHECK_EQUAL(status[0].MPI_SOURCE, previous);
            for (int i = 0; i < 100; i++)
                CHECK_EQUAL(got[i], previous * 1000 + round * 100 + i);
            CHECK(pair[0] != MPI_REQUEST_NULL && pair[1] != MPI_REQUEST_NULL, "a persistent request became null");
        }
        MPI_Request_free(&pair[0]);
        MPI_Request_free(&pair[1]);
        CHECK(pair[0] == MPI_REQUEST_NULL, "not null after Request_free");
    }
    void *detached;
    int size;
    MPI_Buffer_detach(&detached, &size);
}

static void cancelled(void)
{
    STORY("a cancelled receive");
    int value = -1, flag;
    MPI_Request cancel;
    MPI_Status status;
    MPI_Irecv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 77, MPI_COMM_WORLD, &cancel);
    MPI_Cancel(&cancel);
    MPI_Wait(&cancel, &status);
    MPI_Test_cancelled(&status, &flag);
    CHECK(flag, "not cancelled");
    MPI_Barrier(MPI_COMM_WORLD); /* no rank sends before all have cancelled */
    /* A message sent afterwards goes to the next receive. */
    int sent = rank;
    MPI_Sendrecv(&sent, 1, MPI_INT, next, 77, &value, 1, MPI_INT, previous, 77, MPI_COMM_WORLD, &status);
    MPI_Test_cancelled(&status, &flag);
    CHECK(!flag && value == previous, "cancelled %d, value %d", flag, value);
    STORY("cancelling what is complete changes nothing");
    MPI_Irecv(&value, 1, MPI_INT, previous, 78, MPI_COMM_WORLD, &cancel);
    MPI_Send(&sent, 1, MPI_INT, next, 78, MPI_COMM_WORLD);
    for (flag = 0; !flag;)
        MPI_Request_get_status(cancel, &flag, &status);
    MPI_Cancel(&cancel);
    MPI_Wait(&cancel, &status);
    MPI_Test_cancelled(&status, &flag);
    CHECK(!flag && value == previous, "cancelled %d, value %d", flag, value);
}

static void cancelled_to_oneself(void)
{
    STORY("a synchronous send to oneself is cancelled at once, or not at all");
    int value = 7, flag = 0, gone = 0;
    MPI_Request cancel;
    MPI_Status status;
    MPI_Issend(&value, 1, MPI_INT, rank, 79, MPI_COMM_WORLD, &cancel);
    MPI_Probe(rank, 79, MPI_COMM_WORLD, &status);
    MPI_Cancel(&cancel);
    MPI_Request_get_status(cancel, &flag, &status);
    if (flag)
        MPI_Test_cancelled(&status, &gone);
    if (!gone)
        MPI_Recv(&value, 1, MPI_INT, rank, 79, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Wait(&cancel, MPI_STATUS_IGNORE);
    MPI_Iprobe(rank, 79, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    CHECK(!flag, "cancelled or received, but still there");
}

static void freed(void)
{
    STORY("a freed send still arrives");
    static unsigned char bytes[100000];
    unsigned char *got = memory(sizeof bytes);
    MPI_Request send;
    fill(bytes, sizeof bytes, rank, 3);
    MPI_Isend(bytes, sizeof bytes, MPI_BYTE, next, 50, MPI_COMM_WORLD, &send);
    MPI_Request_free(&send);
    CHECK(send == MPI_REQUEST_NULL, "not null after Request_free");
    MPI_Recv(got, sizeof bytes, MPI_BYTE, previous, 50, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK_EQUAL(wrong_bytes(got, sizeof bytes, previous, 3), 0);
    free(got);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* A small send is complete as it starts: whatever the program does with its request, the others and their
 * messages stay as they are. */
static void complete_at_once(void)
{
    int value[4] = {rank, rank + 1, rank + 2, rank + 3}, got[4] = {-1, -1, -1, -1}, flag;
    MPI_Request send[4], receive;
    MPI_Status status;

    STORY("requests of small sends");
    for (int i = 0; i < 4; i++)
        MPI_Isend(&value[i], 1, MPI_INT, next, 60 + i, MPI_COMM_WORLD, &send[i]);
    MPI_Request_free(&send[0]);
    CHECK(send[0] == MPI_REQUEST_NULL, "not null after Request_free");
    MPI_Cancel(&send[1]);
    MPI_Wait(&send[1], &status);
    CHECK(send[1] == MPI_REQUEST_NULL, "not null after Wait");
    MPI_Test_cancelled(&status, &flag);
    CHECK_EQUAL(flag, 0);
    CHECK(MPI_Request_fromint(MPI_Request_toint(send[2])) == send[2], "another request comes back from its integer");
    MPI_Request_get_status(send[2], &flag, &status);
    CHECK(send[2] != MPI_REQUEST_NULL, "taken by Request_get_status");
    MPI_Waitall(2, &send[2], MPI_STATUSES_IGNORE);
    for (int i = 0; i < 4; i++)
        MPI_Recv(&got[i], 1, MPI_INT, previous, 60 + i, MPI_COMM_WORLD, &status);
    for (int i = 0; i < 4; i++)
        CHECK_EQUAL(got[i], previous + i);

    STORY("a posted receive goes before a later one that waits");
    MPI_Irecv(&got[0], 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &receive);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Send(&value[2], 1, MPI_INT, next, 70, MPI_COMM_WORLD);
    MPI_Send(&value[3], 1, MPI_INT, next, 70, MPI_COMM_WORLD);
    MPI_Recv(&got[1], 1, MPI_INT, previous, 70, MPI_COMM_WORLD, &status);
    MPI_Wait(&receive, &status);
    CHECK_EQUAL(got[0], previous + 2);
    CHECK_EQUAL(got[1], previous + 3);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void of_every_kind(void)
{
    int value[3] = {rank, rank + 1, rank + 2}, plain, small, never, again, flag, class;
    MPI_Request all[6], stale;
    MPI_Status statuses[6];
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);

    STORY("requests of every kind in one Waitall, and once more, so that requests are used again");
    for (int round = 0; round < 2; round++) {
        plain = small = never = again = -1;
        MPI_Irecv(&plain, 1, MPI_INT, previous, 80, MPI_COMM_WORLD, &all[0]);
        all[1] = MPI_REQUEST_NULL;
        MPI_Irecv(&small, 1, MPI_INT, previous, 81, MPI_COMM_WORLD, &all[2]);
        MPI_Irecv(&never, 1, MPI_INT, previous, 82, MPI_COMM_WORLD, &all[3]);
        MPI_Recv_init(&again, 1, MPI_INT, previous, 83, MPI_COMM_WORLD, &all[4]);
        MPI_Start(&all[4]);
        MPI_Cancel(&all[3]);
        MPI_Isend(value, 1, MPI_INT, next, 80, MPI_COMM_WORLD, &all[5]);
        MPI_Send(value, 3, MPI_INT, next, 81, MPI_COMM_WORLD);
        MPI_Send(&value[1], 1, MPI_INT, next, 83, MPI_COMM_WORLD);
        CHECK_CLASS(MPI_Waitall(6, all, statuses), MPI_ERR_IN_STATUS);
        CHECK_EQUAL(plain, previous);
        CHECK(statuses[0].MPI_SOURCE == previous && statuses[0].MPI_TAG == 80, "tag %d", statuses[0].MPI_TAG);
        CHECK_EQUAL(statuses[0].MPI_ERROR, MPI_SUCCESS);
        CHECK_EQUAL(statuses[1].MPI_SOURCE, MPI_ANY_SOURCE);
        MPI_Error_class(statuses[2].MPI_ERROR, &class);
        CHECK_EQUAL(class, MPI_ERR_TRUNCATE);
        MPI_Test_cancelled(&statuses[3], &flag);
        CHECK(flag && never == -1, "not cancelled, or %d has arrived", never);
        CHECK_EQUAL(again, previous + 1);
        CHECK_EQUAL(statuses[4].MPI_TAG, 83);
        for (int i = 0; i < 6; i++)
            CHECK((all[i] == MPI_REQUEST_NULL) == (i != 4), "request %d", i);
        MPI_Request_free(&all[4]);
    }

    STORY("a handle that is none ends a Waitall; what stands before it is complete");
    MPI_Irecv(NULL, 0, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &all[1]);
    stale = all[1];
    MPI_Wait(&all[1], MPI_STATUS_IGNORE);
    MPI_Irecv(&plain, 1, MPI_INT, previous, 84, MPI_COMM_WORLD, &all[0]);
    all[1] = stale;
    MPI_Irecv(&again, 1, MPI_INT, previous, 85, MPI_COMM_WORLD, &all[2]);
    MPI_Send(&value[1], 1, MPI_INT, next, 84, MPI_COMM_WORLD);
    MPI_Send(&value[2], 1, MPI_INT, next, 85, MPI_COMM_WORLD);
    CHECK_CLASS(MPI_Waitall(3, all, MPI_STATUSES_IGNORE), MPI_ERR_REQUEST);
    CHECK(plain == previous + 1 && all[0] == MPI_REQUEST_NULL, "%d", plain);
    CHECK_EQUAL(MPI_Wait(&all[2], MPI_STATUS_IGNORE), MPI_SUCCESS);
    CHECK_EQUAL(again, previous + 2);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    next = (rank + 1) % ranks;
    previous = (rank + ranks - 1) % ranks;
    any_and_some();
    look_without_taking();
    persistent();
    cancelled();
    cancelled_to_oneself();
    freed();
    complete_at_once();
    of_every_kind();
    return end();
}
