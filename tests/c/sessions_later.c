/* Sessions that are opened when the World Model is over, or by some processes more often than by others
 * (MPI-5.0 section 11.3). */
#include "use_session.h"

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
        use_session("later", ranks);
    return failures > 0;
}
