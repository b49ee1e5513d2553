/* A session that is opened, used and closed: a communicator of the whole world's process set, and a sum over
 * it (MPI-5.0 section 11.3). */
#include "check.h"

/* `name` is that of the communicator; `expected`: processes in it. */
static void use_session(const char *name, int expected)
{
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm;
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, name, MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
    MPI_Group_free(&group);
    int total = 0, one = 1;
    MPI_Allreduce(&one, &total, 1, MPI_INT, MPI_SUM, comm);
    CHECK_EQUAL(total, expected);
    MPI_Comm_free(&comm);
    MPI_Session_finalize(&session);
}
