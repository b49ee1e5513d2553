/*
 * Messages of 6 to 60 KB between two ranks of two hosts, alone and several at a time, in both directions,
 * until a condition holds: `long_path taken|untaken|closed`. `taken`: messages have left as long packets, by
 * TCP. `untaken`: many rounds are over, and none has. `closed`: long packets have left, and for many rounds
 * no more do, although messages go on; another program breaks the connection meanwhile. Prints "under way"
 * once long packets leave, and checks the data that arrives.
 */
#include "counters.h"

enum { BYTES_MIN = 6000, BYTES_MAX = 60000, BYTES_STEP = 1777, STEP = 101, AT_A_TIME = 4, ROUNDS = 300, LONGEST_SECONDS = 40 };

static unsigned char out[AT_A_TIME][BYTES_MAX], in[AT_A_TIME][BYTES_MAX];

static unsigned char content(int i, int round, int message, int from)
{
    return (unsigned char)(i / STEP * 7 + round * 3 + message * 5 + from);
}

/* Each rank sends `count` messages of this size to the other. A single one goes there and back. */
static void exchange(int count, int bytes, int round)
{
    MPI_Request requests[2 * AT_A_TIME];
    int other = 1 - rank;
    for (int message = 0; message < count; message++)
        for (int i = 0; i < bytes; i += STEP)
            out[message][i] = content(i, round, message, rank);
    if (count == 1 && rank == 0)
        MPI_Send(out[0], bytes, MPI_BYTE, other, 0, MPI_COMM_WORLD);
    for (int message = 0; message < count; message++)
        MPI_Irecv(in[message], bytes, MPI_BYTE, other, message, MPI_COMM_WORLD, &requests[message]);
    if (count == 1)
        MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    if (count == 1 && rank == 1)
        MPI_Send(out[0], bytes, MPI_BYTE, other, 0, MPI_COMM_WORLD);
    if (count > 1) {
        for (int message = 0; message < count; message++)
            MPI_Isend(out[message], bytes, MPI_BYTE, other, message, MPI_COMM_WORLD, &requests[count + message]);
        MPI_Waitall(2 * count, requests, MPI_STATUSES_IGNORE);
    }
    for (int message = 0; message < count; message++)
        for (int i = 0; i < bytes; i += STEP)
            CHECK(in[message][i] == content(i, round, message, other), "byte %d of message %d of round %d is %d", i, message, round, in[message][i]);
}

int main(int argc, char **argv)
{
    const char *awaited = argc > 1 ? argv[1] : "taken";
    int is_told = 0;
    begin(&argc, &argv);
    open_counters();
    MPI_T_pvar_handle long_packets = counter("network_long_packets_sent");
    STORY("messages of many packets in both directions");
    double began = MPI_Wtime();
    /* Long packets of both ranks up to now, and up to the last round in which some left. */
    unsigned long long all = 0, before = 0;
    int quiet_since = 0;
    for (int round = 0, bytes = BYTES_MIN, ends = 0; !ends; round++, bytes = BYTES_MIN + (bytes - BYTES_MIN + BYTES_STEP) % (BYTES_MAX - BYTES_MIN)) {
        exchange(round % 2 ? AT_A_TIME : 1, bytes, round);
        unsigned long long sent = counted(long_packets);
        MPI_Allreduce(&sent, &all, 1, MPI_UNSIGNED_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
        if (all > before) {
            before = all;
            quiet_since = round;
        }
        if (all > 0 && rank == 0 && !is_told) {
            printf("under way\n");
            fflush(stdout);
            is_told = 1;
        }
        int holds = round >= ROUNDS;
        if (strcmp(awaited, "taken") == 0)
            holds = all > 0 && round >= ROUNDS;
        if (strcmp(awaited, "closed") == 0)
            holds = all > 0 && round - quiet_since >= ROUNDS;
        holds |= MPI_Wtime() - began > LONGEST_SECONDS;
        MPI_Allreduce(&holds, &ends, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
        if (ends && strcmp(awaited, "closed") == 0)
            CHECK(round - quiet_since >= ROUNDS, "long packets still leave after %d rounds", round);
    }
    if (strcmp(awaited, "untaken") == 0)
        CHECK(all == 0, "%llu long packets have left", all);
    else
        CHECK(all > 0, "no long packet has left");
    int code = end();
    close_counters();
    return code;
}
