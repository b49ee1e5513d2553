/* Wrong calls: each must return an error of the class that the standard asks for, and leave everything as it
 * was: no crash, no wait, and communication goes on afterwards. Most calls are made from the standard's
 * tables (misuse_calls.h); the rest is here. Calls are made on a communicator of this process alone, so that
 * none of them depends on others.
 *
 * Mistakes that only a careful library finds, such as handles of freed objects, are tested on Weft only. */
#include "check.h"
#include <limits.h>

static MPI_Comm comm, freed_comm;
static MPI_Datatype freed_type, uncommitted, null_type = MPI_DATATYPE_NULL, new_type;
static MPI_Datatype doubles[4], null_types[4];
static MPI_Info freed_info;
static MPI_Op null_op = MPI_OP_NULL, own_op;
static MPI_Message message, null_message = MPI_MESSAGE_NULL;
static MPI_Request request;
static double in[8], out[8], exposed[8];
static int ones[4] = {1, 1, 1, 1}, zeros[4], negative[4] = {-1, 1, 1, 1}, number;
static MPI_Count ones_c[4] = {1, 1, 1, 1}, zeros_c[4], negative_c[4] = {-1, 1, 1, 1}, wide;
static MPI_Aint zeros_a[4], address;
/* Two addresses are never so far apart, and memory is never so large. */
static MPI_Aint far_a[4] = {INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX};
static MPI_Count far_c[4] = {INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX};
/* Times the size of a double this is 8 in 64 bits. */
static const MPI_Count wraps = ((MPI_Count)1 << 61) + 1;
static MPI_Count wrapping_c[4] = {((MPI_Count)1 << 61) + 1, 1, 1, 1};

/* The objects for procedures that manage objects. */
static MPI_Comm cart, graph, dist_graph, null_comm = MPI_COMM_NULL, new_comm;
static MPI_Group group, freed_group, null_group = MPI_GROUP_NULL, new_group;
static MPI_Info info, null_info = MPI_INFO_NULL, new_info;
static MPI_Errhandler freed_handler, null_handler = MPI_ERRHANDLER_NULL, new_handler;
static MPI_Session session, freed_session, null_session = MPI_SESSION_NULL, new_session;
static MPI_Win win, locked_win, dynamic_win, freed_win, null_win = MPI_WIN_NULL, new_win;
static MPI_Status status;
static int keyval, type_keyval, win_keyval, freed_keyval, null_keyval = MPI_KEYVAL_INVALID;
static int ranges[1][3] = {{0, 0, 1}}, far_ranges[1][3] = {{0, 9, 1}}, far[4] = {9, 9, 9, 9}, dims[4], numbers[8];
static void *found;
static char text[MPI_MAX_LIBRARY_VERSION_STRING], long_text[2 * MPI_MAX_INFO_VAL];
static int room = MPI_MAX_PSET_NAME_LEN, no_room = -2;

static int calls, is_careful;

static void judge(const char *call, int code, int expected, const char *name)
{
    int class = -1, length = 0;
    char text[MPI_MAX_ERROR_STRING] = "";
    calls++;
    number = 0;
    MPI_Error_class(code, &class);
    MPI_Error_string(code, text, &length);
    CHECK(class == expected, "%s gave class %d (%s), expected %s = %d", call, class, text, name, expected);
    if (is_careful && class == expected) {
        /* The whole sentence: the procedure, and the fault. */
        char procedure[100];
        snprintf(procedure, sizeof procedure, "%.*s: ", (int)strcspn(call, "("), call);
        CHECK(strstr(text, name) && strstr(text, procedure), "%s is explained by \"%s\"", call, text);
    }
    if (request != MPI_REQUEST_NULL) {
        CHECK(class != expected, "%s set its request", call);
        request = MPI_REQUEST_NULL;
    }
}

#define REFUSED(expected, call) (story = #call, judge(#call, (call), expected, #expected))
#define REFUSED_HERE(expected, call)                                                                                   \
    (is_careful ? (story = #call, judge(#call, (call), expected, #expected)) : (void)0)

static int handled_on_comm, handled_on_self;

static void on_comm(MPI_Comm *which, int *code, ...)
{
    (void)which, (void)code;
    handled_on_comm++;
}

static void on_win(MPI_Win *which, int *code, ...)
{
    (void)which, (void)code;
}

static void keep_first(void *from, void *to, int *count, MPI_Datatype *type)
{
    (void)from, (void)to, (void)count, (void)type;
}

#include "misuse_calls.h"

static void misuse_of_requests(void)
{
    int flag, index, value = 0;
    MPI_Request active, stale, null = MPI_REQUEST_NULL;
    REFUSED(MPI_ERR_REQUEST, MPI_Start(&null));
    REFUSED(MPI_ERR_REQUEST, MPI_Cancel(&null));
    REFUSED(MPI_ERR_REQUEST, MPI_Request_free(&null));
    REFUSED(MPI_ERR_ARG, MPI_Wait(NULL, MPI_STATUS_IGNORE));
    REFUSED(MPI_ERR_ARG, MPI_Test(&null, NULL, MPI_STATUS_IGNORE));
    REFUSED(MPI_ERR_ARG, MPI_Waitall(1, NULL, MPI_STATUSES_IGNORE));
    REFUSED(MPI_ERR_ARG, MPI_Waitall(-1, &null, MPI_STATUSES_IGNORE));
    REFUSED(MPI_ERR_ARG, MPI_Waitany(1, NULL, &index, MPI_STATUS_IGNORE));
    REFUSED(MPI_ERR_ARG, MPI_Waitany(1, &null, NULL, MPI_STATUS_IGNORE));
    REFUSED(MPI_ERR_ARG, MPI_Testall(1, &null, NULL, MPI_STATUSES_IGNORE));
    REFUSED(MPI_ERR_ARG, MPI_Startall(-2, &null));

    MPI_Irecv(&value, 1, MPI_INT, 0, 1, comm, &active);
    REFUSED(MPI_ERR_REQUEST, MPI_Start(&active)); /* §3.9: not persistent */
    REFUSED_HERE(MPI_ERR_REQUEST, MPI_Pready(0, active));
    REFUSED_HERE(MPI_ERR_REQUEST, MPI_Parrived(active, 0, &flag));
    stale = active;
    MPI_Cancel(&active);
    MPI_Wait(&active, MPI_STATUS_IGNORE);
    REFUSED_HERE(MPI_ERR_REQUEST, MPI_Wait(&stale, MPI_STATUS_IGNORE));
    REFUSED_HERE(MPI_ERR_REQUEST, MPI_Test(&stale, &flag, MPI_STATUS_IGNORE));
    REFUSED_HERE(MPI_ERR_REQUEST, MPI_Cancel(&stale));
    REFUSED_HERE(MPI_ERR_REQUEST, MPI_Request_free(&stale));
    REFUSED_HERE(MPI_ERR_REQUEST, MPI_Waitall(1, &stale, MPI_STATUSES_IGNORE));
    REFUSED_HERE(MPI_ERR_REQUEST, MPI_Waitany(1, &stale, &index, MPI_STATUS_IGNORE));
    REFUSED_HERE(MPI_ERR_REQUEST, MPI_Request_get_status(stale, &flag, MPI_STATUS_IGNORE));
    REFUSED_HERE(MPI_ERR_REQUEST, MPI_Parrived(stale, 0, &flag));

    MPI_Recv_init(&value, 1, MPI_INT, 0, 1, comm, &active);
    REFUSED(MPI_ERR_REQUEST, MPI_Cancel(&active)); /* §3.8.4: inactive */
    MPI_Start(&active);
    REFUSED(MPI_ERR_REQUEST, MPI_Start(&active)); /* §3.9: active already */
    MPI_Cancel(&active);
    MPI_Wait(&active, MPI_STATUS_IGNORE);
    MPI_Request_free(&active);
}

/* §6.12: requests of collectives can be neither cancelled nor freed; but §3.7.6: once MPI_Request_get_status
 * has said that they are complete, they can be freed, as well as tested or waited for. */
static void misuse_of_collective_requests(void)
{
    MPI_Request collective;
    int value = 3, sum = 0, place = rank;
    MPI_Comm world;
    MPI_Comm_dup(MPI_COMM_WORLD, &world);
    MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
    MPI_Iallreduce(&value, &sum, 1, MPI_INT, MPI_SUM, comm, &collective);
    REFUSED_HERE(MPI_ERR_REQUEST, MPI_Cancel(&collective));
    REFUSED_HERE(MPI_ERR_REQUEST, MPI_Request_free(&collective));
    MPI_Wait(&collective, MPI_STATUS_IGNORE);
    CHECK_EQUAL(sum, 3);
    if (rank == 0)
        usleep(1000);
    MPI_Ibcast(&place, 1, MPI_INT, 0, world, &collective);
    REFUSED_HERE(MPI_ERR_REQUEST, MPI_Cancel(&collective));
    REFUSED_HERE(MPI_ERR_REQUEST, MPI_Request_free(&collective));
    MPI_Wait(&collective, MPI_STATUS_IGNORE);
    CHECK_EQUAL(place, 0);
    /* §6.13: the same rules hold for persistent ones while they are active. */
    MPI_Barrier_init(world, MPI_INFO_NULL, &collective);
    MPI_Start(&collective);
    REFUSED_HERE(MPI_ERR_REQUEST, MPI_Cancel(&collective));
    REFUSED_HERE(MPI_ERR_REQUEST, MPI_Request_free(&collective));
    MPI_Wait(&collective, MPI_STATUS_IGNORE);
    CHECK_EQUAL(MPI_Request_free(&collective), MPI_SUCCESS);
    for (int form = 0; form < 3; form++) {
        int complete = 0, index, indices[1];
        MPI_Status status;
        if (form == 2) {
            MPI_Iallreduce(&value, &sum, 1, MPI_INT, MPI_MAX, world, &collective);
        } else {
            MPI_Barrier_init(world, MPI_INFO_NULL, &collective);
            MPI_Start(&collective);
        }
        REFUSED_HERE(MPI_ERR_REQUEST, MPI_Request_free(&collective));
        while (!complete) {
            if (form == 0)
                MPI_Request_get_status(collective, &complete, MPI_STATUS_IGNORE);
            else if (form == 1)
                MPI_Request_get_status_all(1, &collective, &complete, &status);
            else if (rank % 2)
                MPI_Request_get_status_any(1, &collective, &index, &complete, &status);
            else
                MPI_Request_get_status_some(1, &collective, &complete, indices, &status);
        }
        REFUSED_HERE(MPI_ERR_REQUEST, MPI_Cancel(&collective));
        if (form == 1) {
            /* The next run of it is another operation. */
            MPI_Wait(&collective, MPI_STATUS_IGNORE);
            MPI_Start(&collective);
            REFUSED_HERE(MPI_ERR_REQUEST, MPI_Request_free(&collective));
            MPI_Wait(&collective, MPI_STATUS_IGNORE);
        }
        CHECK_EQUAL(MPI_Request_free(&collective), MPI_SUCCESS);
        CHECK(collective == MPI_REQUEST_NULL, "the handle is left");
    }
    MPI_Comm_free(&world);
}

/* §4.2: mistakes with partitions. */
static void misuse_of_partitions(void)
{
    int flag, lists[2][2] = {{1, 1}, {0, 9}};
    MPI_Request send, receive;
    MPI_Psend_init(out, 4, 1, MPI_DOUBLE, 0, 1, comm, MPI_INFO_NULL, &send);
    MPI_Precv_init(in, 4, 1, MPI_DOUBLE, 0, 1, comm, MPI_INFO_NULL, &receive);
    REFUSED_HERE(MPI_ERR_REQUEST, MPI_Pready(0, MPI_REQUEST_NULL));
    REFUSED_HERE(MPI_ERR_REQUEST, MPI_Pready(0, send)); /* not started */
    REFUSED_HERE(MPI_ERR_REQUEST, MPI_Pready(0, receive));
    REFUSED_HERE(MPI_ERR_REQUEST, MPI_Parrived(send, 0, &flag));
    REFUSED_HERE(MPI_ERR_ARG, MPI_Parrived(receive, 0, NULL));
    MPI_Start(&send);
    MPI_Start(&receive);
    REFUSED_HERE(MPI_ERR_REQUEST, MPI_Start(&send));
    REFUSED_HERE(MPI_ERR_REQUEST, MPI_Pready(0, receive));
    REFUSED_HERE(MPI_ERR_ARG, MPI_Pready(4, send));
    REFUSED_HERE(MPI_ERR_ARG, MPI_Pready(-1, send));
    REFUSED_HERE(MPI_ERR_ARG, MPI_Pready_range(1, 4, send));
    REFUSED_HERE(MPI_ERR_ARG, MPI_Pready_range(-1, 2, send));
    REFUSED_HERE(MPI_ERR_ARG, MPI_Pready_range(2, 1, send));
    REFUSED_HERE(MPI_ERR_ARG, MPI_Pready_list(2, lists[0], send)); /* one of them twice */
    REFUSED_HERE(MPI_ERR_ARG, MPI_Pready_list(2, lists[1], send));
    REFUSED_HERE(MPI_ERR_ARG, MPI_Pready_list(2, NULL, send));
    REFUSED_HERE(MPI_ERR_ARG, MPI_Pready_list(-1, lists[0], send));
    REFUSED_HERE(MPI_ERR_ARG, MPI_Parrived(receive, 4, &flag));
    REFUSED_HERE(MPI_ERR_ARG, MPI_Parrived(receive, -1, &flag));
    MPI_Pready(2, send);
    REFUSED_HERE(MPI_ERR_ARG, MPI_Pready(2, send)); /* ready already */
    REFUSED_HERE(MPI_ERR_ARG, MPI_Pready_range(0, 3, send));
    REFUSED_HERE(MPI_ERR_REQUEST, MPI_Cancel(&send));
    REFUSED_HERE(MPI_ERR_REQUEST, MPI_Cancel(&receive));
    REFUSED_HERE(MPI_ERR_REQUEST, MPI_Request_free(&send));
    REFUSED_HERE(MPI_ERR_REQUEST, MPI_Request_free(&receive));
    MPI_Pready_range(0, 1, send);
    MPI_Pready(3, send);
    CHECK_EQUAL(MPI_Wait(&send, MPI_STATUS_IGNORE), MPI_SUCCESS);
    CHECK_EQUAL(MPI_Wait(&receive, MPI_STATUS_IGNORE), MPI_SUCCESS);
    MPI_Request_free(&send);
    MPI_Request_free(&receive);
    if (!is_careful)
        return;
    /* The amount of data must be the same on both sides. */
    static const int counts[][3] = {{4, 3, MPI_ERR_TRUNCATE}, {3, 4, MPI_ERR_COUNT}};
    for (int i = 0; i < 2; i++) {
        MPI_Psend_init(out, counts[i][0], 1, MPI_DOUBLE, 0, 1, comm, MPI_INFO_NULL, &send);
        MPI_Precv_init(in, counts[i][1], 1, MPI_DOUBLE, 0, 1, comm, MPI_INFO_NULL, &receive);
        MPI_Start(&send);
        MPI_Start(&receive);
        MPI_Pready_range(0, counts[i][0] - 1, send);
        CHECK_EQUAL(MPI_Wait(&send, MPI_STATUS_IGNORE), MPI_SUCCESS);
        CHECK_CLASS(MPI_Wait(&receive, MPI_STATUS_IGNORE), counts[i][2]);
        MPI_Request_free(&send);
        MPI_Request_free(&receive);
    }
}

/* §6.1: the data that a process sends to itself must fit the data that it receives from itself. */
static void cut_by_oneself(void)
{
    REFUSED_HERE(MPI_ERR_TRUNCATE, MPI_Gather(out, 2, MPI_DOUBLE, in, 1, MPI_DOUBLE, 0, comm));
    REFUSED_HERE(MPI_ERR_TRUNCATE, MPI_Gatherv(out, 2, MPI_DOUBLE, in, ones, zeros, MPI_DOUBLE, 0, comm));
    REFUSED_HERE(MPI_ERR_TRUNCATE, MPI_Scatter(out, 2, MPI_DOUBLE, in, 1, MPI_DOUBLE, 0, comm));
    REFUSED_HERE(MPI_ERR_TRUNCATE, MPI_Scatterv(out, ones, zeros, MPI_DOUBLE, in, 1, MPI_FLOAT, 0, comm));
    REFUSED_HERE(MPI_ERR_TRUNCATE, MPI_Allgather(out, 2, MPI_DOUBLE, in, 1, MPI_DOUBLE, comm));
    REFUSED_HERE(MPI_ERR_TRUNCATE, MPI_Allgatherv(out, 2, MPI_DOUBLE, in, ones, zeros, MPI_DOUBLE, comm));
    REFUSED_HERE(MPI_ERR_TRUNCATE, MPI_Alltoall(out, 2, MPI_DOUBLE, in, 1, MPI_DOUBLE, comm));
    REFUSED_HERE(MPI_ERR_TRUNCATE, MPI_Alltoallv(out, ones, zeros, MPI_DOUBLE, in, ones, zeros, MPI_FLOAT, comm));
    /* The same with others, who get the data that they wait for all the same. */
    double *all = memory(2 * ranks * sizeof(double)), mine[2] = {rank, -rank};
    MPI_Comm world;
    MPI_Comm_dup(MPI_COMM_WORLD, &world);
    MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
    if (is_careful) {
        int code = MPI_Gather(mine, rank == 0 ? 2 : 1, MPI_DOUBLE, all, 1, MPI_DOUBLE, 0, world);
        if (rank == 0)
            CHECK_CLASS(code, MPI_ERR_TRUNCATE);
        else
            CHECK_EQUAL(code, MPI_SUCCESS);
        for (int i = 1; i < ranks && rank == 0; i++)
            CHECK_EQUAL(all[i], i);
        MPI_Barrier(world);
    }
    MPI_Comm_free(&world);
    free(all);
}

static void misuse_of_packing(void)
{
    char bytes[64];
    int position = 0, size = 0;
    MPI_Aint far = 0;
    REFUSED(MPI_ERR_ARG, MPI_Pack(out, 2, MPI_DOUBLE, bytes, 15, &position, comm));
    position = 9;
    REFUSED_HERE(MPI_ERR_ARG, MPI_Pack(out, 1, MPI_DOUBLE, bytes, 8, &position, comm));
    position = -1;
    REFUSED_HERE(MPI_ERR_ARG, MPI_Pack(out, 1, MPI_DOUBLE, bytes, 8, &position, comm));
    position = 0;
    REFUSED_HERE(MPI_ERR_TRUNCATE, MPI_Unpack(bytes, 15, &position, in, 2, MPI_DOUBLE, comm));
    REFUSED_HERE(MPI_ERR_BUFFER, MPI_Unpack(NULL, 16, &position, in, 2, MPI_DOUBLE, comm));
    REFUSED_HERE(MPI_ERR_ARG, MPI_Pack_external("external32", out, 2, MPI_DOUBLE, bytes, 15, &far));
    REFUSED_HERE(MPI_ERR_ARG, MPI_Pack_external_size("native", 1, MPI_DOUBLE, &far));
    REFUSED(MPI_ERR_COUNT, MPI_Pack_size(-1, MPI_DOUBLE, comm, &size));
    CHECK_EQUAL(position, 0);
}

static void misuse_of_buffered_sends(void)
{
    static char pool[MPI_BSEND_OVERHEAD + 16];
    char big[64] = {0};
    void *found;
    int size;
    REFUSED(MPI_ERR_BUFFER, MPI_Bsend(big, 8, MPI_CHAR, 0, 1, comm)); /* §3.6: nothing is attached */
    REFUSED(MPI_ERR_BUFFER, MPI_Ibsend(big, 8, MPI_CHAR, 0, 1, comm, &request));
    REFUSED_HERE(MPI_ERR_BUFFER, MPI_Buffer_attach(NULL, 100));
    REFUSED_HERE(MPI_ERR_BUFFER, MPI_Comm_attach_buffer(comm, NULL, 100));
    REFUSED(MPI_ERR_ARG, MPI_Buffer_attach(pool, -1));
    MPI_Buffer_attach(pool, sizeof pool);
    REFUSED(MPI_ERR_BUFFER, MPI_Buffer_attach(pool, sizeof pool)); /* only one at a time */
    REFUSED(MPI_ERR_BUFFER, MPI_Bsend(big, sizeof big, MPI_CHAR, 0, 1, comm));
    REFUSED(MPI_ERR_ARG, MPI_Buffer_detach(NULL, &size));
    REFUSED_HERE(MPI_ERR_ARG, MPI_Buffer_detach(&found, NULL));
    MPI_Buffer_detach(&found, &size);
    CHECK(found == pool && size == (int)sizeof pool, "another buffer: %d bytes", size);
    REFUSED_HERE(MPI_ERR_BUFFER, MPI_Buffer_detach(&found, &size));
}

/* Sizes that fit an int but whose product does not fit 63 bits; §3.2.2. */
static void sizes_that_wrap(void)
{
    if (!is_careful)
        return;
    MPI_Datatype wide_type, apart;
    MPI_Type_contiguous_c((MPI_Count)1 << 36, MPI_BYTE, &wide_type);
    MPI_Type_commit(&wide_type);
    MPI_Type_create_resized(MPI_BYTE, 0, (MPI_Aint)1 << 60, &apart);
    MPI_Type_commit(&apart);
    REFUSED(MPI_ERR_COUNT, MPI_Send(out, 1 << 28, wide_type, 0, 1, comm));
    REFUSED(MPI_ERR_COUNT, MPI_Irecv(in, 1 << 28, wide_type, 0, 1, comm, &request));
    REFUSED(MPI_ERR_COUNT, MPI_Bcast(in, 1 << 28, wide_type, 0, comm));
    REFUSED(MPI_ERR_COUNT, MPI_Send(out, 16, apart, 0, 1, comm));
    REFUSED(MPI_ERR_COUNT, MPI_Pack_size_c(1 << 28, wide_type, comm, &wide));
    REFUSED(MPI_ERR_COUNT, MPI_Psend_init(out, 1 << 28, 1, wide_type, 0, 1, comm, MPI_INFO_NULL, &request));
    MPI_Type_free(&wide_type);
    MPI_Type_free(&apart);
}

/* MPI_BOTTOM is no buffer by itself, but is one with a datatype of absolute addresses (§5.1.5). */
static void bottom(void)
{
    STORY("MPI_BOTTOM with absolute addresses");
    double from = 4.5, to = 0;
    int length = 1;
    MPI_Aint from_address, to_address;
    MPI_Datatype from_type, to_type;
    MPI_Get_address(&from, &from_address);
    MPI_Get_address(&to, &to_address);
    MPI_Type_create_hindexed(1, &length, &from_address, MPI_DOUBLE, &from_type);
    MPI_Type_create_hindexed(1, &length, &to_address, MPI_DOUBLE, &to_type);
    MPI_Type_commit(&from_type);
    MPI_Type_commit(&to_type);
    CHECK_EQUAL(MPI_Sendrecv(MPI_BOTTOM, 1, from_type, 0, 1, MPI_BOTTOM, 1, to_type, 0, 1, comm, MPI_STATUS_IGNORE), 0);
    CHECK(to == 4.5, "%g", to);
    to = 0;
    CHECK_EQUAL(MPI_Alltoall(MPI_BOTTOM, 1, from_type, MPI_BOTTOM, 1, to_type, comm), MPI_SUCCESS);
    CHECK(to == 4.5, "%g", to);
    REFUSED_HERE(MPI_ERR_BUFFER, MPI_Send(MPI_BOTTOM, 1, MPI_DOUBLE, 0, 1, comm));
    CHECK_EQUAL(MPI_Bcast(NULL, 0, MPI_DOUBLE, 0, comm), MPI_SUCCESS);
    CHECK_EQUAL(MPI_Allreduce(NULL, NULL, 0, MPI_DOUBLE, MPI_SUM, comm), MPI_SUCCESS);
    MPI_Type_free(&from_type);
    MPI_Type_free(&to_type);
}

static void on_self(MPI_Comm *which, int *code, ...)
{
    (void)which, (void)code;
    handled_on_self++;
}

/* §9.3: errors of a message are its communicator's, as are those of a request; those of calls without any are
 * MPI_COMM_SELF's. */
static void whose_handler(void)
{
    STORY("errors of MPI_Mrecv go to the communicator of the message");
    MPI_Errhandler handlers[2];
    MPI_Comm_create_errhandler(on_comm, &handlers[0]);
    MPI_Comm_create_errhandler(on_self, &handlers[1]);
    MPI_Comm_set_errhandler(comm, handlers[0]);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, handlers[1]);
    MPI_Request sent, received;
    double values[2] = {1, 2};
    MPI_Isend(values, 2, MPI_DOUBLE, 0, 1, comm, &sent);
    MPI_Mprobe(0, 1, comm, &message, MPI_STATUS_IGNORE);
    CHECK_CLASS(MPI_Mrecv(in, 1, MPI_DOUBLE, &message, MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE);
    MPI_Wait(&sent, MPI_STATUS_IGNORE);
    CHECK_EQUAL(handled_on_comm, 1);
    MPI_Isend(values, 2, MPI_DOUBLE, 0, 1, comm, &sent);
    MPI_Mprobe(0, 1, comm, &message, MPI_STATUS_IGNORE);
    MPI_Imrecv(in, 1, MPI_DOUBLE, &message, &received);
    CHECK_CLASS(MPI_Wait(&received, MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE);
    MPI_Wait(&sent, MPI_STATUS_IGNORE);
    CHECK_EQUAL(handled_on_comm, 2);
    if (is_careful) {
        CHECK_EQUAL(handled_on_self, 0);
        CHECK_CLASS(MPI_Mrecv(in, 1, MPI_DOUBLE, &null_message, MPI_STATUS_IGNORE), MPI_ERR_REQUEST);
        CHECK_EQUAL(handled_on_self, 1);
    }
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Errhandler_free(&handlers[0]);
    MPI_Errhandler_free(&handlers[1]);

    STORY("a status holds the code of what went wrong with its request"); /* §3.7.5 */
    MPI_Request requests[2];
    MPI_Status statuses[2];
    int code, length;
    char text[MPI_MAX_ERROR_STRING];
    MPI_Irecv(in, 1, MPI_DOUBLE, 0, 1, comm, &requests[0]);
    MPI_Isend(values, 2, MPI_DOUBLE, 0, 1, comm, &requests[1]);
    code = MPI_Waitall(2, requests, statuses);
    CHECK_EQUAL(code, MPI_ERR_IN_STATUS);
    CHECK_CLASS(statuses[0].MPI_ERROR, MPI_ERR_TRUNCATE);
    CHECK_EQUAL(statuses[1].MPI_ERROR, MPI_SUCCESS);
    MPI_Error_string(statuses[0].MPI_ERROR, text, &length);
    CHECK(!is_careful || strstr(text, "16 bytes"), "\"%s\"", text);
}

/* Objects of each kind with which wrong calls are made, and handles of some that exist no more. */
static void make_objects(void)
{
    MPI_Info_create(&info);
    MPI_Info_set(info, "present", "yes");
    MPI_Comm_group(comm, &group);
    MPI_Comm_group(comm, &new_group);
    freed_group = new_group;
    MPI_Group_free(&new_group);
    MPI_Comm_create_errhandler(on_comm, &new_handler);
    freed_handler = new_handler;
    MPI_Errhandler_free(&new_handler);
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &new_session);
    freed_session = new_session;
    MPI_Session_finalize(&new_session);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &keyval, NULL);
    MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, MPI_TYPE_NULL_DELETE_FN, &type_keyval, NULL);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &number, NULL);
    freed_keyval = number;
    MPI_Comm_free_keyval(&number);
    MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, MPI_WIN_NULL_DELETE_FN, &win_keyval, NULL);
    MPI_Op_create(keep_first, 1, &own_op);
    MPI_Win_create(exposed, sizeof exposed, 1, MPI_INFO_NULL, comm, &win);
    MPI_Win_create(exposed, sizeof exposed, 1, MPI_INFO_NULL, comm, &locked_win);
    MPI_Win_create_dynamic(MPI_INFO_NULL, comm, &dynamic_win);
    MPI_Win_create(exposed, sizeof exposed, 1, MPI_INFO_NULL, comm, &new_win);
    freed_win = new_win;
    MPI_Win_free(&new_win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    MPI_Win_set_errhandler(locked_win, MPI_ERRORS_RETURN);
    MPI_Win_set_errhandler(dynamic_win, MPI_ERRORS_RETURN);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, locked_win);
    MPI_Cart_create(comm, 1, ones, ones, 0, &cart);
    MPI_Graph_create(comm, 1, ones, zeros, 0, &graph);
    MPI_Dist_graph_create(comm, 1, zeros, ones, zeros, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &dist_graph);
    memset(long_text, 'x', sizeof long_text - 1);
}

static void free_objects(void)
{
    CHECK_EQUAL(MPI_Win_unlock(0, locked_win), MPI_SUCCESS);
    for (int i = 0; i < 8; i++)
        CHECK(exposed[i] == 0, "a wrong call wrote %g", exposed[i]);
    MPI_Win_free(&win);
    MPI_Win_free(&locked_win);
    MPI_Win_free(&dynamic_win);
    MPI_Win_free_keyval(&win_keyval);
    MPI_Op_free(&own_op);
    MPI_Comm_free(&cart);
    MPI_Comm_free(&graph);
    MPI_Comm_free(&dist_graph);
    MPI_Comm_free_keyval(&keyval);
    MPI_Type_free_keyval(&type_keyval);
    MPI_Session_finalize(&session);
    MPI_Group_free(&group);
    MPI_Info_free(&info);
}

/* The values of MPICH's own ABI, which is not the standard's: the error says whose they are, and what to do.
 */
static void handles_of_mpich(void)
{
    if (!is_careful)
        return;
    STORY("handles of MPICH's own ABI");
    static const struct {
        int expected;
        const char *call;
    } refused[] = {{MPI_ERR_COMM, "MPI_Comm_size"},   {MPI_ERR_TYPE, "MPI_Type_size"}, {MPI_ERR_TYPE, "MPI_Send"},
                   {MPI_ERR_OP, "MPI_Reduce_local"},  {MPI_ERR_GROUP, "MPI_Group_size"}, {MPI_ERR_WIN, "MPI_Win_fence"},
                   {MPI_ERR_REQUEST, "MPI_Wait"},     {MPI_ERR_INFO, "MPI_Info_get_nkeys"},
                   {MPI_ERR_ERRHANDLER, "MPI_Comm_set_errhandler"}, {MPI_ERR_KEYVAL, "MPI_Comm_get_attr"}};
    MPI_Request mpichs = (MPI_Request)(uintptr_t)0x2c000000;
    int codes[] = {MPI_Comm_size((MPI_Comm)(uintptr_t)0x44000000, &number),
                   MPI_Type_size((MPI_Datatype)(uintptr_t)0x4c00080b, &number),
                   MPI_Send(out, 1, (MPI_Datatype)(uintptr_t)0x8c000000, 0, 1, comm),
                   MPI_Reduce_local(out, in, 1, MPI_DOUBLE, (MPI_Op)(uintptr_t)0x58000003),
                   MPI_Group_size((MPI_Group)(uintptr_t)0x48000000, &number),
                   MPI_Win_fence(0, (MPI_Win)(uintptr_t)0x20000000),
                   MPI_Wait(&mpichs, MPI_STATUS_IGNORE),
                   MPI_Info_get_nkeys((MPI_Info)(uintptr_t)0x1c000000, &number),
                   MPI_Comm_set_errhandler(comm, (MPI_Errhandler)(uintptr_t)0x54000001),
                   MPI_Comm_get_attr(comm, 0x64400001, &found, &number)};
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        int length;
        char said[MPI_MAX_ERROR_STRING] = "";
        CHECK_CLASS(codes[i], refused[i].expected);
        MPI_Error_string(codes[i], said, &length);
        CHECK(strstr(said, refused[i].call) && strstr(said, "MPICH's own ABI") && strstr(said, "compile it again"),
              "%s is explained by \"%s\"", refused[i].call, said);
    }
}


int main(int argc, char **argv)
{
    begin(&argc, &argv);
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    MPI_Get_library_version(version, &length);
    is_careful = strstr(version, "Weft") != NULL;
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_dup(MPI_COMM_SELF, &comm);
    MPI_Comm copy;
    MPI_Comm_dup(comm, &copy);
    freed_comm = copy;
    MPI_Comm_free(&copy);
    MPI_Type_contiguous(2, MPI_INT, &new_type);
    freed_type = new_type;
    MPI_Type_free(&new_type);
    MPI_Type_contiguous(2, MPI_DOUBLE, &uncommitted);
    MPI_Info_create(&info);
    freed_info = info;
    MPI_Info_free(&info);
    make_objects();
    for (int i = 0; i < 4; i++) {
        doubles[i] = MPI_DOUBLE;
        null_types[i] = MPI_DATATYPE_NULL;
    }
    request = MPI_REQUEST_NULL;
    misuse_point_to_point();
    misuse_partitioned();
    misuse_datatypes();
    misuse_collectives();
    misuse_communicators();
    misuse_topologies();
    misuse_environment();
    misuse_info();
    misuse_processes();
    misuse_one_sided();
    misuse_external();
    misuse_deprecated();
    misuse_fortran();
    misuse_of_requests();
    misuse_of_collective_requests();
    misuse_of_partitions();
    cut_by_oneself();
    misuse_of_packing();
    misuse_of_buffered_sends();
    sizes_that_wrap();
    bottom();
    whose_handler();
    /* In MPICH's own ABI they are right. */
    if (sizeof(MPI_Comm) == sizeof(void *))
        handles_of_mpich();
    STORY("communication goes on after errors");
    CHECK(calls > (is_careful ? 3000 : 400), "only %d wrong calls were made", calls);
    int total = 0, flag = -1;
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &flag, MPI_STATUS_IGNORE);
    CHECK_EQUAL(flag, 0); /* no wrong call has sent anything */
    MPI_Allreduce(&rank, &total, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK_EQUAL(total, ranks * (ranks - 1) / 2);
    MPI_Type_free(&uncommitted);
    free_objects();
    MPI_Comm_free(&comm);
    return end();
}
