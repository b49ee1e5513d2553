/*
 * Synchronization of one-sided communication, chapter 12 of MPI 5.0: fences, groups that post and start,
 * locks and flushes, alone and after each other. Passes on any MPI library with any number of ranks.
 */
#include "check.h"

/* LENGTH: as many ranks as that, at most. */
enum { LENGTH = 64, ROUNDS = 10 };

static MPI_Win win; /* of LENGTH integers on every rank */
static int *mine;
static MPI_Group everybody;

static int after(int by)
{
    return (rank + by) % ranks;
}

static int ahead_of(int by)
{
    return (rank + ranks * LENGTH - by) % ranks;
}

static void clear(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
    memset(mine, 0, LENGTH * sizeof(int));
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win); /* own stores, before what others do */
    MPI_Win_unlock(rank, win);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void fences(void)
{
    STORY("12.5.1 fences in a row with nothing between them");
    for (int i = 0; i < 5; i++)
        CHECK_EQUAL(MPI_Win_fence(0, win), MPI_SUCCESS);
    MPI_Win_fence(MPI_MODE_NOPRECEDE | MPI_MODE_NOSUCCEED, win);

    STORY("12.5.1 what was put is there after the next fence, round for round, with each assertion that is true");
    static const int first[] = {0, MPI_MODE_NOPRECEDE, MPI_MODE_NOPRECEDE | MPI_MODE_NOSTORE, MPI_MODE_NOSTORE};
    static const int last[] = {0, MPI_MODE_NOSUCCEED, MPI_MODE_NOSUCCEED | MPI_MODE_NOPUT, MPI_MODE_NOSTORE | MPI_MODE_NOSUCCEED};
    for (int a = 0; a < 4; a++)
        for (int b = 0; b < 4; b++) {
            int value = 100 * a + 10 * b + rank, got = -1;
            MPI_Win_fence(first[a], win);
            MPI_Put(&value, 1, MPI_INT, after(a), a * 4 + b, 1, MPI_INT, win);
            MPI_Win_fence(0, win);
            CHECK_EQUAL(mine[a * 4 + b], 100 * a + 10 * b + ahead_of(a));
            MPI_Get(&got, 1, MPI_INT, after(b), a * 4 + b, 1, MPI_INT, win);
            MPI_Win_fence(last[b], win);
            int whose = (after(b) + ranks * LENGTH - a) % ranks;
            CHECK_EQUAL(got, 100 * a + 10 * b + whose);
        }

    STORY("12.5.1 ranks that come late to a fence");
    MPI_Win_fence(0, win);
    for (int round = 0; round < 3; round++) {
        int value = 7 * round + rank;
        if (rank == round % ranks)
            usleep(20000);
        MPI_Put(&value, 1, MPI_INT, after(1), 40, 1, MPI_INT, win);
        MPI_Win_fence(MPI_MODE_NOSTORE, win);
        CHECK_EQUAL(mine[40], 7 * round + ahead_of(1));
        MPI_Win_fence(MPI_MODE_NOPUT, win);
    }
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);

    STORY("12.5.1 accumulates of everybody to one rank");
    clear();
    MPI_Win_fence(0, win);
    for (int i = 0; i < ROUNDS; i++)
        MPI_Accumulate(&rank, 1, MPI_INT, 0, 5, 1, MPI_INT, MPI_SUM, win);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    if (rank == 0)
        CHECK_EQUAL(mine[5], ROUNDS * (ranks * (ranks - 1) / 2));
}

static MPI_Group group_of(int count, const int *members)
{
    MPI_Group group;
    MPI_Group_incl(everybody, count, members, &group);
    return group;
}

static void groups(void)
{
    STORY("12.5.2 a ring: each rank posts to the one before it and starts with the one after it");
    int next = after(1), before = ahead_of(1);
    MPI_Group to = group_of(1, &next), from = group_of(1, &before);
    clear();
    for (int round = 1; round <= ROUNDS; round++) {
        int value = 1000 * round + rank;
        MPI_Win_post(from, round % 2 ? 0 : MPI_MODE_NOSTORE, win);
        MPI_Win_start(to, 0, win);
        MPI_Put(&value, 1, MPI_INT, next, round, 1, MPI_INT, win);
        MPI_Win_complete(win);
        value = -1; /* complete at the origin */
        if (round % 3 == 0) {
            int done = 0;
            while (!done)
                CHECK_EQUAL(MPI_Win_test(win, &done), MPI_SUCCESS);
        } else {
            MPI_Win_wait(win);
        }
        CHECK_EQUAL(mine[round], 1000 * round + before);
    }

    STORY("12.5.2 MPI_Win_test is false before the origin has completed");
    int flag = -1;
    MPI_Win_post(from, 0, win);
    MPI_Win_test(win, &flag);
    CHECK(flag == 0, "true, and rank %d has not started yet", before);
    MPI_Sendrecv(NULL, 0, MPI_INT, before, 1, NULL, 0, MPI_INT, next, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Win_start(to, 0, win);
    MPI_Accumulate(&rank, 1, MPI_INT, next, 1, 1, MPI_INT, MPI_SUM, win);
    MPI_Win_complete(win);
    for (flag = 0; !flag;)
        MPI_Win_test(win, &flag);
    CHECK_EQUAL(mine[1], 1000 + 2 * before);

    STORY("12.5.2 posts that the starts find there already, as both sides assert");
    MPI_Win_post(from, MPI_MODE_NOCHECK, win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_start(to, MPI_MODE_NOCHECK, win);
    MPI_Put(&rank, 1, MPI_INT, next, 2, 1, MPI_INT, win);
    MPI_Win_complete(win);
    MPI_Win_wait(win);
    CHECK_EQUAL(mine[2], before);
    MPI_Group_free(&to);
    MPI_Group_free(&from);

    STORY("12.5.2 empty groups");
    MPI_Win_post(MPI_GROUP_EMPTY, 0, win);
    MPI_Win_start(MPI_GROUP_EMPTY, 0, win);
    MPI_Win_complete(win);
    MPI_Win_wait(win);

    STORY("12.5.2 one target for all others, then one origin to all others");
    int *others = memory(sizeof(int) * (size_t)ranks), *values = memory(sizeof(int) * (size_t)ranks);
    for (int i = 0, j = 0; i < ranks; i++)
        if (i != 0)
            others[j++] = i;
    int zero = 0;
    MPI_Group rest = group_of(ranks - 1, others), first = group_of(1, &zero);
    clear();
    for (int round = 0; round < ROUNDS && ranks > 1; round++) {
        int value = rank + round;
        if (rank == 0) {
            MPI_Win_post(rest, MPI_MODE_NOSTORE, win);
            MPI_Win_wait(win);
            for (int i = 1; i < ranks && i < LENGTH; i++)
                CHECK_EQUAL(mine[i], i + round);
            MPI_Win_start(rest, 0, win);
            for (int i = 1; i < ranks; i++) {
                values[i] = 100 * round + i;
                MPI_Accumulate(&values[i], 1, MPI_INT, i, 0, 1, MPI_INT, MPI_REPLACE, win);
            }
            MPI_Win_complete(win);
        } else {
            MPI_Win_start(first, 0, win);
            MPI_Put(&value, 1, MPI_INT, 0, rank, 1, MPI_INT, win);
            MPI_Win_complete(win);
            MPI_Win_post(first, 0, win);
            MPI_Win_wait(win);
            CHECK_EQUAL(mine[0], 100 * round + rank);
        }
    }
    MPI_Group_free(&rest);
    MPI_Group_free(&first);

    STORY("12.5.2 groups of different ranks in each round, in any order");
    clear();
    int *members = memory(sizeof(int) * (size_t)ranks), *sources = memory(sizeof(int) * (size_t)ranks);
    for (int round = 1; round <= ROUNDS; round++) {
        /* Rank r acts on r + 1 ... r + width, backwards in odd rounds. */
        int width = round % ranks, value = 10000 * round + rank;
        for (int i = 0; i < width; i++) {
            members[round % 2 ? width - 1 - i : i] = after(i + 1);
            sources[i] = ahead_of(i + 1);
        }
        MPI_Group targets = group_of(width, members), origins = group_of(width, sources);
        MPI_Win_post(origins, 0, win);
        MPI_Win_start(targets, 0, win);
        MPI_Group_free(&targets);
        MPI_Group_free(&origins);
        for (int i = 0; i < width; i++)
            MPI_Put(&value, 1, MPI_INT, members[i], rank, 1, MPI_INT, win);
        MPI_Win_complete(win);
        MPI_Win_wait(win);
        for (int i = 0; i < width; i++)
            CHECK_EQUAL(mine[sources[i]], 10000 * round + sources[i]);
    }
    free(members);
    free(sources);
    free(others);
    free(values);

    STORY("12.7.3 a post lets others go on while this rank waits for a message of theirs");
    if (ranks > 1 && rank < 2) {
        int other = 1 - rank, got = -1;
        MPI_Group pair = group_of(1, &other);
        if (rank == 1) {
            MPI_Win_post(pair, 0, win);
            MPI_Recv(&got, 1, MPI_INT, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Win_wait(win);
            CHECK(got == 5 && mine[3] == 5, "%d, %d", got, mine[3]);
        } else {
            int value = 5;
            MPI_Win_start(pair, 0, win);
            MPI_Put(&value, 1, MPI_INT, 1, 3, 1, MPI_INT, win);
            MPI_Win_complete(win);
            MPI_Send(&value, 1, MPI_INT, 1, 2, MPI_COMM_WORLD);
        }
        MPI_Group_free(&pair);
    }
}

static void locks(void)
{
    STORY("12.5.3 an exclusive lock makes a get and a put one");
    clear();
    for (int i = 0; i < ROUNDS; i++) {
        int value = -1, target = i % ranks;
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, win);
        MPI_Get(&value, 1, MPI_INT, target, 0, 1, MPI_INT, win);
        MPI_Win_flush(target, win);
        value++;
        MPI_Put(&value, 1, MPI_INT, target, 0, 1, MPI_INT, win);
        MPI_Win_unlock(target, win);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    int times = ROUNDS / ranks + (rank < ROUNDS % ranks), got = -1;
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
    CHECK_EQUAL(mine[0], times * ranks);
    MPI_Get(&got, 1, MPI_INT, rank, 0, 1, MPI_INT, win);
    MPI_Win_unlock(rank, win);
    CHECK_EQUAL(got, times * ranks);

    STORY("12.5.3 own stores under an exclusive lock are seen by whoever locks next");
    clear();
    for (int i = 0; i < ROUNDS; i++) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win);
        mine[1] += 1;
        mine[2] = mine[1];
        MPI_Win_unlock(rank, win);
        int both[2] = {-1, -2};
        MPI_Win_lock(MPI_LOCK_SHARED, after(1), 0, win);
        MPI_Get(both, 2, MPI_INT, after(1), 1, 2, MPI_INT, win);
        MPI_Win_unlock(after(1), win);
        CHECK(both[0] == both[1] && both[0] >= 0 && both[0] <= ROUNDS, "%d, %d", both[0], both[1]);
    }

    STORY("12.5.3 shared locks are held by all at once");
    clear();
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
    MPI_Barrier(MPI_COMM_WORLD); /* all hold it */
    MPI_Accumulate(&rank, 1, MPI_INT, 0, 3, 1, MPI_INT, MPI_SUM, win);
    MPI_Win_unlock(0, win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, 0, left_out("unchecked-lock") ? 0 : MPI_MODE_NOCHECK, win);
    MPI_Get(&got, 1, MPI_INT, 0, 3, 1, MPI_INT, win);
    MPI_Win_unlock(0, win);
    CHECK_EQUAL(got, ranks * (ranks - 1) / 2);

    STORY("12.5.3 locks of several targets at once, released in another order");
    clear();
    int *values = memory(sizeof(int) * (size_t)ranks);
    for (int i = 0; i < ranks; i++)
        MPI_Win_lock(MPI_LOCK_SHARED, i, 0, win);
    for (int i = 0; i < ranks; i++) {
        values[i] = 50 * rank + i;
        MPI_Put(&values[i], 1, MPI_INT, i, rank, 1, MPI_INT, win);
    }
    for (int i = ranks - 1; i >= 0; i--)
        MPI_Win_unlock(i, win);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < ranks; i++)
        CHECK_EQUAL(mine[i], 50 * i + rank);

    STORY("12.5.3 a lock of nothing");
    for (int i = 0; i < ROUNDS; i++) {
        MPI_Win_lock(i % 2 ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE, i % ranks, 0, win);
        MPI_Win_unlock(i % ranks, win);
    }

    STORY("12.5.3 exclusive locks wait for lock_all, and the reverse");
    clear();
    for (int i = 0; i < ROUNDS; i++) {
        if ((rank + i) % 2) {
            MPI_Win_lock(MPI_LOCK_EXCLUSIVE, i % ranks, 0, win);
            int value[2] = {rank * 100 + i, -1};
            value[1] = value[0];
            MPI_Put(value, 2, MPI_INT, i % ranks, 10, 2, MPI_INT, win);
            MPI_Win_unlock(i % ranks, win);
        } else {
            int seen[2] = {-1, -2};
            MPI_Win_lock_all(0, win);
            MPI_Get(seen, 2, MPI_INT, i % ranks, 10, 2, MPI_INT, win);
            MPI_Win_unlock_all(win);
            CHECK_EQUAL(seen[0], seen[1]);
        }
    }
    free(values);
}

static void flushes(void)
{
    STORY("12.5.4 after a flush others see what was put, and what was got is here");
    clear();
    int next = after(1), before = ahead_of(1), value = -1;
    MPI_Win_lock_all(MPI_MODE_NOCHECK, win);
    for (int round = 1; round <= ROUNDS; round++) {
        value = 100 * round + rank;
        MPI_Put(&value, 1, MPI_INT, next, 1, 1, MPI_INT, win);
        if (round % 2)
            MPI_Win_flush(next, win);
        else
            MPI_Win_flush_all(win);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Win_sync(win);
        CHECK_EQUAL(mine[1], 100 * round + before);
        int got = -1;
        MPI_Get(&got, 1, MPI_INT, next, 1, 1, MPI_INT, win);
        if (round % 3)
            MPI_Win_flush_local(next, win);
        else
            MPI_Win_flush_local_all(win);
        CHECK_EQUAL(got, 100 * round + rank);
        MPI_Win_sync(win);
        MPI_Barrier(MPI_COMM_WORLD);
    }

    STORY("12.5.4 after a local flush the origin's buffer is the program's again");
    for (int round = 0; round < ROUNDS; round++) {
        value = round;
        MPI_Put(&value, 1, MPI_INT, next, 2 + round, 1, MPI_INT, win);
        if (round % 2)
            MPI_Win_flush_local(next, win);
        else
            MPI_Win_flush_local_all(win);
        value = -1;
    }
    MPI_Win_flush(next, win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_sync(win);
    for (int round = 0; round < ROUNDS; round++)
        CHECK_EQUAL(mine[2 + round], round);
    MPI_Barrier(MPI_COMM_WORLD);

    STORY("12.5.4 own stores are seen by others after MPI_Win_sync");
    for (int round = 0; round < ROUNDS; round++) {
        mine[30] = 10 * rank + round;
        MPI_Win_sync(win);
        MPI_Barrier(MPI_COMM_WORLD);
        int got = -1;
        MPI_Get(&got, 1, MPI_INT, next, 30, 1, MPI_INT, win);
        MPI_Win_flush(next, win);
        CHECK_EQUAL(got, 10 * next + round);
        MPI_Barrier(MPI_COMM_WORLD);
    }

    STORY("12.5.4 flushes of targets to which nothing goes");
    for (int i = 0; i < ranks; i++)
        MPI_Win_flush(i, win);
    MPI_Win_flush_all(win);
    MPI_Win_flush_local_all(win);
    MPI_Win_unlock_all(win);

    STORY("12.5.4 flush under a lock of one target; another window is not concerned");
    MPI_Win other;
    int there = -1, got = -1;
    MPI_Win_create(&there, sizeof there, sizeof there, MPI_INFO_NULL, MPI_COMM_WORLD, &other);
    MPI_Win_lock(MPI_LOCK_SHARED, next, 0, win);
    MPI_Win_lock(MPI_LOCK_SHARED, next, 0, other);
    MPI_Put(&rank, 1, MPI_INT, next, 31, 1, MPI_INT, win);
    MPI_Put(&rank, 1, MPI_INT, next, 0, 1, MPI_INT, other);
    MPI_Win_flush(next, other);
    MPI_Get(&got, 1, MPI_INT, next, 0, 1, MPI_INT, other);
    MPI_Win_unlock(next, other);
    CHECK_EQUAL(got, rank);
    MPI_Win_unlock(next, win);
    MPI_Win_free(&other);
    CHECK(there == before && mine[31] == before, "%d, %d", there, mine[31]);
}

static void after_each_other(void)
{
    STORY("12.5 epochs of all kinds on one window");
    int next = after(1), before = ahead_of(1), got;
    MPI_Group to = group_of(1, &next), from = group_of(1, &before);
    clear();
    for (int round = 0; round < ROUNDS; round++) {
        int values[4] = {round, round + 1, round + 2, round + 3};
        MPI_Win_fence(MPI_MODE_NOPRECEDE, win);
        MPI_Put(&values[0], 1, MPI_INT, next, 0, 1, MPI_INT, win);
        MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
        MPI_Win_post(from, 0, win);
        MPI_Win_start(to, 0, win);
        MPI_Put(&values[1], 1, MPI_INT, next, 1, 1, MPI_INT, win);
        MPI_Win_complete(win);
        MPI_Win_wait(win);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Win_lock(MPI_LOCK_SHARED, next, 0, win);
        MPI_Put(&values[2], 1, MPI_INT, next, 2, 1, MPI_INT, win);
        MPI_Win_unlock(next, win);
        MPI_Win_lock_all(0, win);
        MPI_Put(&values[3], 1, MPI_INT, next, 3, 1, MPI_INT, win);
        MPI_Win_flush(next, win);
        MPI_Get(&got, 1, MPI_INT, next, 2, 1, MPI_INT, win);
        MPI_Win_unlock_all(win);
        MPI_Barrier(MPI_COMM_WORLD);
        CHECK(got == round + 2 && mine[0] == round && mine[1] == round + 1 && mine[2] == round + 2 && mine[3] == round + 3, "round %d: %d; %d %d %d %d",
              round, got, mine[0], mine[1], mine[2], mine[3]);
    }

    STORY("12.5 an access epoch with one group and an exposure epoch with another, and messages between");
    for (int round = 0; round < ROUNDS; round++) {
        int value = round * ranks + rank, token = -1;
        MPI_Win_post(from, 0, win);
        MPI_Win_start(to, 0, win);
        MPI_Put(&value, 1, MPI_INT, next, 5, 1, MPI_INT, win);
        MPI_Sendrecv(&value, 1, MPI_INT, next, 3, &token, 1, MPI_INT, before, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Win_complete(win);
        MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        MPI_Win_wait(win);
        CHECK(token == round * ranks + before && mine[5] == token, "%d, %d", token, mine[5]);
    }
    MPI_Group_free(&to);
    MPI_Group_free(&from);
}

static void all_of_it(void)
{
    MPI_Win_get_group(win, &everybody);
    fences();
    groups();
    locks();
    flushes();
    after_each_other();
    MPI_Group_free(&everybody);
    MPI_Win_free(&win);
}

/* Over memory of the program, then over memory that MPI allocates. */
int main(int argc, char **argv)
{
    begin(&argc, &argv);
    static int array[LENGTH];
    mine = array;
    MPI_Win_create(mine, sizeof array, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    all_of_it();
    MPI_Win_allocate(sizeof array, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &mine, &win);
    all_of_it();
    return end();
}
