/* Each collective operation in each form, with the number of items that this process believes: for programs
 * in which something goes wrong inside an operation. The caller wants the call's error code, so nothing is
 * checked here. */
#ifndef WEFT_TESTS_EACH_COLLECTIVE_H
#define WEFT_TESTS_EACH_COLLECTIVE_H

#include "check.h"

enum collective {
    BARRIER,
    BCAST,
    GATHER,
    SCATTER,
    ALLGATHER,
    ALLTOALL,
    REDUCE,
    ALLREDUCE,
    REDUCE_SCATTER_BLOCK,
    SCAN,
    EXSCAN,
    NEIGHBOR_ALLGATHER,
    NEIGHBOR_ALLTOALL,
    COLLECTIVES
};

static const char *const collectives[COLLECTIVES] = {
    "barrier", "bcast", "gather", "scatter", "allgather", "alltoall", "reduce", "allreduce",
    "reduce_scatter_block", "scan", "exscan", "neighbor_allgather", "neighbor_alltoall"};

enum { BLOCKING, NONBLOCKING, PERSISTENT, FORMS };

static const char *const forms[FORMS] = {"blocking", "nonblocking", "persistent"};

/* The root of the operations that have one. */
enum { ROOT = 0 };

/* Says whether all processes together have blocks for all, so that buffers hold as many blocks as there are
 * processes. */
static inline int has_blocks(enum collective which)
{
    return which == GATHER || which == SCATTER || which == ALLGATHER || which == ALLTOALL ||
           which == REDUCE_SCATTER_BLOCK || which == NEIGHBOR_ALLGATHER || which == NEIGHBOR_ALLTOALL;
}

/* Says whether a process describes the blocks that it sends apart from those that it receives. */
static inline int sends_blocks(enum collective which)
{
    return has_blocks(which) && which != REDUCE_SCATTER_BLOCK;
}

#define IN_FORM(name, ...)                                                                                             \
    (form == BLOCKING      ? MPI_##name(__VA_ARGS__)                                                                   \
     : form == NONBLOCKING ? MPI_I##name(__VA_ARGS__, &request)                                                        \
                           : MPI_##name##_init(__VA_ARGS__, MPI_INFO_NULL, &request))

/* Names of nonblocking procedures continue in small letters. */
#define MPI_IBarrier MPI_Ibarrier
#define MPI_IBcast MPI_Ibcast
#define MPI_IGather MPI_Igather
#define MPI_IScatter MPI_Iscatter
#define MPI_IAllgather MPI_Iallgather
#define MPI_IAlltoall MPI_Ialltoall
#define MPI_IReduce MPI_Ireduce
#define MPI_IAllreduce MPI_Iallreduce
#define MPI_IReduce_scatter_block MPI_Ireduce_scatter_block
#define MPI_IScan MPI_Iscan
#define MPI_IExscan MPI_Iexscan
#define MPI_INeighbor_allgather MPI_Ineighbor_allgather
#define MPI_INeighbor_alltoall MPI_Ineighbor_alltoall

/* Says whether this process ends, without a word, as soon as it has begun its next nonblocking operation. */
static int ends_once_begun;

/* Does one operation: this process sends blocks of `sent` integers and describes the others with `n`, where
 * the operation takes two numbers. Operations among neighbours need a communicator with a topology. */
static inline int do_collective_of(enum collective which, int form, const int *from, int *into, int sent, int n,
                                   MPI_Comm comm)
{
    MPI_Request request = MPI_REQUEST_NULL;
    int code = MPI_ERR_OTHER;
    switch (which) {
    case BARRIER:
        code = IN_FORM(Barrier, comm);
        break;
    case BCAST:
        code = IN_FORM(Bcast, into, n, MPI_INT, ROOT, comm);
        break;
    case GATHER:
        code = IN_FORM(Gather, from, sent, MPI_INT, into, n, MPI_INT, ROOT, comm);
        break;
    case SCATTER:
        code = IN_FORM(Scatter, from, sent, MPI_INT, into, n, MPI_INT, ROOT, comm);
        break;
    case ALLGATHER:
        code = IN_FORM(Allgather, from, sent, MPI_INT, into, n, MPI_INT, comm);
        break;
    case ALLTOALL:
        code = IN_FORM(Alltoall, from, sent, MPI_INT, into, n, MPI_INT, comm);
        break;
    case REDUCE:
        code = IN_FORM(Reduce, from, into, n, MPI_INT, MPI_SUM, ROOT, comm);
        break;
    case ALLREDUCE:
        code = IN_FORM(Allreduce, from, into, n, MPI_INT, MPI_SUM, comm);
        break;
    case REDUCE_SCATTER_BLOCK:
        code = IN_FORM(Reduce_scatter_block, from, into, n, MPI_INT, MPI_SUM, comm);
        break;
    case SCAN:
        code = IN_FORM(Scan, from, into, n, MPI_INT, MPI_SUM, comm);
        break;
    case EXSCAN:
        code = IN_FORM(Exscan, from, into, n, MPI_INT, MPI_SUM, comm);
        break;
    case NEIGHBOR_ALLGATHER:
        code = IN_FORM(Neighbor_allgather, from, sent, MPI_INT, into, n, MPI_INT, comm);
        break;
    case NEIGHBOR_ALLTOALL:
        code = IN_FORM(Neighbor_alltoall, from, sent, MPI_INT, into, n, MPI_INT, comm);
        break;
    case COLLECTIVES:
        break;
    }
    if (form == PERSISTENT && code == MPI_SUCCESS)
        code = MPI_Start(&request);
    if (ends_once_begun)
        raise(SIGKILL);
    if (form != BLOCKING && code == MPI_SUCCESS)
        code = MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (request != MPI_REQUEST_NULL)
        MPI_Request_free(&request);
    return code;
}

/* Does one operation with `n` integers in each block. */
static inline int do_collective(enum collective which, int form, const int *from, int *into, int n, MPI_Comm comm)
{
    return do_collective_of(which, form, from, into, n, n, comm);
}

/* A communicator of all processes in a ring, for an operation in which something goes wrong. */
static inline MPI_Comm own_communicator(MPI_Comm all)
{
    MPI_Comm ring;
    int size, periodic = 1;
    MPI_Comm_size(all, &size);
    MPI_Cart_create(all, 1, &size, &periodic, 0, &ring);
    MPI_Comm_set_errhandler(ring, MPI_ERRORS_RETURN);
    return ring;
}

#endif
