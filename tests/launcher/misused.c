/* Programs that end wrongly, which mpiexec or the library must explain: `finalize-early`,
 * `dup-against-split`, `creations` (every call that makes a communicator against every other), `fork`. */
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

enum { DUP, IDUP, CREATE, SPLIT, SPLIT_TYPE, CART, GRAPH, DIST_GRAPH, ADJACENT, INTERCOMM, CREATIONS };

static int make(int which, int rank, int ranks)
{
    int one = 1, none[1] = {0}, size = ranks, periodic = 0, index[64];
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Request request;
    MPI_Group group;
    int code = MPI_SUCCESS;
    memset(index, 0, sizeof index);
    switch (which) {
    case DUP:
        code = MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        break;
    case IDUP:
        code = MPI_Comm_idup(MPI_COMM_WORLD, &comm, &request);
        if (code == MPI_SUCCESS)
            code = MPI_Wait(&request, MPI_STATUS_IGNORE);
        break;
    case CREATE:
        MPI_Comm_group(MPI_COMM_WORLD, &group);
        code = MPI_Comm_create(MPI_COMM_WORLD, group, &comm);
        MPI_Group_free(&group);
        break;
    case SPLIT:
        code = MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &comm);
        break;
    case SPLIT_TYPE:
        code = MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &comm);
        break;
    case CART:
        code = MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &periodic, 1, &comm);
        break;
    case GRAPH:
        code = MPI_Graph_create(MPI_COMM_WORLD, ranks, index, none, 0, &comm);
        break;
    case DIST_GRAPH:
        code = MPI_Dist_graph_create(MPI_COMM_WORLD, 1, &rank, &one, none, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &comm);
        break;
    case ADJACENT:
        code = MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 0, none, MPI_UNWEIGHTED, 0, none, MPI_UNWEIGHTED,
                                              MPI_INFO_NULL, 0, &comm);
        break;
    default:
        /* Only where the others are in another call. */
        code = MPI_Intercomm_create(MPI_COMM_WORLD, 0, MPI_COMM_SELF, 0, 5, &comm);
    }
    return code;
}

/* Each call against each other: all ranks get an error, and the communicator can be used further. */
static void creations(int rank)
{
    int ranks, wrong = 0, class, sum = 0, one = 1;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int a = 0; a < CREATIONS; a++)
        for (int b = 0; b < CREATIONS; b++) {
            /* The nonblocking form counts as the same call. */
            if (a == b || (a == DUP && b == IDUP) || (a == IDUP && b == DUP))
                continue;
            int code = make(rank == ranks / 2 ? a : b, rank, ranks);
            MPI_Error_class(code, &class);
            if (class != MPI_ERR_OTHER) {
                printf("rank %d: creation %d against %d gave class %d\n", rank, a, b, class);
                wrong++;
            }
            MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
            wrong += sum != ranks;
        }
    say(rank, make(rank == 0 ? CART : SPLIT, rank, ranks));
    if (wrong == 0 && rank == 0)
        printf("all creations were told apart\n");
}

/* A child that calls MPI: the call is refused, and the job goes on. */
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
    if (child == 0) {
        int class = MPI_SUCCESS, code = MPI_Barrier(MPI_COMM_WORLD);
        MPI_Error_class(code, &class);
        _exit(class == MPI_ERR_OTHER ? 77 : class);
    }
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
    } else if (!strcmp(what, "creations")) {
        creations(rank);
    } else if (!strcmp(what, "fork")) {
        fork_and_call(rank);
    }
    MPI_Finalize();
    return 0;
}
