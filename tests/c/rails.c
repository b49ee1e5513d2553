/*
 * Traffic between two ranks for some seconds, while somebody breaks the network under it: bulk data one way, or small messages
 * there and back. Says "under way" once it is, and checks what arrives.
 */
#include "check.h"

enum { BULK_BYTES = 1 << 20, SMALL_BYTES = 8, STEP = 509, WARM = 5, ROUNDS_MIN = 10, TAG_MORE = 1, TAG_LAST = 2 };

static unsigned char content(int i, int round)
{
    return (unsigned char)(i * 7 + round);
}

static void send_rounds(unsigned char *buffer, int bytes, double seconds, int answered)
{
    double begin = MPI_Wtime();
    for (int round = 0, tag = TAG_MORE; tag == TAG_MORE; round++) {
        if (MPI_Wtime() - begin > seconds && round >= ROUNDS_MIN)
            tag = TAG_LAST;
        for (int i = 0; i < bytes; i += STEP)
            buffer[i] = content(i, round);
        MPI_Send(buffer, bytes, MPI_BYTE, 1, tag, MPI_COMM_WORLD);
        if (answered)
            MPI_Recv(buffer, bytes, MPI_BYTE, 1, TAG_MORE, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (round == WARM) {
            printf("under way\n");
            fflush(stdout);
        }
    }
}

static void receive_rounds(unsigned char *buffer, int bytes, int answers)
{
    MPI_Status status;
    int round = 0;
    do {
        MPI_Recv(buffer, bytes, MPI_BYTE, 0, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        for (int i = 0; i < bytes; i += STEP)
            CHECK(buffer[i] == content(i, round), "byte %d of round %d is %d", i, round, buffer[i]);
        if (answers)
            MPI_Send(buffer, bytes, MPI_BYTE, 0, TAG_MORE, MPI_COMM_WORLD);
        round++;
    } while (status.MPI_TAG != TAG_LAST);
    CHECK(round > ROUNDS_MIN, "only %d rounds", round);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    int answered = argc > 1 && strcmp(argv[1], "small") == 0;
    double seconds = argc > 2 ? atof(argv[2]) : 1;
    int bytes = answered ? SMALL_BYTES : BULK_BYTES;
    unsigned char *buffer = malloc(bytes);
    STORY(answered ? "small messages there and back" : "bulk data one way");
    if (rank == 0)
        send_rounds(buffer, bytes, seconds, answered);
    if (rank == 1)
        receive_rounds(buffer, bytes, answered);
    free(buffer);
    return end();
}
