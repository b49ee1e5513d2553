/*
 * Section 14.4 of MPI 5.0, collective access to files, whole and split (14.4.5). Passes on any MPI library
 * with any number of ranks.
 */
#include "files.h"

enum { ROOM = 1 << 15 };

/* -- Patterns: which bytes each rank has -- */

enum { INTERLEAVED, BLOCKS, BACKWARDS, ONE_RANK, UNEQUAL, SPARSE, PATTERNS };
static const char *const patterns[] = {"interleaved pieces", "blocks in order", "blocks from the last rank to the first", "one rank alone", "parts of unequal length", "pieces with holes between"};

struct part {
    MPI_Offset displacement;
    MPI_Datatype filetype;
    int piece, stride, pieces; /* bytes */
};

static struct part part_of(int pattern_kind)
{
    struct part part = {0, MPI_DATATYPE_NULL, 64, 64, 1};
    switch (pattern_kind) {
    case INTERLEAVED:
        part = (struct part){64 * rank, MPI_DATATYPE_NULL, 64, 64 * ranks, 50};
        break;
    case BLOCKS:
        part = (struct part){3000 * rank, MPI_DATATYPE_NULL, 3000, 3000, 1};
        break;
    case BACKWARDS:
        part = (struct part){2500 * (ranks - 1 - rank), MPI_DATATYPE_NULL, 2500, 2500, 1};
        break;
    case ONE_RANK:
        part = (struct part){100, MPI_DATATYPE_NULL, 700, 1000, rank == ranks / 2 ? 9 : 0};
        break;
    case UNEQUAL:
        part = (struct part){rank * (rank - 1) / 2 * 700, MPI_DATATYPE_NULL, 700, 700, rank};
        break;
    default:
        part = (struct part){11 + 7 * rank, MPI_DATATYPE_NULL, 7, 11 * ranks + 3, 100};
    }
    MPI_Type_vector(part.pieces > 0 ? part.pieces : 1, part.piece, part.stride, MPI_BYTE, &part.filetype);
    MPI_Type_commit(&part.filetype);
    return part;
}

static size_t place_in(const struct part *part, size_t byte)
{
    size_t piece = (size_t)part->piece;
    return (size_t)part->displacement + byte / piece * (size_t)part->stride + byte % piece;
}

/* -- The ways in which a collective access is made -- */

enum { AT_ALL, ALL, AT_ALL_SPLIT, ALL_SPLIT, LARGE_AT_ALL, LARGE_ALL, LARGE_AT_ALL_SPLIT, LARGE_ALL_SPLIT, WAYS };
static const char *const ways[] = {"at_all", "all", "at_all_begin", "all_begin", "at_all_c", "all_c", "at_all_begin_c", "all_begin_c"};

static void write_by(int way, MPI_File file, const void *bytes, int count, MPI_Datatype type, MPI_Status *status)
{
    switch (way) {
    case AT_ALL:
        WORKS(MPI_File_write_at_all(file, 0, bytes, count, type, status));
        return;
    case ALL:
        WORKS(MPI_File_write_all(file, bytes, count, type, status));
        return;
    case LARGE_AT_ALL:
        WORKS(MPI_File_write_at_all_c(file, 0, bytes, count, type, status));
        return;
    case LARGE_ALL:
        WORKS(MPI_File_write_all_c(file, bytes, count, type, status));
        return;
    case AT_ALL_SPLIT:
        WORKS(MPI_File_write_at_all_begin(file, 0, bytes, count, type));
        break;
    case LARGE_AT_ALL_SPLIT:
        WORKS(MPI_File_write_at_all_begin_c(file, 0, bytes, count, type));
        break;
    case ALL_SPLIT:
        WORKS(MPI_File_write_all_begin(file, bytes, count, type));
        break;
    default:
        WORKS(MPI_File_write_all_begin_c(file, bytes, count, type));
    }
    WORKS(way == AT_ALL_SPLIT || way == LARGE_AT_ALL_SPLIT ? MPI_File_write_at_all_end(file, bytes, status) : MPI_File_write_all_end(file, bytes, status));
}

static void read_by(int way, MPI_File file, void *bytes, int count, MPI_Datatype type, MPI_Status *status)
{
    if (way == ALL || way == LARGE_ALL || way == ALL_SPLIT || way == LARGE_ALL_SPLIT)
        WORKS(MPI_File_seek(file, 0, MPI_SEEK_SET));
    switch (way) {
    case AT_ALL:
        WORKS(MPI_File_read_at_all(file, 0, bytes, count, type, status));
        return;
    case ALL:
        WORKS(MPI_File_read_all(file, bytes, count, type, status));
        return;
    case LARGE_AT_ALL:
        WORKS(MPI_File_read_at_all_c(file, 0, bytes, count, type, status));
        return;
    case LARGE_ALL:
        WORKS(MPI_File_read_all_c(file, bytes, count, type, status));
        return;
    case AT_ALL_SPLIT:
        WORKS(MPI_File_read_at_all_begin(file, 0, bytes, count, type));
        break;
    case LARGE_AT_ALL_SPLIT:
        WORKS(MPI_File_read_at_all_begin_c(file, 0, bytes, count, type));
        break;
    case ALL_SPLIT:
        WORKS(MPI_File_read_all_begin(file, bytes, count, type));
        break;
    default:
        WORKS(MPI_File_read_all_begin_c(file, bytes, count, type));
    }
    WORKS(way == AT_ALL_SPLIT || way == LARGE_AT_ALL_SPLIT ? MPI_File_read_at_all_end(file, bytes, status) : MPI_File_read_all_end(file, bytes, status));
}

/* -- Hints that change how it is done, and must not change what is done -- */

static const char *const hints[][4] = {
    {NULL},
    {"romio_cb_write", "enable", "romio_cb_read", "enable"},
    {"cb_nodes", "1", "cb_buffer_size", "1024"},
    {"romio_cb_write", "disable", "romio_ds_write", "disable"},
    {"romio_ds_write", "enable", "ind_wr_buffer_size", "512"},
    {"collective_buffering", "false", "striping_unit", "4096"},
};
enum { HINTS = sizeof hints / sizeof *hints };

static MPI_Info info_of(int set)
{
    MPI_Info info = MPI_INFO_NULL;
    if (!hints[set][0])
        return info;
    MPI_Info_create(&info);
    MPI_Info_set(info, hints[set][0], hints[set][1]);
    MPI_Info_set(info, hints[set][2], hints[set][3]);
    return info;
}

/* All ranks write their parts into a file that had other bytes, and read them back. */
static void pattern_by(int kind, int way, int set)
{
    static char title[200];
    snprintf(title, sizeof title, "14.4 %s, %s, hint %s", patterns[kind], ways[way], hints[set][0] ? hints[set][0] : "none");
    STORY(title);
    struct part part = part_of(kind);
    size_t length = (size_t)part.piece * (size_t)part.pieces;
    unsigned char *bytes = memory(length), *got = memory(length), *before = memory(ROOM), *found = memory(ROOM), *owner = memory(ROOM), *owners = memory(ROOM);
    MPI_Info info = info_of(set);
    MPI_File file = MPI_FILE_NULL;
    MPI_Status status;
    fill(bytes, length, rank, way + 10 * kind);
    fill(before, ROOM / 4, 77, way);
    for (size_t i = 0; i < length; i++)
        owner[place_in(&part, i)] = (unsigned char)(rank + 1);
    disk_write("pattern", before, ROOM / 4);
    WORKS(MPI_File_open(MPI_COMM_WORLD, path("pattern"), MPI_MODE_RDWR, info, &file));
    WORKS(MPI_File_set_view(file, part.displacement, MPI_BYTE, part.filetype, "native", MPI_INFO_NULL));
    write_by(way, file, bytes, (int)length, MPI_BYTE, &status);
    CHECK_EQUAL(count_of(&status, MPI_BYTE), length);
    int moves = way == ALL || way == LARGE_ALL || way == ALL_SPLIT || way == LARGE_ALL_SPLIT;
    CHECK_EQUAL(position_of(file), moves ? (int)length : 0);
    read_by(way, file, got, (int)length, MPI_BYTE, &status);
    CHECK_EQUAL(count_of(&status, MPI_BYTE), length);
    CHECK_EQUAL(wrong_bytes(got, length, rank, way + 10 * kind), 0);
    WORKS(MPI_File_close(&file));
    if (info != MPI_INFO_NULL)
        MPI_Info_free(&info);
    MPI_Allreduce(owner, owners, ROOM, MPI_UNSIGNED_CHAR, MPI_MAX, MPI_COMM_WORLD);
    size_t had = disk_read("pattern", 0, found, ROOM), wrong = 0, end = ROOM;
    while (end > ROOM / 4 && !owners[end - 1])
        end--;
    CHECK_EQUAL(had, end);
    for (size_t i = 0; i < length; i++)
        wrong += found[place_in(&part, i)] != bytes[i];
    CHECK_EQUAL(wrong, 0);
    for (size_t i = 0; i < end; i++)
        CHECK(owners[i] || found[i] == (i < ROOM / 4 ? before[i] : 0), "byte %zu, which none wrote, is %d", i, found[i]);
    MPI_Type_free(&part.filetype);
    free(bytes);
    free(got);
    free(before);
    free(found);
    free(owner);
    free(owners);
    disk_remove("pattern");
}

static void all_patterns(void)
{
    for (int kind = 0; kind < PATTERNS; kind++)
        for (int way = 0; way < WAYS; way++)
            pattern_by(kind, way, (kind + way) % HINTS);
}

/* -- Memory and file with holes, in several tiles -- */

static void holes_on_both_sides(void)
{
    STORY("14.4 memory with holes goes to a view with holes");
    enum { ROWS = 40, COLUMNS = 12 };
    MPI_Datatype column, type;
    MPI_Status status;
    int matrix[ROWS][COLUMNS], back[ROWS][COLUMNS], *whole = memory(sizeof(int) * ROWS * 3 * (size_t)ranks);
    for (int i = 0; i < ROWS * COLUMNS; i++)
        matrix[i / COLUMNS][i % COLUMNS] = 10000 * rank + i;
    memset(back, -1, sizeof back);
    /* Three columns, from memory with a row of twelve to a file with a row of three for each rank. */
    MPI_Type_vector(ROWS, 3, COLUMNS, MPI_INT, &column);
    MPI_Type_commit(&column);
    MPI_Type_vector(2, 3, 3 * ranks, MPI_INT, &type);
    MPI_Datatype tile;
    MPI_Type_create_resized(type, 0, 2 * 3 * ranks * (MPI_Aint)sizeof(int), &tile);
    MPI_Type_commit(&tile);
    MPI_Type_free(&type);
    MPI_File file = open_new("columns");
    WORKS(MPI_File_set_view(file, 12 * rank, MPI_INT, tile, "native", MPI_INFO_NULL));
    WORKS(MPI_File_write_all(file, &matrix[0][4], 1, column, &status));
    CHECK_EQUAL(count_of(&status, column), 1);
    CHECK_EQUAL(position_of(file), 3 * ROWS);
    WORKS(MPI_File_read_at_all(file, 0, &back[0][7], 1, column, &status));
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        int row = i / COLUMNS, at = i % COLUMNS, expected = at >= 7 && at < 10 ? matrix[row][at - 3] : -1;
        CHECK(back[row][at] == expected, "row %d, column %d is %d, expected %d", row, at, back[row][at], expected);
    }
    WORKS(MPI_File_close(&file));
    MPI_Barrier(MPI_COMM_WORLD);
    disk_read("columns", 0, whole, sizeof(int) * ROWS * 3 * (size_t)ranks);
    for (int i = 0; i < ROWS * 3; i++) {
        int value = whole[(i / 3 * ranks + rank) * 3 + i % 3], expected = matrix[i / 3][4 + i % 3];
        CHECK(value == expected, "row %d: %d, expected %d", i / 3, value, expected);
    }
    free(whole);
    MPI_Type_free(&column);
    MPI_Type_free(&tile);
    disk_remove("columns");
}

static void read_the_same(void)
{
    STORY("14.4 all ranks read the same bytes, and bytes that overlap");
    unsigned char *bytes = memory(5000), *got = memory(5000);
    MPI_Status status;
    fill(bytes, 5000, 3, 3);
    disk_write("same", bytes, 5000);
    MPI_File file = open_in(MPI_COMM_WORLD, "same", MPI_MODE_RDONLY);
    WORKS(MPI_File_read_all(file, got, 5000, MPI_BYTE, &status));
    CHECK_EQUAL(count_of(&status, MPI_BYTE), 5000);
    CHECK(!memcmp(got, bytes, 5000), "other bytes");
    WORKS(MPI_File_read_at_all(file, 100 * rank, got, 3000, MPI_BYTE, &status));
    CHECK(!memcmp(got, bytes + 100 * rank, 3000), "other bytes");
    STORY("14.4 some ranks read behind the end, some before, and some nothing");
    WORKS(MPI_File_read_at_all(file, rank % 3 == 0 ? 4990 : 6000, got, rank % 3 == 2 ? 0 : 20, MPI_BYTE, &status));
    CHECK_EQUAL(count_of(&status, MPI_BYTE), rank % 3 == 0 ? 10 : 0);
    WORKS(MPI_File_close(&file));
    free(bytes);
    free(got);
    disk_remove("same");
}

static void large_pieces(void)
{
    STORY("14.4 several megabytes in pieces of a kilobyte, and a rank that has twice as much");
    int pieces = 1024 * (rank == 0 ? 2 : 1);
    size_t length = 1024 * (size_t)pieces, wrong = 0;
    unsigned char *bytes = memory(length), *got = memory(length);
    MPI_Datatype type, tile;
    MPI_Status status;
    fill(bytes, length, rank, 4);
    MPI_Type_contiguous(1024, MPI_BYTE, &type);
    MPI_Type_create_resized(type, 0, 1024 * ranks, &tile);
    MPI_Type_commit(&tile);
    MPI_Type_free(&type);
    MPI_File file = open_new("large");
    WORKS(MPI_File_set_view(file, 1024 * rank, MPI_BYTE, tile, "native", MPI_INFO_NULL));
    WORKS(MPI_File_write_at_all(file, 0, bytes, (int)length, MPI_BYTE, &status));
    WORKS(MPI_File_read_at_all(file, 0, got, (int)length, MPI_BYTE, &status));
    CHECK_EQUAL(count_of(&status, MPI_BYTE), length);
    CHECK_EQUAL(wrong_bytes(got, length, rank, 4), 0);
    WORKS(MPI_File_close(&file));
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < pieces; i += 37) {
        disk_read("large", 1024LL * ((long long)i * ranks + rank), got, 1024);
        wrong += memcmp(got, bytes + 1024 * (size_t)i, 1024) != 0;
    }
    CHECK_EQUAL(wrong, 0);
    MPI_Type_free(&tile);
    free(bytes);
    free(got);
    disk_remove("large");
}

/* -- 14.4.5 Split collective access -- */

static void split(void)
{
    STORY("14.4.5 the program computes and communicates between begin and end");
    int values[8], got[8], sum = 0;
    MPI_Status status;
    MPI_File file = open_new("split"), other = open_new("other");
    for (int i = 0; i < 8; i++)
        values[i] = 100 * rank + i;
    WORKS(MPI_File_set_view(file, 32 * rank, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    WORKS(MPI_File_set_view(other, 32 * rank, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    WORKS(MPI_File_write_all_begin(file, values, 4, MPI_INT));
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK_EQUAL(sum, ranks * (ranks - 1) / 2);
    STORY("14.4.5 another file has a split access of its own, and this one takes independent accesses");
    WORKS(MPI_File_write_at_all_begin(other, 0, values, 8, MPI_INT));
    WORKS(MPI_File_write_at(file, 4, values + 4, 4, MPI_INT, &status));
    WORKS(MPI_File_write_all_end(file, values, &status));
    CHECK_EQUAL(count_of(&status, MPI_INT), 4);
    CHECK_EQUAL(position_of(file), 4);
    WORKS(MPI_File_write_at_all_end(other, values, MPI_STATUS_IGNORE));
    WORKS(MPI_File_read_at_all_begin(file, 0, got, 8, MPI_INT));
    WORKS(MPI_File_read_at_all_end(file, got, &status));
    CHECK(count_of(&status, MPI_INT) == 8 && !memcmp(got, values, sizeof got), "%d %d", got[0], got[7]);

    STORY("14.4.5 the type of an access may be freed before the end");
    MPI_Datatype pair;
    MPI_Type_contiguous(2, MPI_INT, &pair);
    MPI_Type_commit(&pair);
    memset(got, 0, sizeof got);
    WORKS(MPI_File_read_at_all_begin(other, 0, got, 4, pair));
    MPI_Type_free(&pair);
    WORKS(MPI_File_read_at_all_end(other, got, &status));
    CHECK(!memcmp(got, values, sizeof got), "%d %d", got[0], got[7]);

    STORY("14.4.5 a split read at the end of the file counts what was there");
    WORKS(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    WORKS(MPI_File_seek(file, -3, MPI_SEEK_END));
    WORKS(MPI_File_read_all_begin(file, got, 8, MPI_INT));
    WORKS(MPI_File_read_all_end(file, got, &status));
    CHECK_EQUAL(count_of(&status, MPI_INT), 3);

    STORY("14.4.5 a file has one split access at a time, and ends what it began");
    CHECK(MPI_File_read_all_end(file, got, &status) != MPI_SUCCESS, "an access ended that never began");
    CHECK(MPI_File_write_ordered_end(file, got, &status) != MPI_SUCCESS, "an access ended that never began");
    WORKS(MPI_File_read_at_all_begin(file, 0, got, 1, MPI_INT));
    CHECK(MPI_File_read_at_all_begin(file, 0, values, 1, MPI_INT) != MPI_SUCCESS, "two accesses began");
    CHECK(MPI_File_write_all_begin(file, values, 1, MPI_INT) != MPI_SUCCESS, "two accesses began");
    if (!left_out("other-end"))
        CHECK(MPI_File_write_at_all_end(file, values, &status) != MPI_SUCCESS, "a read ended as a write");
    WORKS(MPI_File_read_at_all_end(file, got, &status));
    CHECK_EQUAL(got[0], 0);
    close_and_remove(&file, "split");
    close_and_remove(&other, "other");
}

static void split_ordered(void)
{
    for (int large = 0; large < 2; large++) {
        STORY(large ? "14.4.5 split ordered access, counts of MPI_Count" : "14.4.5 split ordered access");
        int values[10], got[10], mine = rank % 4, before = 0, total = 0;
        MPI_Status status;
        for (int i = 0; i < ranks; i++) {
            before += i < rank ? i % 4 : 0;
            total += i % 4;
        }
        MPI_File file = open_new("ordered");
        WORKS(MPI_File_set_view(file, 4, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
        for (int turn = 0; turn < 3; turn++) {
            for (int i = 0; i < mine; i++)
                values[i] = 1000 * turn + 10 * rank + i;
            WORKS(large ? MPI_File_write_ordered_begin_c(file, values, mine, MPI_INT) : MPI_File_write_ordered_begin(file, values, mine, MPI_INT));
            WORKS(MPI_File_write_ordered_end(file, values, &status));
            CHECK_EQUAL(count_of(&status, MPI_INT), mine);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        CHECK_EQUAL(shared_position_of(file), 3 * total);
        CHECK_EQUAL(size_of_file(file), total ? 4 + 12 * total : 0);
        MPI_Barrier(MPI_COMM_WORLD);
        WORKS(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
        for (int turn = 0; turn < 3; turn++) {
            memset(got, -1, sizeof got);
            WORKS(large ? MPI_File_read_ordered_begin_c(file, got, mine, MPI_INT) : MPI_File_read_ordered_begin(file, got, mine, MPI_INT));
            WORKS(MPI_File_read_ordered_end(file, got, &status));
            CHECK_EQUAL(count_of(&status, MPI_INT), mine);
            for (int i = 0; i < mine; i++)
                CHECK_EQUAL(got[i], 1000 * turn + 10 * rank + i);
            disk_read("ordered", 4 + 4 * (turn * total + before), got, sizeof(int) * (size_t)mine);
            for (int i = 0; i < mine; i++)
                CHECK_EQUAL(got[i], 1000 * turn + 10 * rank + i);
        }
        close_and_remove(&file, "ordered");
    }
}

/* §14.9.1 Double buffering with split collective access: while one buffer is filled, the other is written. */
static void double_buffering(void)
{
    STORY("14.9.1 double buffering");
    enum { BUFFER = 500, TURNS = 8 };
    static int buffers[2][BUFFER];
    int got[BUFFER];
    MPI_Status status;
    MPI_Datatype block, tile;
    MPI_Type_contiguous(BUFFER, MPI_INT, &block);
    MPI_Type_create_resized(block, 0, BUFFER * (MPI_Aint)sizeof(int) * ranks, &tile);
    MPI_Type_commit(&tile);
    MPI_Type_free(&block);
    MPI_File file = open_new("double");
    WORKS(MPI_File_set_view(file, rank * BUFFER * (MPI_Offset)sizeof(int), MPI_INT, tile, "native", MPI_INFO_NULL));
    for (int turn = 0; turn <= TURNS; turn++) {
        int *now = buffers[turn % 2], *last = buffers[1 - turn % 2];
        for (int i = 0; turn < TURNS && i < BUFFER; i++)
            now[i] = 100000 * turn + 1000 * rank + i;
        if (turn > 0)
            WORKS(MPI_File_write_all_end(file, last, &status));
        if (turn < TURNS)
            WORKS(MPI_File_write_all_begin(file, now, BUFFER, MPI_INT));
    }
    WORKS(MPI_File_close(&file));
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_EQUAL(disk_size("double"), BUFFER * TURNS * ranks * (int)sizeof(int));
    for (int turn = 0; turn < TURNS; turn++) {
        disk_read("double", (long long)(turn * ranks + rank) * (long long)sizeof got, got, sizeof got);
        CHECK(got[0] == 100000 * turn + 1000 * rank && got[BUFFER - 1] == got[0] + BUFFER - 1, "turn %d: %d, %d", turn, got[0], got[BUFFER - 1]);
    }
    MPI_Type_free(&tile);
    disk_remove("double");
}

/* §14.9.2 A subarray as a filetype: a matrix by columns of blocks. */
static void subarray_example(void)
{
    STORY("14.9.2 the subarray filetype");
    int sizes[2] = {100, 0}, part[2] = {100, 25}, starts[2] = {0, 25 * rank};
    float *mine = memory(sizeof(float) * 2500), *row = memory(sizeof(float) * 25 * (size_t)ranks);
    MPI_Datatype filetype;
    MPI_Status status;
    sizes[1] = 25 * ranks;
    MPI_Type_create_subarray(2, sizes, part, starts, MPI_ORDER_C, MPI_FLOAT, &filetype);
    MPI_Type_commit(&filetype);
    for (int i = 0; i < 2500; i++)
        mine[i] = (float)(i / 25 * 25 * ranks + 25 * rank + i % 25);
    MPI_File file = open_new("matrix");
    WORKS(MPI_File_set_view(file, 0, MPI_FLOAT, filetype, "native", MPI_INFO_NULL));
    WORKS(MPI_File_write_all(file, mine, 2500, MPI_FLOAT, &status));
    WORKS(MPI_File_close(&file));
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_EQUAL(disk_size("matrix"), 10000 * ranks);
    for (int i = 0; i < 100; i += 9) {
        disk_read("matrix", 100LL * ranks * i, row, sizeof(float) * 25 * (size_t)ranks);
        for (int k = 0; k < 25 * ranks; k++)
            CHECK(row[k] == (float)(i * 25 * ranks + k), "row %d, column %d is %g", i, k, (double)row[k]);
    }
    MPI_Type_free(&filetype);
    free(mine);
    free(row);
    disk_remove("matrix");
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    open_directory(argc > 1 ? argv[1] : NULL);
    all_patterns();
    holes_on_both_sides();
    read_the_same();
    large_pieces();
    split();
    split_ordered();
    double_buffering();
    subarray_example();
    close_directory();
    return end();
}
