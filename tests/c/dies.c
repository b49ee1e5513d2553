/* Something happens to ranks inside collective operations: no rank waits for them for ever.
 *
 * `dies killed OPERATION FORM ITEMS`, such as `dies killed barrier blocking 1`: the last rank is killed
 * before the others can end this operation, or once it has begun it. The launcher ends the job with the
 * signal of that rank.
 *
 * `dies gone`: the ranks of the second half send nothing more. The others try each operation in each form,
 * and each of those calls returns. The job then ends with code 42. */
#include "each_collective.h"

enum { HEARD = 42, FOREVER_SECONDS = 40, GOOD_ROUNDS = 3, SIZES = 3, ITEMS_MAX = 50000 };

static const int sizes[SIZES] = {1, 3000, ITEMS_MAX};

static int from[ITEMS_MAX * 8], into[ITEMS_MAX * 8];

/* Computes outside of MPI. */
static void compute_for_ever(void)
{
    for (int second = 0; second < FOREVER_SECONDS; second++)
        sleep(1);
}

static void killed(enum collective which, int form, int n)
{
    static char name[100];
    snprintf(name, sizeof name, "%s %s of %d items", forms[form], collectives[which], n);
    STORY(name);
    MPI_Comm comm = own_communicator(MPI_COMM_WORLD);
    for (int round = 0; round < GOOD_ROUNDS; round++)
        CHECK_EQUAL(do_collective(which, form, from, into, n, comm), MPI_SUCCESS);
    if (rank == ranks - 1) {
        /* The others have begun by then, and wait. */
        usleep(10000);
        if (form == BLOCKING)
            raise(SIGKILL);
        ends_once_begun = 1;
    }
    do_collective(which, form, from, into, n, comm);
    /* Some operations are complete without the last rank: the ranks that need it here are told, or ended. */
    MPI_Barrier(comm);
    compute_for_ever();
}

/* Says whether no process can complete the operation without all others. */
static int needs_everybody(enum collective which)
{
    return which == BARRIER || which == ALLGATHER || which == ALLTOALL || which == ALLREDUCE ||
           which == REDUCE_SCATTER_BLOCK;
}

static void gone(void)
{
    static MPI_Comm comms[COLLECTIVES][FORMS][SIZES];
    static char name[100];
    MPI_Comm side;
    MPI_Comm_split(MPI_COMM_WORLD, rank < ranks / 2, rank, &side);
    for (int which = 0; which < COLLECTIVES; which++)
        for (int form = 0; form < FORMS; form++)
            for (int size = 0; size < SIZES; size++)
                comms[which][form][size] = own_communicator(MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        printf("waiting\n");
        fflush(stdout);
    }
    if (rank >= ranks / 2)
        compute_for_ever();
    for (int which = 0; which < COLLECTIVES; which++)
        for (int form = 0; form < FORMS; form++)
            for (int size = 0; size < SIZES; size++) {
                snprintf(name, sizeof name, "%s %s of %d items", forms[form], collectives[which], sizes[size]);
                STORY(name);
                int code = do_collective(which, form, from, into, sizes[size], comms[which][form][size]);
                if (needs_everybody(which) || code != MPI_SUCCESS)
                    CHECK_CLASS(code, MPI_ERR_PROC_ABORTED);
            }
    STORY("the end");
    /* All ranks of this half have heard. */
    MPI_Barrier(side);
    if (rank == 0)
        MPI_Abort(MPI_COMM_WORLD, failures ? 1 : HEARD);
    compute_for_ever();
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    if (argc > 4 && !strcmp(argv[1], "killed"))
        killed((enum collective)place_of(argv[2], collectives, COLLECTIVES), place_of(argv[3], forms, FORMS), atoi(argv[4]));
    else
        gone();
    return 1;
}
