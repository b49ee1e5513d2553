/* The cost of waking the receivers of a broadcast, without MPI. Rank 0 sends one UDP packet to a multicast
 * group, or down a binomial tree of UDP packets; each receiver notes how long after that its recv returned.
 * The clock is the machine's, so that ranks on virtual hosts have the same.
 *
 * bench/multicast.sh starts the program with mpiexec, from which it learns its rank. Between two broadcasts
 * there is a pause in which all receivers fall asleep ("apart"), or rank 0 waits for an answer of each before
 * the next one ("answered"). The figures are the time until the last receiver has the packet: the median over
 * the broadcasts, and the least. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { RANKS_MAX = 64, BROADCASTS = 500, PAUSE_US = 1500, SECONDS_MAX = 20 };
/* Bytes of the packets: as short as they get, and as long as an Ethernet frame carries. */
enum { SHORT = 40, LONG = 1400 };
enum kind { HELLO = 1, TABLE, DATA, DONE };

struct packet {
    uint32_t job, kind, from, number, by_tree, answered;
    uint64_t sent, took;
    struct sockaddr_in table[RANKS_MAX];
    char filler[LONG];
};

static struct sockaddr_in group, table[RANKS_MAX];
static uint32_t rank, ranks, job;
static int fd;

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void must(int ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "wakeups: rank %u: %s: %s\n", rank, what, strerror(errno));
        exit(1);
    }
}

/* Opens one socket for packets to the group and for those to this host alone. */
static void open_socket(void)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = group.sin_port};
    struct ip_mreqn membership = {.imr_multiaddr = group.sin_addr, .imr_ifindex = (int)if_nametoindex("e0")};
    int no = 0;
    fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    must(fd >= 0, "socket");
    must(bind(fd, (struct sockaddr *)&name, sizeof name) == 0, "bind");
    must(setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &membership, sizeof membership) == 0, "IP_ADD_MEMBERSHIP");
    must(setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &membership, sizeof membership) == 0, "IP_MULTICAST_IF");
    must(setsockopt(fd, IPPROTO_IP, IP_MULTICAST_LOOP, &no, sizeof no) == 0, "IP_MULTICAST_LOOP");
}

static void send_to(const struct sockaddr_in *to, struct packet *p, size_t size)
{
    p->job = job;
    p->from = rank;
    must(sendto(fd, p, size, 0, (const struct sockaddr *)to, sizeof *to) == (ssize_t)size, "sendto");
}

static void wait_at_most(long ms)
{
    struct timeval limit = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};
    must(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0, "SO_RCVTIMEO");
}

/* Receives the next packet of this job. Returns its length, or 0 if none came in time. */
static size_t receive(struct packet *p, struct sockaddr_in *from)
{
    for (;;) {
        socklen_t size = sizeof *from;
        ssize_t length = recvfrom(fd, p, sizeof *p, 0, (struct sockaddr *)from, &size);
        if (length < 0) {
            must(errno == EAGAIN || errno == EWOULDBLOCK, "recvfrom");
            return 0;
        }
        if (length >= (ssize_t)SHORT && p->job == job)
            return (size_t)length;
    }
}

/* Passes a packet on to the ranks below this one in a binomial tree from rank 0. */
static void pass_on(struct packet *p, size_t size)
{
    uint32_t bit = 1;
    while (bit < ranks && !(rank & bit))
        bit <<= 1;
    for (bit >>= 1; bit > 0; bit >>= 1)
        if (rank + bit < ranks)
            send_to(&table[rank + bit], p, size);
}

static int ascending(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Learns the addresses of all ranks, and sends them to all. */
static void meet(void)
{
    struct packet p;
    struct sockaddr_in from;
    uint32_t known = 1;
    wait_at_most(20);
    for (int tries = 0; known < ranks; tries++) {
        must(tries < SECONDS_MAX * 50, "not all have come");
        memset(&p, 0, sizeof p);
        p.kind = HELLO;
        send_to(&group, &p, SHORT);
        while (known < ranks && receive(&p, &from))
            if (p.kind == HELLO && p.from < ranks && table[p.from].sin_port == 0) {
                table[p.from] = from;
                known++;
            }
    }
    memset(&p, 0, sizeof p);
    p.kind = TABLE;
    memcpy(p.table, table, sizeof table);
    for (uint32_t to = 1; to < ranks; to++)
        send_to(&table[to], &p, sizeof p);
    wait_at_most(SECONDS_MAX * 1000);
    /* Answers to further greetings. */
    usleep(50000);
}

static void measure(uint32_t answered, uint32_t by_tree, size_t size)
{
    static uint64_t took[BROADCASTS];
    for (uint32_t i = 0; i < BROADCASTS; i++) {
        struct packet p = {.kind = DATA, .number = i, .by_tree = by_tree, .answered = answered, .sent = now_ns()};
        struct sockaddr_in from;
        uint64_t sent = p.sent;
        if (by_tree)
            pass_on(&p, size);
        else
            send_to(&group, &p, size);
        took[i] = 0;
        if (!answered)
            usleep(PAUSE_US);
        for (uint32_t n = 1; n < ranks;) {
            must(receive(&p, &from) > 0, "an answer");
            if (p.kind != DATA || p.number != i)
                continue;
            n++;
            if (p.took > took[i])
                took[i] = p.took;
        }
        if (answered)
            took[i] = now_ns() - sent;
    }
    qsort(took, BROADCASTS, sizeof *took, ascending);
    printf("%s, %zu bytes, %s: median %.1f us, least %.1f us\n", answered ? "answered" : "apart", size,
        by_tree ? "down a tree" : "multicast", (double)took[BROADCASTS / 2] / 1e3, (double)took[0] / 1e3);
    fflush(stdout);
}

static void root(void)
{
    meet();
    for (uint32_t answered = 0; answered < 2; answered++)
        for (uint32_t by_tree = 0; by_tree < 2; by_tree++) {
            measure(answered, by_tree, SHORT);
            measure(answered, by_tree, LONG);
        }
    struct packet p = {.kind = DONE};
    for (uint32_t to = 1; to < ranks; to++)
        send_to(&table[to], &p, SHORT);
}

static void receiver(void)
{
    struct packet p;
    struct sockaddr_in from;
    wait_at_most(SECONDS_MAX * 1000);
    for (;;) {
        size_t size = receive(&p, &from);
        uint64_t received = now_ns();
        must(size > 0, "a packet");
        if (p.kind == HELLO) {
            table[0] = from;
            send_to(&from, &p, SHORT);
        } else if (p.kind == TABLE) {
            memcpy(&table[1], &p.table[1], sizeof table - sizeof *table);
        } else if (p.kind == DONE) {
            return;
        } else {
            if (p.by_tree)
                pass_on(&p, size);
            p.took = received - p.sent;
            /* The receivers have had time by now, so that their answers wake no other receiver. */
            if (!p.answered)
                usleep(PAUSE_US / 2);
            send_to(&table[0], &p, SHORT);
        }
    }
}

int main(void)
{
    const char *me = getenv("PMI_RANK"), *of = getenv("PMI_SIZE");
    must(me && of, "mpiexec starts this program");
    rank = (uint32_t)atoi(me);
    ranks = (uint32_t)atoi(of);
    job = 0x77656674;
    must(ranks >= 2 && ranks <= RANKS_MAX, "2 to 64 ranks");
    group.sin_family = AF_INET;
    group.sin_port = htons(20077);
    group.sin_addr.s_addr = htonl(0xefc00077);
    open_socket();
    if (rank == 0)
        root();
    else
        receiver();
    return 0;
}
