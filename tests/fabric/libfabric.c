/*
 * A libfabric with one provider, "strict", for tests: datagrams over UDP, with the properties of other providers on demand, and no mercy. What
 * the interface forbids ends the program with a sentence: a buffer that is not registered, a packet that is too long, a context that is
 * used twice. Packets leave and arrive only when the completion queue is read, so a buffer that is used again too early shows.
 *
 * STRICT says what it is like, a list of: prefix=N (bytes in front of each packet that are the provider's), register (memory must be
 * registered), endpoint (and registrations bound to the endpoint, and enabled), nowait (nothing to sleep on), inject=N (bytes that leave at once), size=N (bytes of the largest packet), queue=N (operations
 * under way), fail=N (each send after N fails).
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>

enum { QUEUE_MAX = 1024, PEERS_MAX = 256, PACKET_MAX = 9000 };

struct operation {
    void *context, *buffer;
    size_t length;
    fi_addr_t to;
};

struct queue {
    struct operation operations[QUEUE_MAX];
    size_t first, count;
};

static struct {
    struct fid_fabric fabric;
    struct fid_domain domain;
    struct fid_av av;
    struct fid_cq cq;
    struct fid_ep ep;
    struct fid_mr regions[8];
    struct { const char *start, *end; } ranges[8];
    int bound[8], region_count, socket, has_wait, enabled;
    struct sockaddr_in peers[PEERS_MAX];
    size_t peer_count;
    struct queue receives, sends;
    long sent;
} state = {.socket = -1};

static void wrong(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("strict libfabric: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    abort();
}

/* What STRICT says of a property; other where it says nothing. */
static long property(const char *name, long other)
{
    const char *list = getenv("STRICT");
    size_t length = strlen(name);
    while (list && *list) {
        if (!strncmp(list, name, length) && (list[length] == '=' || list[length] == ',' || !list[length]))
            return list[length] == '=' ? atol(list + length + 1) : 1;
        list = strchr(list, ',');
        list += list != NULL;
    }
    return other;
}

static size_t prefix(void) { return property("prefix", 0); }
static size_t largest(void) { return property("size", 1400); }
static size_t depth(void) { return property("queue", 64); }

static int push(struct queue *queue, struct operation operation)
{
    if (queue->count == depth())
        return -FI_EAGAIN;
    for (size_t i = 0; i < queue->count; i++)
        if (queue->operations[(queue->first + i) % QUEUE_MAX].context == operation.context)
            wrong("a context is used by two operations at a time");
    queue->operations[(queue->first + queue->count++) % QUEUE_MAX] = operation;
    return 0;
}

static struct operation pop(struct queue *queue)
{
    struct operation operation = queue->operations[queue->first];
    queue->first = (queue->first + 1) % QUEUE_MAX;
    queue->count--;
    return operation;
}

static void check_memory(const void *buffer, size_t length, void *desc)
{
    if (!property("register", 0))
        return;
    for (int i = 0; i < state.region_count; i++)
        if (desc == fi_mr_desc(&state.regions[i]) && (!property("endpoint", 0) || state.bound[i] == 2) && (const char *)buffer >= state.ranges[i].start
            && (const char *)buffer + length <= state.ranges[i].end)
            return;
    wrong("%zu bytes that are not registered, or with another descriptor", length);
}

/* --- Completion queue --------------------------------------------------------------------------------------------- */

static void transmit(const void *packet, size_t length, fi_addr_t to)
{
    if (to >= state.peer_count)
        wrong("a packet to an address that is not in the address vector");
    /* Datagrams may be lost. */
    (void)sendto(state.socket, packet, length, 0, (struct sockaddr *)&state.peers[to], sizeof *state.peers);
}

static ssize_t cq_read(struct fid_cq *cq, void *buffer, size_t count)
{
    struct fi_cq_msg_entry *entries = buffer;
    size_t done = 0;
    (void)cq;
    while (done < count && state.sends.count) {
        struct operation send = pop(&state.sends);
        transmit((char *)send.buffer + prefix(), send.length - prefix(), send.to);
        entries[done++] = (struct fi_cq_msg_entry){.op_context = send.context, .flags = FI_SEND | FI_MSG, .len = send.length};
    }
    /* One for each look, like the provider udp: who does not look until there is nothing left falls behind. */
    if (done < count && state.receives.count) {
        char packet[PACKET_MAX];
        ssize_t length = recv(state.socket, packet, sizeof packet, MSG_DONTWAIT);
        if (length < 0)
            return done ? (ssize_t)done : -FI_EAGAIN;
        struct operation receive = pop(&state.receives);
        if (prefix() + length > receive.length)
            wrong("a packet of %zd bytes for a buffer of %zu", length, receive.length);
        memset(receive.buffer, 0xaa, prefix());
        memcpy((char *)receive.buffer + prefix(), packet, length);
        entries[done++] =
            (struct fi_cq_msg_entry){.op_context = receive.context, .flags = FI_RECV | FI_MSG, .len = prefix() + length};
    }
    return done ? (ssize_t)done : -FI_EAGAIN;
}

static ssize_t cq_readerr(struct fid_cq *cq, struct fi_cq_err_entry *entry, uint64_t flags)
{
    (void)cq, (void)entry, (void)flags;
    return -FI_EAGAIN;
}

static int cq_control(struct fid *fid, int command, void *argument)
{
    (void)fid;
    if (command != FI_GETWAIT || !state.has_wait)
        return -FI_ENOSYS;
    *(int *)argument = state.socket;
    return 0;
}

/* --- Endpoint ----------------------------------------------------------------------------------------------------- */

static ssize_t ep_recv(struct fid_ep *ep, void *buffer, size_t length, void *desc, fi_addr_t from, void *context)
{
    (void)ep, (void)from;
    if (!state.enabled)
        wrong("a receive before fi_enable");
    check_memory(buffer, length, desc);
    if (length < prefix() + largest())
        wrong("a receive of %zu bytes for packets of %zu", length, largest());
    return push(&state.receives, (struct operation){context, buffer, length, 0});
}

static int fails(void)
{
    long limit = property("fail", -1);
    return limit >= 0 && state.sent++ >= limit;
}

static ssize_t ep_send(struct fid_ep *ep, const void *buffer, size_t length, void *desc, fi_addr_t to, void *context)
{
    (void)ep;
    check_memory(buffer, length, desc);
    if (length < prefix() || length > prefix() + largest())
        wrong("a packet of %zu bytes, and at most %zu fit", length, prefix() + largest());
    if (fails())
        return -FI_EIO;
    return push(&state.sends, (struct operation){context, (void *)buffer, length, to});
}

static ssize_t ep_inject(struct fid_ep *ep, const void *buffer, size_t length, fi_addr_t to)
{
    (void)ep;
    if (length > prefix() + property("inject", 64))
        wrong("%zu bytes that are to leave at once, and %ld may", length, property("inject", 64));
    if (prefix())
        wrong("fi_inject without the room in front");
    if (fails())
        return -FI_EIO;
    transmit(buffer, length, to);
    return 0;
}

static int ep_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
    (void)fid, (void)flags;
    if (other != &state.cq.fid && other != &state.av.fid)
        wrong("fi_ep_bind with something else");
    return 0;
}

static int ep_control(struct fid *fid, int command, void *argument)
{
    (void)fid, (void)argument;
    if (command != FI_ENABLE)
        return -FI_ENOSYS;
    state.enabled = 1;
    return 0;
}

static int ep_getname(fid_t fid, void *address, size_t *length)
{
    struct sockaddr_in own;
    socklen_t own_length = sizeof own;
    struct ifaddrs *list, *one;
    (void)fid;
    getsockname(state.socket, (struct sockaddr *)&own, &own_length);
    /* The first address that is not loopback's, if there is one. */
    own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (getifaddrs(&list) == 0) {
        for (one = list; one; one = one->ifa_next)
            if (one->ifa_addr && one->ifa_addr->sa_family == AF_INET && !(one->ifa_flags & IFF_LOOPBACK))
                own.sin_addr = ((struct sockaddr_in *)one->ifa_addr)->sin_addr;
        freeifaddrs(list);
    }
    if (*length < 6)
        return -FI_ETOOSMALL;
    memcpy(address, &own.sin_addr, 4);
    memcpy((char *)address + 4, &own.sin_port, 2);
    *length = 6;
    return 0;
}

/* --- The objects -------------------------------------------------------------------------------------------------- */

static int do_close(struct fid *fid) { (void)fid; return 0; }
static int no_bind(struct fid *fid, struct fid *other, uint64_t flags) { (void)fid, (void)other, (void)flags; return -FI_ENOSYS; }
static int no_control(struct fid *fid, int command, void *argument) { (void)fid, (void)command, (void)argument; return -FI_ENOSYS; }

static int mr_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
    (void)flags;
    if (other != &state.ep.fid)
        wrong("fi_mr_bind with something else than the endpoint");
    state.bound[(struct fid_mr *)fid - state.regions] = 1;
    return 0;
}

static int mr_control(struct fid *fid, int command, void *argument)
{
    int *bound = &state.bound[(struct fid_mr *)fid - state.regions];
    (void)argument;
    if (command != FI_ENABLE || *bound != 1)
        return -FI_ENOSYS;
    *bound = 2;
    return 0;
}

static int av_insert(struct fid_av *av, const void *address, size_t count, fi_addr_t *name, uint64_t flags, void *context)
{
    (void)av, (void)flags, (void)context;
    if (count != 1 || state.peer_count == PEERS_MAX)
        return -FI_ENOMEM;
    struct sockaddr_in *peer = &state.peers[state.peer_count];
    peer->sin_family = AF_INET;
    memcpy(&peer->sin_addr, address, 4);
    memcpy(&peer->sin_port, (const char *)address + 4, 2);
    *name = state.peer_count++;
    return 1;
}

static int mr_reg(struct fid *fid, const void *buffer, size_t length, uint64_t access, uint64_t offset, uint64_t key, uint64_t flags,
                  struct fid_mr **mr, void *context)
{
    (void)fid, (void)access, (void)offset, (void)flags, (void)context;
    int place = state.region_count++;
    state.ranges[place].start = buffer;
    state.ranges[place].end = (const char *)buffer + length;
    static struct fi_ops ops = {.size = sizeof ops, .close = do_close, .bind = mr_bind, .control = mr_control};
    state.regions[place] = (struct fid_mr){.fid.ops = &ops, .mem_desc = &state.ranges[place], .key = key};
    *mr = &state.regions[place];
    return 0;
}

static int av_open(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **av, void *context)
{
    static struct fi_ops ops = {.size = sizeof ops, .close = do_close, .bind = no_bind, .control = no_control};
    static struct fi_ops_av av_ops = {.size = sizeof av_ops, .insert = av_insert};
    (void)domain, (void)attr, (void)context;
    state.av = (struct fid_av){.fid.ops = &ops, .ops = &av_ops};
    *av = &state.av;
    return 0;
}

static int cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq, void *context)
{
    static struct fi_ops ops = {.size = sizeof ops, .close = do_close, .bind = no_bind, .control = cq_control};
    static struct fi_ops_cq cq_ops = {.size = sizeof cq_ops, .read = cq_read, .readerr = cq_readerr};
    (void)domain, (void)context;
    if (attr->format != FI_CQ_FORMAT_MSG)
        wrong("another format of completions");
    if (attr->wait_obj == FI_WAIT_FD && property("nowait", 0))
        return -FI_ENOSYS;
    state.has_wait = attr->wait_obj == FI_WAIT_FD;
    state.cq = (struct fid_cq){.fid.ops = &ops, .ops = &cq_ops};
    *cq = &state.cq;
    return 0;
}

static int endpoint(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, void *context)
{
    static struct fi_ops ops = {.size = sizeof ops, .close = do_close, .bind = ep_bind, .control = ep_control};
    static struct fi_ops_cm cm = {.size = sizeof cm, .getname = ep_getname};
    static struct fi_ops_msg msg = {.size = sizeof msg, .recv = ep_recv, .send = ep_send, .inject = ep_inject};
    (void)domain, (void)info, (void)context;
    state.ep = (struct fid_ep){.fid.ops = &ops, .cm = &cm, .msg = &msg};
    *ep = &state.ep;
    return 0;
}

static int domain(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **made, void *context)
{
    static struct fi_ops ops = {.size = sizeof ops, .close = do_close, .bind = no_bind, .control = no_control};
    static struct fi_ops_domain domain_ops =
        {.size = sizeof domain_ops, .av_open = av_open, .cq_open = cq_open, .endpoint = endpoint};
    static struct fi_ops_mr mr = {.size = sizeof mr, .reg = mr_reg};
    struct sockaddr_in any = {.sin_family = AF_INET};
    (void)fabric, (void)info, (void)context;
    state.socket = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (bind(state.socket, (struct sockaddr *)&any, sizeof any))
        return -errno;
    state.domain = (struct fid_domain){.fid.ops = &ops, .ops = &domain_ops, .mr = &mr};
    *made = &state.domain;
    return 0;
}

static int trywait(struct fid_fabric *fabric, struct fid **fids, int count)
{
    char byte;
    (void)fabric, (void)fids, (void)count;
    return state.sends.count || recv(state.socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 ? -FI_EAGAIN : 0;
}

/* --- What the library exports ------------------------------------------------------------------------------------- */

uint32_t fi_version(void) { return FI_VERSION(1, 17); }

const char *fi_strerror(int error) { return error == FI_EIO ? "a failure made for the test" : strerror(error); }

struct fi_info *fi_dupinfo(const struct fi_info *from)
{
    struct fi_info *info = calloc(1, sizeof *info);
    (void)from;
    info->tx_attr = calloc(1, sizeof *info->tx_attr);
    info->rx_attr = calloc(1, sizeof *info->rx_attr);
    info->ep_attr = calloc(1, sizeof *info->ep_attr);
    info->domain_attr = calloc(1, sizeof *info->domain_attr);
    info->fabric_attr = calloc(1, sizeof *info->fabric_attr);
    return info;
}

void fi_freeinfo(struct fi_info *info)
{
    while (info) {
        struct fi_info *next = info->next;
        free(info->domain_attr->name);
        free(info->fabric_attr->name);
        free(info->fabric_attr->prov_name);
        free(info->tx_attr);
        free(info->rx_attr);
        free(info->ep_attr);
        free(info->domain_attr);
        free(info->fabric_attr);
        free(info);
        info = next;
    }
}

int fi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags, const struct fi_info *hints, struct fi_info **info)
{
    const char *provider = hints->fabric_attr->prov_name;
    (void)version, (void)node, (void)service, (void)flags;
    if (hints->ep_attr->type != FI_EP_DGRAM || (provider && strcmp(provider, "strict")))
        return -FI_ENODATA;
    if (prefix() && !(hints->mode & FI_MSG_PREFIX))
        return -FI_ENODATA;
    if (property("register", 0) && !(hints->domain_attr->mr_mode & FI_MR_LOCAL))
        return -FI_ENODATA;
    if (property("endpoint", 0) && !(hints->domain_attr->mr_mode & FI_MR_ENDPOINT))
        return -FI_ENODATA;
    *info = fi_dupinfo(NULL);
    (*info)->mode = prefix() ? FI_MSG_PREFIX : 0;
    (*info)->addr_format = FI_FORMAT_UNSPEC;
    (*info)->tx_attr->inject_size = property("inject", 64);
    (*info)->tx_attr->size = (*info)->rx_attr->size = depth();
    (*info)->ep_attr->type = FI_EP_DGRAM;
    (*info)->ep_attr->max_msg_size = prefix() + largest();
    (*info)->ep_attr->msg_prefix_size = prefix();
    (*info)->domain_attr->mr_mode = (property("register", 0) ? FI_MR_LOCAL : 0) | (property("endpoint", 0) ? FI_MR_ENDPOINT : 0);
    (*info)->domain_attr->name = strdup("strict0");
    (*info)->fabric_attr->name = strdup("tests");
    (*info)->fabric_attr->prov_name = strdup("strict");
    return 0;
}

int fi_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context)
{
    static struct fi_ops ops = {.size = sizeof ops, .close = do_close, .bind = no_bind, .control = no_control};
    static struct fi_ops_fabric fabric_ops = {.size = sizeof fabric_ops, .domain = domain, .trywait = trywait};
    (void)attr, (void)context;
    state.fabric = (struct fid_fabric){.fid.ops = &ops, .ops = &fabric_ops};
    *fabric = &state.fabric;
    return 0;
}
