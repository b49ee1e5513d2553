/*
 * Section 14.3 of MPI 5.0, file views. Every view is checked against the bytes that its datatypes touch in
 * memory, and the file is read without MPI. Passes on any MPI library with any number of ranks.
 */
#include "files.h"

enum { ROOM = 1 << 14 };

/* -- A view as a list: where each byte of one tile lies. -- */

struct tile {
    int *places; /* the displacement of each byte of the filetype, in the order of its typemap */
    size_t bytes;
    MPI_Aint extent;
};

/* Finds the displacements by packing a buffer whose bytes hold their own places. */
static struct tile tile_of(MPI_Datatype type)
{
    struct tile tile;
    int size = 0;
    MPI_Aint lb;
    MPI_Type_size(type, &size);
    MPI_Type_get_extent(type, &lb, &tile.extent);
    tile.bytes = (size_t)size;
    tile.places = memory(sizeof(int) * tile.bytes);
    unsigned char *places = memory(ROOM), *packed = memory(tile.bytes);
    for (int half = 0; half < 2; half++) {
        for (int i = 0; i < ROOM; i++)
            places[i] = (unsigned char)(i >> 8 * half);
        int position = 0;
        MPI_Pack(places, 1, type, packed, size, &position, MPI_COMM_SELF);
        CHECK_EQUAL(position, size);
        for (int i = 0; i < size; i++)
            tile.places[i] |= packed[i] << 8 * half;
    }
    free(places);
    free(packed);
    return tile;
}

/* The place in the file of a byte of the view. */
static MPI_Offset place_in(const struct tile *tile, MPI_Offset displacement, size_t byte)
{
    return displacement + (MPI_Offset)(byte / tile->bytes) * tile->extent + tile->places[byte % tile->bytes];
}

enum { WHOLE, PIECES, COLLECTIVE, WAYS, ALL = (1 << WAYS) - 1 };

/* Writes `etypes` of the view in one of these ways. */
static void write_view(MPI_File file, MPI_Datatype etype, const unsigned char *bytes, int etypes, int size, int how)
{
    MPI_Status status;
    if (how == COLLECTIVE) {
        WORKS(MPI_File_write_all(file, bytes, etypes, etype, &status));
        CHECK_EQUAL(count_of(&status, etype), etypes);
    }
    /* Pieces end and begin within tiles. */
    for (int done = 0, piece = 1; how != COLLECTIVE && done < etypes; done += piece, piece = piece * 2 % 13 + 1) {
        if (how == WHOLE || piece > etypes - done)
            piece = etypes - done;
        WORKS(MPI_File_write(file, bytes + done * size, piece, etype, &status));
        CHECK_EQUAL(count_of(&status, etype), piece);
    }
    CHECK_EQUAL(position_of(file), etypes);
}

static void read_view(MPI_File file, MPI_Datatype etype, unsigned char *bytes, int etypes, int size, int how)
{
    MPI_Status status;
    WORKS(MPI_File_seek(file, 0, MPI_SEEK_SET));
    if (how == COLLECTIVE)
        WORKS(MPI_File_read_all(file, bytes, etypes, etype, &status));
    for (int done = 0, piece = 3; how != COLLECTIVE && done < etypes; done += piece, piece = piece * 2 % 11 + 1) {
        if (how == WHOLE || piece > etypes - done)
            piece = etypes - done;
        WORKS(MPI_File_read(file, bytes + done * size, piece, etype, &status));
        CHECK_EQUAL(count_of(&status, etype), piece);
    }
    CHECK_EQUAL(position_of(file), etypes);
}

/* All ranks write `etypes` of their views into a file that had other bytes, in each of the ways of a set. No
 * two ranks may have the same byte in their views. */
static void through(const char *name, MPI_Offset displacement, MPI_Datatype etype, MPI_Datatype filetype, int etypes, int ways)
{
    static char title[160];
    int size = 0;
    MPI_Type_size(etype, &size);
    struct tile tile = tile_of(filetype);
    size_t length = (size_t)etypes * (size_t)size;
    unsigned char *written = memory(length), *got = memory(length), *before = memory(ROOM), *found = memory(ROOM);
    short *mine = memory(ROOM * sizeof(short)), *expected = memory(ROOM * sizeof(short));
    for (int how = 0; how < WAYS; how++) {
        if (!(ways >> how & 1))
            continue;
        snprintf(title, sizeof title, "14.3 %s, %s", name, how == WHOLE ? "at once" : how == PIECES ? "in pieces" : "collectively");
        STORY(title);
        fill(written, length, rank, how);
        fill(before, ROOM, 99, how);
        disk_write("view", before, ROOM / 2); /* what lies behind is new */
        memset(mine, 0, ROOM * sizeof(short));
        for (size_t i = 0; i < length; i++) {
            MPI_Offset place = place_in(&tile, displacement, i);
            if (place < 0 || place >= ROOM) {
                fprintf(stderr, "%s: byte %lld has no room in this program\n", name, (long long)place);
                MPI_Abort(MPI_COMM_WORLD, 3);
            }
            mine[place] = (short)(256 + written[i]);
        }
        MPI_Allreduce(mine, expected, ROOM, MPI_SHORT, MPI_MAX, MPI_COMM_WORLD);
        MPI_File file = open_in(MPI_COMM_WORLD, "view", MPI_MODE_RDWR);
        WORKS(MPI_File_set_view(file, displacement, etype, filetype, "native", MPI_INFO_NULL));
        write_view(file, etype, written, etypes, size, how);
        read_view(file, etype, got, etypes, size, how);
        CHECK_EQUAL(wrong_bytes(got, length, rank, how), 0);
        for (int i = 0; i < etypes; i += 1 + etypes / 50) {
            MPI_Offset place = -1;
            WORKS(MPI_File_get_byte_offset(file, i, &place));
            CHECK_EQUAL(place, place_in(&tile, displacement, (size_t)i * (size_t)size));
        }
        WORKS(MPI_File_close(&file));
        MPI_Barrier(MPI_COMM_WORLD);
        size_t end = ROOM, had = disk_read("view", 0, found, ROOM);
        while (end > ROOM / 2 && !expected[end - 1])
            end--;
        CHECK_EQUAL(had, end);
        for (size_t i = 0; i < end; i++) {
            int value = expected[i] ? expected[i] - 256 : i < ROOM / 2 ? before[i] : 0;
            CHECK(found[i] == value, "byte %zu is %d, expected %d", i, found[i], value);
        }
        disk_remove("view");
    }
    free(tile.places);
    free(written);
    free(got);
    free(before);
    free(found);
    free(mine);
    free(expected);
}

static MPI_Datatype committed(MPI_Datatype type)
{
    MPI_Type_commit(&type);
    return type;
}

/* A type with another extent; the old one is freed. */
static MPI_Datatype resized(MPI_Datatype old, MPI_Aint lb, MPI_Aint extent)
{
    MPI_Datatype type;
    MPI_Type_create_resized(old, lb, extent, &type);
    MPI_Type_free(&old);
    return committed(type);
}

static MPI_Datatype copy_of(MPI_Datatype old)
{
    MPI_Datatype type;
    MPI_Type_dup(old, &type);
    return type;
}

/* -- Datatypes of all constructors -- */

static void constructors(void)
{
    MPI_Datatype type, inner;
    through("bytes one behind the other", 64 * rank, MPI_BYTE, MPI_BYTE, 64, ALL);
    through("integers from a displacement", 7 + 400 * rank, MPI_INT, MPI_INT, 100, ALL);

    type = resized(copy_of(MPI_INT), 0, (MPI_Aint)sizeof(int) * ranks);
    through("single integers in turn", rank * (int)sizeof(int), MPI_INT, type, 300, ALL);
    MPI_Type_free(&type);

    MPI_Type_vector(5, 3, 3 * ranks, MPI_SHORT, &type);
    type = resized(type, 0, 5 * 3 * ranks * (MPI_Aint)sizeof(short));
    through("vectors that lie between each other", rank * 3 * (int)sizeof(short), MPI_SHORT, type, 15 * 20 + 7, ALL);
    MPI_Type_free(&type);

    MPI_Type_contiguous(3, MPI_INT, &inner);
    MPI_Type_commit(&inner);
    MPI_Type_vector(4, 2, 2 * ranks + 1, inner, &type);
    type = resized(type, 0, 4 * (2 * ranks + 1) * 3 * (MPI_Aint)sizeof(int));
    through("an etype of three integers, and a column that none writes", 11 + rank * 24, inner, type, 8 * 5 + 3, ALL);
    MPI_Type_free(&type);
    MPI_Type_free(&inner);

    int lengths[] = {3, 0, 1, 5}, displacements[] = {1, 6, 9, 12};
    MPI_Type_indexed(4, lengths, displacements, MPI_BYTE, &type);
    type = resized(type, 0, 20);
    MPI_Type_contiguous(7, type, &inner); /* seven tiles are one tile */
    MPI_Type_free(&type);
    type = resized(inner, 0, 140 * ranks);
    through("indexed blocks, one of them empty", 140 * rank, MPI_BYTE, type, 9 * 40, ALL);
    MPI_Type_free(&type);

    MPI_Aint bytes[] = {0, 9, 16, 40};
    MPI_Type_create_hindexed_block(4, 1, bytes, MPI_INT, &type);
    type = resized(type, 0, 48 * ranks);
    through("blocks that are aligned to nothing", 3 + 48 * rank, MPI_INT, type, 4 * 30 + 2, ALL);
    MPI_Type_free(&type);

    int ones[] = {1, 2, 3};
    MPI_Aint places[] = {0, 8, 24};
    MPI_Datatype kinds[] = {MPI_CHAR, MPI_DOUBLE, MPI_SHORT};
    MPI_Type_create_struct(3, ones, places, kinds, &inner);
    inner = resized(inner, 0, 32);
    MPI_Type_vector(3, 1, ranks, inner, &type);
    type = resized(type, 0, 3 * 32 * ranks);
    MPI_Type_free(&inner);
    through("structs of several types as bytes", 32 * rank, MPI_BYTE, type, 23 * 30, ALL);
    MPI_Type_free(&type);

    MPI_Type_contiguous(2, MPI_INT, &type);
    MPI_Aint shift[] = {24};
    int one[] = {1};
    MPI_Type_create_hindexed(1, one, shift, type, &inner);
    MPI_Type_free(&type);
    type = resized(inner, 8, 40 * ranks);
    through("a lower bound that is not zero", 40 * rank, MPI_INT, type, 2 * 25 + 1, ALL);
    MPI_Type_free(&type);

    MPI_Type_create_hvector(3, 1, 5, MPI_CHAR, &inner);
    MPI_Type_create_hvector(4, 1, 17 * ranks, inner, &type);
    MPI_Type_free(&inner);
    type = resized(type, 0, 4 * 17 * ranks);
    through("vectors of vectors", 2 + 17 * rank, MPI_CHAR, type, 12 * 11 + 5, ALL);
    MPI_Type_free(&type);
}

/* -- Blocks of arrays: Cartesian grids, subarrays, distributed arrays -- */

/* The part of a dimension of `size` elements that place `at` of `of` has. */
static void part_of(int size, int at, int of, int *first, int *length)
{
    *first = (int)((long)size * at / of);
    *length = (int)((long)size * (at + 1) / of) - *first;
}

static void grids(void)
{
    for (int dimensions = 1; dimensions <= 4; dimensions++)
        for (int order = 0; order < 2; order++) {
            static char title[100];
            int counts[4] = {0, 0, 0, 0}, periods[4] = {1, 0, 1, 0}, coordinates[4], sizes[4] = {11, 9, 7, 6}, first[4], length[4], elements = 1, grid_rank;
            MPI_Comm grid;
            MPI_Datatype type;
            MPI_Dims_create(ranks, dimensions, counts);
            MPI_Cart_create(MPI_COMM_WORLD, dimensions, counts, periods, order, &grid);
            MPI_Comm_rank(grid, &grid_rank);
            MPI_Cart_coords(grid, grid_rank, dimensions, coordinates);
            for (int i = 0; i < dimensions; i++) {
                part_of(sizes[i], coordinates[i], counts[i], &first[i], &length[i]);
                elements *= length[i];
            }
            MPI_Type_create_subarray(dimensions, sizes, length, first, order ? MPI_ORDER_FORTRAN : MPI_ORDER_C, MPI_SHORT, &type);
            MPI_Type_commit(&type);
            snprintf(title, sizeof title, "blocks of a Cartesian grid of %d dimensions, order %d", dimensions, order);
            through(title, 5, MPI_SHORT, type, elements, 1 << (order ? PIECES : COLLECTIVE));
            if (dimensions < 4)
                through("two blocks and a half of a grid", 5, MPI_SHORT, type, 2 * elements + elements / 2, 1 << COLLECTIVE);

            STORY("14.3 a file that a Cartesian communicator opens");
            MPI_Status status;
            short *own = memory(sizeof(short) * (size_t)elements), *all = memory(sizeof(short) * 11 * 9 * 7 * 6);
            for (int i = 0; i < elements; i++)
                own[i] = (short)(1000 * rank + i % 1000);
            MPI_File file = open_in(grid, "grid", MPI_MODE_CREATE | MPI_MODE_RDWR);
            WORKS(MPI_File_set_view(file, 0, MPI_SHORT, type, "native", MPI_INFO_NULL));
            WORKS(MPI_File_write_all(file, own, elements, MPI_SHORT, &status));
            WORKS(MPI_File_close(&file));
            MPI_Barrier(MPI_COMM_WORLD);
            disk_read("grid", 0, all, sizeof(short) * 11 * 9 * 7 * 6);
            int total = 1, wrong = 0;
            for (int i = 0; i < dimensions; i++)
                total *= sizes[i];
            CHECK_EQUAL(disk_size("grid"), total * (int)sizeof(short));
            for (int i = 0; i < elements; i++) {
                int at = 0, rest = i, weight = 1;
                for (int k = 0; k < dimensions; k++) { /* the fastest dimension first */
                    int d = order ? k : dimensions - 1 - k;
                    at += weight * (first[d] + rest % length[d]);
                    rest /= length[d];
                    weight *= sizes[d];
                }
                wrong += all[at] != own[i];
            }
            CHECK_EQUAL(wrong, 0);
            disk_remove("grid");
            free(own);
            free(all);
            MPI_Type_free(&type);
            MPI_Comm_free(&grid);
        }
}

static void distributed_arrays(void)
{
    static const int ways[] = {MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC};
    for (int order = 0; order < 2; order++)
        for (int way = 0; way < 8; way++) {
            static char title[100];
            int counts[3] = {0, 0, 1}, sizes[3] = {10, 12, 3}, distributions[3], arguments[3], size;
            MPI_Datatype type;
            MPI_Dims_create(ranks, 2, counts);
            for (int i = 0; i < 2; i++) {
                int cyclic = way >> i & 1;
                distributions[i] = ways[cyclic];
                arguments[i] = way < 4 ? MPI_DISTRIBUTE_DFLT_DARG : cyclic ? 2 : (sizes[i] + counts[i] - 1) / counts[i] + i;
            }
            distributions[2] = MPI_DISTRIBUTE_NONE;
            arguments[2] = MPI_DISTRIBUTE_DFLT_DARG;
            MPI_Type_create_darray(ranks, rank, 3, sizes, distributions, arguments, counts, order ? MPI_ORDER_FORTRAN : MPI_ORDER_C, MPI_INT, &type);
            MPI_Type_commit(&type);
            MPI_Type_size(type, &size);
            snprintf(title, sizeof title, "distributed arrays, order %d, way %d", order, way);
            through(title, 12, MPI_INT, type, size / (int)sizeof(int), 1 << (order ? COLLECTIVE : PIECES));
            MPI_Type_free(&type);
        }
}

/* -- Places beyond 2 GiB -- */

static void check_integer(const char *name, MPI_Offset place, int expected)
{
    int found = -1;
    CHECK_EQUAL(disk_read(name, place, &found, sizeof found), sizeof found);
    CHECK(found == expected, "%d at %lld, expected %d", found, (long long)place, expected);
}

static void far_places(void)
{
    static const MPI_Offset displacements[] = {(1LL << 31) - 5, 1LL << 31, (1LL << 32) - 2, (1LL << 32) + 3, (1LL << 40) + 1};
    MPI_Status status;
    int values[6], got[6];
    for (int i = 0; i < 6; i++)
        values[i] = 1000 * rank + i;
    for (int i = 0; i < 5; i++) {
        STORY("14.3 displacements beyond 2 GiB");
        MPI_Datatype type = resized(copy_of(MPI_INT), 0, (MPI_Aint)sizeof(int) * ranks);
        MPI_Offset displacement = displacements[i], place = -1, end;
        MPI_File file = open_new("far");
        WORKS(MPI_File_set_view(file, displacement + rank * 4, MPI_INT, type, "native", MPI_INFO_NULL));
        MPI_Type_free(&type);
        WORKS(MPI_File_write_all(file, values, 6, MPI_INT, &status));
        WORKS(MPI_File_get_byte_offset(file, 5, &place));
        CHECK_EQUAL(place, displacement + 4 * rank + 20 * ranks);
        memset(got, 0, sizeof got);
        WORKS(MPI_File_read_at_all(file, 0, got, 6, MPI_INT, &status));
        CHECK(!memcmp(got, values, sizeof got), "%d %d %d %d %d %d", got[0], got[1], got[2], got[3], got[4], got[5]);
        WORKS(MPI_File_seek(file, 0, MPI_SEEK_END));
        end = position_of(file);
        CHECK_EQUAL(end, 6);
        CHECK_EQUAL(size_of_file(file), displacement + 24 * ranks);
        WORKS(MPI_File_close(&file));
        MPI_Barrier(MPI_COMM_WORLD);
        for (int k = 0; k < 6; k++)
            check_integer("far", displacement + 4 * rank + 4 * ranks * k, values[k]);
        disk_remove("far");
    }

    static const MPI_Aint extents[] = {((MPI_Aint)1 << 31) + 8, (MPI_Aint)3 << 30, ((MPI_Aint)1 << 33) + 4};
    for (int i = 0; i < 3; i++) {
        STORY("14.3 tiles of more than 2 GiB");
        MPI_Offset place = -1;
        MPI_Datatype type = resized(copy_of(MPI_INT), 0, extents[i]);
        MPI_File file = open_new("far");
        WORKS(MPI_File_set_view(file, 4 * rank, MPI_INT, type, "native", MPI_INFO_NULL));
        WORKS(MPI_File_write_at(file, 0, values, 2, MPI_INT, &status));
        WORKS(MPI_File_write_at_all(file, 2, values + 2, 3, MPI_INT, &status));
        WORKS(MPI_File_get_byte_offset(file, 4, &place));
        CHECK_EQUAL(place, 4 * rank + 4 * extents[i]);
        memset(got, 0, sizeof got);
        for (int k = 0; k < 5; k++)
            WORKS(MPI_File_read_at(file, k, &got[k], 1, MPI_INT, &status));
        CHECK(!memcmp(got, values, 20), "%d %d %d %d %d", got[0], got[1], got[2], got[3], got[4]);
        WORKS(MPI_File_close(&file));
        MPI_Type_free(&type);
        MPI_Barrier(MPI_COMM_WORLD);
        for (int k = 0; k < 5; k++)
            check_integer("far", 4 * rank + k * extents[i], values[k]);
        disk_remove("far");

        STORY("14.3 strides of more than 2 GiB within a tile");
        MPI_Type_create_hvector(2, 1, extents[i], MPI_INT, &type);
        MPI_Type_commit(&type);
        file = open_new("far");
        WORKS(MPI_File_set_view(file, 4 * rank, MPI_INT, type, "native", MPI_INFO_NULL));
        WORKS(MPI_File_write_at_all(file, 0, values, 2, MPI_INT, &status));
        WORKS(MPI_File_close(&file));
        MPI_Type_free(&type);
        MPI_Barrier(MPI_COMM_WORLD);
        check_integer("far", 4 * rank, values[0]);
        check_integer("far", 4 * rank + extents[i], values[1]);
        disk_remove("far");
    }
}

/* -- Views for reading alone, and views of nothing -- */

static void overlapping(void)
{
    STORY("14.3 a view for reading may show a byte several times");
    unsigned char bytes[300], got[160];
    MPI_Aint places[] = {0, 2, 4, 4};
    MPI_Datatype type;
    MPI_Status status;
    fill(bytes, sizeof bytes, 5, 5);
    disk_write("overlap", bytes, sizeof bytes);
    MPI_Type_create_hindexed_block(4, 4, places, MPI_BYTE, &type);
    type = resized(type, 0, 6); /* the next tile begins within this one */
    MPI_File file = open_in(MPI_COMM_WORLD, "overlap", MPI_MODE_RDONLY);
    WORKS(MPI_File_set_view(file, rank, MPI_BYTE, type, "native", MPI_INFO_NULL));
    for (int all = 0; all < 2; all++) {
        memset(got, 0, sizeof got);
        if (all)
            WORKS(MPI_File_read_at_all(file, 0, got, 160, MPI_BYTE, &status));
        else
            WORKS(MPI_File_read_at(file, 0, got, 160, MPI_BYTE, &status));
        CHECK_EQUAL(count_of(&status, MPI_BYTE), 160);
        for (int i = 0; i < 160; i++) {
            size_t place = (size_t)(rank + i / 16 * 6 + places[i % 16 / 4] + i % 4);
            CHECK(got[i] == bytes[place], "byte %d is %d, expected %d", i, got[i], bytes[place]);
        }
    }
    WORKS(MPI_File_close(&file));

    STORY("14.3 views of all ranks on the same bytes, for reading");
    MPI_Type_free(&type);
    MPI_Type_vector(10, 3, 5, MPI_BYTE, &type);
    MPI_Type_commit(&type);
    file = open_in(MPI_COMM_WORLD, "overlap", MPI_MODE_RDONLY);
    WORKS(MPI_File_set_view(file, rank % 2, MPI_BYTE, type, "native", MPI_INFO_NULL));
    WORKS(MPI_File_read_all(file, got, 30, MPI_BYTE, &status));
    for (int i = 0; i < 30; i++)
        CHECK(got[i] == bytes[rank % 2 + i / 3 * 5 + i % 3], "byte %d is %d", i, got[i]);
    WORKS(MPI_File_close(&file));
    MPI_Type_free(&type);
    disk_remove("overlap");
}

static void empty_types(void)
{
    STORY("14.3 a rank whose filetype is empty takes part in collective calls");
    MPI_Datatype empty, type = resized(copy_of(MPI_INT), 0, (MPI_Aint)sizeof(int) * ranks);
    MPI_Status status;
    int value = 50 + rank, got = -1;
    MPI_Type_contiguous(0, MPI_INT, &empty);
    MPI_Type_commit(&empty);
    int idle = rank % 2 == 1;
    MPI_File file = open_new("empty");
    WORKS(MPI_File_set_view(file, idle ? 0 : rank * 4, MPI_INT, idle ? empty : type, "native", MPI_INFO_NULL));
    WORKS(MPI_File_write_all(file, &value, !idle, MPI_INT, &status));
    CHECK_EQUAL(count_of(&status, MPI_INT), !idle);
    WORKS(MPI_File_read_at_all(file, 0, &got, !idle, MPI_INT, &status));
    CHECK_EQUAL(got, idle ? -1 : value);
    WORKS(MPI_File_close(&file));
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < ranks; i += 2)
        check_integer("empty", 4 * i, 50 + i);
    MPI_Type_free(&empty);
    MPI_Type_free(&type);
    disk_remove("empty");
}

/* -- What a view is asked for -- */

static void queries(void)
{
    STORY("14.3 a file shows its bytes until it gets a view");
    MPI_Offset displacement = -1, place = -1;
    MPI_Datatype etype = MPI_DATATYPE_NULL, filetype = MPI_DATATYPE_NULL, type, small;
    char datarep[MPI_MAX_DATAREP_STRING];
    MPI_Status status;
    MPI_File file = open_new("query");
    WORKS(MPI_File_get_view(file, &displacement, &etype, &filetype, datarep));
    CHECK(displacement == 0 && etype == MPI_BYTE && filetype == MPI_BYTE && !strcmp(datarep, "native"), "displacement %lld, %s", (long long)displacement, datarep);

    STORY("14.3 a view is asked for: predefined types are themselves, others are to be freed");
    int combiner, numbers[3], counts[3];
    MPI_Type_contiguous(2, MPI_INT, &small);
    MPI_Type_commit(&small);
    MPI_Type_vector(2, 1, 3, small, &type);
    MPI_Type_commit(&type);
    WORKS(MPI_File_set_view(file, 12 + rank, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    WORKS(MPI_File_get_view(file, &displacement, &etype, &filetype, datarep));
    CHECK(displacement == 12 + rank && etype == MPI_INT && filetype == MPI_INT, "displacement %lld", (long long)displacement);
    WORKS(MPI_File_set_view(file, 0, small, type, "native", MPI_INFO_NULL));
    MPI_Type_free(&small);
    MPI_Type_free(&type);
    WORKS(MPI_File_get_view(file, &displacement, &etype, &filetype, datarep));
    MPI_Type_size(etype, &counts[0]);
    MPI_Type_size(filetype, &counts[1]);
    CHECK(displacement == 0 && counts[0] == 8 && counts[1] == 16 && !strcmp(datarep, "native"), "sizes %d and %d", counts[0], counts[1]);
    MPI_Type_get_envelope(filetype, &numbers[0], &numbers[1], &numbers[2], &combiner);
    CHECK(combiner != MPI_COMBINER_NAMED, "it is a predefined type");
    MPI_Type_free(&etype);
    MPI_Type_free(&filetype);

    STORY("14.3 the file keeps its types when the program has freed them");
    int values[4] = {1, 2, 3, 4};
    if (rank == 0)
        WORKS(MPI_File_write_at(file, 1, values, 4, MPI_INT, &status));
    WORKS(MPI_File_get_byte_offset(file, 3, &place));
    CHECK_EQUAL(place, 32 + 24);
    WORKS(MPI_File_close(&file));
    MPI_Barrier(MPI_COMM_WORLD);
    check_integer("query", 24, 1);
    check_integer("query", 28, 2);
    check_integer("query", 32, 3);
    check_integer("query", 36, 4);
    disk_remove("query");

    STORY("14.3 a new view sets the pointers to zero");
    file = open_new("query");
    WORKS(MPI_File_seek(file, 10, MPI_SEEK_SET));
    WORKS(MPI_File_seek_shared(file, 20, MPI_SEEK_SET));
    CHECK_EQUAL(position_of(file), 10);
    CHECK_EQUAL(shared_position_of(file), 20);
    WORKS(MPI_File_set_view(file, 5, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    CHECK_EQUAL(position_of(file), 0);
    CHECK_EQUAL(shared_position_of(file), 0);

    STORY("14.3 each call works in the view that was set last");
    int value = 7 + rank;
    WORKS(MPI_File_write_at(file, rank, &value, 1, MPI_INT, &status));
    WORKS(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    value = -1;
    WORKS(MPI_File_read_at(file, 5 + 4 * rank, &value, 4, MPI_BYTE, &status));
    CHECK_EQUAL(value, 7 + rank);
    close_and_remove(&file, "query");
}

static void sequential(void)
{
    STORY("14.3 MPI_DISPLACEMENT_CURRENT goes on where the shared pointer of a sequential file is");
    MPI_Status status;
    MPI_Datatype pair;
    double number = 2.5 + rank;
    int values[2] = {rank, -rank};
    char head = (char)('a' + rank);
    MPI_Type_contiguous(2, MPI_INT, &pair);
    MPI_Type_commit(&pair);
    for (int reading = 0; reading < 2; reading++) {
        MPI_File file = open_in(MPI_COMM_WORLD, "sequence", reading ? MPI_MODE_RDONLY | MPI_MODE_SEQUENTIAL : MPI_MODE_CREATE | MPI_MODE_WRONLY | MPI_MODE_SEQUENTIAL);
        if (reading) {
            number = values[0] = values[1] = head = 0;
            WORKS(MPI_File_read_ordered(file, &head, 1, MPI_CHAR, &status));
        } else {
            WORKS(MPI_File_write_ordered(file, &head, 1, MPI_CHAR, &status));
        }
        WORKS(MPI_File_set_view(file, MPI_DISPLACEMENT_CURRENT, MPI_DOUBLE, MPI_DOUBLE, "native", MPI_INFO_NULL));
        if (reading)
            WORKS(MPI_File_read_ordered(file, &number, 1, MPI_DOUBLE, &status));
        else
            WORKS(MPI_File_write_ordered(file, &number, 1, MPI_DOUBLE, &status));
        WORKS(MPI_File_set_view(file, MPI_DISPLACEMENT_CURRENT, MPI_INT, pair, "native", MPI_INFO_NULL));
        if (reading)
            WORKS(MPI_File_read_ordered(file, values, 2, MPI_INT, &status));
        else
            WORKS(MPI_File_write_ordered(file, values, 2, MPI_INT, &status));
        WORKS(MPI_File_close(&file));
        MPI_Barrier(MPI_COMM_WORLD);
        CHECK_EQUAL(disk_size("sequence"), 17 * ranks);
        check_integer("sequence", 9 * ranks + 8 * rank + 4, -rank);
    }
    CHECK(head == 'a' + rank && number == 2.5 + rank && values[0] == rank && values[1] == -rank, "%d, %g, %d, %d", head, number, values[0], values[1]);
    MPI_Type_free(&pair);
    disk_remove("sequence");
}

static void mistakes(void)
{
    STORY("14.3 views that cannot be");
    MPI_Datatype loose, type;
    MPI_Offset place;
    MPI_File file = open_new("mistake");
    CHECK_CLASS(MPI_File_set_view(file, -5, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL), MPI_ERR_ARG);
    CHECK_CLASS(MPI_File_set_view(file, MPI_DISPLACEMENT_CURRENT, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL), MPI_ERR_ARG);
    if (!left_out("null-types")) {
        CHECK_CLASS(MPI_File_set_view(file, 0, MPI_DATATYPE_NULL, MPI_BYTE, "native", MPI_INFO_NULL), MPI_ERR_TYPE);
        CHECK_CLASS(MPI_File_set_view(file, 0, MPI_BYTE, MPI_DATATYPE_NULL, "native", MPI_INFO_NULL), MPI_ERR_TYPE);
    }
    CHECK_CLASS(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "no such representation", MPI_INFO_NULL), MPI_ERR_UNSUPPORTED_DATAREP);
    MPI_Type_contiguous(3, MPI_INT, &loose);
    CHECK_CLASS(MPI_File_set_view(file, 0, MPI_INT, loose, "native", MPI_INFO_NULL), MPI_ERR_TYPE);
    MPI_Type_free(&loose);
    CHECK_CLASS(MPI_File_get_byte_offset(file, -1, &place), MPI_ERR_ARG);
    MPI_Aint backwards[] = {8, 0}, negative[] = {-4, 4}, same[] = {0, 2};
    CHECK_CLASS(MPI_File_set_view(file, 0, MPI_DOUBLE, MPI_INT, "native", MPI_INFO_NULL), MPI_ERR_ARG);
    MPI_Type_create_hindexed_block(2, 1, backwards, MPI_INT, &type);
    MPI_Type_commit(&type);
    CHECK(MPI_File_set_view(file, 0, MPI_INT, type, "native", MPI_INFO_NULL) != MPI_SUCCESS, "displacements that go back were taken");
    MPI_Type_free(&type);
    MPI_Type_create_hindexed_block(2, 1, negative, MPI_INT, &type);
    MPI_Type_commit(&type);
    CHECK(MPI_File_set_view(file, 0, MPI_INT, type, "native", MPI_INFO_NULL) != MPI_SUCCESS, "a negative displacement was taken");
    MPI_Type_free(&type);
    MPI_Type_create_hindexed_block(2, 1, same, MPI_INT, &type);
    MPI_Type_commit(&type);
    CHECK(MPI_File_set_view(file, 0, MPI_INT, type, "native", MPI_INFO_NULL) != MPI_SUCCESS, "a view for writing that overlaps itself was taken");
    MPI_Type_free(&type);

    STORY("14.3 ranks that disagree about the etype or the representation");
    if (ranks > 1 && !left_out("unequal-views")) {
        CHECK_CLASS(MPI_File_set_view(file, 0, rank == 0 ? MPI_INT : MPI_DOUBLE, rank == 0 ? MPI_INT : MPI_DOUBLE, "native", MPI_INFO_NULL), MPI_ERR_NOT_SAME);
        CHECK_CLASS(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, rank == 0 ? "native" : "external32", MPI_INFO_NULL), MPI_ERR_NOT_SAME);
    }

    STORY("14.3 the file works after all of this");
    int value = 3 * rank, got = -1;
    MPI_Status status;
    WORKS(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    WORKS(MPI_File_write_at_all(file, rank, &value, 1, MPI_INT, &status));
    WORKS(MPI_File_read_at_all(file, rank, &got, 1, MPI_INT, &status));
    CHECK_EQUAL(got, value);
    close_and_remove(&file, "mistake");
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    open_directory(argc > 1 ? argv[1] : NULL);
    constructors();
    grids();
    distributed_arrays();
    far_places();
    overlapping();
    empty_types();
    queries();
    sequential();
    mistakes();
    close_directory();
    return end();
}
