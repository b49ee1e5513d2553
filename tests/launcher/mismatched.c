/*
 * Messages whose two sides differ, and data of collectives among neighbours and between groups:
 * `mismatched WHAT`. With WEFT_CHECK=1 each is an error with one sentence. Without an argument the program is
 * right: partial receives, types of another shape with the same signature, bytes.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = 64 };

static int rank, ranks;
static int a[ROOM], b[ROOM];
static float f[ROOM];

static void fail(const char *what)
{
    fprintf(stderr, "rank %d: %s\n", rank, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void expect(int found, int wanted, const char *what)
{
    if (found != wanted) {
        fprintf(stderr, "rank %d: %s: %d instead of %d\n", rank, what, found, wanted);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

/* The communicator between ranks of even and of odd number. */
static MPI_Comm between(void)
{
    MPI_Comm half, both;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 3, &both);
    MPI_Comm_free(&half);
    return both;
}

static MPI_Comm ring(void)
{
    MPI_Comm grid;
    int period = 1;
    MPI_Cart_create(MPI_COMM_WORLD, 1, &ranks, &period, 0, &grid);
    return grid;
}

/* Messages from each rank to the next, in every form. */
static void right_messages(void)
{
    int next = (rank + 1) % ranks, last = (rank + ranks - 1) % ranks, count, flag = 0;
    MPI_Status status;
    MPI_Request request[4];
    MPI_Datatype every_other, mixed, mixed_front;
    MPI_Message message;
    int lengths[2] = {3, 1};
    MPI_Aint places[2] = {0, 16};
    MPI_Datatype types[2] = {MPI_INT, MPI_FLOAT};
    MPI_Type_vector(4, 1, 2, MPI_INT, &every_other);
    MPI_Type_commit(&every_other);
    MPI_Type_create_struct(2, lengths, places, types, &mixed);
    MPI_Type_commit(&mixed);
    lengths[0] = 2;
    MPI_Type_create_struct(1, lengths, places, types, &mixed_front);
    MPI_Type_commit(&mixed_front);
    for (int i = 0; i < ROOM; i++)
        a[i] = 100 * rank + i;
    /* Four integers as a vector of four; fewer than the receive expects; none at all. */
    MPI_Irecv(b, 1, every_other, last, 1, MPI_COMM_WORLD, request);
    MPI_Send(a, 4, MPI_INT, next, 1, MPI_COMM_WORLD);
    MPI_Wait(request, &status);
    expect(b[6], 100 * last + 3, "the last of a vector");
    MPI_Get_elements(&status, every_other, &count);
    expect(count, 4, "elements of a vector");
    MPI_Sendrecv(a, 3, MPI_INT, next, 2, b, ROOM, MPI_INT, last, 2, MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, MPI_INT, &count);
    expect(count, 3, "a message that is shorter than its receive");
    MPI_Sendrecv(NULL, 0, MPI_INT, next, 2, NULL, 0, MPI_FLOAT, last, 2, MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, MPI_INT, &count);
    expect(count, 0, "an empty message");
    /* The beginning of a structure: 3 ints, 1 float, 2 ints of the next. */
    MPI_Irecv(b, 3, mixed, last, 3, MPI_COMM_WORLD, request);
    MPI_Send(a, 1, mixed_front, next, 3, MPI_COMM_WORLD);
    MPI_Wait(request, &status);
    MPI_Irecv(b, 3, mixed, last, 3, MPI_COMM_WORLD, request);
    MPI_Send(a, 2, mixed, next, 3, MPI_COMM_WORLD);
    MPI_Wait(request, &status);
    MPI_Get_count(&status, mixed, &count);
    expect(count, 2, "structures");
    /* Bytes match any type. */
    MPI_Irecv(b, 8, MPI_BYTE, last, 4, MPI_COMM_WORLD, request);
    MPI_Send(a, 2, MPI_INT, next, 4, MPI_COMM_WORLD);
    MPI_Wait(request, MPI_STATUS_IGNORE);
    /* Probes see the program's bytes. */
    MPI_Isend(a, 5, MPI_INT, next, 5, MPI_COMM_WORLD, request);
    MPI_Isend(a, 6, MPI_INT, next, 6, MPI_COMM_WORLD, request + 1);
    MPI_Probe(last, 6, MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, MPI_INT, &count);
    expect(count, 6, "a probed message");
    MPI_Recv(b, count, MPI_INT, last, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Mprobe(last, MPI_ANY_TAG, MPI_COMM_WORLD, &message, &status);
    MPI_Get_count(&status, MPI_INT, &count);
    expect(count, 5, "a message that has been taken out");
    MPI_Mrecv(b, count, MPI_INT, &message, &status);
    expect(status.MPI_TAG, 5, "its tag");
    MPI_Waitall(2, request, MPI_STATUSES_IGNORE);
    /* Persistent, buffered, replacing, both in one, large. */
    MPI_Send_init(a, 7, MPI_INT, next, 7, MPI_COMM_WORLD, request);
    MPI_Recv_init(b, 9, MPI_INT, last, 7, MPI_COMM_WORLD, request + 1);
    for (int turn = 0; turn < 3; turn++) {
        a[0] = turn;
        MPI_Startall(2, request);
        MPI_Wait(request, MPI_STATUS_IGNORE);
        MPI_Wait(request + 1, &status);
        MPI_Get_count(&status, MPI_INT, &count);
        expect(count, 7, "a persistent receive");
        expect(b[0], turn, "what it has brought");
    }
    MPI_Request_free(request);
    MPI_Request_free(request + 1);
    int room = 8 * (int)sizeof(int) + MPI_BSEND_OVERHEAD, size;
    void *memory = malloc(room);
    MPI_Buffer_attach(memory, room);
    MPI_Bsend(a, 8, MPI_INT, next, 8, MPI_COMM_WORLD);
    MPI_Recv(b, 8, MPI_INT, last, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Buffer_detach(&memory, &size);
    free(memory);
    a[0] = rank;
    MPI_Sendrecv_replace(a, 2, MPI_INT, next, 9, last, 9, MPI_COMM_WORLD, &status);
    expect(a[0], last, "what has taken the place of what was sent");
    MPI_Isendrecv(a, 2, MPI_INT, next, 10, b, 3, MPI_INT, last, 10, MPI_COMM_WORLD, request);
    MPI_Isendrecv_replace(f, 2, MPI_FLOAT, next, 11, last, 11, MPI_COMM_WORLD, request + 1);
    while (!flag)
        MPI_Request_get_status(request[0], &flag, &status);
    MPI_Get_count(&status, MPI_INT, &count);
    expect(count, 2, "the status of a receive that is complete");
    MPI_Waitall(2, request, MPI_STATUSES_IGNORE);
    enum { LARGE = 3 << 20 };
    char *large = malloc(2 * LARGE);
    memset(large, rank + 1, LARGE);
    MPI_Irecv(large + LARGE, LARGE, MPI_CHAR, MPI_ANY_SOURCE, 12, MPI_COMM_WORLD, request);
    MPI_Issend(large, LARGE, MPI_CHAR, next, 12, MPI_COMM_WORLD, request + 1);
    MPI_Waitall(2, request, MPI_STATUSES_IGNORE);
    expect(large[2 * LARGE - 1], last + 1, "the end of a large message");
    free(large);
    /* From and to MPI_PROC_NULL, cancelled, freed. */
    MPI_Sendrecv(a, 2, MPI_INT, MPI_PROC_NULL, 1, b, 2, MPI_FLOAT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &status);
    expect(status.MPI_SOURCE, MPI_PROC_NULL, "the source of nothing");
    MPI_Irecv(b, 2, MPI_INT, last, 77, MPI_COMM_WORLD, request);
    MPI_Cancel(request);
    MPI_Wait(request, &status);
    MPI_Test_cancelled(&status, &flag);
    expect(flag, 1, "a receive that was cancelled");
    b[0] = -1;
    MPI_Irecv(b, 1, MPI_INT, last, 13, MPI_COMM_WORLD, request);
    MPI_Request_free(request);
    MPI_Send(a, 1, MPI_INT, next, 13, MPI_COMM_WORLD);
    MPI_Sendrecv(a, 1, MPI_INT, next, 14, b + 1, 1, MPI_INT, last, 14, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (b[0] == -1)
        fail("a receive that was freed has brought nothing");
    MPI_Type_free(&every_other);
    MPI_Type_free(&mixed);
    MPI_Type_free(&mixed_front);
}

/* Collectives among neighbours and between groups, and a partitioned message, all as they should be. */
static void right_collectives(void)
{
    MPI_Comm grid = ring(), both = between();
    int counts[2] = {1, 2}, places[2] = {0, 1}, back[2] = {2, 1}, backs[2] = {0, 2}, size, others[ROOM];
    MPI_Request request;
    MPI_Neighbor_allgather(a, 2, MPI_INT, b, 8, MPI_BYTE, grid);
    MPI_Neighbor_alltoallv(a, counts, places, MPI_INT, b, back, backs, MPI_INT, grid);
    MPI_Ineighbor_alltoall(a, 1, MPI_INT, b, 1, MPI_INT, grid, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Comm_remote_size(both, &size);
    int root = rank % 2 == 1 ? 0 : rank == 0 ? MPI_ROOT : MPI_PROC_NULL;
    MPI_Bcast(a, 3, MPI_INT, root, both);
    MPI_Gather(a, 2, MPI_INT, others, 2, MPI_INT, root, both);
    MPI_Reduce(a, b, 2, MPI_INT, MPI_SUM, root, both);
    MPI_Allgather(a, 1, MPI_INT, b, 1, MPI_INT, both);
    MPI_Allreduce(a, b, 2, MPI_INT, MPI_MAX, both);
    MPI_Ibarrier(both, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Ibcast(a, 3, MPI_INT, root, both, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Barrier(both);
    if (rank < 2) {
        if (rank == 0)
            MPI_Psend_init(a, 4, 2, MPI_INT, 1, 5, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
        else
            MPI_Precv_init(b, 2, 4, MPI_INT, 0, 5, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
        MPI_Start(&request);
        if (rank == 0)
            MPI_Pready_range(0, 3, request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Request_free(&request);
    }
    MPI_Comm_free(&grid);
    MPI_Comm_free(&both);
}

/* Rank 0 sends, rank 1 receives something else. */
static void wrong_message(const char *what)
{
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Status status;
    MPI_Datatype pair;
    int lengths[2] = {1, 1};
    MPI_Aint places[2] = {0, 4};
    MPI_Datatype types[2] = {MPI_INT, MPI_FLOAT};
    MPI_Type_create_struct(2, lengths, places, types, &pair);
    MPI_Type_commit(&pair);
    if (strcmp(what, "type") == 0) {
        if (rank == 0)
            MPI_Send(a, 4, MPI_INT, 1, 7, MPI_COMM_WORLD);
        else if (rank == 1)
            MPI_Recv(f, 4, MPI_FLOAT, 0, 7, MPI_COMM_WORLD, &status);
    } else if (strcmp(what, "nonblocking") == 0) {
        if (rank == 0)
            MPI_Isend(a, 2, MPI_INT, 1, 7, MPI_COMM_WORLD, &request);
        else if (rank == 1)
            MPI_Irecv(f, 20, MPI_FLOAT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &request);
        MPI_Waitall(1, &request, MPI_STATUSES_IGNORE);
    } else if (strcmp(what, "short") == 0) {
        if (rank == 0)
            MPI_Send(a, 4, MPI_INT, 1, 7, MPI_COMM_WORLD);
        else if (rank == 1)
            MPI_Recv(b, 2, MPI_INT, 0, 7, MPI_COMM_WORLD, &status);
    } else if (strcmp(what, "inside") == 0) {
        if (rank == 0)
            MPI_Send(a, 4, MPI_INT, 1, 7, MPI_COMM_WORLD);
        else if (rank == 1)
            MPI_Recv(b, 2, pair, 0, 7, MPI_COMM_WORLD, &status);
    } else if (strcmp(what, "persistent") == 0) {
        if (rank == 0)
            MPI_Send_init(a, 4, MPI_INT, 1, 7, MPI_COMM_WORLD, &request);
        else if (rank == 1)
            MPI_Recv_init(f, 4, MPI_FLOAT, 0, 7, MPI_COMM_WORLD, &request);
        if (rank < 2)
            MPI_Start(&request);
        MPI_Wait(&request, &status);
    } else if (strcmp(what, "taken-out") == 0) {
        MPI_Message message;
        if (rank == 0) {
            MPI_Send(a, 4, MPI_INT, 1, 7, MPI_COMM_WORLD);
        } else if (rank == 1) {
            MPI_Mprobe(0, 7, MPI_COMM_WORLD, &message, &status);
            MPI_Mrecv(f, 4, MPI_FLOAT, &message, &status);
        }
    } else if (strcmp(what, "sendrecv") == 0) {
        if (rank < 2)
            MPI_Sendrecv(a, 1, rank == 0 ? MPI_INT : MPI_FLOAT, 1 - rank, 7, b, 1, MPI_INT, 1 - rank, 7, MPI_COMM_WORLD,
                         &status);
    } else if (strcmp(what, "partitioned") == 0) {
        if (rank == 0)
            MPI_Psend_init(a, 4, 1, MPI_INT, 1, 5, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
        else if (rank == 1)
            MPI_Precv_init(f, 4, 1, MPI_FLOAT, 0, 5, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
        if (rank < 2)
            MPI_Start(&request);
        if (rank == 0)
            MPI_Pready_range(0, 3, request);
        MPI_Wait(&request, &status);
    }
    MPI_Type_free(&pair);
}

static void wrong_collective(const char *what)
{
    if (strcmp(what, "neighbours") == 0) {
        MPI_Comm grid = ring();
        MPI_Neighbor_alltoall(a, 2, MPI_INT, b, rank == 1 ? 3 : 2, MPI_INT, grid);
        return;
    }
    MPI_Comm both = between();
    int root = rank % 2 == 1 ? 0 : rank == 0 ? MPI_ROOT : MPI_PROC_NULL;
    if (strcmp(what, "between-count") == 0)
        MPI_Bcast(a, rank == 1 ? 3 : 2, MPI_INT, root, both);
    else if (strcmp(what, "between-root") == 0)
        MPI_Bcast(a, 2, MPI_INT, rank == 1 ? 1 : root, both);
    else if (strcmp(what, "between-nobody") == 0)
        MPI_Bcast(a, 2, MPI_INT, rank == 0 ? MPI_PROC_NULL : root, both);
    else if (strcmp(what, "between-call") == 0) {
        if (rank == 2)
            MPI_Barrier(both);
        else
            MPI_Bcast(a, 2, MPI_INT, root, both);
    } else if (strcmp(what, "between-gather") == 0)
        MPI_Gather(a, rank == 3 ? 1 : 2, MPI_INT, b, 2, MPI_INT, root, both);
    else if (strcmp(what, "between-alltoall") == 0)
        MPI_Alltoall(a, 2, rank == 0 ? MPI_FLOAT : MPI_INT, b, 2, MPI_INT, both);
    else if (strcmp(what, "between-operands") == 0)
        MPI_Allreduce(a, b, rank == 3 ? 1 : 2, MPI_INT, MPI_SUM, both);
    else if (strcmp(what, "between-op") == 0)
        MPI_Reduce(a, b, 2, MPI_INT, rank == 3 ? MPI_MAX : MPI_SUM, root, both);
}

/* The receiver hears of the mismatch, and goes on; the sender does not know. */
static void returned(void)
{
    MPI_Status status;
    int class, length, count;
    char sentence[MPI_MAX_ERROR_STRING];
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (rank == 0) {
        expect(MPI_Send(a, 4, MPI_INT, 1, 7, MPI_COMM_WORLD), MPI_SUCCESS, "what the sender gets");
        MPI_Send(a, 1, MPI_INT, 1, 8, MPI_COMM_WORLD);
    } else if (rank == 1) {
        int code = MPI_Recv(f, 4, MPI_FLOAT, 0, 7, MPI_COMM_WORLD, &status);
        MPI_Error_class(code, &class);
        expect(class, MPI_ERR_TYPE, "the class");
        MPI_Get_count(&status, MPI_INT, &count);
        expect(count, 4, "what the status counts");
        MPI_Error_string(code, sentence, &length);
        printf("%s\n", sentence);
        expect(MPI_Recv(b, 1, MPI_INT, 0, 8, MPI_COMM_WORLD, &status), MPI_SUCCESS, "the next message");
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (*what == '\0') {
        right_messages();
        right_collectives();
        if (rank == 0)
            printf("all right\n");
    } else if (strcmp(what, "returned") == 0) {
        returned();
    } else {
        if (strcmp(what, "neighbours") == 0 || strncmp(what, "between", 7) == 0)
            wrong_collective(what);
        else
            wrong_message(what);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
