/* Derived datatypes: sizes, extents, transfers between different types of one signature, pack and unpack. */
#include "check.h"

#include <stddef.h>

static int next, previous;

static void check_shape(MPI_Datatype type, int size, MPI_Aint lb, MPI_Aint extent, MPI_Aint true_lb, MPI_Aint true_extent)
{
    int found_size;
    MPI_Aint found_lb, found_extent;
    MPI_Count large;
    MPI_Type_size(type, &found_size);
    MPI_Type_get_extent(type, &found_lb, &found_extent);
    CHECK_EQUAL(found_size, size);
    CHECK_EQUAL(found_lb, lb);
    CHECK_EQUAL(found_extent, extent);
    MPI_Type_get_true_extent(type, &found_lb, &found_extent);
    CHECK_EQUAL(found_lb, true_lb);
    CHECK_EQUAL(found_extent, true_extent);
    MPI_Type_size_x(type, &large);
    CHECK_EQUAL(large, size);
    MPI_Type_size_c(type, &large);
    CHECK_EQUAL(large, size);
}

static void predefined(void)
{
    STORY("§3.2.2 predefined types");
    static const struct { MPI_Datatype type; size_t size; } table[] = {
        {MPI_CHAR, sizeof(char)}, {MPI_SIGNED_CHAR, 1}, {MPI_UNSIGNED_CHAR, 1}, {MPI_BYTE, 1}, {MPI_PACKED, 1},
        {MPI_SHORT, sizeof(short)}, {MPI_UNSIGNED_SHORT, sizeof(short)}, {MPI_INT, sizeof(int)},
        {MPI_UNSIGNED, sizeof(unsigned)}, {MPI_LONG, sizeof(long)}, {MPI_UNSIGNED_LONG, sizeof(long)},
        {MPI_LONG_LONG, sizeof(long long)}, {MPI_LONG_LONG_INT, sizeof(long long)},
        {MPI_UNSIGNED_LONG_LONG, sizeof(long long)}, {MPI_FLOAT, sizeof(float)}, {MPI_DOUBLE, sizeof(double)},
        {MPI_LONG_DOUBLE, sizeof(long double)}, {MPI_WCHAR, sizeof(wchar_t)}, {MPI_C_BOOL, sizeof(_Bool)},
        {MPI_INT8_T, 1}, {MPI_INT16_T, 2}, {MPI_INT32_T, 4}, {MPI_INT64_T, 8}, {MPI_UINT8_T, 1}, {MPI_UINT16_T, 2},
        {MPI_UINT32_T, 4}, {MPI_UINT64_T, 8}, {MPI_AINT, sizeof(MPI_Aint)}, {MPI_COUNT, sizeof(MPI_Count)},
        {MPI_OFFSET, sizeof(MPI_Offset)}, {MPI_C_FLOAT_COMPLEX, 8}, {MPI_C_DOUBLE_COMPLEX, 16},
        {MPI_C_LONG_DOUBLE_COMPLEX, 2 * sizeof(long double)}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        check_shape(table[i].type, table[i].size, 0, table[i].size, 0, table[i].size);
    /* Pairs for MINLOC and MAXLOC: the size leaves the padding out, the extent counts it (MPI-5.0 §6.9.4). */
    struct double_int { double value; int at; };
    struct short_int { short value; int at; };
    struct long_double_int { long double value; int at; };
    check_shape(MPI_2INT, 8, 0, 8, 0, 8);
    check_shape(MPI_FLOAT_INT, 8, 0, 8, 0, 8);
    check_shape(MPI_DOUBLE_INT, 12, 0, sizeof(struct double_int), 0, 12);
    check_shape(MPI_LONG_INT, sizeof(long) + 4, 0, 16, 0, 12);
    check_shape(MPI_SHORT_INT, 6, 0, sizeof(struct short_int), 0, 8);
    check_shape(MPI_LONG_DOUBLE_INT, sizeof(long double) + 4, 0, sizeof(struct long_double_int), 0, sizeof(long double) + 4);
}

static void shapes(void)
{
    MPI_Datatype type, inner;
    STORY("§5.1.2 contiguous, vector, hvector");
    MPI_Type_contiguous(5, MPI_INT, &type);
    check_shape(type, 20, 0, 20, 0, 20);
    MPI_Type_free(&type);
    CHECK(type == MPI_DATATYPE_NULL, "not null after Type_free");
    MPI_Type_vector(3, 2, 4, MPI_INT, &type);
    check_shape(type, 24, 0, 40, 0, 40);
    MPI_Type_free(&type);
    MPI_Type_vector(3, 1, -2, MPI_DOUBLE, &type);
    check_shape(type, 24, -32, 40, -32, 40);
    MPI_Type_free(&type);
    MPI_Type_create_hvector(2, 3, 50, MPI_SHORT, &type);
    check_shape(type, 12, 0, 56, 0, 56);
    MPI_Type_free(&type);
    MPI_Type_contiguous(0, MPI_INT, &type);
    check_shape(type, 0, 0, 0, 0, 0);
    MPI_Type_free(&type);

    STORY("§5.1.2 indexed in all forms");
    int lengths[3] = {2, 0, 3}, at[3] = {5, 100, 1};
    MPI_Aint bytes[3] = {40, 8, 0};
    MPI_Type_indexed(3, lengths, at, MPI_INT, &type);
    check_shape(type, 20, 4, 24, 4, 24);
    MPI_Type_free(&type);
    MPI_Type_create_hindexed(3, lengths, bytes, MPI_INT, &type);
    check_shape(type, 20, 0, 48, 0, 48);
    MPI_Type_free(&type);
    MPI_Type_create_indexed_block(3, 2, at, MPI_INT, &type);
    check_shape(type, 24, 4, 404, 4, 404);
    MPI_Type_free(&type);
    MPI_Type_create_hindexed_block(3, 1, bytes, MPI_INT, &type);
    check_shape(type, 12, 0, 44, 0, 44);
    MPI_Type_free(&type);

    STORY("§5.1.2, §5.1.7, §5.1.10 struct, resized, dup");
    struct item { char c; double d; int i; };
    int ones[3] = {1, 1, 1};
    MPI_Aint offsets[3] = {offsetof(struct item, c), offsetof(struct item, d), offsetof(struct item, i)};
    MPI_Datatype members[3] = {MPI_CHAR, MPI_DOUBLE, MPI_INT};
    MPI_Type_create_struct(3, ones, offsets, members, &inner);
    check_shape(inner, 13, 0, sizeof(struct item), 0, 20);
    MPI_Type_create_resized(inner, -8, 64, &type);
    check_shape(type, 13, -8, 64, 0, 20);
    MPI_Type_free(&inner); /* a type that was built from it lives on */
    MPI_Type_dup(type, &inner);
    MPI_Type_free(&type);
    check_shape(inner, 13, -8, 64, 0, 20);
    MPI_Type_free(&inner);

    STORY("§7.8 a type's name");
    char name[MPI_MAX_OBJECT_NAME];
    int length;
    MPI_Type_get_name(MPI_DOUBLE, name, &length);
    CHECK(strcmp(name, "MPI_DOUBLE") == 0 && length == 10, "%s", name);
    MPI_Type_contiguous(2, MPI_INT, &type);
    MPI_Type_get_name(type, name, &length);
    CHECK(length == 0, "a new type is called %s", name);
    MPI_Type_set_name(type, "two");
    MPI_Type_get_name(type, name, &length);
    CHECK(strcmp(name, "two") == 0, "%s", name);
    MPI_Type_free(&type);
}

/* Sends `count` of `type` from `from` round the ring as the type, and as bytes; the arrived data is packed
 * again and compared. */
static void round_trip(const void *from, void *to, size_t room, int count, MPI_Datatype type)
{
    int size, packed_size, at = 0, unpacked_at = 0, arrived;
    MPI_Status status;
    MPI_Type_size(type, &size);
    MPI_Pack_size(count, type, MPI_COMM_WORLD, &packed_size);
    CHECK(packed_size >= size * count, "Pack_size says %d for %d bytes", packed_size, size * count);
    char *packed = memory(packed_size), *again = memory(packed_size), *theirs = memory(packed_size);
    MPI_Pack(from, count, type, packed, packed_size, &at, MPI_COMM_WORLD);
    CHECK_EQUAL(at, size * count);

    MPI_Sendrecv(packed, at, MPI_PACKED, next, 1, theirs, packed_size, MPI_PACKED, previous, 1, MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, MPI_PACKED, &arrived);
    CHECK_EQUAL(arrived, at);

    memset(to, 0x55, room);
    MPI_Sendrecv(from, count, type, next, 2, to, count, type, previous, 2, MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, type, &arrived);
    CHECK_EQUAL(arrived, size ? count : 0);
    int again_at = 0;
    MPI_Pack(to, count, type, again, packed_size, &again_at, MPI_COMM_WORLD);
    CHECK(memcmp(again, theirs, at) == 0, "what arrived is not what was sent");

    memset(to, 0x55, room);
    MPI_Unpack(theirs, at, &unpacked_at, to, count, type, MPI_COMM_WORLD);
    CHECK_EQUAL(unpacked_at, at);
    again_at = 0;
    MPI_Pack(to, count, type, again, packed_size, &again_at, MPI_COMM_WORLD);
    CHECK(memcmp(again, theirs, at) == 0, "what was unpacked is not what was packed");
    free(packed);
    free(again);
    free(theirs);
}

static void transfers(void)
{
    enum { ROOM = 1 << 21 };
    unsigned char *from = memory(ROOM), *to = memory(ROOM);
    fill(from, ROOM, rank, 0);
    MPI_Datatype type, inner;

    STORY("§5.1.2, §5.1.11 columns of a matrix");
    static const int rows[] = {1, 3, 64, 1000};
    for (int i = 0; i < 4; i++) {
        MPI_Type_vector(rows[i], 1, 100, MPI_DOUBLE, &type);
        MPI_Type_commit(&type);
        round_trip(from, to, ROOM, 1, type);
        MPI_Type_create_resized(type, 0, sizeof(double), &inner); /* neighbouring columns */
        MPI_Type_commit(&inner);
        round_trip(from, to, ROOM, 7, inner);
        MPI_Type_free(&inner);
        MPI_Type_free(&type);
    }
    STORY("§5.1.11 blocks with gaps, backwards");
    MPI_Type_vector(50, 3, -5, MPI_INT, &type);
    MPI_Type_commit(&type);
    round_trip(from + ROOM / 2, to + ROOM / 2, ROOM / 2, 1, type);
    MPI_Type_free(&type);

    STORY("§5.1.11 a struct of vectors, many times");
    int lengths[3] = {3, 1, 2};
    MPI_Aint offsets[3] = {0, 16, 200};
    MPI_Type_vector(4, 1, 3, MPI_SHORT, &inner);
    MPI_Datatype members[3] = {MPI_INT, inner, MPI_DOUBLE};
    MPI_Type_create_struct(3, lengths, offsets, members, &type);
    MPI_Type_commit(&type);
    round_trip(from, to, ROOM, 1, type);
    round_trip(from, to, ROOM, 2000, type);
    MPI_Type_free(&type);
    MPI_Type_free(&inner);

    STORY("§5.1.11 indexed blocks, not in order");
    int block[5] = {4, 1, 0, 9, 2}, at[5] = {30, 2, 7, 10, 0};
    MPI_Type_indexed(5, block, at, MPI_FLOAT, &type);
    MPI_Type_commit(&type);
    round_trip(from, to, ROOM, 1, type);
    round_trip(from, to, ROOM, 3000, type);
    MPI_Type_free(&type);

    STORY("§5.1.11 nothing at all");
    MPI_Type_contiguous(0, MPI_INT, &type);
    MPI_Type_commit(&type);
    round_trip(from, to, ROOM, 3, type);
    MPI_Type_free(&type);
    free(from);
    free(to);
}

static void counting(void)
{
    STORY("§3.2.5, §5.1.11 Get_count and Get_elements of what is not whole");
    MPI_Datatype pair;
    MPI_Status status;
    int out[5] = {1, 2, 3, 4, 5}, in[6], count, elements;
    MPI_Type_contiguous(2, MPI_INT, &pair);
    MPI_Type_commit(&pair);
    MPI_Sendrecv(out, 5, MPI_INT, next, 0, in, 3, pair, previous, 0, MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, pair, &count);
    MPI_Get_elements(&status, pair, &elements);
    CHECK_EQUAL(count, MPI_UNDEFINED);
    CHECK_EQUAL(elements, 5);
    MPI_Get_count(&status, MPI_INT, &count);
    CHECK_EQUAL(count, 5);
    MPI_Type_free(&pair);
}

static void gaps_stay(void)
{
    STORY("§5.1.11 gaps are not written");
    MPI_Datatype type;
    int out[20], in[20];
    MPI_Type_vector(5, 1, 4, MPI_INT, &type);
    MPI_Type_commit(&type);
    for (int i = 0; i < 20; i++)
        out[i] = rank * 100 + i, in[i] = -7;
    MPI_Sendrecv(out, 1, type, next, 0, in, 1, type, previous, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < 20; i++)
        CHECK_EQUAL(in[i], i % 4 == 0 && i < 17 ? previous * 100 + i : -7);
    STORY("§5.2 one form here, another there");
    int got[5];
    MPI_Sendrecv(out, 1, type, next, 0, got, 5, MPI_INT, previous, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < 5; i++)
        CHECK_EQUAL(got[i], previous * 100 + 4 * i);
    MPI_Type_free(&type);
}

static void several_in_one_pack(void)
{
    STORY("§5.2 several things in one packed message");
    char buffer[200], name[10] = "weft", got_name[10];
    int at = 0, n = rank + 5, got_n = 0;
    double x = rank * 0.5, got_x = 0;
    MPI_Pack(&n, 1, MPI_INT, buffer, sizeof buffer, &at, MPI_COMM_WORLD);
    MPI_Pack(&x, 1, MPI_DOUBLE, buffer, sizeof buffer, &at, MPI_COMM_WORLD);
    MPI_Pack(name, 10, MPI_CHAR, buffer, sizeof buffer, &at, MPI_COMM_WORLD);
    MPI_Sendrecv_replace(buffer, at, MPI_PACKED, next, 0, previous, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    at = 0;
    MPI_Unpack(buffer, sizeof buffer, &at, &got_n, 1, MPI_INT, MPI_COMM_WORLD);
    MPI_Unpack(buffer, sizeof buffer, &at, &got_x, 1, MPI_DOUBLE, MPI_COMM_WORLD);
    MPI_Unpack(buffer, sizeof buffer, &at, got_name, 10, MPI_CHAR, MPI_COMM_WORLD);
    CHECK_EQUAL(got_n, previous + 5);
    CHECK(got_x == previous * 0.5 && strcmp(got_name, "weft") == 0, "%g %s", got_x, got_name);
}

static void addresses(void)
{
    STORY("§5.1.5 addresses");
    int array[10] = {0};
    MPI_Aint first, fifth;
    MPI_Get_address(&array[0], &first);
    MPI_Get_address(&array[5], &fifth);
    CHECK_EQUAL(MPI_Aint_diff(fifth, first), 5 * sizeof(int));
    CHECK_EQUAL(MPI_Aint_add(first, 5 * sizeof(int)), fifth);
    STORY("§5.1.12 absolute addresses and MPI_BOTTOM");
    MPI_Datatype type;
    int length = 1, value = rank, got = -1;
    MPI_Aint at;
    MPI_Get_address(&value, &at);
    MPI_Type_create_hindexed(1, &length, &at, MPI_INT, &type);
    MPI_Type_commit(&type);
    MPI_Sendrecv(MPI_BOTTOM, 1, type, next, 0, &got, 1, MPI_INT, previous, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK_EQUAL(got, previous);
    MPI_Type_free(&type);
}

/* §19.1.9: datatypes of a class by their size, as bindings of other languages ask for them. A size of C's own
 * types is that of some datatype. */
static void by_size(void)
{
    STORY("§19.1.9 datatypes by size");
    static const struct {
        int class, size;
    } asked[] = {
        {MPI_TYPECLASS_INTEGER, sizeof(char)},  {MPI_TYPECLASS_INTEGER, sizeof(short)},      {MPI_TYPECLASS_INTEGER, sizeof(int)},
        {MPI_TYPECLASS_INTEGER, sizeof(long)},  {MPI_TYPECLASS_REAL, sizeof(float)},         {MPI_TYPECLASS_REAL, sizeof(double)},
        {MPI_TYPECLASS_REAL, 16},               {MPI_TYPECLASS_COMPLEX, 2 * sizeof(float)},  {MPI_TYPECLASS_COMPLEX, 2 * sizeof(double)},
        {MPI_TYPECLASS_COMPLEX, 32},
    };
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        char sent[32], received[32] = {0};
        int size = 0, combiner = -1, integers, addresses, types;
        MPI_Datatype type = MPI_DATATYPE_NULL;
        CHECK_EQUAL(MPI_Type_match_size(asked[i].class, asked[i].size, &type), MPI_SUCCESS);
        MPI_Type_size(type, &size);
        CHECK_EQUAL(size, asked[i].size);
        MPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner);
        CHECK_EQUAL(combiner, MPI_COMBINER_NAMED);
        memset(sent, 'a' + (int)i, sizeof sent);
        MPI_Sendrecv(sent, 1, type, next, 19, received, 1, type, previous, 19, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK(!memcmp(sent, received, size), "%d bytes of class %d", size, asked[i].class);
    }
    STORY("§19.1.9 numbers that came as datatypes by size are added");
    MPI_Datatype type;
    long double one = 1.5L, sum = 0;
    if (sizeof one == 16) {
        MPI_Type_match_size(MPI_TYPECLASS_REAL, 16, &type);
        if (type == MPI_LONG_DOUBLE) { /* it may be Fortran's REAL*16 */
            MPI_Allreduce(&one, &sum, 1, type, MPI_SUM, MPI_COMM_WORLD);
            CHECK(sum == 1.5L * ranks, "%Lg", sum);
        }
    }
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    CHECK_CLASS(MPI_Type_match_size(MPI_TYPECLASS_REAL, 3, &type), MPI_ERR_ARG);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    next = (rank + 1) % ranks;
    previous = (rank + ranks - 1) % ranks;
    predefined();
    shapes();
    transfers();
    counting();
    gaps_stay();
    several_in_one_pack();
    addresses();
    by_size();
    return end();
}
