/* A rank sends as many messages of 8 bytes as the first argument says (a million) before the other rank asks
 * for any of them. Programs do so, and other libraries let them (MPI-5.0 §3.5 promises nothing here). Rank 1
 * first asks for the last message, so that all others are unexpected. */
#include "check.h"

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    long count = argc > 1 ? atol(argv[1]) : 1000000;
    int64_t value;
    MPI_Status status;
    STORY("a flood of unexpected messages");
    if (rank == 0 && ranks > 1) {
        for (value = 0; value < count; value++)
            MPI_Send(&value, 1, MPI_INT64_T, 1, (int)(value % 3), MPI_COMM_WORLD);
        MPI_Send(&count, 1, MPI_LONG, 1, 7, MPI_COMM_WORLD);
    } else if (rank == 1) {
        long told = 0;
        MPI_Recv(&told, 1, MPI_LONG, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK_EQUAL(told, count);
        STORY("what was unexpected, in its order");
        for (int64_t from = 0; from < count; from++) {
            MPI_Recv(&value, 1, MPI_INT64_T, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
            CHECK_EQUAL(value, from);
            CHECK_EQUAL(status.MPI_TAG, from % 3);
        }
    }
    STORY("what is sent afterwards");
    if (rank < 2 && ranks > 1) {
        int other = 1 - rank, got = -1;
        MPI_Sendrecv(&rank, 1, MPI_INT, other, 8, &got, 1, MPI_INT, other, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK_EQUAL(got, other);
    }
    return end();
}
