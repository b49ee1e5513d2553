/* Every procedure that is not implemented, from the list that the generator makes (unimplemented_calls.h): a
 * process that calls it comes to an end.
 *
 * Where errors are returned, the error has the class and names the procedure. Where errors are fatal, the
 * process ends, whichever thread calls. Procedures of chapter 11 end the process too when another thread than
 * the main one calls them, because the main thread then waits for processes that never come. Each end takes a
 * process of its own: a child, forked before MPI starts. */
#include "check.h"
#include <pthread.h>
#include <sys/wait.h>

struct call {
    const char *name;
    int chapter;
    int (*call)(void);
};

#include "unimplemented_calls.h"

enum { COUNT = sizeof calls / sizeof calls[0], CHILD_SECONDS = 20, PROCESSES = 11, RETURNED = 99 };

static const struct call *called;
static int code;

static void *call_it(void *unused)
{
    (void)unused;
    code = called->call();
    return NULL;
}

/* A child that makes the call: its main thread calls by itself, or waits for another thread that does. */
static void be_child(const struct call *call, int is_fatal, int by_thread)
{
    int level;
    alarm(CHILD_SECONDS);
    MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level);
    MPI_Errhandler handler = is_fatal ? MPI_ERRORS_ARE_FATAL : MPI_ERRORS_RETURN;
    MPI_Comm_set_errhandler(MPI_COMM_SELF, handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    MPI_File_set_errhandler(MPI_FILE_NULL, handler);
    called = call;
    if (by_thread) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, call_it, NULL) != 0)
            _exit(98);
        pthread_join(thread, NULL);
    } else
        call_it(NULL);
    _exit(RETURNED);
}

/* Checks that the process ended by itself, with a status that is no success, and printed the reason in one
 * line. */
static void must_end(const struct call *call, int is_fatal, int by_thread)
{
    char said[2000] = "", expected[200];
    size_t length = 0;
    int ends[2], status = 0;
    ssize_t count;
    if (pipe(ends) != 0)
        exit(97);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], 2);
        close(ends[0]);
        close(ends[1]);
        be_child(call, is_fatal, by_thread);
    }
    close(ends[1]);
    while ((count = read(ends[0], said + length, sizeof said - 1 - length)) > 0)
        length += (size_t)count;
    close(ends[0]);
    waitpid(child, &status, 0);
    snprintf(expected, sizeof expected, "%s: not implemented yet", call->name);
    int is_end = WIFEXITED(status) && WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != RETURNED;
    CHECK(is_end, "%s, %s, %s thread: status %#x, said \"%.300s\"", call->name, is_fatal ? "fatal" : "returned",
          by_thread ? "another" : "the main", status, said);
    CHECK(strstr(said, expected) && strchr(said, '\n') == said + length - 1, "%s said \"%.300s\"", call->name, said);
}

static void must_return(const struct call *call)
{
    int class = -1, length = 0;
    char text[MPI_MAX_ERROR_STRING] = "";
    MPI_Error_class(code, &class);
    MPI_Error_string(code, text, &length);
    CHECK(class == MPI_ERR_UNSUPPORTED_OPERATION, "%s gave class %d", call->name, class);
    CHECK(strstr(text, call->name), "%s is explained by \"%s\"", call->name, text);
}

static const struct call *find(const char *name)
{
    int i = 0;
    while (i < COUNT - 1 && strcmp(calls[i].name, name) != 0)
        i++;
    return &calls[i];
}

/* Acts as MPIPoolExecutor does: another thread asks for processes, the main thread waits for their work, and
 * the other ranks wait for the main thread. */
static int spawn_in_a_thread(int argc, char **argv)
{
    pthread_t thread;
    begin_threads(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    called = find("MPI_Comm_spawn");
    if (rank == 0 && pthread_create(&thread, NULL, call_it, NULL) == 0)
        for (;;)
            pause();
    MPI_Barrier(MPI_COMM_WORLD);
    return end();
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "spawn-in-a-thread") == 0)
        return spawn_in_a_thread(argc, argv);
    watch_the_clock();
    STORY("processes that end");
    for (int i = 0; i < COUNT; i++) {
        must_end(&calls[i], 1, 0);
        must_end(&calls[i], 1, 1);
        if (calls[i].chapter == PROCESSES)
            must_end(&calls[i], 0, 1);
    }

    begin_threads(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN);
    STORY("errors that are returned");
    for (int i = 0; i < COUNT; i++) {
        called = &calls[i];
        call_it(NULL);
        must_return(called);
        if (called->chapter == PROCESSES)
            continue;
        pthread_t thread;
        CHECK_EQUAL(pthread_create(&thread, NULL, call_it, NULL), 0);
        pthread_join(thread, NULL);
        must_return(called);
    }
    printf("%d procedures that are not implemented come to an end\n", COUNT);
    return end();
}
