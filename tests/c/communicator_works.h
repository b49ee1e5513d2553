/* Checks that a communicator works, and that it belongs to its members only. */
#include "check.h"

/* Every rank gets the value that its neighbour sent on this communicator, and the sum is that of its members.
 */
static void check_works(MPI_Comm comm, int value)
{
    int size, own, total, got = -1, mine = value;
    MPI_Comm_size(comm, &size);
    MPI_Comm_rank(comm, &own);
    MPI_Sendrecv(&mine, 1, MPI_INT, (own + 1) % size, 7, &got, 1, MPI_INT, (own + size - 1) % size, 7, comm,
                 MPI_STATUS_IGNORE);
    CHECK_EQUAL(got, value);
    MPI_Allreduce(&mine, &total, 1, MPI_INT, MPI_SUM, comm);
    CHECK_EQUAL(total, size * value);
}
