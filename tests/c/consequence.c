/*
 * One rank cannot do its part of a collective call, and its error handler takes its time before it ends the
 * job. The other ranks have errors because of that rank, and MPI_ERRORS_ARE_FATAL. The job must end as the
 * rank with the cause ends it: `consequence CALL`, with the code CAUSE.
 */
#include "check.h"

enum { CAUSE = 77, HANDLER_MICROSECONDS = 100000, ITEMS = 50000 };

static int fails;
static MPI_Info freed_info;

static void take_time(MPI_Comm *comm, int *code, ...)
{
    (void)code;
    usleep(HANDLER_MICROSECONDS);
    MPI_Abort(*comm, CAUSE);
}

static void file_takes_time(MPI_File *file, int *code, ...)
{
    (void)file;
    take_time(&(MPI_Comm){MPI_COMM_WORLD}, code);
}

static void window_takes_time(MPI_Win *win, int *code, ...)
{
    (void)win;
    take_time(&(MPI_Comm){MPI_COMM_WORLD}, code);
}

static int deletion_fails(MPI_Win win, int key, void *value, void *extra)
{
    (void)win, (void)key, (void)value, (void)extra;
    return fails ? MPI_ERR_OTHER : MPI_SUCCESS;
}

/* A message is larger than the rank's memory for it, and the rank hands nothing on. */
static void allgather(void)
{
    int *all = malloc((size_t)ITEMS * ranks * sizeof *all), *own = calloc(ITEMS, sizeof *own);
    MPI_Allgather(own, ITEMS, MPI_INT, all, fails ? 1 : ITEMS, MPI_INT, MPI_COMM_WORLD);
    free(all);
    free(own);
}

static void create(void)
{
    MPI_Comm copy;
    MPI_Comm_dup_with_info(MPI_COMM_WORLD, fails ? freed_info : MPI_INFO_NULL, &copy);
}

static void connect(void)
{
    MPI_Comm inter;
    MPI_Comm_connect("no port", MPI_INFO_NULL, ranks - 1, MPI_COMM_WORLD, &inter);
}

static void open_file(void)
{
    MPI_File file;
    MPI_Errhandler handler;
    MPI_File_create_errhandler(file_takes_time, &handler);
    MPI_File_set_errhandler(MPI_FILE_NULL, fails ? handler : MPI_ERRORS_ARE_FATAL);
    MPI_File_open(MPI_COMM_WORLD, "consequence.bin", fails ? 0 : MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
}

static void open_window(void)
{
    int *base;
    MPI_Win win;
    MPI_Win_allocate(fails ? -1 : 4, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
}

static void close_window(void)
{
    int value = 0, keyval;
    MPI_Win win;
    MPI_Errhandler handler;
    MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, deletion_fails, &keyval, NULL);
    MPI_Win_create(&value, sizeof value, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_set_attr(win, keyval, NULL);
    MPI_Win_create_errhandler(window_takes_time, &handler);
    MPI_Win_set_errhandler(win, fails ? handler : MPI_ERRORS_ARE_FATAL);
    MPI_Win_free(&win);
}

static const struct {
    const char *name;
    void (*call)(void);
} calls[] = {
    {"allgather", allgather}, {"create", create},           {"connect", connect},
    {"open-file", open_file}, {"open-window", open_window}, {"close-window", close_window},
};

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    fails = rank == ranks - 1;
    MPI_Errhandler handler;
    MPI_Comm_create_errhandler(take_time, &handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, fails ? handler : MPI_ERRORS_ARE_FATAL);
    MPI_Info_create(&freed_info);
    MPI_Info copy = freed_info;
    MPI_Info_free(&copy);
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++)
        if (strcmp(argv[1], calls[i].name) == 0)
            calls[i].call();
    CHECK(0, "%s has ended without an error", argv[1]);
    return end();
}
