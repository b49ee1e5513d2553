/* Many messages that the kernel copies between two ranks: nonblocking, above the eager limit, and one at a
 * time. */
#include "check.h"

enum { BYTES = 128 << 10, MESSAGES = 1000 };

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    unsigned char *bytes = memory(BYTES);
    STORY("messages that the kernel copies");
    for (int i = 0; i < MESSAGES; i++) {
        MPI_Request request;
        if (rank == 0) {
            fill(bytes, BYTES, 0, i);
            MPI_Isend(bytes, BYTES, MPI_BYTE, 1, i, MPI_COMM_WORLD, &request);
        } else {
            MPI_Irecv(bytes, BYTES, MPI_BYTE, 0, i, MPI_COMM_WORLD, &request);
        }
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        if (rank == 1)
            CHECK_EQUAL(wrong_bytes(bytes, BYTES, 0, i), 0);
    }
    free(bytes);
    return end();
}
