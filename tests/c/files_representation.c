/*
 * Section 14.5 of MPI 5.0, file interoperability: the representations "native", "internal" and "external32",
 * and those that programs register. Passes on any MPI library with any number of ranks.
 */
#include "files.h"

enum { ITEMS = 6, ITEM_MAX = 32 };

/* -- Types, their values, and how external32 has them -- */

enum sort { INTEGER, REAL, OTHER };

struct type {
    const char *name;
    MPI_Datatype type;
    enum sort sort; /* INTEGER and REAL: the bytes of memory in order, the most significant first */
    int parts;      /* a complex number has two */
};

static const struct type *all_types(int *count)
{
    static struct type types[40];
    int i = 0;
#define ADD(name, sort, parts) types[i++] = (struct type){#name, name, sort, parts}
    ADD(MPI_CHAR, INTEGER, 1);
    ADD(MPI_SIGNED_CHAR, INTEGER, 1);
    ADD(MPI_UNSIGNED_CHAR, INTEGER, 1);
    ADD(MPI_BYTE, INTEGER, 1);
    ADD(MPI_SHORT, INTEGER, 1);
    ADD(MPI_UNSIGNED_SHORT, INTEGER, 1);
    ADD(MPI_INT, INTEGER, 1);
    ADD(MPI_UNSIGNED, INTEGER, 1);
    ADD(MPI_LONG_LONG, INTEGER, 1);
    ADD(MPI_UNSIGNED_LONG_LONG, INTEGER, 1);
    ADD(MPI_INT8_T, INTEGER, 1);
    ADD(MPI_INT16_T, INTEGER, 1);
    ADD(MPI_INT32_T, INTEGER, 1);
    ADD(MPI_INT64_T, INTEGER, 1);
    ADD(MPI_UINT8_T, INTEGER, 1);
    ADD(MPI_UINT16_T, INTEGER, 1);
    ADD(MPI_UINT32_T, INTEGER, 1);
    ADD(MPI_UINT64_T, INTEGER, 1);
    ADD(MPI_AINT, INTEGER, 1);
    ADD(MPI_OFFSET, INTEGER, 1);
    ADD(MPI_COUNT, INTEGER, 1);
    ADD(MPI_FLOAT, REAL, 1);
    ADD(MPI_DOUBLE, REAL, 1);
    ADD(MPI_C_FLOAT_COMPLEX, REAL, 2);
    ADD(MPI_C_DOUBLE_COMPLEX, REAL, 2);
    ADD(MPI_C_BOOL, INTEGER, 1);
    if (!left_out("other-sizes")) {
        ADD(MPI_LONG, OTHER, 1);
        ADD(MPI_UNSIGNED_LONG, OTHER, 1);
        ADD(MPI_LONG_DOUBLE, OTHER, 1);
    }
#undef ADD
    *count = i;
    return types;
}

/* Sets the items of a type; each rank has others. */
static void set_items(const struct type *type, unsigned char *items, int size)
{
    memset(items, 0, (size_t)(ITEMS * size));
    for (int i = 0; i < ITEMS; i++) {
        unsigned char *item = items + i * size;
        double number = (i % 2 ? -1 : 1) * (1.5 + rank + 3.25 * i);
        if (type->type == MPI_FLOAT) {
            memcpy(item, &(float){(float)number}, sizeof(float));
        } else if (type->type == MPI_DOUBLE) {
            memcpy(item, &number, sizeof number);
        } else if (type->type == MPI_C_FLOAT_COMPLEX) {
            memcpy(item, (float[]){(float)number, (float)-i}, 2 * sizeof(float));
        } else if (type->type == MPI_C_DOUBLE_COMPLEX) {
            memcpy(item, (double[]){number, -i}, 2 * sizeof(double));
        } else if (type->type == MPI_LONG_DOUBLE) {
            long double value = (long double)number;
            memcpy(item, &value, 10 < size ? 10 : (size_t)size); /* the rest of it is filling on x86 */
        } else if (type->type == MPI_C_BOOL) {
            *item = (unsigned char)(i % 2);
        } else if (type->type == MPI_LONG || type->type == MPI_UNSIGNED_LONG) {
            memcpy(item, &(long){1000003 * (rank + 1) + i}, sizeof(long)); /* fits into four bytes as well */
        } else {
            fill(item, (size_t)size, rank, i);
        }
    }
}

static int is_little_endian(void)
{
    return *(const unsigned char *)&(int){1} == 1;
}

enum { BLOCKING, NONBLOCKING, ORDERED, SPLIT, WAYS };

static void external_type(const struct type *type, int way)
{
    if ((way == NONBLOCKING || way == SPLIT) && left_out("external-nonblocking"))
        way = BLOCKING;
    if (way == ORDERED && left_out("external-ordered"))
        way = BLOCKING;
    static char title[100];
    snprintf(title, sizeof title, "14.5.2 external32 of %s, way %d", type->name, way);
    STORY(title);
    unsigned char items[ITEMS * ITEM_MAX], got[ITEMS * ITEM_MAX], packed[ITEMS * ITEM_MAX], found[ITEMS * ITEM_MAX];
    int size = 0;
    MPI_Aint external = 0, extent = -1, position = 0;
    MPI_Count large = -1;
    MPI_Offset place = -1;
    MPI_Status status;
    MPI_Request request;
    MPI_Type_size(type->type, &size);
    MPI_Pack_external_size("external32", 1, type->type, &external);
    set_items(type, items, size);
    MPI_Pack_external("external32", items, ITEMS, type->type, packed, sizeof packed, &position);
    MPI_File file = open_new("external");
    WORKS(MPI_File_set_view(file, 3, type->type, type->type, "external32", MPI_INFO_NULL));
    WORKS(MPI_File_get_type_extent(file, type->type, &extent));
    CHECK_EQUAL(extent, external);
    WORKS(MPI_File_get_type_extent_c(file, type->type, &large));
    CHECK_EQUAL(large, external);
    WORKS(MPI_File_get_byte_offset(file, 2, &place));
    CHECK_EQUAL(place, 3 + 2 * external);
    memset(got, 0, sizeof got);
    if (way == BLOCKING) {
        WORKS(MPI_File_write_at_all(file, ITEMS * rank, items, ITEMS, type->type, &status));
        CHECK_EQUAL(count_of(&status, type->type), ITEMS);
        WORKS(MPI_File_read_at_all(file, ITEMS * rank, got, ITEMS, type->type, &status));
        CHECK_EQUAL(count_of(&status, type->type), ITEMS);
    } else if (way == NONBLOCKING) {
        WORKS(MPI_File_write_at(file, ITEMS * rank, items, ITEMS, type->type, &status));
        CHECK_EQUAL(count_of(&status, type->type), ITEMS);
        WORKS(MPI_File_iread_at(file, ITEMS * rank, got, ITEMS, type->type, &request));
        WORKS(MPI_Wait(&request, &status));
    } else if (way == ORDERED) {
        WORKS(MPI_File_write_ordered(file, items, ITEMS, type->type, &status));
        MPI_Barrier(MPI_COMM_WORLD);
        WORKS(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
        WORKS(MPI_File_read_ordered(file, got, ITEMS, type->type, &status));
    } else {
        WORKS(MPI_File_seek(file, ITEMS * rank, MPI_SEEK_SET));
        WORKS(MPI_File_iwrite(file, items, ITEMS, type->type, &request));
        WORKS(MPI_Wait(&request, &status));
        WORKS(MPI_File_seek(file, ITEMS * rank, MPI_SEEK_SET));
        WORKS(MPI_File_read_all_begin(file, got, ITEMS, type->type));
        WORKS(MPI_File_read_all_end(file, got, &status));
    }
    CHECK(!memcmp(got, items, (size_t)(ITEMS * size)), "what was read is not what was written");
    WORKS(MPI_File_close(&file));
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_EQUAL(disk_size("external"), 3 + ITEMS * ranks * external);
    disk_read("external", 3 + ITEMS * rank * external, found, (size_t)(ITEMS * external));
    CHECK(!memcmp(found, packed, (size_t)(ITEMS * external)), "the file has other bytes than MPI_Pack_external");
    if (type->sort != OTHER) {
        CHECK_EQUAL(external, size);
        int part = size / type->parts, wrong = 0;
        for (int i = 0; i < ITEMS * size; i++)
            wrong += found[i] != items[is_little_endian() ? i / part * part + part - 1 - i % part : i];
        CHECK_EQUAL(wrong, 0);
    }
    disk_remove("external");
}

static void external32(void)
{
    int count = 0;
    const struct type *types = all_types(&count);
    for (int i = 0; i < count; i++)
        external_type(&types[i], i % WAYS);
    for (int way = 0; way < WAYS; way++) {
        external_type(&types[6], way);  /* MPI_INT */
        external_type(&types[22], way); /* MPI_DOUBLE */
    }
}

/* Numbers whose bytes are known, and not only turned. */
static void known_bytes(void)
{
    STORY("14.5.2 numbers of which the standard knows the bytes");
    static const unsigned char expected[] = {0x01, 0x02, 0x03, 0x04, 0x3f, 0xf8, 0, 0, 0, 0, 0, 0, 0xbf, 0x80, 0, 0, 0xff, 0xfe};
    unsigned char found[sizeof expected];
    int integer = 0x01020304;
    double number = 1.5;
    float small = -1;
    short negative = -2;
    MPI_Status status;
    MPI_File file = open_new("known");
    if (rank == 0) {
        MPI_File own = open_in(MPI_COMM_SELF, "known", MPI_MODE_RDWR);
        WORKS(MPI_File_set_view(own, 0, MPI_INT, MPI_INT, "external32", MPI_INFO_NULL));
        WORKS(MPI_File_write(own, &integer, 1, MPI_INT, &status));
        WORKS(MPI_File_set_view(own, 4, MPI_DOUBLE, MPI_DOUBLE, "external32", MPI_INFO_NULL));
        WORKS(MPI_File_write(own, &number, 1, MPI_DOUBLE, &status));
        WORKS(MPI_File_set_view(own, 12, MPI_FLOAT, MPI_FLOAT, "external32", MPI_INFO_NULL));
        WORKS(MPI_File_write(own, &small, 1, MPI_FLOAT, &status));
        WORKS(MPI_File_set_view(own, 16, MPI_SHORT, MPI_SHORT, "external32", MPI_INFO_NULL));
        WORKS(MPI_File_write(own, &negative, 1, MPI_SHORT, &status));
        WORKS(MPI_File_close(&own));
    }
    WORKS(MPI_File_close(&file));
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_EQUAL(disk_read("known", 0, found, sizeof found), sizeof found);
    for (size_t i = 0; i < sizeof found; i++)
        CHECK(found[i] == expected[i], "byte %zu is %d, expected %d", i, found[i], expected[i]);
    disk_remove("known");
}

/* A view whose tiles have holes, and memory with holes: only the items are turned. */
static void external_views(void)
{
    STORY("14.5.2 a view with holes in external32, from memory with holes");
    double matrix[12][2], back[12][2];
    unsigned char *found = memory(8 * 12 * (size_t)ranks);
    MPI_Datatype column, tile, type;
    MPI_Aint extent = -1;
    MPI_Status status;
    for (int i = 0; i < 24; i++)
        matrix[i / 2][i % 2] = 100 * rank + i + 0.5;
    memset(back, 0, sizeof back);
    MPI_Type_vector(12, 1, 2, MPI_DOUBLE, &column);
    MPI_Type_commit(&column);
    MPI_Type_contiguous(1, MPI_DOUBLE, &type);
    MPI_Type_create_resized(type, 0, 8 * ranks, &tile);
    MPI_Type_commit(&tile);
    MPI_Type_free(&type);
    MPI_File file = open_new("columns");
    WORKS(MPI_File_set_view(file, 8 * rank, MPI_DOUBLE, tile, "external32", MPI_INFO_NULL));
    WORKS(MPI_File_write_all(file, &matrix[0][1], 1, column, &status));
    CHECK_EQUAL(count_of(&status, MPI_DOUBLE), 12);
    WORKS(MPI_File_read_at_all(file, 0, &back[0][0], 1, column, &status));
    for (int i = 0; i < 12; i++)
        CHECK(back[i][0] == matrix[i][1] && back[i][1] == 0, "row %d: %g, %g", i, back[i][0], back[i][1]);
    WORKS(MPI_File_get_type_extent(file, column, &extent));
    CHECK_EQUAL(extent, 23 * 8);
    WORKS(MPI_File_close(&file));
    MPI_Barrier(MPI_COMM_WORLD);
    disk_read("columns", 0, found, 8 * 12 * (size_t)ranks);
    for (int i = 0; i < 12; i++) {
        unsigned char *place = found + 8 * (i * ranks + rank), number[8];
        for (int k = 0; k < 8; k++)
            number[k] = place[is_little_endian() ? 7 - k : k];
        CHECK(!memcmp(number, &matrix[i][1], 8), "row %d has other bytes", i);
    }
    disk_remove("columns");

    STORY("14.5.2 a read in external32 that the end of the file cuts off");
    int got[10] = {0};
    disk_write("cut", "\0\0\0\1\0\0\0\2\0\0\0\3", 12);
    file = open_in(MPI_COMM_WORLD, "cut", MPI_MODE_RDONLY);
    WORKS(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "external32", MPI_INFO_NULL));
    WORKS(MPI_File_read_at(file, 1, got, 10, MPI_INT, &status));
    CHECK_EQUAL(count_of(&status, MPI_INT), 2);
    CHECK(got[0] == 2 && got[1] == 3, "%d %d", got[0], got[1]);
    WORKS(MPI_File_close(&file));
    disk_remove("cut");
    MPI_Type_free(&column);
    MPI_Type_free(&tile);
    free(found);
}

/* -- native and internal -- */

static void others(void)
{
    static const char *const names[] = {"native", "internal"};
    for (int i = 0; i < 2; i++) {
        STORY(i ? "14.5 the representation \"internal\"" : "14.5 the representation \"native\"");
        char name[MPI_MAX_DATAREP_STRING] = "";
        MPI_Offset displacement, place = -1;
        MPI_Datatype etype, filetype;
        MPI_Aint extent = -1;
        MPI_Status status;
        double values[4] = {1.25 * rank, rank, 1e300, -0.5}, got[4] = {0};
        MPI_File file = open_new("others");
        WORKS(MPI_File_set_view(file, 0, MPI_DOUBLE, MPI_DOUBLE, names[i], MPI_INFO_NULL));
        WORKS(MPI_File_get_view(file, &displacement, &etype, &filetype, name));
        CHECK(!strcmp(name, names[i]) || left_out("internal-name"), "%s", name);
        WORKS(MPI_File_get_type_extent(file, MPI_DOUBLE, &extent));
        WORKS(MPI_File_get_byte_offset(file, 3, &place));
        CHECK_EQUAL(place, 3 * extent);
        WORKS(MPI_File_write_at_all(file, 4 * rank, values, 4, MPI_DOUBLE, &status));
        WORKS(MPI_File_sync(file));
        MPI_Barrier(MPI_COMM_WORLD);
        WORKS(MPI_File_sync(file));
        int next = (rank + 1) % ranks;
        WORKS(MPI_File_read_at(file, 4 * next, got, 4, MPI_DOUBLE, &status));
        CHECK(got[0] == 1.25 * next && got[1] == next && got[2] == 1e300 && got[3] == -0.5, "%g %g %g %g", got[0], got[1], got[2], got[3]);
        WORKS(MPI_File_close(&file));
        MPI_Barrier(MPI_COMM_WORLD);
        if (i == 0) {
            CHECK_EQUAL(extent, sizeof(double));
            disk_read("others", 32 * rank, got, sizeof got);
            CHECK(!memcmp(got, values, sizeof got), "other bytes than those of memory");
        }
        disk_remove("others");
    }
}

/* -- 14.5.3 Representations of the program: each integer takes eight bytes, four of them a mark -- */

struct state {
    unsigned key;
    int reads, writes, fails;
};

enum { STRIDE = 2, OF_TILE = 3 }; /* the vector below: three integers, every second one */

/* Where an item of the typemap lies in memory. */
static size_t place_of_item(MPI_Datatype type, MPI_Offset item)
{
    if (type == MPI_INT)
        return (size_t)item;
    return (size_t)(item / OF_TILE * (OF_TILE * STRIDE - 1) + item % OF_TILE * STRIDE);
}

static int read_items(struct state *state, int *user, MPI_Datatype type, MPI_Count count, const unsigned char *bytes, MPI_Offset position)
{
    state->reads++;
    for (MPI_Count i = 0; i < count; i++) {
        const unsigned char *item = bytes + 8 * i;
        unsigned value = (unsigned)item[0] << 24 | (unsigned)item[1] << 16 | (unsigned)item[2] << 8 | item[3];
        CHECK(item[4] == 0xab && item[7] == 0xab, "item %lld has no mark", (long long)i);
        user[place_of_item(type, position + i)] = (int)(value ^ state->key);
    }
    return state->fails ? MPI_ERR_OTHER : MPI_SUCCESS;
}

static int write_items(struct state *state, const int *user, MPI_Datatype type, MPI_Count count, unsigned char *bytes, MPI_Offset position)
{
    state->writes++;
    for (MPI_Count i = 0; i < count; i++) {
        unsigned value = (unsigned)user[place_of_item(type, position + i)] ^ state->key;
        unsigned char item[8] = {(unsigned char)(value >> 24), (unsigned char)(value >> 16), (unsigned char)(value >> 8), (unsigned char)value, 0xab, 0xab, 0xab, 0xab};
        memcpy(bytes + 8 * i, item, 8);
    }
    return state->fails ? MPI_ERR_OTHER : MPI_SUCCESS;
}

static int read_function(void *user, MPI_Datatype type, int count, void *bytes, MPI_Offset position, void *state)
{
    return read_items(state, user, type, count, bytes, position);
}

static int write_function(void *user, MPI_Datatype type, int count, void *bytes, MPI_Offset position, void *state)
{
    return write_items(state, user, type, count, bytes, position);
}

static int read_function_c(void *user, MPI_Datatype type, MPI_Count count, void *bytes, MPI_Offset position, void *state)
{
    return read_items(state, user, type, count, bytes, position);
}

static int write_function_c(void *user, MPI_Datatype type, MPI_Count count, void *bytes, MPI_Offset position, void *state)
{
    return write_items(state, user, type, count, bytes, position);
}

static int extent_function(MPI_Datatype type, MPI_Aint *extent, void *state)
{
    (void)state;
    *extent = type == MPI_INT ? 8 : 1;
    return MPI_SUCCESS;
}

static int native_extent(MPI_Datatype type, MPI_Aint *extent, void *state)
{
    (void)state;
    *extent = type == MPI_INT ? (MPI_Aint)sizeof(int) : 1;
    return MPI_SUCCESS;
}

static void use_registered(const char *name, struct state *state)
{
    enum { COUNT = 30 };
    int values[COUNT], got[COUNT], holes[COUNT * STRIDE], count;
    unsigned char found[8];
    MPI_Aint extent = -1;
    MPI_Offset place = -1;
    MPI_Status status;
    MPI_Request request;
    MPI_Datatype vector;
    MPI_Type_vector(OF_TILE, 1, STRIDE, MPI_INT, &vector);
    MPI_Type_commit(&vector);
    for (int i = 0; i < COUNT; i++)
        values[i] = 1000 * rank + i;
    state->reads = state->writes = 0;
    MPI_File file = open_new("registered");
    WORKS(MPI_File_set_view(file, 16, MPI_INT, MPI_INT, name, MPI_INFO_NULL));
    WORKS(MPI_File_get_type_extent(file, MPI_INT, &extent));
    CHECK_EQUAL(extent, 8);
    WORKS(MPI_File_get_byte_offset(file, 5, &place));
    CHECK_EQUAL(place, 16 + 40);
    WORKS(MPI_File_write_at_all(file, COUNT * rank, values, COUNT, MPI_INT, &status));
    CHECK_EQUAL(count_of(&status, MPI_INT), COUNT);
    CHECK(state->writes > 0, "the conversion function was not called");
    WORKS(MPI_File_read_at_all(file, COUNT * rank, got, COUNT, MPI_INT, &status));
    CHECK_EQUAL(count_of(&status, MPI_INT), COUNT);
    CHECK(!memcmp(got, values, sizeof got), "%d, %d", got[0], got[COUNT - 1]);
    CHECK(state->reads > 0, "the conversion function was not called");

    memset(holes, -1, sizeof holes);
    WORKS(MPI_File_read_at(file, COUNT * rank, holes, COUNT / OF_TILE, vector, &status));
    MPI_Get_elements(&status, vector, &count);
    CHECK_EQUAL(count, COUNT);
    for (int i = 0; i < COUNT; i++)
        CHECK(holes[place_of_item(vector, i)] == values[i], "item %d is %d", i, holes[place_of_item(vector, i)]);
    for (int i = 0; i < COUNT; i++)
        holes[place_of_item(vector, i)] = -values[i];
    WORKS(MPI_File_iwrite_at(file, COUNT * rank, holes, COUNT / OF_TILE, vector, &request));
    WORKS(MPI_Wait(&request, &status));
    WORKS(MPI_File_iread_at(file, COUNT * rank + 7, got, 3, MPI_INT, &request));
    WORKS(MPI_Wait(&request, &status));
    CHECK(got[0] == -values[7] && got[2] == -values[9], "%d, %d", got[0], got[2]);
    WORKS(MPI_File_sync(file));
    MPI_Barrier(MPI_COMM_WORLD);
    WORKS(MPI_File_sync(file));
    CHECK_EQUAL(size_of_file(file), 16 + 8 * COUNT * ranks);
    WORKS(MPI_File_read_at(file, COUNT * ranks - 2, got, 10, MPI_INT, &status));
    CHECK_EQUAL(count_of(&status, MPI_INT), 2);
    disk_read("registered", 16 + 8 * (COUNT * rank + 1), found, 8);
    unsigned value = (unsigned)-values[1] ^ state->key;
    CHECK(found[0] == value >> 24 && found[3] == (unsigned char)value && found[4] == 0xab, "%d %d %d %d", found[0], found[1], found[2], found[3]);

    STORY("14.5.3 a view with holes in a representation of the program");
    MPI_Datatype type, tile;
    MPI_Type_contiguous(2, MPI_INT, &type);
    MPI_Type_vector(2, 1, 2, type, &tile);
    MPI_Type_commit(&tile);
    WORKS(MPI_File_set_view(file, 0, MPI_INT, tile, name, MPI_INFO_NULL)); /* integers 0, 1, 4, 5, and then 6, 7, 10, 11 */
    WORKS(MPI_File_get_byte_offset(file, 2, &place));
    CHECK_EQUAL(place, 32);
    WORKS(MPI_File_get_byte_offset(file, 6, &place));
    CHECK_EQUAL(place, 80);
    MPI_Type_free(&type);
    MPI_Type_free(&tile);

    STORY("14.5.3 a conversion function fails, and so does the access");
    WORKS(MPI_File_set_view(file, 16, MPI_INT, MPI_INT, name, MPI_INFO_NULL));
    state->fails = 1;
    CHECK_CLASS(MPI_File_read_at(file, 0, got, 3, MPI_INT, &status), MPI_ERR_CONVERSION);
    CHECK_CLASS(MPI_File_write_at(file, 0, got, 3, MPI_INT, &status), MPI_ERR_CONVERSION);
    state->fails = 0;
    MPI_Type_free(&vector);
    close_and_remove(&file, "registered");
}

static void registered(void)
{
    static struct state state = {0x5a17c3e9u, 0, 0, 0}, state_c = {0x01020304u, 0, 0, 0};
    STORY("14.5.3 a representation of the program is registered");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    if (left_out("registered"))
        return;
    WORKS(MPI_Register_datarep("weft marked", read_function, write_function, extent_function, &state));
    CHECK_CLASS(MPI_Register_datarep("weft marked", read_function, write_function, extent_function, &state), MPI_ERR_DUP_DATAREP);
    CHECK_CLASS(MPI_Register_datarep("external32", read_function, write_function, extent_function, &state), MPI_ERR_DUP_DATAREP);
    char name[MPI_MAX_DATAREP_STRING + 50];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    CHECK(MPI_Register_datarep(name, read_function, write_function, extent_function, &state) != MPI_SUCCESS, "too long a name was taken");
    use_registered("weft marked", &state);
    STORY("14.5.3 a representation of the program with counts of MPI_Count");
    WORKS(MPI_Register_datarep_c("weft marked c", read_function_c, write_function_c, extent_function, &state_c));
    use_registered("weft marked c", &state_c);

    STORY("14.5.3 MPI_CONVERSION_FN_NULL: the bytes are those of memory");
    int value = 77 + rank, found = 0, got = 0;
    MPI_Status status;
    WORKS(MPI_Register_datarep("weft native", MPI_CONVERSION_FN_NULL, MPI_CONVERSION_FN_NULL, native_extent, NULL));
    MPI_File file = open_new("null");
    WORKS(MPI_File_set_view(file, 4, MPI_INT, MPI_INT, "weft native", MPI_INFO_NULL));
    WORKS(MPI_File_write_at_all(file, rank, &value, 1, MPI_INT, &status));
    WORKS(MPI_File_read_at_all(file, rank, &got, 1, MPI_INT, &status));
    CHECK_EQUAL(got, value);
    WORKS(MPI_File_close(&file));
    MPI_Barrier(MPI_COMM_WORLD);
    disk_read("null", 4 + 4 * rank, &found, sizeof found);
    CHECK_EQUAL(found, value);
    disk_remove("null");
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    open_directory(argc > 1 ? argv[1] : NULL);
    external32();
    known_bytes();
    external_views();
    others();
    registered();
    close_directory();
    return end();
}
