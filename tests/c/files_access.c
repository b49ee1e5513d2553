/*
 * Section 14.4 of MPI 5.0, blocking access to files: by explicit offsets, by individual pointers and by
 * shared ones. Passes on any MPI library with any number of ranks.
 */
#include "files.h"

enum { LENGTH = 240 };

static unsigned char bytes[LENGTH];

/* Sync, barrier, sync: what was written before is seen by all ranks afterwards (§14.6.1). Collective. */
static void settle(MPI_File file)
{
    WORKS(MPI_File_sync(file));
    MPI_Barrier(MPI_COMM_WORLD);
    WORKS(MPI_File_sync(file));
}

/* -- 14.4.2 Explicit offsets -- */

static void explicit_offsets(void)
{
    for (int large = 0; large < 2; large++) {
        STORY(large ? "14.4.2 explicit offsets, counts of MPI_Count" : "14.4.2 explicit offsets");
        MPI_Status status;
        MPI_Count count = -1;
        int got[5] = {0}, values[5];
        for (int i = 0; i < 5; i++)
            values[i] = 100 * rank + i + large;
        MPI_File file = open_new("explicit");
        WORKS(MPI_File_set_view(file, 6, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
        WORKS(MPI_File_seek(file, 2, MPI_SEEK_SET));
        WORKS(large ? MPI_File_write_at_c(file, 5 * rank, values, 5, MPI_INT, &status) : MPI_File_write_at(file, 5 * rank, values, 5, MPI_INT, &status));
        CHECK_EQUAL(count_of(&status, MPI_INT), 5);
        MPI_Get_count_c(&status, MPI_INT, &count);
        CHECK_EQUAL(count, 5);
        WORKS(large ? MPI_File_read_at_c(file, 5 * rank + 1, got, 3, MPI_INT, &status) : MPI_File_read_at(file, 5 * rank + 1, got, 3, MPI_INT, &status));
        CHECK_EQUAL(count_of(&status, MPI_INT), 3);
        CHECK(got[0] == values[1] && got[2] == values[3] && got[3] == 0, "%d %d %d %d", got[0], got[1], got[2], got[3]);
        settle(file);
        int next = (rank + 1) % ranks;
        WORKS(large ? MPI_File_read_at_c(file, 5 * next, got, 5, MPI_INT, MPI_STATUS_IGNORE) : MPI_File_read_at(file, 5 * next, got, 5, MPI_INT, MPI_STATUS_IGNORE));
        for (int i = 0; i < 5; i++)
            CHECK_EQUAL(got[i], 100 * next + i + large);
        CHECK_EQUAL(position_of(file), 2); /* offsets move no pointer */
        CHECK_EQUAL(shared_position_of(file), 0);
        WORKS(MPI_File_close(&file));
        MPI_Barrier(MPI_COMM_WORLD);
        disk_read("explicit", 6 + 20 * rank, got, sizeof got);
        CHECK(!memcmp(got, values, sizeof got), "%d %d %d %d %d", got[0], got[1], got[2], got[3], got[4]);
        disk_remove("explicit");
    }
}

/* -- The end of the file -- */

static void short_reads(void)
{
    STORY("14.4.1 reading stops at the end of the file, and the status says where");
    MPI_Status status;
    MPI_Datatype pair, mixed;
    unsigned char got[2 * LENGTH];
    int count = -1, elements = -1;
    MPI_Count large = -1;
    disk_write("short", bytes, LENGTH);
    MPI_File file = open_in(MPI_COMM_WORLD, "short", MPI_MODE_RDONLY);
    static const int starts[] = {0, 1, LENGTH - 7, LENGTH - 1, LENGTH, LENGTH + 1, LENGTH + 1000};
    for (int i = 0; i < 7; i++) {
        int there = starts[i] < LENGTH ? LENGTH - starts[i] : 0;
        WORKS(MPI_File_read_at(file, starts[i], got, 2 * LENGTH, MPI_BYTE, &status));
        CHECK_EQUAL(count_of(&status, MPI_BYTE), there);
        CHECK(!memcmp(got, bytes + LENGTH - there, (size_t)there), "other bytes from %d", starts[i]);
        WORKS(MPI_File_read_at_all(file, starts[i], got, 2 * LENGTH, MPI_BYTE, &status));
        CHECK_EQUAL(count_of(&status, MPI_BYTE), there);
        CHECK(!memcmp(got, bytes + LENGTH - there, (size_t)there), "other bytes from %d", starts[i]);
        WORKS(MPI_File_seek(file, starts[i], MPI_SEEK_SET));
        WORKS(MPI_File_read(file, got, 2 * LENGTH, MPI_BYTE, &status));
        CHECK_EQUAL(count_of(&status, MPI_BYTE), there);
    }

    STORY("14.4.1 the end of the file is in the middle of an item: elements are counted");
    MPI_Type_contiguous(2, MPI_INT, &pair);
    MPI_Type_commit(&pair);
    WORKS(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    WORKS(MPI_File_read_at(file, LENGTH / 4 - 5, got, 10, pair, &status));
    CHECK_EQUAL(count_of(&status, MPI_INT), 5);
    CHECK_EQUAL(count_of(&status, pair), MPI_UNDEFINED);
    MPI_Get_elements(&status, pair, &elements);
    CHECK_EQUAL(elements, 5);
    MPI_Get_elements_c(&status, pair, &large);
    CHECK_EQUAL(large, 5);
    CHECK(!memcmp(got, bytes + LENGTH - 20, 20), "other bytes");
    WORKS(MPI_File_read_at(file, LENGTH / 4 - 4, got, 10, pair, &status));
    CHECK_EQUAL(count_of(&status, pair), 2);

    int ones[] = {1, 1}, with_holes = !left_out("short-with-holes");
    MPI_Aint places[] = {0, 8};
    MPI_Datatype kinds[] = {MPI_DOUBLE, MPI_INT};
    MPI_Type_create_struct(2, ones, places, kinds, &mixed);
    MPI_Type_commit(&mixed);
    WORKS(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    WORKS(MPI_File_read_at(file, LENGTH - 20, got, 4, mixed, &status));
    MPI_Get_elements(&status, mixed, &elements);
    MPI_Get_count(&status, mixed, &count);
    CHECK(!with_holes || (elements == 3 && count == MPI_UNDEFINED), "%d elements, count %d", elements, count);

    STORY("14.4.1 a view whose last tile the file cuts off, and whose hole is the end of the file");
    MPI_Datatype holes;
    MPI_Type_vector(4, 3, 8, MPI_BYTE, &holes);
    MPI_Type_commit(&holes); /* extent 27 */
    static const struct {
        int from_end, offset, expected;
    } cuts[] = {{30, 0, 15}, {30, 4, 11}, {29, 0, 14}, {21, 0, 9}, {21, 9, 0}}; /* thirty: one tile, and three bytes of the next */
    for (int i = 0; with_holes && i < 10; i++) {
        int begin = LENGTH - cuts[i / 2].from_end, offset = cuts[i / 2].offset, expected = cuts[i / 2].expected;
        WORKS(MPI_File_set_view(file, begin, MPI_BYTE, holes, "native", MPI_INFO_NULL));
        WORKS(i % 2 ? MPI_File_read_at_all(file, offset, got, 100, MPI_BYTE, &status) : MPI_File_read_at(file, offset, got, 100, MPI_BYTE, &status));
        CHECK_EQUAL(count_of(&status, MPI_BYTE), expected);
        for (int k = 0; k < expected; k++) {
            int place = begin + (offset + k) / 12 * 27 + (offset + k) % 12 / 3 * 8 + (offset + k) % 3;
            CHECK(got[k] == bytes[place], "byte %d is %d, expected %d", k, got[k], bytes[place]);
        }
    }
    WORKS(MPI_File_close(&file));
    MPI_Type_free(&holes);
    MPI_Type_free(&pair);
    MPI_Type_free(&mixed);
    disk_remove("short");
}

static void nothing(void)
{
    STORY("14.4.1 counts of zero, and items of no bytes");
    MPI_Datatype empty;
    MPI_Status status;
    MPI_Type_contiguous(0, MPI_INT, &empty);
    MPI_Type_commit(&empty);
    MPI_File file = open_new("nothing");
    for (int i = 0; i < 2; i++) {
        int count = i ? 7 : 0;
        MPI_Datatype type = i ? empty : MPI_INT;
        WORKS(MPI_File_write(file, NULL, count, type, &status));
        CHECK_EQUAL(count_of(&status, MPI_INT), 0);
        WORKS(MPI_File_write_at(file, 10, NULL, count, type, &status));
        WORKS(MPI_File_write_all(file, NULL, count, type, &status));
        CHECK_EQUAL(count_of(&status, MPI_INT), 0);
        WORKS(MPI_File_write_at_all(file, 10, NULL, count, type, &status));
        WORKS(MPI_File_write_shared(file, NULL, count, type, &status));
        WORKS(MPI_File_write_ordered(file, NULL, count, type, &status));
        WORKS(MPI_File_read(file, NULL, count, type, &status));
        CHECK_EQUAL(count_of(&status, MPI_INT), 0);
        WORKS(MPI_File_read_all(file, NULL, count, type, &status));
        WORKS(MPI_File_read_shared(file, NULL, count, type, &status));
        WORKS(MPI_File_read_ordered(file, NULL, count, type, &status));
        CHECK_EQUAL(count_of(&status, MPI_INT), 0);
    }
    CHECK_EQUAL(size_of_file(file), 0);
    CHECK_EQUAL(position_of(file), 0);
    CHECK_EQUAL(shared_position_of(file), 0);
    MPI_Type_free(&empty);
    close_and_remove(&file, "nothing");
}

/* -- 14.4.3 Individual pointers -- */

static void individual_pointers(void)
{
    for (int large = 0; large < 2; large++) {
        STORY(large ? "14.4.3 individual pointers, counts of MPI_Count" : "14.4.3 individual pointers");
        MPI_Status status;
        unsigned char got[30];
        MPI_File file = open_new("individual");
        WORKS(MPI_File_seek(file, 30 * rank, MPI_SEEK_SET));
        for (int piece = 1, done = 0; done < 30; done += piece++) {
            piece = piece > 30 - done ? 30 - done : piece;
            WORKS(large ? MPI_File_write_c(file, bytes + done, piece, MPI_BYTE, &status) : MPI_File_write(file, bytes + done, piece, MPI_BYTE, &status));
            CHECK_EQUAL(count_of(&status, MPI_BYTE), piece);
            CHECK_EQUAL(position_of(file), 30 * rank + done + piece);
        }
        WORKS(MPI_File_seek(file, -30, MPI_SEEK_CUR));
        for (int done = 0; done < 30; done += 6) {
            WORKS(large ? MPI_File_read_c(file, got + done, 6, MPI_BYTE, &status) : MPI_File_read(file, got + done, 6, MPI_BYTE, &status));
            CHECK_EQUAL(position_of(file), 30 * rank + done + 6);
        }
        CHECK(!memcmp(got, bytes, 30), "other bytes");
        CHECK_EQUAL(shared_position_of(file), 0);
        WORKS(MPI_File_close(&file));
        MPI_Barrier(MPI_COMM_WORLD);
        CHECK_EQUAL(disk_size("individual"), 30 * ranks);
        disk_read("individual", 30 * rank, got, 30);
        CHECK(!memcmp(got, bytes, 30), "other bytes in the file");
        disk_remove("individual");
    }
}

static void seeks(void)
{
    STORY("14.4.3 seeking, in etypes of the view");
    MPI_Datatype type;
    MPI_Status status;
    disk_write("seek", bytes, LENGTH);
    MPI_File file = open_in(MPI_COMM_WORLD, "seek", MPI_MODE_RDWR);
    WORKS(MPI_File_seek(file, 10, MPI_SEEK_SET));
    WORKS(MPI_File_seek(file, 5 + rank, MPI_SEEK_CUR));
    CHECK_EQUAL(position_of(file), 15 + rank);
    WORKS(MPI_File_seek(file, -15, MPI_SEEK_CUR));
    CHECK_EQUAL(position_of(file), rank);
    WORKS(MPI_File_seek(file, -rank, MPI_SEEK_END));
    CHECK_EQUAL(position_of(file), LENGTH - rank);
    WORKS(MPI_File_seek(file, 1000, MPI_SEEK_END));
    CHECK_EQUAL(position_of(file), LENGTH + 1000);
    CHECK_EQUAL(size_of_file(file), LENGTH);
    WORKS(MPI_File_seek(file, (MPI_Offset)1 << 50, MPI_SEEK_SET));
    CHECK_EQUAL(position_of(file), (MPI_Offset)1 << 50);

    STORY("14.4.3 the end of the file is the first etype that starts behind its last byte");
    /* Tiles of 20 bytes: integers at 0, 4 and 12. */
    int lengths[] = {2, 1}, places[] = {0, 3};
    MPI_Type_indexed(2, lengths, places, MPI_INT, &type);
    MPI_Datatype tile;
    MPI_Type_create_resized(type, 0, 20, &tile);
    MPI_Type_commit(&tile);
    MPI_Type_free(&type);
    WORKS(MPI_File_set_view(file, 3, MPI_INT, tile, "native", MPI_INFO_NULL));
    for (int size = 0; size < 70; size++) {
        int end = 0;
        for (int tiles = 0; tiles < 5; tiles++)
            for (int i = 0; i < 3; i++)
                end += 3 + 20 * tiles + (int[]){0, 4, 12}[i] < size;
        WORKS(MPI_File_set_size(file, size));
        WORKS(MPI_File_seek(file, 0, MPI_SEEK_END));
        /* An etype that the end of the file cuts lies before the end for some libraries only. */
        MPI_Offset found = position_of(file), place = -1;
        WORKS(MPI_File_get_byte_offset(file, found, &place));
        CHECK(found == end || (found == end - 1 && place + 4 > size), "size %d: %lld etypes, expected %d", size, (long long)found, end);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Type_free(&tile);
    WORKS(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));

    STORY("14.4.3 writing behind the end of the file");
    WORKS(MPI_File_set_size(file, 10));
    WORKS(MPI_File_seek(file, 90 + 3 * rank, MPI_SEEK_END));
    MPI_Barrier(MPI_COMM_WORLD);
    WORKS(MPI_File_write(file, bytes, 3, MPI_BYTE, &status));
    settle(file);
    CHECK_EQUAL(size_of_file(file), 100 + 3 * ranks);

    STORY("14.4.3 seeking to what is no place");
    WORKS(MPI_File_seek(file, 4, MPI_SEEK_SET));
    CHECK_CLASS(MPI_File_seek(file, -1, MPI_SEEK_SET), MPI_ERR_ARG);
    CHECK_CLASS(MPI_File_seek(file, -5, MPI_SEEK_CUR), MPI_ERR_ARG);
    CHECK_CLASS(MPI_File_seek(file, -100000, MPI_SEEK_END), MPI_ERR_ARG);
    CHECK_CLASS(MPI_File_seek(file, 0, 12345), MPI_ERR_ARG);
    if (!left_out("shared-nowhere")) {
        CHECK_CLASS(MPI_File_seek_shared(file, -1, MPI_SEEK_SET), MPI_ERR_ARG);
        CHECK_CLASS(MPI_File_seek_shared(file, 0, 12345), MPI_ERR_ARG);
    }
    CHECK_EQUAL(position_of(file), 4);
    CHECK_EQUAL(shared_position_of(file), 0);
    close_and_remove(&file, "seek");
}

/* -- Memory that is not contiguous -- */

static void scattered_memory(void)
{
    STORY("14.4.1 memory with holes, and addresses from MPI_BOTTOM");
    MPI_Datatype column, absolute;
    MPI_Status status;
    int matrix[6][5], back[6][5], flat[6], count = 0;
    for (int i = 0; i < 30; i++)
        matrix[i / 5][i % 5] = 1000 * rank + i;
    MPI_Type_vector(6, 1, 5, MPI_INT, &column);
    MPI_Type_commit(&column);
    MPI_File file = open_new("scattered");
    WORKS(MPI_File_set_view(file, 24 * rank, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    WORKS(MPI_File_write_at(file, 0, &matrix[0][2], 1, column, &status));
    MPI_Get_elements(&status, column, &count);
    CHECK_EQUAL(count, 6);
    CHECK_EQUAL(count_of(&status, column), 1);
    memset(back, -1, sizeof back);
    MPI_Aint address;
    MPI_Get_address(&back[0][1], &address);
    int one = 1;
    MPI_Type_create_hindexed(1, &one, &address, column, &absolute);
    MPI_Type_commit(&absolute);
    WORKS(MPI_File_read_at(file, 0, MPI_BOTTOM, 1, absolute, &status));
    for (int i = 0; i < 30; i++) {
        int value = back[i / 5][i % 5], expected = i % 5 == 1 ? matrix[i / 5][2] : -1;
        CHECK(value == expected, "place %d has %d, expected %d", i, value, expected);
    }
    WORKS(MPI_File_close(&file));
    MPI_Barrier(MPI_COMM_WORLD);
    disk_read("scattered", 24 * rank, flat, sizeof flat);
    for (int i = 0; i < 6; i++)
        CHECK_EQUAL(flat[i], matrix[i][2]);
    MPI_Type_free(&absolute);
    MPI_Type_free(&column);
    disk_remove("scattered");
}

/* -- 14.4.4 Shared pointers -- */

enum { RECORDS = 20 };

struct record {
    int from, number, filler[2];
};

static void check_records(const struct record *records, int count)
{
    int *seen = memory(sizeof(int) * (size_t)ranks * RECORDS);
    for (int i = 0; i < count; i++) {
        const struct record *one = &records[i];
        int is_known = one->from >= 0 && one->from < ranks && one->number >= 0 && one->number < RECORDS;
        CHECK(is_known && one->filler[0] == one->from * one->number && one->filler[1] == ~one->from, "record %d: %d, %d", i, one->from, one->number);
        if (is_known)
            CHECK(seen[one->from * RECORDS + one->number]++ == 0, "record %d of rank %d is there twice", one->number, one->from);
    }
    free(seen);
}

static void shared_pointers(void)
{
    for (int large = 0; large < 2; large++) {
        STORY(large ? "14.4.4 shared pointers, counts of MPI_Count" : "14.4.4 shared pointers");
        MPI_Datatype type;
        MPI_Status status;
        int total = ranks * RECORDS, mine = 0;
        struct record *records = memory(sizeof *records * (size_t)total);
        MPI_Type_contiguous(4, MPI_INT, &type);
        MPI_Type_commit(&type);
        MPI_File file = open_new("shared");
        WORKS(MPI_File_set_view(file, 32, type, type, "native", MPI_INFO_NULL));
        CHECK_EQUAL(shared_position_of(file), 0);
        MPI_Barrier(MPI_COMM_WORLD);
        for (int i = 0; i < RECORDS; i++) {
            struct record one = {rank, i, {rank * i, ~rank}};
            WORKS(large ? MPI_File_write_shared_c(file, &one, 1, type, &status) : MPI_File_write_shared(file, &one, 1, type, &status));
            CHECK_EQUAL(count_of(&status, type), 1);
        }
        settle(file);
        CHECK_EQUAL(shared_position_of(file), total);
        CHECK_EQUAL(position_of(file), 0);
        CHECK_EQUAL(disk_size("shared"), 32 + total * (int)sizeof *records);
        CHECK_EQUAL(disk_read("shared", 32, records, sizeof *records * (size_t)total), sizeof *records * (size_t)total);
        check_records(records, total);
        MPI_Barrier(MPI_COMM_WORLD);

        STORY("14.4.4 all records are read, each by one rank");
        WORKS(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
        CHECK_EQUAL(shared_position_of(file), 0);
        MPI_Barrier(MPI_COMM_WORLD);
        for (int got = 1; got && mine < total; mine += got) {
            int wanted = total - mine < 3 ? total - mine : 3;
            WORKS(large ? MPI_File_read_shared_c(file, records + mine, wanted, type, &status) : MPI_File_read_shared(file, records + mine, wanted, type, &status));
            got = count_of(&status, type);
            if (got < 0)
                break;
        }
        check_records(records, mine);
        int all = 0;
        MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        CHECK_EQUAL(all, total);

        STORY("14.4.4 seeking of the shared pointer");
        WORKS(MPI_File_seek_shared(file, -3, MPI_SEEK_END));
        CHECK_EQUAL(shared_position_of(file), total - 3);
        MPI_Barrier(MPI_COMM_WORLD);
        WORKS(MPI_File_seek_shared(file, 2, MPI_SEEK_CUR));
        CHECK_EQUAL(shared_position_of(file), total - 1);
        MPI_Barrier(MPI_COMM_WORLD);
        if (ranks > 1 && !left_out("unequal-seeks"))
            CHECK_CLASS(MPI_File_seek_shared(file, rank == 0 ? 1 : 2, MPI_SEEK_SET), MPI_ERR_NOT_SAME);
        free(records);
        MPI_Type_free(&type);
        close_and_remove(&file, "shared");
    }
}

static void ordered(void)
{
    for (int large = 0; large < 2; large++) {
        STORY(large ? "14.4.4 ordered access, counts of MPI_Count" : "14.4.4 ordered access: the ranks follow each other");
        MPI_Status status;
        int values[12], got[12], before = 0, total = 0, mine = (rank * 5 + 2) % 7; /* none at some ranks */
        MPI_File file = open_new("ordered");
        WORKS(MPI_File_set_view(file, 8, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
        for (int i = 0; i < ranks; i++) {
            before += i < rank ? (i * 5 + 2) % 7 : 0;
            total += (i * 5 + 2) % 7;
        }
        for (int turn = 0; turn < 3; turn++) {
            for (int i = 0; i < mine; i++)
                values[i] = 10000 * turn + 100 * rank + i;
            WORKS(large ? MPI_File_write_ordered_c(file, values, mine, MPI_INT, &status) : MPI_File_write_ordered(file, values, mine, MPI_INT, &status));
            CHECK_EQUAL(count_of(&status, MPI_INT), mine);
            MPI_Barrier(MPI_COMM_WORLD);
            CHECK_EQUAL(shared_position_of(file), total * (turn + 1));
            MPI_Barrier(MPI_COMM_WORLD);
        }
        settle(file);
        CHECK_EQUAL(disk_size("ordered"), 8 + 4 * total * 3);
        WORKS(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
        for (int turn = 0; turn < 3; turn++) {
            memset(got, -1, sizeof got);
            WORKS(large ? MPI_File_read_ordered_c(file, got, mine, MPI_INT, &status) : MPI_File_read_ordered(file, got, mine, MPI_INT, &status));
            CHECK_EQUAL(count_of(&status, MPI_INT), mine);
            for (int i = 0; i < mine; i++)
                CHECK_EQUAL(got[i], 10000 * turn + 100 * rank + i);
            disk_read("ordered", 8 + 4 * (turn * total + before), got, sizeof(int) * (size_t)mine);
            for (int i = 0; i < mine; i++)
                CHECK_EQUAL(got[i], 10000 * turn + 100 * rank + i);
        }

        STORY("14.4.4 ordered access goes on where independent access has left the shared pointer");
        MPI_Barrier(MPI_COMM_WORLD);
        WORKS(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
        int value = -7;
        if (rank == ranks - 1)
            WORKS(MPI_File_write_shared(file, &value, 1, MPI_INT, &status));
        settle(file);
        WORKS(MPI_File_write_ordered(file, &rank, 1, MPI_INT, &status));
        settle(file);
        WORKS(MPI_File_read_at(file, 1 + rank, got, 1, MPI_INT, &status));
        CHECK_EQUAL(got[0], rank);
        WORKS(MPI_File_read_at(file, 0, got, 1, MPI_INT, &status));
        CHECK_EQUAL(got[0], -7);

        STORY("14.4.4 ordered reads meet the end of the file");
        MPI_Barrier(MPI_COMM_WORLD);
        WORKS(MPI_File_set_size(file, 8 + 4 * (2 * ranks - 1)));
        WORKS(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
        WORKS(MPI_File_read_ordered(file, got, 2, MPI_INT, &status));
        CHECK_EQUAL(count_of(&status, MPI_INT), rank == ranks - 1 ? 1 : 2);
        close_and_remove(&file, "ordered");
    }
}

static void sequential(void)
{
    STORY("14.4.4 sequential files: written and read by shared pointers alone");
    MPI_Status status;
    MPI_File file = open_in(MPI_COMM_WORLD, "sequence", MPI_MODE_CREATE | MPI_MODE_WRONLY | MPI_MODE_SEQUENTIAL);
    struct record one = {rank, 0, {0, ~rank}}, *records = memory(sizeof *records * (size_t)ranks * 2);
    WORKS(MPI_File_write_shared(file, &one, sizeof one, MPI_BYTE, &status));
    settle(file);
    one.number = 1;
    one.filler[0] = rank;
    WORKS(MPI_File_write_ordered(file, &one, sizeof one, MPI_BYTE, &status));
    WORKS(MPI_File_close(&file));
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_EQUAL(disk_size("sequence"), 2 * ranks * (int)sizeof one);
    disk_read("sequence", 0, records, sizeof one * 2 * (size_t)ranks);
    check_records(records, 2 * ranks);
    CHECK(records[ranks + rank].from == rank && records[ranks + rank].number == 1, "record of rank %d", records[ranks + rank].from);
    file = open_in(MPI_COMM_WORLD, "sequence", MPI_MODE_RDONLY | MPI_MODE_SEQUENTIAL);
    WORKS(MPI_File_read_ordered(file, records, sizeof one, MPI_BYTE, &status));
    CHECK_EQUAL(records[0].number, 0);
    WORKS(MPI_File_read_ordered(file, records, sizeof one, MPI_BYTE, &status));
    CHECK(records[0].number == 1 && records[0].from == rank, "record of rank %d", records[0].from);
    WORKS(MPI_File_read_shared(file, records, sizeof one, MPI_BYTE, &status));
    CHECK_EQUAL(count_of(&status, MPI_BYTE), 0);
    WORKS(MPI_File_close(&file));
    free(records);
    disk_remove("sequence");
}

static void mistakes(void)
{
    STORY("14.4 wrong arguments");
    MPI_Status status;
    int value = 0;
    MPI_File file = open_new("mistake");
    WORKS(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    CHECK_CLASS(MPI_File_write_at(file, -1, &value, 1, MPI_INT, &status), MPI_ERR_ARG);
    CHECK_CLASS(MPI_File_read_at(file, -1, &value, 1, MPI_INT, &status), MPI_ERR_ARG);
    CHECK_CLASS(MPI_File_write(file, &value, 1, MPI_DATATYPE_NULL, &status), MPI_ERR_TYPE);
    MPI_Datatype loose;
    MPI_Type_contiguous(2, MPI_INT, &loose);
    CHECK_CLASS(MPI_File_write(file, &value, 1, loose, &status), MPI_ERR_TYPE);
    MPI_Type_free(&loose);
    CHECK_CLASS(MPI_File_write(file, &value, -1, MPI_INT, &status), MPI_ERR_COUNT);
    CHECK_CLASS(MPI_File_read_at_c(file, 0, &value, -1, MPI_INT, &status), MPI_ERR_COUNT);
    CHECK_CLASS(MPI_File_write_shared(file, &value, -1, MPI_INT, &status), MPI_ERR_COUNT);
    /* §14.1.1: etypes are the units of access. */
    CHECK(MPI_File_write_at(file, 0, &value, 3, MPI_BYTE, &status) != MPI_SUCCESS, "three quarters of an etype were written");
    CHECK(MPI_File_read(file, &value, 3, MPI_BYTE, &status) != MPI_SUCCESS, "three quarters of an etype were read");
    CHECK_EQUAL(size_of_file(file), 0);
    CHECK_EQUAL(position_of(file), 0);
    close_and_remove(&file, "mistake");
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    open_directory(argc > 1 ? argv[1] : NULL);
    fill(bytes, LENGTH, 2, 2);
    explicit_offsets();
    short_reads();
    nothing();
    individual_pointers();
    seeks();
    scattered_memory();
    shared_pointers();
    ordered();
    sequential();
    mistakes();
    close_directory();
    return end();
}
