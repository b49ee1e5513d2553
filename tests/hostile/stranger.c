/* Another user of the machine, who attacks everything that a job has: `stranger SECONDS USER [TARGET…]`.
 *
 * Becomes USER first. A target is `unix:NAME` (abstract, datagrams), `stream:NAME` (abstract, connections),
 * `udp:ADDRESS:PORT`, `tcp:ADDRESS:PORT`, or `file:PATH`. Prints the targets that it could open, read, or
 * connect to, and how many datagrams the kernel took from it. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { DESCRIPTORS = 8, BYTES = 4000, SIZES = 4, CONNECTIONS = 200 };

static const int sizes[SIZES] = {0, 1, 16, BYTES};
static char bytes[BYTES];
static int descriptors[DESCRIPTORS];

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

static void fail(const char *what)
{
    fprintf(stderr, "stranger.c: %s: %s\n", what, strerror(errno));
    exit(2);
}

static socklen_t abstract(const char *name, struct sockaddr_un *address)
{
    size_t length = strlen(name);
    memset(address, 0, sizeof *address);
    address->sun_family = AF_UNIX;
    if (length + 1 > sizeof address->sun_path)
        fail("a name is too long");
    memcpy(address->sun_path + 1, name, length);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
}

/* Sends one datagram, with descriptors; returns whether the kernel took it. */
static int send_to(int fd, void *address, socklen_t length, int size, int with_descriptors)
{
    char control[CMSG_SPACE(sizeof descriptors)] = {0};
    struct iovec vector = {bytes, (size_t)size};
    struct msghdr message = {.msg_name = address, .msg_namelen = length, .msg_iov = &vector, .msg_iovlen = 1};
    if (with_descriptors) {
        message.msg_control = control;
        message.msg_controllen = sizeof control;
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(sizeof descriptors);
        memcpy(CMSG_DATA(head), descriptors, sizeof descriptors);
    }
    return sendmsg(fd, &message, MSG_DONTWAIT) >= 0;
}

/* New contents for each datagram: xorshift. */
static void shuffle(void)
{
    static unsigned long long state = 0x9e3779b97f4a7c15;
    for (size_t at = 0; at + sizeof state <= 32; at += sizeof state) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        memcpy(bytes + at, &state, sizeof state);
    }
}

/* Reads `KIND:ADDRESS:PORT` behind the kind. */
static socklen_t internet(char *target, struct sockaddr_storage *address)
{
    char *colon = strrchr(target, ':');
    struct sockaddr_in *v4 = (struct sockaddr_in *)address;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)address;
    memset(address, 0, sizeof *address);
    *colon = 0;
    int is_v4 = inet_pton(AF_INET, target, &v4->sin_addr) == 1;
    if (!is_v4 && inet_pton(AF_INET6, target, &v6->sin6_addr) != 1)
        fail("no address");
    *colon = ':';
    address->ss_family = is_v4 ? AF_INET : AF_INET6;
    *(is_v4 ? &v4->sin_port : &v6->sin6_port) = htons((unsigned short)atoi(colon + 1));
    return is_v4 ? sizeof *v4 : sizeof *v6;
}

/* Connects, says something of this length, and stays, in the place of the oldest of many connections. */
static int connect_to(struct sockaddr_storage *address, socklen_t length, int size)
{
    static int held[CONNECTIONS], next;
    if (held[next] > 0)
        close(held[next]);
    held[next] = socket(address->ss_family, SOCK_STREAM, 0);
    int connected = !connect(held[next], (struct sockaddr *)address, length);
    if (connected && size > 0)
        send(held[next], bytes, (size_t)size, MSG_DONTWAIT | MSG_NOSIGNAL);
    next = (next + 1) % CONNECTIONS;
    return connected;
}

static void try_file(const char *path)
{
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0) {
        printf("reads %s\n", path);
        close(fd);
    }
    fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0) {
        printf("writes %s\n", path);
        close(fd);
    }
}

int main(int argc, char **argv)
{
    if (argc < 3)
        fail("SECONDS USER [TARGET...]");
    uid_t user = (uid_t)atoi(argv[2]);
    if (geteuid() == 0 && (setgroups(0, NULL) || setgid(user) || setuid(user)))
        fail("cannot become that user");
    for (int i = 0; i < DESCRIPTORS; i++)
        descriptors[i] = open("/dev/null", O_RDONLY);
    int local = socket(AF_UNIX, SOCK_DGRAM, 0), udp = socket(AF_INET, SOCK_DGRAM, 0), udp6 = socket(AF_INET6, SOCK_DGRAM, 0);
    unsigned long tried = 0, taken = 0;
    for (int i = 3; i < argc; i++)
        if (!strncmp(argv[i], "file:", 5))
            try_file(argv[i] + 5);
        else if (!strncmp(argv[i], "process:", 8) && !ptrace(PTRACE_ATTACH, atoi(argv[i] + 8), 0, 0))
            printf("traces %s\n", argv[i] + 8);
    for (double end = now() + atof(argv[1]); now() < end;)
        for (int i = 3; i < argc; i++) {
            struct sockaddr_un name;
            struct sockaddr_storage host;
            shuffle();
            if (!strncmp(argv[i], "unix:", 5)) {
                socklen_t length = abstract(argv[i] + 5, &name);
                for (int size = 0; size < SIZES; size++, tried++)
                    taken += (unsigned long)send_to(local, &name, length, sizes[size], size % 2);
            } else if (!strncmp(argv[i], "stream:", 7)) {
                socklen_t length = abstract(argv[i] + 7, &name);
                int stream = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
                tried++;
                taken += !connect(stream, (struct sockaddr *)&name, length);
                close(stream);
            } else if (!strncmp(argv[i], "udp:", 4)) {
                socklen_t length = internet(argv[i] + 4, &host);
                for (int size = 0; size < SIZES; size++, tried++)
                    taken += (unsigned long)send_to(host.ss_family == AF_INET ? udp : udp6, &host, length,
                                                    sizes[size] > 1400 ? 1400 : sizes[size], 0);
            } else if (!strncmp(argv[i], "tcp:", 4)) {
                socklen_t length = internet(argv[i] + 4, &host);
                for (int size = 0; size < SIZES; size++, tried++)
                    taken += (unsigned long)connect_to(&host, length, sizes[size]);
            }
        }
    printf("tried %lu datagrams and connections, of which the kernel took %lu\n", tried, taken);
    return 0;
}
