/*
 * Chapter 12 of MPI 5.0, one-sided communications: windows themselves, and calls that are refused. The
 * operations are in window_access.c, the synchronization in window_epochs.c. Passes on any MPI library with
 * any number of ranks.
 */
#include "check.h"
#include <stddef.h>

enum { UNITS = 64 };

static MPI_Comm node; /* the ranks that can share memory with this one */
static int node_rank, node_ranks;

static int next_rank(void)
{
    return (rank + 1) % ranks;
}

static int rank_before(void)
{
    return (rank + ranks - 1) % ranks;
}

/* Sizes differ, and one rank has no memory in the window; units differ as well. */
static int unit_of(int which)
{
    return 1 << which % 4;
}

static MPI_Aint size_of(int which)
{
    return ranks > 1 && which == ranks - 1 ? 0 : UNITS * unit_of(which);
}

static void check_attributes(MPI_Win win, void *base, MPI_Aint size, int unit, int flavor)
{
    void *found = NULL;
    int flag = 0, *number = NULL;
    MPI_Aint *length = NULL;
    MPI_Win_get_attr(win, MPI_WIN_BASE, &found, &flag);
    CHECK(flag && (found == base || size == 0), "flag %d, base %p, expected %p", flag, found, base);
    MPI_Win_get_attr(win, MPI_WIN_SIZE, &length, &flag);
    CHECK(flag && length && *length == size, "flag %d, size %ld, expected %ld", flag, length ? (long)*length : -1L, (long)size);
    MPI_Win_get_attr(win, MPI_WIN_DISP_UNIT, &number, &flag);
    CHECK(flag && number && *number == unit, "flag %d, unit %d, expected %d", flag, number ? *number : -1, unit);
    number = NULL;
    MPI_Win_get_attr(win, MPI_WIN_CREATE_FLAVOR, &number, &flag);
    CHECK(flag && number && *number == flavor, "flag %d, flavor %d, expected %d", flag, number ? *number : -1, flavor);
    number = NULL;
    MPI_Win_get_attr(win, MPI_WIN_MODEL, &number, &flag);
    CHECK(flag && number && (*number == MPI_WIN_UNIFIED || *number == MPI_WIN_SEPARATE), "flag %d, model %d", flag, number ? *number : -1);
}

/* Each rank puts its number into a unit of each rank's window: displacements are counted in the target's
 * units. */
static void use_units(MPI_Win win, unsigned char *base)
{
    unsigned char mine = (unsigned char)(rank + 1);
    if (size_of(rank))
        memset(base, 0, (size_t)size_of(rank));
    MPI_Win_fence(0, win);
    for (int target = 0; target < ranks; target++)
        if (size_of(target))
            MPI_Put(&mine, 1, MPI_BYTE, target, 1 + rank % (UNITS - 1), 1, MPI_BYTE, win);
    MPI_Win_fence(0, win);
    for (int at = 0; at < size_of(rank); at++) {
        int from = at / unit_of(rank) - 1, expected = at % unit_of(rank) == 0 && from >= 0 && from < ranks ? from + 1 : 0;
        CHECK(base[at] == expected, "byte %d is %d, expected %d", at, base[at], expected);
    }
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
}

static void created(void)
{
    STORY("12.2.1 windows over memory of the program's own");
    MPI_Win win = MPI_WIN_NULL;
    unsigned char *base = size_of(rank) ? memory((size_t)size_of(rank)) : NULL;
    CHECK_EQUAL(MPI_Win_create(base, size_of(rank), unit_of(rank), MPI_INFO_NULL, MPI_COMM_WORLD, &win), MPI_SUCCESS);
    check_attributes(win, base, size_of(rank), unit_of(rank), MPI_WIN_FLAVOR_CREATE);
    use_units(win, base);
    MPI_Win_free(&win);
    CHECK(win == MPI_WIN_NULL, "not null after MPI_Win_free");
    MPI_Win_create_c(base, size_of(rank), unit_of(rank), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    check_attributes(win, base, size_of(rank), unit_of(rank), MPI_WIN_FLAVOR_CREATE);
    use_units(win, base);
    MPI_Win_free(&win);
    free(base); /* §12.2.5: the memory stays the program's */

    STORY("12.2.1 memory that several windows have, and a part of an array of which others have the rest");
    static int array[4];
    MPI_Win whole, half;
    int value = rank + 100;
    memset(array, 0, sizeof array);
    MPI_Win_create(array, sizeof array, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &whole);
    MPI_Win_create(array + 2, sizeof array / 2, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &half);
    MPI_Win_fence(0, whole);
    MPI_Put(&value, 1, MPI_INT, next_rank(), 1, 1, MPI_INT, whole);
    MPI_Win_fence(0, whole);
    MPI_Win_fence(0, half);
    MPI_Put(&value, 1, MPI_INT, next_rank(), 1, 1, MPI_INT, half);
    MPI_Win_fence(0, half);
    CHECK(array[1] == rank_before() + 100 && array[3] == array[1] && array[0] == 0 && array[2] == 0, "%d %d %d %d", array[0], array[1], array[2],
          array[3]);
    MPI_Win_free(&whole);
    MPI_Win_free(&half);

    STORY("12.2.1 a window where nobody has memory");
    MPI_Win_create(NULL, 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_fence(0, win);
    MPI_Put(&value, 0, MPI_INT, next_rank(), 0, 0, MPI_INT, win);
    MPI_Win_fence(0, win);
    MPI_Win_free(&win);
}

static void allocated(void)
{
    STORY("12.2.2 windows that allocate their memory");
    MPI_Win win;
    unsigned char *base = NULL;
    MPI_Win_allocate(size_of(rank), unit_of(rank), MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
    check_attributes(win, base, size_of(rank), unit_of(rank), MPI_WIN_FLAVOR_ALLOCATE);
    use_units(win, base);
    MPI_Win_free(&win);
    MPI_Win_allocate_c(size_of(rank), unit_of(rank), MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
    check_attributes(win, base, size_of(rank), unit_of(rank), MPI_WIN_FLAVOR_ALLOCATE);
    use_units(win, base);
    MPI_Win_free(&win);

    STORY("12.2.2 their memory is aligned as the info object asks"); /* §9.2 */
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "mpi_minimum_memory_alignment", "4096");
    MPI_Win_allocate(100, 1, info, MPI_COMM_WORLD, &base, &win);
    MPI_Info got;
    char value[20] = "";
    int room = sizeof value, found = 0;
    MPI_Win_get_info(win, &got);
    MPI_Info_get_string(got, "mpi_minimum_memory_alignment", &room, value, &found);
    CHECK(!found || (uintptr_t)base % (uintptr_t)atol(value) == 0, "%p, aligned to %s", (void *)base, value);
    if (!left_out("alignment"))
        CHECK((uintptr_t)base % _Alignof(max_align_t) == 0, "%p", (void *)base);
    MPI_Info_free(&got);
    MPI_Info_free(&info);
    MPI_Win_free(&win);

    STORY("12.2.2 windows of a part of the ranks, and of one");
    MPI_Comm some;
    int *number, value_of = rank, some_ranks, some_rank, got_value = -1;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &some);
    MPI_Comm_size(some, &some_ranks);
    MPI_Comm_rank(some, &some_rank);
    MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, some, &number, &win);
    MPI_Comm_free(&some); /* the window does not need it */
    MPI_Win_fence(0, win);
    MPI_Put(&value_of, 1, MPI_INT, (some_rank + 1) % some_ranks, 0, 1, MPI_INT, win);
    MPI_Win_fence(0, win);
    /* The keys were -rank: the one before is two ranks higher, or the lowest of the half. */
    CHECK_EQUAL(*number, some_rank == 0 ? rank % 2 : rank + 2);
    MPI_Win_free(&win);
    MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_SELF, &number, &win);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
    MPI_Put(&value_of, 1, MPI_INT, 0, 0, 1, MPI_INT, win);
    MPI_Win_flush(0, win);
    MPI_Get(&got_value, 1, MPI_INT, 0, 0, 1, MPI_INT, win);
    MPI_Win_unlock(0, win);
    CHECK(got_value == rank && *number == rank, "%d, %d", got_value, *number);
    MPI_Win_free(&win);
}

/* Every rank stores into the segment of the next rank of the node, and reads its own. */
static void use_shared(MPI_Win win, int *mine, int length)
{
    int *others = NULL, unit, next = (node_rank + 1) % node_ranks, before = (node_rank + node_ranks - 1) % node_ranks;
    MPI_Aint size;
    MPI_Win_lock_all(MPI_MODE_NOCHECK, win);
    MPI_Win_shared_query(win, next, &size, &unit, &others);
    for (int i = 0; i < (int)(size / (MPI_Aint)sizeof(int)); i++)
        others[i] = 1000 * node_rank + i;
    MPI_Win_sync(win);
    MPI_Barrier(node);
    MPI_Win_sync(win);
    for (int i = 0; i < length; i++)
        CHECK(mine[i] == 1000 * before + i, "%d is %d", i, mine[i]);
    MPI_Barrier(node);

    /* The same memory is accessed by operations. */
    int value = -1, there = 7 * node_rank;
    if (size) {
        MPI_Get(&value, 1, MPI_INT, next, 0, 1, MPI_INT, win);
        MPI_Win_flush(next, win);
        CHECK_EQUAL(value, 1000 * node_rank);
        MPI_Put(&there, 1, MPI_INT, next, 1, 1, MPI_INT, win);
        MPI_Win_flush(next, win);
        CHECK_EQUAL(others[1], there);
    }
    MPI_Barrier(node);
    if (length)
        CHECK_EQUAL(mine[1], 7 * before);
    MPI_Win_unlock_all(win);
}

static void shared(void)
{
    STORY("12.2.3 windows of shared memory: segments follow each other, and each process finds those of the others");
    MPI_Win win;
    MPI_Aint size = -1, large_unit = -1;
    int *mine = NULL, *others = NULL, *first = NULL, unit = -1, first_unit = -1;
    int length = node_rank == 1 ? 0 : 4 + 2 * node_rank;
    MPI_Win_allocate_shared(length * (MPI_Aint)sizeof(int), sizeof(int), MPI_INFO_NULL, node, &mine, &win);
    check_attributes(win, mine, length * (MPI_Aint)sizeof(int), sizeof(int), MPI_WIN_FLAVOR_SHARED);
    char *end = NULL;
    for (int other = 0; other < node_ranks; other++) {
        int expected = other == 1 ? 0 : 4 + 2 * other;
        MPI_Win_shared_query(win, other, &size, &unit, &others);
        CHECK(size == expected * (MPI_Aint)sizeof(int) && unit == sizeof(int), "rank %d: size %ld, unit %d", other, (long)size, unit);
        if (other == node_rank && length)
            CHECK(others == mine, "%p, own segment %p", (void *)others, (void *)mine);
        if (end && size)
            CHECK((char *)others == end, "rank %d is at %p, what is before ends at %p", other, (void *)others, (void *)end);
        if (size)
            end = (char *)others + size;
    }
    MPI_Win_shared_query(win, 0, &size, &unit, &others);
    MPI_Win_shared_query(win, MPI_PROC_NULL, &size, &first_unit, &first);
    CHECK(first == others && size == 4 * (MPI_Aint)sizeof(int) && first_unit == unit, "%p, %p, size %ld", (void *)first, (void *)others, (long)size);
    MPI_Win_shared_query_c(win, 0, &size, &large_unit, &others);
    CHECK(first == others && large_unit == sizeof(int) && size == 4 * (MPI_Aint)sizeof(int), "unit %ld, size %ld", (long)large_unit, (long)size);
    use_shared(win, mine, length);
    MPI_Win_free(&win);

    STORY("12.2.3 MPI_PROC_NULL finds the lowest rank that has memory; units are each segment's own");
    MPI_Win_allocate_shared(node_rank == node_ranks - 1 ? 64 : 0, 1 << node_rank % 5, MPI_INFO_NULL, node, &mine, &win);
    MPI_Win_shared_query(win, MPI_PROC_NULL, &size, &unit, &first);
    MPI_Win_shared_query(win, node_ranks - 1, &large_unit, &first_unit, &others);
    CHECK(first == others && size == 64 && large_unit == 64, "%p, %p, size %ld", (void *)first, (void *)others, (long)size);
    CHECK(unit == first_unit && unit == 1 << (node_ranks - 1) % 5, "unit %d, %d", unit, first_unit);
    for (int other = 0; other + 1 < node_ranks; other++) {
        MPI_Win_shared_query(win, other, &size, &unit, &others);
        CHECK(size == 0 && unit == 1 << other % 5, "rank %d: size %ld, unit %d", other, (long)size, unit);
    }
    MPI_Win_free(&win);

    STORY("12.2.3 a shared window where nobody has memory");
    MPI_Win_allocate_shared(0, 1, MPI_INFO_NULL, node, &mine, &win);
    MPI_Win_shared_query(win, MPI_PROC_NULL, &size, &unit, &first);
    CHECK_EQUAL(size, 0);
    MPI_Win_fence(0, win);
    MPI_Win_free(&win);

    STORY("12.2.3 segments that need not follow each other");
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "alloc_shared_noncontig", "true");
    MPI_Win_allocate_shared_c(5 * sizeof(int), sizeof(int), info, node, &mine, &win);
    CHECK((uintptr_t)mine % _Alignof(max_align_t) == 0, "%p", (void *)mine);
    use_shared(win, mine, 5);
    MPI_Win_free(&win);
    MPI_Info_free(&info);
}

/* §12.2.3: created and allocated windows may be shared too; where they are not, the size is 0. */
static void query_others(void)
{
    static int array[8];
    int *base;
    MPI_Win wins[2];
    MPI_Win_create(array, sizeof array, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &wins[0]);
    MPI_Win_allocate(8 * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &base, &wins[1]);
    for (int which = 0; which < 2; which++) {
        int *own = which ? base : array, *others = NULL, unit = 0, there = next_rank();
        STORY(which ? "12.2.3 segments of an allocated window are asked for" : "12.2.3 segments of a created window are asked for");
        own[0] = 50 + rank;
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Win_lock_all(0, wins[which]);
        MPI_Aint size = -1;
        CHECK_EQUAL(MPI_Win_shared_query(wins[which], there, &size, &unit, &others), MPI_SUCCESS);
        CHECK(size == 0 || size == 8 * (MPI_Aint)sizeof(int), "size %ld", (long)size);
        if (size) {
            MPI_Win_sync(wins[which]);
            CHECK(others[0] == 50 + there && unit == sizeof(int), "%d, unit %d", others[0], unit);
            others[1] = rank;
            MPI_Win_sync(wins[which]);
        } else {
            MPI_Put(&rank, 1, MPI_INT, there, 1, 1, MPI_INT, wins[which]);
        }
        MPI_Win_flush_all(wins[which]);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Win_sync(wins[which]);
        CHECK_EQUAL(own[1], rank_before());
        MPI_Win_unlock_all(wins[which]);
        MPI_Win_free(&wins[which]);
    }
}

static void dynamic(void)
{
    STORY("12.2.4 memory is attached to a window and detached, and its address is the displacement");
    enum { REGIONS = 3, LENGTH = 10 };
    static int regions[REGIONS][LENGTH];
    MPI_Win win;
    MPI_Aint here[REGIONS], there[REGIONS];
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    check_attributes(win, MPI_BOTTOM, 0, 1, MPI_WIN_FLAVOR_DYNAMIC);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < REGIONS; i++) {
            CHECK_EQUAL(MPI_Win_attach(win, regions[i], sizeof regions[i]), MPI_SUCCESS);
            MPI_Get_address(regions[i], &here[i]);
            memset(regions[i], 0, sizeof regions[i]);
        }
        MPI_Sendrecv(here, REGIONS, MPI_AINT, rank_before(), 1, there, REGIONS, MPI_AINT, next_rank(), 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Win_lock(MPI_LOCK_SHARED, next_rank(), 0, win);
        for (int i = 0; i < REGIONS; i++) {
            int value = 100 * rank + 10 * round + i, one = 1;
            MPI_Put(&value, 1, MPI_INT, next_rank(), MPI_Aint_add(there[i], 3 * sizeof(int)), 1, MPI_INT, win);
            MPI_Win_flush(next_rank(), win);
            MPI_Accumulate(&one, 1, MPI_INT, next_rank(), MPI_Aint_add(there[i], 3 * sizeof(int)), 1, MPI_INT, MPI_SUM, win);
            MPI_Win_flush(next_rank(), win);
            int got = -1;
            MPI_Get(&got, 1, MPI_INT, next_rank(), MPI_Aint_add(there[i], 3 * sizeof(int)), 1, MPI_INT, win);
            MPI_Win_flush(next_rank(), win);
            CHECK_EQUAL(got, value + 1);
        }
        MPI_Win_unlock(next_rank(), win);
        MPI_Barrier(MPI_COMM_WORLD);
        for (int i = 0; i < REGIONS; i++) {
            CHECK_EQUAL(regions[i][3], 100 * rank_before() + 10 * round + i + 1);
            CHECK_EQUAL(MPI_Win_detach(win, regions[i]), MPI_SUCCESS);
        }
    }

    STORY("12.2.4 regions that touch are attached apart");
    MPI_Win_attach(win, regions[0], sizeof regions[0]);
    MPI_Win_attach(win, regions[1], sizeof regions[1]);
    MPI_Win_fence(0, win);
    MPI_Get_address(&regions[1][0], &here[1]);
    MPI_Sendrecv(&here[1], 1, MPI_AINT, rank_before(), 1, &there[1], 1, MPI_AINT, next_rank(), 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Put(&rank, 1, MPI_INT, next_rank(), there[1], 1, MPI_INT, win);
    MPI_Win_fence(0, win);
    CHECK_EQUAL(regions[1][0], rank_before());
    MPI_Win_detach(win, regions[0]);
    MPI_Win_free(&win); /* §12.2.5: detaches what is left */
    regions[1][0] = -1;

    STORY("12.2.4 a window to which nothing is attached");
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_fence(0, win);
    MPI_Win_fence(0, win);
    MPI_Win_free(&win);
}

static void groups(void)
{
    STORY("12.2.6 the group of a window");
    MPI_Comm reversed;
    MPI_Group of_comm, of_win;
    MPI_Win win;
    int compared = -1;
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &reversed);
    MPI_Win_create(NULL, 0, 1, MPI_INFO_NULL, reversed, &win);
    MPI_Comm_group(reversed, &of_comm);
    MPI_Win_get_group(win, &of_win);
    MPI_Group_compare(of_comm, of_win, &compared);
    CHECK_EQUAL(compared, MPI_IDENT);
    MPI_Win_free(&win);
    MPI_Group_compare(of_comm, of_win, &compared);
    CHECK_EQUAL(compared, MPI_IDENT);
    MPI_Group_free(&of_comm);
    MPI_Group_free(&of_win);
    MPI_Comm_free(&reversed);
}

/* A hint that the library reports has the given value, or a value that the standard names where the library
 * ignored ours. */
static void check_hint(MPI_Win win, const char *key, const char *given, const char *standard)
{
    MPI_Info info = MPI_INFO_NULL;
    char value[100] = "";
    int room = sizeof value, found = 0;
    MPI_Win_get_info(win, &info);
    CHECK(info != MPI_INFO_NULL, "null");
    MPI_Info_get_string(info, key, &room, value, &found);
    CHECK(!found || !strcmp(value, given) || !strcmp(value, standard), "%s is \"%s\"", key, value);
    MPI_Info_free(&info);
}

static void hints(void)
{
    STORY("12.2.7 hints are given, told and changed");
    static const char *const keys[][3] = {{"no_locks", "true", "false"},
                                          {"accumulate_ordering", "rar,waw", "rar,raw,war,waw"},
                                          {"accumulate_ops", "same_op", "same_op_no_op"},
                                          {"mpi_accumulate_granularity", "8", "0"},
                                          {"same_size", "true", "false"},
                                          {"same_disp_unit", "true", "false"}};
    static int array[4];
    MPI_Info info;
    MPI_Win win;
    MPI_Info_create(&info);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        MPI_Info_set(info, keys[i][0], keys[i][1]);
    MPI_Info_set(info, "a_key_that_nobody_knows", "yes");
    MPI_Win_create(array, sizeof array, sizeof(int), info, MPI_COMM_WORLD, &win);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        check_hint(win, keys[i][0], keys[i][1], keys[i][2]);
    MPI_Win_fence(0, win);
    MPI_Accumulate(&rank, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_SUM, win);
    MPI_Win_fence(0, win);
    if (rank == 0)
        CHECK_EQUAL(array[0], ranks * (ranks - 1) / 2);
    MPI_Win_free(&win);

    MPI_Win_create(array, sizeof array, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        check_hint(win, keys[i][0], keys[i][2], keys[i][2]);
    CHECK_EQUAL(MPI_Win_set_info(win, info), MPI_SUCCESS);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        check_hint(win, keys[i][0], keys[i][1], keys[i][2]);
    MPI_Win_free(&win);
    MPI_Info_free(&info);
}

static int copied, deleted;
static MPI_Win deleted_of;

static int copy(MPI_Win win, int keyval, void *extra, void *value, void *copy_of, int *flag)
{
    (void)win, (void)keyval, (void)extra, (void)value, (void)copy_of;
    copied++;
    *flag = 0;
    return MPI_SUCCESS;
}

static int delete(MPI_Win win, int keyval, void *value, void *extra)
{
    (void)keyval;
    deleted += *(int *)value;
    deleted_of = win;
    *(int *)extra += 1;
    return MPI_SUCCESS;
}

static int refuse(MPI_Win win, int keyval, void *value, void *extra)
{
    (void)win, (void)keyval, (void)value;
    return *(int *)extra ? MPI_ERR_OTHER : MPI_SUCCESS;
}

static void attributes(void)
{
    STORY("7.7.3 a program's own attributes of windows");
    MPI_Win win, other;
    int keyval = MPI_KEYVAL_INVALID, plain = MPI_KEYVAL_INVALID, extra = 0, flag = -1, one = 1, ten = 10;
    void *found = NULL;
    MPI_Win_create(NULL, 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_create(NULL, 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &other);
    MPI_Win_create_keyval(copy, delete, &keyval, &extra);
    MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, MPI_WIN_NULL_DELETE_FN, &plain, NULL);
    CHECK(keyval != MPI_KEYVAL_INVALID && plain != keyval, "%d, %d", keyval, plain);
    MPI_Win_get_attr(win, keyval, &found, &flag);
    CHECK_EQUAL(flag, 0);
    MPI_Win_set_attr(win, keyval, &one);
    MPI_Win_set_attr(win, plain, &ten);
    MPI_Win_get_attr(win, keyval, &found, &flag);
    CHECK(flag == 1 && found == &one, "%d, %p", flag, found);
    MPI_Win_get_attr(win, plain, &found, &flag);
    CHECK(flag == 1 && found == &ten, "%d, %p", flag, found);
    MPI_Win_get_attr(other, keyval, &found, &flag);
    CHECK_EQUAL(flag, 0);
    MPI_Win_set_attr(win, keyval, &ten); /* deletes the one before */
    CHECK(deleted == 1 && extra == 1 && deleted_of == win, "%d, %d", deleted, extra);
    MPI_Win_delete_attr(win, keyval);
    CHECK(deleted == 11 && extra == 2, "%d, %d", deleted, extra);
    MPI_Win_get_attr(win, keyval, &found, &flag);
    CHECK_EQUAL(flag, 0);
    MPI_Win_set_attr(win, keyval, &one);
    MPI_Win_set_attr(other, keyval, &one);
    MPI_Win_free_keyval(&keyval);
    CHECK_EQUAL(keyval, MPI_KEYVAL_INVALID);
    CHECK_EQUAL(deleted, 11);
    MPI_Win_free(&win);
    MPI_Win_free(&other);
    CHECK(deleted == 13 && extra == 4 && copied == 0, "%d, %d, %d copies", deleted, extra, copied);
    MPI_Win_free_keyval(&plain);

    STORY("7.7.3 a callback that refuses keeps the attribute");
    int refuses = 1, code;
    MPI_Win_create(NULL, 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    MPI_Win_create_keyval(MPI_WIN_DUP_FN, refuse, &keyval, &refuses);
    MPI_Win_set_attr(win, keyval, &one);
    code = MPI_Win_delete_attr(win, keyval);
    CHECK(code != MPI_SUCCESS, "it is deleted all the same");
    MPI_Win_get_attr(win, keyval, &found, &flag);
    CHECK(flag == 1 && found == &one, "%d, %p", flag, found);
    refuses = 0;
    MPI_Win_free_keyval(&keyval);
    MPI_Win_free(&win);
}

static void names(void)
{
    STORY("7.8 names of windows");
    MPI_Win win;
    char name[MPI_MAX_OBJECT_NAME] = "unset";
    int length = -1;
    MPI_Win_create(NULL, 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_get_name(win, name, &length);
    CHECK(length == 0 && name[0] == 0, "%d, \"%s\"", length, name);
    MPI_Win_set_name(win, "halo");
    MPI_Win_get_name(win, name, &length);
    CHECK(length == 4 && !strcmp(name, "halo"), "%d, \"%s\"", length, name);
    static char long_name[MPI_MAX_OBJECT_NAME];
    memset(long_name, 'n', sizeof long_name - 1);
    MPI_Win_set_name(win, long_name);
    MPI_Win_get_name(win, name, &length);
    CHECK(length == (int)sizeof long_name - 1 && !strcmp(name, long_name), "%d", length);
    MPI_Win_free(&win);

    STORY("19.3.4 windows as numbers"); /* for Fortran */
    MPI_Win_create(NULL, 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    CHECK(MPI_Win_fromint(MPI_Win_toint(win)) == win, "another window");
    CHECK(MPI_Win_fromint(MPI_Win_toint(MPI_WIN_NULL)) == MPI_WIN_NULL, "the null window");
    MPI_Win_free(&win);
}

static int handled, handled_code;
static MPI_Win handled_win;

static void handle(MPI_Win *win, int *code, ...)
{
    handled++;
    handled_win = *win;
    handled_code = *code;
}

static int handled_on_comm, handled_comm_code;

static void handle_comm(MPI_Comm *comm, int *code, ...)
{
    (void)comm;
    handled_on_comm++;
    handled_comm_code = *code;
}

static void error_handlers(void)
{
    STORY("12.6.1 a window begins with MPI_ERRORS_ARE_FATAL, whatever its communicator has");
    MPI_Errhandler handler, found;
    MPI_Win win;
    MPI_Comm comm;
    int value = 0;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Win_create(&value, sizeof value, 1, MPI_INFO_NULL, comm, &win);
    MPI_Win_get_errhandler(win, &found);
    CHECK(found == MPI_ERRORS_ARE_FATAL, "another one");
    STORY("9.3.2 error handlers of windows");
    MPI_Win_create_errhandler(handle, &handler);
    MPI_Win_set_errhandler(win, handler);
    MPI_Win_get_errhandler(win, &found);
    CHECK(found == handler, "another one");
    MPI_Errhandler_free(&found);
    MPI_Errhandler_free(&handler);
    CHECK(handler == MPI_ERRHANDLER_NULL, "not null");
    MPI_Win_call_errhandler(win, MPI_ERR_RMA_RANGE); /* §9.5 */
    CHECK(handled == 1 && handled_win == win && handled_code == MPI_ERR_RMA_RANGE, "%d calls, code %d", handled, handled_code);
    MPI_Win_fence(0, win);
    int code = MPI_Put(&value, 1, MPI_INT, ranks, 0, 1, MPI_INT, win);
    CHECK_CLASS(handled_code, MPI_ERR_RANK);
    CHECK_EQUAL(handled, 2);
    if (!left_out("returned-code"))
        CHECK_EQUAL(code, handled_code); /* §9.3: the handler has returned, and so does the call */
    MPI_Win_fence(0, win);
    MPI_Win_free(&win);

    STORY("12.6.1 errors of creating a window are the communicator's");
    MPI_Comm_create_errhandler(handle_comm, &handler);
    MPI_Comm_set_errhandler(comm, handler);
    MPI_Win_create(&value, -1, 1, MPI_INFO_NULL, comm, &win);
    CHECK_EQUAL(handled_on_comm, 1);
    CHECK_CLASS(handled_comm_code, MPI_ERR_SIZE);
    CHECK_EQUAL(handled, 2);
    MPI_Errhandler_free(&handler);
    MPI_Comm_free(&comm);
}

/* Wrong arguments: every rank makes the same wrong call, and afterwards the window works. */
static void wrong_arguments(void)
{
    static int array[8];
    int in = 1, out = 0, compare = 0;
    void *base;
    MPI_Win win, dynamic_win, null = MPI_WIN_NULL;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Datatype uncommitted, mixed;
    MPI_Op user;
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Type_contiguous(2, MPI_INT, &uncommitted);
    MPI_Datatype parts[2] = {MPI_INT, MPI_FLOAT};
    int lengths[2] = {1, 1};
    MPI_Aint places[2] = {0, 4};
    MPI_Type_create_struct(2, lengths, places, parts, &mixed);
    MPI_Type_commit(&mixed);
    MPI_Op_create((MPI_User_function *)abort, 1, &user);

    STORY("12.6.2 wrong arguments of creating");
    CHECK_CLASS(MPI_Win_create(array, -1, 1, MPI_INFO_NULL, comm, &win), MPI_ERR_SIZE);
    CHECK_CLASS(MPI_Win_allocate(-1, 1, MPI_INFO_NULL, comm, &base, &win), MPI_ERR_SIZE);
    CHECK_CLASS(MPI_Win_create(array, sizeof array, 1, MPI_INFO_NULL, MPI_COMM_NULL, &win), MPI_ERR_COMM);
    CHECK_CLASS(MPI_Win_create(array, sizeof array, 0, MPI_INFO_NULL, comm, &win), MPI_ERR_DISP);
    CHECK_CLASS(MPI_Win_allocate(8, -4, MPI_INFO_NULL, comm, &base, &win), MPI_ERR_DISP);
    CHECK_EQUAL(MPI_Win_create(array, sizeof array, sizeof(int), MPI_INFO_NULL, comm, &win), MPI_SUCCESS);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    MPI_Win_create_dynamic(MPI_INFO_NULL, comm, &dynamic_win);
    MPI_Win_set_errhandler(dynamic_win, MPI_ERRORS_RETURN);

    STORY("12.6.2 wrong arguments of operations");
    MPI_Win_lock_all(0, win);
    CHECK_CLASS(MPI_Put(&in, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_WIN_NULL), MPI_ERR_WIN);
    CHECK_CLASS(MPI_Put(&in, -1, MPI_INT, 0, 0, 1, MPI_INT, win), MPI_ERR_COUNT);
    CHECK_CLASS(MPI_Put(&in, 1, MPI_INT, 0, 0, -1, MPI_INT, win), MPI_ERR_COUNT);
    CHECK_CLASS(MPI_Put(&in, 1, MPI_DATATYPE_NULL, 0, 0, 1, MPI_INT, win), MPI_ERR_TYPE);
    CHECK_CLASS(MPI_Put(&in, 1, MPI_INT, 0, 0, 1, MPI_DATATYPE_NULL, win), MPI_ERR_TYPE);
    CHECK_CLASS(MPI_Put(array, 1, uncommitted, 0, 0, 2, MPI_INT, win), MPI_ERR_TYPE);
    CHECK_CLASS(MPI_Put(array, 2, MPI_INT, 0, 0, 1, uncommitted, win), MPI_ERR_TYPE);
    CHECK_CLASS(MPI_Put(&in, 1, MPI_INT, ranks, 0, 1, MPI_INT, win), MPI_ERR_RANK);
    CHECK_CLASS(MPI_Put(&in, 1, MPI_INT, -7, 0, 1, MPI_INT, win), MPI_ERR_RANK);
    CHECK_CLASS(MPI_Put(&in, 1, MPI_INT, 0, -1, 1, MPI_INT, win), MPI_ERR_DISP);
    CHECK_CLASS(MPI_Get(&out, 1, MPI_INT, ranks, 0, 1, MPI_INT, win), MPI_ERR_RANK);
    CHECK_CLASS(MPI_Get(&out, -1, MPI_INT, 0, 0, 1, MPI_INT, win), MPI_ERR_COUNT);
    CHECK_CLASS(MPI_Accumulate(&in, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_OP_NULL, win), MPI_ERR_OP);
    CHECK_CLASS(MPI_Accumulate(&in, 1, MPI_INT, 0, 0, 1, MPI_INT, user, win), MPI_ERR_OP);
    CHECK_CLASS(MPI_Get_accumulate(&in, 1, MPI_INT, &out, 1, MPI_INT, 0, 0, 1, MPI_INT, user, win), MPI_ERR_OP);
    CHECK_CLASS(MPI_Fetch_and_op(&in, &out, uncommitted, 0, 0, MPI_SUM, win), MPI_ERR_TYPE);
    CHECK_CLASS(MPI_Compare_and_swap(&in, &compare, &out, MPI_DOUBLE, 0, 0, win), MPI_ERR_TYPE);
    CHECK_CLASS(MPI_Compare_and_swap(&in, &compare, &out, MPI_INT, ranks, 0, win), MPI_ERR_RANK);
    CHECK_CLASS(MPI_Rput(&in, 1, MPI_INT, ranks, 0, 1, MPI_INT, win, &request), MPI_ERR_RANK);
    if (!left_out("operands")) {
        CHECK_CLASS(MPI_Accumulate(&in, 1, MPI_FLOAT, 0, 0, 1, MPI_FLOAT, MPI_BAND, win), MPI_ERR_OP);
        CHECK_CLASS(MPI_Accumulate(&in, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_NO_OP, win), MPI_ERR_OP);
        CHECK_CLASS(MPI_Accumulate(array, 1, mixed, 0, 0, 1, mixed, MPI_SUM, win), MPI_ERR_TYPE);
        CHECK_CLASS(MPI_Accumulate(&in, 1, MPI_INT, 0, 0, 1, MPI_FLOAT, MPI_SUM, win), MPI_ERR_TYPE);
    }
    if (!left_out("range")) {
        CHECK_CLASS(MPI_Put(&in, 1, MPI_INT, 0, 8, 1, MPI_INT, win), MPI_ERR_RMA_RANGE);
        CHECK_CLASS(MPI_Get(array, 4, MPI_INT, 0, 5, 4, MPI_INT, win), MPI_ERR_RMA_RANGE);
        CHECK_CLASS(MPI_Fetch_and_op(&in, &out, MPI_INT, 0, 8, MPI_SUM, win), MPI_ERR_RMA_RANGE);
        CHECK_CLASS(MPI_Compare_and_swap(&in, &compare, &out, MPI_INT, 0, INT32_MAX, win), MPI_ERR_RMA_RANGE);
    }
    MPI_Win_unlock_all(win);

    STORY("12.6.2 wrong arguments of synchronization");
    CHECK_CLASS(MPI_Win_lock(MPI_LOCK_SHARED, ranks, 0, win), MPI_ERR_RANK);
    CHECK_CLASS(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, MPI_WIN_NULL), MPI_ERR_WIN);
    CHECK_CLASS(MPI_Win_fence(0, MPI_WIN_NULL), MPI_ERR_WIN);
    CHECK_CLASS(MPI_Win_free(&null), MPI_ERR_WIN);
    CHECK_CLASS(MPI_Win_start(MPI_GROUP_NULL, 0, win), MPI_ERR_GROUP);
    CHECK_CLASS(MPI_Win_post(MPI_GROUP_NULL, 0, win), MPI_ERR_GROUP);
    if (!left_out("assertions")) {
        CHECK_CLASS(MPI_Win_lock(77, 0, 0, win), MPI_ERR_LOCKTYPE);
        CHECK_CLASS(MPI_Win_lock(MPI_LOCK_SHARED, 0, 1, win), MPI_ERR_ASSERT);
        CHECK_CLASS(MPI_Win_lock_all(1, win), MPI_ERR_ASSERT);
        CHECK_CLASS(MPI_Win_fence(1, win), MPI_ERR_ASSERT);
    }

    STORY("12.6.2 windows of the wrong flavor, and memory that cannot be attached or shared");
    int unit;
    MPI_Aint size;
    CHECK_CLASS(MPI_Win_attach(win, array, sizeof array), MPI_ERR_RMA_FLAVOR);
    CHECK_CLASS(MPI_Win_detach(win, array), MPI_ERR_RMA_FLAVOR);
    CHECK_CLASS(MPI_Win_shared_query(dynamic_win, 0, &size, &unit, &base), MPI_ERR_RMA_FLAVOR);
    if (!left_out("attach")) {
        CHECK_EQUAL(MPI_Win_attach(dynamic_win, array, sizeof array), MPI_SUCCESS);
        CHECK_CLASS(MPI_Win_attach(dynamic_win, array + 1, 4), MPI_ERR_RMA_ATTACH);
        CHECK_CLASS(MPI_Win_attach(dynamic_win, array, -1), MPI_ERR_SIZE);
        CHECK_CLASS(MPI_Win_detach(dynamic_win, array + 1), MPI_ERR_RMA_ATTACH);
        CHECK_EQUAL(MPI_Win_detach(dynamic_win, array), MPI_SUCCESS);
    }
    if (node_ranks < ranks)
        CHECK_CLASS(MPI_Win_allocate_shared(8, 1, MPI_INFO_NULL, comm, &base, &null), MPI_ERR_RMA_SHARED);

    STORY("7.7.3 predefined attributes cannot be changed");
    CHECK(MPI_Win_set_attr(win, MPI_WIN_SIZE, array) != MPI_SUCCESS, "the size was set");
    CHECK(MPI_Win_delete_attr(win, MPI_WIN_BASE) != MPI_SUCCESS, "the base was deleted");

    STORY("12.6.2 the window works after all of this");
    memset(array, 0, sizeof array);
    MPI_Win_fence(0, win);
    MPI_Put(&rank, 1, MPI_INT, next_rank(), 2, 1, MPI_INT, win);
    MPI_Win_fence(0, win);
    CHECK_EQUAL(array[2], rank_before());
    CHECK(request == MPI_REQUEST_NULL, "a refused call made a request");
    MPI_Win_free(&win);
    MPI_Win_free(&dynamic_win);
    MPI_Type_free(&uncommitted);
    MPI_Type_free(&mixed);
    MPI_Op_free(&user);
    MPI_Comm_free(&comm);
}

/* §12.5: calls that do not fit the epoch. The only fitting error is MPI_ERR_RMA_SYNC, and the window works
 * afterwards. */
static void wrong_epochs(void)
{
    static int array[4];
    int in = 1, flag = 0;
    MPI_Win win;
    MPI_Group group;
    MPI_Request request;
    MPI_Win_create(array, sizeof array, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    MPI_Win_get_group(win, &group);

    STORY("12.5 calls outside of any epoch");
    CHECK_CLASS(MPI_Put(&in, 1, MPI_INT, 0, 0, 1, MPI_INT, win), MPI_ERR_RMA_SYNC);
    CHECK_CLASS(MPI_Get(&in, 1, MPI_INT, 0, 0, 1, MPI_INT, win), MPI_ERR_RMA_SYNC);
    CHECK_CLASS(MPI_Accumulate(&in, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_SUM, win), MPI_ERR_RMA_SYNC);
    CHECK_CLASS(MPI_Rput(&in, 1, MPI_INT, 0, 0, 1, MPI_INT, win, &request), MPI_ERR_RMA_SYNC);
    CHECK_CLASS(MPI_Win_complete(win), MPI_ERR_RMA_SYNC);
    CHECK_CLASS(MPI_Win_wait(win), MPI_ERR_RMA_SYNC);
    CHECK_CLASS(MPI_Win_test(win, &flag), MPI_ERR_RMA_SYNC);
    CHECK_CLASS(MPI_Win_unlock(0, win), MPI_ERR_RMA_SYNC);
    CHECK_CLASS(MPI_Win_unlock_all(win), MPI_ERR_RMA_SYNC);
    CHECK_CLASS(MPI_Win_flush(0, win), MPI_ERR_RMA_SYNC);
    CHECK_CLASS(MPI_Win_flush_all(win), MPI_ERR_RMA_SYNC);
    CHECK_CLASS(MPI_Win_flush_local(0, win), MPI_ERR_RMA_SYNC);
    CHECK_CLASS(MPI_Win_flush_local_all(win), MPI_ERR_RMA_SYNC);

    STORY("12.5.3 calls that do not fit a lock");
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
    CHECK_CLASS(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win), MPI_ERR_RMA_SYNC);
    CHECK_CLASS(MPI_Win_lock_all(0, win), MPI_ERR_RMA_SYNC);
    CHECK_CLASS(MPI_Win_unlock_all(win), MPI_ERR_RMA_SYNC);
    CHECK_CLASS(MPI_Win_start(group, 0, win), MPI_ERR_RMA_SYNC);
    CHECK_CLASS(MPI_Win_fence(0, win), MPI_ERR_RMA_SYNC);
    if (ranks > 1 && !left_out("other-target")) {
        CHECK_CLASS(MPI_Put(&in, 1, MPI_INT, 1, 0, 1, MPI_INT, win), MPI_ERR_RMA_SYNC);
        CHECK_CLASS(MPI_Win_unlock(1, win), MPI_ERR_RMA_SYNC);
        CHECK_CLASS(MPI_Win_flush(1, win), MPI_ERR_RMA_SYNC);
    }
    MPI_Win_unlock(0, win);
    MPI_Win_lock_all(0, win);
    CHECK_CLASS(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win), MPI_ERR_RMA_SYNC);
    CHECK_CLASS(MPI_Win_lock_all(0, win), MPI_ERR_RMA_SYNC);
    CHECK_CLASS(MPI_Win_unlock(0, win), MPI_ERR_RMA_SYNC);
    MPI_Win_unlock_all(win);
    MPI_Win_lock_all(0, win);
    MPI_Win same = win;
    CHECK_CLASS(MPI_Win_free(&same), MPI_ERR_RMA_SYNC);
    MPI_Win_unlock_all(win);

    STORY("12.5.2 calls that do not fit an epoch of a group");
    MPI_Group self;
    MPI_Group_incl(group, 1, &rank, &self);
    MPI_Win_post(self, 0, win);
    CHECK_CLASS(MPI_Win_post(self, 0, win), MPI_ERR_RMA_SYNC);
    MPI_Win_start(self, 0, win);
    CHECK_CLASS(MPI_Win_start(self, 0, win), MPI_ERR_RMA_SYNC);
    CHECK_CLASS(MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win), MPI_ERR_RMA_SYNC);
    CHECK_CLASS(MPI_Win_flush(rank, win), MPI_ERR_RMA_SYNC);
    if (ranks > 1 && !left_out("other-target"))
        CHECK_CLASS(MPI_Put(&in, 1, MPI_INT, next_rank(), 0, 1, MPI_INT, win), MPI_ERR_RMA_SYNC);
    MPI_Put(&rank, 1, MPI_INT, rank, 3, 1, MPI_INT, win);
    MPI_Win_complete(win);
    MPI_Win_wait(win);
    CHECK_EQUAL(array[3], rank);
    MPI_Group_free(&self);

    STORY("12.5.1 calls that do not fit a fence");
    MPI_Win_fence(0, win);
    MPI_Put(&rank, 1, MPI_INT, next_rank(), 1, 1, MPI_INT, win);
    if (!left_out("fence-epoch")) {
        CHECK_CLASS(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win), MPI_ERR_RMA_SYNC);
        CHECK_CLASS(MPI_Win_start(group, 0, win), MPI_ERR_RMA_SYNC);
        CHECK_CLASS(MPI_Rput(&in, 1, MPI_INT, 0, 0, 1, MPI_INT, win, &request), MPI_ERR_RMA_SYNC);
    }
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    CHECK_EQUAL(array[1], rank_before());
    CHECK_CLASS(MPI_Put(&in, 1, MPI_INT, 0, 0, 1, MPI_INT, win), MPI_ERR_RMA_SYNC);
    MPI_Group_free(&group);
    MPI_Win_free(&win);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node);
    MPI_Comm_rank(node, &node_rank);
    MPI_Comm_size(node, &node_ranks);
    created();
    allocated();
    shared();
    query_others();
    dynamic();
    groups();
    hints();
    attributes();
    names();
    error_handlers();
    wrong_arguments();
    wrong_epochs();
    MPI_Comm_free(&node);
    return end();
}
