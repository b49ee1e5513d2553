/*
 * More communicators than there are contexts: run with WEFT_COMMUNICATORS=60. A freed context is given again
 * when no rank uses it any more, and one communicator too many is an error in all processes.
 */
#include "communicator_works.h"

enum { CONTEXTS = 60, ROUNDS = 40 * CONTEXTS, KEPT = 20 };

/* The same in all ranks. */
static unsigned draw(unsigned below)
{
    static unsigned long long state = 20261122;
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (unsigned)(state >> 33) % below;
}

static void overlapping_groups(void)
{
    STORY("groups that overlap get more communicators than there are contexts, one after the other");
    MPI_Comm kept[KEPT], comm;
    MPI_Group world, group;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    for (int i = 0; i < KEPT; i++)
        kept[i] = MPI_COMM_NULL;
    for (int round = 0; round < ROUNDS; round++) {
        int members[16], count = 0;
        unsigned mask = 1 + draw((1u << ranks) - 1), place = draw(KEPT);
        for (int i = 0; i < ranks; i++)
            if (mask >> i & 1)
                members[count++] = i;
        if (!(mask >> rank & 1))
            continue;
        MPI_Group_incl(world, count, members, &group);
        CHECK_EQUAL(MPI_Comm_create_group(MPI_COMM_WORLD, group, round, &comm), MPI_SUCCESS);
        MPI_Group_free(&group);
        check_works(comm, round);
        /* Each rank keeps some of them, others than its neighbours do, and frees the one that was in that
         * place; other ranks may still have that one. */
        place = (place + 3 * rank) % KEPT;
        if (kept[place] != MPI_COMM_NULL)
            MPI_Comm_free(&kept[place]);
        kept[place] = comm;
    }
    for (int i = 0; i < KEPT; i++)
        if (kept[i] != MPI_COMM_NULL)
            MPI_Comm_free(&kept[i]);
    MPI_Group_free(&world);
}

static void pending(void)
{
    STORY("a receive on a communicator that has been freed gets its message, whatever has been made since");
    MPI_Comm first, comm;
    MPI_Request request = MPI_REQUEST_NULL;
    int got = -1, value = 4711;
    MPI_Comm_dup(MPI_COMM_WORLD, &first);
    if (rank == 0) {
        MPI_Irecv(&got, 1, MPI_INT, ranks - 1, 7, first, &request);
        MPI_Comm_free(&first);
    }
    for (int i = 0; i < 3 * CONTEXTS; i++) {
        CHECK_EQUAL(MPI_Comm_dup(MPI_COMM_WORLD, &comm), MPI_SUCCESS);
        check_works(comm, i);
        MPI_Comm_free(&comm);
    }
    CHECK_EQUAL(got, -1);
    /* The sender must not be ahead of the one that has just looked. */
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == ranks - 1 && ranks > 1)
        MPI_Send(&value, 1, MPI_INT, 0, 7, first);
    if (rank != 0)
        MPI_Comm_free(&first);
    if (rank == 0 && ranks == 1)
        MPI_Cancel(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (rank == 0 && ranks > 1)
        CHECK_EQUAL(got, value);
}

static void one_too_many(void)
{
    STORY("one communicator too many is an error in all processes");
    static MPI_Comm comms[CONTEXTS + 1];
    char text[MPI_MAX_ERROR_STRING];
    int made = 0, code, length;
    while (made <= CONTEXTS && (code = MPI_Comm_dup(MPI_COMM_WORLD, &comms[made])) == MPI_SUCCESS)
        made++;
    CHECK_EQUAL(made, CONTEXTS);
    CHECK_CLASS(code, MPI_ERR_NO_MEM);
    MPI_Error_string(code, text, &length);
    CHECK(strstr(text, "MPI_Comm_free") != NULL, "%s", text);
    MPI_Request request;
    MPI_Comm later;
    code = MPI_Comm_idup(MPI_COMM_WORLD, &later, &request);
    CHECK_CLASS(code == MPI_SUCCESS ? MPI_Wait(&request, MPI_STATUS_IGNORE) : code, MPI_ERR_NO_MEM);
    /* Only one process is full: the others hear of it, too. */
    if (rank != 0)
        MPI_Comm_free(&comms[3]);
    CHECK_CLASS(MPI_Comm_dup(MPI_COMM_WORLD, &later), MPI_ERR_NO_MEM);
    if (rank == 0)
        MPI_Comm_free(&comms[3]);
    CHECK_EQUAL(MPI_Comm_dup(MPI_COMM_WORLD, &comms[3]), MPI_SUCCESS);
    for (int i = 0; i < made; i++) {
        check_works(comms[i], i);
        MPI_Comm_free(&comms[i]);
    }
}

int main(int argc, char **argv)
{
    watch_the_clock();
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    overlapping_groups();
    pending();
    one_too_many();
    return end();
}
