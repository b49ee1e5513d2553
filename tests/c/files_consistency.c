/*
 * Section 14.6 of MPI 5.0, consistency and semantics of files: atomic mode, sync, and the examples of the
 * section. Passes on any MPI library with any number of ranks.
 */
#include "files.h"

enum { TEN = 10 };

static void settle(MPI_File file)
{
    WORKS(MPI_File_sync(file));
    MPI_Barrier(MPI_COMM_WORLD);
    WORKS(MPI_File_sync(file));
}

static void atomicity(void)
{
    STORY("14.6.1 atomic mode is off, until all ranks set it");
    int flag = -1;
    MPI_File file = open_new("atomic");
    WORKS(MPI_File_get_atomicity(file, &flag));
    CHECK_EQUAL(flag, 0);
    for (int i = 0; i < 2; i++) {
        WORKS(MPI_File_set_atomicity(file, i ? 7 : 1));
        WORKS(MPI_File_get_atomicity(file, &flag));
        CHECK(flag != 0, "atomic mode is off");
        WORKS(MPI_File_set_atomicity(file, 0));
        WORKS(MPI_File_get_atomicity(file, &flag));
        CHECK_EQUAL(flag, 0);
    }
    STORY("14.6.1 ranks that set atomic mode differently");
    if (ranks > 1 && !left_out("unequal-atomicity"))
        CHECK_CLASS(MPI_File_set_atomicity(file, rank == 0), MPI_ERR_NOT_SAME);
    WORKS(MPI_File_set_atomicity(file, 1));
    close_and_remove(&file, "atomic");
}

/* §14.6.11, the first example: process 0 writes, process 1 reads, in atomic mode on one handle. */
static void written_then_read(void)
{
    for (int barrier = 0; barrier < 2; barrier++) {
        STORY(barrier ? "14.6.11 atomic write, barrier, read: the new values" : "14.6.11 atomic write and read at once: all old values or all new ones");
        int a[TEN], b[TEN];
        MPI_Status status;
        MPI_File file = open_new("workfile");
        WORKS(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
        memset(a, 0, sizeof a);
        WORKS(MPI_File_write_at_all(file, 0, a, rank == 0 ? TEN : 0, MPI_INT, &status));
        settle(file);
        WORKS(MPI_File_set_atomicity(file, 1));
        for (int i = 0; i < TEN; i++) {
            a[i] = 5;
            b[i] = 5;
        }
        if (rank == 0)
            WORKS(MPI_File_write_at(file, 0, a, TEN, MPI_INT, &status));
        if (barrier)
            MPI_Barrier(MPI_COMM_WORLD);
        if (rank > 0)
            WORKS(MPI_File_read_at(file, 0, b, TEN, MPI_INT, &status));
        for (int i = 0; i < TEN; i++)
            CHECK(b[i] == b[0] && (b[i] == 5 || (b[i] == 0 && !barrier)), "value %d is %d, the first is %d", i, b[i], b[0]);
        close_and_remove(&file, "workfile");
    }

    STORY("14.6.11 write, sync, barrier, sync, read, not in atomic mode");
    int a[TEN], b[TEN];
    MPI_Status status;
    MPI_File file = open_new("workfile");
    WORKS(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    for (int i = 0; i < TEN; i++)
        a[i] = 5;
    if (rank == 0)
        WORKS(MPI_File_write_at(file, 0, a, TEN, MPI_INT, &status));
    settle(file);
    memset(b, 0, sizeof b);
    WORKS(MPI_File_read_at(file, 0, b, TEN, MPI_INT, &status));
    CHECK_EQUAL(count_of(&status, MPI_INT), TEN);
    for (int i = 0; i < TEN; i++)
        CHECK_EQUAL(b[i], 5);
    WORKS(MPI_File_close(&file));

    STORY("14.6.1 two handles of one file: write, sync, barrier, sync, read");
    MPI_File one = open_in(MPI_COMM_SELF, "workfile", MPI_MODE_RDWR), two = open_in(MPI_COMM_WORLD, "workfile", MPI_MODE_RDWR);
    int value = 31 * rank, got = -1, next = (rank + 1) % ranks;
    WORKS(MPI_File_write_at(one, 100 + 4 * rank, &value, 4, MPI_BYTE, &status));
    WORKS(MPI_File_sync(one));
    settle(two);
    WORKS(MPI_File_read_at(two, 100 + 4 * next, &got, 4, MPI_BYTE, &status));
    CHECK_EQUAL(got, 31 * next);
    WORKS(MPI_File_close(&one));
    WORKS(MPI_File_close(&two));

    STORY("14.6.1 write, close, barrier, open, read");
    file = open_in(MPI_COMM_SELF, "workfile", MPI_MODE_WRONLY);
    value = 17 * rank;
    WORKS(MPI_File_write_at(file, 300 + 4 * rank, &value, 4, MPI_BYTE, &status));
    WORKS(MPI_File_close(&file));
    MPI_Barrier(MPI_COMM_WORLD);
    file = open_in(MPI_COMM_SELF, "workfile", MPI_MODE_RDONLY);
    WORKS(MPI_File_read_at(file, 300 + 4 * next, &got, 4, MPI_BYTE, &status));
    CHECK_EQUAL(got, 17 * next);
    WORKS(MPI_File_close(&file));
    disk_remove("workfile");
}

/* Every rank writes all of the range again and again, each time one value. In atomic mode a reader finds the
 * values of one write. */
static void race(const char *name, MPI_Datatype filetype, int count, int collective)
{
    STORY(name);
    enum { TURNS = 20 };
    int *values = memory(sizeof(int) * (size_t)count), *got = memory(sizeof(int) * (size_t)count), mixed = 0;
    MPI_Status status;
    MPI_File file = open_new("race");
    WORKS(MPI_File_set_view(file, 4, MPI_INT, filetype, "native", MPI_INFO_NULL));
    WORKS(MPI_File_set_atomicity(file, 1));
    WORKS(MPI_File_write_at_all(file, 0, values, rank == 0 ? count : 0, MPI_INT, &status));
    MPI_Barrier(MPI_COMM_WORLD);
    for (int turn = 1; turn <= TURNS; turn++) {
        for (int i = 0; i < count; i++)
            values[i] = 1000 * (rank + 1) + turn;
        if (collective)
            WORKS(MPI_File_write_at_all(file, 0, values, count, MPI_INT, &status));
        else
            WORKS(MPI_File_write_at(file, 0, values, count, MPI_INT, &status));
        WORKS(MPI_File_read_at(file, 0, got, count, MPI_INT, &status));
        CHECK_EQUAL(count_of(&status, MPI_INT), count);
        for (int i = 0; i < count; i++)
            mixed += got[i] != got[0];
        int of = got[0] / 1000, number = got[0] % 1000;
        CHECK(of >= 1 && of <= ranks && number >= 1 && number <= TURNS, "%d was never written", got[0]);
        CHECK(of != rank + 1 || number == turn, "turn %d found the value of turn %d", turn, number);
    }
    CHECK(mixed == 0, "%d values are not those of the write to which the first belongs", mixed);
    free(values);
    free(got);
    close_and_remove(&file, "race");
}

static void races(void)
{
    MPI_Datatype holes, tile;
    race("14.6.1 atomic writes of one range by all ranks", MPI_INT, 2000, 0);
    MPI_Type_vector(100, 3, 7, MPI_INT, &holes);
    MPI_Type_create_resized(holes, 0, 700 * (MPI_Aint)sizeof(int), &tile);
    MPI_Type_commit(&tile);
    MPI_Type_free(&holes);
    race("14.6.1 atomic writes of a range with holes by all ranks", tile, 900, 0);
    race("14.6.1 atomic collective writes of one range by all ranks", MPI_INT, 2000, 1);
    MPI_Type_free(&tile);
}

/* §14.6.1: one process sees its own accesses in their order, without any sync. */
static void own_order(void)
{
    STORY("14.6.1 a rank reads what it has written itself");
    int value, got;
    MPI_Status status;
    MPI_Request request;
    MPI_File file = open_new("order");
    WORKS(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    for (int i = 0; i < 50; i++) {
        value = 100 * rank + i;
        if (i % 3 == 0) {
            WORKS(MPI_File_write_at(file, rank, &value, 1, MPI_INT, &status));
        } else if (i % 3 == 1) {
            WORKS(MPI_File_iwrite_at(file, rank, &value, 1, MPI_INT, &request));
            WORKS(MPI_Wait(&request, &status));
        } else {
            WORKS(MPI_File_write_at_all(file, rank, &value, 1, MPI_INT, &status));
        }
        got = -1;
        WORKS(i % 2 ? MPI_File_read_at(file, rank, &got, 1, MPI_INT, &status) : MPI_File_read_at_all(file, rank, &got, 1, MPI_INT, &status));
        CHECK_EQUAL(got, value);
    }

    STORY("14.6.11 an access that began must end before another one may need its bytes");
    int a = 4 + rank, b = -1;
    WORKS(MPI_File_set_atomicity(file, 1));
    WORKS(MPI_File_iwrite_at(file, 10 + rank, &a, 1, MPI_INT, &request));
    WORKS(MPI_Wait(&request, &status));
    WORKS(MPI_File_iread_at(file, 10 + rank, &b, 1, MPI_INT, &request));
    WORKS(MPI_Wait(&request, &status));
    CHECK_EQUAL(b, a);
    close_and_remove(&file, "order");
}

static void sizes_and_syncs(void)
{
    STORY("14.6.10 the size that a write makes is seen by all ranks after a sync");
    MPI_Status status;
    MPI_File file = open_new("size");
    for (int turn = 1; turn <= 5; turn++) {
        if (rank == turn % ranks)
            WORKS(MPI_File_write_at(file, 1000 * turn - 1, "x", 1, MPI_CHAR, &status));
        settle(file);
        CHECK_EQUAL(size_of_file(file), 1000 * turn);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    WORKS(MPI_File_set_size(file, 10));
    CHECK_EQUAL(size_of_file(file), 10);

    STORY("14.6.1 sync of a file with nothing to write, also of one for reading");
    settle(file);
    WORKS(MPI_File_close(&file));
    file = open_in(MPI_COMM_WORLD, "size", MPI_MODE_RDONLY);
    if (!left_out("read-only-sync"))
        settle(file);
    close_and_remove(&file, "size");

    STORY("14.6.4 collective calls for several files, and of other kinds between them");
    enum { FILES = 3 };
    MPI_File files[FILES];
    char name[20];
    int got = -1;
    for (int i = 0; i < FILES; i++) {
        snprintf(name, sizeof name, "several%d", i);
        files[i] = open_new(name);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    for (int i = 0; i < FILES; i++) {
        int value = 10 * i + rank;
        WORKS(MPI_File_write_at_all(files[i], 4 * rank, &value, 4, MPI_BYTE, &status));
        MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
        CHECK_EQUAL(value, 10 * i + ranks - 1);
    }
    for (int i = FILES - 1; i >= 0; i--) {
        WORKS(MPI_File_read_at_all(files[i], 4 * rank, &got, 4, MPI_BYTE, &status));
        CHECK_EQUAL(got, 10 * i + rank);
        snprintf(name, sizeof name, "several%d", i);
        close_and_remove(&files[i], name);
    }
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    open_directory(argc > 1 ? argv[1] : NULL);
    atomicity();
    written_then_read();
    races();
    own_order();
    sizes_and_syncs();
    close_directory();
    return end();
}
