/*
 * Each kind of object is made, used and freed many times, and nothing grows: no memory, no descriptors, no mappings, no threads.
 *
 *     lifetimes [TURNS] [KIND]           so many turns of each kind, or of those with KIND in their name; what is left is compared
 *     lifetimes TURNS samples [KIND]     prints what each process has after each block of turns, for `cargo xtask suite lifetimes-all`
 */
#include "kinds.h"

enum {
    /* Whether anything still uses communicators that have been freed is looked at each time that 64 have been: what is compared is what is
     * there equally long after that. */
    TURNS_DEFAULT = 6 * 64,
    TURNS_BEFORE = 2 * 64,
    /* What is under way at a moment is no leak: the least of so many looks, with a turn between them, is taken. */
    LOOKS = 6,
    /* A turn may leave less than the smallest piece that malloc gives, and tables may double once. */
    BYTES_PER_TURN = 16,
    BYTES_ONCE = 8192,
    BLOCKS = 50,
    /* More messages than Weft keeps memory for, of as many bytes as it keeps. */
    MESSAGES = 100,
    MESSAGE_BYTES = 1000,
};

/* Memory for messages that nobody has asked for yet is kept for the next: as much as ever is. */
static void fill_caches(void)
{
    static char bytes[MESSAGE_BYTES];
    for (int i = 0; i < MESSAGES; i++)
        MPI_Send(bytes, MESSAGE_BYTES, MPI_BYTE, (rank + 1) % ranks, 20, MPI_COMM_WORLD);
    MPI_Send(bytes, 0, MPI_BYTE, (rank + 1) % ranks, 21, MPI_COMM_WORLD);
    MPI_Recv(bytes, 0, MPI_BYTE, (rank + ranks - 1) % ranks, 21, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < MESSAGES; i++)
        MPI_Recv(bytes, MESSAGE_BYTES, MPI_BYTE, (rank + ranks - 1) % ranks, 20, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void take(const struct kind *kind, int turns)
{
    alarm(TIME_LIMIT_SECONDS);
    for (int i = 0; i < turns; i++)
        kind->turn();
}

static void least(long long *a, long long b)
{
    if (b < *a)
        *a = b;
}

static struct holdings look(const struct kind *kind)
{
    struct holdings found = holdings();
    for (int i = 1; i < LOOKS; i++) {
        take(kind, 1);
        MPI_Barrier(MPI_COMM_WORLD);
        struct holdings now = holdings();
        least(&found.heap, now.heap);
        least(&found.descriptors, now.descriptors);
        least(&found.mappings, now.mappings);
        least(&found.threads, now.threads);
    }
    return found;
}

static void compare(const struct kind *kind, int turns)
{
    take(kind, TURNS_BEFORE);
    struct holdings before = look(kind);
    take(kind, turns - LOOKS + 1);
    struct holdings after = look(kind);
    CHECK(after.heap - before.heap < BYTES_ONCE + (long long)BYTES_PER_TURN * turns, "%lld bytes more after %d turns: %.1f a turn",
          after.heap - before.heap, turns, (double)(after.heap - before.heap) / turns);
    CHECK(after.descriptors <= before.descriptors, "%lld descriptors, and %lld after %d turns", before.descriptors,
          after.descriptors, turns);
    CHECK(after.threads <= before.threads, "%lld threads, and %lld after %d turns", before.threads, after.threads, turns);
    CHECK(after.mappings - before.mappings < turns / 8, "%lld mappings, and %lld after %d turns", before.mappings,
          after.mappings, turns);
}

static void print_samples(const struct kind *kind, int turns)
{
    int block = turns / BLOCKS > 0 ? turns / BLOCKS : 1;
    for (int i = 0; i < BLOCKS; i++) {
        struct holdings before = holdings();
        for (int left = block; left > 0; left -= 100)
            take(kind, left < 100 ? left : 100);
        MPI_Barrier(MPI_COMM_WORLD);
        struct holdings now = holdings();
        printf("sample {\"of\":\"%s\",\"rank\":%d,\"turn\":%d,\"heap\":%lld,\"resident_kb\":%lld,\"descriptors\":%lld,"
               "\"mappings\":%lld,\"threads\":%lld,\"processor_us\":%.3f}\n",
               kind->name, rank, (i + 1) * block, now.heap, now.resident_kb, now.descriptors, now.mappings, now.threads,
               (double)(now.processor_us - before.processor_us) / block);
        fflush(stdout);
    }
}

int main(int argc, char **argv)
{
    count_exactly(argv);
    begin(&argc, &argv);
    int turns = argc > 1 ? atoi(argv[1]) : TURNS_DEFAULT;
    int samples = argc > 2 && strcmp(argv[2], "samples") == 0;
    const char *wanted = argc > 2 + samples ? argv[2 + samples] : "";
    for (int i = 0; i < KINDS; i++) {
        if (!strstr(kinds[i].name, wanted))
            continue;
        STORY(kinds[i].name);
        fill_caches();
        if (samples)
            print_samples(&kinds[i], turns);
        else
            compare(&kinds[i], turns);
    }
    return end();
}
