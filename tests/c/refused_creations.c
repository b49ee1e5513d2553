/* Collective calls in which one process cannot do its part: its arguments are wrong, or a callback of the
 * program fails. Every process hears of it, by an error of the same class. No process gets an object, none
 * waits for ever, and the communicator goes on. There is a row for each call that makes something of a
 * communicator or a group, and for those that end a window; each rank is the failing one in some of them. */
#include "check.h"

static MPI_Comm parent, grid, inter, new_comm, other_comm;
static MPI_Win win, new_win;
static MPI_Group everybody;
static MPI_Info freed_info;
static int bad, zero, one = 1, far = 99, keyval, win_keyval, exposed[4];
static void *base;

static int fails(void)
{
    return rank == bad;
}

static int copy_fails(MPI_Comm comm, int key, void *extra, void *in, void *out, int *flag)
{
    (void)comm, (void)key, (void)extra, (void)in, (void)out;
    *flag = 0;
    return fails() ? MPI_ERR_OTHER : MPI_SUCCESS;
}

static int delete_fails(MPI_Win which, int key, void *value, void *extra)
{
    (void)which, (void)key, (void)value, (void)extra;
    return fails() ? MPI_ERR_OTHER : MPI_SUCCESS;
}

static MPI_Info info(void)
{
    return fails() ? freed_info : MPI_INFO_NULL;
}

/* A nonblocking duplication: a process that cannot do its part hears of that at once, the others when they
 * wait. */
static int duplicate(MPI_Info with, int is_plain)
{
    MPI_Request request = MPI_REQUEST_NULL;
    int code = is_plain ? MPI_Comm_idup(parent, &new_comm, &request) : MPI_Comm_idup_with_info(parent, with, &new_comm, &request);
    code = code != MPI_SUCCESS ? code : MPI_Wait(&request, MPI_STATUS_IGNORE);
    /* The handle is there before the communicator is, and means nothing after an error. */
    new_comm = MPI_COMM_NULL;
    return code;
}

static int dup_attributes(void)
{
    MPI_Comm_set_attr(parent, keyval, NULL);
    int code = MPI_Comm_dup(parent, &new_comm);
    MPI_Comm_delete_attr(parent, keyval);
    return code;
}

static int idup_attributes(void)
{
    MPI_Comm_set_attr(parent, keyval, NULL);
    int code = duplicate(MPI_INFO_NULL, 1);
    MPI_Comm_delete_attr(parent, keyval);
    return code;
}

static int dup_info(void)
{
    return MPI_Comm_dup_with_info(parent, info(), &new_comm);
}

static int idup_info(void)
{
    return duplicate(info(), 0);
}

static int create(void)
{
    return MPI_Comm_create(parent, fails() ? MPI_GROUP_NULL : everybody, &new_comm);
}

static int split(void)
{
    return MPI_Comm_split(parent, fails() ? -5 : 0, 0, &new_comm);
}

static int split_type(void)
{
    return MPI_Comm_split_type(parent, fails() ? -77 : MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &new_comm);
}

static int split_type_info(void)
{
    return MPI_Comm_split_type(parent, MPI_COMM_TYPE_SHARED, 0, info(), &new_comm);
}

static int split_type_unguided(void)
{
    return MPI_Comm_split_type(parent, MPI_COMM_TYPE_HW_UNGUIDED, 0, info(), &new_comm);
}

static int cart(void)
{
    int size = fails() ? ranks + 1 : ranks;
    return MPI_Cart_create(parent, 1, &size, &zero, 0, &new_comm);
}

static int cart_sub(void)
{
    return MPI_Cart_sub(grid, fails() ? NULL : &one, &new_comm);
}

static int graph(void)
{
    int edge = fails() ? ranks + 5 : 0;
    return MPI_Graph_create(parent, 1, &one, &edge, 0, &new_comm);
}

static int dist_graph(void)
{
    return MPI_Dist_graph_create(parent, 1, &rank, &one, fails() ? &far : &zero, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &new_comm);
}

static int dist_graph_adjacent(void)
{
    return MPI_Dist_graph_create_adjacent(parent, 0, NULL, MPI_UNWEIGHTED, 1, fails() ? &far : &zero, MPI_UNWEIGHTED, MPI_INFO_NULL,
                                          0, &new_comm);
}

static int inter_create(void)
{
    return MPI_Comm_create(inter, fails() ? MPI_GROUP_NULL : MPI_GROUP_EMPTY, &new_comm);
}

static int inter_split(void)
{
    return MPI_Comm_split(inter, fails() ? -5 : 0, 0, &new_comm);
}

static int inter_dup(void)
{
    return MPI_Comm_dup_with_info(inter, info(), &new_comm);
}

/* Two groups, of which one has a rank that does not know its leader: the leaders are other ranks, where there
 * are enough. */
static int meet(void)
{
    MPI_Comm half;
    int is_second = rank >= ranks / 2, own_rank, code;
    MPI_Comm_split(parent, is_second, 0, &half);
    MPI_Comm_set_errhandler(half, MPI_ERRORS_RETURN);
    MPI_Comm_rank(half, &own_rank);
    code = MPI_Intercomm_create(half, fails() ? far : 0, parent, is_second ? 0 : ranks / 2, 3, &new_comm);
    MPI_Comm_free(&half);
    return code;
}

static int from_group(void)
{
    return MPI_Comm_create_from_group(everybody, "weft://tests/refused", MPI_INFO_NULL,
                                      fails() ? MPI_ERRHANDLER_NULL : MPI_ERRORS_RETURN, &new_comm);
}

static int win_create(void)
{
    return MPI_Win_create(exposed, sizeof exposed, fails() ? -1 : 1, MPI_INFO_NULL, parent, &new_win);
}

static int win_create_info(void)
{
    return MPI_Win_create(exposed, sizeof exposed, 1, info(), parent, &new_win);
}

static int win_allocate(void)
{
    return MPI_Win_allocate(sizeof exposed, 1, info(), parent, &base, &new_win);
}

static int win_dynamic(void)
{
    return MPI_Win_create_dynamic(info(), parent, &new_win);
}

/* More memory than a node has addresses for: ranks of the other node hear of it, too. */
static int win_too_large(void)
{
    return MPI_Win_allocate(fails() ? INT64_C(1) << 62 : 4, 1, MPI_INFO_NULL, parent, &base, &new_win);
}

static int free_locked(void)
{
    if (fails())
        MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
    int code = MPI_Win_free(&win);
    if (fails())
        CHECK_EQUAL(MPI_Win_unlock(rank, win), MPI_SUCCESS);
    return code;
}

static int free_attributes(void)
{
    MPI_Win_set_attr(win, win_keyval, NULL);
    int code = MPI_Win_free(&win);
    bad = -1;
    MPI_Win_delete_attr(win, win_keyval);
    return code;
}

static const struct row {
    const char *name;
    int (*call)(void);
    int class, ranks_min;
} rows[] = {
    {"MPI_Comm_dup, whose copy callback fails", dup_attributes, MPI_ERR_OTHER, 1},
    {"MPI_Comm_idup, whose copy callback fails", idup_attributes, MPI_ERR_OTHER, 1},
    {"MPI_Comm_dup_with_info", dup_info, MPI_ERR_INFO, 1},
    {"MPI_Comm_idup_with_info", idup_info, MPI_ERR_INFO, 1},
    {"MPI_Comm_create", create, MPI_ERR_GROUP, 1},
    {"MPI_Comm_split", split, MPI_ERR_ARG, 1},
    {"MPI_Comm_split_type", split_type, MPI_ERR_ARG, 1},
    {"MPI_Comm_split_type with an info", split_type_info, MPI_ERR_INFO, 1},
    {"MPI_Comm_split_type unguided", split_type_unguided, MPI_ERR_INFO, 1},
    {"MPI_Cart_create", cart, MPI_ERR_DIMS, 1},
    {"MPI_Cart_sub", cart_sub, MPI_ERR_ARG, 1},
    {"MPI_Graph_create", graph, MPI_ERR_ARG, 1},
    {"MPI_Dist_graph_create", dist_graph, MPI_ERR_RANK, 1},
    {"MPI_Dist_graph_create_adjacent", dist_graph_adjacent, MPI_ERR_RANK, 1},
    {"MPI_Comm_create of an intercommunicator", inter_create, MPI_ERR_GROUP, 2},
    {"MPI_Comm_split of an intercommunicator", inter_split, MPI_ERR_ARG, 2},
    {"MPI_Comm_dup_with_info of an intercommunicator", inter_dup, MPI_ERR_INFO, 2},
    {"MPI_Intercomm_create", meet, -1, 4},
    {"MPI_Comm_create_from_group", from_group, MPI_ERR_ERRHANDLER, 1},
    {"MPI_Win_create", win_create, MPI_ERR_DISP, 1},
    {"MPI_Win_create with an info", win_create_info, MPI_ERR_INFO, 1},
    {"MPI_Win_allocate", win_allocate, MPI_ERR_INFO, 1},
    {"MPI_Win_allocate of too much", win_too_large, MPI_ERR_SIZE, 1},
    {"MPI_Win_create_dynamic", win_dynamic, MPI_ERR_INFO, 1},
    {"MPI_Win_free of a window that is locked", free_locked, MPI_ERR_RMA_SYNC, 1},
    {"MPI_Win_free, whose delete callback fails", free_attributes, MPI_ERR_OTHER, 1},
};

enum { ROWS = sizeof rows / sizeof *rows };

static void each_call(void)
{
    for (int at = 0; at < ROWS; at++) {
        const struct row *row = &rows[at];
        if (ranks < row->ranks_min)
            continue;
        STORY(row->name);
        /* A rank of the two groups that leads none. */
        bad = row->call == meet ? ranks - 1 : at % ranks;
        new_comm = MPI_COMM_NULL;
        new_win = MPI_WIN_NULL;
        int code = row->call(), class, highest, lowest;
        MPI_Error_class(code, &class);
        MPI_Allreduce(&class, &highest, 1, MPI_INT, MPI_MAX, parent);
        MPI_Allreduce(&class, &lowest, 1, MPI_INT, MPI_MIN, parent);
        CHECK(class != MPI_SUCCESS, "it was successful at this rank, though not at rank %d", bad);
        if (row->class >= 0) {
            CHECK_EQUAL(class, row->class);
            CHECK(highest == lowest, "classes from %d to %d", lowest, highest);
        }
        CHECK(new_comm == MPI_COMM_NULL && new_win == MPI_WIN_NULL, "there is an object after an error");
    }
}

/* A fence that one rank may not make: it meets the others all the same. */
static void fences(void)
{
    bad = ranks - 1;
    STORY("MPI_Win_fence with an assertion that means nothing");
    int code = MPI_Win_fence(fails() ? 0x7fff0000 : 0, win), class;
    MPI_Error_class(code, &class);
    CHECK_EQUAL(class, fails() ? MPI_ERR_ASSERT : MPI_SUCCESS);
    STORY("MPI_Win_fence in another epoch");
    CHECK_EQUAL(MPI_Win_fence(MPI_MODE_NOSUCCEED, win), MPI_SUCCESS);
    if (fails())
        MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
    MPI_Error_class(MPI_Win_fence(0, win), &class);
    CHECK_EQUAL(class, fails() ? MPI_ERR_RMA_SYNC : MPI_SUCCESS);
    if (fails())
        MPI_Win_unlock(rank, win);
    CHECK_EQUAL(MPI_Win_fence(MPI_MODE_NOSUCCEED, win), MPI_SUCCESS);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    MPI_Comm half;
    MPI_Comm_dup(MPI_COMM_WORLD, &parent);
    MPI_Comm_set_errhandler(parent, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_group(parent, &everybody);
    MPI_Cart_create(parent, 1, &ranks, &zero, 0, &grid);
    MPI_Comm_set_errhandler(grid, MPI_ERRORS_RETURN);
    if (ranks > 1) {
        MPI_Comm_split(parent, rank % 2, 0, &half);
        MPI_Intercomm_create(half, 0, parent, 1 - rank % 2, 1, &inter);
        MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN);
        MPI_Comm_free(&half);
    }
    MPI_Win_create(exposed, sizeof exposed, 1, MPI_INFO_NULL, parent, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    MPI_Comm_create_keyval(copy_fails, MPI_COMM_NULL_DELETE_FN, &keyval, NULL);
    MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, delete_fails, &win_keyval, NULL);
    MPI_Info_create(&freed_info);
    MPI_Info copy = freed_info;
    MPI_Info_free(&copy);

    fences();
    each_call();

    STORY("what is made afterwards works");
    bad = -1;
    CHECK_EQUAL(MPI_Comm_dup(parent, &other_comm), MPI_SUCCESS);
    int sum = 0;
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, other_comm);
    CHECK_EQUAL(sum, ranks);
    MPI_Comm_free(&other_comm);
    CHECK_EQUAL(MPI_Win_free(&win), MPI_SUCCESS);
    CHECK(win == MPI_WIN_NULL, "the window is freed");
    if (ranks > 1)
        MPI_Comm_free(&inter);
    MPI_Comm_free(&grid);
    MPI_Comm_free(&parent);
    MPI_Group_free(&everybody);
    return end();
}
