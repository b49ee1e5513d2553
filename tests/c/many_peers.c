/*
 * `many_peers KIB SLACK`: every rank talks to every other one, first a little, and then much to one at a
 * time. For an idle peer the library keeps at most KIB KiB of memory registered with the network's device,
 * and at most SLACK KiB for all peers together.
 */
#include "counters.h"

enum { BURST = 300, SIZE = 700, TAG_FIRST = 1, TAG_BURST };

static MPI_T_pvar_handle registered;
static int is_known;

/* Bytes that are registered now; 0 where the library does not count them. */
static unsigned long long registered_now(void)
{
    return is_known ? counted(registered) : 0;
}

static void begin_to_count(void)
{
    open_counters();
    is_known = is_variable("network_registered_bytes", MPI_T_PVAR_CLASS_LEVEL);
    if (is_known)
        registered = variable("network_registered_bytes", MPI_T_PVAR_CLASS_LEVEL);
}

/* The word that rank `from` sends to rank `to` in round `round`. */
static int word(int from, int to, int round)
{
    return (from * 1009 + to) * 4099 + round;
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    unsigned long long kib = argc > 1 ? strtoull(argv[1], NULL, 10) : 0, slack = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
    begin_to_count();
    unsigned long long before = registered_now();
    STORY("a message from each to each");
    for (int step = 1; step < ranks; step++) {
        int to = (rank + step) % ranks, from = (rank + ranks - step) % ranks;
        int there = word(rank, to, 0), here = 0;
        MPI_Sendrecv(&there, 1, MPI_INT, to, TAG_FIRST, &here, 1, MPI_INT, from, TAG_FIRST, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK_EQUAL(here, word(from, rank, 0));
    }
    unsigned long long most = ((ranks - 1) * kib + slack) * 1024, now = registered_now();
    if (kib > 0 && is_known)
        CHECK(now - before <= most, "%d peers take %llu bytes, and may take %llu", ranks - 1, now - before, most);
    if (rank == 0)
        printf("%d peers take %llu bytes of registered memory each\n", ranks - 1, (now - before) / (unsigned)(ranks - 1));

    STORY("much from all to one at a time");
    static int buffers[BURST][SIZE];
    MPI_Request requests[BURST];
    for (int root = 0; root < ranks && root < 3; root++) {
        if (rank == root) {
            for (int from = 0; from < ranks; from++) {
                if (from == root)
                    continue;
                for (int i = 0; i < BURST; i++) {
                    MPI_Status status;
                    int count;
                    MPI_Recv(buffers[0], SIZE, MPI_INT, from, TAG_BURST, MPI_COMM_WORLD, &status);
                    MPI_Get_count(&status, MPI_INT, &count);
                    CHECK_EQUAL(count, 1 + i * 7 % SIZE);
                    CHECK_EQUAL(buffers[0][count - 1], word(from, root, i));
                }
            }
        } else {
            for (int i = 0; i < BURST; i++) {
                int count = 1 + i * 7 % SIZE;
                buffers[i][count - 1] = word(rank, root, i);
                MPI_Isend(buffers[i], count, MPI_INT, root, TAG_BURST, MPI_COMM_WORLD, &requests[i]);
            }
            MPI_Waitall(BURST, requests, MPI_STATUSES_IGNORE);
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    close_counters();
    return end();
}
