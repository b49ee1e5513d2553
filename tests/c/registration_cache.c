/*
 * `registration_cache yes|no|any`: large messages, puts and gets from memory that is freed, unmapped, moved,
 * emptied and mapped again at the same address with other contents. The data that arrives is what is in
 * memory now, and not what was there when a network's device first heard of the address. `yes`: a buffer that
 * stays is registered once, as the library counts it; `no`: no registration is used again; `any`: either.
 */
#define _GNU_SOURCE
#include "counters.h"
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { PAGES = 48, SAME = 16, ROUNDS = 5, TAG = 7, BUSY_ROUNDS = 12 };
static size_t page, size;
static unsigned char *got;
/* Ranks are in pairs; a rank that is left over talks to itself. */
static int peer, tag;

enum { MADE, REUSED, COUNTERS };
static const char *const names[COUNTERS] = {"network_registrations", "network_registrations_reused"};
static MPI_T_pvar_handle handles[COUNTERS];
static int is_counted = 1;

static void begin_to_count(void)
{
    open_counters();
    for (int i = 0; i < COUNTERS && is_counted; i++) {
        is_counted = is_variable(names[i], MPI_T_PVAR_CLASS_COUNTER);
        if (is_counted)
            handles[i] = counter(names[i]);
    }
}

static unsigned long long count_of(int which)
{
    return is_counted ? counted(handles[which]) : 0;
}

static unsigned long long uses_again(void)
{
    return count_of(REUSED);
}

static unsigned char *map(void *at, int flags)
{
    void *mapped = mmap(at, size, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | flags | (at ? MAP_FIXED : 0), -1, 0);
    CHECK(mapped != MAP_FAILED, "no memory");
    return mapped;
}

/* Both ranks of a pair send their bytes to each other, and know those of the other. */
static void exchange(const unsigned char *bytes)
{
    memset(got, 0xee, size);
    MPI_Sendrecv(bytes, (int)size, MPI_BYTE, peer, TAG, got, (int)size, MPI_BYTE, peer, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void exchange_new(unsigned char *bytes)
{
    fill(bytes, size, rank, ++tag);
    exchange(bytes);
    CHECK_EQUAL(wrong_bytes(got, size, peer, tag), 0);
}

/* Emptied memory has none of its old contents. */
static void exchange_zeros(const unsigned char *bytes)
{
    size_t wrong = 0;
    exchange(bytes);
    for (size_t i = 0; i < size; i++)
        wrong += got[i] != 0;
    CHECK_EQUAL(wrong, 0);
}

static void same(void)
{
    unsigned char *bytes = map(NULL, MAP_PRIVATE);
    /* The connection takes some as well. */
    exchange_new(bytes);
    unsigned long long made = count_of(MADE), again = count_of(REUSED);
    for (int i = 0; i < SAME; i++)
        exchange_new(bytes);
    if (rank == 0 && is_counted)
        printf("%d exchanges of %zu KiB made %llu registrations and used %llu again\n", SAME, size / 1024, count_of(MADE) - made, count_of(REUSED) - again);
    munmap(bytes, size);
}

static void freed(void)
{
    for (int i = 0; i < ROUNDS; i++) {
        unsigned char *bytes = malloc(size);
        CHECK(bytes != NULL, "no memory");
        exchange_new(bytes);
        free(bytes);
    }
}

static void unmapped(void)
{
    unsigned char *bytes = map(NULL, MAP_PRIVATE);
    for (int i = 0; i < ROUNDS; i++) {
        exchange_new(bytes);
        exchange_new(bytes);
        /* With a gap, and without. */
        if (i % 2)
            munmap(bytes, size);
        map(bytes, MAP_PRIVATE);
        exchange_zeros(bytes);
        /* A page in the middle. */
        exchange_new(bytes);
        CHECK(mmap(bytes + 5 * page, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED, "no memory");
        exchange_new(bytes);
    }
    munmap(bytes, size);
}

static void moved(void)
{
    unsigned char *bytes = map(NULL, MAP_PRIVATE);
    for (int i = 0; i < ROUNDS; i++) {
        exchange_new(bytes);
        unsigned char *place = map(NULL, MAP_PRIVATE);
        CHECK(mremap(bytes, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, place) == place, "it does not move");
        map(bytes, MAP_PRIVATE);
        exchange_zeros(bytes);
        exchange(place);
        CHECK_EQUAL(wrong_bytes(got, size, peer, tag), 0);
        munmap(place, size);
    }
    munmap(bytes, size);
}

static void emptied(void)
{
    unsigned char *bytes = map(NULL, MAP_PRIVATE);
    for (int i = 0; i < ROUNDS; i++) {
        exchange_new(bytes);
        CHECK_EQUAL(madvise(bytes, size, MADV_DONTNEED), 0);
        exchange_zeros(bytes);
    }
    munmap(bytes, size);
}

/* The end of the heap goes back and forth, unless another mapping was put behind it meanwhile. */
static void breaks(void)
{
    for (int i = 0; i < ROUNDS; i++) {
        unsigned char *bytes = sbrk((intptr_t)size);
        CHECK(bytes != (void *)-1, "no memory");
        exchange_new(bytes);
        int is_emptied = 0, is_theirs = 0;
        if (sbrk(0) == bytes + size) {
            sbrk(-(intptr_t)size);
            is_emptied = sbrk((intptr_t)size) == bytes;
        }
        /* A thread of either rank may have moved the end of its heap meanwhile. */
        MPI_Sendrecv(&is_emptied, 1, MPI_INT, peer, TAG, &is_theirs, 1, MPI_INT, peer, TAG, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        if (is_emptied && is_theirs)
            exchange_zeros(bytes);
    }
}

/* Another process could take this memory away: no registration of it is kept. */
static void shared(void)
{
    unsigned char *bytes = map(NULL, MAP_SHARED);
    unsigned long long before = uses_again();
    for (int i = 0; i < ROUNDS; i++) {
        exchange_new(bytes);
        CHECK_EQUAL(madvise(bytes, size, MADV_REMOVE), 0);
        exchange_zeros(bytes);
    }
    CHECK_EQUAL(uses_again() - before, 0);
    munmap(bytes, size);
}

static void forked(void)
{
    unsigned char *bytes = map(NULL, MAP_PRIVATE);
    exchange_new(bytes);
    for (int i = 0; i < 2; i++) {
        int there[2], status;
        CHECK_EQUAL(pipe(there), 0);
        pid_t child = fork();
        if (child == 0) {
            /* It keeps its own pages while the parent sends, and then gives them up. */
            char byte;
            memset(bytes, 0x55, size);
            close(there[1]);
            _exit(read(there[0], &byte, 1) != 0 || munmap(bytes, size) != 0);
        }
        CHECK(child > 0, "no child");
        exchange_new(bytes);
        close(there[0]);
        close(there[1]);
        CHECK_EQUAL(waitpid(child, &status, 0), child);
        CHECK_EQUAL(status, 0);
        exchange_new(bytes);
    }
    munmap(bytes, size);
}

static volatile int is_over;

static void *map_and_unmap(void *unused)
{
    while (!is_over) {
        unsigned char *bytes = map(NULL, MAP_PRIVATE);
        bytes[0] = bytes[size - 1] = 1;
        munmap(bytes, size);
        usleep(100);
    }
    return unused;
}

/* Another thread unmaps memory that may be this one's next. */
static void busy(void)
{
    pthread_t other;
    CHECK_EQUAL(pthread_create(&other, NULL, map_and_unmap, NULL), 0);
    for (int i = 0; i < BUSY_ROUNDS; i++) {
        unsigned char *bytes = map(NULL, MAP_PRIVATE);
        exchange_new(bytes);
        munmap(bytes, size);
    }
    is_over = 1;
    pthread_join(other, NULL);
}

static void windows(void)
{
    unsigned char *exposed;
    MPI_Win win;
    MPI_Win_allocate((MPI_Aint)(2 * size), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &exposed, &win);
    unsigned char *bytes = map(NULL, MAP_PRIVATE);
    MPI_Win_lock_all(0, win);
    for (int i = 0; i < ROUNDS; i++) {
        fill(exposed + size, size, rank, ++tag);
        MPI_Win_sync(win);
        MPI_Barrier(MPI_COMM_WORLD);
        /* A put takes the present contents … */
        fill(bytes, size, rank, tag + 1);
        MPI_Put(bytes, (int)size, MPI_BYTE, peer, 0, (int)size, MPI_BYTE, win);
        MPI_Win_flush(peer, win);
        map(bytes, MAP_PRIVATE);
        /* … and a get writes to the present memory. */
        MPI_Get(bytes, (int)size, MPI_BYTE, peer, (MPI_Aint)size, (int)size, MPI_BYTE, win);
        MPI_Win_flush(peer, win);
        CHECK_EQUAL(wrong_bytes(bytes, size, peer, tag), 0);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Win_sync(win);
        CHECK_EQUAL(wrong_bytes(exposed, size, peer, ++tag), 0);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Win_unlock_all(win);
    munmap(bytes, size);
    MPI_Win_free(&win);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    const char *kept = argc > 1 ? argv[1] : "any";
    peer = (rank ^ 1) < ranks ? rank ^ 1 : rank;
    page = (size_t)sysconf(_SC_PAGESIZE);
    size = PAGES * page;
    got = memory(size);
    begin_to_count();
    STORY("the same buffer again and again");
    same();
    unsigned long long again = uses_again();
    if (strcmp(kept, "yes") == 0)
        CHECK(again >= SAME / 2, "%llu uses of what was registered, of %d", again, SAME);
    STORY("memory that is freed");
    freed();
    STORY("memory that is unmapped and mapped again");
    unmapped();
    STORY("memory that moves");
    moved();
    STORY("memory that is emptied");
    emptied();
    STORY("the end of the heap");
    breaks();
    STORY("shared memory");
    shared();
    STORY("a child");
    forked();
    STORY("another thread unmaps");
    busy();
    STORY("puts and gets");
    windows();
    if (strcmp(kept, "no") == 0)
        CHECK_EQUAL(uses_again(), 0);
    if (rank == 0 && is_counted)
        printf("%llu operations found their memory registered\n", uses_again());
    free(got);
    close_counters();
    return end();
}
