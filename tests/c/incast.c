/* Many ranks send large messages to one at the same time: right contents, few retransmissions, and memory
 * that does not grow with the waiting messages. */
#include "counters.h"

enum { BYTES = 4 << 20, SHORT = 1 << 20, TAG = 3, QUIET_MS = 200, GROWTH_MAX_KIB = 3 << 10, RECEIVES_MAX = 64 };
/* Packets sent again, in a hundred: none is lost on purpose, but a busy machine may have no room for some. */
enum { RESENT_PERCENT_MAX = 2, RESENT_SPARE = 20 };

static unsigned char *sent, *received;

static void check_message(const unsigned char *found, int source, int tag, size_t bytes)
{
    size_t wrong = wrong_bytes(found, bytes, source, tag);
    CHECK(wrong == 0, "%zu of %zu bytes from rank %d with tag %d are wrong", wrong, bytes, source, tag);
}

static void send(int tag, size_t bytes)
{
    fill(sent, bytes, rank, tag);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Send(sent, (int)bytes, MPI_BYTE, 0, tag, MPI_COMM_WORLD);
}

/* Memory that this process has in use, KiB. */
static long resident(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file && fscanf(file, "%*d %ld", &pages) == 1, "/proc/self/statm cannot be read");
    if (file)
        fclose(file);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

/* Every sender has announced before the receiver asks: the waiting data lies with the senders. */
static void announced_messages_need_no_memory(void)
{
    STORY("announced messages stay with their senders");
    if (rank > 0) {
        send(TAG, BYTES);
        return;
    }
    MPI_Status status;
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 1; i < ranks; i++)
        MPI_Probe(i, TAG, MPI_COMM_WORLD, &status);
    long before = resident();
    double until = MPI_Wtime() + QUIET_MS / 1e3;
    while (MPI_Wtime() < until) {
        int flag;
        MPI_Iprobe(MPI_ANY_SOURCE, TAG + 1, MPI_COMM_WORLD, &flag, &status);
    }
    long growth = resident() - before;
    CHECK(growth <= GROWTH_MAX_KIB, "%ld KiB more while %d messages of 4 MiB wait", growth, ranks - 1);
    for (int i = 1; i < ranks; i++) {
        MPI_Recv(received, BYTES, MPI_BYTE, MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, &status);
        check_message(received, status.MPI_SOURCE, TAG, BYTES);
    }
}

/* All receives are posted before anything is sent: two from each sender. */
static void all_at_once(void)
{
    STORY("all at once");
    MPI_Request requests[2 * RECEIVES_MAX];
    int count = 0;
    if (rank > 0) {
        fill(sent, SHORT, rank, TAG);
        fill(sent + SHORT, SHORT, rank, TAG + 1);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Isend(sent, SHORT, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &requests[0]);
        MPI_Isend(sent + SHORT, SHORT, MPI_BYTE, 0, TAG + 1, MPI_COMM_WORLD, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        return;
    }
    for (int i = 1; i < ranks && i <= RECEIVES_MAX; i++)
        for (int tag = TAG + 1; tag >= TAG; tag--, count++)
            MPI_Irecv(received + (size_t)count * SHORT, SHORT, MPI_BYTE, i, tag, MPI_COMM_WORLD, &requests[count]);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
    for (int at = 0; at < count; at++)
        check_message(received + (size_t)at * SHORT, 1 + at / 2, TAG + 1 - at % 2, SHORT);
}

/* Some messages are cut short, some are unpacked as they come. */
static void cut_and_strided(void)
{
    STORY("cut and strided");
    enum { BLOCK = 1024 };
    if (rank > 0) {
        send(TAG, SHORT);
        return;
    }
    MPI_Request requests[RECEIVES_MAX];
    MPI_Status statuses[RECEIVES_MAX];
    MPI_Datatype strided;
    MPI_Type_vector(SHORT / BLOCK, BLOCK, 2 * BLOCK, MPI_BYTE, &strided);
    MPI_Type_commit(&strided);
    int count = 0;
    for (int i = 1; i < ranks && i <= RECEIVES_MAX; i++, count++) {
        unsigned char *place = received + (size_t)count * 2 * SHORT;
        if (i % 2)
            MPI_Irecv(place, 1, strided, i, TAG, MPI_COMM_WORLD, &requests[count]);
        else
            MPI_Irecv(place, SHORT / 2, MPI_BYTE, i, TAG, MPI_COMM_WORLD, &requests[count]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_CLASS(MPI_Waitall(count, requests, statuses), ranks > 2 ? MPI_ERR_IN_STATUS : MPI_SUCCESS);
    unsigned char *packed = memory(SHORT);
    for (int at = 0; at < count; at++) {
        const unsigned char *place = received + (size_t)at * 2 * SHORT;
        if (at % 2) {
            CHECK_CLASS(statuses[at].MPI_ERROR, MPI_ERR_TRUNCATE);
            check_message(place, 1 + at, TAG, SHORT / 2);
        } else {
            for (size_t block = 0; block < SHORT / BLOCK; block++)
                memcpy(packed + block * BLOCK, place + block * 2 * BLOCK, BLOCK);
            check_message(packed, 1 + at, TAG, SHORT);
        }
    }
    free(packed);
    MPI_Type_free(&strided);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    open_counters();
    MPI_T_pvar_handle by_gap = counter("network_resent_by_gap"), by_probe = counter("network_resent_by_probe");
    MPI_T_pvar_handle data = counter("network_data_packets_sent");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    size_t room = (size_t)ranks * 2 * SHORT;
    room = room > BYTES ? room : BYTES;
    sent = memory(BYTES);
    received = memory(room);
    /* All pages are there before anything is measured. */
    memset(received, 1, room);
    announced_messages_need_no_memory();
    all_at_once();
    cut_and_strided();
    STORY("resends");
    unsigned long long resent = counted(by_gap) + counted(by_probe), packets = counted(data);
    close_counters();
    CHECK(resent <= RESENT_SPARE + packets * RESENT_PERCENT_MAX / 100, "%llu of %llu packets were sent again", resent,
        packets);
    free(sent);
    free(received);
    return end();
}
