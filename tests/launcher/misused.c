/* Programs that end wrongly, of which mpiexec or the library must say how: `finalize-early`, `dup-against-split`, `fork`. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void say(int rank, int code)
{
    char text[MPI_MAX_ERROR_STRING];
    int length;
    MPI_Error_string(code, text, &length);
    printf("rank %d got: %s\n", rank, text);
    fflush(stdout);
}

/* A child that calls MPI: it is refused, and the job goes on. */
static void fork_and_call(int rank)
{
    pid_t child = fork();
    if (child == 0) {
        MPI_Barrier(MPI_COMM_WORLD);
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    child = fork();
    if (child == 0)
        _exit(MPI_Barrier(MPI_COMM_WORLD) == MPI_SUCCESS ? 0 : 77);
    int other = 0;
    waitpid(child, &other, 0);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        printf("children ended with %d and %d\n", WEXITSTATUS(status), WEXITSTATUS(other));
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Barrier(MPI_COMM_WORLD);
    if (!strcmp(what, "finalize-early")) {
        if (rank > 0)
            MPI_Barrier(MPI_COMM_WORLD);
    } else if (!strcmp(what, "dup-against-split")) {
        MPI_Comm comm;
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        say(rank, rank == 0 ? MPI_Comm_dup(MPI_COMM_WORLD, &comm) : MPI_Comm_split(MPI_COMM_WORLD, 0, rank, &comm));
    } else if (!strcmp(what, "fork")) {
        fork_and_call(rank);
    }
    MPI_Finalize();
    return 0;
}
