/* Sessions that are opened when the World Model is over, or by some processes more often than by others (MPI-5.0 section 11.3). */
#include "check.h"

static void use_session(int expected)
{
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm;
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, "later", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
    MPI_Group_free(&group);
    int total = 0, one = 1;
    MPI_Allreduce(&one, &total, 1, MPI_INT, MPI_SUM, comm);
    CHECK_EQUAL(total, expected);
    MPI_Comm_free(&comm);
    MPI_Session_finalize(&session);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    STORY("11.3 only rank 0 opens sessions beside the World Model");
    for (int round = 0; rank == 0 && round < 3; round++) {
        MPI_Session session;
        MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
        MPI_Session_finalize(&session);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    STORY("11.3 all open sessions after Finalize");
    for (int round = 0; round < 3; round++)
        use_session(ranks);
    return failures > 0;
}
