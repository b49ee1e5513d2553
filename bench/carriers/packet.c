/* AF_PACKET: datagrams straight on an interface, under an EtherType for local experiments, past the queueing
 * discipline. */
#include "carrier.h"
#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    ETHER_TYPE = 0x88b5,        /* IEEE 802: local experimental */
    ROOM = 65536,
    BATCH = 32,
    SOCKET_BUFFER = 32 << 20
};

typedef struct packet {
    int fd, known;              /* known: the other side's address is */
    struct sockaddr_ll to;
    unsigned char *bytes;
} packet;

static int packet_send(link_t *l, const void *bytes, size_t length)
{
    packet *p = l->state;
    if (sendto(p->fd, bytes, length, MSG_DONTWAIT, (struct sockaddr *)&p->to, sizeof p->to) >= 0)
        return 1;
    if (errno != EAGAIN && errno != EINTR && errno != ENOBUFS)
        give_up("send on AF_PACKET", errno);
    return 0;
}

static int packet_receive(link_t *l, void (*take)(void *, const unsigned char *, size_t), void *argument)
{
    packet *p = l->state;
    struct sockaddr_ll from;
    int taken = 0;
    for (; taken < BATCH; taken++) {
        socklen_t length = sizeof from;
        ssize_t n = recvfrom(p->fd, p->bytes, ROOM, MSG_DONTWAIT, (struct sockaddr *)&from, &length);
        if (n < 0) {
            if (errno != EAGAIN && errno != EINTR && errno != ENETDOWN)
                give_up("receive on AF_PACKET", errno);
            break;
        }
        if (!p->known) {
            memcpy(p->to.sll_addr, from.sll_addr, ETH_ALEN);
            p->known = 1;
        }
        take(argument, p->bytes, (size_t)n);
        /* A client waits for one answer, and each further call would find nothing. */
        if (!l->serves)
            return 1;
    }
    return taken;
}

/* Opens the socket and returns the interface's MTU. */
static size_t open_packet(packet *p, const char *interface)
{
    struct ifreq r = {0};
    int on = 1, bytes = SOCKET_BUFFER;
    p->fd = socket(AF_PACKET, SOCK_DGRAM, htons(ETHER_TYPE));
    if (p->fd < 0)
        give_up("AF_PACKET socket", errno);
    snprintf(r.ifr_name, sizeof r.ifr_name, "%s", interface);
    if (ioctl(p->fd, SIOCGIFINDEX, &r) < 0) {
        fprintf(stderr, "carrier: no interface is called '%s'\n", interface);
        exit(WRONG_USE);
    }
    p->to = (struct sockaddr_ll){.sll_family = AF_PACKET, .sll_protocol = htons(ETHER_TYPE), .sll_ifindex = r.ifr_ifindex, .sll_halen = ETH_ALEN};
    if (bind(p->fd, (struct sockaddr *)&p->to, sizeof p->to) < 0)
        give_up("bind of AF_PACKET", errno);
    if (setsockopt(p->fd, SOL_PACKET, PACKET_QDISC_BYPASS, &on, sizeof on) < 0)
        give_up("PACKET_QDISC_BYPASS", errno);
    if (setsockopt(p->fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof on) < 0)
        give_up("PACKET_IGNORE_OUTGOING", errno);
    if (setsockopt(p->fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes) < 0)
        setsockopt(p->fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
    if (ioctl(p->fd, SIOCGIFMTU, &r) < 0)
        give_up("MTU of the interface", errno);
    return (size_t)r.ifr_mtu;
}

int packet_run(const carrier *c, const options *o)
{
    packet p = {0};
    link_t l = {.carrier = c, .send = packet_send, .receive = packet_receive, .state = &p};
    int child;
    if ((o->client || o->server) && !o->interface) {
        fprintf(stderr, "carrier: packet between hosts needs --interface\n");
        return WRONG_USE;
    }
    /* Before the fork both sides must be listening; each then opens a socket of its own. */
    l.frame_max = open_packet(&p, o->interface ? o->interface : "lo");
    close(p.fd);
    l.serves = link_serves(o, &child);
    l.frame_max = open_packet(&p, o->interface ? o->interface : "lo");
    if (l.frame_max > 65000)
        l.frame_max = 65000;
    p.bytes = memory(ROOM);
    p.known = link_peer_address(o, p.to.sll_addr);
    /* On the loopback no address belongs to anybody, and both sides hear everything: the header tells the
     * receiver. */
    return link_run(&l, o, child);
}
