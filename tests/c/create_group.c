/*
 * MPI_Comm_create_group (MPI-5.0 §7.4.2) of many groups at the same time: drawn at random, they overlap, have
 * the same processes in other places, and all use one tag. Every rank draws the same list and goes through it
 * in order, so no rank waits for ever.
 */
#include "check.h"

#include <pthread.h>

enum { GROUPS = 150, KEPT = 8, THREADS = 3, MEMBERS_MAX = 64 };

/* xorshift: the same numbers on every rank. */
static unsigned next_random(unsigned *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

/* Draws some of the ranks, at least one, in any order; returns their number. */
static int draw_members(unsigned *state, int *members)
{
    int all[MEMBERS_MAX], population = ranks < MEMBERS_MAX ? ranks : MEMBERS_MAX;
    for (int i = 0; i < population; i++)
        all[i] = i;
    int count = 1 + (int)(next_random(state) % (unsigned)population);
    for (int i = 0; i < count; i++) {
        int chosen = i + (int)(next_random(state) % (unsigned)(population - i));
        members[i] = all[chosen];
        all[chosen] = all[i];
    }
    return count;
}

/* The communicator has these members in this order, and its messages are its own. */
static void check_group(MPI_Comm comm, const int *members, int count, int value)
{
    int size, own, sum, got = -1, tag = 5, *found = memory(count * sizeof *found), *order = memory(count * sizeof *order);
    MPI_Group group, world;
    MPI_Comm_size(comm, &size);
    MPI_Comm_rank(comm, &own);
    CHECK_EQUAL(size, count);
    CHECK_EQUAL(members[own], rank);
    MPI_Comm_group(comm, &group);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    for (int i = 0; i < count; i++)
        order[i] = i;
    MPI_Group_translate_ranks(group, count, order, world, found);
    CHECK(memcmp(found, members, count * sizeof *found) == 0, "the members are others");
    MPI_Group_free(&group);
    MPI_Group_free(&world);
    MPI_Sendrecv(&value, 1, MPI_INT, (own + 1) % size, tag, &got, 1, MPI_INT, (own + size - 1) % size, tag, comm,
                 MPI_STATUS_IGNORE);
    CHECK_EQUAL(got, value);
    MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, comm);
    CHECK_EQUAL(sum, count * value);
    MPI_Barrier(comm);
    free(found);
    free(order);
}

/* Communicators created a while ago, to be used once more beside those created since. */
struct kept {
    MPI_Comm comm;
    int members[MEMBERS_MAX], count, value;
};

static void give_up(struct kept *old)
{
    if (old->comm == MPI_COMM_NULL)
        return;
    check_group(old->comm, old->members, old->count, old->value);
    MPI_Comm_free(&old->comm);
}

static void many_groups(MPI_Comm parent, int tag, unsigned seed)
{
    struct kept *kept = memory(KEPT * sizeof *kept);
    unsigned state = seed;
    MPI_Group world, group;
    MPI_Comm_group(parent, &world);
    for (int i = 0; i < KEPT; i++)
        kept[i].comm = MPI_COMM_NULL;
    for (int i = 0; i < GROUPS; i++) {
        struct kept *place = &kept[i % KEPT];
        int members[MEMBERS_MAX], count = draw_members(&state, members), mine = 0;
        give_up(place);
        for (int at = 0; at < count; at++)
            mine |= members[at] == rank;
        if (!mine)
            continue;
        MPI_Group_incl(world, count, members, &group);
        int code = MPI_Comm_create_group(parent, group, tag, &place->comm);
        CHECK_EQUAL(code, MPI_SUCCESS);
        MPI_Group_free(&group);
        memcpy(place->members, members, sizeof members);
        place->count = count;
        place->value = tag * 10000 + i;
        check_group(place->comm, members, count, place->value);
    }
    for (int i = 0; i < KEPT; i++)
        give_up(&kept[(GROUPS + i) % KEPT]);
    MPI_Group_free(&world);
    free(kept);
}

/* A rank that is not in the group does not call, or gets nothing. */
static void strangers(void)
{
    STORY("the group is empty, or does not contain the caller");
    MPI_Group world, others;
    MPI_Comm comm = MPI_COMM_SELF;
    MPI_Comm_create_group(MPI_COMM_WORLD, MPI_GROUP_EMPTY, 3, &comm);
    CHECK(comm == MPI_COMM_NULL, "a communicator of nobody");
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_excl(world, 1, &rank, &others);
    comm = MPI_COMM_SELF;
    MPI_Comm_create_group(MPI_COMM_SELF, MPI_GROUP_EMPTY, 3, &comm);
    CHECK(comm == MPI_COMM_NULL, "a communicator of nobody");
    if (ranks > 1) {
        MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
        CHECK_CLASS(MPI_Comm_create_group(MPI_COMM_SELF, world, 3, &comm), MPI_ERR_GROUP);
    }
    MPI_Group_free(&others);
    MPI_Group_free(&world);
}

static void *in_thread(void *argument)
{
    int id = (int)(intptr_t)argument;
    /* The tag tells the threads apart. */
    many_groups(MPI_COMM_WORLD, id, 77u + (unsigned)id);
    return NULL;
}

int main(int argc, char **argv)
{
    int provided = begin_threads(&argc, &argv);
    STORY("random groups, one tag");
    for (unsigned seed = 1; seed <= 2; seed++)
        many_groups(MPI_COMM_WORLD, 0, seed);
    if (!left_out("strangers"))
        strangers();
    if (provided == MPI_THREAD_MULTIPLE) {
        STORY("random groups in threads, a tag each");
        pthread_t thread[THREADS];
        for (int id = 0; id < THREADS; id++)
            pthread_create(&thread[id], NULL, in_thread, (void *)(intptr_t)id);
        for (int id = 0; id < THREADS; id++)
            pthread_join(thread[id], NULL);
    }
    return end();
}
