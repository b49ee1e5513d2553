/*
 * traffic FILE: checked messages of all sizes in all ways, until FILE exists. Meanwhile another program
 * attacks the job. The memory that the job takes must not depend on the attack. Rank 0 prints "warm" once the
 * job has all that it opens late.
 */
#include "../c/acquaint.h"
#include "../c/check.h"
#include <sys/resource.h>

enum {
    LONGEST = 1 << 20,
    ROUNDS_WARM = 64,        /* before memory is compared */
    GROWTH_KIB_MAX = 16384,  /* growth of the largest resident set since the job was warm */
    SECONDS_MAX = 150,
};

static unsigned next_random = 1;

static unsigned below(unsigned bound)
{
    next_random = next_random * 1103515245u + 12345u;
    return (next_random >> 8) % bound;
}

static long peak_kib(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

static void exchange(unsigned char *out, unsigned char *in, int round)
{
    static const int limit[] = {0, 8, 64, 1500, 20000, 70000, LONGEST};
    STORY("messages to the neighbours");
    int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks, count;
    /* All ranks draw the same numbers. */
    int length = (int)below((unsigned)limit[below(7)] + 1), tag = round % 1000;
    MPI_Request request[2];
    MPI_Status status[2];
    fill(out, (size_t)length, rank, tag);
    memset(in, 0, (size_t)length);
    MPI_Irecv(in, LONGEST, MPI_BYTE, previous, tag, MPI_COMM_WORLD, &request[0]);
    if (below(2))
        MPI_Isend(out, length, MPI_BYTE, next, tag, MPI_COMM_WORLD, &request[1]);
    else
        MPI_Issend(out, length, MPI_BYTE, next, tag, MPI_COMM_WORLD, &request[1]);
    MPI_Waitall(2, request, status);
    MPI_Get_count(&status[0], MPI_BYTE, &count);
    CHECK_EQUAL(count, length);
    CHECK_EQUAL(wrong_bytes(in, (size_t)length, previous, tag), 0);
}

static void unexpected(int round)
{
    STORY("messages that wait for their receives");
    enum { MESSAGES = 200 };
    int other = rank ^ 1;
    if (other >= ranks)
        return;
    for (int i = 0; i < MESSAGES; i++) {
        int value = round + i;
        MPI_Send(&value, 1, MPI_INT, other, i, MPI_COMM_WORLD);
    }
    for (int i = MESSAGES; i-- > 0;) {
        int value = -1;
        MPI_Recv(&value, 1, MPI_INT, other, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK_EQUAL(value, round + i);
    }
}

static void together(unsigned char *bytes, int round)
{
    STORY("collectives");
    long long mine = (long long)rank * round, sum = -1;
    MPI_Allreduce(&mine, &sum, 1, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
    CHECK_EQUAL(sum, (long long)round * ranks * (ranks - 1) / 2);
    int root = round % ranks, length = (int)below(LONGEST);
    if (rank == root)
        fill(bytes, (size_t)length, root, round);
    MPI_Bcast(bytes, length, MPI_BYTE, root, MPI_COMM_WORLD);
    CHECK_EQUAL(wrong_bytes(bytes, (size_t)length, root, round), 0);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    alarm(SECONDS_MAX);
    if (argc < 2) {
        fprintf(stderr, "usage: traffic FILE\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    unsigned char *out = memory(LONGEST), *in = memory(LONGEST);
    long warm = 0;
    int round = 0, more = 1;
    acquaint();
    for (; more || round < ROUNDS_WARM; round++) {
        exchange(out, in, round);
        if (round % 8 == 0)
            unexpected(round);
        if (round % 4 == 0)
            together(in, round);
        if (round == ROUNDS_WARM) {
            warm = peak_kib();
            if (rank == 0) {
                printf("warm\n");
                fflush(stdout);
            }
        }
        more = rank == 0 && access(argv[1], F_OK) != 0;
        MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    STORY("memory");
    long growth = warm ? peak_kib() - warm : 0;
    CHECK(growth <= GROWTH_KIB_MAX, "it grew by %ld KiB from %ld", growth, warm);
    if (rank == 0)
        printf("%d rounds, %ld KiB more than %ld\n", round, growth, warm);
    free(out);
    free(in);
    return end();
}
