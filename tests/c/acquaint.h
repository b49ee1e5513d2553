/*
 * What a library opens late between two processes, and the memory that a library keeps: for programs that
 * count descriptors or memory, and begin to count afterwards.
 */
#ifndef WEFT_TESTS_ACQUAINT_H
#define WEFT_TESTS_ACQUAINT_H

#include "check.h"

/* Fills the memory that a library keeps for messages that come before their receives. That memory grows with
 * the most messages that ever waited at once, up to a limit: Weft keeps 64 buffers for messages of at most
 * 1 KiB, and 16 for messages of at most 64 KiB. The lengths are the longest of each sort in `kinds.h`.
 * The sender announces the last long messages, because its credit is used up; they take no memory. */
static void fill_caches(void)
{
    enum { MESSAGES = 100, LONGEST = 40000 };
    static const int lengths[] = {1000, LONGEST};
    static unsigned char out[LONGEST], in[LONGEST];
    MPI_Request requests[MESSAGES];
    int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        for (int j = 0; j < MESSAGES; j++) {
            MPI_Isend(out, lengths[i], MPI_BYTE, next, 20, MPI_COMM_WORLD, &requests[j]);
            /* Messages of one sender come in order: behind this one, the long one is there. A sender
             * announces long messages while earlier ones are under way. */
            MPI_Sendrecv(out, 0, MPI_BYTE, next, 21, in, 0, MPI_BYTE, before, 21, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        for (int j = 0; j < MESSAGES; j++)
            MPI_Recv(in, lengths[i], MPI_BYTE, before, 20, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Waitall(MESSAGES, requests, MPI_STATUSES_IGNORE);
    }
}

/* Every pair opens what it opens late: a socket of its own after 64 trains, and a TCP connection. A message
 * of four packets is a train, and never goes by TCP beside UDP. */
static void acquaint(void)
{
    STORY("enough traffic between all pairs");
    enum { TRAINS = 200, TRAIN = 5000, LARGE_MESSAGES = 16, LARGE = 200000 };
    unsigned char *out = memory(LARGE), *in = memory(LARGE);
    for (int distance = 1; distance < ranks; distance++) {
        int to = (rank + distance) % ranks, from = (rank + ranks - distance) % ranks;
        for (int i = 0; i < TRAINS + LARGE_MESSAGES; i++) {
            int length = i < TRAINS ? TRAIN : LARGE;
            MPI_Sendrecv(out, length, MPI_BYTE, to, 0, in, length, MPI_BYTE, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
    }
    free(out);
    free(in);
}

#endif
