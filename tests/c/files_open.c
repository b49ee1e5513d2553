/*
 * Section 14.2 of MPI 5.0, file manipulation: opening, closing, deleting, sizes, groups and info objects of
 * files. Passes on any MPI library with any number of ranks.
 */
#include "files.h"

enum { LENGTH = 100 };

static unsigned char bytes[LENGTH];

/* -- 14.2.1 Opening -- */

static const int flags[] = {MPI_MODE_CREATE, MPI_MODE_EXCL, MPI_MODE_DELETE_ON_CLOSE, MPI_MODE_UNIQUE_OPEN, MPI_MODE_SEQUENTIAL, MPI_MODE_APPEND};
enum { FLAGS = sizeof flags / sizeof *flags };

/* Opens a file in this mode; there was one before, unless the mode makes it alone. */
static void open_as(int amode)
{
    static char title[100];
    snprintf(title, sizeof title, "14.2.1 a file is opened in mode %d", amode);
    STORY(title);
    MPI_File file = MPI_FILE_NULL;
    int found = -1;
    if (!(amode & MPI_MODE_EXCL))
        disk_write("mode", bytes, LENGTH);
    WORKS(MPI_File_open(MPI_COMM_WORLD, path("mode"), amode, MPI_INFO_NULL, &file));
    WORKS(MPI_File_get_amode(file, &found));
    CHECK_EQUAL(found, amode);
    if (!(amode & MPI_MODE_SEQUENTIAL)) {
        CHECK_EQUAL(size_of_file(file), amode & MPI_MODE_EXCL ? 0 : LENGTH);
        CHECK_EQUAL(position_of(file), amode & MPI_MODE_APPEND && !(amode & MPI_MODE_EXCL) ? LENGTH : 0);
    }
    WORKS(MPI_File_close(&file));
    CHECK(file == MPI_FILE_NULL, "not null after MPI_File_close");
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_EQUAL(disk_size("mode"), amode & MPI_MODE_DELETE_ON_CLOSE ? -1 : amode & MPI_MODE_EXCL ? 0 : LENGTH);
    disk_remove("mode");
}

static void modes(void)
{
    static const int accesses[] = {MPI_MODE_RDONLY, MPI_MODE_WRONLY, MPI_MODE_RDWR};
    for (int access = 0; access < 3; access++)
        for (int set = 0; set < 1 << FLAGS; set++) {
            int amode = accesses[access];
            for (int i = 0; i < FLAGS; i++)
                amode |= set >> i & 1 ? flags[i] : 0;
            if ((amode & MPI_MODE_RDONLY && amode & (MPI_MODE_CREATE | MPI_MODE_EXCL)) || (amode & MPI_MODE_RDWR && amode & MPI_MODE_SEQUENTIAL))
                continue;
            if (amode & MPI_MODE_EXCL && !(amode & MPI_MODE_CREATE))
                continue; /* the standard gives it no meaning */
            open_as(amode);
        }

    STORY("14.2.1 modes that contradict themselves");
    static const int wrong[] = {0, MPI_MODE_CREATE, MPI_MODE_RDONLY | MPI_MODE_WRONLY, MPI_MODE_RDONLY | MPI_MODE_RDWR, MPI_MODE_WRONLY | MPI_MODE_RDWR,
                                MPI_MODE_RDONLY | MPI_MODE_CREATE, MPI_MODE_RDONLY | MPI_MODE_EXCL, MPI_MODE_RDWR | MPI_MODE_SEQUENTIAL};
    MPI_File file;
    disk_write("mode", bytes, LENGTH);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        CHECK_CLASS(MPI_File_open(MPI_COMM_WORLD, path("mode"), wrong[i], MPI_INFO_NULL, &file), MPI_ERR_AMODE);
    CHECK_EQUAL(disk_size("mode"), LENGTH);
    disk_remove("mode");

    STORY("14.2.1 modes that differ between the ranks");
    if (ranks > 1) {
        int amode = rank == ranks - 1 ? MPI_MODE_WRONLY : MPI_MODE_RDWR;
        disk_write("mode", bytes, LENGTH);
        CHECK_CLASS(MPI_File_open(MPI_COMM_WORLD, path("mode"), amode, MPI_INFO_NULL, &file), MPI_ERR_NOT_SAME);
        disk_remove("mode");
    }
}

static void existing_and_missing(void)
{
    STORY("14.2.1 a file that is not there is opened without MPI_MODE_CREATE");
    MPI_File file;
    int accesses[] = {MPI_MODE_RDONLY, MPI_MODE_WRONLY, MPI_MODE_RDWR, MPI_MODE_RDWR | MPI_MODE_APPEND, MPI_MODE_RDONLY | MPI_MODE_DELETE_ON_CLOSE};
    for (int i = 0; i < 5; i++) {
        CHECK_CLASS(MPI_File_open(MPI_COMM_WORLD, path("missing"), accesses[i], MPI_INFO_NULL, &file), MPI_ERR_NO_SUCH_FILE);
        MPI_Barrier(MPI_COMM_WORLD);
        CHECK_EQUAL(disk_size("missing"), -1);
    }
    CHECK_CLASS(MPI_File_open(MPI_COMM_WORLD, path("no/such/directory"), MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file), MPI_ERR_NO_SUCH_FILE);

    STORY("14.2.1 a file that is there is opened with MPI_MODE_EXCL, and stays as it is");
    unsigned char found[LENGTH];
    disk_write("there", bytes, LENGTH);
    for (int delete = 0; delete < 2; delete++) {
        int amode = MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_RDWR | (delete ? MPI_MODE_DELETE_ON_CLOSE : 0);
        CHECK_CLASS(MPI_File_open(MPI_COMM_WORLD, path("there"), amode, MPI_INFO_NULL, &file), MPI_ERR_FILE_EXISTS);
        CHECK_EQUAL(disk_read("there", 0, found, LENGTH), LENGTH);
        CHECK(!memcmp(found, bytes, LENGTH), "the bytes have changed");
    }

    STORY("14.2.1 a file that is there is opened with MPI_MODE_CREATE, and keeps its bytes");
    file = open_in(MPI_COMM_WORLD, "there", MPI_MODE_CREATE | MPI_MODE_RDWR);
    WORKS(MPI_File_close(&file));
    CHECK_EQUAL(disk_read("there", 0, found, LENGTH), LENGTH);
    CHECK(!memcmp(found, bytes, LENGTH), "the bytes have changed");

    STORY("14.2.1 appending: all pointers start at the end, and writing by offset does not go there");
    MPI_Status status;
    file = open_in(MPI_COMM_WORLD, "there", MPI_MODE_RDWR | MPI_MODE_APPEND);
    CHECK_EQUAL(position_of(file), LENGTH);
    CHECK_EQUAL(shared_position_of(file), LENGTH);
    WORKS(MPI_File_seek(file, rank * 3, MPI_SEEK_CUR));
    WORKS(MPI_File_write(file, bytes, 3, MPI_BYTE, &status));
    WORKS(MPI_File_write_at(file, 10 + rank, "x", 1, MPI_CHAR, &status));
    WORKS(MPI_File_close(&file));
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_EQUAL(disk_size("there"), LENGTH + 3 * ranks);
    CHECK_EQUAL(disk_read("there", 10 + rank, found, 1), 1);
    CHECK_EQUAL(found[0], 'x');
    disk_read("there", LENGTH + 3 * rank, found, 3);
    CHECK(!memcmp(found, bytes, 3), "%d %d %d", found[0], found[1], found[2]);
    disk_remove("there");

    STORY("14.2.1 names that are no names of files");
    static char long_name[6000];
    memset(long_name, 'n', sizeof long_name - 1);
    CHECK_CLASS(MPI_File_open(MPI_COMM_WORLD, long_name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file), MPI_ERR_BAD_FILE);
    long_name[300] = '\0'; /* longer than the part of a path may be */
    CHECK_CLASS(MPI_File_open(MPI_COMM_WORLD, path(long_name), MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file), MPI_ERR_BAD_FILE);
    int code = MPI_File_open(MPI_COMM_WORLD, directory, MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    CHECK(code != MPI_SUCCESS, "a directory was opened for writing");
    disk_write("there", bytes, LENGTH);
    code = MPI_File_open(MPI_COMM_WORLD, path("there/below"), MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    CHECK(code != MPI_SUCCESS, "a file was opened below a file");
    disk_remove("there");

    STORY("14.2.1 names with blanks and letters of other alphabets, and the longest name");
    const char *names[] = {"a b  c", "\xc3\xa4\xce\xb2\xd0\xb6", "-n", "100%s", long_name};
    long_name[255] = '\0';
    for (int i = 0; i < 5; i++) {
        file = open_in(MPI_COMM_WORLD, names[i], MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_WRONLY);
        WORKS(MPI_File_close(&file));
        MPI_Barrier(MPI_COMM_WORLD);
        CHECK_EQUAL(disk_size(names[i]), 0);
        disk_remove(names[i]);
    }
}

/* A file that the user may not open. Root may open all, so its ranks are nobody for that time. */
static void permissions(void)
{
    STORY("14.8 files without permission");
    MPI_File file;
    uid_t user = geteuid();
    disk_write("forbidden", bytes, LENGTH);
    disk_write("readable", bytes, LENGTH);
    if (rank == 0)
        CHECK(chmod(path("forbidden"), 0) == 0 && chmod(path("readable"), 0444) == 0 && chmod(directory, 0555) == 0, "%s", strerror(errno));
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(user != 0 || seteuid(65534) == 0, "%s", strerror(errno));
    CHECK_CLASS(MPI_File_open(MPI_COMM_WORLD, path("forbidden"), MPI_MODE_RDONLY, MPI_INFO_NULL, &file), MPI_ERR_ACCESS);
    CHECK_CLASS(MPI_File_open(MPI_COMM_WORLD, path("readable"), MPI_MODE_RDWR, MPI_INFO_NULL, &file), MPI_ERR_ACCESS);
    CHECK_CLASS(MPI_File_open(MPI_COMM_WORLD, path("new"), MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file), MPI_ERR_ACCESS);
    CHECK_CLASS(MPI_File_delete(path("readable"), MPI_INFO_NULL), MPI_ERR_ACCESS);
    file = open_in(MPI_COMM_WORLD, "readable", MPI_MODE_RDONLY);
    WORKS(MPI_File_close(&file));
    CHECK(user != 0 || seteuid(0) == 0, "%s", strerror(errno));
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        chmod(directory, 0755);
    disk_remove("forbidden");
    disk_remove("readable");
}

/* -- 14.2.1, 14.2.7 Communicators and groups -- */

static void check_group(MPI_File file, MPI_Comm comm)
{
    MPI_Group found = MPI_GROUP_NULL, expected;
    int result = -1;
    MPI_Comm_group(comm, &expected);
    WORKS(MPI_File_get_group(file, &found));
    MPI_Group_compare(found, expected, &result);
    CHECK_EQUAL(result, MPI_IDENT);
    MPI_Group_free(&found);
    MPI_Group_free(&expected);
}

static void communicators(void)
{
    STORY("14.2.1 each rank opens a file of its own");
    char name[30];
    unsigned char found[LENGTH];
    MPI_Status status;
    snprintf(name, sizeof name, "own%d", rank);
    MPI_File file = open_in(MPI_COMM_SELF, name, MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_RDWR);
    check_group(file, MPI_COMM_SELF);
    WORKS(MPI_File_write(file, bytes, LENGTH - rank, MPI_BYTE, &status));
    WORKS(MPI_File_close(&file));
    CHECK_EQUAL(disk_size(name), LENGTH - rank);
    CHECK_EQUAL(MPI_File_delete(path(name), MPI_INFO_NULL), MPI_SUCCESS);

    STORY("14.2.7 files of a part of the ranks in other orders; the communicator is freed before");
    MPI_Comm part, copy;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &part);
    MPI_Comm_dup(part, &copy);
    snprintf(name, sizeof name, "part%d", rank % 2);
    file = open_in(part, name, MPI_MODE_CREATE | MPI_MODE_RDWR);
    MPI_Comm_free(&part);
    check_group(file, copy);
    int part_rank, part_ranks;
    MPI_Comm_rank(copy, &part_rank);
    MPI_Comm_size(copy, &part_ranks);
    WORKS(MPI_File_write_at_all(file, 10 * part_rank, bytes, 10, MPI_BYTE, &status));
    WORKS(MPI_File_close(&file));
    MPI_Barrier(copy);
    CHECK_EQUAL(disk_size(name), 10 * part_ranks);
    disk_read(name, 10 * part_rank, found, 10);
    CHECK(!memcmp(found, bytes, 10), "other bytes in rank %d's part", part_rank);
    MPI_Barrier(copy);
    if (part_rank == 0)
        CHECK_EQUAL(MPI_File_delete(path(name), MPI_INFO_NULL), MPI_SUCCESS);
    MPI_Comm_free(&copy);

    STORY("14.2.1 one file is open in several handles, and many files are open at once");
    enum { FILES = 40 };
    MPI_File files[FILES];
    for (int i = 0; i < FILES; i++) {
        snprintf(name, sizeof name, "many%d", i / 2);
        files[i] = open_in(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR);
    }
    for (int i = 0; i < FILES; i++)
        for (int j = 0; j < i; j++)
            CHECK(files[i] != files[j], "files %d and %d have one handle", i, j);
    for (int i = 0; i < FILES; i++)
        WORKS(MPI_File_write_at(files[i], 2 * rank + i % 2, &bytes[i], 1, MPI_BYTE, &status));
    for (int i = 0; i < FILES; i++)
        WORKS(MPI_File_close(&files[i * 7 % FILES]));
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < FILES; i += 2) {
        snprintf(name, sizeof name, "many%d", i / 2);
        CHECK_EQUAL(disk_size(name), 2 * ranks);
        disk_read(name, 2 * rank, found, 2);
        CHECK(found[0] == bytes[i] && found[1] == bytes[i + 1], "%d, %d in %s", found[0], found[1], name);
        disk_remove(name);
    }

    STORY("14.2.1 communicators that cannot open a file");
    CHECK_CLASS(MPI_File_open(MPI_COMM_NULL, path("none"), MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file), MPI_ERR_COMM);
    if (ranks > 1) {
        MPI_Comm between;
        MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &part);
        MPI_Intercomm_create(part, 0, MPI_COMM_WORLD, 1 - rank % 2, 1, &between);
        CHECK_CLASS(MPI_File_open(between, path("none"), MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file), MPI_ERR_COMM);
        MPI_Comm_free(&between);
        MPI_Comm_free(&part);
    }
    CHECK_EQUAL(disk_size("none"), -1);
}

/* -- 14.2.2, 14.2.3 Closing and deleting -- */

static void deleted(void)
{
    STORY("14.2.3 files are deleted, those that are not there too");
    disk_write("victim", bytes, LENGTH);
    if (rank == ranks - 1)
        CHECK_EQUAL(MPI_File_delete(path("victim"), MPI_INFO_NULL), MPI_SUCCESS);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_EQUAL(disk_size("victim"), -1);
    CHECK_CLASS(MPI_File_delete(path("victim"), MPI_INFO_NULL), MPI_ERR_NO_SUCH_FILE);
    CHECK_CLASS(MPI_File_delete(path("no/such/directory"), MPI_INFO_NULL), MPI_ERR_NO_SUCH_FILE);
    CHECK(MPI_File_delete(directory, MPI_INFO_NULL) != MPI_SUCCESS, "a directory was deleted");

    STORY("14.2.3 an open file is deleted, or stays, and its call says which");
    MPI_File file = open_new("victim");
    int code = MPI_SUCCESS, class = MPI_SUCCESS;
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        code = MPI_File_delete(path("victim"), MPI_INFO_NULL);
        MPI_Error_class(code, &class);
        CHECK(class == MPI_SUCCESS || class == MPI_ERR_FILE_IN_USE || class == MPI_ERR_ACCESS, "class %d", class);
        CHECK_EQUAL(disk_size("victim"), class == MPI_SUCCESS ? -1 : 0);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    WORKS(MPI_File_close(&file));
    disk_remove("victim");

    STORY("14.2.2 a file that is deleted on close is there until then, and none may have deleted it before");
    file = open_in(MPI_COMM_WORLD, "victim", MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_EQUAL(disk_size("victim"), 0);
    MPI_Barrier(MPI_COMM_WORLD);
    WORKS(MPI_File_close(&file));
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_EQUAL(disk_size("victim"), -1);

    STORY("14.2.2 what was written before the file was renamed is in the renamed file");
    MPI_Status status;
    unsigned char found[LENGTH];
    file = open_new("old");
    WORKS(MPI_File_write_at_all(file, rank * 10, bytes, 10, MPI_BYTE, &status));
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        CHECK(rename(path("old"), path("new")) == 0, "%s", strerror(errno));
    MPI_Barrier(MPI_COMM_WORLD);
    WORKS(MPI_File_write_at_all(file, (ranks + rank) * 10, bytes + 10, 10, MPI_BYTE, &status));
    WORKS(MPI_File_close(&file));
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_EQUAL(disk_size("old"), -1);
    CHECK_EQUAL(disk_size("new"), 20 * ranks);
    disk_read("new", rank * 10, found, 10);
    CHECK(!memcmp(found, bytes, 10), "the bytes from before are not there");
    disk_read("new", (ranks + rank) * 10, found, 10);
    CHECK(!memcmp(found, bytes + 10, 10), "the bytes from afterwards are not there");
    disk_remove("new");
}

/* -- 14.2.4 to 14.2.6 Sizes -- */

static void sizes(void)
{
    STORY("14.2.4 files grow and shrink, and keep their bytes and pointers");
    static const MPI_Offset all[] = {LENGTH, 0, 5000, 99, 1LL << 31, (1LL << 32) + 7, (1LL << 40) + 1, LENGTH - 1};
    unsigned char found[LENGTH];
    MPI_Status status;
    disk_write("size", bytes, LENGTH);
    MPI_File file = open_in(MPI_COMM_WORLD, "size", MPI_MODE_RDWR);
    WORKS(MPI_File_seek(file, 17 + rank, MPI_SEEK_SET));
    for (int i = 0; i < (int)(sizeof all / sizeof *all); i++) {
        WORKS(MPI_File_set_size(file, all[i]));
        CHECK_EQUAL(size_of_file(file), all[i]);
        CHECK_EQUAL(disk_size("size"), all[i]);
        if (i > 1) {
            int have = all[i] < 50 ? (int)all[i] : 50;
            WORKS(MPI_File_read_at(file, 0, found, have, MPI_BYTE, &status));
            CHECK(!memcmp(found, bytes, (size_t)have), "the bytes have changed");
        }
        MPI_Barrier(MPI_COMM_WORLD);
        if (all[i] == 0) {
            if (rank == 0)
                WORKS(MPI_File_write_at(file, 0, bytes, 50, MPI_BYTE, &status));
            WORKS(MPI_File_sync(file));
            MPI_Barrier(MPI_COMM_WORLD);
            WORKS(MPI_File_sync(file));
        }
    }
    CHECK_EQUAL(position_of(file), 17 + rank);

    STORY("14.2.5 space is allocated before, and never taken away");
    WORKS(MPI_File_preallocate(file, 20000));
    CHECK_EQUAL(size_of_file(file), 20000);
    WORKS(MPI_File_preallocate(file, 100));
    CHECK_EQUAL(size_of_file(file), 20000);
    WORKS(MPI_File_preallocate(file, 0));
    CHECK_EQUAL(size_of_file(file), 20000);
    WORKS(MPI_File_read_at(file, 0, found, 50, MPI_BYTE, &status));
    CHECK(!memcmp(found, bytes, 50), "the bytes have changed");

    STORY("14.2.4, 14.2.5 wrong sizes");
    CHECK_CLASS(MPI_File_set_size(file, -1), MPI_ERR_ARG);
    CHECK_CLASS(MPI_File_preallocate(file, -1), MPI_ERR_ARG);
    if (ranks > 1 && !left_out("unequal-sizes")) {
        CHECK_CLASS(MPI_File_set_size(file, rank == 0 ? 10 : 11), MPI_ERR_NOT_SAME);
        CHECK_CLASS(MPI_File_preallocate(file, rank == 0 ? 30000 : 30001), MPI_ERR_NOT_SAME);
        CHECK_EQUAL(size_of_file(file), 20000);
    }
    WORKS(MPI_File_close(&file));
    file = open_in(MPI_COMM_WORLD, "size", MPI_MODE_RDONLY);
    CHECK_EQUAL(size_of_file(file), 20000);
    CHECK_CLASS(MPI_File_set_size(file, 10), MPI_ERR_READ_ONLY);
    WORKS(MPI_File_close(&file));
    file = open_in(MPI_COMM_WORLD, "size", MPI_MODE_WRONLY | MPI_MODE_SEQUENTIAL);
    CHECK_CLASS(MPI_File_set_size(file, 10), MPI_ERR_UNSUPPORTED_OPERATION);
    if (!left_out("sequential-preallocate"))
        CHECK_CLASS(MPI_File_preallocate(file, 30000), MPI_ERR_UNSUPPORTED_OPERATION);
    WORKS(MPI_File_close(&file));
    CHECK_EQUAL(disk_size("size"), 20000);
    disk_remove("size");

    STORY("14.2.6 the size is that of the whole file, whatever the view");
    MPI_Datatype holes;
    MPI_Type_vector(3, 1, 5, MPI_INT, &holes);
    MPI_Type_commit(&holes);
    file = open_new("size");
    WORKS(MPI_File_set_view(file, 1000, MPI_INT, holes, "native", MPI_INFO_NULL));
    CHECK_EQUAL(size_of_file(file), 0);
    WORKS(MPI_File_set_size(file, 777));
    CHECK_EQUAL(size_of_file(file), 777);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        WORKS(MPI_File_write_at(file, 2, &rank, 1, MPI_INT, &status));
    WORKS(MPI_File_sync(file));
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_EQUAL(size_of_file(file), 1000 + 10 * (int)sizeof(int) + (int)sizeof(int));
    MPI_Type_free(&holes);
    close_and_remove(&file, "size");
}

/* -- 14.2.8 Info objects -- */

static void infos(void)
{
    STORY("14.2.8 hints, known and unknown, change nothing but speed");
    static const char *const hints[][2] = {
        {"access_style", "read_mostly,write_once"}, {"collective_buffering", "true"}, {"cb_block_size", "4096"},
        {"cb_buffer_size", "65536"},                {"cb_nodes", "1"},                {"chunked", "10,20"},
        {"chunked_item", "8"},                      {"filename", "x"},                {"file_perm", "0644"},
        {"io_node_list", "none"},                   {"nb_proc", "1"},                 {"num_io_nodes", "2"},
        {"striping_factor", "1"},                   {"striping_unit", "65536"},       {"romio_cb_write", "enable"},
        {"romio_ds_read", "disable"},               {"this_is_no_hint", "at all"},    {"mpi_assert_no_such_thing", "true"},
    };
    MPI_Info info, found = MPI_INFO_NULL;
    MPI_File file = MPI_FILE_NULL;
    MPI_Status status;
    int keys = -1;
    MPI_Info_create(&info);
    for (size_t i = 0; i < sizeof hints / sizeof *hints; i++)
        MPI_Info_set(info, hints[i][0], hints[i][1]);
    WORKS(MPI_File_open(MPI_COMM_WORLD, path("info"), MPI_MODE_CREATE | MPI_MODE_RDWR, info, &file));
    WORKS(MPI_File_set_info(file, info));
    WORKS(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", info));
    MPI_Info_free(&info);
    WORKS(MPI_File_write_at_all(file, rank, &rank, 1, MPI_INT, &status));
    WORKS(MPI_File_get_info(file, &found));
    CHECK(found != MPI_INFO_NULL, "null");
    CHECK_EQUAL(MPI_Info_get_nkeys(found, &keys), MPI_SUCCESS);
    for (int i = 0; i < keys; i++) {
        char key[MPI_MAX_INFO_KEY] = "", value[1000] = "";
        int room = sizeof value, is_there = 0;
        MPI_Info_get_nthkey(found, i, key);
        MPI_Info_get_string(found, key, &room, value, &is_there);
        CHECK(is_there && *key && strcmp(key, "this_is_no_hint"), "key \"%.200s\", value \"%.200s\"", key, value);
    }
    MPI_Info_set(found, "cb_nodes", "7"); /* a copy of the user's own */
    MPI_Info_free(&found);
    CHECK(found == MPI_INFO_NULL, "not null after MPI_Info_free");
    WORKS(MPI_File_close(&file));
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_EQUAL(disk_size("info"), ranks * (int)sizeof(int));

    STORY("14.2.8 a file that was opened without hints has an info object all the same");
    file = open_in(MPI_COMM_WORLD, "info", MPI_MODE_RDWR);
    WORKS(MPI_File_get_info(file, &found));
    CHECK(found != MPI_INFO_NULL, "null");
    MPI_Info_free(&found);
    WORKS(MPI_File_set_info(file, MPI_INFO_NULL));
    WORKS(MPI_File_get_info(file, &found));
    MPI_Info_free(&found);
    close_and_remove(&file, "info");
}

/* -- What a mode does not permit -- */

static void refused_accesses(void)
{
    STORY("14.2.1 reading and writing against the mode");
    MPI_Status status;
    MPI_Offset offset;
    unsigned char found[LENGTH];
    disk_write("refused", bytes, LENGTH);
    MPI_File file = open_in(MPI_COMM_WORLD, "refused", MPI_MODE_RDONLY);
    CHECK_CLASS(MPI_File_write_at(file, 0, "x", 1, MPI_CHAR, &status), MPI_ERR_READ_ONLY);
    CHECK_CLASS(MPI_File_write(file, "x", 1, MPI_CHAR, &status), MPI_ERR_READ_ONLY);
    CHECK_CLASS(MPI_File_write_all(file, "x", 1, MPI_CHAR, &status), MPI_ERR_READ_ONLY);
    if (!left_out("shared-read-only"))
        CHECK_CLASS(MPI_File_write_shared(file, "x", 1, MPI_CHAR, &status), MPI_ERR_READ_ONLY);
    WORKS(MPI_File_close(&file));
    file = open_in(MPI_COMM_WORLD, "refused", MPI_MODE_WRONLY);
    CHECK_CLASS(MPI_File_read_at(file, 0, found, 1, MPI_CHAR, &status), MPI_ERR_ACCESS);
    CHECK_CLASS(MPI_File_read(file, found, 1, MPI_CHAR, &status), MPI_ERR_ACCESS);
    CHECK_CLASS(MPI_File_read_all(file, found, 1, MPI_CHAR, &status), MPI_ERR_ACCESS);
    CHECK_CLASS(MPI_File_read_shared(file, found, 1, MPI_CHAR, &status), MPI_ERR_ACCESS);
    WORKS(MPI_File_close(&file));

    STORY("14.2.1 a sequential file has shared pointers only");
    file = open_in(MPI_COMM_WORLD, "refused", MPI_MODE_RDONLY | MPI_MODE_SEQUENTIAL);
    CHECK_CLASS(MPI_File_read_at(file, 0, found, 1, MPI_CHAR, &status), MPI_ERR_UNSUPPORTED_OPERATION);
    CHECK_CLASS(MPI_File_read(file, found, 1, MPI_CHAR, &status), MPI_ERR_UNSUPPORTED_OPERATION);
    CHECK_CLASS(MPI_File_read_all(file, found, 1, MPI_CHAR, &status), MPI_ERR_UNSUPPORTED_OPERATION);
    CHECK_CLASS(MPI_File_seek(file, 0, MPI_SEEK_SET), MPI_ERR_UNSUPPORTED_OPERATION);
    CHECK_CLASS(MPI_File_seek_shared(file, 0, MPI_SEEK_SET), MPI_ERR_UNSUPPORTED_OPERATION);
    CHECK_CLASS(MPI_File_get_position(file, &offset), MPI_ERR_UNSUPPORTED_OPERATION);
    CHECK_CLASS(MPI_File_get_position_shared(file, &offset), MPI_ERR_UNSUPPORTED_OPERATION);
    CHECK_CLASS(MPI_File_get_byte_offset(file, 0, &offset), MPI_ERR_UNSUPPORTED_OPERATION);
    WORKS(MPI_File_read_ordered(file, found, 1, MPI_BYTE, &status));
    CHECK_EQUAL(found[0], bytes[rank]);
    WORKS(MPI_File_close(&file));
    disk_read("refused", 0, found, LENGTH);
    CHECK(!memcmp(found, bytes, LENGTH), "a refused call changed the file");
    disk_remove("refused");
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    open_directory(argc > 1 ? argv[1] : NULL);
    fill(bytes, LENGTH, 1, 1);
    modes();
    existing_and_missing();
    permissions();
    communicators();
    deleted();
    sizes();
    infos();
    refused_accesses();
    close_directory();
    return end();
}
