/* Blocking and nonblocking messages in all modes: order, wildcards, status, truncation, self, MPI_PROC_NULL.
 */
#include "check.h"

typedef int send_function(const void *, int, MPI_Datatype, int, int, MPI_Comm);
typedef int start_function(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);

static int next, previous;

static void neighbours_by_every_mode(void)
{
    STORY("§3.4, §3.7.2 every mode round the ring");
    static start_function *const start[] = {MPI_Isend, MPI_Issend, MPI_Irsend, MPI_Ibsend};
    char pool[4 * (1000 * sizeof(int) + MPI_BSEND_OVERHEAD)];
    MPI_Buffer_attach(pool, sizeof pool);
    for (int mode = 0; mode < 4; mode++) {
        int out[1000], in[1000];
        MPI_Request request[2];
        for (int i = 0; i < 1000; i++)
            out[i] = rank * 1000 + i + mode, in[i] = -1;
        MPI_Irecv(in, 1000, MPI_INT, previous, mode, MPI_COMM_WORLD, &request[0]);
        MPI_Barrier(MPI_COMM_WORLD); /* ready mode: the receive is posted */
        start[mode](out, 1000, MPI_INT, next, mode, MPI_COMM_WORLD, &request[1]);
        MPI_Status status[2];
        MPI_Waitall(2, request, status);
        int count, wrong = 0;
        MPI_Get_count(&status[0], MPI_INT, &count);
        for (int i = 0; i < 1000; i++)
            wrong += in[i] != previous * 1000 + i + mode;
        CHECK_EQUAL(wrong, 0);
        CHECK_EQUAL(count, 1000);
        CHECK_EQUAL(status[0].MPI_SOURCE, previous);
        CHECK_EQUAL(status[0].MPI_TAG, mode);
        CHECK(request[0] == MPI_REQUEST_NULL && request[1] == MPI_REQUEST_NULL, "requests are not null after the wait");
    }
    void *detached;
    int size;
    MPI_Buffer_detach(&detached, &size);
    CHECK(detached == pool && size == (int)sizeof pool, "detached %p, %d bytes", detached, size);
}

static void blocking_modes(void)
{
    STORY("§3.4 blocking modes in pairs");
    static send_function *const send[] = {MPI_Send, MPI_Ssend, MPI_Rsend, MPI_Bsend};
    int peer = rank ^ 1;
    if (peer >= ranks)
        return;
    char pool[100 + MPI_BSEND_OVERHEAD];
    MPI_Buffer_attach(pool, sizeof pool);
    for (int mode = 0; mode < 4; mode++)
        for (int turn = 0; turn < 2; turn++) {
            double value = rank + mode * 0.25;
            if ((rank & 1) == turn) {
                int go; /* ready mode: the peer has posted its receive */
                MPI_Recv(&go, 1, MPI_INT, peer, 100, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                send[mode](&value, 1, MPI_DOUBLE, peer, 7, MPI_COMM_WORLD);
            } else {
                MPI_Request request;
                double in = -1;
                int go = 1;
                MPI_Irecv(&in, 1, MPI_DOUBLE, peer, 7, MPI_COMM_WORLD, &request);
                MPI_Send(&go, 1, MPI_INT, peer, 100, MPI_COMM_WORLD);
                MPI_Wait(&request, MPI_STATUS_IGNORE);
                CHECK(in == peer + mode * 0.25, "received %g", in);
            }
        }
    void *detached;
    int size;
    MPI_Buffer_detach(&detached, &size);
}

static void order_is_kept(void)
{
    STORY("§3.5 messages do not overtake");
    enum { MANY = 500 };
    /* Small and large ones mixed, to all; received by exact and by wild receives. */
    int length[3] = {1, 300, 20000};
    int *out = memory(20000 * sizeof(int)), *in = memory(20000 * sizeof(int));
    MPI_Request *request = memory(MANY * sizeof *request);
    int **copies = memory(MANY * sizeof *copies);
    for (int i = 0; i < MANY; i++) {
        int size = length[i % 50 == 49 ? 2 : i % 7 == 6];
        copies[i] = memory(size * sizeof(int));
        copies[i][0] = i;
        MPI_Isend(copies[i], size, MPI_INT, next, 5, MPI_COMM_WORLD, &request[i]);
    }
    for (int i = 0; i < MANY; i++) {
        MPI_Status status;
        MPI_Recv(in, 20000, MPI_INT, i % 2 ? MPI_ANY_SOURCE : previous, i % 3 ? MPI_ANY_TAG : 5, MPI_COMM_WORLD, &status);
        CHECK_EQUAL(in[0], i);
        int count;
        MPI_Get_count(&status, MPI_INT, &count);
        CHECK_EQUAL(count, length[i % 50 == 49 ? 2 : i % 7 == 6]);
    }
    MPI_Waitall(MANY, request, MPI_STATUSES_IGNORE);
    for (int i = 0; i < MANY; i++)
        free(copies[i]);
    free(copies);
    free(request);
    free(out);
    free(in);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void wildcards(void)
{
    STORY("§3.2.4 receives from anyone");
    int value = rank * 3;
    if (rank > 0) {
        MPI_Send(&value, 1, MPI_INT, 0, 10 + rank, MPI_COMM_WORLD);
    } else {
        char *seen = memory(ranks);
        for (int i = 1; i < ranks; i++) {
            MPI_Status status;
            MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
            CHECK_EQUAL(value, status.MPI_SOURCE * 3);
            CHECK_EQUAL(status.MPI_TAG, 10 + status.MPI_SOURCE);
            CHECK(!seen[status.MPI_SOURCE], "%d sent twice", status.MPI_SOURCE);
            seen[status.MPI_SOURCE] = 1;
        }
        free(seen);
    }
    MPI_Barrier(MPI_COMM_WORLD); /* the following messages must not meet the wildcards above */
    /* Tags choose among arrived messages: each tag is received in the reverse order of sending. */
    STORY("§3.2.4 tags choose among what has arrived");
    enum { TAGS = 64 };
    MPI_Request request[TAGS];
    int out[TAGS];
    for (int tag = 0; tag < TAGS; tag++) {
        out[tag] = rank * TAGS + tag;
        MPI_Isend(&out[tag], 1, MPI_INT, next, tag, MPI_COMM_WORLD, &request[tag]);
    }
    for (int tag = TAGS; tag-- > 0;) {
        MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK_EQUAL(value, previous * TAGS + tag);
    }
    MPI_Waitall(TAGS, request, MPI_STATUSES_IGNORE);
}

static void truncation(void)
{
    STORY("§3.2.4 a message longer than the buffer");
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    static const int length[] = {10, 5000, 300000};
    for (int i = 0; i < 3; i++) {
        unsigned char *out = memory(length[i]), *in = memory(length[i]);
        MPI_Request request;
        memset(in, 7, length[i]);
        fill(out, length[i], rank, i);
        MPI_Isend(out, length[i], MPI_BYTE, next, i, comm, &request);
        CHECK_CLASS(MPI_Recv(in, length[i] / 2, MPI_BYTE, previous, i, comm, MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE);
        size_t beyond = 0;
        for (int at = length[i] / 2; at < length[i]; at++)
            beyond += in[at] != 7;
        CHECK_EQUAL(beyond, 0);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        /* The next message is not disturbed. */
        int value = rank, got = -1;
        MPI_Sendrecv(&value, 1, MPI_INT, next, 9, &got, 1, MPI_INT, previous, 9, comm, MPI_STATUS_IGNORE);
        CHECK_EQUAL(got, previous);
        free(out);
        free(in);
    }
    MPI_Comm_free(&comm);
}

static void nobody(void)
{
    STORY("§3.10 MPI_PROC_NULL");
    MPI_Status status;
    MPI_Request request[2];
    int value = 5, count, flag;
    MPI_Send(&value, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD);
    MPI_Recv(&value, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, MPI_INT, &count);
    CHECK_EQUAL(status.MPI_SOURCE, MPI_PROC_NULL);
    CHECK_EQUAL(status.MPI_TAG, MPI_ANY_TAG);
    CHECK_EQUAL(count, 0);
    CHECK_EQUAL(value, 5);
    MPI_Isend(&value, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &request[0]);
    MPI_Irecv(&value, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &request[1]);
    MPI_Waitall(2, request, MPI_STATUSES_IGNORE);
    MPI_Iprobe(MPI_PROC_NULL, 3, MPI_COMM_WORLD, &flag, &status);
    CHECK(flag && status.MPI_SOURCE == MPI_PROC_NULL, "Iprobe: flag %d, source %d", flag, status.MPI_SOURCE);
    MPI_Sendrecv_replace(&value, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_PROC_NULL, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK_EQUAL(value, 5);
}

static void sendrecv(void)
{
    STORY("§3.2.7 Sendrecv and Sendrecv_replace");
    static const int length[] = {0, 1, 100, 4096, 70000};
    for (int i = 0; i < 5; i++) {
        unsigned char *out = memory(length[i]), *in = memory(length[i]);
        MPI_Status status;
        int count;
        fill(out, length[i], rank, i);
        MPI_Sendrecv(out, length[i], MPI_BYTE, next, i, in, length[i], MPI_BYTE, previous, i, MPI_COMM_WORLD, &status);
        MPI_Get_count(&status, MPI_BYTE, &count);
        CHECK_EQUAL(count, length[i]);
        CHECK_EQUAL(wrong_bytes(in, length[i], previous, i), 0);
        MPI_Sendrecv_replace(out, length[i], MPI_BYTE, next, i, previous, i, MPI_COMM_WORLD, &status);
        CHECK_EQUAL(wrong_bytes(out, length[i], previous, i), 0);
        CHECK_EQUAL(status.MPI_SOURCE, previous);
        free(out);
        free(in);
    }
    STORY("§3.2.7, §3.3.1 Sendrecv with another type on each side");
    int pairs[6] = {rank, -1, rank + 1, -1, rank + 2, -1}, got[3] = {-1, -1, -1};
    MPI_Datatype every_other;
    MPI_Type_vector(3, 1, 2, MPI_INT, &every_other);
    MPI_Type_commit(&every_other);
    MPI_Sendrecv(pairs, 1, every_other, next, 0, got, 3, MPI_INT, previous, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(got[0] == previous && got[1] == previous + 1 && got[2] == previous + 2, "got %d %d %d", got[0], got[1], got[2]);
    MPI_Type_free(&every_other);
}

static void self(void)
{
    STORY("§3.5 messages to oneself");
    static const int length[] = {0, 8, 5000, 1 << 20};
    for (int i = 0; i < 4; i++) {
        unsigned char *out = memory(length[i]), *in = memory(length[i]);
        MPI_Request request;
        fill(out, length[i], rank, i);
        MPI_Isend(out, length[i], MPI_BYTE, rank, i, MPI_COMM_WORLD, &request);
        MPI_Recv(in, length[i], MPI_BYTE, MPI_ANY_SOURCE, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        CHECK_EQUAL(wrong_bytes(in, length[i], rank, i), 0);
        memset(in, 0, length[i]);
        MPI_Irecv(in, length[i], MPI_BYTE, 0, i, MPI_COMM_SELF, &request);
        MPI_Ssend(out, length[i], MPI_BYTE, 0, i, MPI_COMM_SELF);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        CHECK_EQUAL(wrong_bytes(in, length[i], rank, i), 0);
        free(out);
        free(in);
    }
    /* A receive from any source must not get a message that a faster rank sends in the next story. */
    MPI_Barrier(MPI_COMM_WORLD);
}

static void synchronous_waits_for_the_receiver(void)
{
    STORY("§3.4 a synchronous send ends only after the receive began");
    if (ranks < 2 || rank > 1)
        return;
    int peer = 1 - rank, value = 1, flag = 1;
    if (rank == 0) {
        MPI_Request request;
        MPI_Issend(&value, 1, MPI_INT, peer, 1, MPI_COMM_WORLD, &request);
        for (int i = 0; i < 50; i++) {
            MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
            CHECK(!flag, "complete before the receive was posted");
            if (flag)
                break;
        }
        MPI_Send(&value, 1, MPI_INT, peer, 2, MPI_COMM_WORLD);
        if (!flag)
            MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(&value, 1, MPI_INT, peer, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Recv(&value, 1, MPI_INT, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

static void communicators_do_not_mix(void)
{
    STORY("§3.2.3 a message stays in its communicator");
    MPI_Comm other;
    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    MPI_Request request[2];
    int out[2] = {1, 2}, in[2] = {0, 0};
    MPI_Isend(&out[0], 1, MPI_INT, next, 3, MPI_COMM_WORLD, &request[0]);
    MPI_Isend(&out[1], 1, MPI_INT, next, 3, other, &request[1]);
    MPI_Recv(&in[1], 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, other, MPI_STATUS_IGNORE);
    MPI_Recv(&in[0], 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Waitall(2, request, MPI_STATUSES_IGNORE);
    CHECK(in[0] == 1 && in[1] == 2, "got %d and %d", in[0], in[1]);
    MPI_Comm_free(&other);
}

/* The room of a buffered send is free again once its receiver has the message, whether or not its sender has
 * made progress since. Even ranks send to the next one. `form`: 0 MPI_Bsend, 1 MPI_Ibsend, 2 a persistent
 * one. The buffer has room for one message. */
static void room_again(int form, int bytes, MPI_Comm comm)
{
    enum { TIMES = 10 };
    unsigned char *data = memory((size_t)bytes + 1);
    int room = bytes + MPI_BSEND_OVERHEAD, own = comm != MPI_COMM_WORLD, refused = 0;
    int sends = rank % 2 == 0 && rank + 1 < ranks, receives = rank % 2 == 1;
    void *buffer = memory((size_t)room), *detached;
    MPI_Request send = MPI_REQUEST_NULL;
    if (own)
        MPI_Comm_attach_buffer(comm, buffer, room);
    else
        MPI_Buffer_attach(buffer, room);
    if (form == 2)
        MPI_Bsend_init(data, bytes, MPI_BYTE, next, 3, comm, &send);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    for (int i = 0; i < TIMES; i++) {
        if (sends) {
            int code = form == 0   ? MPI_Bsend(data, bytes, MPI_BYTE, next, 3, comm)
                       : form == 1 ? MPI_Ibsend(data, bytes, MPI_BYTE, next, 3, comm, &send)
                                   : MPI_Start(&send);
            if (code != MPI_SUCCESS) {
                refused++;
                MPI_Send(data, bytes, MPI_BYTE, next, 3, comm);
            } else if (form > 0) {
                MPI_Wait(&send, MPI_STATUS_IGNORE);
            }
            /* The receiver is done before this process looks again: a faulty library would then probably
             * refuse; a right one never does. */
            usleep(2000);
        } else if (receives) {
            MPI_Recv(data, bytes, MPI_BYTE, previous, 3, comm, MPI_STATUS_IGNORE);
        }
        MPI_Barrier(comm);
    }
    CHECK(refused == 0, "%d of %d messages of %d bytes were refused, form %d, %s", refused, TIMES, bytes, form,
          own ? "buffer of the communicator" : "buffer of the process");
    /* More than all of the buffer is refused as ever. */
    if (!left_out("full-buffer"))
        CHECK_CLASS(MPI_Bsend(data, bytes + 1, MPI_BYTE, rank, 4, comm), MPI_ERR_BUFFER);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_ARE_FATAL);
    if (form == 2)
        MPI_Request_free(&send);
    if (own)
        MPI_Comm_detach_buffer(comm, &detached, &room);
    else
        MPI_Buffer_detach(&detached, &room);
    free(buffer);
    free(data);
}

static void buffers_have_room_again(void)
{
    STORY("§3.6 the room of a buffered message that has been received is free");
    static const int sizes[] = {8, 100000};
    MPI_Comm copy;
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    for (int form = 0; form < 3; form++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            room_again(form, sizes[i], MPI_COMM_WORLD);
            room_again(form, sizes[i], copy);
        }
    MPI_Comm_free(&copy);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    next = (rank + 1) % ranks;
    previous = (rank + ranks - 1) % ranks;
    neighbours_by_every_mode();
    blocking_modes();
    order_is_kept();
    wildcards();
    truncation();
    nobody();
    sendrecv();
    self();
    synchronous_waits_for_the_receiver();
    communicators_do_not_mix();
    buffers_have_room_again();
    return end();
}
