/* A session is opened for the first time when the World Model is over (MPI-5.0 section 11.3). */
#include "check.h"

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    STORY("11.2.2 the World Model ends");
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    STORY("11.3 sessions after Finalize");
    for (int round = 0; round < 2; round++) {
        MPI_Session session;
        MPI_Group group;
        MPI_Comm comm;
        MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
        MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
        MPI_Comm_create_from_group(group, "after", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
        MPI_Group_free(&group);
        int total = 0, one = 1;
        MPI_Allreduce(&one, &total, 1, MPI_INT, MPI_SUM, comm);
        CHECK_EQUAL(total, ranks);
        MPI_Comm_free(&comm);
        MPI_Session_finalize(&session);
    }
    int flag;
    MPI_Finalized(&flag);
    CHECK_EQUAL(flag, 1);
    return failures > 0;
}
