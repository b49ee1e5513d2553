/*
 * A library to be preloaded: transfers to and from the files of tests (`tests/c/files.h`) go wrong, as
 * WRONG_TRANSFERS says:
 *
 * - `short`: many are cut short, and some are interrupted before they begin, which a library must bear;
 * - `failing`: some writes fail, which a library must report;
 * - `lost`: some writes are not made, and report success; `damaged`: some write another byte. These show that
 *   the tests notice it;
 * - `ENOSPC` and other names of errors: each write and fsync of the rank WRONG_RANK fails with it;
 * - `dying`: the rank WRONG_RANK is killed when it is about to write.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

/* The number of transfers of which one goes wrong. */
enum { OF = 40, PATH_ROOM = 1024 };

static atomic_uint transfers;

typedef ssize_t transfer(int file, void *bytes, size_t length, off_t offset);

static int is_of_tests(int file)
{
    char link[64], path[PATH_ROOM];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    path[length > 0 ? length : 0] = '\0';
    return strstr(path, "/weft-files-") != NULL;
}

/* Whether this process is the rank that WRONG_RANK names. */
static int is_wrong_rank(void)
{
    const char *wrong = getenv("WRONG_RANK"), *own = getenv("PMI_RANK");
    return wrong && own && !strcmp(wrong, own);
}

/* The error with the name `how`; 0 if that is none. */
static int error_named(const char *how)
{
    static const struct {
        const char *name;
        int error;
    } errors[] = {{"ENOSPC", ENOSPC}, {"EDQUOT", EDQUOT}, {"EROFS", EROFS}, {"EFBIG", EFBIG}, {"EIO", EIO}, {"ESTALE", ESTALE}};
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (!strcmp(errors[i].name, how))
            return errors[i].error;
    return 0;
}

/* Whether a write of this process fails, with the error in errno. */
static int fails(const char *how)
{
    int error = error_named(how);
    if (error && is_wrong_rank())
        errno = error;
    return error && is_wrong_rank();
}

static ssize_t make(const char *name, int is_write, int file, void *bytes, size_t length, off_t offset)
{
    transfer *real = NULL;
    *(void **)&real = dlsym(RTLD_NEXT, name);
    const char *how = getenv("WRONG_TRANSFERS");
    if (!how || !is_of_tests(file) || length == 0)
        return real(file, bytes, length, offset);
    unsigned number = atomic_fetch_add(&transfers, 1), is_chosen = number % OF == OF - 1;
    if (!strcmp(how, "short")) {
        if (number % 7 == 6) {
            errno = EINTR;
            return -1;
        }
        return real(file, bytes, number % 3 ? 1 + length / 2 : length, offset);
    }
    if (is_write && !strcmp(how, "dying") && is_wrong_rank() && is_chosen)
        raise(SIGKILL);
    if (error_named(how) || !strcmp(how, "dying"))
        return is_write && fails(how) ? -1 : real(file, bytes, length, offset);
    if (!is_write || !is_chosen)
        return real(file, bytes, length, offset);
    if (!strcmp(how, "failing")) {
        errno = EIO;
        return -1;
    }
    if (!strcmp(how, "lost"))
        return (ssize_t)length;
    unsigned char *damaged = malloc(length);
    if (!damaged)
        abort();
    memcpy(damaged, bytes, length);
    damaged[length / 2] ^= 1;
    ssize_t result = real(file, damaged, length, offset);
    free(damaged);
    return result;
}

int fsync(int file)
{
    int (*real)(int) = NULL;
    *(void **)&real = dlsym(RTLD_NEXT, "fsync");
    const char *how = getenv("WRONG_TRANSFERS");
    return how && is_of_tests(file) && fails(how) ? -1 : real(file);
}

ssize_t pread(int file, void *bytes, size_t length, off_t offset)
{
    return make("pread", 0, file, bytes, length, offset);
}

ssize_t pread64(int file, void *bytes, size_t length, off_t offset)
{
    return make("pread64", 0, file, bytes, length, offset);
}

ssize_t pwrite(int file, const void *bytes, size_t length, off_t offset)
{
    return make("pwrite", 1, file, (void *)bytes, length, offset);
}

ssize_t pwrite64(int file, const void *bytes, size_t length, off_t offset)
{
    return make("pwrite64", 1, file, (void *)bytes, length, offset);
}
