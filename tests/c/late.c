/*
 * Two ranks that send nothing to each other until a file exists: `late FILE [BYTES]`. Changes to their
 * network before that happen before their first connection. A rank prints "idle" when it waits. Then a
 * message goes there and back, in fixed memory or in memory that is registered for it, depending on its size.
 */
#include "check.h"
#include <sys/stat.h>

enum { BYTES = 8, LOOK_US = 20000, TAG = 3 };

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    STORY("a message after a while");
    const char *file = argc > 1 ? argv[1] : "/dev/null";
    size_t bytes = argc > 2 ? strtoul(argv[2], NULL, 10) : BYTES;
    unsigned char *buffer = memory(bytes);
    if (rank == 0) {
        struct stat found;
        printf("idle\n");
        fflush(stdout);
        while (stat(file, &found) != 0)
            usleep(LOOK_US);
        fill(buffer, bytes, 0, TAG);
        MPI_Send(buffer, (int)bytes, MPI_BYTE, 1, TAG, MPI_COMM_WORLD);
        memset(buffer, 0, bytes);
        MPI_Recv(buffer, (int)bytes, MPI_BYTE, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK_EQUAL(wrong_bytes(buffer, bytes, 1, TAG), 0);
        printf("there and back\n");
    } else if (rank == 1) {
        MPI_Recv(buffer, (int)bytes, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK_EQUAL(wrong_bytes(buffer, bytes, 0, TAG), 0);
        fill(buffer, bytes, 1, TAG);
        MPI_Send(buffer, (int)bytes, MPI_BYTE, 0, TAG, MPI_COMM_WORLD);
    }
    free(buffer);
    return end();
}
