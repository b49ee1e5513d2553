/*
 * What a library opens late between two processes: for programs that count descriptors or memory, and begin
 * to count afterwards.
 */
#ifndef WEFT_TESTS_ACQUAINT_H
#define WEFT_TESTS_ACQUAINT_H

#include "check.h"

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
