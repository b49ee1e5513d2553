/*
 * Each kind of object is made, used and freed many times, and no quantity grows: memory, descriptors,
 * mappings, threads.
 *
 *   lifetimes [TURNS] [KIND]         takes TURNS turns of each kind, or of those with KIND in their name,
 *                                    and compares what is left
 *   lifetimes TURNS samples [KIND]   prints the holdings of each process after each block of turns,
 *                                    for `cargo xtask suite lifetimes-all`
 */
#include "acquaint.h"
#include "kinds.h"

enum {
    TURNS_DEFAULT = 400,
    TURNS_BEFORE = 100,
    /* Operations that are under way at a moment are no leak: the least of this number of looks, with a turn
     * between them, counts. */
    LOOKS = 6,
    /* The least memory after each of these turns counts. The library looks whether freed communicators are
     * still in use each time that 64 have been freed; one that is still in use then shifts all later looks by
     * a turn. So one of these turns, and nobody knows which, comes right after such a look. */
    LOOKS_AT_MEMORY = 64,
    /* A turn may leave less than the smallest piece that malloc gives. */
    BYTES_PER_TURN = 16,
    /* A table doubles when more is under way at once than ever before, which depends on the speed of the
     * ranks. A leak goes on. */
    BLOCKS_COMPARED = 8,
    BLOCKS = 50,
};

/* Fills the memory that a library keeps for messages that come before their receives. That memory grows with
 * the most messages that ever waited at once, up to a limit: Weft keeps 64 buffers for messages of at most
 * 1 KiB, and 64 KiB for longer ones. The lengths are the longest of each sort in `kinds.h`.
 * The sender announces the last long messages, because its credit is used up; they take no memory. */
static void fill_caches(void)
{
    enum { MESSAGES = 100, LONGEST = 40000 };
    static const int lengths[] = {1000, LONGEST};
    static unsigned char out[LONGEST], in[LONGEST];
    MPI_Request requests[MESSAGES];
    int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        for (int j = 0; j < MESSAGES; j++) {
            MPI_Isend(out, lengths[i], MPI_BYTE, next, 20, MPI_COMM_WORLD, &requests[j]);
            /* Messages of one sender come in order: behind this one, the long one is there. A sender
             * announces long messages while earlier ones are under way. */
            MPI_Sendrecv(out, 0, MPI_BYTE, next, 21, in, 0, MPI_BYTE, before, 21, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        for (int j = 0; j < MESSAGES; j++)
            MPI_Recv(in, lengths[i], MPI_BYTE, before, 20, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Waitall(MESSAGES, requests, MPI_STATUSES_IGNORE);
    }
}

static void take(const struct kind *kind, int turns)
{
    alarm((unsigned)time_limit());
    for (int i = 0; i < turns; i++)
        kind->turn();
}

static void least(long long *a, long long b)
{
    if (b < *a)
        *a = b;
}

/* Takes LOOKS_AT_MEMORY + LOOKS turns. */
static struct holdings look(const struct kind *kind)
{
    struct holdings found = holdings();
    for (int i = 0; i < LOOKS_AT_MEMORY; i++) {
        take(kind, 1);
        least(&found.heap, heap_bytes());
    }
    for (int i = 0; i < LOOKS; i++) {
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

/* Says whether there is more at `after` than `turns` turns may leave; `what` names the amount. */
static int grew(struct holdings before, struct holdings after, int turns, char *what, size_t size)
{
    long long heap = after.heap - before.heap, descriptors = after.descriptors - before.descriptors;
    long long threads = after.threads - before.threads, mappings = after.mappings - before.mappings;
    snprintf(what, size, "after %d turns %lld bytes more (%.1f a turn), %lld descriptors, %lld threads, %lld mappings", turns, heap,
             (double)heap / turns, descriptors, threads, mappings);
    return heap >= (long long)BYTES_PER_TURN * turns || descriptors > 0 || threads > 0 || mappings >= turns / 8;
}

/* All ranks take the same turns. They take further blocks while one of the ranks has more than all turns so
 * far may leave. */
static void compare(const struct kind *kind, int turns)
{
    char what[256] = "";
    int own = 1, any = 1;
    take(kind, TURNS_BEFORE);
    struct holdings before = look(kind);
    for (int taken = turns; any && taken <= BLOCKS_COMPARED * turns; taken += turns) {
        take(kind, turns - LOOKS_AT_MEMORY - LOOKS);
        own = grew(before, look(kind), taken, what, sizeof what);
        MPI_Allreduce(&own, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    }
    CHECK(!own, "%s", what);
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
    acquaint();
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
