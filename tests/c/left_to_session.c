/* Operations that the program has left to MPI are complete when the last session is finalized (MPI-5.0
 * §3.7.3, §11.3.1).
 *
 *   left_to_session BYTES */
#include "check.h"

int main(int argc, char **argv)
{
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm;
    MPI_Request request;
    int bytes = argc > 1 ? atoi(argv[1]) : 40000;
    watch_the_clock();
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, "left", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    unsigned char *out = memory((size_t)bytes), *in = memory((size_t)bytes);
    fill(out, (size_t)bytes, rank, 1);
    MPI_Irecv(in, bytes, MPI_BYTE, before, 1, comm, &request);
    MPI_Request_free(&request);
    MPI_Barrier(comm);
    /* The last rank sends late: others are in MPI_Session_finalize by then. */
    if (rank == ranks - 1)
        usleep(200000);
    MPI_Isend(out, bytes, MPI_BYTE, next, 1, comm, &request);
    MPI_Request_free(&request);
    MPI_Comm_free(&comm);
    MPI_Group_free(&group);
    STORY("§11.3.1 the last session");
    MPI_Session_finalize(&session);
    CHECK_EQUAL(wrong_bytes(in, (size_t)bytes, before, 1), 0);
    return failures > 0;
}
