/* Probe, Iprobe, Mprobe, Improbe, Mrecv, Imrecv. */
#include "check.h"

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;

    STORY("§3.8.1 probe tells source, tag and length");
    static const int length[] = {0, 1, 17, 5000, 200000};
    for (int i = 0; i < 5; i++) {
        unsigned char *out = memory(length[i]), *in;
        MPI_Request request;
        MPI_Status status;
        int count;
        fill(out, length[i], rank, i);
        MPI_Isend(out, length[i], MPI_BYTE, next, 20 + i, MPI_COMM_WORLD, &request);
        MPI_Probe(i % 2 ? MPI_ANY_SOURCE : previous, i % 3 ? MPI_ANY_TAG : 20 + i, MPI_COMM_WORLD, &status);
        MPI_Get_count(&status, MPI_BYTE, &count);
        CHECK_EQUAL(status.MPI_SOURCE, previous);
        CHECK_EQUAL(status.MPI_TAG, 20 + i);
        CHECK_EQUAL(count, length[i]);
        in = memory(count);
        MPI_Recv(in, count, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK_EQUAL(wrong_bytes(in, count, previous, i), 0);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        free(out);
        free(in);
    }

    STORY("§3.8.1 Iprobe finds nothing where nothing is, and what comes in the end");
    int flag = 1, value = rank, got = -1;
    MPI_Status status;
    MPI_Iprobe(MPI_ANY_SOURCE, 99, MPI_COMM_WORLD, &flag, &status);
    CHECK(!flag, "found a message nobody sent");
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Request request;
    MPI_Isend(&value, 1, MPI_INT, next, 30, MPI_COMM_WORLD, &request);
    for (flag = 0; !flag;)
        MPI_Iprobe(previous, 30, MPI_COMM_WORLD, &flag, &status);
    MPI_Recv(&got, 1, MPI_INT, previous, 30, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK_EQUAL(got, previous);
    MPI_Wait(&request, MPI_STATUS_IGNORE);

    STORY("§3.8.2 a matched message is taken out of the queue");
    int out[2] = {100 + rank, 200 + rank}, in[2] = {-1, -1};
    MPI_Request requests[2];
    MPI_Isend(&out[0], 1, MPI_INT, next, 40, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(&out[1], 1, MPI_INT, next, 40, MPI_COMM_WORLD, &requests[1]);
    MPI_Message message;
    MPI_Mprobe(previous, 40, MPI_COMM_WORLD, &message, &status);
    MPI_Recv(&in[1], 1, MPI_INT, previous, 40, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Mrecv(&in[0], 1, MPI_INT, &message, &status);
    CHECK(message == MPI_MESSAGE_NULL, "the message handle is not null after Mrecv");
    CHECK(in[0] == 100 + previous && in[1] == 200 + previous, "got %d and %d", in[0], in[1]);
    CHECK_EQUAL(status.MPI_SOURCE, previous);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);

    STORY("§3.8.2 Improbe in vain leaves the message as it was");
    message = MPI_MESSAGE_NULL;
    MPI_Improbe(MPI_ANY_SOURCE, 99, MPI_COMM_WORLD, &flag, &message, &status);
    CHECK(!flag && message == MPI_MESSAGE_NULL, "a message that nobody sent");

    STORY("§3.8.2, §3.8.3 Improbe and Imrecv of a long message");
    enum { LONG = 400000 };
    unsigned char *bytes = memory(LONG), *received = memory(LONG);
    fill(bytes, LONG, rank, 1);
    MPI_Isend(bytes, LONG, MPI_BYTE, next, 41, MPI_COMM_WORLD, &requests[0]);
    for (flag = 0; !flag;)
        MPI_Improbe(MPI_ANY_SOURCE, 41, MPI_COMM_WORLD, &flag, &message, &status);
    int count;
    MPI_Get_count(&status, MPI_BYTE, &count);
    CHECK_EQUAL(count, LONG);
    MPI_Imrecv(received, LONG, MPI_BYTE, &message, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    CHECK_EQUAL(wrong_bytes(received, LONG, previous, 1), 0);
    free(bytes);
    free(received);

    STORY("§3.8.3, §3.10 no message from nobody");
    MPI_Mprobe(MPI_PROC_NULL, 0, MPI_COMM_WORLD, &message, &status);
    CHECK(message == MPI_MESSAGE_NO_PROC, "not MPI_MESSAGE_NO_PROC");
    MPI_Mrecv(&value, 1, MPI_INT, &message, &status);
    CHECK_EQUAL(status.MPI_SOURCE, MPI_PROC_NULL);
    CHECK(message == MPI_MESSAGE_NULL, "not MPI_MESSAGE_NULL");
    return end();
}
