/*
 * One-sided operations of all ranks at once, from a seed, beside oracles that know which values are allowed:
 * `window_oracles [SEED [ROUNDS]]`. ROUNDS scales the amount of work. Passes on any MPI library with any
 * number of ranks; every story names its seed.
 */
#include "check.h"
#include <stddef.h>

static uint64_t seed = 1;
static int rounds = 10;
static char title[200];

enum flavor { CREATED, ALLOCATED, ATTACHED, FLAVORS };
static const char *const flavors[] = {"created", "allocated", "attached"};

#define STORY_OF(what, flavor) (snprintf(title, sizeof title, "%s, %s memory, seed %llu", what, flavors[flavor], (unsigned long long)seed), STORY(title))

/* Returns the same number on all ranks for the same `state`. */
static uint64_t random_of(uint64_t *state)
{
    uint64_t x = (*state += 0x9e3779b97f4a7c15u);
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static uint64_t below(uint64_t *state, int limit)
{
    return random_of(state) % (uint64_t)limit;
}

/* Equal on all ranks, and each rank's own. */
static uint64_t common_stream(int number)
{
    return seed * 1000003u + (uint64_t)number * 7919u;
}

static uint64_t own_stream(int number)
{
    return common_stream(number) + (uint64_t)(rank + 1) * 104729u;
}

/* A window of `bytes` zeros on each rank, in units of one byte. */
struct window {
    MPI_Win win;
    char *mine;
    MPI_Aint *bases; /* where each rank's memory begins, for displacements */
    enum flavor flavor;
};

static struct window open_window(enum flavor flavor, size_t bytes)
{
    struct window window = {MPI_WIN_NULL, NULL, memory(sizeof(MPI_Aint) * (size_t)ranks), flavor};
    MPI_Aint here = 0;
    if (flavor == ALLOCATED) {
        MPI_Win_allocate((MPI_Aint)bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window.mine, &window.win);
        memset(window.mine, 0, bytes);
    } else {
        window.mine = memory(bytes);
        if (flavor == CREATED) {
            MPI_Win_create(window.mine, (MPI_Aint)bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window.win);
        } else {
            MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &window.win);
            MPI_Win_attach(window.win, window.mine, (MPI_Aint)bytes);
            MPI_Get_address(window.mine, &here);
        }
    }
    /* No rank acts before all have zeros. */
    MPI_Allgather(&here, 1, MPI_AINT, window.bases, 1, MPI_AINT, MPI_COMM_WORLD);
    return window;
}

/* Memory of the program stays until `forget`. */
static void close_window(struct window *window)
{
    if (window->flavor == ATTACHED) {
        /* Other ranks may still act on attached memory. */
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Win_detach(window->win, window->mine);
    }
    MPI_Win_free(&window->win);
}

static void forget(struct window *window)
{
    if (window->flavor != ALLOCATED)
        free(window->mine);
    free(window->bases);
}

/* -- Every value is written once, so the values that writes replaced tell the order of the writes of a cell.
 * -- */

enum { CELLS = 4 };
enum kind { SWAP, COMPARE, READ, SWAP_ALL, SWAP_ALL_BY_REQUEST, KINDS };

struct operation {
    int32_t kind, target, cell;
    uint64_t compared, written[CELLS], found[CELLS];
};

/* Values count from one: that of cell `i` in operation `number` of `of`. */
static uint64_t value_of(int of, int number, int i, int operations)
{
    return 1 + ((uint64_t)of * (uint64_t)operations + (uint64_t)number) * CELLS + (uint64_t)i;
}

static void check_cell(const struct operation *all, int operations, int target, int cell, uint64_t last)
{
    size_t values = 1 + (size_t)ranks * (size_t)operations * CELLS;
    uint64_t *successor = memory(sizeof(uint64_t) * values), writes = 0, at = 0, length = 0;
    int64_t *position = memory(sizeof(int64_t) * values);
    for (size_t i = 0; i < (size_t)ranks * (size_t)operations; i++) {
        const struct operation *op = &all[i];
        int slot = op->kind >= SWAP_ALL ? cell : 0;
        if (op->target != target || (op->kind < SWAP_ALL && op->cell != cell))
            continue;
        CHECK(op->found[slot] < values, "rank %d, cell %d has held %llu", target, cell, (unsigned long long)op->found[slot]);
        if (op->found[slot] >= values || op->kind == READ || (op->kind == COMPARE && op->found[slot] != op->compared))
            continue;
        CHECK(successor[op->found[slot]] == 0, "rank %d, cell %d: %llu was replaced by %llu and by %llu", target, cell,
              (unsigned long long)op->found[slot], (unsigned long long)successor[op->found[slot]], (unsigned long long)op->written[slot]);
        successor[op->found[slot]] = op->written[slot];
        writes++;
    }
    for (size_t i = 0; i < values; i++)
        position[i] = -1;
    position[0] = 0;
    while (successor[at] && length < writes)
        position[at = successor[at]] = (int64_t)++length;
    CHECK(length == writes && at == last, "rank %d, cell %d: %llu of %llu writes in a row, the last of %llu, not %llu", target, cell, (unsigned long long)length,
          (unsigned long long)writes, (unsigned long long)at, (unsigned long long)last);
    /* Operations of one rank on one cell happen in the order of its calls (§12.7.2). */
    for (int of = 0; of < ranks; of++) {
        int64_t before = 0;
        for (int i = 0; i < operations; i++) {
            const struct operation *op = &all[of * operations + i];
            int slot = op->kind >= SWAP_ALL ? cell : 0;
            if (op->target != target || (op->kind < SWAP_ALL && op->cell != cell) || op->found[slot] >= values)
                continue;
            int64_t found = position[op->found[slot]];
            CHECK(found >= before, "rank %d, cell %d: operation %d of rank %d found write %lld after write %lld", target, cell, i, of, (long long)found,
                  (long long)before);
            before = op->kind == READ || (op->kind == COMPARE && op->found[slot] != op->compared) ? found : position[op->written[slot]];
        }
    }
    free(successor);
    free(position);
}

static void orders(enum flavor flavor)
{
    STORY_OF("every write replaces what another one wrote", flavor);
    struct window window = open_window(flavor, CELLS * sizeof(uint64_t));
    int operations = rounds * 6;
    struct operation *ops = memory(sizeof(struct operation) * (size_t)operations);
    uint64_t state = own_stream(1 + flavor), *known = memory(sizeof(uint64_t) * (size_t)ranks * CELLS);
    MPI_Request request;
    MPI_Win_lock_all(0, window.win);
    int flushed = 0;
    for (int number = 0; number < operations; number++) {
        struct operation *op = &ops[number];
        op->kind = (int32_t)below(&state, KINDS);
        op->target = (int32_t)below(&state, ranks);
        op->cell = (int32_t)below(&state, CELLS);
        for (int i = 0; i < CELLS; i++)
            op->written[i] = value_of(rank, number, i, operations);
        op->compared = known[op->target * CELLS + op->cell];
        MPI_Aint base = window.bases[op->target], at = MPI_Aint_add(base, op->cell * 8);
        switch ((enum kind)op->kind) {
        case SWAP:
            MPI_Fetch_and_op(op->written, op->found, MPI_UINT64_T, op->target, at, MPI_REPLACE, window.win);
            break;
        case COMPARE:
            MPI_Compare_and_swap(op->written, &op->compared, op->found, MPI_UINT64_T, op->target, at, window.win);
            break;
        case READ:
            MPI_Fetch_and_op(NULL, op->found, MPI_UINT64_T, op->target, at, MPI_NO_OP, window.win);
            break;
        case SWAP_ALL:
            MPI_Get_accumulate(op->written, CELLS, MPI_UINT64_T, op->found, CELLS, MPI_UINT64_T, op->target, base, CELLS, MPI_UINT64_T, MPI_REPLACE, window.win);
            break;
        default:
            MPI_Rget_accumulate(op->written, CELLS, MPI_UINT64_T, op->found, CELLS, MPI_UINT64_T, op->target, base, CELLS, MPI_UINT64_T, MPI_REPLACE, window.win,
                                &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
        if (below(&state, 3) == 0) {
            MPI_Win_flush_all(window.win);
            for (; flushed <= number; flushed++)
                for (int i = 0; i < (ops[flushed].kind >= SWAP_ALL ? CELLS : 1); i++) {
                    int cell = ops[flushed].kind >= SWAP_ALL ? i : ops[flushed].cell;
                    known[ops[flushed].target * CELLS + cell] = ops[flushed].kind == READ || ops[flushed].kind == COMPARE ? ops[flushed].found[i] : ops[flushed].written[i];
                }
        }
    }
    MPI_Win_unlock_all(window.win);
    MPI_Barrier(MPI_COMM_WORLD);
    uint64_t last[CELLS], *lasts = memory(sizeof last * (size_t)ranks);
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, window.win);
    memcpy(last, window.mine, sizeof last);
    MPI_Win_unlock(rank, window.win);
    int bytes = (int)sizeof(struct operation) * operations;
    struct operation *all = memory((size_t)bytes * (size_t)ranks);
    MPI_Gather(ops, bytes, MPI_BYTE, all, bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
    MPI_Gather(last, CELLS, MPI_UINT64_T, lasts, CELLS, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    for (int i = 0; rank == 0 && i < ranks * CELLS; i++)
        check_cell(all, operations, i / CELLS, i % CELLS, lasts[i]);
    close_window(&window);
    forget(&window);
    free(known);
    free(lasts);
    free(all);
    free(ops);
}

/* -- Maxima only grow: a found value lies between this rank's last one and the greatest of all ranks. -- */

static void maxima(enum flavor flavor)
{
    STORY_OF("maxima grow, and end at the greatest", flavor);
    enum { LENGTH = 700 };
    struct window window = open_window(flavor, LENGTH * sizeof(int64_t));
    uint64_t state = own_stream(20 + flavor);
    int64_t *given = memory(LENGTH * 8), *found = memory(LENGTH * 8), *least = memory((size_t)ranks * LENGTH * 8), *most = memory((size_t)ranks * LENGTH * 8);
    MPI_Win_lock_all(0, window.win);
    for (int round = 0; round < rounds; round++) {
        int target = (int)below(&state, ranks), first = (int)below(&state, LENGTH), count = 1 + (int)below(&state, LENGTH - first);
        for (int i = 0; i < count; i++) {
            given[i] = (int64_t)(random_of(&state) >> 2);
            found[i] = -1;
        }
        MPI_Get_accumulate(given, count, MPI_INT64_T, found, count, MPI_INT64_T, target, MPI_Aint_add(window.bases[target], first * 8), count, MPI_INT64_T, MPI_MAX,
                           window.win);
        MPI_Win_flush(target, window.win);
        for (int i = 0; i < count; i++) {
            int64_t *at = &least[target * LENGTH + first + i], *own = &most[target * LENGTH + first + i];
            CHECK(found[i] >= *at, "%lld after %lld", (long long)found[i], (long long)*at);
            *at = found[i] > given[i] ? found[i] : given[i];
            *own = *own > given[i] ? *own : given[i];
        }
    }
    MPI_Win_unlock_all(window.win);
    MPI_Allreduce(MPI_IN_PLACE, least, ranks * LENGTH, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, most, ranks * LENGTH, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, window.win);
    for (int i = 0; i < LENGTH; i++) {
        int64_t here;
        memcpy(&here, window.mine + 8 * i, 8);
        CHECK(here == most[rank * LENGTH + i] && least[rank * LENGTH + i] <= here, "%d: %lld, expected %lld, seen %lld", i, (long long)here,
              (long long)most[rank * LENGTH + i], (long long)least[rank * LENGTH + i]);
    }
    MPI_Win_unlock(rank, window.win);
    close_window(&window);
    forget(&window);
    free(given);
    free(found);
    free(least);
    free(most);
}

/* -- A hash table: a place for each hash, and an overflow heap of which lists are made. -- */

enum { PLACES = 8 };
struct entry {
    uint64_t key, value, next; /* `next`: place in the heap, from one; of an entry in the table the first of its list */
};
static struct window table;

static MPI_Aint entry_at(int target, uint64_t place)
{
    /* The first word counts the used entries of the heap. */
    return MPI_Aint_add(table.bases[target], (MPI_Aint)(sizeof(uint64_t) + place * sizeof(struct entry)));
}

static uint64_t compare_and_swap(int target, MPI_Aint at, uint64_t compared, uint64_t value)
{
    uint64_t found = 0;
    MPI_Compare_and_swap(&value, &compared, &found, MPI_UINT64_T, target, at, table.win);
    MPI_Win_flush(target, table.win);
    return found;
}

static uint64_t fetch(int target, MPI_Aint at, uint64_t added)
{
    uint64_t found = 0;
    MPI_Fetch_and_op(&added, &found, MPI_UINT64_T, target, at, added ? MPI_SUM : MPI_NO_OP, table.win);
    MPI_Win_flush(target, table.win);
    return found;
}

static uint64_t hash_of(uint64_t key)
{
    return random_of(&key);
}

static void insert(uint64_t key)
{
    uint64_t hash = hash_of(key), value = ~key;
    int target = (int)(hash % (uint64_t)ranks);
    MPI_Aint place = entry_at(target, hash / (uint64_t)ranks % PLACES);
    MPI_Aint head = MPI_Aint_add(place, offsetof(struct entry, next));
    if (compare_and_swap(target, place, 0, key) == 0) {
        MPI_Accumulate(&value, 1, MPI_UINT64_T, target, MPI_Aint_add(place, offsetof(struct entry, value)), 1, MPI_UINT64_T, MPI_REPLACE, table.win);
        MPI_Win_flush(target, table.win);
        return;
    }
    uint64_t number = 1 + fetch(target, table.bases[target], 1), first = fetch(target, head, 0), found;
    for (;; first = found) {
        struct entry entry = {key, value, first};
        MPI_Put(&entry, 3, MPI_UINT64_T, target, entry_at(target, PLACES + number - 1), 3, MPI_UINT64_T, table.win);
        MPI_Win_flush(target, table.win);
        found = compare_and_swap(target, head, first, number);
        if (found == first)
            return;
    }
}

/* The number of entries of a key; an entry's value must be its own. */
static int lookup(uint64_t key, uint64_t heap)
{
    uint64_t hash = hash_of(key), place = hash / (uint64_t)ranks % PLACES, steps = 0;
    int target = (int)(hash % (uint64_t)ranks), times = 0;
    times += fetch(target, entry_at(target, place), 0) == key;
    uint64_t at = fetch(target, MPI_Aint_add(entry_at(target, place), offsetof(struct entry, next)), 0);
    while (at && steps++ < heap) {
        struct entry entry = {0, 0, 0};
        MPI_Get(&entry, 3, MPI_UINT64_T, target, entry_at(target, PLACES + at - 1), 3, MPI_UINT64_T, table.win);
        MPI_Win_flush(target, table.win);
        CHECK(entry.key != 0 && entry.value == ~entry.key, "entry %llu: key %llu has value %llu", (unsigned long long)at, (unsigned long long)entry.key,
              (unsigned long long)entry.value);
        times += entry.key == key;
        at = entry.next;
    }
    CHECK(at == 0, "a list has more than %llu entries", (unsigned long long)heap);
    return times;
}

static uint64_t key_of(int of, int number)
{
    return 1 + (uint64_t)number * (uint64_t)ranks + (uint64_t)of;
}

static void overflowing_table(enum flavor flavor)
{
    STORY_OF("a hash table with an overflow heap has every key once", flavor);
    int keys = rounds * 2;
    uint64_t heap = (uint64_t)keys * (uint64_t)ranks, state = own_stream(40 + flavor);
    table = open_window(flavor, sizeof(uint64_t) + (PLACES + heap) * sizeof(struct entry));
    MPI_Win_lock_all(0, table.win);
    for (int i = 0; i < keys; i++) {
        insert(key_of(rank, i));
        /* An inserted entry is there while others go on inserting. */
        int one = (int)below(&state, i + 1);
        CHECK_EQUAL(lookup(key_of(rank, one), heap), 1);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < keys; i++) {
        int of = (int)below(&state, ranks);
        CHECK_EQUAL(lookup(key_of(of, i), heap), 1);
        CHECK_EQUAL(lookup(key_of(of, keys + i), heap), 0);
    }
    MPI_Win_unlock_all(table.win);
    MPI_Barrier(MPI_COMM_WORLD);
    /* Everything that is in the heap is in one list, so that all is counted. */
    uint64_t used, taken = 0;
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, table.win);
    memcpy(&used, table.mine, sizeof used);
    for (int i = 0; i < PLACES; i++) {
        struct entry entry;
        memcpy(&entry, table.mine + sizeof(uint64_t) + (size_t)i * sizeof entry, sizeof entry);
        taken += entry.key != 0;
        CHECK(entry.key == 0 || entry.value == ~entry.key, "key %llu has value %llu", (unsigned long long)entry.key, (unsigned long long)entry.value);
    }
    MPI_Win_unlock(rank, table.win);
    taken += used;
    MPI_Allreduce(MPI_IN_PLACE, &taken, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    CHECK_EQUAL(taken, heap);
    close_window(&table);
    forget(&table);
}

/* -- Many windows, each in an epoch of another kind, with operations on all in turn. -- */

enum epoch { FENCES, GROUPS, ONE_LOCK, ALL_LOCKS, EPOCHS };
enum { WINDOWS = 10, STRIP = 600 };

/* An epoch of a window, and this rank's target in it; without a target, any rank. */
struct stand {
    enum epoch epoch;
    int target, from;
};

static MPI_Group group_of_one(int member)
{
    MPI_Group world, one;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 1, &member, &one);
    MPI_Group_free(&world);
    return one;
}

static void mixed_epochs(void)
{
    STORY_OF("many windows in epochs of all kinds at once", CREATED);
    static struct window windows[WINDOWS];
    static struct stand stands[WINDOWS];
    size_t strips = (size_t)ranks * STRIP;
    /* The values that this rank has written at each rank, and those that come from there. */
    int32_t *there = memory(WINDOWS * strips * 4), *source = memory(WINDOWS * strips * 4), *expected = memory(strips * 4), *copies = memory(STRIP * 4 * WINDOWS);
    uint64_t common = common_stream(60), own = own_stream(60);
    for (int i = 0; i < WINDOWS; i++)
        windows[i] = open_window((enum flavor)(i % FLAVORS), strips * 4);
    for (int round = 0; round < rounds; round++) {
        /* A rank waits for a lock only while every holder of that lock waits for nothing, or for a lock of a
         * later window. */
        for (int i = 0; i < WINDOWS; i++) {
            int shift = (int)below(&common, ranks);
            stands[i] = (struct stand){(enum epoch)below(&common, EPOCHS), -1, -1};
            if (stands[i].epoch == FENCES)
                MPI_Win_fence(0, windows[i].win);
            if (stands[i].epoch == GROUPS) {
                stands[i].target = (rank + shift) % ranks;
                stands[i].from = (rank + ranks - shift) % ranks;
                MPI_Group group = group_of_one(stands[i].from);
                MPI_Win_post(group, 0, windows[i].win);
                MPI_Group_free(&group);
            }
        }
        for (int i = 0; i < WINDOWS; i++)
            if (stands[i].epoch == GROUPS) {
                MPI_Group group = group_of_one(stands[i].target);
                MPI_Win_start(group, 0, windows[i].win);
                MPI_Group_free(&group);
            }
        for (int i = 0; i < WINDOWS; i++) {
            if (stands[i].epoch == ONE_LOCK) {
                stands[i].target = (int)below(&own, ranks);
                MPI_Win_lock(below(&own, 2) ? MPI_LOCK_EXCLUSIVE : MPI_LOCK_SHARED, stands[i].target, 0, windows[i].win);
            } else if (stands[i].epoch == ALL_LOCKS) {
                MPI_Win_lock_all(0, windows[i].win);
            }
        }
        /* One half of each strip is written, each of its places once; the other half is read. */
        int half = STRIP / 2, write = round % 2 * half, read = half - write, parts = 6, part = half / parts;
        for (int k = 0; k < parts * WINDOWS; k++) {
            int i = k % WINDOWS, first = write + k / WINDOWS * part, count = 1 + (int)below(&own, part);
            int target = stands[i].target >= 0 ? stands[i].target : (int)below(&own, ranks);
            int32_t *model = &there[((size_t)i * (size_t)ranks + (size_t)target) * STRIP], *from = &source[((size_t)i * (size_t)ranks + (size_t)target) * STRIP];
            for (int j = first; j < first + count; j++)
                model[j] = from[j] = (int32_t)random_of(&own);
            MPI_Aint at = MPI_Aint_add(windows[i].bases[target], (rank * STRIP + first) * 4);
            if (below(&own, 3))
                MPI_Put(&from[first], count, MPI_INT32_T, target, at, count, MPI_INT32_T, windows[i].win);
            else
                MPI_Accumulate(&from[first], count, MPI_INT32_T, target, at, count, MPI_INT32_T, MPI_REPLACE, windows[i].win);
        }
        int read_at[WINDOWS];
        for (int i = 0; i < WINDOWS; i++) {
            read_at[i] = stands[i].target >= 0 ? stands[i].target : (int)below(&own, ranks);
            MPI_Get(&copies[i * STRIP], half, MPI_INT32_T, read_at[i], MPI_Aint_add(windows[i].bases[read_at[i]], (rank * STRIP + read) * 4), half, MPI_INT32_T,
                    windows[i].win);
        }
        for (int i = WINDOWS - 1; i >= 0; i--) {
            if (stands[i].epoch == ONE_LOCK)
                MPI_Win_unlock(stands[i].target, windows[i].win);
            else if (stands[i].epoch == ALL_LOCKS)
                MPI_Win_unlock_all(windows[i].win);
            else if (stands[i].epoch == GROUPS)
                MPI_Win_complete(windows[i].win);
        }
        for (int i = 0; i < WINDOWS; i++)
            if (stands[i].epoch == GROUPS)
                MPI_Win_wait(windows[i].win);
        for (int i = 0; i < WINDOWS; i++)
            if (stands[i].epoch == FENCES)
                MPI_Win_fence(MPI_MODE_NOSUCCEED, windows[i].win);
        for (int i = 0; i < WINDOWS; i++) {
            const int32_t *model = &there[((size_t)i * (size_t)ranks + (size_t)read_at[i]) * STRIP];
            CHECK(memcmp(&copies[i * STRIP], &model[read], (size_t)half * 4) == 0, "round %d: what was read of window %d at rank %d is not what was written", round, i,
                  read_at[i]);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < WINDOWS; i++) {
        MPI_Alltoall(&there[(size_t)i * strips], STRIP, MPI_INT32_T, expected, STRIP, MPI_INT32_T, MPI_COMM_WORLD);
        MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, windows[i].win);
        CHECK(memcmp(expected, windows[i].mine, strips * 4) == 0, "window %d does not hold what all have written", i);
        MPI_Win_unlock(rank, windows[i].win);
    }
    for (int i = 0; i < WINDOWS; i++) {
        close_window(&windows[i]);
        forget(&windows[i]);
    }
    free(there);
    free(source);
    free(expected);
    free(copies);
}

/* -- Windows are freed while later ones are in use, right after epochs whose operations may still travel. --
 */

struct passing {
    struct window window;
    int from, number;
    int32_t *source;
};

enum { LENGTH = 30000, LARGE = 20000, SMALL = 40, ALIVE = 4 };

static int32_t element(int of, int number, int at)
{
    return of * 1000003 + number * 7919 + at;
}

static void end_window(struct passing *passing)
{
    close_window(&passing->window);
    /* Memory that the program made is its own again: no operation arrives there any more. */
    if (passing->window.flavor != ALLOCATED) {
        int32_t *mine = (int32_t *)passing->window.mine;
        int wrong = 0;
        for (int i = 0; i < LARGE + SMALL; i++)
            wrong += mine[i] != element(passing->from, passing->number, i);
        for (int i = LARGE + SMALL; i < LENGTH; i++)
            wrong += mine[i] != 2 * element(passing->from, passing->number, i);
        CHECK(wrong == 0, "window %d: %d elements are wrong", passing->number, wrong);
        memset(mine, 0x5a, LENGTH * 4);
    }
    forget(&passing->window);
    free(passing->source);
}

static void freed_in_passing(void)
{
    STORY_OF("windows are freed right after epochs, among others that are in use", CREATED);
    static struct passing alive[ALIVE];
    uint64_t common = common_stream(80);
    int count = 0;
    for (int number = 0; number < rounds * 2; number++) {
        struct passing *passing = &alive[count++];
        int shift = (int)below(&common, ranks), locks = (int)below(&common, 2), target = (rank + shift) % ranks;
        passing->window = open_window((enum flavor)below(&common, FLAVORS), LENGTH * 4);
        passing->from = (rank + ranks - shift) % ranks;
        passing->number = number;
        passing->source = memory(LENGTH * 4);
        for (int i = 0; i < LENGTH; i++)
            passing->source[i] = element(rank, number, i);
        MPI_Win win = passing->window.win;
        MPI_Aint base = passing->window.bases[target];
        MPI_Request requests[2];
        if (locks) {
            MPI_Win_lock(MPI_LOCK_SHARED, target, 0, win);
        } else {
            MPI_Group from = group_of_one(passing->from), to = group_of_one(target);
            MPI_Win_post(from, 0, win);
            MPI_Win_start(to, 0, win);
            MPI_Group_free(&from);
            MPI_Group_free(&to);
        }
        for (int i = LARGE; i < LARGE + SMALL; i++)
            MPI_Put(&passing->source[i], 1, MPI_INT32_T, target, MPI_Aint_add(base, 4 * i), 1, MPI_INT32_T, win);
        int rest = LARGE + SMALL;
        if (locks) {
            MPI_Rput(passing->source, LARGE, MPI_INT32_T, target, base, LARGE, MPI_INT32_T, win, &requests[0]);
            MPI_Raccumulate(&passing->source[rest], LENGTH - rest, MPI_INT32_T, target, MPI_Aint_add(base, 4 * rest), LENGTH - rest, MPI_INT32_T, MPI_SUM, win,
                            &requests[1]);
        } else {
            MPI_Put(passing->source, LARGE, MPI_INT32_T, target, base, LARGE, MPI_INT32_T, win);
            MPI_Accumulate(&passing->source[rest], LENGTH - rest, MPI_INT32_T, target, MPI_Aint_add(base, 4 * rest), LENGTH - rest, MPI_INT32_T, MPI_SUM, win);
        }
        MPI_Accumulate(&passing->source[rest], LENGTH - rest, MPI_INT32_T, target, MPI_Aint_add(base, 4 * rest), LENGTH - rest, MPI_INT32_T, MPI_SUM, win);
        if (locks) {
            /* A request is the program's to wait for, before the end of the epoch. */
            MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
            MPI_Win_unlock(target, win);
        } else {
            MPI_Win_complete(win);
            MPI_Win_wait(win);
        }
        while (count == ALIVE || (count > 0 && below(&common, 3) == 0)) {
            int which = (int)below(&common, count);
            end_window(&alive[which]);
            alive[which] = alive[--count];
        }
    }
    while (count > 0)
        end_window(&alive[--count]);
}

/* -- Puts of one rank go the same way as the data of the other rank's gets. -- */

static void crossing(enum flavor flavor)
{
    STORY_OF("large puts of one rank and gets of the other cross each other", flavor);
    enum { EACH = 3, COUNT = 9000 };
    /* The first half may be read; the second half is for puts. */
    struct window window = open_window(flavor, 2 * EACH * COUNT * 4);
    int other = (rank ^ 1) < ranks ? rank ^ 1 : rank;
    int32_t *mine = (int32_t *)window.mine, *put = memory(EACH * COUNT * 4), *gotten = memory(EACH * COUNT * 4);
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < EACH * COUNT; i++) {
            mine[i] = element(rank, 2 * round, i);
            put[i] = element(rank, 2 * round + 1, i);
        }
        MPI_Win_fence(0, window.win);
        /* One rank begins with its put, the other with its get; lengths differ. */
        for (int half = 0; half < 2; half++)
            for (int i = 0; i < EACH; i++) {
                int count = COUNT - i * 1000 - half * 500;
                MPI_Aint at = MPI_Aint_add(window.bases[other], 4 * i * COUNT);
                if (half == (rank & 1))
                    MPI_Put(&put[i * COUNT], COUNT - i, MPI_INT32_T, other, MPI_Aint_add(at, 4 * EACH * COUNT), COUNT - i, MPI_INT32_T, window.win);
                else
                    MPI_Get(&gotten[i * COUNT], count, MPI_INT32_T, other, at, count, MPI_INT32_T, window.win);
            }
        MPI_Win_fence(0, window.win);
        int wrong = 0;
        for (int i = 0; i < EACH; i++) {
            int half = !(rank & 1), count = COUNT - i * 1000 - half * 500;
            for (int k = i * COUNT; k < i * COUNT + count; k++)
                wrong += gotten[k] != element(other, 2 * round, k);
            for (int k = i * COUNT; k < i * COUNT + COUNT - i; k++)
                wrong += mine[EACH * COUNT + k] != element(other, 2 * round + 1, k);
        }
        CHECK(wrong == 0, "round %d: %d elements are wrong", round, wrong);
        /* No rank changes data that others still get. */
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Win_fence(MPI_MODE_NOSUCCEED, window.win);
    close_window(&window);
    forget(&window);
    free(put);
    free(gotten);
}

/* -- Some ranks ask for all locks, and others for one exclusive lock. -- */

static void all_locks_and_one(enum flavor flavor)
{
    STORY_OF("MPI_Win_lock_all beside exclusive locks", flavor);
    struct window window = open_window(flavor, 2 * sizeof(int64_t));
    uint64_t state = own_stream(100 + flavor);
    int64_t one = 1, value, *given = memory(sizeof(int64_t) * (size_t)ranks), sum = 0;
    for (int turn = 0; turn < rounds * 5; turn++) {
        int target = (int)below(&state, ranks);
        if (below(&state, 2)) {
            MPI_Win_lock_all(0, window.win);
            MPI_Accumulate(&one, 1, MPI_INT64_T, target, window.bases[target], 1, MPI_INT64_T, MPI_SUM, window.win);
            MPI_Win_unlock_all(window.win);
        } else {
            /* No other rank has the lock: a get and a put suffice. */
            MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, window.win);
            MPI_Get(&value, 1, MPI_INT64_T, target, window.bases[target], 1, MPI_INT64_T, window.win);
            MPI_Win_flush(target, window.win);
            value++;
            MPI_Put(&value, 1, MPI_INT64_T, target, window.bases[target], 1, MPI_INT64_T, window.win);
            MPI_Win_unlock(target, window.win);
        }
        given[target]++;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, given, ranks, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, window.win);
    memcpy(&sum, window.mine, sizeof sum);
    MPI_Win_unlock(rank, window.win);
    CHECK_EQUAL(sum, given[rank]);
    close_window(&window);
    forget(&window);
    free(given);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    if (argc > 1)
        seed = strtoull(argv[1], NULL, 10);
    if (argc > 2)
        rounds = atoi(argv[2]);
    for (int flavor = 0; flavor < FLAVORS; flavor++) {
        orders((enum flavor)flavor);
        maxima((enum flavor)flavor);
        overflowing_table((enum flavor)flavor);
        crossing((enum flavor)flavor);
        all_locks_and_one((enum flavor)flavor);
    }
    mixed_epochs();
    freed_in_passing();
    return end();
}
