/*
 * All features at once for a long time: in each round all kinds of objects are made and freed, and messages
 * of all sizes travel. Now and then each process prints its holdings; `cargo xtask soak` judges whether they
 * grow.
 *
 *   soak SECONDS SAMPLES [memory|descriptors]
 *
 * The program takes SECONDS seconds, and at least as many rounds as samples. The last word makes something
 * leak in each round, which must be found.
 */
#include "acquaint.h"
#include "kinds.h"

#include <fcntl.h>

enum { SIZES_MAX = 1 << 20, LEAK_BYTES = 16384 };

static unsigned char out[SIZES_MAX], in[SIZES_MAX];

/* A message of each size around the ring, and back with the next size: every protocol carries some. */
static void sizes(long round)
{
    int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    for (int size = 1; size <= SIZES_MAX; size *= 4) {
        MPI_Status status;
        int count = -1, tag = (int)(round % 1000);
        fill(out, (size_t)size, rank, tag);
        MPI_Sendrecv(out, size, MPI_BYTE, next, tag, in, SIZES_MAX, MPI_BYTE, before, tag, MPI_COMM_WORLD, &status);
        MPI_Get_count(&status, MPI_BYTE, &count);
        CHECK_EQUAL(count, size);
        CHECK_EQUAL(wrong_bytes(in, (size_t)size, before, tag), 0);
    }
}

static void leak(const char *what)
{
    static char *kept;
    if (strcmp(what, "memory") == 0) {
        char *more = memory(LEAK_BYTES);
        memset(more, 1, LEAK_BYTES);
        memcpy(more, &kept, sizeof kept);
        kept = more;
    } else if (open("/dev/null", O_RDONLY) < 0) {
        CHECK(0, "no descriptor");
    }
}

int main(int argc, char **argv)
{
    count_exactly(argv);
    begin(&argc, &argv);
    /* What the pairs open late is no growth. */
    acquaint();
    double seconds = argc > 1 ? atof(argv[1]) : 5, samples = argc > 2 ? atof(argv[2]) : 50;
    const char *leaks = argc > 3 ? argv[3] : NULL;
    double began = MPI_Wtime(), next_sample = seconds / samples;
    long rounds_before = 0;
    struct holdings before = holdings();
    for (long round = 1;; round++) {
        alarm((unsigned)time_limit());
        for (int i = 0; i < KINDS; i++) {
            STORY(kinds[i].name);
            kinds[i].turn();
        }
        STORY("messages of all sizes");
        sizes(round);
        if (leaks)
            leak(leaks);
        /* Rank 0 decides whether all ranks look at their holdings, and whether this was the last round. */
        double elapsed = MPI_Wtime() - began;
        int todo[2] = {elapsed >= next_sample, elapsed >= seconds && (double)round >= samples};
        MPI_Bcast(todo, 2, MPI_INT, 0, MPI_COMM_WORLD);
        if (todo[0]) {
            next_sample = elapsed + seconds / samples;
            struct holdings now = holdings();
            printf("sample {\"of\":\"soak\",\"rank\":%d,\"turn\":%ld,\"heap\":%lld,\"resident_kb\":%lld,\"descriptors\":%lld,"
                   "\"mappings\":%lld,\"threads\":%lld,\"processor_us\":%.3f}\n",
                   rank, round, now.heap, now.resident_kb, now.descriptors, now.mappings, now.threads,
                   (double)(now.processor_us - before.processor_us) / (double)(round - rounds_before));
            fflush(stdout);
            before = now;
            rounds_before = round;
        }
        if (todo[1])
            break;
    }
    return end();
}
