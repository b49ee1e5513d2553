/*
 * Puts and gets that the carrier does by itself, in requests to its device: `remote_access READS`. A put is
 * one remote write, a get one remote read, and a flush behind puts is READS remote reads. There is no message
 * at either end.
 */
#include "counters.h"

enum { TIMES = 100, FEW = 16, CELLS = 512, TAG_BEGIN = 1, TAG_DONE, TAG_COUNTED };

enum { WRITES, READS, MESSAGES, FRAMES, COUNTERS };
static const char *const names[COUNTERS] = {"network_remote_writes", "network_remote_reads", "messages_sent", "network_messages_sent"};
static MPI_T_pvar_handle handles[COUNTERS];

static void begin_to_count(void)
{
    open_counters();
    for (int i = 0; i < COUNTERS; i++)
        handles[i] = counter(names[i]);
}

static void read_all(unsigned long long *values)
{
    for (int i = 0; i < COUNTERS; i++)
        values[i] = counted(handles[i]);
}

static unsigned long long before[COUNTERS];

/* Checks the counts since the last look. */
static void expect(unsigned long long writes, unsigned long long reads)
{
    unsigned long long now[COUNTERS], expected[COUNTERS] = {[WRITES] = writes, [READS] = reads};
    read_all(now);
    for (int i = 0; i < COUNTERS; i++)
        CHECK(now[i] - before[i] == expected[i], "%s: %llu, expected %llu", names[i], now[i] - before[i], expected[i]);
    read_all(before);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    unsigned long long reads = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
    int64_t *cells, put[CELLS], got[CELLS];
    MPI_Win win;
    begin_to_count();
    MPI_Win_allocate(sizeof put, sizeof *put, MPI_INFO_NULL, MPI_COMM_WORLD, &cells, &win);
    memset(cells, 0, sizeof put);
    MPI_Win_lock_all(0, win);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        /* Connections are made when they are first used. */
        MPI_Get(got, 1, MPI_INT64_T, 1, 0, 1, MPI_INT64_T, win);
        MPI_Win_flush(1, win);
        MPI_Send(NULL, 0, MPI_BYTE, 1, TAG_BEGIN, MPI_COMM_WORLD);
    } else {
        /* By then the messages that the target sent before have arrived. */
        MPI_Recv(NULL, 0, MPI_BYTE, 0, TAG_BEGIN, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    read_all(before);
    if (rank == 0) {
        STORY("a put and a flush");
        for (int i = 0; i < TIMES; i++) {
            put[i] = 1000 + i;
            MPI_Put(&put[i], 1, MPI_INT64_T, 1, i, 1, MPI_INT64_T, win);
            MPI_Win_flush(1, win);
        }
        expect(TIMES, TIMES * reads);
        STORY("a get and a flush");
        for (int i = 0; i < TIMES; i++) {
            MPI_Get(&got[i], 1, MPI_INT64_T, 1, i, 1, MPI_INT64_T, win);
            MPI_Win_flush(1, win);
            CHECK_EQUAL(got[i], 1000 + i);
        }
        expect(0, TIMES);
        STORY("some puts and one flush");
        for (int i = 0; i < FEW; i++) {
            put[i] = 2000 + i;
            MPI_Put(&put[i], 1, MPI_INT64_T, 1, i, 1, MPI_INT64_T, win);
        }
        MPI_Win_flush(1, win);
        expect(FEW, reads);
        STORY("a put and a get of a page");
        for (int i = 0; i < CELLS; i++)
            put[i] = 3000 + i;
        MPI_Put(put, CELLS, MPI_INT64_T, 1, 0, CELLS, MPI_INT64_T, win);
        MPI_Win_flush(1, win);
        MPI_Get(got, CELLS, MPI_INT64_T, 1, 0, CELLS, MPI_INT64_T, win);
        MPI_Win_flush(1, win);
        expect(1, 1 + reads);
        CHECK(memcmp(put, got, sizeof put) == 0, "what was put is not what was got");
        MPI_Send(NULL, 0, MPI_BYTE, 1, TAG_DONE, MPI_COMM_WORLD);
        /* This rank gives the lock back only when the target has counted: the target would answer the unlock.
         */
        MPI_Recv(NULL, 0, MPI_BYTE, 1, TAG_COUNTED, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        STORY("the target sends nothing");
        /* This rank does not sleep inside MPI: a rank that sleeps for long asks whether the others are still
         * there. */
        MPI_Request done;
        MPI_Irecv(NULL, 0, MPI_BYTE, 0, TAG_DONE, MPI_COMM_WORLD, &done);
        for (int is_done = 0; !is_done; usleep(1000))
            MPI_Test(&done, &is_done, MPI_STATUS_IGNORE);
        expect(0, 0);
        MPI_Send(NULL, 0, MPI_BYTE, 0, TAG_COUNTED, MPI_COMM_WORLD);
        for (int i = 0; i < CELLS; i++)
            CHECK_EQUAL(cells[i], 3000 + i);
    }
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
    close_counters();
    return end();
}
