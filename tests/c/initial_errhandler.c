/*
 * The error handler with which a program begins (MPI-5.0 section 9.3), by `mpiexec -initial-errhandler` and
 * by the info key of a spawn: `initial_errhandler NAME [NAME-OF-CHILDREN]`. The program begins with the error
 * handler NAME, and spawns itself with the other one.
 */
#include "check.h"

static MPI_Errhandler named(const char *name)
{
    if (!strcmp(name, "mpi_errors_return"))
        return MPI_ERRORS_RETURN;
    return !strcmp(name, "mpi_errors_abort") ? MPI_ERRORS_ABORT : MPI_ERRORS_ARE_FATAL;
}

static void begins_with(MPI_Comm communicator, const char *name)
{
    MPI_Errhandler found;
    CHECK_EQUAL(MPI_Comm_get_errhandler(communicator, &found), MPI_SUCCESS);
    CHECK(found == named(name), "the error handler is not %s", name);
    MPI_Errhandler_free(&found);
}

int main(int argc, char **argv)
{
    MPI_Comm parent, children;
    begin(&argc, &argv);
    STORY("9.3 the initial error handler");
    begins_with(MPI_COMM_WORLD, argv[1]);
    begins_with(MPI_COMM_SELF, argv[1]);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) {
        begins_with(parent, argv[1]);
        MPI_Comm_disconnect(&parent);
    } else if (argc > 2) {
        MPI_Info info;
        char *words[] = {argv[2], NULL};
        MPI_Info_create(&info);
        MPI_Info_set(info, "mpi_initial_errhandler", argv[2]);
        CHECK_EQUAL(MPI_Comm_spawn(argv[0], words, 2, info, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE), MPI_SUCCESS);
        MPI_Info_free(&info);
        MPI_Comm_disconnect(&children);
    }
    if (!strcmp(argv[1], "mpi_errors_return"))
        CHECK(MPI_Send(NULL, 0, MPI_INT, ranks, 0, MPI_COMM_WORLD) != MPI_SUCCESS, "there is no such rank");
    return end();
}
