/*
 * The faults that users of other libraries have reported about files, each as a test:
 * `file_faults [--directory D] [--full D] [--large]`. `--full` names a directory on a small file system that
 * the test may fill; `--large` adds writes of two gigabytes. Passes on any MPI library with any number of
 * ranks.
 *
 * Parts can be left out for libraries that are known to do them wrong: "hunted" (opening with MPI_MODE_CREATE
 * while another rank deletes the file), "full-nonblocking" (nonblocking writes where there is no room), and
 * "huge-requests" (nonblocking writes of two gigabytes).
 */
#include "files.h"
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

static uint64_t stream = 1;

static int below(int limit)
{
    uint64_t x = (stream += 0x9e3779b97f4a7c15u);
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return (int)((x ^ x >> 31) % (uint64_t)limit);
}

/* -- Wrong data through views -- */

/* A matrix is written by blocks of a Cartesian grid and read by rows, or the other way round. */
static void grid_and_rows(void)
{
    STORY("blocks of a periodic Cartesian grid, and rows of the same matrix");
    enum { ROWS = 37, COLUMNS = 29 };
    int counts[2] = {0, 0}, periods[2] = {1, 1}, at[2], sizes[2] = {ROWS, COLUMNS}, first[2], length[2], grid_rank;
    MPI_Comm grid;
    MPI_Status status;
    MPI_Datatype blocks, rows;
    MPI_Dims_create(ranks, 2, counts);
    MPI_Cart_create(MPI_COMM_WORLD, 2, counts, periods, 1, &grid);
    MPI_Comm_rank(grid, &grid_rank);
    MPI_Cart_coords(grid, grid_rank, 2, at);
    for (int i = 0; i < 2; i++) {
        first[i] = sizes[i] * at[i] / counts[i];
        length[i] = sizes[i] * (at[i] + 1) / counts[i] - first[i];
    }
    MPI_Type_create_subarray(2, sizes, length, first, MPI_ORDER_C, MPI_DOUBLE, &blocks);
    MPI_Type_commit(&blocks);
    int row = ROWS * rank / ranks, row_count = ROWS * (rank + 1) / ranks - row, part[2] = {row_count, COLUMNS}, start[2] = {row, 0};
    rows = MPI_DOUBLE;
    if (row_count > 0) {
        MPI_Type_create_subarray(2, sizes, part, start, MPI_ORDER_C, MPI_DOUBLE, &rows);
        MPI_Type_commit(&rows);
    }
    double *mine = memory(sizeof(double) * ROWS * COLUMNS);
    for (int turn = 0; turn < 2; turn++) {
        int by_rows = turn == 1, elements = by_rows ? row_count * COLUMNS : length[0] * length[1], wrong = 0;
        for (int i = 0; i < elements; i++)
            mine[i] = by_rows ? row * COLUMNS + i : (first[0] + i / length[1]) * COLUMNS + first[1] + i % length[1];
        disk_remove("grid");
        MPI_File file = open_in(grid, "grid", MPI_MODE_CREATE | MPI_MODE_RDWR);
        WORKS(MPI_File_set_view(file, 13, MPI_DOUBLE, by_rows ? rows : blocks, "native", MPI_INFO_NULL));
        WORKS(MPI_File_write_all(file, mine, elements, MPI_DOUBLE, &status));
        WORKS(MPI_File_sync(file));
        MPI_Barrier(grid);
        WORKS(MPI_File_sync(file));
        WORKS(MPI_File_set_view(file, 13, MPI_DOUBLE, by_rows ? blocks : rows, "native", MPI_INFO_NULL));
        elements = by_rows ? length[0] * length[1] : row_count * COLUMNS;
        WORKS(MPI_File_read_all(file, mine, elements, MPI_DOUBLE, &status));
        CHECK_EQUAL(count_of(&status, MPI_DOUBLE), elements);
        for (int i = 0; i < elements; i++)
            wrong += mine[i] != (by_rows ? (first[0] + i / length[1]) * COLUMNS + first[1] + i % length[1] : row * COLUMNS + i);
        CHECK_EQUAL(wrong, 0);
        WORKS(MPI_File_close(&file));
        MPI_Barrier(MPI_COMM_WORLD);
        CHECK_EQUAL(disk_size("grid"), 13 + (int)sizeof(double) * ROWS * COLUMNS);
    }
    free(mine);
    if (row_count > 0)
        MPI_Type_free(&rows);
    MPI_Type_free(&blocks);
    MPI_Comm_free(&grid);
    disk_remove("grid");
}

/* Every piece of the file belongs to a random rank, or to none. */
static void random_displacements(int collective)
{
    STORY(collective ? "random displacements, written collectively" : "random displacements, written at the same time by each rank");
    enum { PIECES = 400 };
    int *lengths = memory(sizeof(int) * PIECES), *places = memory(sizeof(int) * PIECES), mine = 0, end = 0, total = 0;
    short *owners = memory(sizeof(short) * PIECES * 40);
    for (int i = 0; i < PIECES; i++) {
        int length = 1 + below(39), owner = below(ranks + 1) - 1;
        for (int k = 0; k < length; k++)
            owners[end + k] = (short)owner;
        if (owner == rank) {
            lengths[mine] = length;
            places[mine++] = end;
            total += length;
        }
        end += length;
    }
    unsigned char *bytes = memory((size_t)total), *got = memory((size_t)total), *before = memory((size_t)end), *found = memory((size_t)end);
    MPI_Datatype type;
    MPI_Status status;
    MPI_Type_indexed(mine, lengths, places, MPI_BYTE, &type);
    MPI_Type_commit(&type);
    fill(bytes, (size_t)total, rank, 1);
    fill(before, (size_t)end, 50, 50);
    disk_write("random", before, (size_t)end);
    MPI_File file = open_in(MPI_COMM_WORLD, "random", MPI_MODE_RDWR);
    WORKS(MPI_File_set_view(file, 0, MPI_BYTE, mine > 0 ? type : MPI_BYTE, "native", MPI_INFO_NULL));
    WORKS(collective ? MPI_File_write_all(file, bytes, total, MPI_BYTE, &status) : MPI_File_write(file, bytes, total, MPI_BYTE, &status));
    WORKS(collective ? MPI_File_read_at_all(file, 0, got, total, MPI_BYTE, &status) : MPI_File_read_at(file, 0, got, total, MPI_BYTE, &status));
    CHECK_EQUAL(wrong_bytes(got, (size_t)total, rank, 1), 0);
    WORKS(MPI_File_close(&file));
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_EQUAL(disk_read("random", 0, found, (size_t)end), end);
    int *next = memory(sizeof(int) * (size_t)ranks), wrong = 0;
    for (int i = 0; i < end; i++)
        wrong += found[i] != (owners[i] < 0 ? before[i] : pattern(owners[i], 1, (size_t)next[owners[i]]++));
    CHECK_EQUAL(wrong, 0);
    MPI_Type_free(&type);
    free(lengths);
    free(places);
    free(owners);
    free(bytes);
    free(got);
    free(before);
    free(found);
    free(next);
    disk_remove("random");
}

/* Neighbours write every second byte: a library that reads, changes and writes larger pieces loses bytes
 * unless it locks them. */
static void neighbours(void)
{
    STORY("small pieces between those of other ranks, by independent writes with data sieving");
    enum { COUNT = 3000, TURNS = 5 };
    MPI_Info info;
    MPI_Datatype type, tile;
    MPI_Status status;
    MPI_File file = MPI_FILE_NULL;
    unsigned char *bytes = memory(COUNT), *found = memory(COUNT * (size_t)ranks);
    MPI_Info_create(&info);
    MPI_Info_set(info, "romio_ds_write", "enable");
    MPI_Info_set(info, "ind_wr_buffer_size", "4096");
    MPI_Type_dup(MPI_BYTE, &type);
    MPI_Type_create_resized(type, 0, ranks, &tile);
    MPI_Type_commit(&tile);
    MPI_Type_free(&type);
    disk_remove("neighbours");
    WORKS(MPI_File_open(MPI_COMM_WORLD, path("neighbours"), MPI_MODE_CREATE | MPI_MODE_RDWR, info, &file));
    WORKS(MPI_File_set_view(file, rank, MPI_BYTE, tile, "native", MPI_INFO_NULL));
    for (int turn = 0; turn < TURNS; turn++) {
        size_t wrong = 0;
        fill(bytes, COUNT, rank, turn);
        for (int done = 0; done < COUNT; done += 600)
            WORKS(MPI_File_write_at(file, done, bytes + done, 600, MPI_BYTE, &status));
        WORKS(MPI_File_sync(file));
        MPI_Barrier(MPI_COMM_WORLD);
        disk_read("neighbours", 0, found, COUNT * (size_t)ranks);
        for (int i = 0; i < COUNT * ranks; i++)
            wrong += found[i] != pattern(i % ranks, turn, (size_t)(i / ranks));
        CHECK_EQUAL(wrong, 0);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Info_free(&info);
    MPI_Type_free(&tile);
    free(bytes);
    free(found);
    close_and_remove(&file, "neighbours");
}

/* -- Two gigabytes -- */

static void boundaries(void)
{
    static const long long edges[] = {1LL << 31, 1LL << 32, 1LL << 33};
    STORY("pieces on both sides of 2, 4 and 8 GiB");
    unsigned char bytes[1000], got[1000];
    MPI_Status status;
    MPI_File file = open_new("edge");
    fill(bytes, sizeof bytes, rank, 9);
    for (int i = 0; i < 3; i++) {
        MPI_Offset at = edges[i] - 500 * ranks + 1000 * rank;
        WORKS(MPI_File_write_at(file, at, bytes, 1000, MPI_BYTE, &status));
        WORKS(MPI_File_seek(file, at, MPI_SEEK_SET));
        WORKS(MPI_File_read(file, got, 1000, MPI_BYTE, &status));
        CHECK_EQUAL(position_of(file), at + 1000);
        CHECK_EQUAL(wrong_bytes(got, 1000, rank, 9), 0);
        WORKS(MPI_File_write_at_all(file, at + 2000 * ranks, bytes, 1000, MPI_BYTE, &status));
        WORKS(MPI_File_read_at_all(file, at + 2000 * ranks, got, 1000, MPI_BYTE, &status));
        CHECK_EQUAL(wrong_bytes(got, 1000, rank, 9), 0);
    }
    WORKS(MPI_File_close(&file));
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < 3; i++) {
        CHECK_EQUAL(disk_read("edge", edges[i] - 500 * ranks + 1000 * rank, got, 1000), 1000);
        CHECK_EQUAL(wrong_bytes(got, 1000, rank, 9), 0);
        CHECK_EQUAL(disk_read("edge", edges[i] + 1500 * ranks + 1000 * rank, got, 1000), 1000);
        CHECK_EQUAL(wrong_bytes(got, 1000, rank, 9), 0);
    }
    CHECK_EQUAL(disk_size("edge"), edges[2] + 2500 * ranks);
    disk_remove("edge");
}

/* Linux writes at most 2^31 - 4096 bytes in one call. The memory is zero but for some marks, and takes no
 * room until it is written. */
static void two_gigabytes(void)
{
    static const long long lengths[] = {(1LL << 31) - 4096, (1LL << 31) - 1, 1LL << 31, (1LL << 31) + 4099};
    struct statvfs room;
    if (statvfs(directory, &room) != 0 || (double)room.f_bavail * (double)room.f_frsize < 3.0 * (1LL << 30)) {
        if (rank == 0)
            printf("file_faults: the writes of two gigabytes are left out, %s has no room for them\n", directory);
        return;
    }
    size_t length = ((size_t)1 << 31) + 8192;
    char *bytes = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0), marks[4] = {0};
    CHECK(bytes != MAP_FAILED, "%s", strerror(errno));
    if (bytes == MAP_FAILED)
        return;
    for (int i = 0; i < 6; i++) {
        int by_request = i >= 4;
        if (by_request && left_out("huge-requests"))
            break;
        long long size = by_request ? (i == 4 ? 1LL << 31 : (1LL << 31) + 4096) : lengths[i];
        STORY(by_request ? "iwrite of two gigabytes" : "one write of about two gigabytes");
        alarm((unsigned)time_limit());
        MPI_Status status;
        MPI_Count count = -1;
        MPI_Request request;
        MPI_File file = open_new("huge");
        bytes[0] = 'a';
        bytes[size - 4097] = 'b';
        bytes[size - 4096] = 'c';
        bytes[size - 1] = 'd';
        if (rank == 0) {
            if (i == 4) { /* 2^29 integers */
                WORKS(MPI_File_iwrite(file, bytes, 1 << 29, MPI_INT, &request));
                WORKS(MPI_Wait(&request, &status));
            } else if (i == 5) {
                WORKS(MPI_File_iwrite_at_c(file, 0, bytes, size, MPI_BYTE, &request));
                WORKS(MPI_Wait(&request, &status));
            } else {
                WORKS(MPI_File_write_at_c(file, 0, bytes, size, MPI_BYTE, &status));
            }
            MPI_Get_count_c(&status, i == 4 ? MPI_INT : MPI_BYTE, &count);
            CHECK_EQUAL(count, i == 4 ? 1LL << 29 : size);
            CHECK_EQUAL(disk_size("huge"), size);
            disk_read("huge", 0, marks, 1);
            disk_read("huge", size - 4097, marks + 1, 2);
            disk_read("huge", size - 1, marks + 3, 1);
            CHECK(!memcmp(marks, "abcd", 4), "%d %d %d %d", marks[0], marks[1], marks[2], marks[3]);
        }
        bytes[0] = bytes[size - 4097] = bytes[size - 4096] = bytes[size - 1] = 0;
        close_and_remove(&file, "huge");
    }
    munmap(bytes, length);
}

/* -- Many accesses at once -- */

static void many_requests(void)
{
    STORY("thousands of nonblocking writes at once: none is lost where a queue is full");
    enum { MANY = 3000, BYTES = 24 };
    unsigned char *bytes = memory(MANY * BYTES), *found = memory(MANY * BYTES);
    MPI_Request *requests = memory(sizeof(MPI_Request) * MANY);
    MPI_Status *statuses = memory(sizeof(MPI_Status) * MANY);
    fill(bytes, MANY * BYTES, rank, 2);
    MPI_File file = open_new("many");
    for (int i = 0; i < MANY; i++)
        WORKS(MPI_File_iwrite_at(file, (MPI_Offset)(i * ranks + rank) * BYTES, bytes + i * BYTES, BYTES, MPI_BYTE, &requests[i]));
    WORKS(MPI_Waitall(MANY, requests, statuses));
    for (int i = 0; i < MANY; i++)
        CHECK_EQUAL(count_of(&statuses[i], MPI_BYTE), BYTES);
    for (int i = 0; i < MANY; i++)
        WORKS(MPI_File_iread_at(file, (MPI_Offset)(i * ranks + rank) * BYTES, found + i * BYTES, BYTES, MPI_BYTE, &requests[i]));
    WORKS(MPI_Waitall(MANY, requests, statuses));
    CHECK_EQUAL(wrong_bytes(found, MANY * BYTES, rank, 2), 0);
    WORKS(MPI_File_close(&file));
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_EQUAL(disk_size("many"), MANY * BYTES * ranks);
    size_t wrong = 0;
    unsigned char *whole = memory(MANY * BYTES * (size_t)ranks);
    disk_read("many", 0, whole, MANY * BYTES * (size_t)ranks);
    for (int i = 0; i < MANY; i++)
        wrong += memcmp(whole + (i * ranks + rank) * BYTES, bytes + i * BYTES, BYTES) != 0;
    CHECK_EQUAL(wrong, 0);
    free(bytes);
    free(found);
    free(whole);
    free(requests);
    free(statuses);
    disk_remove("many");
}

/* -- Shared pointers, deleting, directories -- */

static void fresh_shared_pointers(void)
{
    STORY("the shared pointer of a fresh file is zero, also after a file of the same name");
    MPI_Status status;
    for (int turn = 0; turn < 5; turn++) {
        int got[2] = {-1, -1}, value = 100 * turn + rank;
        MPI_File file = open_new("fresh");
        if (turn % 2)
            CHECK_EQUAL(shared_position_of(file), 0);
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == ranks - 1)
            WORKS(MPI_File_write_shared(file, &value, sizeof value, MPI_BYTE, &status));
        MPI_Barrier(MPI_COMM_WORLD);
        WORKS(MPI_File_write_ordered(file, &value, sizeof value, MPI_BYTE, &status));
        WORKS(MPI_File_close(&file));
        MPI_Barrier(MPI_COMM_WORLD);
        CHECK_EQUAL(disk_size("fresh"), (int)sizeof(int) * (ranks + 1));
        disk_read("fresh", 0, got, sizeof(int));
        disk_read("fresh", (long long)sizeof(int) * (rank + 1), got + 1, sizeof(int));
        CHECK(got[0] == 100 * turn + ranks - 1 && got[1] == value, "%d, %d", got[0], got[1]);
        /* The next file has the old bytes every second time. */
        if (turn % 2)
            disk_remove("fresh");
    }
    disk_remove("fresh");
}

static void deleted_while_opening(void)
{
    STORY("files that are deleted on close, opened again at once");
    MPI_Status status;
    for (int turn = 0; turn < 30; turn++) {
        int value = turn + rank;
        MPI_File file = open_in(MPI_COMM_WORLD, "again", MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE);
        CHECK_EQUAL(size_of_file(file), 0);
        MPI_Barrier(MPI_COMM_WORLD);
        WORKS(MPI_File_write_at_all(file, 4 * rank, &value, 4, MPI_BYTE, &status));
        WORKS(MPI_File_close(&file));
    }
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_EQUAL(disk_size("again"), -1);

    STORY("a rank deletes a file while the others open it");
    for (int turn = 0; turn < 50 && !left_out("hunted"); turn++) {
        MPI_File file;
        int code = MPI_SUCCESS, class = -1;
        if (rank == 0)
            code = MPI_File_delete(path("hunted"), MPI_INFO_NULL);
        else
            code = MPI_File_open(MPI_COMM_SELF, path("hunted"), MPI_MODE_WRONLY | (turn % 2 ? MPI_MODE_CREATE : 0), MPI_INFO_NULL, &file);
        if (rank > 0 && code == MPI_SUCCESS)
            WORKS(MPI_File_close(&file));
        MPI_Error_class(code, &class);
        CHECK(class == MPI_SUCCESS || (class == MPI_ERR_NO_SUCH_FILE && (rank == 0 || turn % 2 == 0)), "class %d in turn %d", class, turn);
    }
    disk_remove("hunted");
}

static void directories(void)
{
    STORY("the directory of an open file is removed");
    MPI_Status status;
    MPI_File file, other;
    char got[4] = "";
    if (rank == 0)
        CHECK(mkdir(path("gone"), 0755) == 0, "%s", strerror(errno));
    MPI_Barrier(MPI_COMM_WORLD);
    file = open_in(MPI_COMM_WORLD, "gone/file", MPI_MODE_CREATE | MPI_MODE_RDWR);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        CHECK(unlink(path("gone/file")) == 0 && rmdir(path("gone")) == 0, "%s", strerror(errno));
    MPI_Barrier(MPI_COMM_WORLD);
    WORKS(MPI_File_write_at_all(file, 3 * rank, "abc", 3, MPI_BYTE, &status));
    WORKS(MPI_File_read_at_all(file, 3 * rank, got, 3, MPI_BYTE, &status));
    CHECK(!strcmp(got, "abc"), "%s", got);
    CHECK_CLASS(MPI_File_open(MPI_COMM_WORLD, path("gone/file"), MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &other), MPI_ERR_NO_SUCH_FILE);
    CHECK_CLASS(MPI_File_delete(path("gone/file"), MPI_INFO_NULL), MPI_ERR_NO_SUCH_FILE);
    WORKS(MPI_File_close(&file));

    STORY("another program makes the file shorter");
    file = open_new("shorter");
    WORKS(MPI_File_write_at_all(file, 100 * rank, directory, 100, MPI_BYTE, &status));
    WORKS(MPI_File_sync(file));
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        CHECK(truncate(path("shorter"), 3) == 0, "%s", strerror(errno));
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_EQUAL(size_of_file(file), 3);
    WORKS(MPI_File_read_at(file, 0, got, 4, MPI_BYTE, &status));
    CHECK_EQUAL(count_of(&status, MPI_BYTE), 3);
    close_and_remove(&file, "shorter");
}

/* -- No room -- */

static int is_no_room(int code)
{
    int class = -1;
    MPI_Error_class(code, &class);
    return class == MPI_ERR_NO_SPACE || class == MPI_ERR_QUOTA || class == MPI_ERR_IO;
}

/* Accesses that find no room must say so, each in its way; nothing is written and no success reported. */
static void refused_writes(MPI_File file, MPI_Offset at, int length)
{
    char *bytes = memory((size_t)length);
    MPI_Status status;
    MPI_Request request = MPI_REQUEST_NULL;
    int code = MPI_File_write_at(file, at, bytes, length, MPI_BYTE, &status);
    CHECK(is_no_room(code), "write_at gave code %d", code);
    if (!left_out("full-nonblocking")) {
        code = MPI_File_iwrite_at(file, at, bytes, length, MPI_BYTE, &request);
        if (code == MPI_SUCCESS)
            code = MPI_Wait(&request, &status);
        CHECK(is_no_room(code), "iwrite_at gave code %d", code);
    }
    code = MPI_File_write_at_all(file, at, bytes, length, MPI_BYTE, &status);
    CHECK(is_no_room(code), "write_at_all gave code %d", code);
    code = MPI_File_write_at_all_begin(file, at, bytes, length, MPI_BYTE);
    if (code == MPI_SUCCESS)
        code = MPI_File_write_at_all_end(file, bytes, &status);
    CHECK(is_no_room(code), "write_at_all_begin and its end gave code %d", code);
    /* The file works where there is room. */
    memset(bytes, 'y', 10);
    WORKS(MPI_File_write_at_all(file, 10 * rank, bytes, 10, MPI_BYTE, &status));
    memset(bytes, 0, 10);
    WORKS(MPI_File_read_at_all(file, 10 * rank, bytes, 10, MPI_BYTE, &status));
    CHECK(bytes[0] == 'y' && bytes[9] == 'y', "%d, %d", bytes[0], bytes[9]);
    free(bytes);
}

static void no_room(const char *full)
{
    STORY("files may not be longer than a limit");
    struct rlimit before, limit;
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
    limit = before;
    limit.rlim_cur = 1 << 16;
    MPI_File file = open_new("limit");
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0, "%s", strerror(errno));
    refused_writes(file, (1 << 16) + 5000 * rank, 5000);
    CHECK(MPI_File_set_size(file, 1 << 20) != MPI_SUCCESS, "the file became longer than the limit");
    WORKS(MPI_File_sync(file));
    CHECK(setrlimit(RLIMIT_FSIZE, &before) == 0, "%s", strerror(errno));
    signal(SIGXFSZ, SIG_DFL);
    WORKS(MPI_File_close(&file));
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(disk_size("limit") <= 1 << 16, "%lld bytes", disk_size("limit"));
    disk_remove("limit");

    STORY("a write that the limit cuts: never a false success");
    char *bytes = memory(1 << 16);
    MPI_Status status;
    char name[20];
    snprintf(name, sizeof name, "cut%d", rank);
    file = open_in(MPI_COMM_SELF, name, MPI_MODE_CREATE | MPI_MODE_RDWR);
    signal(SIGXFSZ, SIG_IGN);
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0, "%s", strerror(errno));
    int code = MPI_File_write_at(file, 1000, bytes, 1 << 16, MPI_BYTE, &status);
    CHECK(is_no_room(code), "write_at gave code %d", code);
    CHECK(setrlimit(RLIMIT_FSIZE, &before) == 0, "%s", strerror(errno));
    signal(SIGXFSZ, SIG_DFL);
    WORKS(MPI_File_close(&file));
    unlink(path(name));
    free(bytes);
    MPI_Barrier(MPI_COMM_WORLD);

    if (full) {
        STORY("a file system that is full");
        char kept[sizeof directory];
        memcpy(kept, directory, sizeof kept);
        open_directory(full);
        struct statvfs room;
        CHECK(statvfs(directory, &room) == 0 && room.f_bavail * room.f_frsize < 1 << 28, "%.300s is no small file system", full);
        file = open_new("full");
        WORKS(MPI_File_write_at_all(file, 10 * rank, "0123456789", 10, MPI_BYTE, &status));
        /* Rank 0 fills what is left. */
        static char filling[4096];
        int rest = rank == 0 ? open(path("filling"), O_WRONLY | O_CREAT, 0600) : -1;
        while (rest >= 0 && write(rest, filling, sizeof filling) > 0)
            continue;
        MPI_Barrier(MPI_COMM_WORLD);
        refused_writes(file, 1 << 20, 1 << 16);
        MPI_Barrier(MPI_COMM_WORLD);
        if (rest >= 0)
            close(rest);
        close_and_remove(&file, "full");
        disk_remove("filling");
        close_directory();
        memcpy(directory, kept, sizeof directory);
    }
}

int main(int argc, char **argv)
{
    const char *where = NULL, *full = NULL;
    int large = 0;
    begin(&argc, &argv);
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--directory") && i + 1 < argc)
            where = argv[++i];
        else if (!strcmp(argv[i], "--full") && i + 1 < argc)
            full = argv[++i];
        else if (!strcmp(argv[i], "--large"))
            large = 1;
    }
    open_directory(where);
    grid_and_rows();
    for (int i = 0; i < 4; i++)
        random_displacements(i % 2);
    neighbours();
    boundaries();
    many_requests();
    fresh_shared_pointers();
    deleted_while_opening();
    directories();
    no_room(full);
    if (large)
        two_gigabytes();
    close_directory();
    return end();
}
