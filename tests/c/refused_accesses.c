/* Accesses that their targets refuse, because nothing is attached to the window there: every kind of access,
 * small and large, in one run and in many, closed by every call that closes an epoch. The origin hears of
 * each once, with MPI_ERR_RMA_RANGE: by the call itself, its request, or the call that ends the epoch. No
 * other rank hears of it, no rank waits for ever, and the accesses of others in the same epoch arrive
 * (MPI-5.0 §12.5, §12.6). Then datatypes whose descriptions are too long to travel in one piece, with targets
 * that exist and with targets that do not. */
#include "check.h"

enum { SMALL = 4, LARGE = 30000, BLOCKS = 300000, NOWHERE = 8 };

enum kind { PUT, GET, ACCUMULATE, GET_ACCUMULATE, FETCH, SWAP, RPUT, RGET, RACCUMULATE, RGET_ACCUMULATE, KINDS };

static const char *const kinds[KINDS] = {
    "MPI_Put",  "MPI_Get",  "MPI_Accumulate",  "MPI_Get_accumulate",  "MPI_Fetch_and_op", "MPI_Compare_and_swap",
    "MPI_Rput", "MPI_Rget", "MPI_Raccumulate", "MPI_Rget_accumulate",
};

enum closing { FENCE, COMPLETE, UNLOCK, UNLOCK_SHARED, UNLOCK_ALL, FLUSH, FLUSH_ALL, CLOSINGS };

static const char *const closings[CLOSINGS] = {
    "MPI_Win_fence",      "MPI_Win_complete", "MPI_Win_unlock",   "MPI_Win_unlock of a shared lock",
    "MPI_Win_unlock_all", "MPI_Win_flush",    "MPI_Win_flush_all",
};

static int from[BLOCKS], into[BLOCKS], one = 1, two = 2;
/* One cell for each rank; the window has their addresses. */
static int *cells;
static MPI_Aint *addresses;
static MPI_Win win;
static MPI_Group everybody;

/* Begins an access; returns the code of the call. */
static int start_access(enum kind kind, int target, MPI_Aint disp, int n, int count, MPI_Datatype type, MPI_Request *request)
{
    switch (kind) {
    case PUT:
        return MPI_Put(from, n, MPI_INT, target, disp, count, type, win);
    case GET:
        return MPI_Get(into, n, MPI_INT, target, disp, count, type, win);
    case ACCUMULATE:
        return MPI_Accumulate(from, n, MPI_INT, target, disp, count, type, MPI_SUM, win);
    case GET_ACCUMULATE:
        return MPI_Get_accumulate(from, n, MPI_INT, into, n, MPI_INT, target, disp, count, type, MPI_SUM, win);
    case FETCH:
        return MPI_Fetch_and_op(&one, into, MPI_INT, target, disp, MPI_SUM, win);
    case SWAP:
        return MPI_Compare_and_swap(&one, &two, into, MPI_INT, target, disp, win);
    case RPUT:
        return MPI_Rput(from, n, MPI_INT, target, disp, count, type, win, request);
    case RGET:
        return MPI_Rget(into, n, MPI_INT, target, disp, count, type, win, request);
    case RACCUMULATE:
        return MPI_Raccumulate(from, n, MPI_INT, target, disp, count, type, MPI_SUM, win, request);
    default:
        return MPI_Rget_accumulate(from, n, MPI_INT, into, n, MPI_INT, target, disp, count, type, MPI_SUM, win, request);
    }
}

static void open_epoch(enum closing closing, int target)
{
    switch (closing) {
    case FENCE:
        CHECK_EQUAL(MPI_Win_fence(0, win), MPI_SUCCESS);
        break;
    case COMPLETE:
        CHECK_EQUAL(MPI_Win_post(everybody, 0, win), MPI_SUCCESS);
        CHECK_EQUAL(MPI_Win_start(everybody, 0, win), MPI_SUCCESS);
        break;
    case UNLOCK:
    case UNLOCK_SHARED:
        CHECK_EQUAL(MPI_Win_lock(closing == UNLOCK ? MPI_LOCK_EXCLUSIVE : MPI_LOCK_SHARED, target, 0, win), MPI_SUCCESS);
        break;
    default:
        CHECK_EQUAL(MPI_Win_lock_all(0, win), MPI_SUCCESS);
    }
}

/* Returns the code of the call that must report the error; calls behind it have nothing more to report. */
static int close_epoch(enum closing closing, int target)
{
    int code;
    switch (closing) {
    case FENCE:
        return MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    case COMPLETE:
        code = MPI_Win_complete(win);
        CHECK_EQUAL(MPI_Win_wait(win), MPI_SUCCESS);
        return code;
    case UNLOCK:
    case UNLOCK_SHARED:
        return MPI_Win_unlock(target, win);
    case UNLOCK_ALL:
        return MPI_Win_unlock_all(win);
    case FLUSH:
    default:
        code = closing == FLUSH ? MPI_Win_flush(target, win) : MPI_Win_flush_all(win);
        CHECK_EQUAL(MPI_Win_unlock_all(win), MPI_SUCCESS);
        return code;
    }
}

/* One epoch of all ranks: each puts `value` into its cell at `target`, and `origin` makes an access there
 * that is refused. */
static void epoch(enum closing closing, enum kind kind, int n, int count, MPI_Datatype type, int origin, int target, int value)
{
    static char name[200];
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Aint disp = value % 2 ? addresses[target] + ranks * (MPI_Aint)sizeof(int) - 2 : NOWHERE;
    int called = MPI_SUCCESS, completed = MPI_SUCCESS, closed, own = value;
    snprintf(name, sizeof name, "%s of %d integers in %s, from %d to %d, closed by %s", kinds[kind], n,
             type == MPI_INT ? "one run" : "many", origin, target, closings[closing]);
    STORY(name);
    open_epoch(closing, target);
    CHECK_EQUAL(MPI_Put(&own, 1, MPI_INT, target, addresses[target] + rank * (MPI_Aint)sizeof(int), 1, MPI_INT, win), MPI_SUCCESS);
    if (rank == origin) {
        called = start_access(kind, target, disp, n, count, type, &request);
        if (request != MPI_REQUEST_NULL)
            completed = MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    closed = close_epoch(closing, target);
    if (rank == origin) {
        int said = (called != MPI_SUCCESS) + (completed != MPI_SUCCESS) + (closed != MPI_SUCCESS);
        CHECK(said == 1, "the access was refused %d times: %d, %d, %d", said, called, completed, closed);
        CHECK_CLASS(called ? called : completed ? completed : closed, MPI_ERR_RMA_RANGE);
    } else {
        CHECK_EQUAL(closed, MPI_SUCCESS);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int other = 0; rank == target && other < ranks; other++)
        CHECK_EQUAL(cells[other], value);
    MPI_Barrier(MPI_COMM_WORLD);
}

static MPI_Datatype every_second(int blocks)
{
    int *places = malloc(blocks * sizeof(int));
    MPI_Datatype type;
    /* Not quite regular: as a vector it would be short to describe. */
    for (int block = 0; block < blocks; block++)
        places[block] = 2 * block + (block % 7 == 3);
    MPI_Type_create_indexed_block(blocks, 1, places, MPI_INT, &type);
    MPI_Type_commit(&type);
    free(places);
    return type;
}

static void each_kind_by_each_call(void)
{
    static const int sizes[] = {SMALL, LARGE};
    int value = 0;
    for (int size = 0; size < 2; size++) {
        MPI_Datatype many = every_second(sizes[size]);
        for (int closing = 0; closing < CLOSINGS; closing++)
            for (int kind = 0; kind < KINDS; kind++) {
                int is_single = kind == FETCH || kind == SWAP, n = is_single ? 1 : sizes[size];
                if ((kind >= RPUT && closing < UNLOCK) || (is_single && size > 0))
                    continue;
                for (int runs = 1; runs <= (is_single ? 1 : 2); runs++) {
                    int origin = ++value % ranks, target = value % 3 ? (origin + 1) % ranks : origin;
                    epoch(closing, kind, n, runs == 1 ? n : 1, runs == 1 ? MPI_INT : many, origin, target, value);
                }
            }
        MPI_Type_free(&many);
    }
}

/* The description of this datatype is longer than a target keeps of one: such an access travels in parts. */
static void long_descriptions(void)
{
    MPI_Datatype many = every_second(BLOCKS);
    MPI_Aint lowest, extent;
    MPI_Win whole, attached = win;
    MPI_Request request;
    int peer = (rank + 1) % ranks, wrong = 0, *base;
    MPI_Type_get_extent(many, &lowest, &extent);
    size_t cells_of_all = extent / sizeof(int);

    STORY("a long description, to memory that is there");
    base = malloc(extent);
    MPI_Win_create(base, extent, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &whole);
    MPI_Win_set_errhandler(whole, MPI_ERRORS_RETURN);
    win = whole;
    for (enum kind kind = PUT; kind < KINDS; kind++) {
        if (kind == FETCH || kind == SWAP)
            continue;
        int puts = kind != GET && kind != RGET, adds = puts && kind != PUT && kind != RPUT;
        int gets = !puts || kind == GET_ACCUMULATE || kind == RGET_ACCUMULATE;
        for (size_t cell = 0; cell < cells_of_all; cell++)
            base[cell] = rank;
        for (int block = 0; block < BLOCKS; block++)
            from[block] = 10 + block, into[block] = -1;
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Win_lock_all(0, win);
        request = MPI_REQUEST_NULL;
        CHECK_EQUAL(start_access(kind, peer, 0, BLOCKS, 1, many, &request), MPI_SUCCESS);
        CHECK_EQUAL(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_SUCCESS);
        if (kind >= RPUT)
            memset(from, 0xff, sizeof from); /* The request is complete: it is the program's again. */
        CHECK_EQUAL(MPI_Win_unlock_all(win), MPI_SUCCESS);
        MPI_Barrier(MPI_COMM_WORLD);
        for (int block = 0; block < BLOCKS; block++) {
            int here = 2 * block + (block % 7 == 3), beside = 2 * block + (block % 7 != 3);
            wrong += base[here] != (puts ? 10 + block + (adds ? rank : 0) : rank);
            wrong += (size_t)beside < cells_of_all && base[beside] != rank;
            wrong += gets && into[block] != peer;
        }
        CHECK(wrong == 0, "%d of %d wrong by %s", wrong, BLOCKS, kinds[kind]);
        wrong = 0;
    }
    MPI_Win_free(&whole);
    free(base);
    win = attached;

    for (enum kind kind = PUT; kind < KINDS; kind++)
        if (kind != FETCH && kind != SWAP)
            epoch(kind < RPUT ? FENCE : UNLOCK_ALL, kind, BLOCKS, 1, many, 0, ranks - 1, 1000 + 2 * kind);
    MPI_Type_free(&many);
}

/* Each refused access leaves the lock to the next rank that wants it. */
static void locks_are_given_back(void)
{
    STORY("everybody locks all targets, one after the other");
    for (int target = 0; target < ranks; target++) {
        CHECK_EQUAL(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, win), MPI_SUCCESS);
        CHECK_EQUAL(MPI_Win_unlock(target, win), MPI_SUCCESS);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    MPI_Comm_group(MPI_COMM_WORLD, &everybody);
    cells = calloc(ranks, sizeof(int));
    addresses = calloc(ranks, sizeof(MPI_Aint));
    MPI_Aint own;
    MPI_Get_address(cells, &own);
    MPI_Allgather(&own, 1, MPI_AINT, addresses, 1, MPI_AINT, MPI_COMM_WORLD);
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    CHECK_EQUAL(MPI_Win_attach(win, cells, ranks * sizeof(int)), MPI_SUCCESS);
    MPI_Barrier(MPI_COMM_WORLD);

    each_kind_by_each_call();
    locks_are_given_back();
    long_descriptions();
    locks_are_given_back();

    STORY("the window is freed");
    CHECK_EQUAL(MPI_Win_detach(win, cells), MPI_SUCCESS);
    CHECK_EQUAL(MPI_Win_free(&win), MPI_SUCCESS);
    MPI_Group_free(&everybody);
    free(cells);
    free(addresses);
    return end();
}
