/* fast_path yes|no|any: small messages between two ranks, among large ones and between sleeps, arrive once
 * each and in order. The argument says whether the carrier must have written any of them to memory of the
 * receiver (`yes`: some, `no`: none, `any`: it may). */
#include "counters.h"

enum { TAG = 5, ROUNDS = 200, STREAM = 300, SLEEPS = 10, SLEEP_US = 30000, LARGEST = 20000 };

static const int sizes[] = {8, 0, 100, 1, 400, 450, 500, 4000, 16, LARGEST};
enum { SIZES = sizeof sizes / sizeof *sizes };

static void write_bytes(unsigned char *bytes, int size, int number)
{
    for (int i = 0; i < size; i++)
        bytes[i] = (unsigned char)(number * 31 + i * 7 + 1);
}

static void check_bytes(const unsigned char *bytes, int size, int number)
{
    for (int i = 0; i < size; i++)
        CHECK(bytes[i] == (unsigned char)(number * 31 + i * 7 + 1), "message %d of %d bytes has another byte %d", number, size, i);
}

static void ping_pong(int rounds)
{
    unsigned char out[8], in[8];
    for (int i = 0; i < rounds; i++) {
        write_bytes(out, 8, i);
        if (rank == 0)
            MPI_Send(out, 8, MPI_BYTE, 1, TAG, MPI_COMM_WORLD);
        MPI_Recv(in, 8, MPI_BYTE, 1 - rank, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        check_bytes(in, 8, i);
        if (rank == 1)
            MPI_Send(out, 8, MPI_BYTE, 0, TAG, MPI_COMM_WORLD);
    }
}

/* Both ranks send at once, all sizes in turn: written messages and sent ones keep their order. */
static void stream(void)
{
    unsigned char *out = malloc((size_t)STREAM * LARGEST), *in = malloc((size_t)STREAM * LARGEST);
    static MPI_Request requests[2 * STREAM];
    CHECK(out && in, "no memory");
    for (int i = 0; i < STREAM; i++)
        MPI_Irecv(in + (size_t)i * LARGEST, LARGEST, MPI_BYTE, 1 - rank, TAG, MPI_COMM_WORLD, &requests[i]);
    for (int i = 0; i < STREAM; i++) {
        write_bytes(out + (size_t)i * LARGEST, sizes[i % SIZES], i);
        MPI_Isend(out + (size_t)i * LARGEST, sizes[i % SIZES], MPI_BYTE, 1 - rank, TAG, MPI_COMM_WORLD, &requests[STREAM + i]);
    }
    MPI_Waitall(2 * STREAM, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < STREAM; i++)
        check_bytes(in + (size_t)i * LARGEST, sizes[i % SIZES], i);
    free(out);
    free(in);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    open_counters();
    MPI_T_pvar_handle written = counter("network_packets_written");
    if (ranks != 2 || argc != 2) {
        fprintf(stderr, "usage: mpiexec -n 2 fast_path yes|no|any\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    STORY("a ping-pong");
    ping_pong(ROUNDS);
    STORY("streams of all sizes in both directions");
    stream();
    STORY("messages between sleeps");
    /* A rank that waits for a sleeping rank sleeps, too: the carrier then writes nothing to its memory,
     * because a write would not wake it. */
    for (int i = 0; i < SLEEPS; i++) {
        if (i % 2 == rank)
            usleep(SLEEP_US);
        ping_pong(3);
    }
    stream();
    STORY("what was written to memory of the receiver");
    unsigned long long count = counted(written);
    if (!strcmp(argv[1], "yes"))
        CHECK(count > 0, "no packet was written to memory of its receiver");
    else if (!strcmp(argv[1], "any"))
        printf("rank %d: %llu packets were written to memory of their receiver\n", rank, count);
    else if (!strcmp(argv[1], "no"))
        CHECK(count == 0, "%llu packets were written to memory of their receiver", count);
    close_counters();
    return end();
}
