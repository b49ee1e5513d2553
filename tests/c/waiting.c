/*
 * A rank that waits leaves its processor to others: it looks around for a moment, then sleeps in the kernel.
 *
 * The last rank comes late to everything. The program does not judge how soon the others hear of it, only the
 * processor time that they have used until then.
 */
#include "check.h"

#include <sys/resource.h>
#include <time.h>

enum { LATE_MS = 250, USED_MS_MAX = 50 };

static double processor_ms(void)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1e3 + (used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-3;
}

static void sleep_late(void)
{
    struct timespec left = {0, LATE_MS * 1000000L};
    while (nanosleep(&left, &left) != 0)
        ;
}

static void in_receive(int last)
{
    int word = 0;
    MPI_Recv(&word, 1, MPI_INT, last, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK_EQUAL(word, 1);
}

static void in_receive_from_anybody(int last)
{
    int word = 0;
    MPI_Status status;
    MPI_Recv(&word, 1, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &status);
    CHECK_EQUAL(word, 1);
    CHECK_EQUAL(status.MPI_SOURCE, last);
}

static void in_probe(int last)
{
    MPI_Probe(last, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    in_receive(last);
}

static void in_waitall(int last)
{
    int words[2] = {0, 0};
    MPI_Request requests[2];
    MPI_Irecv(&words[0], 1, MPI_INT, last, 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(&words[1], 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    CHECK_EQUAL(words[0], 1);
}

static void in_barrier(int last)
{
    (void)last;
    MPI_Barrier(MPI_COMM_WORLD);
}

static void in_allreduce(int last)
{
    int one = 1, sum = 0;
    (void)last;
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK_EQUAL(sum, ranks);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*wait)(int last);
        int collective;
    } waits[] = {
        {"MPI_Recv", in_receive, 0},      {"MPI_Recv from anybody", in_receive_from_anybody, 0},
        {"MPI_Probe", in_probe, 0},       {"MPI_Waitall", in_waitall, 0},
        {"MPI_Barrier", in_barrier, 1},   {"MPI_Allreduce", in_allreduce, 1},
    };
    begin(&argc, &argv);
    for (size_t i = 0; i < sizeof waits / sizeof *waits && ranks > 1; i++) {
        int last = ranks - 1, one = 1;
        STORY(waits[i].name);
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank != last) {
            double used = processor_ms();
            waits[i].wait(last);
            used = processor_ms() - used;
            CHECK(used < USED_MS_MAX, "%.1f ms of processor time in a wait of %d ms", used, LATE_MS);
            continue;
        }
        sleep_late();
        if (waits[i].collective)
            waits[i].wait(last);
        for (int to = 0; to < last && !waits[i].collective; to++)
            MPI_Send(&one, 1, MPI_INT, to, 1, MPI_COMM_WORLD);
    }
    return end();
}
