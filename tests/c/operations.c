/* All predefined operations on all types for which they are defined, and user operations, also
 * non-commutative ones. */
#include "check.h"

#include <complex.h>
#include <float.h>
#include <stdbool.h>

enum { N = 37, LONG = 20000 };

/* Small values, so that products stay exact in every type: 1, 2 or 3, and rank-dependent truth. */
static int operand(int of, int index)
{
    return (of * 7 + index * 3) % 3 + (of % 3 == index % 3);
}

/* Reduces N operands of every rank in type T with `expression` of (a, b), and compares Allreduce, Reduce and
 * Scan. */
#define REDUCE(T, type, op, expression)                                                                                \
    do {                                                                                                               \
        T in[N], out[N], expected[N], upto[N];                                                                         \
        STORY(#op " on " #type);                                                                                       \
        for (int i = 0; i < N; i++) {                                                                                  \
            in[i] = (T)operand(rank, i);                                                                               \
            expected[i] = (T)operand(0, i);                                                                            \
            if (rank == 0)                                                                                             \
                upto[i] = expected[i];                                                                                 \
            for (int other = 1; other < ranks; other++) {                                                              \
                T a = expected[i], b = (T)operand(other, i);                                                           \
                expected[i] = (T)(expression);                                                                         \
                if (other == rank)                                                                                     \
                    upto[i] = expected[i];                                                                             \
            }                                                                                                          \
        }                                                                                                              \
        MPI_Allreduce(in, out, N, type, op, MPI_COMM_WORLD);                                                           \
        for (int i = 0; i < N; i++)                                                                                    \
            CHECK(out[i] == expected[i], "Allreduce: element %d of %d", i, N);                                         \
        MPI_Scan(in, out, N, type, op, MPI_COMM_WORLD);                                                                \
        for (int i = 0; i < N; i++)                                                                                    \
            CHECK(out[i] == upto[i], "Scan: element %d", i);                                                           \
        MPI_Reduce(in, out, N, type, op, ranks - 1, MPI_COMM_WORLD);                                                   \
        for (int i = 0; rank == ranks - 1 && i < N; i++)                                                               \
            CHECK(out[i] == expected[i], "Reduce: element %d", i);                                                     \
    } while (0)

#define ARITHMETIC(T, type)                                                                                            \
    do {                                                                                                               \
        REDUCE(T, type, MPI_SUM, a + b);                                                                               \
        REDUCE(T, type, MPI_PROD, a * b);                                                                              \
    } while (0)

#define ORDERED(T, type)                                                                                               \
    do {                                                                                                               \
        ARITHMETIC(T, type);                                                                                           \
        REDUCE(T, type, MPI_MAX, a > b ? a : b);                                                                       \
        REDUCE(T, type, MPI_MIN, a < b ? a : b);                                                                       \
    } while (0)

#define LOGICAL(T, type)                                                                                               \
    do {                                                                                                               \
        REDUCE(T, type, MPI_LAND, a && b);                                                                             \
        REDUCE(T, type, MPI_LOR, a || b);                                                                              \
        REDUCE(T, type, MPI_LXOR, !a != !b);                                                                           \
    } while (0)

#define BITWISE(T, type)                                                                                               \
    do {                                                                                                               \
        REDUCE(T, type, MPI_BAND, a &b);                                                                               \
        REDUCE(T, type, MPI_BOR, a | b);                                                                               \
        REDUCE(T, type, MPI_BXOR, a ^ b);                                                                              \
    } while (0)

#define INTEGER(T, type)                                                                                               \
    do {                                                                                                               \
        ORDERED(T, type);                                                                                              \
        BITWISE(T, type);                                                                                              \
    } while (0)

static void predefined(void)
{
    INTEGER(signed char, MPI_SIGNED_CHAR);
    INTEGER(unsigned char, MPI_UNSIGNED_CHAR);
    INTEGER(short, MPI_SHORT);
    INTEGER(unsigned short, MPI_UNSIGNED_SHORT);
    INTEGER(int, MPI_INT);
    INTEGER(unsigned, MPI_UNSIGNED);
    INTEGER(long, MPI_LONG);
    INTEGER(unsigned long, MPI_UNSIGNED_LONG);
    INTEGER(long long, MPI_LONG_LONG);
    INTEGER(unsigned long long, MPI_UNSIGNED_LONG_LONG);
    INTEGER(int8_t, MPI_INT8_T);
    INTEGER(int16_t, MPI_INT16_T);
    INTEGER(int32_t, MPI_INT32_T);
    INTEGER(int64_t, MPI_INT64_T);
    INTEGER(uint8_t, MPI_UINT8_T);
    INTEGER(uint16_t, MPI_UINT16_T);
    INTEGER(uint32_t, MPI_UINT32_T);
    INTEGER(uint64_t, MPI_UINT64_T);
    INTEGER(MPI_Aint, MPI_AINT);
    INTEGER(MPI_Offset, MPI_OFFSET);
    INTEGER(MPI_Count, MPI_COUNT);
    LOGICAL(int, MPI_INT);
    /* Types that the standard leaves out, and that every other library accepts. */
    INTEGER(signed char, MPI_CHAR);
    LOGICAL(unsigned char, MPI_UNSIGNED_CHAR);
    LOGICAL(int64_t, MPI_INT64_T);
    LOGICAL(bool, MPI_C_BOOL);
    BITWISE(unsigned char, MPI_BYTE);
    ORDERED(float, MPI_FLOAT);
    ORDERED(double, MPI_DOUBLE);
    ORDERED(long double, MPI_LONG_DOUBLE);
    ARITHMETIC(float complex, MPI_C_FLOAT_COMPLEX);
    ARITHMETIC(double complex, MPI_C_DOUBLE_COMPLEX);
    ARITHMETIC(long double complex, MPI_C_LONG_DOUBLE_COMPLEX);
}

/* (value, place): the least or greatest value, and the lowest place among equals (MPI-5.0 §6.9.4). */
#define LOCATE(T, type)                                                                                                \
    do {                                                                                                               \
        STORY("§6.9.4 MINLOC and MAXLOC on " #type);                                                                          \
        struct { T value; int at; } in[N], out[N], least[N], greatest[N];                                              \
        memset(out, 0, sizeof out);                                                                                    \
        for (int i = 0; i < N; i++)                                                                                    \
            for (int other = 0; other < ranks; other++) {                                                              \
                T v = (T)operand(other, i);                                                                            \
                int at = ranks * 10 - other;                                                                           \
                if (other == rank)                                                                                     \
                    in[i].value = v, in[i].at = at;                                                                    \
                if (other == 0 || v < least[i].value || (v == least[i].value && at < least[i].at))                     \
                    least[i].value = v, least[i].at = at;                                                              \
                if (other == 0 || v > greatest[i].value || (v == greatest[i].value && at < greatest[i].at))            \
                    greatest[i].value = v, greatest[i].at = at;                                                        \
            }                                                                                                          \
        MPI_Allreduce(in, out, N, type, MPI_MINLOC, MPI_COMM_WORLD);                                                   \
        for (int i = 0; i < N; i++)                                                                                    \
            CHECK(out[i].value == least[i].value && out[i].at == least[i].at, "MINLOC: element %d", i);                \
        MPI_Allreduce(in, out, N, type, MPI_MAXLOC, MPI_COMM_WORLD);                                                   \
        for (int i = 0; i < N; i++)                                                                                    \
            CHECK(out[i].value == greatest[i].value && out[i].at == greatest[i].at, "MAXLOC: element %d", i);          \
    } while (0)

static void locations(void)
{
    LOCATE(int, MPI_2INT);
    LOCATE(float, MPI_FLOAT_INT);
    LOCATE(double, MPI_DOUBLE_INT);
    LOCATE(long, MPI_LONG_INT);
    LOCATE(short, MPI_SHORT_INT);
    LOCATE(long double, MPI_LONG_DOUBLE_INT);
}

static void floating_corners(void)
{
    STORY("§6.9.2 long double keeps its precision");
    long double one = rank == 0 ? 1.0L : LDBL_EPSILON, total;
    MPI_Allreduce(&one, &total, 1, MPI_LONG_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    long double at_least = 1.0L + (ranks > 1 ? LDBL_EPSILON : 0), at_most = 1.0L + (ranks + 1) * LDBL_EPSILON;
    CHECK(total >= at_least && total <= at_most, "the sum is %.21Lg", total);
    STORY("§6.9.6 all ranks get the same sum to the last bit");
    double *in = memory(LONG * sizeof(double)), *out = memory(LONG * sizeof(double)), *first = memory(LONG * sizeof(double));
    static const int lengths[] = {1, 10, 1000, LONG};
    for (int l = 0; l < 4; l++) {
        for (int i = 0; i < lengths[l]; i++)
            in[i] = 1.0 / (rank * 31 + i + 1);
        MPI_Allreduce(in, out, lengths[l], MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        memcpy(first, out, lengths[l] * sizeof(double));
        MPI_Bcast(first, lengths[l], MPI_DOUBLE, 0, MPI_COMM_WORLD);
        CHECK(memcmp(first, out, lengths[l] * sizeof(double)) == 0, "length %d", lengths[l]);
    }
    free(in);
    free(out);
    free(first);
}

/* An affine map x -> a x + b in arithmetic modulo 2^32: composing two is associative but not commutative. */
struct affine { uint32_t a, b; };

static struct affine compose(struct affine first, struct affine then)
{
    return (struct affine){first.a * then.a, first.b * then.a + then.b};
}

static int calls;

static void compose_all(void *in, void *inout, int *length, MPI_Datatype *type)
{
    int size;
    MPI_Type_size(*type, &size);
    CHECK_EQUAL(size, sizeof(struct affine));
    for (int i = 0; i < *length; i++)
        ((struct affine *)inout)[i] = compose(((struct affine *)in)[i], ((struct affine *)inout)[i]);
    calls++;
}

static void add_all(void *in, void *inout, int *length, MPI_Datatype *type)
{
    (void)type;
    for (int i = 0; i < *length; i++)
        ((int *)inout)[i] += ((int *)in)[i];
}

static struct affine mine(int of, int index)
{
    return (struct affine){2 * (of + index) + 3, of * 5 + index};
}

static int wrong_maps(const struct affine *found, int length, int first, int end)
{
    int wrong = 0;
    for (int i = 0; i < length; i++) {
        struct affine expected = mine(0, first + i);
        for (int other = 1; other < end; other++)
            expected = compose(expected, mine(other, first + i));
        wrong += found[i].a != expected.a || found[i].b != expected.b;
    }
    return wrong;
}

static void user_defined(void)
{
    STORY("§6.9.5 a user's operation that does not commute");
    MPI_Op op;
    MPI_Datatype type;
    int commutes;
    MPI_Type_contiguous(2, MPI_UINT32_T, &type);
    MPI_Type_commit(&type);
    MPI_Op_create(compose_all, 0, &op);
    MPI_Op_commutative(op, &commutes);
    CHECK_EQUAL(commutes, 0);
    struct affine *in = memory(LONG * sizeof *in), *out = memory(LONG * sizeof *in);
    static const int lengths[] = {1, 5, 1000, LONG};
    for (int l = 0; l < 4; l++) {
        int n = lengths[l];
        for (int i = 0; i < n; i++)
            in[i] = mine(rank, i);
        MPI_Allreduce(in, out, n, type, op, MPI_COMM_WORLD);
        CHECK(wrong_maps(out, n, 0, ranks) == 0, "Allreduce, length %d", n);
        for (int root = 0; root < ranks; root++) {
            MPI_Reduce(in, out, n, type, op, root, MPI_COMM_WORLD);
            if (rank == root)
                CHECK(wrong_maps(out, n, 0, ranks) == 0, "Reduce, length %d, root %d", n, root);
        }
        MPI_Scan(in, out, n, type, op, MPI_COMM_WORLD);
        CHECK(wrong_maps(out, n, 0, rank + 1) == 0, "Scan, length %d", n);
        MPI_Exscan(in, out, n, type, op, MPI_COMM_WORLD);
        if (rank > 0)
            CHECK(wrong_maps(out, n, 0, rank) == 0, "Exscan, length %d", n);
        int part = n / ranks;
        MPI_Reduce_scatter_block(in, out, part, type, op, MPI_COMM_WORLD);
        CHECK(wrong_maps(out, part, rank * part, ranks) == 0, "Reduce_scatter_block, length %d", part);
        MPI_Reduce_local(in, in, 0, type, op);
    }
    STORY("§6.9.7 Reduce_local");
    struct affine left = mine(1, 2), right = mine(2, 3), expected = compose(left, right);
    MPI_Reduce_local(&left, &right, 1, type, op);
    CHECK(right.a == expected.a && right.b == expected.b, "got %u %u", right.a, right.b);
    CHECK(calls > 0, "the operation was never called");
    MPI_Op_free(&op);
    CHECK(op == MPI_OP_NULL, "not null after Op_free");
    MPI_Type_free(&type);
    free(in);
    free(out);

    STORY("§6.9.5 a user's operation that commutes");
    int table[20], sum[20];
    MPI_Op_create(add_all, 1, &op);
    for (int i = 0; i < 20; i++)
        table[i] = rank + i;
    MPI_Allreduce(table, sum, 20, MPI_INT, op, MPI_COMM_WORLD);
    for (int i = 0; i < 20; i++)
        CHECK_EQUAL(sum[i], ranks * (ranks - 1) / 2 + ranks * i);
    MPI_Op_free(&op);
    MPI_Op_commutative(MPI_SUM, &commutes);
    CHECK_EQUAL(commutes, 1);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    predefined();
    locations();
    floating_corners();
    user_defined();
    return end();
}
