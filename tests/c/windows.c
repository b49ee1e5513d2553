/*
 * One-sided operations under load, from a seed: `windows [SEED [ROUNDS [BYTES]]]`. ROUNDS scales the amount
 * of work; BYTES is the largest transfer.
 *
 * Every story states beforehand which outcomes are allowed. So any order of simultaneous events is right, and
 * no update may be lost, doubled or torn. Passes on any MPI library with any number of ranks.
 */
#include "check.h"
#include <pthread.h>
#include <sched.h>
#include <stddef.h>

static uint64_t seed = 1;
static int rounds = 20;
static size_t bytes_max = (size_t)4 << 20;
static int next, before;

/* Returns the same number on all ranks for the same `state`. */
static uint64_t random_of(uint64_t *state)
{
    uint64_t x = (*state += 0x9e3779b97f4a7c15u);
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static uint64_t own_stream(int story_number)
{
    return seed * 1000003u + (uint64_t)story_number * 7919u + (uint64_t)rank * 104729u;
}

/* §12.3.4: every number is handed out once, and none is left out. */
static void counters(void)
{
    STORY("shared counters: every number is given to one rank");
    int64_t *mine, one = 1, *got = memory(sizeof(int64_t) * (size_t)rounds * (size_t)ranks);
    MPI_Win win;
    MPI_Win_allocate(sizeof(int64_t), sizeof(int64_t), MPI_INFO_NULL, MPI_COMM_WORLD, &mine, &win);
    MPI_Win_lock_all(0, win);
    *mine = 0;
    MPI_Win_sync(win);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < rounds; i++)
        for (int target = 0; target < ranks; target++) {
            MPI_Fetch_and_op(&one, &got[i * ranks + target], MPI_INT64_T, (rank + target) % ranks, 0, MPI_SUM, win);
            MPI_Win_flush((rank + target) % ranks, win);
        }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_sync(win);
    CHECK_EQUAL(*mine, (int64_t)rounds * ranks);
    MPI_Win_unlock_all(win);
    /* The rank that got each number of each counter. */
    int *times = memory(sizeof(int) * (size_t)(rounds * ranks * ranks));
    for (int i = 0; i < rounds; i++)
        for (int target = 0; target < ranks; target++) {
            int64_t number = got[i * ranks + target];
            CHECK(number >= 0 && number < (int64_t)rounds * ranks, "number %lld", (long long)number);
            CHECK(i == 0 || number > got[(i - 1) * ranks + target], "%lld after %lld", (long long)number, (long long)got[(i - 1) * ranks + target]);
            if (number >= 0 && number < (int64_t)rounds * ranks)
                times[(rank + target) % ranks * rounds * ranks + (int)number]++;
        }
    MPI_Allreduce(MPI_IN_PLACE, times, rounds * ranks * ranks, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < rounds * ranks * ranks; i++)
        CHECK_EQUAL(times[i], 1);
    free(times);
    free(got);
    MPI_Win_free(&win);
}

/* The queue lock of Mellor-Crummey and Scott: a tail on rank 0, and in each rank's node a flag and the next
 * rank. */
enum { BLOCKED, NEXT, TAIL, PROTECTED, CELLS };

static int fetch(MPI_Win win, int target, int cell)
{
    int value = 0;
    MPI_Fetch_and_op(NULL, &value, MPI_INT, target, cell, MPI_NO_OP, win);
    MPI_Win_flush(target, win);
    return value;
}

static void store(MPI_Win win, int target, int cell, int value)
{
    MPI_Accumulate(&value, 1, MPI_INT, target, cell, 1, MPI_INT, MPI_REPLACE, win);
    MPI_Win_flush(target, win);
}

static void queue_lock(void)
{
    STORY("a queue lock: what it protects is read and written by one at a time");
    int *mine;
    MPI_Win win;
    MPI_Win_allocate(CELLS * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &mine, &win);
    MPI_Win_lock_all(0, win);
    mine[BLOCKED] = mine[PROTECTED] = 0;
    mine[NEXT] = mine[TAIL] = -1;
    MPI_Win_sync(win);
    MPI_Barrier(MPI_COMM_WORLD);
    int turns = rounds / 4 + 1;
    for (int i = 0; i < turns; i++) {
        int predecessor = -1, nobody = -1, was = -1, value = -1;
        store(win, rank, NEXT, -1);
        store(win, rank, BLOCKED, 1);
        MPI_Fetch_and_op(&rank, &predecessor, MPI_INT, 0, TAIL, MPI_REPLACE, win);
        MPI_Win_flush(0, win);
        if (predecessor >= 0) {
            store(win, predecessor, NEXT, rank);
            while (fetch(win, rank, BLOCKED))
                sched_yield();
        }
        /* Plain gets and puts: no other rank is here. */
        MPI_Get(&value, 1, MPI_INT, 0, PROTECTED, 1, MPI_INT, win);
        MPI_Win_flush(0, win);
        value++;
        MPI_Put(&value, 1, MPI_INT, 0, PROTECTED, 1, MPI_INT, win);
        MPI_Win_flush(0, win);
        MPI_Compare_and_swap(&nobody, &rank, &was, MPI_INT, 0, TAIL, win);
        MPI_Win_flush(0, win);
        if (was != rank) {
            int successor;
            while ((successor = fetch(win, rank, NEXT)) < 0)
                sched_yield();
            store(win, successor, BLOCKED, 0);
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_sync(win);
    if (rank == 0)
        CHECK(mine[PROTECTED] == turns * ranks && mine[TAIL] == -1, "%d, expected %d; tail %d", mine[PROTECTED], turns * ranks, mine[TAIL]);
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
}

/* A hash table over all ranks: a place is taken by a compare-and-swap of its key, and its value is a sum. */
static void hash_table(void)
{
    STORY("a distributed hash table: every key is in it once, with the sum of what all ranks added");
    enum { PLACES = 256 };
    struct place { uint64_t key, sum; } *mine;
    MPI_Win win;
    MPI_Win_allocate(PLACES * sizeof(struct place), sizeof(uint64_t), MPI_INFO_NULL, MPI_COMM_WORLD, &mine, &win);
    memset(mine, 0, PLACES * sizeof(struct place));
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    int keys = PLACES / 2 * ranks;
    uint64_t state = own_stream(1), *added = memory(sizeof(uint64_t) * (size_t)keys);
    MPI_Win_lock_all(0, win);
    for (int i = 0; i < rounds * 8; i++) {
        uint64_t key = random_of(&state) % (uint64_t)keys + 1, amount = random_of(&state) % 1000, empty = 0, hash = key * 0x9e3779b97f4a7c15u >> 20;
        added[key - 1] += amount;
        for (;; hash++) {
            int target = (int)(hash / PLACES % (uint64_t)ranks);
            MPI_Aint at = (MPI_Aint)(2 * (hash % PLACES));
            uint64_t found = 0;
            MPI_Compare_and_swap(&key, &empty, &found, MPI_UINT64_T, target, at, win);
            MPI_Win_flush(target, win);
            if (found == 0 || found == key) {
                MPI_Accumulate(&amount, 1, MPI_UINT64_T, target, at + 1, 1, MPI_UINT64_T, MPI_SUM, win);
                MPI_Win_flush_local(target, win);
                break;
            }
        }
    }
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    uint64_t *there = memory(sizeof(uint64_t) * (size_t)keys);
    int *places = memory(sizeof(int) * (size_t)keys);
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
    for (int i = 0; i < PLACES; i++)
        if (mine[i].key >= 1 && mine[i].key <= (uint64_t)keys) {
            there[mine[i].key - 1] += mine[i].sum;
            places[mine[i].key - 1]++;
        } else {
            CHECK(mine[i].key == 0 && mine[i].sum == 0, "place %d has key %llu", i, (unsigned long long)mine[i].key);
        }
    MPI_Win_unlock(rank, win);
    MPI_Allreduce(MPI_IN_PLACE, added, keys, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, there, keys, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, places, keys, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < keys; i++)
        CHECK(there[i] == added[i] && places[i] <= 1, "key %d: %llu, expected %llu, at %d places", i + 1, (unsigned long long)there[i],
              (unsigned long long)added[i], places[i]);
    free(added);
    free(there);
    free(places);
    MPI_Win_free(&win);
}

/* A type of `elements` 32-bit integers in one of several shapes, and how many integers it spreads over. */
static MPI_Datatype random_type(uint64_t *state, int elements, int *spread)
{
    MPI_Datatype type;
    int lengths[64], places[64], parts = 0, at = 0, block;
    switch (random_of(state) % 4) {
    case 0:
        MPI_Type_contiguous(elements, MPI_INT32_T, &type);
        *spread = elements;
        break;
    case 1: /* blocks of one length, apart */
        for (block = 1 + (int)(random_of(state) % 7); elements % block; block--)
            ;
        *spread = 1 + (int)(random_of(state) % 5);
        MPI_Type_vector(elements / block, block, block + *spread, MPI_INT32_T, &type);
        *spread = (elements / block) * (block + *spread);
        break;
    default: /* blocks of any length; every other time those behind come first */
        for (int left = elements; left > 0; parts++) {
            int length = parts == 63 ? left : 1 + (int)(random_of(state) % (uint64_t)(1 + elements / 8));
            lengths[parts] = length < left ? length : left;
            at += (int)(random_of(state) % 4);
            places[parts] = at;
            at += lengths[parts];
            left -= lengths[parts];
        }
        *spread = at;
        if (random_of(state) % 2)
            for (int i = 0; i < parts / 2; i++) {
                int length = lengths[i], place = places[i];
                lengths[i] = lengths[parts - 1 - i];
                places[i] = places[parts - 1 - i];
                lengths[parts - 1 - i] = length;
                places[parts - 1 - i] = place;
            }
        MPI_Type_indexed(parts, lengths, places, MPI_INT32_T, &type);
        break;
    }
    MPI_Type_commit(&type);
    return type;
}

static void move_here(const int32_t *from, MPI_Datatype from_type, int32_t *to, MPI_Datatype to_type, int elements)
{
    int position = 0, size = 0;
    int32_t *packed = memory(sizeof(int32_t) * (size_t)elements);
    MPI_Pack(from, 1, from_type, packed, elements * 4, &size, MPI_COMM_SELF);
    MPI_Unpack(packed, size, &position, to, 1, to_type, MPI_COMM_SELF);
    free(packed);
}

/* Each rank has a strip of every window that only it writes, and knows its contents; all have a strip where
 * they add, and know the sum. */
static void random_accesses(int is_allocated, int passive)
{
    static char name[120];
    snprintf(name, sizeof name, "random accesses against an oracle, %s memory, %s", is_allocated ? "allocated" : "the program's",
             passive ? "passive target" : "fences");
    STORY(name);
    enum { STRIP = 1500, ELEMENTS_MAX = 400, EACH = 6 };
    size_t cells = (size_t)STRIP * (size_t)(ranks + 1);
    int32_t *mine, *own = NULL;
    MPI_Win win;
    if (is_allocated) {
        MPI_Win_allocate((MPI_Aint)(cells * 4), 4, MPI_INFO_NULL, MPI_COMM_WORLD, &mine, &win);
    } else {
        mine = own = memory(cells * 4);
        MPI_Win_create(mine, (MPI_Aint)(cells * 4), 4, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    }
    memset(mine, 0, cells * 4);
    /* The contents of this rank's strip of each window, and the values that it has added to each window's
     * last strip. */
    int32_t *oracle = memory(cells * 4), *added = memory(sizeof(int32_t) * STRIP * (size_t)ranks);
    int32_t *origin[EACH], *expected[EACH];
    size_t spreads[EACH];
    for (int i = 0; i < EACH; i++) {
        origin[i] = memory(STRIP * 4 * 3);
        expected[i] = memory(STRIP * 4 * 3);
    }
    uint64_t state = own_stream(10 + 2 * is_allocated + passive);
    if (passive) {
        MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
        MPI_Win_lock_all(0, win);
    } else {
        MPI_Win_fence(0, win);
    }
    for (int round = 0; round < rounds; round++) {
        /* Within a round the parts of the strip are disjoint, a part each. */
        int target = (int)(random_of(&state) % (uint64_t)ranks), part = STRIP / EACH;
        for (int i = 0; i < EACH; i++) {
            int elements = 1 + (int)(random_of(&state) % 50), from_spread, to_spread;
            MPI_Datatype from_type = random_type(&state, elements, &from_spread), to_type;
            do {
                to_type = random_type(&state, elements, &to_spread);
                if (to_spread > part)
                    MPI_Type_free(&to_type);
            } while (to_spread > part);
            int shift = (int)(random_of(&state) % (uint64_t)(part - to_spread + 1)) + i * part;
            MPI_Aint at = (MPI_Aint)STRIP * rank + shift;
            int32_t *there = oracle + (size_t)STRIP * (size_t)target + shift;
            spreads[i] = (size_t)from_spread;
            for (int k = 0; k < from_spread; k++)
                origin[i][k] = (int32_t)random_of(&state);
            memcpy(expected[i], origin[i], 4 * (size_t)from_spread);
            switch (random_of(&state) % 5) {
            case 0:
                MPI_Put(origin[i], 1, from_type, target, at, 1, to_type, win);
                move_here(expected[i], from_type, there, to_type, elements);
                break;
            case 1:
                MPI_Get(origin[i], 1, from_type, target, at, 1, to_type, win);
                move_here(there, to_type, expected[i], from_type, elements);
                break;
            case 2:
                MPI_Accumulate(origin[i], 1, from_type, target, at, 1, to_type, MPI_REPLACE, win);
                move_here(expected[i], from_type, there, to_type, elements);
                break;
            case 3: { /* the former values come back, in the origin's shape */
                int32_t *zeros = memory(STRIP * 4 * 3);
                MPI_Get_accumulate(zeros, 0, MPI_INT32_T, origin[i], 1, from_type, target, at, 1, to_type, MPI_NO_OP, win);
                move_here(there, to_type, expected[i], from_type, elements);
                free(zeros); /* of no elements: not used */
                break;
            }
            default: { /* all ranks add to the last strip */
                int32_t *sums = added + (size_t)STRIP * (size_t)target + shift, *addend = memory(STRIP * 4);
                for (int k = 0; k < from_spread; k++)
                    origin[i][k] &= 0xff;
                memcpy(expected[i], origin[i], 4 * (size_t)from_spread);
                MPI_Accumulate(origin[i], 1, from_type, target, (MPI_Aint)STRIP * ranks + shift, 1, to_type, MPI_SUM, win);
                move_here(expected[i], from_type, addend, to_type, elements);
                for (int k = 0; k < to_spread; k++)
                    sums[k] += addend[k];
                free(addend);
                break;
            }
            }
            MPI_Type_free(&from_type);
            MPI_Type_free(&to_type);
        }
        if (passive)
            MPI_Win_flush(target, win);
        else
            MPI_Win_fence(0, win);
        for (int i = 0; i < EACH; i++)
            CHECK(memcmp(origin[i], expected[i], 4 * spreads[i]) == 0, "round %d, operation %d: the origin's buffer is not as expected", round, i);
    }
    if (passive)
        MPI_Win_unlock_all(win);
    else
        MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    MPI_Barrier(MPI_COMM_WORLD);
    /* The other ranks' knowledge of this rank's window. */
    int32_t *said = memory(cells * 4), *sums = memory(sizeof(int32_t) * STRIP * (size_t)ranks);
    MPI_Alltoall(oracle, STRIP, MPI_INT32_T, said, STRIP, MPI_INT32_T, MPI_COMM_WORLD);
    MPI_Allreduce(added, sums, STRIP * ranks, MPI_INT32_T, MPI_SUM, MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
    for (size_t i = 0; i < (size_t)STRIP * (size_t)ranks; i++)
        CHECK(mine[i] == said[i], "cell %zu of the strip of rank %zu is %d, expected %d", i % STRIP, i / STRIP, mine[i], said[i]);
    for (size_t i = 0; i < STRIP; i++)
        CHECK(mine[(size_t)STRIP * (size_t)ranks + i] == sums[(size_t)STRIP * (size_t)rank + i], "sum %zu is %d, expected %d", i,
              mine[(size_t)STRIP * (size_t)ranks + i], sums[(size_t)STRIP * (size_t)rank + i]);
    MPI_Win_unlock(rank, win);
    MPI_Win_free(&win);
    for (int i = 0; i < EACH; i++) {
        free(origin[i]);
        free(expected[i]);
    }
    free(oracle);
    free(added);
    free(said);
    free(sums);
    free(own);
}

/* Elements with different sizes and different arithmetic. */
enum kind { UINT8, INT16, INT32, INT64, FLOAT, DOUBLE, LONG_DOUBLE, COMPLEX, KINDS };

static MPI_Datatype type_of(enum kind kind)
{
    const MPI_Datatype types[KINDS] = {MPI_UINT8_T, MPI_INT16_T, MPI_INT32_T, MPI_INT64_T, MPI_FLOAT, MPI_DOUBLE, MPI_LONG_DOUBLE, MPI_C_DOUBLE_COMPLEX};
    return types[kind];
}

static void set(enum kind kind, void *cells, size_t index, int value)
{
    switch (kind) {
    case UINT8: ((uint8_t *)cells)[index] = (uint8_t)value; break;
    case INT16: ((int16_t *)cells)[index] = (int16_t)value; break;
    case INT32: ((int32_t *)cells)[index] = value; break;
    case INT64: ((int64_t *)cells)[index] = value; break;
    case FLOAT: ((float *)cells)[index] = (float)value; break;
    case DOUBLE: ((double *)cells)[index] = value; break;
    case LONG_DOUBLE: ((long double *)cells)[index] = value; break;
    default: ((double *)cells)[2 * index] = ((double *)cells)[2 * index + 1] = value;
    }
}

/* Of the two parts of a complex number both count. */
static int get(enum kind kind, const void *cells, size_t index)
{
    switch (kind) {
    case UINT8: return ((const uint8_t *)cells)[index];
    case INT16: return ((const int16_t *)cells)[index];
    case INT32: return ((const int32_t *)cells)[index];
    case INT64: return (int)((const int64_t *)cells)[index];
    case FLOAT: return (int)((const float *)cells)[index];
    case DOUBLE: return (int)((const double *)cells)[index];
    case LONG_DOUBLE: return (int)((const long double *)cells)[index];
    default: return (int)(((const double *)cells)[2 * index] + ((const double *)cells)[2 * index + 1]) / 2;
    }
}

/* The number of times that this rank repeats a step: ranks that share memory meet only if they do much. */
static int repeated(void)
{
    enum { NEAR = 100, FAR = 3 };
    MPI_Comm near;
    int size;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &near);
    MPI_Comm_size(near, &size);
    MPI_Comm_free(&near);
    MPI_Allreduce(MPI_IN_PLACE, &size, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return rounds * (size == ranks ? NEAR : FAR);
}

/* §12.7.1: all ranks add to the same elements, to one at a time and to long runs, with gaps and without, and
 * no addition is lost. */
static void sums(enum kind kind)
{
    static char name[MPI_MAX_OBJECT_NAME + 100];
    char type_name[MPI_MAX_OBJECT_NAME];
    int length;
    MPI_Type_get_name(type_of(kind), type_name, &length);
    snprintf(name, sizeof name, "single elements and long runs of %s are added to at once: nothing is lost", type_name);
    STORY(name);
    enum { CELLS_MAX = 1500, BYTES = 16, FEW = 20 };
    MPI_Datatype type = type_of(kind), pairs;
    MPI_Type_vector(CELLS_MAX / 2, 1, 2, type, &pairs);
    MPI_Type_commit(&pairs);
    char *mine, *ones = memory(CELLS_MAX * BYTES), *was = memory(CELLS_MAX * BYTES);
    int *added = memory(sizeof(int) * CELLS_MAX * (size_t)ranks), *expected = memory(sizeof(int) * CELLS_MAX);
    for (size_t i = 0; i < CELLS_MAX; i++)
        set(kind, ones, i, 1);
    MPI_Win win;
    MPI_Win_allocate(CELLS_MAX * BYTES, kind == UINT8 ? 1 : kind == INT16 ? 2 : kind == INT32 || kind == FLOAT ? 4 : kind == INT64 || kind == DOUBLE ? 8 : 16,
                     MPI_INFO_NULL, MPI_COMM_WORLD, &mine, &win);
    memset(mine, 0, CELLS_MAX * BYTES);
    uint64_t state = own_stream(30 + (int)kind);
    int times = repeated();
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, win);
    for (int i = 0; i < times; i++) {
        int target = (int)(random_of(&state) % (uint64_t)ranks), *there = added + (size_t)target * CELLS_MAX;
        int count = random_of(&state) % 3 ? 1 + (int)(random_of(&state) % FEW) : 1 + (int)(random_of(&state) % CELLS_MAX);
        int first = (int)(random_of(&state) % (uint64_t)(CELLS_MAX - count + 1)), step = 1;
        switch (random_of(&state) % 5) {
        case 0:
            MPI_Accumulate(ones, count, type, target, first, count, type, MPI_SUM, win);
            break;
        case 1:
            MPI_Get_accumulate(ones, count, type, was, count, type, target, first, count, type, MPI_SUM, win);
            MPI_Win_flush(target, win);
            for (int k = 0; k < count && kind != UINT8 && kind != INT16; k++)
                CHECK(get(kind, was, (size_t)k) >= there[first + k], "%d of which %d are this rank's", get(kind, was, (size_t)k), there[first + k]);
            break;
        case 2:
            count = CELLS_MAX / 2;
            first = first % 2;
            step = 2;
            MPI_Accumulate(ones, count, type, target, first, 1, pairs, MPI_SUM, win);
            break;
        case 3:
            count = 1;
            MPI_Fetch_and_op(ones, was, type, target, first, MPI_SUM, win);
            break;
        default:
            count = 1;
            if (kind > INT64) {
                MPI_Accumulate(ones, 1, type, target, first, 1, type, MPI_SUM, win);
                break;
            }
            for (int guess = 0, found;; guess = found) {
                char value[BYTES], compare[BYTES];
                set(kind, compare, 0, guess);
                set(kind, value, 0, guess + 1);
                MPI_Compare_and_swap(value, compare, was, type, target, first, win);
                MPI_Win_flush(target, win);
                if ((found = get(kind, was, 0)) == get(kind, compare, 0))
                    break;
            }
        }
        for (int k = 0; k < count; k++)
            there[first + step * k]++;
        MPI_Win_flush(target, win);
    }
    MPI_Win_unlock_all(win);
    MPI_Reduce_scatter_block(added, expected, CELLS_MAX, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
    for (size_t i = 0; i < CELLS_MAX; i++) {
        set(kind, was, 0, expected[i]);
        CHECK(get(kind, mine, i) == get(kind, was, 0), "element %zu is %d, expected %d", i, get(kind, mine, i), get(kind, was, 0));
    }
    MPI_Win_unlock(rank, win);
    MPI_Win_free(&win);
    MPI_Type_free(&pairs);
    free(ones);
    free(was);
    free(added);
    free(expected);
}

/* §12.7.1: a replaced value is one value or another, never parts of two. */
static void replacements(void)
{
    STORY("single elements and long runs are replaced at once: each is whole");
    enum { CELLS_MAX = 900, FEW = 5 };
    const uint64_t same_bytes = 0x0101010101010101u;
    uint64_t *mine, *values = memory(CELLS_MAX * 8), *was = memory(CELLS_MAX * 8), state = own_stream(40);
    int times = repeated();
    MPI_Win win;
    MPI_Win_allocate(CELLS_MAX * 8, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &mine, &win);
    memset(mine, 0, CELLS_MAX * 8);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, win);
    for (int i = 0; i < times; i++) {
        int target = (int)(random_of(&state) % (uint64_t)ranks);
        int count = random_of(&state) % 2 ? 1 + (int)(random_of(&state) % FEW) : 1 + (int)(random_of(&state) % CELLS_MAX);
        int first = (int)(random_of(&state) % (uint64_t)(CELLS_MAX - count + 1));
        for (int k = 0; k < count; k++)
            values[k] = same_bytes * (uint64_t)(1 + rank % 200);
        if (random_of(&state) % 2)
            MPI_Accumulate(values, count, MPI_UINT64_T, target, first, count, MPI_UINT64_T, MPI_REPLACE, win);
        MPI_Win_flush(target, win);
        MPI_Get_accumulate(NULL, 0, MPI_UINT64_T, was, count, MPI_UINT64_T, target, first, count, MPI_UINT64_T, MPI_NO_OP, win);
        MPI_Win_flush(target, win);
        for (int k = 0; k < count; k++)
            CHECK(was[k] == same_bytes * (was[k] & 0xff), "%llx", (unsigned long long)was[k]);
    }
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_free(&win);
    free(values);
    free(was);
}

static void many_windows(void)
{
    enum { WINDOWS = 200 };
    STORY("hundreds of windows at once, with traffic on all, freed in another order");
    static MPI_Win wins[WINDOWS];
    static int cells[WINDOWS], *allocated[WINDOWS];
    int count = rounds * 10 < WINDOWS ? rounds * 10 : WINDOWS;
    for (int i = 0; i < count; i++) {
        cells[i] = -1;
        if (i % 3 == 0)
            MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &allocated[i], &wins[i]);
        else
            MPI_Win_create(allocated[i] = &cells[i], sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &wins[i]);
        MPI_Win_lock_all(MPI_MODE_NOCHECK, wins[i]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    int *values = memory(sizeof(int) * (size_t)count);
    for (int i = count - 1; i >= 0; i--) {
        values[i] = 1000 * rank + i;
        MPI_Put(&values[i], 1, MPI_INT, next, 0, 1, MPI_INT, wins[i]);
    }
    for (int i = 0; i < count; i++)
        MPI_Win_unlock_all(wins[i]);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int k = 0; k < count; k++) {
        int i = count - 1 - k;
        MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, wins[i]);
        CHECK_EQUAL(*allocated[i], 1000 * before + i);
        MPI_Win_unlock(rank, wins[i]);
    }
    for (int i = count - 1; i >= 0; i--)
        MPI_Win_free(&wins[i]);
    free(values);

    STORY("windows made and freed again and again, right after much traffic");
    enum { PARTS = 64 };
    for (int round = 0; round < rounds; round++) {
        int64_t *mine, sum = 0;
        MPI_Win win;
        MPI_Win_allocate(PARTS * 8, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &mine, &win);
        memset(mine, 0, PARTS * 8);
        MPI_Win_fence(0, win);
        int64_t value = rank + 1;
        for (int i = 0; i < PARTS; i++)
            for (int target = 0; target < ranks; target++)
                MPI_Accumulate(&value, 1, MPI_INT64_T, (rank + target) % ranks, i, 1, MPI_INT64_T, MPI_SUM, win);
        MPI_Win_fence(0, win);
        for (int i = 0; i < PARTS; i++)
            sum += mine[i];
        CHECK_EQUAL(sum, (int64_t)PARTS * ranks * (ranks + 1) / 2);
        MPI_Win_free(&win);
    }
}

/* §12.5.3: MPI_Win_free waits for the operations of others on this window under locks. */
static void freed_with_traffic(void)
{
    STORY("MPI_Win_free while others still act on the window");
    for (int round = 0; round < rounds; round++) {
        enum { LENGTH = 5000 };
        int *mine, *source = memory(LENGTH * sizeof(int)), *copy = memory(LENGTH * sizeof(int));
        MPI_Win win;
        mine = memory(LENGTH * sizeof(int) * 2);
        MPI_Win_create(mine, LENGTH * sizeof(int) * 2, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
        for (int i = 0; i < LENGTH; i++)
            source[i] = rank * round + i;
        MPI_Win_lock(MPI_LOCK_SHARED, next, 0, win);
        MPI_Put(source, LENGTH, MPI_INT, next, 0, LENGTH, MPI_INT, win);
        MPI_Accumulate(source, LENGTH, MPI_INT, next, LENGTH, LENGTH, MPI_INT, MPI_SUM, win);
        MPI_Win_unlock(next, win);
        MPI_Win_free(&win); /* no barrier before it */
        for (int i = 0; i < LENGTH; i++)
            CHECK(mine[i] == before * round + i && mine[LENGTH + i] == mine[i], "%d: %d, %d", i, mine[i], mine[LENGTH + i]);
        free(mine);
        free(source);
        free(copy);
    }
}

/* The work of a thread, on a part of the window of its own. */
struct worker {
    MPI_Win win;
    int number, wrong;
};

enum { THREADS = 4, PER_THREAD = 64 };

static void *work(void *argument)
{
    struct worker *worker = argument;
    uint64_t state = own_stream(100 + worker->number);
    int64_t one = 1, got, was;
    for (int i = 0; i < rounds * 4; i++) {
        int target = (int)(random_of(&state) % (uint64_t)ranks);
        MPI_Aint own = 1 + (MPI_Aint)(rank * THREADS + worker->number) * PER_THREAD + (MPI_Aint)(random_of(&state) % PER_THREAD);
        int64_t value = (int64_t)(random_of(&state) >> 8);
        MPI_Put(&value, 1, MPI_INT64_T, target, own, 1, MPI_INT64_T, worker->win);
        MPI_Win_flush(target, worker->win);
        got = -1;
        MPI_Get(&got, 1, MPI_INT64_T, target, own, 1, MPI_INT64_T, worker->win);
        MPI_Fetch_and_op(&one, &was, MPI_INT64_T, target, 0, MPI_SUM, worker->win);
        MPI_Win_flush(target, worker->win);
        worker->wrong += got != value || was < 0;
    }
    return NULL;
}

static void threads(int provided)
{
    STORY("threads that act on different targets");
    if (provided < MPI_THREAD_MULTIPLE)
        return;
    int64_t *mine, total = 0;
    MPI_Win win;
    struct worker workers[THREADS];
    pthread_t ids[THREADS];
    size_t cells = 1 + (size_t)ranks * THREADS * PER_THREAD;
    MPI_Win_allocate((MPI_Aint)(cells * 8), 8, MPI_INFO_NULL, MPI_COMM_WORLD, &mine, &win);
    memset(mine, 0, cells * 8);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    MPI_Win_lock_all(0, win);
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){win, i, 0};
        pthread_create(&ids[i], NULL, work, &workers[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(ids[i], NULL);
        CHECK_EQUAL(workers[i].wrong, 0);
    }
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
    int64_t here = mine[0];
    MPI_Win_unlock(rank, win);
    MPI_Allreduce(&here, &total, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    CHECK_EQUAL(total, (int64_t)rounds * 4 * THREADS * ranks);
    MPI_Win_free(&win);
}

/* Rank 0 learns by its memory alone that the others are done. */
static void passive_target(int is_allocated)
{
    STORY(is_allocated ? "a target that makes no MPI call is served, allocated memory" : "a target that makes no MPI call is served, the program's memory");
    if (ranks < 2)
        return;
    /* §12.7.3 leaves open whether the operation makes progress: Weft promises it. */
    if (left_out("independent-progress"))
        return;
    enum { CELLS_MAX = 4096 };
    static int64_t array[CELLS_MAX];
    int64_t *mine = array;
    MPI_Win win;
    if (is_allocated)
        MPI_Win_allocate(sizeof array, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &mine, &win);
    else
        MPI_Win_create(array, sizeof array, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win);
    memset(mine, 0, sizeof array);
    MPI_Win_unlock(rank, win);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        /* Computes, and sleeps, until the others have written that they are done: they must be able to do so
         * while this rank makes no call. */
        volatile int64_t *done = &mine[CELLS_MAX - 1];
        for (unsigned turns = 0; *done < ranks - 1; turns++)
            if (turns % 1000 == 999)
                usleep(1000);
    } else {
        static int64_t big[CELLS_MAX / 2], back[CELLS_MAX / 2];
        int64_t one = 1, was = -1;
        for (int i = 0; i < rounds; i++) {
            MPI_Win_lock(i % 2 ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE, 0, 0, win);
            MPI_Fetch_and_op(&one, &was, MPI_INT64_T, 0, 0, MPI_SUM, win);
            MPI_Accumulate(&one, 1, MPI_INT64_T, 0, 1, 1, MPI_INT64_T, MPI_SUM, win);
            MPI_Put(&one, 1, MPI_INT64_T, 0, 2 + rank % 100, 1, MPI_INT64_T, win);
            MPI_Win_flush(0, win);
            CHECK(was >= 0, "%lld", (long long)was);
            MPI_Win_unlock(0, win);
        }
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
        for (int i = 0; i < CELLS_MAX / 2; i++)
            big[i] = 1000 * rank + i;
        MPI_Put(big, CELLS_MAX / 2 - 1, MPI_INT64_T, 0, CELLS_MAX / 2, CELLS_MAX / 2 - 1, MPI_INT64_T, win);
        MPI_Win_flush(0, win);
        MPI_Get(back, CELLS_MAX / 2 - 1, MPI_INT64_T, 0, CELLS_MAX / 2, CELLS_MAX / 2 - 1, MPI_INT64_T, win);
        MPI_Win_unlock(0, win);
        CHECK(memcmp(big, back, sizeof big - 8) == 0, "what was got is not what was put under the lock");
        MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
        MPI_Accumulate(&one, 1, MPI_INT64_T, 0, CELLS_MAX - 1, 1, MPI_INT64_T, MPI_SUM, win);
        MPI_Win_unlock(0, win);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
        CHECK(mine[0] == (int64_t)rounds * (ranks - 1) && mine[1] == mine[0], "%lld, %lld", (long long)mine[0], (long long)mine[1]);
        MPI_Win_unlock(0, win);
    }
    MPI_Win_free(&win);
}

static void transfers(int is_allocated)
{
    STORY(is_allocated ? "large transfers, allocated memory" : "large transfers, the program's memory");
    static const size_t odd[] = {1, 63, 1000, 8191, 65537, 1 << 20, (size_t)5 << 20, (size_t)64 << 20};
    unsigned char *mine, *own = NULL, *buffer = memory(bytes_max + 8);
    MPI_Win win;
    if (is_allocated) {
        MPI_Win_allocate((MPI_Aint)bytes_max + 8, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &mine, &win);
    } else {
        mine = own = memory(bytes_max + 8);
        MPI_Win_create(mine, (MPI_Aint)bytes_max + 8, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    }
    for (size_t which = 0; which < sizeof odd / sizeof *odd && odd[which] <= bytes_max; which++) {
        size_t length = odd[which], shift = which % 8;
        fill(buffer, length, rank, (int)which);
        MPI_Win_fence(0, win);
        MPI_Put(buffer, (int)length, MPI_BYTE, next, (MPI_Aint)shift, (int)length, MPI_BYTE, win);
        MPI_Win_fence(0, win);
        CHECK_EQUAL(wrong_bytes(mine + shift, length, before, (int)which), 0);
        memset(buffer, 0, length);
        MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
        MPI_Win_lock(MPI_LOCK_SHARED, next, 0, win);
        MPI_Get(buffer, (int)length, MPI_BYTE, next, (MPI_Aint)shift, (int)length, MPI_BYTE, win);
        MPI_Win_unlock(next, win);
        CHECK_EQUAL(wrong_bytes(buffer, length, rank, (int)which), 0);
        /* Adding zero to each byte changes nothing; the values come back. */
        unsigned char *zeros = memory(length);
        memset(buffer, 1, length);
        MPI_Win_lock(MPI_LOCK_SHARED, next, 0, win);
        MPI_Get_accumulate(zeros, (int)length, MPI_UINT8_T, buffer, (int)length, MPI_UINT8_T, next, (MPI_Aint)shift, (int)length, MPI_UINT8_T, MPI_BOR,
                           win);
        MPI_Win_unlock(next, win);
        CHECK_EQUAL(wrong_bytes(buffer, length, rank, (int)which), 0);
        free(zeros);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Win_free(&win);
    free(own);
    free(buffer);
}

/* The list of the standard's example: elements are attached to a dynamic window, and appended by
 * compare-and-swap of the last one's pointer. */
static void linked_list(void)
{
    STORY("a list of elements that each rank attaches and appends");
    struct pointer { uint64_t rank_and_one; MPI_Aint at; };
    struct element { int64_t value; struct pointer next; } *elements;
    MPI_Win win;
    int each = rounds / 4 + 1;
    struct pointer head = {0, 0};
    elements = memory(sizeof(struct element) * (size_t)each);
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    struct element *anchor = memory(sizeof *anchor);
    MPI_Win_attach(win, anchor, sizeof *anchor);
    MPI_Get_address(anchor, &head.at);
    MPI_Bcast(&head.at, 1, MPI_AINT, 0, MPI_COMM_WORLD);
    MPI_Win_lock_all(0, win);
    struct pointer tail = {1, head.at};
    for (int i = 0; i < each; i++) {
        struct pointer created = {(uint64_t)rank + 1, 0};
        elements[i].value = rank * 1000 + i;
        MPI_Win_attach(win, &elements[i], sizeof elements[i]);
        MPI_Get_address(&elements[i], &created.at);
        MPI_Win_sync(win);
        for (;;) {
            uint64_t nobody = 0, found = 0;
            int target = (int)tail.rank_and_one - 1;
            MPI_Aint link = MPI_Aint_add(tail.at, offsetof(struct element, next.rank_and_one));
            /* The pointer is first claimed by a mark that no rank has; then it gets the address, then the
             * rank. */
            uint64_t claim = UINT64_MAX;
            MPI_Compare_and_swap(&claim, &nobody, &found, MPI_UINT64_T, target, link, win);
            MPI_Win_flush(target, win);
            if (found == 0) {
                MPI_Accumulate(&created.at, 1, MPI_AINT, target, MPI_Aint_add(tail.at, offsetof(struct element, next.at)), 1, MPI_AINT, MPI_REPLACE, win);
                MPI_Win_flush(target, win);
                MPI_Accumulate(&created.rank_and_one, 1, MPI_UINT64_T, target, link, 1, MPI_UINT64_T, MPI_REPLACE, win);
                MPI_Win_flush(target, win);
                tail = created;
                break;
            }
            if (found == UINT64_MAX) {
                sched_yield();
                continue;
            }
            tail.rank_and_one = found;
            MPI_Aint at = 0;
            MPI_Fetch_and_op(NULL, &at, MPI_AINT, target, MPI_Aint_add(tail.at, offsetof(struct element, next.at)), MPI_NO_OP, win);
            MPI_Win_flush(target, win);
            tail.at = at;
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    /* Every rank walks the list. */
    int *seen = memory(sizeof(int) * (size_t)(each * ranks)), length = 0;
    struct pointer at = {1, head.at};
    for (;; length++) {
        struct element here;
        MPI_Get(&here, sizeof here, MPI_BYTE, (int)at.rank_and_one - 1, at.at, sizeof here, MPI_BYTE, win);
        MPI_Win_flush((int)at.rank_and_one - 1, win);
        if (length > 0) {
            int of = (int)(here.value / 1000), number = (int)(here.value % 1000);
            CHECK(of >= 0 && of < ranks && number < each && seen[of * each + number]++ == 0, "value %lld", (long long)here.value);
        }
        if (here.next.rank_and_one == 0 || length > each * ranks)
            break;
        at = here.next;
    }
    CHECK_EQUAL(length, each * ranks);
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < each; i++)
        MPI_Win_detach(win, &elements[i]);
    MPI_Win_detach(win, anchor);
    MPI_Win_free(&win);
    free(seen);
    free(anchor);
    free(elements);
}

/* §12.2.3: segments of no bytes, too, have an address, from which a neighbour computes others where the
 * memory is contiguous. */
static void segments_of_no_bytes(void)
{
    STORY("shared windows in which some processes have no bytes");
    MPI_Comm node;
    int size, mine;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_size(node, &size);
    MPI_Comm_rank(node, &mine);
    enum { ALL, LAST, FIRST, NOBODY, UNEVEN, ODD, PATTERNS };
    for (int which = 0; which < PATTERNS; which++)
        for (int apart = 0; apart < 2; apart++) {
            MPI_Aint bytes[64], found;
            for (int i = 0; i < size; i++)
                bytes[i] = which == ALL      ? 1024
                           : which == LAST   ? (i == size - 1) * 100
                           : which == FIRST  ? (i == 0) * 12288
                           : which == NOBODY ? 0
                           : which == UNEVEN ? 17 * i + 3
                                             : i % 2 * 8;
            MPI_Info info;
            MPI_Info_create(&info);
            MPI_Info_set(info, "alloc_shared_noncontig", apart ? "true" : "false");
            char *base = NULL, *end = NULL;
            MPI_Win win;
            MPI_Win_allocate_shared(bytes[mine], 1, info, node, &base, &win);
            CHECK(base != NULL, "pattern %d: no address for %ld bytes", which, (long)bytes[mine]);
            memset(base, mine + 1, (size_t)bytes[mine]);
            MPI_Win_fence(0, win);
            for (int i = 0; i < size; i++) {
                int unit;
                char *part;
                MPI_Win_shared_query(win, i, &found, &unit, &part);
                CHECK(found == bytes[i], "pattern %d, rank %d: %ld bytes", which, i, (long)found);
                CHECK(i != mine || part == base, "pattern %d: own segment at %p and %p", which, (void *)part, (void *)base);
                CHECK(apart || !end || part == end, "pattern %d: rank %d is at %p, what is before ends at %p", which, i,
                      (void *)part, (void *)end);
                CHECK(found == 0 || (part[0] == i + 1 && part[found - 1] == i + 1), "pattern %d: bytes of rank %d", which, i);
                end = part + found;
            }
            MPI_Win_fence(0, win);
            MPI_Win_free(&win);
            MPI_Info_free(&info);
        }
    MPI_Comm_free(&node);
}

int main(int argc, char **argv)
{
    int provided = begin_threads(&argc, &argv);
    if (argc > 1)
        seed = strtoull(argv[1], NULL, 10);
    if (argc > 2)
        rounds = atoi(argv[2]);
    if (argc > 3)
        bytes_max = strtoull(argv[3], NULL, 10);
    next = (rank + 1) % ranks;
    before = (rank + ranks - 1) % ranks;
    counters();
    queue_lock();
    hash_table();
    linked_list();
    for (int which = 0; which < 4; which++)
        random_accesses(which / 2, which % 2);
    for (int kind = 0; kind < KINDS; kind++)
        sums((enum kind)kind);
    replacements();
    many_windows();
    freed_with_traffic();
    segments_of_no_bytes();
    threads(provided);
    passive_target(0);
    passive_target(1);
    transfers(0);
    transfers(1);
    return end();
}
