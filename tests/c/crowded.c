/*
 * Collectives at once and out of step: on several communicators from several threads, many nonblocking ones
 * outstanding, ranks that come late, and ranks that are delayed by chance. The results are those of ranks in
 * step.
 */
#include "check.h"
#include <pthread.h>

enum { THREADS = 4, ROUNDS = 12, OUTSTANDING = 48, LONGEST = 60000, LATE_US = 60000 };

static MPI_Comm apart[THREADS];

/* The value that rank `of` contributes in a round, in place `i`. */
static int given(int of, int round, int i)
{
    return (of + 1) * 1000 + round * 7 + i % 113;
}

static long long sum_of(int round, int i)
{
    long long sum = 0;
    for (int of = 0; of < ranks; of++)
        sum += given(of, round, i);
    return sum;
}

static int length_of(int round)
{
    static const int lengths[] = {1, 300, 5000, LONGEST};
    return lengths[round % 4];
}

/* Runs one collective of each kind on `comm`, checked; `number` makes them differ. */
static void each_once(MPI_Comm comm, int number)
{
    int n = length_of(number), root = number % ranks, wrong = 0;
    int *mine = memory((size_t)n * sizeof(int)), *all = memory((size_t)n * (size_t)ranks * sizeof(int));
    for (int i = 0; i < n; i++)
        mine[i] = given(rank, number, i);
    MPI_Allreduce(mine, all, n, MPI_INT, MPI_SUM, comm);
    for (int i = 0; i < n; i++)
        wrong += all[i] != sum_of(number, i);
    MPI_Reduce(mine, all, n, MPI_INT, MPI_SUM, root, comm);
    for (int i = 0; i < n && rank == root; i++)
        wrong += all[i] != sum_of(number, i);
    MPI_Allgather(mine, n, MPI_INT, all, n, MPI_INT, comm);
    for (int of = 0; of < ranks; of++)
        for (int i = 0; i < n; i++)
            wrong += all[of * n + i] != given(of, number, i);
    MPI_Bcast(mine, n, MPI_INT, root, comm);
    for (int i = 0; i < n; i++)
        wrong += mine[i] != given(root, number, i);
    CHECK_EQUAL(wrong, 0);
    free(mine);
    free(all);
}

static void *on_its_own(void *place)
{
    int thread = (int)(intptr_t)place;
    for (int round = 0; round < ROUNDS; round++) {
        each_once(apart[thread], round * THREADS + thread);
        MPI_Barrier(apart[thread]);
    }
    return NULL;
}

static void several_threads(void)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, on_its_own, (void *)(intptr_t)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

static void many_outstanding(void)
{
    MPI_Request requests[OUTSTANDING];
    int *mine[OUTSTANDING], *all[OUTSTANDING], wrong = 0;
    for (int number = 0; number < OUTSTANDING; number++) {
        int n = length_of(number);
        MPI_Comm comm = apart[number % THREADS];
        mine[number] = memory((size_t)n * sizeof(int));
        all[number] = memory((size_t)n * (size_t)ranks * sizeof(int));
        for (int i = 0; i < n; i++)
            mine[number][i] = given(rank, number, i);
        switch (number % 3) {
        case 0:
            MPI_Iallreduce(mine[number], all[number], n, MPI_INT, MPI_SUM, comm, &requests[number]);
            break;
        case 1:
            MPI_Iallgather(mine[number], n, MPI_INT, all[number], n, MPI_INT, comm, &requests[number]);
            break;
        default:
            MPI_Ibcast(mine[number], n, MPI_INT, number % ranks, comm, &requests[number]);
        }
    }
    /* Some ranks wait from the last on, and others from the first on. */
    for (int i = 0; i < OUTSTANDING; i++)
        MPI_Wait(&requests[rank % 2 ? i : OUTSTANDING - 1 - i], MPI_STATUS_IGNORE);
    for (int number = 0; number < OUTSTANDING; number++) {
        int n = length_of(number);
        for (int i = 0; i < n; i++) {
            wrong += number % 3 == 0 && all[number][i] != sum_of(number, i);
            wrong += number % 3 == 2 && mine[number][i] != given(number % ranks, number, i);
            for (int of = 0; of < ranks && number % 3 == 1; of++)
                wrong += all[number][of * n + i] != given(of, number, i);
        }
        free(mine[number]);
        free(all[number]);
    }
    CHECK_EQUAL(wrong, 0);
}

/* No rank leaves before the last has come. All ranks are on one machine here. */
static void one_comes_late(void)
{
    for (int late = 0; late < (ranks < 4 ? ranks : 4); late++) {
        double came = 0, left;
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == late) {
            usleep(LATE_US);
            came = machine_seconds();
        }
        MPI_Barrier(MPI_COMM_WORLD);
        left = machine_seconds();
        MPI_Bcast(&came, 1, MPI_DOUBLE, late, MPI_COMM_WORLD);
        CHECK(left >= came, "left %g s before rank %d came", came - left, late);
        if (rank == late)
            usleep(LATE_US);
        each_once(MPI_COMM_WORLD, late);
    }
}

static void delayed_by_chance(void)
{
    unsigned state = 77u + (unsigned)rank;
    for (int round = 0; round < ROUNDS; round++) {
        state = state * 1103515245u + 12345u;
        usleep((state >> 16) % 3000);
        each_once(MPI_COMM_WORLD, round);
    }
}

int main(int argc, char **argv)
{
    CHECK_EQUAL(begin_threads(&argc, &argv), MPI_THREAD_MULTIPLE);
    for (int i = 0; i < THREADS; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &apart[i]);
    STORY("on several communicators from several threads");
    several_threads();
    STORY("many nonblocking ones outstanding");
    many_outstanding();
    STORY("a rank comes late");
    one_comes_late();
    STORY("ranks are delayed by chance");
    delayed_by_chance();
    for (int i = 0; i < THREADS; i++)
        MPI_Comm_free(&apart[i]);
    return end();
}
