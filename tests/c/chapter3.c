/* Corners of point-to-point communication, by section of MPI-5.0 chapter 3: rules on which programs rely and
 * which they seldom test. */
#include "check.h"

static MPI_Comm comm;
static int next, before;

enum { CANARY = 0x5ca1ab1e };

/* §3.2.5, §3.7.3, §3.10: the fields of a status that are set, and those that are left alone. */
static void statuses(void)
{
    STORY("3.2.5: calls that complete one operation leave MPI_ERROR alone");
    int value = rank, got = -1, flag = 0, count = -1, index = -1;
    MPI_Status status;
    MPI_Request request, pair[2];
    status.MPI_ERROR = CANARY;
    MPI_Sendrecv(&value, 1, MPI_INT, next, 3, &got, 1, MPI_INT, before, 3, comm, &status);
    CHECK(status.MPI_SOURCE == before && status.MPI_TAG == 3, "%d %d", status.MPI_SOURCE, status.MPI_TAG);
    CHECK_EQUAL(status.MPI_ERROR, CANARY);
    MPI_Get_count(&status, MPI_INT, &count);
    CHECK_EQUAL(count, 1);
    MPI_Get_count(&status, MPI_DOUBLE, &count); /* no whole number of them */
    CHECK_EQUAL(count, MPI_UNDEFINED);

    STORY("3.7.3: the empty status of a null request");
    request = MPI_REQUEST_NULL;
    memset(&status, 0x33, sizeof status);
    MPI_Wait(&request, &status);
    CHECK(status.MPI_SOURCE == MPI_ANY_SOURCE && status.MPI_TAG == MPI_ANY_TAG && status.MPI_ERROR == MPI_SUCCESS,
          "%d %d %d", status.MPI_SOURCE, status.MPI_TAG, status.MPI_ERROR);
    MPI_Get_count(&status, MPI_INT, &count);
    CHECK_EQUAL(count, 0);
    MPI_Test_cancelled(&status, &flag);
    CHECK_EQUAL(flag, 0);
    memset(&status, 0x33, sizeof status);
    MPI_Waitany(1, &request, &index, &status);
    CHECK_EQUAL(index, MPI_UNDEFINED);
    CHECK_EQUAL(status.MPI_SOURCE, MPI_ANY_SOURCE);
    memset(&status, 0x33, sizeof status);
    MPI_Testall(1, &request, &flag, &status);
    CHECK(flag && status.MPI_TAG == MPI_ANY_TAG && status.MPI_ERROR == MPI_SUCCESS, "%d %d", flag, status.MPI_TAG);

    STORY("3.9: that of an inactive request");
    MPI_Recv_init(&got, 1, MPI_INT, before, 4, comm, &request);
    memset(&status, 0x33, sizeof status);
    MPI_Wait(&request, &status);
    CHECK(status.MPI_SOURCE == MPI_ANY_SOURCE && status.MPI_TAG == MPI_ANY_TAG, "%d", status.MPI_SOURCE);
    CHECK(request != MPI_REQUEST_NULL, "an inactive request is not null");
    MPI_Request_free(&request);

    STORY("3.10: MPI_PROC_NULL");
    status.MPI_ERROR = CANARY;
    MPI_Recv(&got, 1, MPI_INT, MPI_PROC_NULL, 5, comm, &status);
    CHECK(status.MPI_SOURCE == MPI_PROC_NULL && status.MPI_TAG == MPI_ANY_TAG, "%d %d", status.MPI_SOURCE, status.MPI_TAG);
    MPI_Get_count(&status, MPI_INT, &count);
    CHECK_EQUAL(count, 0);
    memset(&status, 0x33, sizeof status);
    MPI_Probe(MPI_PROC_NULL, 5, comm, &status);
    CHECK_EQUAL(status.MPI_SOURCE, MPI_PROC_NULL);
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Mprobe(MPI_PROC_NULL, 5, comm, &message, &status);
    CHECK(message == MPI_MESSAGE_NO_PROC, "not MPI_MESSAGE_NO_PROC");
    MPI_Mrecv(&got, 1, MPI_INT, &message, &status);
    CHECK(message == MPI_MESSAGE_NULL && status.MPI_SOURCE == MPI_PROC_NULL, "%d", status.MPI_SOURCE);

    STORY("3.7.5: a send's status says whether it was cancelled, and calls for several set MPI_ERROR");
    MPI_Irecv(&got, 1, MPI_INT, before, 6, comm, &pair[0]);
    MPI_Isend(&value, 1, MPI_INT, next, 6, comm, &pair[1]);
    MPI_Status both[2];
    memset(both, 0x33, sizeof both);
    CHECK_EQUAL(MPI_Waitall(2, pair, both), MPI_SUCCESS);
    MPI_Test_cancelled(&both[1], &flag);
    CHECK_EQUAL(flag, 0);

    STORY("3.2.6: MPI_STATUS_IGNORE wherever there is a status");
    MPI_Irecv(&got, 1, MPI_INT, before, 7, comm, &pair[0]);
    MPI_Isend(&value, 1, MPI_INT, next, 7, comm, &pair[1]);
    for (flag = 0; !flag;)
        MPI_Request_get_status(pair[0], &flag, MPI_STATUS_IGNORE);
    MPI_Waitall(2, pair, MPI_STATUSES_IGNORE);

    STORY("3.7.3: MPI_Request_get_status leaves the request as it is");
    MPI_Irecv(&got, 1, MPI_INT, before, 8, comm, &request);
    MPI_Send(&value, 1, MPI_INT, next, 8, comm);
    for (flag = 0; !flag;)
        MPI_Request_get_status(request, &flag, &status);
    CHECK(request != MPI_REQUEST_NULL && status.MPI_SOURCE == before, "%d", status.MPI_SOURCE);
    MPI_Wait(&request, &status);
    CHECK(request == MPI_REQUEST_NULL && status.MPI_TAG == 8, "%d", status.MPI_TAG);
}

/* §3.6: all forms of buffered sends complete before any receive is posted, and MPI_Buffer_detach waits for
 * the messages that have been sent. */
static void buffered(void)
{
    STORY("3.6: buffered sends before any receive");
    enum { BYTES = 20000, FORMS = 3, ROUNDS = 4 };
    int room = FORMS * ROUNDS * (BYTES + MPI_BSEND_OVERHEAD), size, packed;
    unsigned char *pool = memory((size_t)room), *out = memory(BYTES), *in = memory(BYTES);
    void *found;
    MPI_Pack_size(BYTES, MPI_BYTE, comm, &packed);
    CHECK(packed >= BYTES, "%d", packed);
    MPI_Buffer_attach(pool, room);
    MPI_Request persistent, request;
    MPI_Bsend_init(out, BYTES, MPI_BYTE, next, 12, comm, &persistent);
    for (int round = 0; round < ROUNDS; round++) {
        fill(out, BYTES, rank, 10 + round);
        MPI_Bsend(out, BYTES, MPI_BYTE, next, 10, comm);
        MPI_Ibsend(out, BYTES, MPI_BYTE, next, 11, comm, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Start(&persistent);
        MPI_Wait(&persistent, MPI_STATUS_IGNORE);
        memset(out, 0, BYTES); /* the program's again */
    }
    MPI_Barrier(comm);
    for (int tag = 12; tag >= 10; tag--)
        for (int round = 0; round < ROUNDS; round++) {
            MPI_Recv(in, BYTES, MPI_BYTE, before, tag, comm, MPI_STATUS_IGNORE);
            CHECK_EQUAL(wrong_bytes(in, BYTES, before, 10 + round), 0);
        }
    MPI_Request_free(&persistent);
    MPI_Buffer_detach(&found, &size);
    CHECK(found == pool && size == room, "%d bytes of %d", size, room);

    STORY("3.6: MPI_Buffer_detach waits until what was sent is out of the buffer");
    MPI_Buffer_attach(pool, room);
    fill(out, BYTES, rank, 20);
    MPI_Irecv(in, BYTES, MPI_BYTE, before, 13, comm, &request);
    MPI_Bsend(out, BYTES, MPI_BYTE, next, 13, comm);
    MPI_Buffer_detach(&found, &size);
    memset(pool, 0, (size_t)room);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK_EQUAL(wrong_bytes(in, BYTES, before, 20), 0);
    free(pool);
    free(out);
    free(in);
}

/* §3.8.4: a wait for a cancelled operation returns whatever other processes do: here the receiver asks for
 * another message, which comes only after that wait. Either the operation is cancelled, and its message never
 * arrives, or it is not, and the message arrives. */
static void cancelled(void)
{
    STORY("3.8.4: a send that has left is cancelled, or not, without its receive");
    if (ranks < 2 || rank > 1)
        return;
    static const int sizes[] = {0, 8, 3000, 20000, 100000, 1000000};
    enum { SIZES = sizeof sizes / sizeof *sizes, KINDS = 3 };
    unsigned char *buffer = memory(1000000), *in = memory(1000000);
    for (int kind = 0; kind < KINDS; kind++)
        for (int i = 0; i < SIZES; i++) {
            int tag = kind * SIZES + i, gone = 0;
            if (rank == 0) {
                MPI_Request request;
                MPI_Status status;
                fill(buffer, (size_t)sizes[i], 0, tag);
                switch (kind) {
                case 0:
                    MPI_Issend(buffer, sizes[i], MPI_BYTE, 1, tag, comm, &request);
                    break;
                case 1:
                    MPI_Isend(buffer, sizes[i], MPI_BYTE, 1, tag, comm, &request);
                    break;
                default:
                    MPI_Ssend_init(buffer, sizes[i], MPI_BYTE, 1, tag, comm, &request);
                    MPI_Start(&request);
                }
                /* Time for the message to leave: in some turns it is on its way then, in others it is not. */
                int flag;
                for (int look = 0; look < 20 * (i % 2); look++)
                    MPI_Iprobe(1, 999, comm, &flag, MPI_STATUS_IGNORE);
                MPI_Cancel(&request);
                MPI_Wait(&request, &status);
                MPI_Test_cancelled(&status, &gone);
                if (kind == 2)
                    MPI_Request_free(&request);
                if (kind != 1)
                    CHECK(gone, "a synchronous send of %d bytes without a receive was complete", sizes[i]);
                MPI_Send(&gone, 1, MPI_INT, 1, 900, comm);
                MPI_Send(&tag, 1, MPI_INT, 1, tag, comm); /* the next message of that tag */
            } else {
                MPI_Recv(&gone, 1, MPI_INT, 0, 900, comm, MPI_STATUS_IGNORE);
                if (!gone) {
                    MPI_Recv(in, 1000000, MPI_BYTE, 0, tag, comm, MPI_STATUS_IGNORE);
                    CHECK_EQUAL(wrong_bytes(in, (size_t)sizes[i], 0, tag), 0);
                }
                int after = -1;
                MPI_Recv(&after, 1, MPI_INT, 0, tag, comm, MPI_STATUS_IGNORE);
                CHECK_EQUAL(after, tag);
            }
        }
    free(buffer);
    free(in);
}

/* §3.5: messages do not overtake each other, whatever their lengths and modes, also for receives with
 * wildcards. */
static void order(void)
{
    STORY("3.5: order");
    enum { MESSAGES = 60, LENGTH_MAX = 70000 };
    unsigned char *in = memory(LENGTH_MAX), *out = memory(MESSAGES * (size_t)LENGTH_MAX);
    MPI_Request requests[MESSAGES];
    for (int i = 0; i < MESSAGES; i++) {
        int length = (i * 7919) % (i % 5 == 0 ? LENGTH_MAX : 200);
        unsigned char *message = out + i * (size_t)LENGTH_MAX;
        fill(message, (size_t)length, rank, i);
        if (i % 3 == 0)
            MPI_Issend(message, length, MPI_BYTE, next, 30 + i % 2, comm, &requests[i]);
        else
            MPI_Isend(message, length, MPI_BYTE, next, 30 + i % 2, comm, &requests[i]);
    }
    for (int i = 0; i < MESSAGES; i++) {
        MPI_Status status;
        int length;
        MPI_Recv(in, LENGTH_MAX, MPI_BYTE, i % 4 ? MPI_ANY_SOURCE : before, i % 3 ? MPI_ANY_TAG : 30 + i % 2, comm, &status);
        MPI_Get_count(&status, MPI_BYTE, &length);
        CHECK_EQUAL(length, (i * 7919) % (i % 5 == 0 ? LENGTH_MAX : 200));
        CHECK_EQUAL(wrong_bytes(in, (size_t)length, before, i), 0);
    }
    MPI_Waitall(MESSAGES, requests, MPI_STATUSES_IGNORE);
    free(in);
    free(out);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    next = (rank + 1) % ranks;
    before = (rank + ranks - 1) % ranks;
    statuses();
    buffered();
    order();
    if (!left_out("cancel"))
        cancelled();
    MPI_Comm_free(&comm);
    return end();
}
