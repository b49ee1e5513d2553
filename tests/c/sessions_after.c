/* A session is opened for the first time when the World Model is over (MPI-5.0 section 11.3). */
#include "use_session.h"

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    STORY("11.2.2 the World Model ends");
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    STORY("11.3 sessions after Finalize");
    for (int round = 0; round < 2; round++)
        use_session("after", ranks);
    int flag;
    MPI_Finalized(&flag);
    CHECK_EQUAL(flag, 1);
    return failures > 0;
}
