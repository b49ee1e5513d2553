/*
 * The common part of the programs about files (chapter 14): a directory that is empty again at the end of the
 * program, and files that are written and read without MPI.
 */
#ifndef WEFT_TESTS_FILES_H
#define WEFT_TESTS_FILES_H

#include "check.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

enum { PATH_ROOM = 1024, PATHS = 8 };

/* The directory of this run: made by rank 0, and the same at all ranks. */
static char directory[PATH_ROOM - 300];

/* The call must succeed; its error is printed else. */
#define WORKS(call)                                                                                                    \
    do {                                                                                                               \
        int code_ = (call), length_ = 0;                                                                               \
        char text_[MPI_MAX_ERROR_STRING] = "";                                                                         \
        if (code_ != MPI_SUCCESS)                                                                                      \
            MPI_Error_string(code_, text_, &length_);                                                                  \
        CHECK(code_ == MPI_SUCCESS, "%s: %.400s", #call, text_);                                                          \
    } while (0)

/* Returns the path of a file in the directory; the last PATHS results stay valid. */
static inline const char *path(const char *name)
{
    static char results[PATHS][PATH_ROOM];
    static int next;
    char *result = results[next++ % PATHS];
    snprintf(result, PATH_ROOM, "%s/%s", directory, name);
    return result;
}

/* Makes the directory, in the one that `given` names, else in $TMPDIR, else in /tmp. Collective. */
static inline void open_directory(const char *given)
{
    const char *where = given ? given : getenv("TMPDIR");
    if (rank == 0) {
        snprintf(directory, sizeof directory, "%s/weft-files-XXXXXX", where && *where ? where : "/tmp");
        if (!mkdtemp(directory)) {
            fprintf(stderr, "cannot make a directory %s: %s\n", directory, strerror(errno));
            MPI_Abort(MPI_COMM_WORLD, 2);
        }
    }
    MPI_Bcast(directory, sizeof directory, MPI_CHAR, 0, MPI_COMM_WORLD);
}

/* Removes the directory. What is still in it was left behind, and fails a check. Collective. */
static inline void close_directory(void)
{
    STORY("nothing is left behind in the directory");
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank != 0)
        return;
    DIR *entries = opendir(directory);
    for (struct dirent *entry; entries && (entry = readdir(entries));) {
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
            continue;
        CHECK(entry == NULL, "%s is still there", entry->d_name);
        if (unlink(path(entry->d_name)) != 0)
            rmdir(path(entry->d_name));
    }
    if (entries)
        closedir(entries);
    CHECK(rmdir(directory) == 0, "%.400s: %s", directory, strerror(errno));
}

/* -- Files without MPI. Those that say "collective" let all ranks wait for each other. -- */

/* The size of the file in bytes, -1 if there is none. */
static inline long long disk_size(const char *name)
{
    struct stat found;
    return stat(path(name), &found) == 0 ? (long long)found.st_size : -1;
}

/* Reads bytes of the file into memory that is zero elsewhere; returns how many there were. */
static inline size_t disk_read(const char *name, long long offset, void *bytes, size_t length)
{
    size_t done = 0;
    memset(bytes, 0, length);
    int file = open(path(name), O_RDONLY);
    while (file >= 0 && done < length) {
        ssize_t now = pread(file, (char *)bytes + done, length - done, (off_t)(offset + (long long)done));
        if (now == 0 || (now < 0 && errno != EINTR))
            break;
        done += now > 0 ? (size_t)now : 0;
    }
    if (file >= 0)
        close(file);
    return done;
}

/* Makes a file with these bytes. Collective. */
static inline void disk_write(const char *name, const void *bytes, size_t length)
{
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        int file = open(path(name), O_WRONLY | O_CREAT | O_TRUNC, 0644);
        ssize_t written = file >= 0 ? pwrite(file, bytes, length, 0) : -1;
        CHECK(written == (ssize_t)length, "cannot write %s: %s", name, strerror(errno));
        if (file >= 0)
            close(file);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Removes the file, if it is there. Collective. */
static inline void disk_remove(const char *name)
{
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        unlink(path(name));
    MPI_Barrier(MPI_COMM_WORLD);
}

/* -- Shorter forms of what every part does. -- */

static inline MPI_File open_in(MPI_Comm comm, const char *name, int amode)
{
    MPI_File file = MPI_FILE_NULL;
    WORKS(MPI_File_open(comm, path(name), amode, MPI_INFO_NULL, &file));
    return file;
}

/* Opens a new file of all ranks, for reading and writing. Collective. */
static inline MPI_File open_new(const char *name)
{
    disk_remove(name);
    return open_in(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR);
}

/* Closes the file and removes it. Collective. */
static inline void close_and_remove(MPI_File *file, const char *name)
{
    WORKS(MPI_File_close(file));
    CHECK(*file == MPI_FILE_NULL, "not null after MPI_File_close");
    disk_remove(name);
}

static inline int count_of(const MPI_Status *status, MPI_Datatype type)
{
    int count = -1;
    MPI_Get_count(status, type, &count);
    return count;
}

static inline MPI_Offset position_of(MPI_File file)
{
    MPI_Offset position = -1;
    WORKS(MPI_File_get_position(file, &position));
    return position;
}

static inline MPI_Offset shared_position_of(MPI_File file)
{
    MPI_Offset position = -1;
    WORKS(MPI_File_get_position_shared(file, &position));
    return position;
}

static inline MPI_Offset size_of_file(MPI_File file)
{
    MPI_Offset size = -1;
    WORKS(MPI_File_get_size(file, &size));
    return size;
}

#endif
