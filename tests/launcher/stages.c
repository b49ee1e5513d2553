/*
 * A program that says at which stage it is, for tests that kill a part of its job there: started, ready,
 * ending, done.
 */
#define _DEFAULT_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROUNDS = 20, PAUSE_US = 2000, AFTER_US = 30000 };

static void say(const char *stage)
{
    printf("stage %s\n", stage);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    const char *number = getenv("PMI_RANK");
    int rank, sum;
    if (!number || strcmp(number, "0") == 0)
        say("started");
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        say("ready");
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        usleep(PAUSE_US);
    }
    if (rank == 0)
        say("ending");
    MPI_Finalize();
    if (rank == 0)
        say("done");
    usleep(AFTER_US);
    return 0;
}
