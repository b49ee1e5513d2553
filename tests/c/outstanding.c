/*
 * Many large messages outstanding both ways at a time, between all pairs of neighbours, and every byte
 * checked: a packet that the network damages, loses or repeats would show here as a wrong byte, or as a wait
 * that does not end.
 */
#include "check.h"

enum { OUTSTANDING = 24, LONGEST = 400000 };

/* Lengths from a packet to hundreds of packets; every third is small, so that messages and bulk data overtake
 * each other. */
static int length_of(int round, int place)
{
    if (place % 3 == 2)
        return 1 + (round * 131 + place * 977) % 3000;
    return 20000 + (round * 7919 + place * 15013) % (LONGEST - 20000);
}

static void exchange(int round, int peer, unsigned char **out, unsigned char **in)
{
    MPI_Request request[2 * OUTSTANDING];
    MPI_Status status[2 * OUTSTANDING];
    for (int i = 0; i < OUTSTANDING; i++) {
        memset(in[i], 0, length_of(round, i));
        MPI_Irecv(in[i], LONGEST, MPI_BYTE, peer, i, MPI_COMM_WORLD, &request[i]);
    }
    for (int i = 0; i < OUTSTANDING; i++) {
        fill(out[i], length_of(round, i), rank, round * OUTSTANDING + i);
        MPI_Isend(out[i], length_of(round, i), MPI_BYTE, peer, i, MPI_COMM_WORLD, &request[OUTSTANDING + i]);
    }
    MPI_Waitall(2 * OUTSTANDING, request, status);
    for (int i = 0; i < OUTSTANDING; i++) {
        int count;
        MPI_Get_count(&status[i], MPI_BYTE, &count);
        CHECK_EQUAL(count, length_of(round, i));
        CHECK_EQUAL(wrong_bytes(in[i], length_of(round, i), peer, round * OUTSTANDING + i), 0);
    }
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    int rounds = argc > 1 ? atoi(argv[1]) : 6;
    /* Halves of the job talk to each other; they are on different hosts where there are two. */
    int peer = (rank + ranks / 2) % ranks;
    if (ranks % 2 == 0) {
        unsigned char *out[OUTSTANDING], *in[OUTSTANDING];
        for (int i = 0; i < OUTSTANDING; i++) {
            out[i] = memory(LONGEST);
            in[i] = memory(LONGEST);
        }
        STORY("many large messages outstanding both ways");
        for (int round = 0; round < rounds; round++)
            exchange(round, peer, out, in);
        for (int i = 0; i < OUTSTANDING; i++) {
            free(out[i]);
            free(in[i]);
        }
    }
    return end();
}
