/* A process is gone in an epoch of a window: no rank waits for it for ever.
 *
 * `window_dies killed WAY MEMORY`, such as `window_dies killed MPI_Win_fence created`: the last rank is
 * killed while the others are in the epoch, or come to it. The launcher ends the job with the signal of that
 * rank.
 *
 * `window_dies gone MEMORY`: the ranks of the second half send nothing more. Those of the first half come to
 * each epoch with them, each in a window of its own, and each epoch ends with an error. The job then ends
 * with code 42. */
#include "check.h"

enum { HEARD = 42, FOREVER_SECONDS = 40, GOOD_ROUNDS = 3, CELLS = 2000 };

enum way { FENCE, COMPLETE, WAIT, UNLOCK, LOCK_ALL, FLUSH, GET, FETCH, REQUEST, FREE, WAYS };

static const char *const ways[WAYS] = {"MPI_Win_fence",  "MPI_Win_complete", "MPI_Win_wait",     "MPI_Win_unlock", "MPI_Win_unlock_all",
                                       "MPI_Win_flush",  "MPI_Get",          "MPI_Fetch_and_op", "MPI_Rget",       "MPI_Win_free"};

static int cells[CELLS];

/* Computes outside of MPI. */
static void compute_for_ever(void)
{
    for (int second = 0; second < FOREVER_SECONDS; second++)
        sleep(1);
}

static MPI_Win window(MPI_Comm comm, int is_allocated)
{
    MPI_Win win;
    int *base;
    if (is_allocated)
        MPI_Win_allocate(sizeof cells, sizeof(int), MPI_INFO_NULL, comm, &base, &win);
    else
        MPI_Win_create(cells, sizeof cells, sizeof(int), MPI_INFO_NULL, comm, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    return win;
}

static int first_of(int one, int other)
{
    return one != MPI_SUCCESS ? one : other;
}

/* An epoch of the last rank with all others: they act on it, or it acts on them. */
static int by_groups(MPI_Win win, int acts)
{
    static int from[CELLS];
    int last = ranks - 1, code;
    MPI_Group everybody, others;
    MPI_Win_get_group(win, &everybody);
    if (rank == last)
        MPI_Group_excl(everybody, 1, &last, &others);
    else
        MPI_Group_incl(everybody, 1, &last, &others);
    if (acts) {
        code = MPI_Win_start(others, 0, win);
        for (int target = rank == last ? 0 : last; code == MPI_SUCCESS && target < (rank == last ? last : ranks); target++)
            code = MPI_Put(from, CELLS, MPI_INT, target, 0, CELLS, MPI_INT, win);
        code = first_of(code, MPI_Win_complete(win));
    } else {
        code = MPI_Win_post(others, 0, win);
        code = first_of(code, MPI_Win_wait(win));
    }
    MPI_Group_free(&others);
    MPI_Group_free(&everybody);
    return code;
}

/* One epoch: ranks before `actors` act, and the others are their targets. Returns the code of the first call
 * that failed. */
static int epoch(enum way way, MPI_Win *win, int actors)
{
    static int from[CELLS], into[CELLS], one = 1;
    int is_actor = rank < actors, peer = (rank + ranks / 2) % ranks, code = MPI_SUCCESS, last = ranks - 1;
    MPI_Request request;
    if (is_actor && peer < actors)
        peer = last;
    switch (way) {
    case FENCE:
        code = first_of(code, MPI_Win_fence(0, *win));
        if (is_actor && code == MPI_SUCCESS)
            code = MPI_Put(from, CELLS, MPI_INT, peer, 0, CELLS, MPI_INT, *win);
        return first_of(code, MPI_Win_fence(MPI_MODE_NOSUCCEED, *win));
    case COMPLETE:
        return by_groups(*win, rank != last);
    case WAIT:
        return by_groups(*win, rank == last);
    case UNLOCK:
        if (!is_actor)
            return MPI_SUCCESS;
        code = MPI_Win_lock(MPI_LOCK_EXCLUSIVE, peer, 0, *win);
        if (code == MPI_SUCCESS)
            code = MPI_Put(from, CELLS, MPI_INT, peer, 0, CELLS, MPI_INT, *win);
        return first_of(code, MPI_Win_unlock(peer, *win));
    case FREE:
        return MPI_Win_free(win);
    default:
        break;
    }
    if (!is_actor)
        return MPI_SUCCESS;
    code = MPI_Win_lock_all(0, *win);
    if (code == MPI_SUCCESS)
        switch (way) {
        case FLUSH:
            code = MPI_Put(from, CELLS, MPI_INT, peer, 0, CELLS, MPI_INT, *win);
            break;
        case GET:
        case LOCK_ALL:
            code = MPI_Get(into, CELLS, MPI_INT, peer, 0, CELLS, MPI_INT, *win);
            break;
        case FETCH:
            code = MPI_Fetch_and_op(&one, into, MPI_INT, peer, 0, MPI_SUM, *win);
            break;
        default:
            code = MPI_Rget(into, CELLS, MPI_INT, peer, 0, CELLS, MPI_INT, *win, &request);
            if (code == MPI_SUCCESS)
                code = MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
    if (code == MPI_SUCCESS && way != LOCK_ALL)
        code = MPI_Win_flush(peer, *win);
    return first_of(code, MPI_Win_unlock_all(*win));
}

static void killed(enum way way, int is_allocated)
{
    STORY(ways[way]);
    MPI_Win win = window(MPI_COMM_WORLD, is_allocated);
    for (int round = 0; round < GOOD_ROUNDS && way != FREE; round++) {
        CHECK_EQUAL(epoch(way, &win, ranks - 1), MPI_SUCCESS);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    if (rank == ranks - 1) {
        /* The others have begun by then, and wait. */
        usleep(10000);
        raise(SIGKILL);
    }
    epoch(way, &win, ranks - 1);
    /* Some epochs are complete without the last rank: the ranks that need it here are told, or ended. */
    MPI_Barrier(MPI_COMM_WORLD);
    compute_for_ever();
}

static void gone(int is_allocated)
{
    MPI_Comm side;
    MPI_Win wins[WAYS];
    MPI_Comm_split(MPI_COMM_WORLD, rank < ranks / 2, rank, &side);
    for (int way = 0; way < WAYS; way++)
        wins[way] = window(MPI_COMM_WORLD, is_allocated);
    /* The last rank takes this lock with it. */
    MPI_Win held = window(MPI_COMM_WORLD, is_allocated);
    if (rank == ranks - 1)
        CHECK_EQUAL(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, held), MPI_SUCCESS);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        printf("waiting\n");
        fflush(stdout);
    }
    if (rank >= ranks / 2)
        compute_for_ever();
    /* Only rank 0 has a reason to ask whether the last rank lives; it asks on behalf of those that wait for
     * the lock. */
    STORY("the lock of a process that is gone");
    if (rank == 1) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, held);
        MPI_Win_unlock(0, held);
    }
    MPI_Barrier(side);
    /* The ranks of the other half must be gone before the first epoch ends; they are when the suite takes
     * their network away. */
    for (int way = 0; way < WAYS; way++) {
        STORY(ways[way]);
        int code = MPI_SUCCESS;
        /* Until it is known that they are gone, passive accesses may be served. */
        while (code == MPI_SUCCESS)
            code = epoch((enum way)way, &wins[way], ranks / 2);
        CHECK_CLASS(code, MPI_ERR_PROC_ABORTED);
        printf("%s heard of it\n", ways[way]);
        fflush(stdout);
    }
    STORY("the end");
    MPI_Barrier(side);
    if (rank == 0)
        MPI_Abort(MPI_COMM_WORLD, failures ? 1 : HEARD);
    compute_for_ever();
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    int is_allocated = argc > 3 && !strcmp(argv[3], "allocated");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (argc > 2 && !strcmp(argv[1], "killed"))
        killed((enum way)place_of(argv[2], ways, WAYS), is_allocated);
    else
        gone(argc > 2 && !strcmp(argv[2], "allocated"));
    return 1;
}
