/*
 * A rank that is blocked in MPI_Recv for ten seconds, and then prints the processor time that it has used
 * meanwhile. No rank calls MPI in between: the other rank sleeps, and computes nothing.
 */
#include "check.h"

#include <sys/resource.h>
#include <time.h>

enum { BLOCKED_SECONDS = 10, USED_MS_MAX = 100, READY = 1, DONE = 2 };

static double processor_ms(void)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1e3 + (used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-3;
}

/* With the word "awake" the processor time is printed, and not judged: there is nothing to sleep on. */
int main(int argc, char **argv)
{
    int word = 0;
    begin(&argc, &argv);
    STORY("blocked in MPI_Recv");
    if (rank == 0) {
        MPI_Recv(&word, 1, MPI_INT, 1, READY, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        double before = processor_ms();
        struct timespec left = {BLOCKED_SECONDS, 0};
        while (nanosleep(&left, &left) != 0)
            ;
        printf("rank 0 has used %.1f ms while it slept\n", processor_ms() - before);
        MPI_Send(&word, 1, MPI_INT, 1, DONE, MPI_COMM_WORLD);
    }
    if (rank == 1) {
        MPI_Send(&word, 1, MPI_INT, 0, READY, MPI_COMM_WORLD);
        double before = processor_ms(), began = MPI_Wtime();
        MPI_Recv(&word, 1, MPI_INT, 0, DONE, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        double used = processor_ms() - before, blocked = MPI_Wtime() - began;
        printf("rank 1 has used %.1f ms while it was blocked for %.1f s\n", used, blocked);
        CHECK(blocked > BLOCKED_SECONDS - 1, "blocked for %.1f s only", blocked);
        if (argc < 2)
            CHECK(used < USED_MS_MAX, "%.1f ms of processor time", used);
    }
    return end();
}
