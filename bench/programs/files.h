/* One file that all ranks share: written and read through MPI, and by plain pwrite and pread in the same
 * processes. The plain transfers move the same number of bytes, and are the floor.
 *
 * The files lie in `--directory`, or in $TMPDIR, or in the present directory, and are removed at the end.
 * They are filled before the first sample: the figures are those of a file in the page cache. */
#ifndef WEFT_BENCH_FILES_H
#define WEFT_BENCH_FILES_H

#include "common.h"
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

enum { FILES_PATH_MAX = 1024 };

static struct {
    const char *directory;
    double bytes;               /* of each rank */
    int writes;                 /* or reads */
    const char *kind;           /* the field `kind` of the samples; NULL: none */
    char path[FILES_PATH_MAX];  /* of the file that MPI opens */
    char plain_path[FILES_PATH_MAX];
    MPI_File mpi;
    int content, plain;         /* descriptors: of the file that MPI has open, and of the plain one */
    int one_host;               /* all ranks are on it */
    size_t filled;              /* bytes of each rank that are in both files */
    double plain_seconds;       /* of a plain iteration, the slowest rank */
} files;

static void files_give_up(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why);
    MPI_Abort(MPI_COMM_WORLD, 2);
    exit(2);
}

/* ---- Plain transfers, whole ---- */

static inline void plain_write(int file, const unsigned char *bytes, size_t length, off_t at)
{
    while (length > 0) {
        ssize_t moved = pwrite(file, bytes, length, at);
        if (moved <= 0 && errno != EINTR)
            files_give_up("pwrite", strerror(errno));
        if (moved > 0)
            bytes += moved, length -= (size_t)moved, at += moved;
    }
}

static inline void plain_read(int file, unsigned char *bytes, size_t length, off_t at)
{
    while (length > 0) {
        ssize_t moved = pread(file, bytes, length, at);
        if (moved == 0)
            files_give_up("pread", "the file is too short");
        if (moved < 0 && errno != EINTR)
            files_give_up("pread", strerror(errno));
        if (moved > 0)
            bytes += moved, length -= (size_t)moved, at += moved;
    }
}

/* ---- Opening and closing ---- */

/* An error of a transfer or of a view ends the program. */
static void files_open_mpi(void)
{
    char text[MPI_MAX_ERROR_STRING + 1] = "";
    int length = 0, code = MPI_File_open(MPI_COMM_WORLD, files.path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &files.mpi);
    if (code != MPI_SUCCESS) {
        MPI_Error_string(code, text, &length);
        files_give_up("MPI_File_open", text);
    }
    MPI_File_set_errhandler(files.mpi, MPI_ERRORS_ARE_FATAL);
}

static int open_plain(const char *path)
{
    int file = open(path, O_RDWR | O_CREAT, 0600);
    if (file < 0)
        files_give_up(path, strerror(errno));
    return file;
}

/* Opens the file once, without an end of the program when that fails. Returns 1 when every rank has it.
 * `missing` says that the library has no files, which is a finding and no failure of the program. */
static int files_try(const bench *b, int *missing, char why[BENCH_WHY_MAX])
{
    int code, right;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    code = MPI_File_open(MPI_COMM_WORLD, files.path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &files.mpi);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    right = bench_made(b, code, "the file", missing, why);
    if (right)
        MPI_File_close(&files.mpi);
    return right;
}

/* Names the files after the first rank's process. Collective. */
static void files_name(const bench *b)
{
    int written = 0;
    if (!files.directory[0])
        files.directory = getenv("TMPDIR") ? getenv("TMPDIR") : ".";
    if (b->rank == 0)
        written = snprintf(files.path, sizeof files.path, "%s/weft-bench-%ld", files.directory, (long)getpid());
    if (written < 0 || written >= FILES_PATH_MAX - 8)
        files_give_up("--directory", "the path is too long");
    MPI_Bcast(files.path, FILES_PATH_MAX, MPI_CHAR, 0, MPI_COMM_WORLD);
    snprintf(files.plain_path, sizeof files.plain_path, "%.*s.plain", FILES_PATH_MAX - 8, files.path);
}

static void find_hosts(const bench *b)
{
    MPI_Comm host;
    int ranks;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
    MPI_Comm_size(host, &ranks);
    MPI_Comm_free(&host);
    files.one_host = ranks == b->ranks;
}

static void files_remove(const bench *b)
{
    MPI_Barrier(MPI_COMM_WORLD);
    if (b->rank == 0) {
        unlink(files.path);
        unlink(files.plain_path);
    }
}

/* ---- Contents: the file is made of runs of `size` bytes, each of which is one rank's ---- */

/* Tells whose run it is, and at which position of that rank's bytes it begins. */
typedef void files_owner(const bench *b, size_t size, long run, int *owner, size_t *position);

/* Makes the contents that the file has between two offsets, or compares them with those in `bytes`. Returns
 * 1, or 0 and a sentence. */
static inline int files_contents(const bench *b, size_t size, files_owner *owner_of, unsigned char *bytes, size_t from, size_t to, int compare, char why[BENCH_WHY_MAX])
{
    while (from < to) {
        size_t within = from % size, length = size - within < to - from ? size - within : to - from, position = 0;
        int owner = 0;
        owner_of(b, size, (long)(from / size), &owner, &position);
        for (size_t i = 0; i < length; i++) {
            unsigned char want = plain_content(position + within + i, (unsigned)owner, b->seed);
            if (!compare)
                bytes[i] = want;
            else if (bytes[i] != want) {
                snprintf(why, BENCH_WHY_MAX, "byte %zu of the file, rank %d's, is %d, not %d", from + i, owner, bytes[i], want);
                return 0;
            }
        }
        bytes += length;
        from += length;
    }
    return 1;
}

/* Each rank takes a share of the file: those of all are the whole. Fills the share with the contents of this
 * sample, or compares it with them. */
static inline int files_share(const bench *b, size_t size, size_t total, files_owner *owner_of, int compare, char why[BENCH_WHY_MAX])
{
    static unsigned char part[1 << 18];
    size_t share = (total + (size_t)b->ranks - 1) / (size_t)b->ranks, at = share * (size_t)b->rank;
    size_t end = at + share < total ? at + share : total;
    int right = 1;
    for (; right && at < end; at += sizeof part) {
        size_t length = end - at < sizeof part ? end - at : sizeof part;
        if (compare)
            plain_read(files.content, part, length, (off_t)at);
        right = files_contents(b, size, owner_of, part, at, at + length, compare, why);
        if (!compare) {
            plain_write(files.content, part, length, (off_t)at);
            plain_write(files.plain, part, length, (off_t)at);
        }
    }
    return right;
}

/* Prepares a sample in which each rank moves `bytes`. A file that is read gets its contents now. The others
 * are only made as large as they will be, so that no sample makes them grow. Collective. */
static inline void files_prepare(bench *b, size_t size, size_t bytes, files_owner *owner_of)
{
    char why[BENCH_WHY_MAX];
    bench_fill(b, b->send, bytes, b->rank);
    memset(b->receive, 0, bytes);
    if (!files.writes || files.filled < bytes)
        files_share(b, size, bytes * (size_t)b->ranks, owner_of, 0, why);
    files.filled = files.filled < bytes ? bytes : files.filled;
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Checks a sample: what was read, or what is in the file once it is closed. Collective. */
static inline int files_check(const bench *b, size_t size, size_t bytes, files_owner *owner_of, char why[BENCH_WHY_MAX])
{
    int right;
    if (!files.writes)
        return bench_filled(b, b->receive, bytes, b->rank, why);
    MPI_File_close(&files.mpi);
    MPI_Barrier(MPI_COMM_WORLD);
    right = files_share(b, size, bytes * (size_t)b->ranks, owner_of, 1, why);
    MPI_Barrier(MPI_COMM_WORLD);
    files_open_mpi();
    return right;
}

/* ---- Samples ---- */

static inline double files_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* So many iterations of a sample. */
typedef void files_pass(bench *b, size_t size, long iterations);

/* Seconds from the start of the first rank to the end of the last: where ranks share processors, some begin
 * when others have ended. Ranks of several hosts have no common clock: the longest of their own times counts.
 */
static inline double files_timed(bench *b, size_t size, long iterations, files_pass *pass)
{
    double began, ended, latest, first;
    MPI_Barrier(MPI_COMM_WORLD);
    began = files_clock();
    pass(b, size, iterations);
    ended = files_clock();
    if (!files.one_host)
        return bench_max(ended - began);
    latest = bench_max(ended);
    first = -bench_max(-began);
    return latest - first;
}

/* Runs the pass through MPI and the plain one, each first in its turn. The time of the first counts. */
static inline double files_passes(bench *b, size_t size, long iterations, files_pass *mpi, files_pass *plain)
{
    double counted = 0;
    for (unsigned turn = 0; turn < 2; turn++) {
        if ((turn + b->seed) % 2 == 0)
            counted = files_timed(b, size, iterations, mpi);
        else
            files.plain_seconds = files_timed(b, size, iterations, plain) / (double)iterations;
    }
    return counted;
}

/* `percent_of_plain` is the speed beside that of plain transfers in the same sample. */
static inline void files_fields(const bench *b, size_t size, double seconds)
{
    (void)b;
    (void)size;
    if (files.kind)
        json_text("kind", files.kind);
    json_number("percent_of_plain", 100 * files.plain_seconds / seconds);
}

/* The whole program, with the settings of `files` and a function that takes all samples. */
static int files_main(const char *measurement, const char *sizes, const char *unit, int argc, char **argv, int (*measure)(bench *b))
{
    static const bench_option own[] = {{"--directory", NULL, &files.directory, "where the files are (default: $TMPDIR, or here)"},
        {"--bytes", &files.bytes, NULL, "of each rank in the file (default 8m; a larger block counts as one)"}};
    char why[BENCH_WHY_MAX] = "";
    int missing, status;
    bench b;
    files.directory = "";
    files.bytes = 8 << 20;
    bench_start(&b, measurement, sizes, &argc, &argv, own, 2);
    if (!(files.bytes >= 1 && files.bytes <= 1 << 30))
        files_give_up("--bytes", "1 to 1g");
    files_name(&b);
    find_hosts(&b);
    if (!files_try(&b, &missing, why)) {
        bench_failed(&b, 0, unit, why);
        files_remove(&b);
        return bench_end(&b, missing ? 0 : 1);
    }
    files_open_mpi();
    files.content = open_plain(files.path);
    files.plain = open_plain(files.plain_path);
    status = measure(&b);
    MPI_File_close(&files.mpi);
    close(files.content);
    close(files.plain);
    files_remove(&b);
    return bench_end(&b, status);
}

#endif
