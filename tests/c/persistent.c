/* Persistent collectives (MPI-5.0 §6.13): all of them, started in orders that differ between ranks, several
 * at a time and among others, more than have memory of their own, freed and made again. They send no more
 * messages than blocking ones do. */
#include "counters.h"
#include "each_thread.h"

enum { ROUNDS = 8, AHEAD = 200, MANY = 60, OFTEN = 80, COUNTED = 20, PATIENCE = 1000000 };

enum operation {
    BARRIER,
    BCAST,
    GATHER,
    GATHERV,
    SCATTER,
    SCATTERV,
    ALLGATHER,
    ALLGATHER_IN_PLACE,
    ALLGATHERV,
    ALLTOALL,
    ALLTOALL_IN_PLACE,
    ALLTOALLV,
    REDUCE,
    ALLREDUCE,
    ALLREDUCE_IN_PLACE,
    REDUCE_SCATTER_BLOCK,
    REDUCE_SCATTER,
    SCAN,
    EXSCAN,
    OPERATIONS
};

/* Elements in a block, around the ends of cells of 1 KiB and of 32 KiB. */
static const int lengths[] = {0, 1, 252, 253, 8204, 8205};
enum { LENGTHS = sizeof lengths / sizeof *lengths };

/* One operation, and its buffers: elements are integers, or pairs of which one integer belongs to the type.
 */
struct one {
    enum operation which;
    int length, stride;
    MPI_Datatype type;
    MPI_Comm comm;
    int me, size, root;
    int *from, *into, *counts, *displacements;
    MPI_Request request;
};

/* The value that rank `who` gives to rank `to`, or to all, at place `at` in a round. */
static int given(const struct one *one, int who, int to, int at, int round)
{
    return 1 + who * 7 + to * 1001 + at % 911 + round * 13 + (int)one->which;
}

static int sum_of(const struct one *one, int ranks_before, int block, int at, int round)
{
    int sum = 0;
    for (int who = 0; who < ranks_before; who++)
        sum += given(one, who, block, at, round);
    return sum;
}

static void put(const struct one *one, int *buffer, int block, int to, int round)
{
    for (int at = 0; at < one->length; at++)
        buffer[((size_t)block * one->length + at) * one->stride] = given(one, one->me, to, at, round);
}

/* Says whether the buffers hold a block for each rank. */
static int has_blocks(enum operation which)
{
    return (which >= GATHER && which <= ALLTOALLV) || which == REDUCE_SCATTER_BLOCK || which == REDUCE_SCATTER;
}

static void create(struct one *one, enum operation which, int length, int stride, MPI_Datatype type, MPI_Comm comm)
{
    *one = (struct one){.which = which, .length = length, .stride = stride, .type = type, .comm = comm};
    MPI_Comm_rank(comm, &one->me);
    MPI_Comm_size(comm, &one->size);
    one->root = ((int)which + length) % one->size;
    size_t items = (size_t)length * stride * (has_blocks(which) ? one->size : 1);
    one->from = memory(items * sizeof(int));
    one->into = memory(items * sizeof(int));
    one->counts = memory(one->size * sizeof(int));
    one->displacements = memory(one->size * sizeof(int));
    for (int who = 0; who < one->size; who++) {
        one->counts[who] = length;
        one->displacements[who] = who * length;
    }
}

static void destroy(struct one *one)
{
    free(one->from);
    free(one->into);
    free(one->counts);
    free(one->displacements);
}

/* Makes a persistent operation, or does a blocking one. */
#define FORM(name, ...)                                                                                                \
    (blocking ? MPI_##name(__VA_ARGS__) : MPI_##name##_init(__VA_ARGS__, MPI_INFO_NULL, &one->request))

static void call(struct one *one, int blocking)
{
    int n = one->length, root = one->root, *from = one->from, *into = one->into;
    int *counts = one->counts, *places = one->displacements;
    MPI_Datatype type = one->type;
    MPI_Comm comm = one->comm;
    switch (one->which) {
    case BARRIER:
        FORM(Barrier, comm);
        break;
    case BCAST:
        FORM(Bcast, into, n, type, root, comm);
        break;
    case GATHER:
        FORM(Gather, from, n, type, into, n, type, root, comm);
        break;
    case GATHERV:
        FORM(Gatherv, from, n, type, into, counts, places, type, root, comm);
        break;
    case SCATTER:
        FORM(Scatter, from, n, type, into, n, type, root, comm);
        break;
    case SCATTERV:
        FORM(Scatterv, from, counts, places, type, into, n, type, root, comm);
        break;
    case ALLGATHER:
        FORM(Allgather, from, n, type, into, n, type, comm);
        break;
    case ALLGATHER_IN_PLACE:
        FORM(Allgather, MPI_IN_PLACE, 0, type, into, n, type, comm);
        break;
    case ALLGATHERV:
        FORM(Allgatherv, from, n, type, into, counts, places, type, comm);
        break;
    case ALLTOALL:
        FORM(Alltoall, from, n, type, into, n, type, comm);
        break;
    case ALLTOALL_IN_PLACE:
        FORM(Alltoall, MPI_IN_PLACE, 0, type, into, n, type, comm);
        break;
    case ALLTOALLV:
        FORM(Alltoallv, from, counts, places, type, into, counts, places, type, comm);
        break;
    case REDUCE:
        FORM(Reduce, from, into, n, MPI_INT, MPI_SUM, root, comm);
        break;
    case ALLREDUCE:
        FORM(Allreduce, from, into, n, MPI_INT, MPI_SUM, comm);
        break;
    case ALLREDUCE_IN_PLACE:
        FORM(Allreduce, MPI_IN_PLACE, into, n, MPI_INT, MPI_SUM, comm);
        break;
    case REDUCE_SCATTER_BLOCK:
        FORM(Reduce_scatter_block, from, into, n, MPI_INT, MPI_SUM, comm);
        break;
    case REDUCE_SCATTER:
        FORM(Reduce_scatter, from, into, counts, MPI_INT, MPI_SUM, comm);
        break;
    case SCAN:
        FORM(Scan, from, into, n, MPI_INT, MPI_SUM, comm);
        break;
    case EXSCAN:
        FORM(Exscan, from, into, n, MPI_INT, MPI_SUM, comm);
        break;
    case OPERATIONS:
        break;
    }
}

/* Reductions work on the integers themselves. */
static int is_reduction(enum operation which)
{
    return which >= REDUCE;
}

/* Fills this rank's contribution to a round. */
static void bring(struct one *one, int round)
{
    int *buffer = one->which == BCAST || one->which == ALLGATHER_IN_PLACE || one->which == ALLTOALL_IN_PLACE ||
                          one->which == ALLREDUCE_IN_PLACE
                      ? one->into
                      : one->from;
    size_t items = (size_t)one->length * one->stride * (has_blocks(one->which) ? one->size : 1);
    memset(one->into, 0x55, items * sizeof(int));
    switch (one->which) {
    case BCAST:
        if (one->me == one->root)
            put(one, buffer, 0, 0, round);
        break;
    case ALLGATHER_IN_PLACE:
        put(one, buffer, one->me, 0, round);
        break;
    case SCATTER:
    case SCATTERV:
    case ALLTOALL:
    case ALLTOALL_IN_PLACE:
    case ALLTOALLV:
    case REDUCE_SCATTER_BLOCK:
    case REDUCE_SCATTER:
        for (int to = 0; to < one->size; to++)
            put(one, buffer, to, to, round);
        break;
    default:
        put(one, buffer, 0, 0, round);
    }
}

static void expect(const struct one *one, int block, int found_at, int expected)
{
    int found = one->into[((size_t)block * one->length + found_at) * one->stride];
    CHECK(found == expected, "operation %d of %d elements: element %d of block %d is %d instead of %d", (int)one->which,
          one->length, found_at, block, found, expected);
}

/* Checks this rank's results of a round. */
static void look(const struct one *one, int round)
{
    int me = one->me, size = one->size, is_root = me == one->root;
    for (int at = 0; at < one->length; at++)
        switch (one->which) {
        case BCAST:
            expect(one, 0, at, given(one, one->root, 0, at, round));
            break;
        case SCATTER:
        case SCATTERV:
            expect(one, 0, at, given(one, one->root, me, at, round));
            break;
        case GATHER:
        case GATHERV:
        case ALLGATHER:
        case ALLGATHER_IN_PLACE:
        case ALLGATHERV:
            for (int who = 0; who < size && (is_root || one->which > SCATTERV); who++)
                expect(one, who, at, given(one, who, 0, at, round));
            break;
        case ALLTOALL:
        case ALLTOALL_IN_PLACE:
        case ALLTOALLV:
            for (int who = 0; who < size; who++)
                expect(one, who, at, given(one, who, me, at, round));
            break;
        case REDUCE:
        case ALLREDUCE:
        case ALLREDUCE_IN_PLACE:
            if (is_root || one->which != REDUCE)
                expect(one, 0, at, sum_of(one, size, 0, at, round));
            break;
        case REDUCE_SCATTER_BLOCK:
        case REDUCE_SCATTER:
            expect(one, 0, at, sum_of(one, size, me, at, round));
            break;
        case SCAN:
            expect(one, 0, at, sum_of(one, me + 1, 0, at, round));
            break;
        case EXSCAN:
            if (me > 0)
                expect(one, 0, at, sum_of(one, me, 0, at, round));
            break;
        default:
            break;
        }
}

/* Completes one request: by a wait, or by tests. */
static void complete(MPI_Request *request, int by_looking)
{
    int done = 0;
    for (int looks = 0; by_looking && !done && looks < PATIENCE; looks++)
        MPI_Test(request, &done, MPI_STATUS_IGNORE);
    MPI_Wait(request, MPI_STATUS_IGNORE);
}

/* All operations are active at once. Each rank starts them in another order, waits for them in another, and
 * calls others in between. */
static void all_at_once(MPI_Comm comm, int length, int stride, MPI_Datatype type)
{
    struct one all[OPERATIONS];
    int me;
    MPI_Comm_rank(comm, &me);
    for (int at = 0; at < OPERATIONS; at++) {
        create(&all[at], at, length, is_reduction(at) ? 1 : stride, is_reduction(at) ? MPI_INT : type, comm);
        call(&all[at], 0);
    }
    for (int round = 0; round < (length > 1000 ? 4 : ROUNDS); round++) {
        int number = me == 0 ? round : -1, one = 1, sum = 0;
        MPI_Request among;
        for (int at = 0; at < OPERATIONS; at++)
            bring(&all[at], round);
        for (int i = 0; i < OPERATIONS; i++) {
            MPI_Start(&all[(i + me * 5 + round * 3) % OPERATIONS].request);
            if (i == 3)
                MPI_Bcast(&number, 1, MPI_INT, 0, comm);
            if (i == 6)
                MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm, &among);
            if (i == 9)
                MPI_Barrier(comm);
        }
        for (int i = 0; i < OPERATIONS; i++)
            complete(&all[(i * 7 + me * 3 + round) % OPERATIONS].request, (i + me) % 3 == 0);
        MPI_Wait(&among, MPI_STATUS_IGNORE);
        CHECK(number == round && sum == all[0].size, "the others: %d, %d", number, sum);
        for (int at = 0; at < OPERATIONS; at++)
            look(&all[at], round);
    }
    for (int i = 0; i < OPERATIONS; i++) {
        struct one *one = &all[(i + me) % OPERATIONS];
        MPI_Request_free(&one->request);
        destroy(one);
    }
}

static void each_length(void)
{
    MPI_Datatype spread;
    MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &spread);
    MPI_Type_commit(&spread);
    for (int at = 0; at < LENGTHS; at++) {
        STORY("all at once, of all lengths");
        all_at_once(MPI_COMM_WORLD, lengths[at], 1, MPI_INT);
        STORY("all at once, of all lengths, with gaps");
        all_at_once(MPI_COMM_WORLD, lengths[at], 2, spread);
    }
    MPI_Type_free(&spread);
}

/* More operations than have memory of their own; all ranks must agree on which have it. Each rank frees them
 * in an order of its own. */
static void many_at_once(void)
{
    STORY("many at once");
    static struct one all[MANY];
    for (int again = 0; again < 2; again++) {
        for (int at = 0; at < MANY; at++) {
            create(&all[at], at % 3 ? ALLREDUCE : BCAST, at % 5 ? 3 : 5000, 1, MPI_INT, MPI_COMM_WORLD);
            call(&all[at], 0);
        }
        for (int round = 0; round < 5; round++) {
            for (int at = 0; at < MANY; at++)
                bring(&all[at], round);
            for (int at = 0; at < MANY; at++)
                MPI_Start(&all[(at * 7 + rank * 11) % MANY].request);
            for (int at = 0; at < MANY; at++)
                complete(&all[(at * 13 + rank) % MANY].request, 0);
            for (int at = 0; at < MANY; at++)
                look(&all[at], round);
        }
        for (int at = 0; at < MANY; at++) {
            MPI_Request_free(&all[(at * 17 + rank * 5) % MANY].request);
            destroy(&all[(at * 17 + rank * 5) % MANY]);
        }
    }
}

/* Each operation gets the memory of another, as soon as no rank reads there. */
static void made_and_freed(void)
{
    STORY("made and freed again and again");
    struct one kept, one;
    create(&kept, ALLREDUCE, 2, 1, MPI_INT, MPI_COMM_WORLD);
    call(&kept, 0);
    for (int again = 0; again < OFTEN; again++) {
        create(&one, again % 2 ? BCAST : ALLGATHER, again % 7 ? 4 : 3000, 1, MPI_INT, MPI_COMM_WORLD);
        call(&one, 0);
        for (int round = 0; round < again % 4; round++) {
            bring(&one, round);
            bring(&kept, round);
            MPI_Start(rank % 2 ? &one.request : &kept.request);
            MPI_Start(rank % 2 ? &kept.request : &one.request);
            MPI_Wait(&one.request, MPI_STATUS_IGNORE);
            MPI_Wait(&kept.request, MPI_STATUS_IGNORE);
            look(&one, round);
            look(&kept, round);
        }
        MPI_Request_free(&one.request);
        destroy(&one);
    }
    MPI_Request_free(&kept.request);
    destroy(&kept);
}

/* The root is done with each operation as soon as there is room, whether or not another rank has come. */
static void root_runs_ahead(void)
{
    STORY("the root runs ahead of a late rank");
    for (int length = 2; length <= 2002; length += 2000) {
        struct one one;
        create(&one, BCAST, length, 1, MPI_INT, MPI_COMM_WORLD);
        call(&one, 0);
        if (rank == ranks - 1)
            usleep(50000);
        for (int round = 0; round < AHEAD; round++) {
            bring(&one, round);
            MPI_Start(&one.request);
            complete(&one.request, round % 2);
            look(&one, round);
        }
        MPI_Request_free(&one.request);
        destroy(&one);
    }
}

/* The communicator is freed first: the operations go on (MPI-5.0 §7.4.3). Meanwhile others have its numbers,
 * and its memory. */
static void communicator_freed_first(void)
{
    STORY("the communicator is freed first");
    struct one all[3];
    for (int at = 0; at < 3; at++) {
        MPI_Comm comm;
        MPI_Comm_split(MPI_COMM_WORLD, at ? rank % at : 0, -rank, &comm);
        create(&all[at], ALLREDUCE, 10, 1, MPI_INT, comm);
        call(&all[at], 0);
        MPI_Comm_free(&comm);
    }
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < 3; i++) {
            struct one *one = &all[(i + round) % 3];
            bring(one, round);
            MPI_Start(&one->request);
            MPI_Wait(&one->request, MPI_STATUS_IGNORE);
            look(one, round);
        }
    for (int at = 0; at < 3; at++) {
        MPI_Request_free(&all[at].request);
        destroy(&all[at]);
    }
}

/* The left operand where it is not 0: the result is that of the lowest rank that has one. */
static void first(void *left, void *right, int *count, MPI_Datatype *type)
{
    (void)type;
    for (int at = 0; at < *count; at++)
        if (((int *)left)[at])
            ((int *)right)[at] = ((int *)left)[at];
}

static void operation_of_the_program(void)
{
    STORY("an operation of the program, in the order of ranks");
    MPI_Op op;
    MPI_Op_create(first, 0, &op);
    int mine[40], result[40];
    MPI_Request request;
    MPI_Allreduce_init(mine, result, 40, MPI_INT, op, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    /* The operation keeps what it needs of the handle. */
    MPI_Op_free(&op);
    for (int round = 0; round < ROUNDS; round++) {
        for (int at = 0; at < 40; at++)
            mine[at] = rank < at % ranks ? 0 : 1000 * round + rank + 1;
        MPI_Start(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        for (int at = 0; at < 40; at++)
            CHECK_EQUAL(result[at], 1000 * round + at % ranks + 1);
    }
    MPI_Request_free(&request);
}

/* The counter of this name; a null handle where the library is another and has none. */
static MPI_T_pvar_handle counter_if_any(const char *name)
{
    return is_variable(name, MPI_T_PVAR_CLASS_COUNTER) ? counter(name) : MPI_T_PVAR_HANDLE_NULL;
}

/* A persistent operation sends no more messages than a blocking one: none where the data goes through memory
 * of the host. A rank that has nothing more to do for others once it has started is not woken by its
 * neighbours. */
static void what_they_send(void)
{
    STORY("they send what blocking ones send");
    open_counters();
    MPI_T_pvar_handle watched = counter_if_any("waiting_watches"), sent = counter_if_any("messages_sent");
    int counts_watches = watched != MPI_T_PVAR_HANDLE_NULL;
    if (sent != MPI_T_PVAR_HANDLE_NULL) {
        for (int which = 0; which < OPERATIONS; which++)
            for (int length = 2; length <= 2002; length += 1000) {
                struct one one;
                create(&one, which, length, 1, MPI_INT, MPI_COMM_WORLD);
                call(&one, 0);
                MPI_Barrier(MPI_COMM_WORLD);
                long long before = (long long)counted(sent);
                for (int round = 0; round < COUNTED; round++)
                    call(&one, 1);
                long long blocking = (long long)counted(sent) - before;
                long long watches = counts_watches ? (long long)counted(watched) : 0;
                before = (long long)counted(sent);
                for (int round = 0; round < COUNTED; round++) {
                    MPI_Start(&one.request);
                    MPI_Wait(&one.request, MPI_STATUS_IGNORE);
                }
                long long persistent = (long long)counted(sent) - before;
                watches = (counts_watches ? (long long)counted(watched) : 0) - watches;
                /* A message may leave after the call that made it: one more message of each operation would
                 * be COUNTED more. */
                CHECK(persistent < blocking + COUNTED, "operation %d of %d elements: %lld messages, and %lld by blocking ones", which, length,
                      persistent, blocking);
                int one_phase = length == 2 && (which == ALLGATHER || which == ALLTOALL);
                CHECK(!one_phase || blocking > 0 || watches == 0, "operation %d: neighbours were told to wake %lld times", which,
                      watches);
                MPI_Request_free(&one.request);
                destroy(&one);
            }
    }
    close_counters();
}

/* Agreements on memory meet each other here. */
static void *in_thread(void *comm)
{
    for (int again = 0; again < 10; again++) {
        struct one one;
        create(&one, again % 2 ? ALLREDUCE : ALLTOALL, again % 3 ? 4 : 3000, 1, MPI_INT, *(MPI_Comm *)comm);
        call(&one, 0);
        for (int round = 0; round < ROUNDS; round++) {
            bring(&one, round);
            MPI_Start(&one.request);
            MPI_Wait(&one.request, MPI_STATUS_IGNORE);
            look(&one, round);
        }
        MPI_Request_free(&one.request);
        destroy(&one);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    CHECK_EQUAL(begin_threads(&argc, &argv), MPI_THREAD_MULTIPLE);
    each_length();
    many_at_once();
    made_and_freed();
    root_runs_ahead();
    communicator_freed_first();
    operation_of_the_program();
    what_they_send();
    STORY("a communicator for each thread");
    in_each_thread(in_thread);
    return end();
}
