/*
 * What goes wrong with a file at one rank, or at all: every rank that must know gets the right class, and a
 * sentence with the path and the system's reason. `file_failures WHAT`:
 *
 * - `told CLASS`: the library `wrong_transfers.c` lets calls of the last rank fail; all ranks get this class;
 * - `limit`: the shell's `ulimit -f` is LIMIT_BYTES, and nobody ignores SIGXFSZ;
 * - `read-only`: the directory is on a file system that cannot be written;
 * - `removed`: the directory is removed while a file in it is open;
 * - `signals`: a timer interrupts the system calls of all ranks;
 * - `dies`: the last rank is killed inside a collective write;
 * - `beside PART`: two jobs, parts 0 and 1, write pieces of one file that lie between each other.
 */
#define _GNU_SOURCE
#include "files.h"
#include <limits.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

enum { PIECE = 64, PIECES = 3000, LIMIT_BYTES = 204800 * 512, ROUNDS = 20, SECONDS_MAX = 50 };

static unsigned char bytes[PIECE * PIECES], found[PIECE * PIECES];

static int class_of(int code)
{
    int class = -1;
    MPI_Error_class(code, &class);
    return class;
}

/* The call must fail with this class, and a sentence in which both texts are. */
static void fails(const char *call, int code, int class, const char *one, const char *other)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length;
    MPI_Error_string(code, text, &length);
    CHECK(class_of(code) == class, "%s gave class %d, not %d: %.400s", call, class_of(code), class, text);
    CHECK(strstr(text, one) && strstr(text, other), "%s says \"%.400s\", without \"%s\" or \"%s\"", call, text, one, other);
}
#define FAILS(call, class, one, other) fails(#call, call, class, one, other)

/* The pieces of this rank in a view of the file from a byte on: one of `parts` in turn. */
static void see_pieces_from(MPI_Offset begin, MPI_File file, int part, int parts)
{
    MPI_Datatype piece, pieces;
    MPI_Type_contiguous(PIECE, MPI_BYTE, &piece);
    MPI_Type_create_resized(piece, 0, (MPI_Aint)PIECE * parts, &pieces);
    MPI_Type_commit(&pieces);
    WORKS(MPI_File_set_view(file, begin + (MPI_Offset)PIECE * part, MPI_BYTE, pieces, "native", MPI_INFO_NULL));
    MPI_Type_free(&piece);
    MPI_Type_free(&pieces);
}

static void see_own_pieces(MPI_File file, int part, int parts)
{
    see_pieces_from(0, file, part, parts);
}

/* -- An error of the last rank alone -- */

static void told(const char *name)
{
    static const struct {
        const char *name;
        int class;
        const char *says;
    } kinds[] = {{"ENOSPC", MPI_ERR_NO_SPACE, "No space left on device"}, {"EDQUOT", MPI_ERR_QUOTA, "Disk quota exceeded"},
                 {"EROFS", MPI_ERR_READ_ONLY, "Read-only file system"},  {"EFBIG", MPI_ERR_IO, "File too large"},
                 {"EIO", MPI_ERR_IO, "Input/output error"},             {"ESTALE", MPI_ERR_IO, "open it again"}};
    int kind = 0, last = ranks - 1;
    while (strcmp(kinds[kind].name, name) && kind < 5)
        kind++;
    int class = kinds[kind].class;
    const char *says = kinds[kind].says;
    /* Who could not do it: the others hear the rank. */
    char who[100];
    snprintf(who, sizeof who, rank == last ? "cannot" : "rank %d cannot", last);
    MPI_Status status;
    MPI_Request request;
    MPI_File file = open_new("told");

    STORY("each rank writes its own run, and the last fails");
    FAILS(MPI_File_write_at_all(file, PIECE * rank, bytes, PIECE, MPI_BYTE, &status), class, who, says);
    FAILS(MPI_File_write_all(file, bytes, PIECE, MPI_BYTE, &status), class, who, "/told: ");
    STORY("the same, nonblocking and split");
    int code = MPI_File_iwrite_at_all(file, PIECE * rank, bytes, PIECE, MPI_BYTE, &request);
    CHECK_EQUAL(code, MPI_SUCCESS);
    FAILS(MPI_Wait(&request, &status), class, who, says);
    WORKS(MPI_File_write_at_all_begin(file, PIECE * rank, bytes, PIECE, MPI_BYTE));
    FAILS(MPI_File_write_at_all_end(file, bytes, &status), class, who, says);
    STORY("an independent write concerns its rank alone");
    if (rank == last)
        FAILS(MPI_File_write_at(file, 10, bytes, 5, MPI_BYTE, &status), class, "cannot write 5 bytes at offset 10 of ", says);
    else
        WORKS(MPI_File_write_at(file, PIECE * rank, bytes, PIECE, MPI_BYTE, &status));
    STORY("pieces that go through aggregators, of which the last rank is one");
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "romio_cb_write", "enable");
    MPI_Info_set(info, "cb_nodes", "8");
    WORKS(MPI_File_set_info(file, info));
    MPI_Info_free(&info);
    see_own_pieces(file, rank, ranks);
    FAILS(MPI_File_write_at_all(file, 0, bytes, PIECE * PIECES, MPI_BYTE, &status), class, who, says);
    STORY("to bring the file to its device");
    FAILS(MPI_File_sync(file), class, who, says);
    STORY("the file can be used after all this");
    WORKS(MPI_File_read_at_all(file, 0, found, 1, MPI_BYTE, &status));
    close_and_remove(&file, "told");
}

/* -- A limit that the shell sets -- */

static void limit(void)
{
    STORY("a write past ulimit -f is refused, and no signal ends the rank");
    MPI_Status status;
    MPI_File file = open_new("limit");
    FAILS(MPI_File_write_at(file, LIMIT_BYTES - 1, bytes, 2, MPI_BYTE, &status), MPI_ERR_IO, "/limit: ", "File too large");
    FAILS(MPI_File_write_at_all(file, LIMIT_BYTES + PIECE * rank, bytes, PIECE, MPI_BYTE, &status), MPI_ERR_IO, "/limit: ", "File too large");
    FAILS(MPI_File_set_size(file, LIMIT_BYTES + 1), MPI_ERR_IO, "/limit: ", "File too large");
    FAILS(MPI_File_preallocate(file, LIMIT_BYTES + 1), MPI_ERR_IO, "/limit: ", "File too large");
    STORY("one rank alone is past it: all hear of that");
    int is_last = rank == ranks - 1;
    FAILS(MPI_File_write_at_all(file, is_last ? LIMIT_BYTES : PIECE * rank, bytes, PIECE, MPI_BYTE, &status), MPI_ERR_IO, "cannot write 64 bytes at offset 104857600 of ", "File too large");
    see_pieces_from(LIMIT_BYTES - PIECE * PIECES, file, rank, ranks);
    FAILS(MPI_File_write_all(file, bytes, PIECE * PIECES, MPI_BYTE, &status), MPI_ERR_IO, "/limit: ", "File too large");
    CHECK(disk_size("limit") <= LIMIT_BYTES, "%lld bytes", disk_size("limit"));
    STORY("up to the limit there is room");
    WORKS(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    WORKS(MPI_File_write_at(file, LIMIT_BYTES - 2, bytes, 2, MPI_BYTE, &status));
    WORKS(MPI_File_set_size(file, LIMIT_BYTES));
    close_and_remove(&file, "limit");
}

/* -- Directories -- */

static void read_only(const char *where)
{
    STORY("a file system that cannot be written");
    snprintf(directory, sizeof directory, "%s", where);
    MPI_File file;
    MPI_Status status;
    FAILS(MPI_File_open(MPI_COMM_WORLD, path("new"), MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file), MPI_ERR_READ_ONLY, "/new: ", "Read-only file system");
    FAILS(MPI_File_open(MPI_COMM_WORLD, path("there"), MPI_MODE_RDWR, MPI_INFO_NULL, &file), MPI_ERR_READ_ONLY, "/there: ", "Read-only file system");
    FAILS(MPI_File_delete(path("there"), MPI_INFO_NULL), MPI_ERR_READ_ONLY, "/there: ", "Read-only file system");
    file = open_in(MPI_COMM_WORLD, "there", MPI_MODE_RDONLY);
    WORKS(MPI_File_read_at_all(file, 0, found, 5, MPI_BYTE, &status));
    CHECK(!memcmp(found, "there", 5), "%.5s", (char *)found);
    WORKS(MPI_File_close(&file));
    STORY("a file that is to be removed when it is closed, and cannot be");
    file = open_in(MPI_COMM_WORLD, "there", MPI_MODE_RDONLY | MPI_MODE_DELETE_ON_CLOSE);
    FAILS(MPI_File_close(&file), MPI_ERR_READ_ONLY, "cannot remove ", "Read-only file system");
}

static void removed(void)
{
    STORY("a directory that is removed while a file in it is open");
    MPI_Status status;
    char kept[sizeof directory];
    memcpy(kept, directory, sizeof kept);
    snprintf(directory, sizeof directory, "%.600s/below", kept);
    if (rank == 0)
        CHECK(mkdir(directory, 0700) == 0, "%.300s: %s", directory, strerror(errno));
    MPI_File file = open_new("gone");
    disk_remove("gone");
    if (rank == 0)
        CHECK(rmdir(directory) == 0, "%.300s: %s", directory, strerror(errno));
    MPI_Barrier(MPI_COMM_WORLD);
    STORY("the open file works to its end");
    WORKS(MPI_File_write_at_all(file, PIECE * rank, bytes, PIECE, MPI_BYTE, &status));
    WORKS(MPI_File_sync(file));
    MPI_Barrier(MPI_COMM_WORLD);
    WORKS(MPI_File_read_at_all(file, PIECE * (ranks - 1 - rank), found, PIECE, MPI_BYTE, &status));
    CHECK(!memcmp(found, bytes, PIECE), "other bytes");
    WORKS(MPI_File_close(&file));
    STORY("nothing can be opened, or created, or removed there");
    FAILS(MPI_File_open(MPI_COMM_WORLD, path("gone"), MPI_MODE_RDWR, MPI_INFO_NULL, &file), MPI_ERR_NO_SUCH_FILE, "/below/gone: ", "No such file or directory");
    FAILS(MPI_File_open(MPI_COMM_WORLD, path("gone"), MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &file), MPI_ERR_NO_SUCH_FILE, "/below/gone: ", "No such file or directory");
    FAILS(MPI_File_delete(path("gone"), MPI_INFO_NULL), MPI_ERR_NO_SUCH_FILE, "/below/gone: ", "No such file or directory");
    MPI_Barrier(MPI_COMM_WORLD);
    memcpy(directory, kept, sizeof directory);
    STORY("a file that is to be removed when it is closed, and has been removed");
    file = open_in(MPI_COMM_WORLD, "twice", MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE);
    disk_remove("twice");
    FAILS(MPI_File_close(&file), MPI_ERR_NO_SUCH_FILE, "cannot remove ", "/twice: ");
    STORY("a path that rank 0 removes before it opens it anew: all have the new file");
    for (int round = 0; round < ROUNDS; round++) {
        if (rank == 0)
            unlink(path("anew"));
        file = open_in(MPI_COMM_WORLD, "anew", MPI_MODE_CREATE | MPI_MODE_RDWR);
        WORKS(MPI_File_write_at(file, rank, bytes, 1, MPI_BYTE, &status));
        WORKS(MPI_File_close(&file));
        MPI_Barrier(MPI_COMM_WORLD);
        CHECK_EQUAL(disk_size("anew"), ranks);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    disk_remove("anew");
}

/* -- Signals -- */

static volatile sig_atomic_t heard;

static void hear(int number)
{
    (void)number;
    heard++;
}

static void signals(void)
{
    STORY("signals interrupt system calls");
    struct sigaction action = {.sa_handler = hear}; /* no SA_RESTART */
    struct itimerval often = {{0, 300}, {0, 300}}, never = {{0, 0}, {0, 0}};
    MPI_Status status;
    sigaction(SIGALRM, &action, NULL);
    MPI_File file = open_new("signals");
    setitimer(ITIMER_REAL, &often, NULL);
    see_own_pieces(file, rank, ranks);
    for (int round = 0; round < ROUNDS; round++) {
        memset(bytes, 1 + round + rank, sizeof bytes);
        /* In atomic mode ranks wait for each other's locks, and the timer ends these waits early. */
        WORKS(MPI_File_set_atomicity(file, round % 2));
        if (round % 4 < 2)
            WORKS(MPI_File_write_at(file, 0, bytes, PIECE * PIECES / 10, MPI_BYTE, &status));
        else
            WORKS(MPI_File_write_at_all(file, 0, bytes, PIECE * PIECES / 10, MPI_BYTE, &status));
        WORKS(MPI_File_sync(file));
        memset(found, 0, sizeof found);
        WORKS(MPI_File_read_at_all(file, 0, found, PIECE * PIECES / 10, MPI_BYTE, &status));
        CHECK(!memcmp(found, bytes, PIECE * PIECES / 10), "other bytes in round %d", round);
    }
    setitimer(ITIMER_REAL, &never, NULL);
    CHECK(heard > 0, "no signal came");
    close_and_remove(&file, "signals");
}

/* -- A rank that dies -- */

static void dies(void)
{
    STORY("the last rank dies inside a collective write");
    MPI_Status status;
    MPI_File file = open_new("dies");
    if (rank == 0) /* nothing is left behind */
        unlink(path("dies")), rmdir(directory);
    see_own_pieces(file, rank, ranks);
    for (;;)
        MPI_File_write_at_all(file, 0, bytes, PIECE * PIECES, MPI_BYTE, &status);
}

/* -- Two jobs -- */

/* Waits until the file is there, which the other job makes. Collective. */
static void wait_for(const char *name)
{
    int is_there = 0;
    for (int i = 0; !is_there && i < SECONDS_MAX * 100; i++) {
        if (rank == 0 && !(is_there = disk_size(name) >= 0))
            usleep(10000);
        MPI_Bcast(&is_there, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    CHECK(is_there, "the other job never made %s", name);
}

static void make(const char *name)
{
    int file = rank == 0 ? open(path(name), O_WRONLY | O_CREAT, 0600) : -1;
    if (file >= 0)
        close(file);
}

static void beside(const char *where, int part)
{
    static const char *began[] = {"began0", "began1"}, *ended[] = {"ended0", "ended1"};
    MPI_Status status;
    snprintf(directory, sizeof directory, "%s", where);
    STORY("two jobs write pieces of one file that lie between each other");
    MPI_File file = open_in(MPI_COMM_WORLD, "both", MPI_MODE_CREATE | MPI_MODE_RDWR);
    see_own_pieces(file, 2 * rank + part, 2 * ranks);
    make(began[part]);
    wait_for(began[!part]);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < PIECE * PIECES; i++)
            bytes[i] = (unsigned char)(i / PIECE + 7 * (2 * rank + part) + (round < ROUNDS - 1 ? round : 0));
        WORKS(MPI_File_set_atomicity(file, round % 3 == 2));
        if (round % 2)
            WORKS(MPI_File_write_at_all(file, 0, bytes, PIECE * PIECES, MPI_BYTE, &status));
        else
            WORKS(MPI_File_write_at(file, 0, bytes, PIECE * PIECES, MPI_BYTE, &status));
    }
    WORKS(MPI_File_sync(file));
    MPI_Barrier(MPI_COMM_WORLD);
    make(ended[part]);
    wait_for(ended[!part]);
    STORY("each byte is that of the job to which it belongs");
    for (int of = 0; of < 2; of++) {
        see_own_pieces(file, 2 * rank + of, 2 * ranks);
        WORKS(MPI_File_read_at_all(file, 0, found, PIECE * PIECES, MPI_BYTE, &status));
        for (int i = 0; i < PIECE * PIECES; i++)
            if (found[i] != (unsigned char)(i / PIECE + 7 * (2 * rank + of))) {
                CHECK(0, "byte %d of part %d is %d", i, of, found[i]);
                break;
            }
    }
    WORKS(MPI_File_close(&file));
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "", *argument = argc > 2 ? argv[2] : "";
    begin(&argc, &argv);
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(1 + i % 250);
    /* In the first two the directory is the test's own. */
    if (!strcmp(what, "read-only"))
        read_only(argument);
    else if (!strcmp(what, "beside"))
        beside(argument, argc > 3 ? atoi(argv[3]) : 0);
    else {
        open_directory(argc > 3 ? argv[3] : NULL);
        if (!strcmp(what, "told"))
            told(argument);
        else if (!strcmp(what, "limit"))
            limit();
        else if (!strcmp(what, "removed"))
            removed();
        else if (!strcmp(what, "signals"))
            signals();
        else if (!strcmp(what, "dies"))
            dies();
        close_directory();
    }
    return end();
}
