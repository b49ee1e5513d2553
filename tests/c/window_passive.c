/* Passive targets (MPI-5.0 §12.7.3): operations on the memory of a process that computes, and makes no MPI
 * call, come to their end.
 *
 * The last rank computes until its own memory shows that all others have had what they asked for: if any
 * operation needed a call of it, both sides would wait for ever. A limit turns that into a failure. */
#include "check.h"
#include <fcntl.h>
#include <sched.h>
#include <stddef.h>
#include <sys/mman.h>
#include <time.h>

enum { LARGE = 1 << 17, LIMIT_SECONDS = 30, FLUSHES = 50 };

/* The contents of the target: the number of ranks that are done with it, a counter, and much data. */
struct shown {
    int64_t done, counter, data[LARGE];
};

enum flavor { ALLOCATED, CREATED, DYNAMIC, FLAVORS };

static const char *const flavors[FLAVORS] = {"a passive target whose memory MPI has allocated", "a passive target whose memory is its own",
                                             "a passive target that has attached its memory"};

/* Computes, without any MPI call, until `origins` others are done. */
static void compute(const struct shown *shown, int origins)
{
    double end = machine_seconds() + LIMIT_SECONDS;
    const volatile int64_t *done = &shown->done;
    while (*done < origins && machine_seconds() < end)
        sched_yield();
    CHECK(*done == origins, "%lld of %d were served while this process computed", (long long)*done, origins);
}

#define AT(field) (base + (MPI_Aint)offsetof(struct shown, field))

static void ask(MPI_Win win, int target, MPI_Aint base)
{
    static int64_t got[LARGE], put[LARGE / 2];
    int64_t one = 1, before = -1, small = -1, mine = 100 + rank;
    /* Each origin puts to a part of the second half that is its own. */
    int share = LARGE / 2 / ranks;
    MPI_Aint own = AT(data) + (MPI_Aint)(LARGE / 2 + rank * share) * 8;
    MPI_Win_lock(MPI_LOCK_SHARED, target, 0, win);
    MPI_Get(&small, 1, MPI_INT64_T, target, AT(data) + 8 * 77, 1, MPI_INT64_T, win);
    MPI_Win_flush(target, win);
    CHECK_EQUAL(small, 77);
    MPI_Get(got, LARGE / 2, MPI_INT64_T, target, AT(data), LARGE / 2, MPI_INT64_T, win);
    MPI_Win_flush(target, win);
    for (int i = 0; i < LARGE / 2; i++)
        CHECK(got[i] == i, "cell %d is %lld", i, (long long)got[i]);
    for (int i = 0; i < share; i++)
        put[i] = mine + i;
    MPI_Put(put, share, MPI_INT64_T, target, own, share, MPI_INT64_T, win);
    MPI_Win_flush(target, win);
    MPI_Get(got, share, MPI_INT64_T, target, own, share, MPI_INT64_T, win);
    MPI_Fetch_and_op(&one, &before, MPI_INT64_T, target, AT(counter), MPI_SUM, win);
    MPI_Win_flush(target, win);
    for (int i = 0; i < share; i++)
        CHECK(got[i] == mine + i, "cell %d that was put is %lld", i, (long long)got[i]);
    CHECK(before >= 0 && before < ranks - 1, "the counter was %lld", (long long)before);
    MPI_Win_unlock(target, win);
    /* The operation needs the lock alone, which the target gives while it computes, too. */
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, win);
    MPI_Accumulate(&one, 1, MPI_INT64_T, target, AT(done), 1, MPI_INT64_T, MPI_SUM, win);
    MPI_Win_unlock(target, win);
}

static void passive(enum flavor flavor)
{
    STORY(flavors[flavor]);
    int target = ranks - 1;
    struct shown *shown = NULL;
    MPI_Aint bytes = rank == target ? sizeof *shown : 0, base = 0;
    MPI_Win win;
    if (flavor == ALLOCATED) {
        MPI_Win_allocate(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &shown, &win);
    } else {
        shown = memory(sizeof *shown);
        if (flavor == CREATED)
            MPI_Win_create(shown, bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
        else
            MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    }
    if (rank == target) {
        shown->done = shown->counter = 0;
        for (int i = 0; i < LARGE; i++)
            shown->data[i] = i;
        if (flavor == DYNAMIC) {
            MPI_Win_attach(win, shown, bytes);
            MPI_Get_address(shown, &base);
        }
    }
    MPI_Bcast(&base, 1, MPI_AINT, target, MPI_COMM_WORLD);
    if (rank == target)
        compute(shown, ranks - 1);
    else
        ask(win, target, base);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == target) {
        CHECK_EQUAL(shown->counter, ranks - 1);
        if (flavor == DYNAMIC)
            MPI_Win_detach(win, shown);
    }
    MPI_Win_free(&win);
    if (flavor != ALLOCATED)
        free(shown);
}

/* The signals between origin and target without MPI: the number of the flush that has returned, and of the
 * flush behind which the target has looked. */
struct said {
    int64_t returned, seen;
};

/* A file that all processes map, if they are on one machine; each of them may be in a network of its own. */
static struct said *map_file(void)
{
    char name[] = "/tmp/weft-window-passive-XXXXXX";
    int file = rank == 0 ? mkstemp(name) : -1;
    if (file >= 0 && ftruncate(file, sizeof(struct said)) != 0)
        name[0] = 0;
    MPI_Bcast(name, sizeof name, MPI_CHAR, 0, MPI_COMM_WORLD);
    if (rank != 0)
        file = open(name, O_RDWR);
    struct said *said = MAP_FAILED;
    if (file >= 0)
        said = mmap(NULL, sizeof *said, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    int is_mapped = said != MAP_FAILED, all = 0;
    MPI_Allreduce(&is_mapped, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (file >= 0)
        close(file);
    if (rank == 0 && file >= 0)
        unlink(name);
    return all ? said : NULL;
}

/* Looks until `cell` is `value`. */
static int reaches(const int64_t *cell, int64_t value)
{
    double end = machine_seconds() + LIMIT_SECONDS;
    while (__atomic_load_n(cell, __ATOMIC_SEQ_CST) != value && machine_seconds() < end)
        sched_yield();
    return __atomic_load_n(cell, __ATOMIC_SEQ_CST) == value;
}

/* When a flush returns, the bytes of the puts are in the target's memory (§12.5.4), though the target makes
 * no call. */
static void flushed(void)
{
    STORY("a flush returns when what was put is at the target");
    struct said *said = map_file();
    int target = ranks - 1;
    if (!said)
        return;
    int64_t *memory;
    MPI_Win win;
    MPI_Win_allocate(sizeof *memory, sizeof *memory, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    *memory = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        MPI_Win_lock(MPI_LOCK_SHARED, target, 0, win);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int64_t number = 1; number <= FLUSHES; number++) {
        if (rank == 0) {
            MPI_Put(&number, 1, MPI_INT64_T, target, 0, 1, MPI_INT64_T, win);
            MPI_Win_flush(target, win);
            __atomic_store_n(&said->returned, number, __ATOMIC_SEQ_CST);
        }
        if (rank == target) {
            CHECK(reaches(&said->returned, number), "flush %lld has not returned while its target computes", (long long)number);
            int64_t found = __atomic_load_n(memory, __ATOMIC_SEQ_CST);
            CHECK(found == number, "there is %lld when flush %lld has returned", (long long)found, (long long)number);
            __atomic_store_n(&said->seen, number, __ATOMIC_SEQ_CST);
        }
        if (rank == 0 && !reaches(&said->seen, number))
            break;
    }
    if (rank == 0)
        MPI_Win_unlock(target, win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_free(&win);
    munmap(said, sizeof *said);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    for (int flavor = 0; flavor < FLAVORS; flavor++)
        passive(flavor);
    if (ranks > 1)
        flushed();
    return end();
}
