/*
 * Large messages between two ranks of two hosts, in both directions at the same time, until a condition
 * holds: `rendezvous_schemes written|packets|anew|late`. `written`: TCP has written messages. `packets`:
 * messages have arrived, and TCP has written none. `anew`: messages that TCP did not bring have come as
 * packets; another program breaks its connections meanwhile. `late`: in some rounds one rank does nothing for
 * longer than the other waits for data before it asks for the message anew; it must run with
 * WEFT_PROGRESS=none. The late rank then finds both requests at once. Prints "under way" when it has begun,
 * and checks the data that arrives.
 */
#include "counters.h"

enum { BYTES_MIN = 80000, BYTES_MAX = 5000000, ROUNDS_MIN = 40, WARM = 5, STEP = 509, AT_A_TIME = 3, LONGEST_SECONDS = 40 };
/* The round of the first late rank, and the number of such rounds. A receiver waits a second for data. */
enum { LATE_FROM = 4, LATE_ROUNDS = 2, LATE_MICROSECONDS = 1300000 };

static unsigned char content(int i, int round, int message, int from)
{
    return (unsigned char)(i / STEP * 7 + round * 3 + message * 5 + from);
}

/* Each rank sends some messages of this size to the other. A rank that is late does nothing for a while
 * before it waits. */
static void exchange(unsigned char *out, unsigned char *in, int bytes, int round, int is_late)
{
    MPI_Request requests[2 * AT_A_TIME];
    int other = 1 - rank;
    for (int message = 0; message < AT_A_TIME; message++) {
        unsigned char *part = out + (size_t)message * BYTES_MAX;
        for (int i = 0; i < bytes; i += STEP)
            part[i] = content(i, round, message, rank);
        MPI_Irecv(in + (size_t)message * BYTES_MAX, bytes, MPI_BYTE, other, message, MPI_COMM_WORLD, &requests[message]);
    }
    for (int message = 0; message < AT_A_TIME; message++)
        MPI_Isend(out + (size_t)message * BYTES_MAX, bytes, MPI_BYTE, other, message, MPI_COMM_WORLD, &requests[AT_A_TIME + message]);
    if (is_late)
        usleep(LATE_MICROSECONDS);
    MPI_Waitall(2 * AT_A_TIME, requests, MPI_STATUSES_IGNORE);
    for (int message = 0; message < AT_A_TIME; message++) {
        const unsigned char *part = in + (size_t)message * BYTES_MAX;
        for (int i = 0; i < bytes; i += STEP)
            CHECK(part[i] == content(i, round, message, other), "byte %d of message %d of round %d is %d", i, message, round, part[i]);
    }
}

int main(int argc, char **argv)
{
    const char *awaited = argc > 1 ? argv[1] : "written";
    int lates = strcmp(awaited, "late") == 0;
    begin(&argc, &argv);
    open_counters();
    MPI_T_pvar_handle writes = counter("network_remote_writes"), anew = counter("network_messages_asked_anew");
    unsigned char *out = malloc((size_t)AT_A_TIME * BYTES_MAX), *in = malloc((size_t)AT_A_TIME * BYTES_MAX);
    STORY("large messages in both directions");
    double began = MPI_Wtime();
    for (int round = 0, bytes = BYTES_MIN, ends = 0; !ends; round++, bytes = bytes * 2 > BYTES_MAX ? BYTES_MIN : bytes * 2) {
        int is_late = lates && round >= LATE_FROM && round % 2 == rank;
        exchange(out, in, bytes, round, is_late);
        if (round == WARM && rank == 0) {
            printf("under way\n");
            fflush(stdout);
        }
        int holds = round >= (lates ? LATE_FROM + LATE_ROUNDS : ROUNDS_MIN);
        if (strcmp(awaited, "anew") == 0)
            holds = counted(anew) > 0;
        int late = MPI_Wtime() - began > LONGEST_SECONDS;
        holds |= late;
        MPI_Allreduce(&holds, &ends, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    }
    unsigned long long found[2] = {counted(writes), counted(anew)}, all[2];
    MPI_Allreduce(found, all, 2, MPI_UNSIGNED_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (strcmp(awaited, "written") == 0)
        CHECK(all[0] > 0, "%llu pieces were written", all[0]);
    if (strcmp(awaited, "packets") == 0)
        CHECK(all[0] == 0, "%llu pieces were written", all[0]);
    if (lates || strcmp(awaited, "anew") == 0)
        CHECK(all[1] > 0, "%llu messages were asked for anew", all[1]);
    free(out);
    free(in);
    int code = end();
    close_counters();
    return code;
}
