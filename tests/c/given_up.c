/* MPI_Cancel and MPI_Request_free of each kind of request (MPI-5.0 §3.8.4, §3.7.3, §4.2, §6.12, §12.3.5). The
 * kind alone decides whether a request may be given up: not the places of the processes, nor the progress of
 * the operation. */
#include "check.h"

enum { BYTES = 300000 };

static MPI_Comm comm;
static MPI_Win win;
static int next, before;
static char *out, *in;

/* Makes a request of a kind on all ranks, of `bytes` bytes. Requests of operations that others must answer
 * are in `more`. */
typedef void maker(int bytes, MPI_Request *request, MPI_Request *more);

static void make_isend(int bytes, MPI_Request *request, MPI_Request *more)
{
    MPI_Irecv(in, bytes, MPI_BYTE, before, 1, comm, more);
    MPI_Isend(out, bytes, MPI_BYTE, next, 1, comm, request);
}

static void make_issend(int bytes, MPI_Request *request, MPI_Request *more)
{
    MPI_Irecv(in, bytes, MPI_BYTE, before, 2, comm, more);
    MPI_Issend(out, bytes, MPI_BYTE, next, 2, comm, request);
}

static void make_irecv(int bytes, MPI_Request *request, MPI_Request *more)
{
    MPI_Isend(out, bytes, MPI_BYTE, next, 3, comm, more);
    MPI_Irecv(in, bytes, MPI_BYTE, before, 3, comm, request);
}

static void make_send_init(int bytes, MPI_Request *request, MPI_Request *more)
{
    MPI_Irecv(in, bytes, MPI_BYTE, before, 4, comm, more);
    MPI_Send_init(out, bytes, MPI_BYTE, next, 4, comm, request);
    MPI_Start(request);
}

static void make_isendrecv(int bytes, MPI_Request *request, MPI_Request *more)
{
    (void)more;
    MPI_Isendrecv(out, bytes, MPI_BYTE, next, 5, in, bytes, MPI_BYTE, before, 5, comm, request);
}

static void make_psend(int bytes, MPI_Request *request, MPI_Request *more)
{
    MPI_Precv_init(in, 1, bytes, MPI_BYTE, before, 6, comm, MPI_INFO_NULL, more);
    MPI_Psend_init(out, 1, bytes, MPI_BYTE, next, 6, comm, MPI_INFO_NULL, request);
    MPI_Start(more);
    MPI_Start(request);
    MPI_Pready(0, *request);
}

static void make_ibarrier(int bytes, MPI_Request *request, MPI_Request *more)
{
    (void)bytes, (void)more;
    MPI_Ibarrier(comm, request);
}

static void make_ibcast(int bytes, MPI_Request *request, MPI_Request *more)
{
    (void)more;
    MPI_Ibcast(in, bytes, MPI_BYTE, 0, comm, request);
}

static void make_bcast_init(int bytes, MPI_Request *request, MPI_Request *more)
{
    (void)more;
    MPI_Bcast_init(in, bytes, MPI_BYTE, 0, comm, MPI_INFO_NULL, request);
    MPI_Start(request);
}

static void make_idup(int bytes, MPI_Request *request, MPI_Request *more)
{
    static MPI_Comm copies[64];
    static int made;
    (void)bytes, (void)more;
    MPI_Comm_idup(comm, &copies[made++ % 64], request);
}

static void make_rput(int bytes, MPI_Request *request, MPI_Request *more)
{
    (void)more;
    MPI_Rput(out, bytes, MPI_BYTE, next, 0, bytes, MPI_BYTE, win, request);
}

static void make_rget(int bytes, MPI_Request *request, MPI_Request *more)
{
    (void)more;
    MPI_Rget(in, bytes, MPI_BYTE, next, 0, bytes, MPI_BYTE, win, request);
}

static void make_raccumulate(int bytes, MPI_Request *request, MPI_Request *more)
{
    (void)more;
    MPI_Raccumulate(out, bytes, MPI_BYTE, next, 0, bytes, MPI_BYTE, MPI_BOR, win, request);
}

static void make_rget_accumulate(int bytes, MPI_Request *request, MPI_Request *more)
{
    (void)more;
    MPI_Rget_accumulate(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, next, 0, bytes, MPI_BYTE, MPI_BOR, win, request);
}

static void make_rput_to_nobody(int bytes, MPI_Request *request, MPI_Request *more)
{
    (void)more;
    MPI_Rput(out, bytes, MPI_BYTE, MPI_PROC_NULL, 0, bytes, MPI_BYTE, win, request);
}

static void make_iflush(int bytes, MPI_Request *request, MPI_Request *more)
{
    (void)bytes, (void)more;
    MPI_Comm_iflush_buffer(comm, request);
}

/* A request that may be freed once the program has been told that it is complete (MPI-5.0 section 3.7.6). */
enum { TOLD = 2 };

/* Says whether a request may be cancelled, and whether it may be freed. */
static const struct {
    const char *name;
    maker *make;
    int cancel, free;
} kinds[] = {
    {"MPI_Isend", make_isend, 1, 1},
    {"MPI_Issend", make_issend, 1, 1},
    {"MPI_Irecv", make_irecv, 1, 1},
    {"MPI_Send_init", make_send_init, 1, 1},
    {"MPI_Isendrecv", make_isendrecv, 1, 1},
    {"MPI_Psend_init", make_psend, 0, 0},
    {"MPI_Ibarrier", make_ibarrier, 0, TOLD},
    {"MPI_Ibcast", make_ibcast, 0, TOLD},
    {"MPI_Bcast_init", make_bcast_init, 0, TOLD},
    {"MPI_Comm_idup", make_idup, 0, TOLD},
    {"MPI_Rput", make_rput, 0, TOLD},
    {"MPI_Rget", make_rget, 0, TOLD},
    {"MPI_Raccumulate", make_raccumulate, 0, TOLD},
    {"MPI_Rget_accumulate", make_rget_accumulate, 0, TOLD},
    {"MPI_Rput to MPI_PROC_NULL", make_rput_to_nobody, 0, TOLD},
    {"MPI_Comm_iflush_buffer", make_iflush, 0, 1},
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

static void check(int code, int allowed, const char *call, const char *name, int bytes)
{
    int class;
    MPI_Error_class(code, &class);
    CHECK(class == (allowed ? MPI_SUCCESS : MPI_ERR_REQUEST), "%s of %s, %d bytes: class %d", call, name, bytes, class);
}

/* With `late`, the program has been told by MPI_Request_get_status that the operation is complete. */
static void give_up(int kind, int bytes, int late, int frees)
{
    MPI_Request request = MPI_REQUEST_NULL, more = MPI_REQUEST_NULL;
    STORY(kinds[kind].name);
    kinds[kind].make(bytes, &request, &more);
    if (late) {
        int flag = 0;
        /* Other ranks must not cancel an operation for which this one waits. */
        while (!flag)
            MPI_Request_get_status(request, &flag, MPI_STATUS_IGNORE);
        MPI_Barrier(comm);
    }
    int is_message = kinds[kind].cancel;
    if (!frees && (late || !is_message))
        check(MPI_Cancel(&request), kinds[kind].cancel, "MPI_Cancel", kinds[kind].name, bytes);
    /* A message for which a peer waits must come: requests of messages are freed only when the messages are
     * there. */
    else if (frees && (late || !is_message))
        check(MPI_Request_free(&request), kinds[kind].free == TOLD ? late : kinds[kind].free, "MPI_Request_free",
              kinds[kind].name, bytes);
    if (request != MPI_REQUEST_NULL) {
        CHECK_EQUAL(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_SUCCESS);
        if (request != MPI_REQUEST_NULL)
            MPI_Request_free(&request);
    }
    MPI_Wait(&more, MPI_STATUS_IGNORE);
    if (more != MPI_REQUEST_NULL)
        MPI_Request_free(&more);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    char *exposed;
    static char pool[1000];
    next = (rank + 1) % ranks;
    before = (rank + ranks - 1) % ranks;
    out = calloc(1, BYTES);
    in = calloc(1, BYTES);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_attach_buffer(comm, pool, sizeof pool);
    static const int sizes[] = {8, BYTES};
    for (int allocated = 0; allocated < 2; allocated++) {
        exposed = calloc(1, BYTES);
        if (allocated)
            MPI_Win_allocate(BYTES, 1, MPI_INFO_NULL, comm, &exposed, &win);
        else
            MPI_Win_create(exposed, BYTES, 1, MPI_INFO_NULL, comm, &win);
        MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
        MPI_Win_lock_all(0, win);
        for (int kind = 0; kind < KINDS; kind++)
            for (int size = 0; size < 2; size++)
                for (int late = 0; late < 2; late++)
                    for (int frees = 0; frees < 2; frees++)
                        give_up(kind, sizes[size], late, frees);
        MPI_Win_unlock_all(win);
        MPI_Win_free(&win);
    }
    return end();
}
