/*
 * survive: heat spreads along a rod, computed by ranks of which some die on the way.
 *
 *   mpicc -O2 -o survive survive.c && mpiexec --on-failure continue -n 4 ./survive --lose 2@300 --lose 0@700
 *   mpiexec --on-failure continue -n 4 ./survive --lose 2@300 --lose 0@700 --respawn
 *
 * Each rank owns a part of the rod and exchanges its ends with its neighbours before every step. Every
 * CHECKPOINT steps all ranks gather the whole rod, so that each has a copy. `--lose R@S` kills the rank R of
 * MPI_COMM_WORLD as it comes to step S. A rank that gets an error revokes the communicator: then all others
 * get errors as well, wherever they are. Those that live make a smaller communicator, agree on the last copy
 * that all of them have, share the rod anew, and go on from that copy. With `--respawn` they first start as
 * many ranks as they have lost, and give them the copy. In the end each rank computes the same by itself and
 * compares to the last bit. `--hold S@FILE` lets all ranks wait before step S until the file is there:
 * meanwhile a host can be cut off.
 *
 * Exit code 0: both are equal. 1: they are not.
 */
#define _DEFAULT_SOURCE /* usleep */
#include <mpi-ext.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CELLS = 1200, STEPS = 1000, CHECKPOINT = 50, LOSSES_MAX = 64, RANKS_MAX = 1024 };
/* How much of a difference moves to a neighbour in one step; stable below 0.5. */
static const double SPREAD = 0.25;

static int world_rank, losses;
static struct { int rank, step; } lost[LOSSES_MAX];
static int hold_step = -1;
static char hold_file[4096];
/* The whole rod as it was at two steps: a copy that is being made does not harm the one before. */
static double copies[2][CELLS];
static int copy_step[2] = {0, -1};
static double now[CELLS + 2], next[CELLS + 2];

/* The first cell of a part, of `parts`. */
static int first_of(int part, int parts)
{
    return (int)((long)CELLS * part / parts);
}

static void initial(double *rod)
{
    for (int cell = 0; cell < CELLS; cell++)
        rod[cell] = cell % 97 == 0 ? 1.0 + cell % 7 : 0.0;
}

static double step_of(const double *at)
{
    return at[0] + SPREAD * (at[-1] - 2 * at[0] + at[1]);
}

static void die_if_told(int step)
{
    for (int loss = 0; loss < losses; loss++)
        if (lost[loss].rank == world_rank && lost[loss].step == step)
            raise(SIGKILL);
}

static void hold_if_told(int step)
{
    if (step != hold_step || !access(hold_file, F_OK))
        return;
    printf("survive: rank %d waits before step %d\n", world_rank, step);
    fflush(stdout);
    while (access(hold_file, F_OK))
        usleep(10000);
}

/* Computes from the copy of step `from` to the end. Returns an error code of MPI. */
static int compute(MPI_Comm comm, int from)
{
    int rank, ranks, code, counts[RANKS_MAX], starts[RANKS_MAX];
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    for (int part = 0; part < ranks; part++) {
        starts[part] = first_of(part, ranks);
        counts[part] = first_of(part + 1, ranks) - starts[part];
    }
    int own = counts[rank], left = rank > 0 ? rank - 1 : MPI_PROC_NULL;
    int right = rank + 1 < ranks ? rank + 1 : MPI_PROC_NULL;
    const double *copy = copies[copy_step[1] == from];
    memset(now, 0, sizeof now);
    memcpy(now + 1, copy + starts[rank], own * sizeof *now);
    for (int step = from; step < STEPS; step++) {
        die_if_told(step);
        hold_if_told(step);
        now[0] = now[own + 1] = 0; /* the ends of the rod are cold */
        code = MPI_Sendrecv(now + 1, 1, MPI_DOUBLE, left, 0, now + own + 1, 1, MPI_DOUBLE, right, 0, comm,
                            MPI_STATUS_IGNORE);
        if (code == MPI_SUCCESS)
            code = MPI_Sendrecv(now + own, 1, MPI_DOUBLE, right, 1, now, 1, MPI_DOUBLE, left, 1, comm,
                                MPI_STATUS_IGNORE);
        if (code != MPI_SUCCESS)
            return code;
        for (int cell = 1; cell <= own; cell++)
            next[cell] = step_of(now + cell);
        memcpy(now + 1, next + 1, own * sizeof *now);
        if ((step + 1) % CHECKPOINT == 0 || step + 1 == STEPS) {
            int older = copy_step[0] < copy_step[1] ? 0 : 1;
            copy_step[older] = -1;
            code = MPI_Allgatherv(now + 1, own, MPI_DOUBLE, copies[older], counts, starts, MPI_DOUBLE, comm);
            if (code != MPI_SUCCESS)
                return code;
            copy_step[older] = step + 1;
        }
    }
    return MPI_SUCCESS;
}

/* The last copy that all ranks of the communicator have: the newest of some may be missing at others. */
static int common_copy(MPI_Comm comm, int *step)
{
    int newest = copy_step[0] > copy_step[1] ? copy_step[0] : copy_step[1];
    return MPI_Allreduce(&newest, step, 1, MPI_INT, MPI_MIN, comm);
}

/* Makes one communicator of the ranks that live, or none where this process is a new rank, and new ranks,
 * which get the copy of step `from`. Ranks that die in this moment end the program. */
static MPI_Comm with_new_ranks(MPI_Comm living, MPI_Comm others, int *from)
{
    MPI_Comm all;
    MPI_Intercomm_merge(others, living == MPI_COMM_NULL, &all);
    MPI_Comm_disconnect(&others);
    if (living != MPI_COMM_NULL)
        MPI_Comm_free(&living);
    MPI_Bcast(from, 1, MPI_INT, 0, all);
    int place = copy_step[1] == *from;
    MPI_Bcast(copies[place], CELLS, MPI_DOUBLE, 0, all);
    copy_step[place] = *from;
    MPI_Comm_set_errhandler(all, MPI_ERRORS_RETURN);
    return all;
}

static int is_right(const double *rod)
{
    static double alone[CELLS + 2], after[CELLS + 2];
    initial(alone + 1);
    for (int step = 0; step < STEPS; step++) {
        alone[0] = alone[CELLS + 1] = 0;
        for (int cell = 1; cell <= CELLS; cell++)
            after[cell] = step_of(alone + cell);
        memcpy(alone + 1, after + 1, CELLS * sizeof *alone);
    }
    return !memcmp(alone + 1, rod, CELLS * sizeof *alone);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm parents, others;
    int wanted = 0, from = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_get_parent(&parents);
    if (argc > 1 && !strcmp(argv[argc - 1], "--respawn"))
        MPI_Comm_size(MPI_COMM_WORLD, &wanted);
    for (int at = 1; at + 1 < argc && losses < LOSSES_MAX; at += 2)
        if (!strcmp(argv[at], "--lose") && sscanf(argv[at + 1], "%d@%d", &lost[losses].rank, &lost[losses].step) == 2)
            losses++;
        else if (!strcmp(argv[at], "--hold"))
            sscanf(argv[at + 1], "%d@%4095s", &hold_step, hold_file);
    initial(copies[0]);

    MPI_Comm comm, smaller;
    if (parents != MPI_COMM_NULL) {
        comm = with_new_ranks(MPI_COMM_NULL, parents, &from);
        MPI_Comm_size(comm, &wanted);
    } else {
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    }
    int done, ranks, rank;
    for (;;) {
        done = compute(comm, from) == MPI_SUCCESS;
        if (!done)
            MPIX_Comm_revoke(comm);
        /* Some may be done while others have met a failure: all must know. */
        MPIX_Comm_failure_ack(comm);
        if (MPIX_Comm_agree(comm, &done) == MPI_SUCCESS && done)
            break;
        do {
            MPIX_Comm_shrink(comm, &smaller);
            MPI_Comm_free(&comm);
            comm = smaller;
            MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
            done = common_copy(comm, &from) == MPI_SUCCESS;
            if (!done)
                MPIX_Comm_revoke(comm);
        } while (MPIX_Comm_agree(comm, &done) != MPI_SUCCESS || !done);
        MPI_Comm_size(comm, &ranks);
        if (ranks < wanted) {
            MPI_Comm_set_errhandler(comm, MPI_ERRORS_ARE_FATAL);
            MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, wanted - ranks, MPI_INFO_NULL, 0, comm, &others,
                           MPI_ERRCODES_IGNORE);
            comm = with_new_ranks(comm, others, &from);
        }
        MPI_Comm_rank(comm, &rank);
        MPI_Comm_size(comm, &ranks);
        if (rank == 0) {
            printf("survive: %d ranks go on from step %d\n", ranks, from);
            fflush(stdout);
        }
    }
    int right = is_right(copies[copy_step[1] == STEPS]);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    if (rank == 0)
        printf("survive: %d ranks have computed %d steps: the result is %s\n", ranks, STEPS,
               right ? "right" : "wrong");
    MPI_Comm_free(&comm);
    MPI_Finalize();
    return !right;
}
