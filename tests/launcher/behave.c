/*
 * A program that behaves as it is told, for the tests of mpiexec: `behave WHAT [RANK] [NUMBER]`. All ranks
 * start MPI; then the named rank does it, and the others wait for a message that never comes.
 */
#define _DEFAULT_SOURCE
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, ranks;

static void wait_for_ever(void)
{
    int value;
    MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 4711, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    exit(99);
}

/* Another process kills this one while it is inside MPI_Recv. */
static void die_inside_receive(int number)
{
    pid_t self = getpid();
    if (fork() == 0) {
        usleep(300000);
        kill(self, number);
        _exit(0);
    }
    wait_for_ever();
}

/* Writes long lines in pieces: mpiexec must not mix those of different ranks. */
static void write_lines(int lines)
{
    for (int line = 0; line < lines; line++) {
        printf("<%d:%d:", rank, line);
        fflush(stdout);
        for (int i = 0; i < 40; i++) {
            printf("%c%c%c%c%c", 'a' + rank % 26, 'a' + rank % 26, 'a' + rank % 26, 'a' + rank % 26, 'a' + rank % 26);
            if (i % 8 == 0)
                fflush(stdout);
        }
        printf(">\n");
    }
    fflush(stdout);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "nothing";
    int who = argc > 2 ? atoi(argv[2]) : 0, number = argc > 3 ? atoi(argv[3]) : 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (strcmp(what, "lines") == 0) {
        write_lines(who);
    } else if (strcmp(what, "barriers") == 0) {
        for (int i = 0; i < who; i++)
            MPI_Barrier(MPI_COMM_WORLD);
    } else if (strcmp(what, "print") == 0) { /* an environment variable and the working directory */
        char directory[4096];
        const char *value = getenv(argv[2]);
        printf("rank %d: %s=%s in %s\n", rank, argv[2], value ? value : "(not set)", getcwd(directory, sizeof directory));
    } else if (strcmp(what, "input") == 0) { /* rank 0 reads so many bytes of standard input */
        int all = 0;
        while (rank == 0 && all < who && getchar() != EOF)
            all++;
        if (rank == 0)
            printf("rank 0 read %d bytes\n", all);
        MPI_Barrier(MPI_COMM_WORLD);
    } else if (strcmp(what, "exit") == 0) { /* after MPI_Finalize */
        MPI_Finalize();
        return rank == who ? number : 0;
    } else {
        MPI_Barrier(MPI_COMM_WORLD);
        if (strcmp(what, "all-leave") == 0) { /* all of them without MPI_Finalize; rank `who` later than the others */
            usleep(rank == who ? 1000 * number : 0);
            exit(0);
        }
        if (rank == 0) {
            printf("ready\n");
            fflush(stdout);
        }
        if (rank != who || strcmp(what, "hang") == 0)
            wait_for_ever();
        if (strcmp(what, "signal") == 0)
            raise(number);
        else if (strcmp(what, "signal-inside") == 0)
            die_inside_receive(number);
        else if (strcmp(what, "abort") == 0)
            MPI_Abort(MPI_COMM_WORLD, number);
        else if (strcmp(what, "leave") == 0) /* without MPI_Finalize */
            exit(number);
        fprintf(stderr, "behave: %s is not known\n", what);
        return 98;
    }
    MPI_Finalize();
    return 0;
}
