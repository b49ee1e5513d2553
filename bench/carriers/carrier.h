/* The floors without MPI: the speed of the carriers under a message, between two processes. The files of this
 * directory share this header. */
#ifndef WEFT_BENCH_CARRIER_H
#define WEFT_BENCH_CARRIER_H

#define _GNU_SOURCE     /* for recvmmsg and process_vm_readv; this header comes before any other */

#include "../programs/plain.h"
#include <stdint.h>
#include <string.h>

enum {
    SIZES_MAX = 64,
    WHY_MAX = 160,
    MISSING = 77,               /* exit status: a privilege or a facility is missing here */
    WRONG_USE = 2,
    LIMIT_S = 300,              /* a run that takes longer has failed */
    PATIENCE_S = 10             /* seconds that one side waits for any sign of the other */
};

typedef struct options {
    size_t sizes[SIZES_MAX];
    int sizes_count;
    int samples;
    double seconds;             /* aimed length of a sample */
    const char *client;         /* the server's address; NULL: not a client of another host */
    int server;                 /* serve a client of another host */
    const char *interface;
    int port;
    int processor;              /* -1: wherever the scheduler puts it */
    size_t frame;               /* bytes of a datagram in a stream; 0: the carrier's own choice */
    const char *only;           /* "pingpong" or "bandwidth"; NULL: both */
} options;

typedef struct carrier {
    const char *name, *sizes, *help;
    int needs_peer;             /* can run between two hosts */
    int (*run)(const struct carrier *c, const options *o);
} carrier;

extern const carrier carriers[];

/* Seconds of CLOCK_MONOTONIC. */
double now(void);

/* Ends the process with a sentence. The exit status is MISSING when `error` means a lack of privilege or
 * support, else 1. Does not return. */
void give_up(const char *what, int error);

/* Prints one line. `why` is NULL when the sample is valid. `more` may be NULL; it adds fields. */
void print_sample(const carrier *c, const char *measurement, size_t size, const char *unit, double value, long iterations, int sample,
                  const char *why, void (*more)(const void *), const void *argument);

/* The iterations that fill a sample, from a trial function that runs n iterations and returns their seconds.
 */
long choose_iterations(double seconds, double (*trial)(void *, long), void *argument);

void fill(unsigned char *bytes, size_t from, size_t to, unsigned owner, unsigned seed);
/* Returns 1 when the bytes are right; else 0 and a sentence. */
int filled(const unsigned char *bytes, size_t from, size_t to, unsigned owner, unsigned seed, char why[WHY_MAX]);

/* Returns page-aligned memory that has been touched; ends the process when there is none. */
unsigned char *memory(size_t bytes);

/* Keeps this process on the Nth processor it may use; does nothing when there are fewer. */
void choose_processor(int number);
/* Keeps each of two sides that spin on one host on a processor of its own, when there are two. Otherwise the
 * scheduler would keep a fresh fork beside its parent for longer than a sample lasts. */
void separate(int side);

/* The first call in a forked side: the side gets the run's limit too, and dies with the other side. */
void child_begins(void);

static inline void spin_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

static inline int wanted(const options *o, const char *measurement)
{
    return !o->only || strcmp(o->only, measurement) == 0;
}

/* ---- Links: datagrams between two processes, over any carrier (link.c) ---- */

typedef struct link link_t;
struct link {
    const carrier *carrier;
    int serves;                 /* this side answers */
    size_t frame_max;           /* bytes of a datagram */
    /* Sends one datagram to the other side; 0: not now. Ends the process on errors that will not pass. */
    int (*send)(link_t *l, const void *bytes, size_t length);
    /* Hands every datagram that has arrived to `take` (several at once where the carrier can). Returns their
     * number. Never waits. */
    int (*receive)(link_t *l, void (*take)(void *argument, const unsigned char *bytes, size_t length), void *argument);
    /* Sends up to `count` equal datagrams, numbered by `stamp` before each leaves. Returns how many have
     * left. NULL: send() in a row. */
    int (*burst)(link_t *l, unsigned char *frame, size_t length, int count, void (*stamp)(void *argument, unsigned char *frame), void *argument);
    int no_pingpong;            /* a single datagram travels as over another carrier here */
    void *state;
};

/* Runs both measurements over the link: the serving side answers until the client ends. Then waits for
 * `child`, if there is one. Returns the exit status. */
int link_run(link_t *l, const options *o, int child);

/* Decides which side this process is, by --server and --client. Without them the process forks and plays
 * both; `child` then gets the serving child's id in the client. Returns 1 on the serving side. */
int link_serves(const options *o, int *child);

/* Parses the MAC address that --client names. Returns 0 and the broadcast address when the address is to be
 * learnt from the first answer. */
int link_peer_address(const options *o, unsigned char address[6]);

int udp_run(const carrier *c, const options *o);
int udp_offload_run(const carrier *c, const options *o);
int packet_run(const carrier *c, const options *o);
int xdp_run(const carrier *c, const options *o);
int shared_run(const carrier *c, const options *o);
int memcpy_run(const carrier *c, const options *o);
int readv_run(const carrier *c, const options *o);

#endif
