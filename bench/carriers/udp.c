/* UDP sockets: single datagrams, batches by one call, and batches that the kernel cuts and joins
 * (UDP_SEGMENT, UDP_GRO). */
#include "carrier.h"
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/udp.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
    BATCH = 32,                 /* datagrams of one sendmmsg or recvmmsg */
    SEGMENTS = 44,              /* of one UDP_SEGMENT send: 44 x 1448 bytes fit the 64 KiB of an IP packet */
    ROOM = 65536,
    SOCKET_BUFFER = 32 << 20
};

typedef struct udp {
    int fd, connected, offload;
    struct mmsghdr in[BATCH], out[BATCH];
    struct iovec in_at[BATCH], out_at[BATCH];
    unsigned char *in_bytes, *out_bytes;
    char control[256];
} udp;

static int transient(int error)
{
    /* ECONNREFUSED: the other side is not there yet, or no longer. */
    return error == EAGAIN || error == EWOULDBLOCK || error == EINTR || error == ENOBUFS || error == ECONNREFUSED;
}

static int udp_send(link_t *l, const void *bytes, size_t length)
{
    udp *u = l->state;
    if (send(u->fd, bytes, length, MSG_DONTWAIT) >= 0)
        return 1;
    if (!transient(errno))
        give_up("send", errno);
    return 0;
}

static int udp_burst(link_t *l, unsigned char *frame, size_t length, int count, void (*stamp)(void *, unsigned char *), void *argument)
{
    udp *u = l->state;
    int sent;
    for (int i = 0; i < count; i++) {
        stamp(argument, frame);
        u->out_at[i] = (struct iovec){u->out_bytes + (size_t)i * length, length};
        u->out[i].msg_hdr = (struct msghdr){.msg_iov = &u->out_at[i], .msg_iovlen = 1};
        memcpy(u->out_at[i].iov_base, frame, length);
    }
    sent = sendmmsg(u->fd, u->out, (unsigned)count, MSG_DONTWAIT);
    if (sent < 0 && !transient(errno))
        give_up("sendmmsg", errno);
    return sent < 0 ? 0 : sent;
}

static int udp_burst_offload(link_t *l, unsigned char *frame, size_t length, int count, void (*stamp)(void *, unsigned char *), void *argument)
{
    udp *u = l->state;
    char control[CMSG_SPACE(sizeof(uint16_t))] = {0};
    struct iovec at = {u->out_bytes, 0};
    struct msghdr m = {.msg_iov = &at, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    uint16_t segment = (uint16_t)length;
    count = SEGMENTS;
    while ((size_t)count * length > 65000)
        count--;
    for (int i = 0; i < count; i++) {
        stamp(argument, frame);
        memcpy(u->out_bytes + (size_t)i * length, frame, length);
    }
    at.iov_len = (size_t)count * length;
    c->cmsg_level = SOL_UDP;
    c->cmsg_type = UDP_SEGMENT;
    c->cmsg_len = CMSG_LEN(sizeof segment);
    memcpy(CMSG_DATA(c), &segment, sizeof segment);
    if (sendmsg(u->fd, &m, MSG_DONTWAIT) >= 0)
        return count;
    if (!transient(errno))
        give_up("sendmsg with UDP_SEGMENT", errno);
    return 0;
}

/* The server's socket hears all senders until the first datagram; then only that client. */
static void adopt(udp *u, const struct sockaddr_storage *from, socklen_t length)
{
    if (u->connected)
        return;
    if (connect(u->fd, (const struct sockaddr *)from, length) < 0)
        give_up("connect", errno);
    u->connected = 1;
}

static int udp_receive(link_t *l, void (*take)(void *, const unsigned char *, size_t), void *argument)
{
    udp *u = l->state;
    struct sockaddr_storage from;
    int got, batch = u->connected && l->serves ? BATCH : 1;
    if (batch == 1) {
        /* The client waits for one answer: the plain call is the quickest. */
        socklen_t length = sizeof from;
        ssize_t n = recvfrom(u->fd, u->in_bytes, ROOM, MSG_DONTWAIT, (struct sockaddr *)&from, &length);
        if (n < 0) {
            if (!transient(errno))
                give_up("recvfrom", errno);
            return 0;
        }
        adopt(u, &from, length);
        take(argument, u->in_bytes, (size_t)n);
        return 1;
    }
    got = recvmmsg(u->fd, u->in, BATCH, MSG_DONTWAIT, NULL);
    if (got < 0 && !transient(errno))
        give_up("recvmmsg", errno);
    for (int i = 0; i < got; i++)
        take(argument, u->in_at[i].iov_base, u->in[i].msg_len);
    return got < 0 ? 0 : got;
}

/* A joined datagram comes with the length of its segments. */
static int udp_receive_offload(link_t *l, void (*take)(void *, const unsigned char *, size_t), void *argument)
{
    udp *u = l->state;
    struct sockaddr_storage from;
    struct iovec at = {u->in_bytes, ROOM};
    struct msghdr m = {.msg_name = &from, .msg_namelen = sizeof from, .msg_iov = &at, .msg_iovlen = 1,
        .msg_control = u->control, .msg_controllen = sizeof u->control};
    ssize_t n = recvmsg(u->fd, &m, MSG_DONTWAIT);
    size_t segment = 0;
    int taken = 0;
    if (n < 0) {
        if (!transient(errno))
            give_up("recvmsg", errno);
        return 0;
    }
    adopt(u, &from, m.msg_namelen);
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c))
        if (c->cmsg_level == SOL_UDP && c->cmsg_type == UDP_GRO) {
            int value;
            memcpy(&value, CMSG_DATA(c), sizeof value);
            segment = (size_t)value;
        }
    if (segment == 0)
        segment = (size_t)n;
    for (size_t done = 0; done < (size_t)n; done += segment, taken++)
        take(argument, u->in_bytes + done, (size_t)n - done < segment ? (size_t)n - done : segment);
    return taken;
}

static void enlarge_buffers(int fd)
{
    int bytes = SOCKET_BUFFER;
    if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes) < 0)
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
    if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof bytes) < 0)
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
}

static int open_socket(int family)
{
    int fd = socket(family, SOCK_DGRAM, 0);
    if (fd < 0)
        give_up("UDP socket", errno);
    enlarge_buffers(fd);
    return fd;
}

static int connected_to(const struct sockaddr *to, socklen_t length)
{
    int fd = open_socket(to->sa_family);
    if (connect(fd, to, length) < 0)
        give_up("connect", errno);
    return fd;
}

static int client_of(const options *o)
{
    struct addrinfo hints = {.ai_socktype = SOCK_DGRAM, .ai_flags = AI_NUMERICHOST}, *found;
    char port[16];
    int fd;
    snprintf(port, sizeof port, "%d", o->port);
    if (getaddrinfo(o->client, port, &hints, &found) != 0) {
        fprintf(stderr, "carrier: --client: '%s' is no IP address\n", o->client);
        exit(WRONG_USE);
    }
    fd = connected_to(found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    return fd;
}

/* An IPv6 socket that also hears IPv4 where there is IPv6, else an IPv4 one. */
static int server_at(int port)
{
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET6, SOCK_DGRAM, 0), no = 0;
    if (fd >= 0) {
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
        enlarge_buffers(fd);
        if (bind(fd, (struct sockaddr *)&six, sizeof six) == 0)
            return fd;
        close(fd);
    }
    fd = open_socket(AF_INET);
    if (bind(fd, (struct sockaddr *)&four, sizeof four) < 0)
        give_up("bind of the server's port", errno);
    return fd;
}

static void prepare(udp *u)
{
    int on = 1;
    u->in_bytes = memory((size_t)BATCH * ROOM);
    u->out_bytes = memory((size_t)BATCH * ROOM);
    for (int i = 0; i < BATCH; i++) {
        u->in_at[i] = (struct iovec){u->in_bytes + (size_t)i * ROOM, ROOM};
        u->in[i].msg_hdr = (struct msghdr){.msg_iov = &u->in_at[i], .msg_iovlen = 1};
    }
    if (u->offload && setsockopt(u->fd, SOL_UDP, UDP_GRO, &on, sizeof on) < 0)
        give_up("UDP_GRO", errno);
}

static int run(const carrier *c, const options *o, int offload)
{
    udp u = {.offload = offload};
    struct sockaddr_in local = {.sin_family = AF_INET};
    socklen_t length = sizeof local;
    link_t l = {.carrier = c, .frame_max = 65000, .send = udp_send, .state = &u, .no_pingpong = offload};
    int child, listening = -1;
    if (!o->client && !o->server) {
        local.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        listening = open_socket(AF_INET);
        if (bind(listening, (struct sockaddr *)&local, sizeof local) < 0 || getsockname(listening, (struct sockaddr *)&local, &length) < 0)
            give_up("bind on the loopback", errno);
    }
    l.serves = link_serves(o, &child);
    l.receive = offload ? udp_receive_offload : udp_receive;
    l.burst = offload ? udp_burst_offload : udp_burst;
    if (l.serves)
        u.fd = listening >= 0 ? listening : server_at(o->port);
    else
        u.fd = o->client ? client_of(o) : connected_to((struct sockaddr *)&local, sizeof local);
    u.connected = !l.serves;
    prepare(&u);
    return link_run(&l, o, child);
}

int udp_run(const carrier *c, const options *o)
{
    return run(c, o, 0);
}

int udp_offload_run(const carrier *c, const options *o)
{
    return run(c, o, 1);
}
