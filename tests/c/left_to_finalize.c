/* Operations that the program has left to MPI are complete before a process leaves (MPI-5.0 §3.6, §3.7.3,
 * §11.2.2), whichever side comes to MPI_Finalize first. Every rank sends to the next one and receives from
 * the one before.
 *
 *   left_to_finalize OPERATION BYTES
 *
 * OPERATION: isend, issend, ibsend, bsend, persistent, irecv, any, recv_init, sendrecv, disconnect.
 * `unmatched-send` and `unmatched-receive` are operations that no process answers: MPI_Finalize reports them
 * and ends. */
#include "check.h"

enum { TAG = 7 };

static int is(const char *name, const char *other)
{
    return strcmp(name, other) == 0;
}

/* Says whether the receiver leaves its receive to MPI; otherwise the sender leaves its send. */
static int leaves_receive(const char *operation)
{
    return is(operation, "irecv") || is(operation, "any") || is(operation, "recv_init");
}

static void send_to(int next, const char *operation, unsigned char *out, int bytes)
{
    MPI_Request request;
    if (is(operation, "isend")) {
        MPI_Isend(out, bytes, MPI_BYTE, next, TAG, MPI_COMM_WORLD, &request);
        MPI_Request_free(&request);
    } else if (is(operation, "issend") || is(operation, "unmatched-send")) {
        MPI_Issend(out, bytes, MPI_BYTE, next, TAG, MPI_COMM_WORLD, &request);
        MPI_Request_free(&request);
    } else if (is(operation, "ibsend")) {
        MPI_Ibsend(out, bytes, MPI_BYTE, next, TAG, MPI_COMM_WORLD, &request);
        MPI_Request_free(&request);
    } else if (is(operation, "bsend")) {
        MPI_Bsend(out, bytes, MPI_BYTE, next, TAG, MPI_COMM_WORLD);
    } else if (is(operation, "persistent")) {
        MPI_Send_init(out, bytes, MPI_BYTE, next, TAG, MPI_COMM_WORLD, &request);
        MPI_Start(&request);
        MPI_Request_free(&request);
    } else if (is(operation, "disconnect")) {
        MPI_Comm copy;
        MPI_Comm_dup(MPI_COMM_WORLD, &copy);
        MPI_Isend(out, bytes, MPI_BYTE, next, TAG, copy, &request);
        MPI_Request_free(&request);
        MPI_Irecv(out, bytes, MPI_BYTE, (rank + ranks - 1) % ranks, TAG, copy, &request);
        MPI_Request_free(&request);
        MPI_Comm_disconnect(&copy);
    } else {
        MPI_Ssend(out, bytes, MPI_BYTE, next, TAG, MPI_COMM_WORLD);
    }
}

static void leave_receive(int before, const char *operation, unsigned char *in, int bytes)
{
    MPI_Request request;
    if (is(operation, "recv_init")) {
        MPI_Recv_init(in, bytes, MPI_BYTE, before, TAG, MPI_COMM_WORLD, &request);
        MPI_Start(&request);
    } else {
        int any = is(operation, "any");
        MPI_Irecv(in, bytes, MPI_BYTE, any ? MPI_ANY_SOURCE : before, any ? MPI_ANY_TAG : TAG, MPI_COMM_WORLD, &request);
    }
    MPI_Request_free(&request);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    const char *operation = argc > 1 ? argv[1] : "irecv";
    int bytes = argc > 2 ? atoi(argv[2]) : 40000, next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    unsigned char *out = memory((size_t)bytes), *in = memory((size_t)bytes);
    STORY(operation);
    fill(out, (size_t)bytes, rank, TAG);
    MPI_Buffer_attach(memory((size_t)bytes + MPI_BSEND_OVERHEAD), bytes + MPI_BSEND_OVERHEAD);
    /* The last rank is late, so that some are in MPI_Finalize while others have not begun. */
    int is_late = rank == ranks - 1;
    if (leaves_receive(operation)) {
        leave_receive(before, operation, in, bytes);
        MPI_Barrier(MPI_COMM_WORLD);
        if (is_late)
            usleep(200000);
        /* Only even ranks leave their operation, and the next ones wait for them: a sender that waits must
         * not be told that its receiver has left. */
        MPI_Send(out, bytes, MPI_BYTE, next, TAG, MPI_COMM_WORLD);
    } else if (is(operation, "unmatched-receive")) {
        leave_receive(before, operation, in, bytes);
    } else if (is(operation, "unmatched-send") || is(operation, "disconnect")) {
        send_to(next, operation, out, bytes);
    } else {
        send_to(next, operation, out, bytes);
        if (is_late)
            usleep(200000);
        MPI_Recv(in, bytes, MPI_BYTE, before, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    int code = end();
    int unmatched = strncmp(operation, "unmatched", 9) == 0;
    if (!unmatched && !is(operation, "disconnect") && wrong_bytes(in, (size_t)bytes, before, TAG) > 0) {
        fprintf(stderr, "rank %d: %s of %d bytes was not complete when MPI_Finalize returned\n", rank, operation, bytes);
        code = 1;
    }
    return code;
}
