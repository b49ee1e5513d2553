/* Carriers within one host: shared memory between two processes, memcpy, process_vm_readv. */
#include "carrier.h"
#include "../programs/lines.h"
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    LINE = 64,
    FIRST = LINE - 8,           /* bytes of a message in the line of its number */
    RING_BYTES = 1 << 20,       /* of slots in flight in a stream */
    SLOTS_MAX = 64,
    YIELD_EVERY = 1 << 14       /* spins between two offers of the processor, when both sides share it */
};

/* ---- Shared memory ---- */

/* The rounds of a command that measures a cache line instead. */
#define PROBE UINT64_MAX

/* Mapped once for all sizes; the forked side answers. */
static lines cost = {.before = NAN, .after = NAN};

/* A message and its number. The first bytes share the number's cache line, so a small message moves one line.
 */
typedef struct slot {
    _Alignas(LINE) unsigned char first[FIRST];
    uint64_t number;
} slot;

typedef struct area {
    _Alignas(LINE) uint64_t taken;          /* messages of the stream that the reader has taken */
    _Alignas(LINE) uint64_t rounds;         /* command: round trips or messages, then the reader starts */
    uint64_t command;                       /* which: counts up; odd ping-pong, even stream; UINT64_MAX ends */
    _Alignas(LINE) uint64_t answered;       /* the reader has ended that command */
    uint64_t wrong;                         /* commands whose contents were wrong at the reader */
} area;

typedef struct shared {
    area *area;
    unsigned char *slots;                   /* of the writer, then as many of the reader */
    size_t size, stride;
    int count;
    unsigned char *out, *in;
    uint64_t sequence;
    int streaming;
    unsigned seed;
} shared;

static slot *slot_at(const shared *s, int side, uint64_t number)
{
    return (slot *)(void *)(s->slots + ((size_t)side * (size_t)s->count + number % (uint64_t)s->count) * s->stride);
}

static void await(const uint64_t *word, uint64_t value, int at_least)
{
    for (unsigned spins = 1;; spins++) {
        uint64_t seen = __atomic_load_n(word, __ATOMIC_ACQUIRE);
        if (seen == value || (at_least && seen > value))
            return;
        spin_pause();
        if (spins % YIELD_EVERY == 0)
            sched_yield();
    }
}

static void put(const shared *s, slot *to, uint64_t number)
{
    size_t head = s->size < FIRST ? s->size : FIRST;
    memcpy(to->first, s->out, head);
    memcpy((unsigned char *)to + LINE, s->out + head, s->size - head);
    __atomic_store_n(&to->number, number, __ATOMIC_RELEASE);
}

static void take(const shared *s, const slot *from, uint64_t number)
{
    size_t head = s->size < FIRST ? s->size : FIRST;
    await(&from->number, number, 0);
    memcpy(s->in, from->first, head);
    memcpy(s->in + head, (const unsigned char *)from + LINE, s->size - head);
}

static void reader(shared *s)
{
    for (uint64_t command = 1;; command++) {
        char why[WHY_MAX];
        uint64_t rounds;
        for (unsigned spins = 1; __atomic_load_n(&s->area->command, __ATOMIC_ACQUIRE) < command; spins++) {
            spin_pause();
            if (spins % YIELD_EVERY == 0)
                sched_yield();
        }
        if (s->area->command == UINT64_MAX)
            return;
        rounds = s->area->rounds;
        if (rounds == PROBE) {
            lines_probe(&cost);
            __atomic_store_n(&s->area->answered, command, __ATOMIC_RELEASE);
            continue;
        }
        fill(s->out, 0, s->size, 1, (unsigned)command);
        memset(s->in, 0, s->size);
        __atomic_store_n(&s->area->taken, s->sequence, __ATOMIC_RELEASE);
        for (uint64_t i = 0; i < rounds; i++) {
            s->sequence++;
            if (command % 2) {
                take(s, slot_at(s, 0, 0), s->sequence);
                put(s, slot_at(s, 1, 0), s->sequence);
            } else {
                take(s, slot_at(s, 0, s->sequence), s->sequence);
                __atomic_store_n(&s->area->taken, s->sequence, __ATOMIC_RELEASE);
            }
        }
        s->area->wrong += !filled(s->in, 0, s->size, 0, (unsigned)command, why);
        __atomic_store_n(&s->area->answered, command, __ATOMIC_RELEASE);
    }
}

/* Measures a cache line now; the command's parity does not matter. */
static double shared_probe(shared *s)
{
    uint64_t command = s->area->command + 1;
    double ns;
    if (!cost.word)
        return NAN;
    s->area->rounds = PROBE;
    __atomic_store_n(&s->area->command, command, __ATOMIC_RELEASE);
    ns = lines_probe(&cost);
    await(&s->area->answered, command, 0);
    return ns;
}

static void cost_fields(const void *l)
{
    lines_fields(l);
}

/* Starts a command at the reader, odd for ping-pong, and makes the contents of this side for it. */
static void start(shared *s, long rounds)
{
    uint64_t command = s->area->command + 1;
    s->area->rounds = (uint64_t)rounds;
    if ((command % 2 == 0) != s->streaming) {
        /* A command of no rounds, so that the next has the right parity. */
        s->area->rounds = 0;
        __atomic_store_n(&s->area->command, command, __ATOMIC_RELEASE);
        await(&s->area->answered, command, 0);
        command++;
        s->area->rounds = (uint64_t)rounds;
        s->area->wrong = 0;
    }
    s->seed = (unsigned)command;
    fill(s->out, 0, s->size, 0, s->seed);
    memset(s->in, 0, s->size);
    __atomic_store_n(&s->area->command, command, __ATOMIC_RELEASE);
}

static double writer(void *argument, long rounds)
{
    shared *s = argument;
    double began, ended;
    start(s, rounds);
    began = now();
    for (long i = 0; i < rounds; i++) {
        s->sequence++;
        if (s->streaming) {
            if (s->sequence > (uint64_t)s->count)
                await(&s->area->taken, s->sequence - (uint64_t)s->count, 1);
            put(s, slot_at(s, 0, s->sequence), s->sequence);
        } else {
            put(s, slot_at(s, 0, 0), s->sequence);
            take(s, slot_at(s, 1, 0), s->sequence);
        }
    }
    if (s->streaming)
        await(&s->area->taken, s->sequence, 1);
    ended = now();
    await(&s->area->answered, s->seed, 0);
    return ended - began;
}

static int shared_samples(shared *s, const carrier *c, const options *o, int streaming)
{
    const char *measurement = streaming ? "bandwidth" : "pingpong";
    int status = 0, again = 0;
    long rounds;
    s->streaming = streaming;
    rounds = choose_iterations(o->seconds, writer, s);
    for (int sample = 0; sample < o->samples + again; sample++) {
        char why[WHY_MAX] = "";
        double each;
        int right;
        cost.before = shared_probe(s);
        s->area->wrong = 0;
        each = writer(s, rounds) / (double)rounds;
        cost.after = shared_probe(s);
        right = s->area->wrong == 0 && (streaming || filled(s->in, 0, s->size, 1, s->seed, why));
        if (!right && !why[0])
            snprintf(why, sizeof why, "the reader got wrong contents");
        status |= !right;
        print_sample(c, measurement, s->size, streaming ? "MB/s" : "us", streaming ? (double)s->size / each / 1e6 : each / 2 * 1e6, rounds, sample,
                     right ? NULL : why, cost_fields, &cost);
        again += cost.word && again < cost.repeats && lines_changed(&cost);
    }
    return status;
}

static int shared_size(const carrier *c, const options *o, size_t size, const cpu_set_t *usable)
{
    shared s = {.size = size};
    size_t bytes;
    int status = 0;
    pid_t child;
    s.stride = (size + 8 + LINE - 1) / LINE * LINE;
    s.count = (int)(RING_BYTES / s.stride);
    s.count = s.count < 2 ? 2 : s.count > SLOTS_MAX ? SLOTS_MAX : s.count;
    bytes = 4096 + 2 * s.stride * (size_t)s.count;
    s.area = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (s.area == MAP_FAILED)
        give_up("shared memory", errno);
    memset(s.area, 0, bytes);
    s.slots = (unsigned char *)s.area + 4096;
    s.out = memory(size);
    s.in = memory(size);
    child = fork();
    if (child < 0)
        give_up("fork", errno);
    if (child == 0) {
        child_begins();
        separate(1);
        cost.side = 1;
        reader(&s);
        _exit(0);
    }
    separate(0);
    if (wanted(o, "pingpong"))
        status |= shared_samples(&s, c, o, 0);
    if (wanted(o, "bandwidth"))
        status |= shared_samples(&s, c, o, 1);
    __atomic_store_n(&s.area->command, UINT64_MAX, __ATOMIC_RELEASE);
    waitpid(child, NULL, 0);
    sched_setaffinity(0, sizeof *usable, usable);
    munmap(s.area, bytes);
    free(s.out);
    free(s.in);
    return status;
}

int shared_run(const carrier *c, const options *o)
{
    int status = 0;
    cpu_set_t usable;
    sched_getaffinity(0, sizeof usable, &usable);
    lines_start(&cost, 0);
    for (int i = 0; i < o->sizes_count; i++)
        status |= shared_size(c, o, o->sizes[i], &usable);
    lines_end(&cost);
    return status;
}

/* ---- One copy, within a process or out of another ---- */

typedef struct copy {
    unsigned char *from, *to;
    size_t size;
    pid_t source;               /* 0: this process, by memcpy */
} copy;

static double copy_times(void *argument, long times)
{
    copy *c = argument;
    double began = now();
    for (long i = 0; i < times; i++) {
        if (!c->source) {
            memcpy(c->to, c->from, c->size);
            /* The compiler must not merge copies whose results are not read in between. */
            __asm__ volatile("" : : "r"(c->to), "r"(c->from) : "memory");
        } else {
            struct iovec here = {c->to, c->size}, there = {c->from, c->size};
            if (process_vm_readv(c->source, &here, 1, &there, 1, 0) != (ssize_t)c->size)
                return -1;
        }
    }
    return now() - began;
}

static void copy_fields(const void *argument)
{
    json_number("time_us", *(const double *)argument * 1e6);
}

static int copy_samples(const carrier *c, const options *o, copy *p)
{
    long times = choose_iterations(o->seconds, copy_times, p);
    int status = 0;
    for (int sample = 0; sample < o->samples; sample++) {
        char why[WHY_MAX] = "";
        double each;
        int right;
        memset(p->to, 0, p->size);
        each = copy_times(p, times) / (double)times;
        right = each >= 0 && filled(p->to, 0, p->size, 0, 0, why);
        if (each < 0)
            snprintf(why, sizeof why, "a copy failed: %s", strerror(errno));
        status |= !right;
        print_sample(c, "bandwidth", p->size, "MB/s", (double)p->size / each / 1e6, times, sample, right ? NULL : why, copy_fields, &each);
    }
    return status;
}

int memcpy_run(const carrier *c, const options *o)
{
    int status = 0;
    for (int i = 0; i < o->sizes_count; i++) {
        copy p = {memory(o->sizes[i]), memory(o->sizes[i]), o->sizes[i], 0};
        fill(p.from, 0, p.size, 0, 0);
        status |= copy_samples(c, o, &p);
        free(p.from);
        free(p.to);
    }
    return status;
}

int readv_run(const carrier *c, const options *o)
{
    int status = 0;
    for (int i = 0; i < o->sizes_count; i++) {
        copy p = {memory(o->sizes[i]), memory(o->sizes[i]), o->sizes[i], 0};
        struct iovec here = {p.to, 1}, there = {p.from, 1};
        int ready[2];
        char word = 0;
        if (pipe(ready) < 0)
            give_up("pipe", errno);
        p.source = fork();
        if (p.source < 0)
            give_up("fork", errno);
        if (p.source == 0) {
            /* Filled after the fork: the pages are the child's own. */
            child_begins();
            fill(p.from, 0, p.size, 0, 0);
            if (write(ready[1], &word, 1) != 1)
                _exit(1);
            for (;;)
                pause();
        }
        if (read(ready[0], &word, 1) != 1 || process_vm_readv(p.source, &here, 1, &there, 1, 0) != 1) {
            int error = errno;
            kill(p.source, SIGKILL);
            waitpid(p.source, NULL, 0);
            give_up("process_vm_readv", error);
        }
        status |= copy_samples(c, o, &p);
        kill(p.source, SIGKILL);
        waitpid(p.source, NULL, 0);
        close(ready[0]);
        close(ready[1]);
        free(p.from);
        free(p.to);
    }
    return status;
}
