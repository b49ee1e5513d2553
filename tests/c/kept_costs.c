/* Many messages that the kernel copies between two ranks: long enough for that, and nonblocking. */
#include "check.h"

enum { BYTES = 128 << 10, ROUNDS = 400, WINDOW = 2 };

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    unsigned char *memory_of[WINDOW];
    MPI_Request request[WINDOW];
    STORY("windows of messages that the kernel copies");
    for (int i = 0; i < WINDOW; i++)
        memory_of[i] = memory(BYTES);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < WINDOW; i++) {
            if (rank == 0) {
                fill(memory_of[i], BYTES, 0, round + i);
                MPI_Isend(memory_of[i], BYTES, MPI_BYTE, 1, i, MPI_COMM_WORLD, &request[i]);
            } else {
                MPI_Irecv(memory_of[i], BYTES, MPI_BYTE, 0, i, MPI_COMM_WORLD, &request[i]);
            }
        }
        MPI_Waitall(WINDOW, request, MPI_STATUSES_IGNORE);
        for (int i = 0; rank == 1 && i < WINDOW; i++)
            CHECK_EQUAL(wrong_bytes(memory_of[i], BYTES, 0, round + i), 0);
    }
    for (int i = 0; i < WINDOW; i++)
        free(memory_of[i]);
    return end();
}
