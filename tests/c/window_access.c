/*
 * Accesses to windows, by chapter 12 of MPI 5.0: put, get and the accumulate functions, with all types and
 * operations and with datatypes of every kind at both ends. Passes on any MPI library with any number of
 * ranks.
 */
#include "check.h"

#include <complex.h>
#include <stddef.h>
#include <stdbool.h>

enum { N = 11, BYTES = 1 << 15 };

static MPI_Win win; /* of BYTES in units of one, on every rank */
static unsigned char *window;
static int next, before;

/* Small values, so that products stay exact in every type. */
static int operand(int of, int index)
{
    return (of * 7 + index * 3) % 3 + (of % 3 == index % 3);
}

/* One operation on one type goes on in phases with a fence after each, so that all operations on a type share
 * their fences. Each has its own slot of the window, and buffers that stay from phase to phase. */
enum { SLOTS = 16, SLOT = 1024, PHASES = 5 };

static int phase, slot;
static _Alignas(64) unsigned char kept[SLOTS][4 * SLOT];

#define IN_PHASES(name, ...)                                                                                                                         \
    do {                                                                                                                                             \
        STORY("12.3.4 accumulate functions on " name);                                                                                               \
        for (phase = 0; phase < PHASES; phase++) {                                                                                                   \
            slot = 0;                                                                                                                                \
            __VA_ARGS__                                                                                                                              \
            MPI_Win_fence(0, win);                                                                                                                   \
        }                                                                                                                                            \
    } while (0)

#define HERE(T) ((T *)(window + slot * SLOT))
#define THERE(T, index) ((MPI_Aint)(slot * SLOT + (index) * (int)sizeof(T)))

/* Every rank accumulates N operands into every window at once. Then each goes on alone with the window of the
 * next rank, whose contents it knows: MPI_Get_accumulate and MPI_Fetch_and_op return the former values. */
#define ACCUMULATE(T, type, op, expression)                                                                                                          \
    do {                                                                                                                                             \
        T *in = (T *)kept[slot], *out = (T *)(kept[slot] + SLOT), *expected = (T *)(kept[slot] + 2 * SLOT), *once = (T *)(kept[slot] + 3 * SLOT);    \
        T *mine = HERE(T);                                                                                                                           \
        if (phase == 0)                                                                                                                              \
            for (int i = 0; i < N; i++) {                                                                                                            \
                in[i] = (T)operand(rank, i);                                                                                                         \
                mine[i] = expected[i] = (T)operand(ranks, i);                                                                                        \
                for (int other = 0; other < ranks; other++) {                                                                                        \
                    T a = expected[i], b = (T)operand(other, i);                                                                                     \
                    expected[i] = (T)(expression);                                                                                                   \
                }                                                                                                                                    \
            }                                                                                                                                        \
        for (int target = 0; phase == 1 && target < ranks; target++)                                                                                 \
            MPI_Accumulate(in, N, type, (rank + target) % ranks, THERE(T, 0), N, type, op, win);                                                     \
        for (int i = 0; phase == 2 && i < N; i++)                                                                                                    \
            CHECK(mine[i] == expected[i], #op ": element %d of %d", i, N);                                                                           \
        if (phase == 3) {                                                                                                                            \
            MPI_Get_accumulate(in, N, type, out, N, type, next, THERE(T, 0), N, type, op, win);                                                      \
            MPI_Fetch_and_op(&in[1], &once[0], type, next, THERE(T, 0), op, win);                                                                    \
            MPI_Fetch_and_op(NULL, &once[1], type, next, THERE(T, 0), MPI_NO_OP, win);                                                               \
        }                                                                                                                                            \
        for (int i = 0; phase == 4 && i < N; i++) {                                                                                                  \
            CHECK(out[i] == expected[i], #op ": MPI_Get_accumulate, element %d of %d", i, N);                                                        \
            T a = expected[i], b = in[i];                                                                                                            \
            T there = (T)(expression);                                                                                                               \
            if (i == 0) {                                                                                                                            \
                CHECK(once[0] == there, #op ": MPI_Fetch_and_op gave another value than MPI_Get_accumulate left");                                   \
                a = there;                                                                                                                           \
                b = in[1];                                                                                                                           \
                there = (T)(expression);                                                                                                             \
                CHECK(once[1] == there, #op ": MPI_NO_OP gave another value than MPI_Fetch_and_op left");                                            \
            }                                                                                                                                        \
            a = expected[i];                                                                                                                         \
            b = (T)operand(before, i);                                                                                                               \
            there = (T)(expression);                                                                                                                 \
            if (i == 0) {                                                                                                                            \
                a = there;                                                                                                                           \
                b = (T)operand(before, 1);                                                                                                           \
                there = (T)(expression);                                                                                                             \
            }                                                                                                                                        \
            CHECK(mine[i] == there, #op ": element %d at the target", i);                                                                            \
        }                                                                                                                                            \
        slot++;                                                                                                                                      \
    } while (0)

/* MPI_REPLACE and MPI_NO_OP, which all types have. */
#define REPLACE(T, type)                                                                                                                             \
    do {                                                                                                                                             \
        T *in = (T *)kept[slot], *out = (T *)(kept[slot] + SLOT), *none = (T *)(kept[slot] + 2 * SLOT), *old = (T *)(kept[slot] + 3 * SLOT);         \
        T *mine = HERE(T);                                                                                                                           \
        for (int i = 0; phase == 0 && i < N; i++) {                                                                                                  \
            in[i] = (T)(operand(rank, i) + 1);                                                                                                       \
            mine[i] = (T)(operand(rank, i + 1));                                                                                                     \
        }                                                                                                                                            \
        if (phase == 1) {                                                                                                                            \
            MPI_Get_accumulate(in, N, type, out, N, type, next, THERE(T, 0), N, type, MPI_REPLACE, win);                                             \
            MPI_Get_accumulate(NULL, 0, type, none, N, type, next, THERE(T, 0), N, type, MPI_NO_OP, win);                                            \
            MPI_Fetch_and_op(&in[2], old, type, next, THERE(T, 0), MPI_REPLACE, win);                                                                \
            MPI_Accumulate(&in[1], 2, type, next, THERE(T, 1), 2, type, MPI_REPLACE, win);                                                           \
        }                                                                                                                                            \
        for (int i = 0; phase == 2 && i < N; i++) {                                                                                                  \
            CHECK(out[i] == (T)operand(next, i + 1), "MPI_REPLACE: element %d was another before", i);                                               \
            CHECK(none[i] == in[i], "MPI_NO_OP: element %d was read as another", i);                                                                 \
            CHECK(mine[i] == (T)(operand(before, i == 0 ? 2 : i) + 1), "MPI_REPLACE: element %d is another at the target", i);                       \
            CHECK(*old == in[0], "MPI_REPLACE: MPI_Fetch_and_op gave another value");                                                                \
        }                                                                                                                                            \
        slot++;                                                                                                                                      \
    } while (0)

/* One element, written where it has the value that is expected. */
#define SWAP(T, type)                                                                                                                                \
    do {                                                                                                                                             \
        static T zero = (T)0, one = (T)1, was[4];                                                                                                    \
        T *mine = HERE(T);                                                                                                                           \
        if (phase == 0)                                                                                                                              \
            mine[0] = mine[1] = mine[2] = zero;                                                                                                      \
        if (phase == 1) {                                                                                                                            \
            MPI_Compare_and_swap(&one, &zero, &was[0], type, next, THERE(T, 1), win); /* 0 becomes 1 */                                              \
            MPI_Compare_and_swap(&one, &zero, &was[1], type, next, THERE(T, 1), win); /* 1 is not 0 */                                               \
            MPI_Compare_and_swap(&zero, &one, &was[2], type, next, THERE(T, 1), win); /* 1 becomes 0 */                                              \
            MPI_Compare_and_swap(&one, &zero, &was[3], type, next, THERE(T, 1), win);                                                                \
        }                                                                                                                                            \
        if (phase == 2) {                                                                                                                            \
            CHECK(was[0] == zero && was[1] == one && was[2] == one && was[3] == zero, "MPI_Compare_and_swap: other values than were there");         \
            CHECK(mine[0] == zero && mine[1] == one && mine[2] == zero, "MPI_Compare_and_swap: another value at the target, or beside it");          \
        }                                                                                                                                            \
        slot++;                                                                                                                                      \
    } while (0)

#define ARITHMETIC(T, type)                                                                                                                          \
    do {                                                                                                                                             \
        ACCUMULATE(T, type, MPI_SUM, a + b);                                                                                                         \
        ACCUMULATE(T, type, MPI_PROD, a *b);                                                                                                         \
        REPLACE(T, type);                                                                                                                            \
    } while (0)

#define ORDERED(T, type)                                                                                                                             \
    do {                                                                                                                                             \
        ARITHMETIC(T, type);                                                                                                                         \
        ACCUMULATE(T, type, MPI_MAX, a > b ? a : b);                                                                                                 \
        ACCUMULATE(T, type, MPI_MIN, a < b ? a : b);                                                                                                 \
    } while (0)

#define LOGICAL(T, type)                                                                                                                             \
    do {                                                                                                                                             \
        ACCUMULATE(T, type, MPI_LAND, a && b);                                                                                                       \
        ACCUMULATE(T, type, MPI_LOR, a || b);                                                                                                        \
        ACCUMULATE(T, type, MPI_LXOR, !a != !b);                                                                                                     \
    } while (0)

#define BITWISE(T, type)                                                                                                                             \
    do {                                                                                                                                             \
        ACCUMULATE(T, type, MPI_BAND, a &b);                                                                                                         \
        ACCUMULATE(T, type, MPI_BOR, a | b);                                                                                                         \
        ACCUMULATE(T, type, MPI_BXOR, a ^ b);                                                                                                        \
    } while (0)

#define INTEGER(T, type)                                                                                                                             \
    do {                                                                                                                                             \
        ORDERED(T, type);                                                                                                                            \
        BITWISE(T, type);                                                                                                                            \
        SWAP(T, type);                                                                                                                               \
    } while (0)

static void integers(void)
{
    IN_PHASES("MPI_SIGNED_CHAR", INTEGER(signed char, MPI_SIGNED_CHAR););
    IN_PHASES("MPI_UNSIGNED_CHAR", INTEGER(unsigned char, MPI_UNSIGNED_CHAR););
    IN_PHASES("MPI_SHORT", INTEGER(short, MPI_SHORT););
    IN_PHASES("MPI_UNSIGNED_SHORT", INTEGER(unsigned short, MPI_UNSIGNED_SHORT););
    IN_PHASES("MPI_INT", INTEGER(int, MPI_INT););
    IN_PHASES("MPI_UNSIGNED", INTEGER(unsigned, MPI_UNSIGNED););
    IN_PHASES("MPI_LONG", INTEGER(long, MPI_LONG););
    IN_PHASES("MPI_UNSIGNED_LONG", INTEGER(unsigned long, MPI_UNSIGNED_LONG););
    IN_PHASES("MPI_LONG_LONG", INTEGER(long long, MPI_LONG_LONG););
    IN_PHASES("MPI_UNSIGNED_LONG_LONG", INTEGER(unsigned long long, MPI_UNSIGNED_LONG_LONG););
    IN_PHASES("MPI_INT8_T", INTEGER(int8_t, MPI_INT8_T););
    IN_PHASES("MPI_INT16_T", INTEGER(int16_t, MPI_INT16_T););
    IN_PHASES("MPI_INT32_T", INTEGER(int32_t, MPI_INT32_T););
    IN_PHASES("MPI_INT64_T", INTEGER(int64_t, MPI_INT64_T););
    IN_PHASES("MPI_UINT8_T", INTEGER(uint8_t, MPI_UINT8_T););
    IN_PHASES("MPI_UINT16_T", INTEGER(uint16_t, MPI_UINT16_T););
    IN_PHASES("MPI_UINT32_T", INTEGER(uint32_t, MPI_UINT32_T););
    IN_PHASES("MPI_UINT64_T", INTEGER(uint64_t, MPI_UINT64_T););
    IN_PHASES("MPI_AINT", INTEGER(MPI_Aint, MPI_AINT););
    IN_PHASES("MPI_OFFSET", INTEGER(MPI_Offset, MPI_OFFSET););
    IN_PHASES("MPI_COUNT", INTEGER(MPI_Count, MPI_COUNT););
}

static void other_types(void)
{
    IN_PHASES("MPI_INT, logically", LOGICAL(int, MPI_INT););
    IN_PHASES("MPI_C_BOOL", LOGICAL(bool, MPI_C_BOOL); REPLACE(bool, MPI_C_BOOL); SWAP(bool, MPI_C_BOOL););
    IN_PHASES("MPI_BYTE", BITWISE(unsigned char, MPI_BYTE); REPLACE(unsigned char, MPI_BYTE); SWAP(unsigned char, MPI_BYTE););
    IN_PHASES("characters", REPLACE(char, MPI_CHAR); REPLACE(wchar_t, MPI_WCHAR););
    IN_PHASES("MPI_FLOAT", ORDERED(float, MPI_FLOAT););
    IN_PHASES("MPI_DOUBLE", ORDERED(double, MPI_DOUBLE););
    IN_PHASES("MPI_LONG_DOUBLE", ORDERED(long double, MPI_LONG_DOUBLE););
    IN_PHASES("MPI_C_FLOAT_COMPLEX", ARITHMETIC(float complex, MPI_C_FLOAT_COMPLEX););
    IN_PHASES("MPI_C_DOUBLE_COMPLEX", ARITHMETIC(double complex, MPI_C_DOUBLE_COMPLEX););
    IN_PHASES("MPI_C_LONG_DOUBLE_COMPLEX", ARITHMETIC(long double complex, MPI_C_LONG_DOUBLE_COMPLEX););
}

/* (value, place): the least or greatest value, and the lowest place among equals (§6.9.4). */
#define LOCATE(T, type)                                                                                                                              \
    do {                                                                                                                                             \
        STORY("12.3.4 MINLOC and MAXLOC on " #type);                                                                                                 \
        struct pair { T value; int at; } in[N], out[N], *mine = (struct pair *)window;                                                               \
        memset(in, 0, sizeof in);                                                                                                                    \
        memset(window, 0, 2 * sizeof in);                                                                                                            \
        for (int i = 0; i < N; i++) {                                                                                                                \
            in[i].value = (T)operand(rank, i);                                                                                                       \
            in[i].at = rank;                                                                                                                         \
            mine[i].value = mine[N + i].value = (T)operand(ranks, i);                                                                                \
            mine[i].at = mine[N + i].at = ranks;                                                                                                     \
        }                                                                                                                                            \
        MPI_Win_fence(0, win);                                                                                                                       \
        for (int target = 0; target < ranks; target++) {                                                                                             \
            MPI_Accumulate(in, N, type, target, 0, N, type, MPI_MINLOC, win);                                                                        \
            MPI_Accumulate(in, N, type, target, sizeof in, N, type, MPI_MAXLOC, win);                                                                \
        }                                                                                                                                            \
        MPI_Win_fence(0, win);                                                                                                                       \
        for (int i = 0; i < N; i++) {                                                                                                                \
            int least = ranks, greatest = ranks;                                                                                                     \
            for (int other = ranks - 1; other >= 0; other--) {                                                                                       \
                least = operand(other, i) <= operand(least, i) ? other : least;                                                                      \
                greatest = operand(other, i) >= operand(greatest, i) ? other : greatest;                                                             \
            }                                                                                                                                        \
            CHECK(mine[i].value == (T)operand(least, i) && mine[i].at == least, "MINLOC of %d at %d, expected %d", i, mine[i].at, least);            \
            CHECK(mine[N + i].value == (T)operand(greatest, i) && mine[N + i].at == greatest, "MAXLOC of %d at %d, expected %d", i, mine[N + i].at,  \
                  greatest);                                                                                                                         \
        }                                                                                                                                            \
        MPI_Barrier(MPI_COMM_WORLD);                                                                                                                 \
        MPI_Win_fence(0, win);                                                                                                                       \
        MPI_Get_accumulate(in, N, type, out, N, type, next, 0, N, type, MPI_REPLACE, win);                                                           \
        MPI_Win_fence(0, win);                                                                                                                       \
        for (int i = 0; i < N; i++)                                                                                                                  \
            CHECK(mine[i].at == before && out[i].at <= ranks, "%d: %d, %d", i, mine[i].at, out[i].at);                                               \
        MPI_Win_fence(0, win);                                                                                                                       \
    } while (0)

static void pairs(void)
{
    LOCATE(float, MPI_FLOAT_INT);
    LOCATE(double, MPI_DOUBLE_INT);
    LOCATE(long, MPI_LONG_INT);
    LOCATE(int, MPI_2INT);
    LOCATE(short, MPI_SHORT_INT);
    LOCATE(long double, MPI_LONG_DOUBLE_INT);
}

enum { LAYOUTS = 12, ELEMENTS = 24, ROOM = 600 };

/* A type of ELEMENTS integers, its lowest place being `-below` integers from where a buffer begins. */
static MPI_Datatype layout(int which, int *below)
{
    MPI_Datatype type, part, part2;
    int lengths[4] = {7, 1, 11, 5}, places[4] = {40, 2, 60, 10}, sizes[3] = {4, 6, 5}, subsizes[3] = {2, 4, 3}, starts[3] = {1, 1, 2};
    int one[ELEMENTS], scattered[ELEMENTS];
    MPI_Aint bytes[4] = {-44, 100, 8, 240};
    *below = 0;
    for (int i = 0; i < ELEMENTS; i++) {
        one[i] = 1;
        scattered[i] = i * 37 % ELEMENTS * 3;
    }
    switch (which) {
    case 0:
        MPI_Type_contiguous(ELEMENTS, MPI_INT, &type);
        break;
    case 1:
        MPI_Type_vector(8, 3, 7, MPI_INT, &type);
        break;
    case 2: /* backwards */
        MPI_Type_vector(6, 4, -9, MPI_INT, &type);
        *below = 45;
        break;
    case 3:
        MPI_Type_create_hvector(12, 2, 5 * sizeof(int), MPI_INT, &type);
        break;
    case 4:
        MPI_Type_indexed(4, lengths, places, MPI_INT, &type);
        break;
    case 5: /* below the origin, and in no order */
        MPI_Type_create_hindexed(4, lengths, bytes, MPI_INT, &type);
        *below = 11;
        break;
    case 6:
        MPI_Type_create_indexed_block(ELEMENTS, 1, scattered, MPI_INT, &type);
        break;
    case 7:
        MPI_Type_create_subarray(3, sizes, subsizes, starts, MPI_ORDER_C, MPI_INT, &type);
        break;
    case 8: /* vectors of vectors */
        MPI_Type_vector(2, 2, 3, MPI_INT, &part);
        MPI_Type_create_hvector(6, 1, 11 * sizeof(int), part, &type);
        MPI_Type_free(&part);
        break;
    case 9: { /* a struct of different parts */
        MPI_Type_vector(3, 2, 4, MPI_INT, &part);
        MPI_Type_contiguous(3, MPI_INT, &part2);
        MPI_Datatype parts[3] = {part, MPI_INT, part2};
        int counts[3] = {2, 6, 2};
        MPI_Aint at[3] = {120, 0, 40};
        MPI_Type_create_struct(3, counts, at, parts, &type);
        MPI_Type_free(&part);
        MPI_Type_free(&part2);
        break;
    }
    case 10: /* resized: elements lie apart */
        MPI_Type_create_resized(MPI_INT, -8, 16, &part);
        MPI_Type_contiguous(ELEMENTS, part, &type);
        MPI_Type_free(&part);
        break;
    default: /* one at a time, by name */
        MPI_Type_indexed(ELEMENTS, one, scattered, MPI_INT, &part);
        MPI_Type_dup(part, &type);
        MPI_Type_free(&part);
        break;
    }
    MPI_Type_commit(&type);
    return type;
}

/* The expected contents of the target's part of the window: the former contents, with the origin's elements
 * in their places. */
static void move_here(const int *from, int from_count, MPI_Datatype from_type, int *to, int to_count, MPI_Datatype to_type)
{
    int packed[4 * ELEMENTS], position = 0, size = 0;
    MPI_Pack(from, from_count, from_type, packed, sizeof packed, &size, MPI_COMM_SELF);
    MPI_Unpack(packed, size, &position, to, to_count, to_type, MPI_COMM_SELF);
}

/* What a place of the window's part for layout `b` is to be. */
static void expect_part(const int *expected, int a, int b, const char *after)
{
    const int *mine = (int *)window + b * ROOM;
    for (int i = 0; i < ROOM; i++)
        CHECK(mine[i] == expected[i], "%s, layout %d into layout %d: place %d is %d, expected %d", after, a, b, i, mine[i], expected[i]);
}

/* Each layout at the origin with each at the target: put, read again, and taken away by an accumulate
 * function. */
static void layouts(void)
{
    static int from[ROOM], minus[ROOM], back[LAYOUTS][ROOM], expected[LAYOUTS][ROOM], there[ROOM], theirs[ROOM], copy_of[ROOM];
    static int zeros[ELEMENTS], left[ELEMENTS];
    _Static_assert(LAYOUTS * ROOM * sizeof(int) <= BYTES, "a part for each layout");
    STORY("12.3.1 layouts of every kind at the origin and at the target");
    for (int a = 0; a < LAYOUTS; a++) {
        int from_below, below[LAYOUTS];
        MPI_Datatype from_type = layout(a, &from_below), to_types[LAYOUTS];
        for (int i = 0; i < ROOM; i++) {
            from[i] = rank * 1000 + i;
            theirs[i] = before * 1000 + i;
            minus[i] = -from[i];
        }
        for (int b = 0; b < LAYOUTS; b++) {
            to_types[b] = layout(b, &below[b]);
            for (int i = 0; i < ROOM; i++) {
                back[b][i] = -1;
                ((int *)window)[b * ROOM + i] = expected[b][i] = -i;
            }
        }
        MPI_Win_fence(0, win);
        for (int b = 0; b < LAYOUTS; b++)
            MPI_Put(from + from_below, 1, from_type, next, (b * ROOM + below[b]) * 4, 1, to_types[b], win);
        MPI_Win_fence(0, win);
        for (int b = 0; b < LAYOUTS; b++) {
            move_here(theirs + from_below, 1, from_type, expected[b] + below[b], 1, to_types[b]);
            expect_part(expected[b], a, b, "put");
        }
        MPI_Win_fence(0, win);
        for (int b = 0; b < LAYOUTS; b++)
            MPI_Get(back[b] + from_below, 1, from_type, next, (b * ROOM + below[b]) * 4, 1, to_types[b], win);
        MPI_Win_fence(0, win);
        for (int b = 0; b < LAYOUTS; b++) {
            for (int i = 0; i < ROOM; i++) {
                there[i] = -i;
                copy_of[i] = -1;
            }
            move_here(from + from_below, 1, from_type, there + below[b], 1, to_types[b]);
            move_here(there + below[b], 1, to_types[b], copy_of + from_below, 1, from_type);
            for (int i = 0; i < ROOM; i++) {
                CHECK(back[b][i] == copy_of[i], "get, layout %d into layout %d: place %d is %d, expected %d", b, a, i, back[b][i], copy_of[i]);
                back[b][i] = -5;
            }
        }
        for (int b = 0; b < LAYOUTS; b++)
            MPI_Get_accumulate(minus + from_below, 1, from_type, back[b], ELEMENTS, MPI_INT, next, (b * ROOM + below[b]) * 4, 1, to_types[b], MPI_SUM,
                               win);
        /* §5.1.9: operations that are under way go on with types that are freed. */
        MPI_Datatype freed = from_type;
        MPI_Type_free(&freed);
        MPI_Win_fence(0, win);
        from_type = layout(a, &from_below);
        for (int b = 0; b < LAYOUTS; b++) {
            move_here(zeros, ELEMENTS, MPI_INT, expected[b] + below[b], 1, to_types[b]);
            expect_part(expected[b], a, b, "accumulate");
            move_here(from + from_below, 1, from_type, left, ELEMENTS, MPI_INT);
            for (int i = 0; i < ROOM; i++)
                CHECK(back[b][i] == (i < ELEMENTS ? left[i] : -5), "MPI_Get_accumulate, layout %d into layout %d: place %d is %d", a, b, i, back[b][i]);
            MPI_Type_free(&to_types[b]);
        }
        MPI_Type_free(&from_type);
        MPI_Win_fence(0, win);
    }
}

/* Types of several basic ones, many of a type at once, and absolute addresses. */
static void more_layouts(void)
{
    STORY("12.3.1 a struct of several basic types");
    struct mixed { char letter; double number; short few[3]; long double wide; } from[3], *mine = (struct mixed *)window;
    MPI_Datatype parts[4] = {MPI_CHAR, MPI_DOUBLE, MPI_SHORT, MPI_LONG_DOUBLE}, bare, type;
    int lengths[4] = {1, 1, 3, 1};
    MPI_Aint places[4] = {offsetof(struct mixed, letter), offsetof(struct mixed, number), offsetof(struct mixed, few), offsetof(struct mixed, wide)};
    MPI_Type_create_struct(4, lengths, places, parts, &bare);
    MPI_Type_create_resized(bare, 0, sizeof(struct mixed), &type);
    MPI_Type_commit(&type);
    for (int i = 0; i < 3; i++)
        from[i] = (struct mixed){(char)('a' + rank + i), rank + 0.5 * i, {(short)rank, (short)i, 7}, rank * 2.5L};
    memset(window, 0, 4 * sizeof(struct mixed));
    MPI_Win_fence(0, win);
    MPI_Put(from, 3, type, next, 0, 3, type, win);
    MPI_Win_fence(0, win);
    for (int i = 0; i < 3; i++)
        CHECK(mine[i].letter == (char)('a' + before + i) && mine[i].number == before + 0.5 * i && mine[i].few[0] == before && mine[i].few[1] == i &&
                  mine[i].few[2] == 7 && mine[i].wide == before * 2.5L,
              "%d: %c, %g", i, mine[i].letter, mine[i].number);
    CHECK(mine[3].letter == 0 && mine[3].number == 0, "what follows was changed");
    MPI_Type_free(&type);
    MPI_Type_free(&bare);

    STORY("12.3.1 the origin's buffer by absolute addresses");
    int pieces[3] = {rank, rank + 1, rank + 2}, one[2] = {1, 1}, *got = (int *)window;
    MPI_Aint addresses[2];
    MPI_Get_address(&pieces[2], &addresses[0]);
    MPI_Get_address(&pieces[0], &addresses[1]);
    MPI_Type_create_hindexed(2, one, addresses, MPI_INT, &type);
    MPI_Type_commit(&type);
    MPI_Win_fence(0, win);
    MPI_Put(MPI_BOTTOM, 1, type, next, 8, 2, MPI_INT, win);
    MPI_Win_fence(0, win);
    CHECK(got[2] == before + 2 && got[3] == before, "%d, %d", got[2], got[3]);
    MPI_Win_fence(0, win);
    MPI_Get(MPI_BOTTOM, 1, type, next, 8, 2, MPI_INT, win);
    MPI_Win_fence(0, win);
    CHECK(pieces[2] == rank + 2 && pieces[0] == rank, "%d, %d", pieces[2], pieces[0]);
    MPI_Type_free(&type);

    STORY("12.3.1 counts at the origin and the target differ, the elements do not");
    static short shorts[60];
    MPI_Datatype three, five;
    MPI_Type_vector(3, 1, 2, MPI_SHORT, &three);
    MPI_Type_create_resized(three, 0, 6 * sizeof(short), &type);
    MPI_Type_contiguous(5, MPI_SHORT, &five);
    MPI_Type_commit(&type);
    MPI_Type_commit(&five);
    for (int i = 0; i < 60; i++)
        shorts[i] = (short)(100 * rank + i);
    memset(window, 0, 200);
    MPI_Win_fence(0, win);
    MPI_Put(shorts, 10, type, next, 2, 6, five, win);
    MPI_Win_fence(0, win);
    for (int i = 0; i < 30; i++)
        CHECK_EQUAL(((short *)window)[1 + i], 100 * before + 2 * i);
    CHECK(((short *)window)[0] == 0 && ((short *)window)[31] == 0, "what is beside was changed");
    MPI_Type_free(&three);
    MPI_Type_free(&type);
    MPI_Type_free(&five);
    MPI_Win_fence(0, win);
}

static void nobody(void)
{
    STORY("12.3 MPI_PROC_NULL is a target for all, and nothing happens");
    int in = 3, out = -7, compare = 1;
    MPI_Request requests[4];
    MPI_Status status;
    MPI_Win_fence(0, win);
    CHECK_EQUAL(MPI_Put(&in, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, win), MPI_SUCCESS);
    CHECK_EQUAL(MPI_Get(&out, 1, MPI_INT, MPI_PROC_NULL, BYTES + 8, 1, MPI_INT, win), MPI_SUCCESS);
    CHECK_EQUAL(MPI_Accumulate(&in, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, MPI_SUM, win), MPI_SUCCESS);
    CHECK_EQUAL(MPI_Get_accumulate(&in, 1, MPI_INT, &out, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, MPI_SUM, win), MPI_SUCCESS);
    CHECK_EQUAL(MPI_Fetch_and_op(&in, &out, MPI_INT, MPI_PROC_NULL, 0, MPI_SUM, win), MPI_SUCCESS);
    CHECK_EQUAL(MPI_Compare_and_swap(&in, &compare, &out, MPI_INT, MPI_PROC_NULL, 0, win), MPI_SUCCESS);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    CHECK_EQUAL(out, -7);
    MPI_Win_lock(MPI_LOCK_SHARED, MPI_PROC_NULL, 0, win); /* §12.5.3 */
    CHECK_EQUAL(MPI_Put(&in, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, win), MPI_SUCCESS);
    MPI_Win_unlock(MPI_PROC_NULL, win);
    MPI_Win_lock_all(0, win);
    MPI_Rput(&in, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, win, &requests[0]);
    MPI_Rget(&out, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, win, &requests[1]);
    MPI_Raccumulate(&in, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, MPI_SUM, win, &requests[2]);
    MPI_Rget_accumulate(&in, 1, MPI_INT, &out, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, MPI_SUM, win, &requests[3]);
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    MPI_Rput(&in, 0, MPI_INT, next, 0, 0, MPI_INT, win, &requests[0]);
    MPI_Wait(&requests[0], &status);
    CHECK_EQUAL(out, -7);
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_fence(0, win);
}

static void requests(void)
{
    STORY("12.3.5 operations with requests");
    enum { EACH = 8 };
    int *mine = (int *)window, in[EACH], got[EACH], was[EACH], sum[EACH];
    MPI_Request puts[EACH], all[2 * EACH];
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    MPI_Win_lock_all(0, win);
    for (int i = 0; i < EACH; i++) {
        in[i] = 10 * rank + i;
        mine[EACH * rank + i] = 0;
        MPI_Rput(&in[i], 1, MPI_INT, next, 4 * (EACH * rank + i), 1, MPI_INT, win, &puts[i]);
    }
    MPI_Waitall(EACH, puts, MPI_STATUSES_IGNORE);
    for (int i = 0; i < EACH; i++)
        in[i] = -1; /* complete at the origin: the buffer is the program's again */
    MPI_Win_flush(next, win);
    for (int i = EACH - 1; i >= 0; i--) {
        got[i] = was[i] = -1;
        sum[i] = 1000;
        MPI_Rget(&got[i], 1, MPI_INT, next, 4 * (EACH * rank + i), 1, MPI_INT, win, &all[i]);
    }
    for (int left = EACH; left > 0; left--) {
        int index = -1;
        MPI_Waitany(EACH, all, &index, MPI_STATUS_IGNORE);
        CHECK(index >= 0 && index < EACH && got[index] == 10 * rank + index, "request %d: %d", index, index >= 0 ? got[index] : -1);
    }
    for (int i = 0; i < EACH; i++) {
        MPI_Raccumulate(&sum[i], 1, MPI_INT, next, 4 * (EACH * rank + i), 1, MPI_INT, MPI_SUM, win, &all[2 * i]);
        MPI_Rget_accumulate(&sum[i], 1, MPI_INT, &was[i], 1, MPI_INT, next, 4 * (EACH * rank + i), 1, MPI_INT, MPI_SUM, win, &all[2 * i + 1]);
    }
    int complete = 0;
    while (!complete)
        MPI_Testall(2 * EACH, all, &complete, MPI_STATUSES_IGNORE);
    for (int i = 0; i < EACH; i++)
        CHECK_EQUAL(was[i], 10 * rank + i + 1000);
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < EACH; i++)
        CHECK_EQUAL(mine[EACH * before + i], 10 * before + i + 2000);
    MPI_Barrier(MPI_COMM_WORLD);

    STORY("12.3.5 a request that nobody waits for is complete when the epoch is closed");
    MPI_Win_lock(MPI_LOCK_SHARED, next, 0, win);
    MPI_Rput(&rank, 1, MPI_INT, next, 0, 1, MPI_INT, win, &puts[0]);
    MPI_Win_unlock(next, win);
    MPI_Wait(&puts[0], MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_EQUAL(mine[0], before);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_fence(0, win);
}

static void large_counts(void)
{
    STORY("12.3 the forms with large counts");
    int *mine = (int *)window, in[2] = {rank, 5}, out[2] = {-1, -1}, was[2] = {-1, -1};
    MPI_Request all[4];
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    mine[0] = mine[1] = 0;
    MPI_Win_fence(0, win);
    MPI_Put_c(in, 2, MPI_INT, next, 0, 2, MPI_INT, win);
    MPI_Win_fence(0, win);
    CHECK(mine[0] == before && mine[1] == 5, "%d, %d", mine[0], mine[1]);
    MPI_Win_fence(0, win);
    MPI_Accumulate_c(in, 2, MPI_INT, next, 0, 2, MPI_INT, MPI_SUM, win);
    MPI_Get_accumulate_c(in, 2, MPI_INT, was, 2, MPI_INT, next, 0, 2, MPI_INT, MPI_SUM, win);
    MPI_Win_fence(0, win);
    CHECK(was[0] == 2 * rank && was[1] == 10, "%d, %d", was[0], was[1]);
    MPI_Get_c(out, 2, MPI_INT, next, 0, 2, MPI_INT, win);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    CHECK(out[0] == 3 * rank && out[1] == 15, "%d, %d", out[0], out[1]);
    MPI_Win_lock_all(0, win);
    MPI_Raccumulate_c(in, 2, MPI_INT, next, 0, 2, MPI_INT, MPI_SUM, win, &all[0]);
    MPI_Rget_accumulate_c(in, 2, MPI_INT, was, 2, MPI_INT, next, 0, 2, MPI_INT, MPI_SUM, win, &all[1]);
    MPI_Waitall(2, all, MPI_STATUSES_IGNORE);
    CHECK(was[0] == 4 * rank && was[1] == 20, "%d, %d", was[0], was[1]);
    MPI_Win_flush(next, win);
    MPI_Rget_c(out, 2, MPI_INT, next, 0, 2, MPI_INT, win, &all[0]);
    MPI_Wait(&all[0], MPI_STATUS_IGNORE);
    CHECK(out[0] == 5 * rank && out[1] == 25, "%d, %d", out[0], out[1]);
    MPI_Rput_c(in, 2, MPI_INT, next, 0, 2, MPI_INT, win, &all[0]);
    MPI_Wait(&all[0], MPI_STATUS_IGNORE);
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(mine[0] == before && mine[1] == 5, "%d, %d", mine[0], mine[1]);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_fence(0, win);
}

static void order(void)
{
    STORY("12.7.2 accumulate functions of one origin to one place take effect in the order of the program");
    enum { TIMES = 200 };
    int64_t *mine = (int64_t *)window, values[TIMES], was[TIMES];
    for (int i = 0; i < ranks; i++)
        mine[i] = -1;
    MPI_Win_fence(0, win);
    for (int i = 0; i < TIMES; i++) {
        values[i] = i;
        MPI_Aint at = 8 * rank;
        if (i % 3 == 0)
            MPI_Accumulate(&values[i], 1, MPI_INT64_T, next, at, 1, MPI_INT64_T, MPI_REPLACE, win), was[i] = i - 1;
        else if (i % 3 == 1)
            MPI_Fetch_and_op(&values[i], &was[i], MPI_INT64_T, next, at, MPI_REPLACE, win);
        else
            MPI_Get_accumulate(&values[i], 1, MPI_INT64_T, &was[i], 1, MPI_INT64_T, next, at, 1, MPI_INT64_T, MPI_REPLACE, win);
    }
    MPI_Win_fence(0, win);
    for (int i = 0; i < TIMES; i++)
        CHECK(was[i] == i - 1, "before %d there was %lld", i, (long long)was[i]);
    CHECK_EQUAL(mine[before], TIMES - 1);
    MPI_Win_fence(0, win);
}

static void everybody_to_everybody(void)
{
    STORY("12.3.1 all ranks put and get parts of all windows, their own included, with every length");
    static const size_t lengths[] = {0, 1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 31, 33, 64, 65, 200, 1000, 1001, 4000};
    size_t share = BYTES / (size_t)ranks;
    unsigned char *in = memory(share), *out = memory(BYTES);
    for (size_t which = 0; which < sizeof lengths / sizeof *lengths; which++) {
        size_t length = lengths[which] < share ? lengths[which] : share;
        memset(window, 0, BYTES);
        fill(in, length, rank, (int)which);
        MPI_Win_fence(0, win);
        for (int i = 0; i < ranks; i++)
            MPI_Put(in, (int)length, MPI_BYTE, (rank + i) % ranks, (MPI_Aint)(share * (size_t)rank), (int)length, MPI_BYTE, win);
        MPI_Win_fence(MPI_MODE_NOSTORE, win);
        for (int from = 0; from < ranks; from++) {
            CHECK_EQUAL(wrong_bytes(window + share * (size_t)from, length, from, (int)which), 0);
            CHECK(length == share || window[share * (size_t)from + length] == 0, "a byte too many from rank %d", from);
        }
        memset(out, 0, BYTES);
        for (int i = 0; i < ranks; i++)
            MPI_Get(out + share * (size_t)i, (int)length, MPI_BYTE, (rank + i) % ranks, (MPI_Aint)(share * (size_t)((rank + 2 * i) % ranks)), (int)length,
                    MPI_BYTE, win);
        MPI_Win_fence(MPI_MODE_NOSTORE | MPI_MODE_NOPUT, win);
        for (int i = 0; i < ranks; i++) {
            int whose = (rank + 2 * i) % ranks;
            CHECK_EQUAL(wrong_bytes(out + share * (size_t)i, length, whose, (int)which), 0);
        }
        MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    }
    MPI_Win_fence(0, win);
    free(in);
    free(out);
}

static void all_of_it(void)
{
    everybody_to_everybody();
    integers();
    other_types();
    pairs();
    layouts();
    more_layouts();
    nobody();
    requests();
    large_counts();
    order();
}

/* `window_access`: over a window of the program's memory, then over one that MPI allocates. */
int main(int argc, char **argv)
{
    begin(&argc, &argv);
    next = (rank + 1) % ranks;
    before = (rank + ranks - 1) % ranks;
    unsigned char *own = aligned_alloc(64, BYTES);
    window = own;
    MPI_Win_create(window, BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_fence(0, win);
    all_of_it();
    MPI_Win_free(&win);
    free(own);
    MPI_Win_allocate(BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window, &win);
    MPI_Win_fence(0, win);
    all_of_it();
    MPI_Win_free(&win);
    return end();
}
