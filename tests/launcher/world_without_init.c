/* Opens a session, and calls MPI on a communicator of the World Model, which is not there (MPI-5.0 §11.2). */
#include <mpi.h>
#include <string.h>

int main(int argc, char **argv)
{
    int rank;
    MPI_Session session;
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
    MPI_Comm_rank(argc > 1 && !strcmp(argv[1], "self") ? MPI_COMM_SELF : MPI_COMM_WORLD, &rank);
    MPI_Session_finalize(&session);
    return 0;
}
