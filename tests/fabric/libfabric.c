/*
 * A libfabric with one provider, "strict", for tests: datagrams over UDP, or reliable messages and remote
 * writes and reads, with the properties of other providers on demand, and no mercy. A use that the interface
 * forbids ends the program with a sentence: memory that is not registered, a key that leads nowhere, a packet
 * that is too long, a context that is used twice. Packets leave and arrive only when the completion queue is
 * read, so a buffer that is used again too early shows.
 *
 * STRICT is a list of the provider's properties:
 *   prefix=N     bytes in front of each packet that are the provider's
 *   received     only in front of packets that are received
 *   register     own memory must be registered (FI_MR_LOCAL)
 *   endpoint     registrations must be bound to the endpoint, and enabled (FI_MR_ENDPOINT)
 *   nowait       nothing to sleep on
 *   inject=N     bytes that leave at once
 *   size=N       bytes of the largest packet, and of the largest write or read
 *   queue=N      operations under way
 *   fail=N       each send after N fails
 *   taken=N      the ports of the first N endpoints belong to other programs
 *   reliable     messages arrive once and in order (FI_EP_RDM), over sockets in STRICT_DIRECTORY
 *   placing      as reliable; memory of peers is written and read (FI_RMA), before messages that were sent
 *                later arrive
 *   virtual      a peer's memory is named by its addresses (FI_MR_VIRT_ADDR), not by the distance from its
 *                beginning
 *   keys         the provider chooses keys (FI_MR_PROV_KEY)
 *   keybytes=N   otherwise, bytes of a key
 *   regions=N    registrations at a time
 *   refuse=N     each write or read after N is refused
 *   broken=N     the write or read after N ends with an error
 *   unwritten    writes are not counted for that
 *   tell         at the end it prints how many bytes were written to memory of peers, and how many were read
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
#include <sys/un.h>
#include <unistd.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_rma.h>

enum { QUEUE_MAX = 1024, PEERS_MAX = 256, REGIONS_MAX = 4200, PART_MAX = 16384, PACKET_MAX = 1 << 16, ADDRESS = 6 };

enum kind { MESSAGE, WRITE, READ, ANSWER };

struct operation {
    enum kind kind;
    void *context, *buffer;
    size_t length;
    fi_addr_t to;
    /* For a write or read: its memory, the bytes of it that have left or come, and the place where it goes to
     * or comes from. */
    struct region *region;
    size_t gone;
    uint64_t address, key;
    int is_broken;
};

/* Memory of this process that a peer reads, and the bytes of it that have left. */
struct answer {
    struct sockaddr_un to;
    uint64_t address, key, place;
    size_t length, gone;
};

/* Registered memory; it is free while it has no number. */
struct region {
    struct fid_mr mr;
    const char *start, *end;
    uint64_t number, key, access;
    int is_bound, is_enabled, used;
};

/* The header of a datagram of reliable endpoints. */
struct header {
    uint64_t kind, address, key;
    /* For a read: the process that asks, the length, and the number of the read among those of that process.
     * For an answer: the place in the whole to which it belongs. */
    uint64_t process, length, place, offset;
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
    struct region regions[REGIONS_MAX];
    uint64_t registrations;
    long open_regions;
    int socket, has_wait, enabled;
    union { struct sockaddr any; struct sockaddr_in in; struct sockaddr_un un; } peers[PEERS_MAX], own;
    size_t peer_count;
    struct queue receives, sends;
    /* Reads whose answers are not here yet; an entry without a context is unused. */
    struct operation reads[QUEUE_MAX];
    size_t reads_under_way;
    struct answer answers[QUEUE_MAX];
    size_t first_answer, answer_count;
    struct operation broken;
    long sent, accesses;
    unsigned long long written, read;
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

/* The value of a property in STRICT; `other` where it is not there. */
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
static size_t sent_prefix(void) { return property("received", 0) ? 0 : prefix(); }
static size_t largest(void) { return property("size", 1400); }
static size_t depth(void) { return property("queue", 64); }
static int places(void) { return property("placing", 0); }
static int is_reliable(void) { return places() || property("reliable", 0); }

static int push(struct queue *queue, struct operation operation)
{
    if (queue->count == depth())
        return -FI_EAGAIN;
    for (size_t i = 0; i < queue->count; i++)
        if (queue->operations[(queue->first + i) % QUEUE_MAX].context == operation.context)
            wrong("a context is used by two operations at a time");
    for (size_t i = 0; state.reads_under_way && i < QUEUE_MAX; i++)
        if (state.reads[i].context && state.reads[i].context == operation.context)
            wrong("a context of a read that is under way is used again");
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

/* The region of a descriptor, which must have all of this memory and this right; none where nothing need be
 * registered. */
static struct region *check_memory(const void *buffer, size_t length, void *desc, uint64_t right)
{
    if (!property("register", 0))
        return NULL;
    for (struct region *region = state.regions; region < state.regions + REGIONS_MAX; region++)
        if (region->number && desc == fi_mr_desc(&region->mr)) {
            if ((const char *)buffer < region->start || (const char *)buffer + length > region->end)
                wrong("%zu bytes that are not those of the descriptor", length);
            if (!region->is_enabled)
                wrong("memory whose registration is not bound to the endpoint and enabled");
            if (!(region->access & right))
                wrong("memory that is registered for something else");
            return region;
        }
    wrong("%zu bytes that are not registered, or whose registration is closed", length);
    return NULL;
}

/* The place where the process of this name receives reliable messages. */
static int socket_name(struct sockaddr_un *name, uint32_t process)
{
    const char *directory = getenv("STRICT_DIRECTORY");
    name->sun_family = AF_UNIX;
    int length = snprintf(name->sun_path, sizeof name->sun_path, "%s/%u", directory ? directory : ".", process);
    return length < (int)sizeof name->sun_path ? 0 : -FI_EINVAL;
}

/* --- Completion queue ----------------------------------------------------------------------------------- */

/* Returns whether the message has left: a peer that takes nothing now has it later. */
static int transmit_to(struct sockaddr_un *to, struct header header, const void *bytes, size_t length)
{
    struct iovec parts[] = {{&header, sizeof header}, {(void *)bytes, length}};
    struct msghdr message = {.msg_name = to, .msg_namelen = sizeof *to, .msg_iov = parts, .msg_iovlen = 2};
    if (sendmsg(state.socket, &message, MSG_DONTWAIT) >= 0)
        return 1;
    /* A peer that is gone takes everything. */
    return errno != EAGAIN && errno != ENOBUFS;
}

/* Sends to a peer of the address vector. */
static int transmit(struct header header, const void *bytes, size_t length, fi_addr_t to)
{
    if (to >= state.peer_count)
        wrong("a packet to an address that is not in the address vector");
    if (is_reliable())
        return transmit_to(&state.peers[to].un, header, bytes, length);
    /* Datagrams may be lost. */
    (void)sendto(state.socket, bytes, length, 0, &state.peers[to].any, sizeof state.peers[to].in);
    return 1;
}

/* Lets the next part of an operation leave, if there is room. Returns whether all of it has left. */
static int advance(struct operation *operation)
{
    if (operation->kind == READ) {
        size_t place = 0;
        while (state.reads[place].context)
            place++;
        struct header header = {.kind = READ, .address = operation->address, .key = operation->key,
                                .process = getpid(), .length = operation->length, .place = place};
        if (!transmit(header, NULL, 0, operation->to))
            return 0;
        state.reads[place] = *operation;
        return 1;
    }
    if (operation->kind == MESSAGE)
        return transmit((struct header){0}, (char *)operation->buffer + sent_prefix(), operation->length - sent_prefix(), operation->to);
    while (operation->gone < operation->length) {
        size_t part = operation->length - operation->gone;
        part = part < PART_MAX ? part : PART_MAX;
        struct header header = {.kind = WRITE, .address = operation->address + operation->gone, .key = operation->key};
        if (!transmit(header, (char *)operation->buffer + operation->gone, part, operation->to))
            return 0;
        operation->gone += part;
    }
    return 1;
}

/* The place of this process's memory that a peer names, which must be registered for that. */
static char *exposed(uint64_t address, uint64_t key, size_t length, uint64_t right)
{
    const char *does = right == FI_REMOTE_WRITE ? "writes" : "reads";
    for (struct region *region = state.regions; region < state.regions + REGIONS_MAX; region++)
        if (region->number && region->key == key) {
            uint64_t size = region->end - region->start;
            uint64_t offset = property("virtual", 0) ? address - (uintptr_t)region->start : address;
            if (offset > size || length > size - offset)
                wrong("a peer %s %zu bytes at %#llx, outside of the memory of their key", does, length, (unsigned long long)address);
            if (!region->is_enabled || !(region->access & right))
                wrong("a peer %s memory that is not registered for that", does);
            return (char *)region->start + offset;
        }
    wrong("a peer %s with a key that leads nowhere", does);
    return NULL;
}

/* Handles a peer's request for memory of this process. */
static void begin_answer(struct header header)
{
    if (state.answer_count == QUEUE_MAX)
        wrong("more reads than can be under way");
    (void)exposed(header.address, header.key, header.length, FI_REMOTE_READ);
    struct answer *answer = &state.answers[(state.first_answer + state.answer_count++) % QUEUE_MAX];
    *answer = (struct answer){.address = header.address, .key = header.key, .place = header.place, .length = header.length};
    socket_name(&answer->to, header.process);
}

/* Sends the memory that peers have asked for, in parts, as far as they take it. */
static void send_answers(void)
{
    while (state.answer_count) {
        struct answer *answer = &state.answers[state.first_answer];
        const char *bytes = exposed(answer->address, answer->key, answer->length, FI_REMOTE_READ);
        while (answer->gone < answer->length) {
            size_t part = answer->length - answer->gone;
            part = part < PART_MAX ? part : PART_MAX;
            struct header header = {.kind = ANSWER, .place = answer->place, .offset = answer->gone};
            if (!transmit_to(&answer->to, header, bytes + answer->gone, part))
                return;
            answer->gone += part;
        }
        state.first_answer = (state.first_answer + 1) % QUEUE_MAX;
        state.answer_count--;
    }
}

/* Takes a part of an answer. Returns whether it was the last one: then the read is over. */
static int take_answer(struct header header, const char *bytes, size_t length, struct operation *over)
{
    struct operation *read = &state.reads[header.place];
    if (header.place >= QUEUE_MAX || !read->context || header.offset != read->gone || length > read->length - read->gone)
        wrong("an answer to no read");
    memcpy((char *)read->buffer + read->gone, bytes, length);
    read->gone += length;
    if (read->gone < read->length)
        return 0;
    *over = *read;
    *read = (struct operation){0};
    state.reads_under_way--;
    return 1;
}

/* Ends an operation: its memory need not stay registered, and its completion is this entry, unless it is to
 * end with an error. */
static int complete(struct operation operation, struct fi_cq_msg_entry *entry)
{
    static const uint64_t flags[] = {[MESSAGE] = FI_SEND | FI_MSG, [WRITE] = FI_WRITE | FI_RMA, [READ] = FI_READ | FI_RMA};
    if (operation.region)
        operation.region->used--;
    if (operation.is_broken) {
        state.broken = operation;
        return 0;
    }
    *entry = (struct fi_cq_msg_entry){.op_context = operation.context, .flags = flags[operation.kind], .len = operation.length};
    return 1;
}

static ssize_t cq_read(struct fid_cq *cq, void *buffer, size_t count)
{
    struct fi_cq_msg_entry *entries = buffer;
    size_t done = 0;
    (void)cq;
    if (state.broken.context)
        return -FI_EAVAIL;
    while (done < count && state.sends.count && advance(&state.sends.operations[state.sends.first])) {
        struct operation send = pop(&state.sends);
        if (send.kind == READ)
            continue;
        if (!complete(send, &entries[done]))
            return done ? (ssize_t)done : -FI_EAVAIL;
        done++;
    }
    send_answers();
    /* One completion for each look, like the provider udp: a caller that does not look until there is nothing
     * left falls behind. */
    if (done < count && state.receives.count) {
        static char packet[PACKET_MAX];
        struct header header = {0};
        struct iovec parts[] = {{&header, sizeof header}, {packet, sizeof packet}};
        struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
        ssize_t length = is_reliable() ? recvmsg(state.socket, &message, MSG_DONTWAIT) : recv(state.socket, packet, sizeof packet, MSG_DONTWAIT);
        if (length < 0)
            return done ? (ssize_t)done : -FI_EAGAIN;
        if (is_reliable())
            length -= sizeof header;
        struct operation over;
        if (header.kind == WRITE)
            memcpy(exposed(header.address, header.key, length, FI_REMOTE_WRITE), packet, length);
        if (header.kind == READ)
            begin_answer(header);
        if (header.kind == ANSWER && take_answer(header, packet, length, &over)) {
            if (!complete(over, &entries[done]))
                return done ? (ssize_t)done : -FI_EAVAIL;
            done++;
        }
        if (header.kind != MESSAGE)
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
    (void)cq, (void)flags;
    if (!state.broken.context)
        return -FI_EAGAIN;
    *entry = (struct fi_cq_err_entry){.op_context = state.broken.context, .flags = (state.broken.kind == READ ? FI_READ : FI_WRITE) | FI_RMA, .err = FI_EIO};
    state.broken.context = NULL;
    return 1;
}

static int cq_control(struct fid *fid, int command, void *argument)
{
    (void)fid;
    if (command != FI_GETWAIT || !state.has_wait)
        return -FI_ENOSYS;
    *(int *)argument = state.socket;
    return 0;
}

/* --- Endpoint ------------------------------------------------------------------------------------------- */

static ssize_t ep_recv(struct fid_ep *ep, void *buffer, size_t length, void *desc, fi_addr_t from, void *context)
{
    (void)ep, (void)from;
    if (!state.enabled)
        wrong("a receive before fi_enable");
    check_memory(buffer, length, desc, FI_RECV);
    if (length < prefix() + largest())
        wrong("a receive of %zu bytes for packets of %zu", length, largest());
    return push(&state.receives, (struct operation){.context = context, .buffer = buffer, .length = length});
}

static int fails(void)
{
    long limit = property("fail", -1);
    return limit >= 0 && state.sent++ >= limit;
}

/* Takes an operation that leaves; its memory stays registered until it has left. */
static ssize_t take(struct operation operation)
{
    int code = push(&state.sends, operation);
    if (code == 0 && operation.region)
        operation.region->used++;
    return code;
}

static ssize_t ep_send(struct fid_ep *ep, const void *buffer, size_t length, void *desc, fi_addr_t to, void *context)
{
    (void)ep;
    struct region *region = check_memory(buffer, length, desc, FI_SEND);
    if (length < sent_prefix() || length > sent_prefix() + largest())
        wrong("a packet of %zu bytes, and at most %zu fit", length, sent_prefix() + largest());
    if (fails())
        return -FI_EIO;
    return take((struct operation){.context = context, .buffer = (void *)buffer, .length = length, .to = to, .region = region});
}

/* Takes a write or read; some are refused, or end with an error. */
static ssize_t access_memory(struct operation operation)
{
    int counts = operation.kind == READ || !property("unwritten", 0);
    long number = state.accesses += counts, limit = property("refuse", -1), broken = property("broken", -1);
    if (!operation.length || operation.length > largest())
        wrong("a write or read of %zu bytes, and at most %zu fit", operation.length, largest());
    if (limit >= 0 && counts && number > limit)
        return -FI_EIO;
    operation.is_broken = broken >= 0 && counts && number == broken + 1;
    return take(operation);
}

static ssize_t ep_write(struct fid_ep *ep, const void *buffer, size_t length, void *desc, fi_addr_t to, uint64_t address, uint64_t key, void *context)
{
    (void)ep;
    struct region *region = check_memory(buffer, length, desc, FI_WRITE);
    ssize_t code = access_memory((struct operation){.kind = WRITE, .context = context, .buffer = (void *)buffer, .length = length, .to = to,
                                                    .region = region, .address = address, .key = key});
    state.written += code == 0 ? length : 0;
    return code;
}

static ssize_t ep_read(struct fid_ep *ep, void *buffer, size_t length, void *desc, fi_addr_t from, uint64_t address, uint64_t key, void *context)
{
    (void)ep;
    struct region *region = check_memory(buffer, length, desc, FI_READ);
    if (state.reads_under_way == depth())
        return -FI_EAGAIN;
    ssize_t code = access_memory((struct operation){.kind = READ, .context = context, .buffer = buffer, .length = length, .to = from,
                                                    .region = region, .address = address, .key = key});
    if (code == 0) {
        state.reads_under_way++;
        state.read += length;
    }
    return code;
}

static ssize_t ep_inject(struct fid_ep *ep, const void *buffer, size_t length, fi_addr_t to)
{
    (void)ep;
    if (length > sent_prefix() + property("inject", 64))
        wrong("%zu bytes that are to leave at once, and %ld may", length, property("inject", 64));
    if (sent_prefix())
        wrong("fi_inject without the room in front");
    if (fails())
        return -FI_EIO;
    if (is_reliable())
        wrong("fi_inject over a reliable endpoint: nobody would hear whether it was delivered");
    transmit((struct header){0}, buffer, length, to);
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
    static long taken;
    (void)fid, (void)argument;
    if (command != FI_ENABLE)
        return -FI_ENOSYS;
    if (taken++ < property("taken", 0))
        return -FI_EADDRINUSE;
    state.enabled = 1;
    return 0;
}

static int ep_getname(fid_t fid, void *address, size_t *length)
{
    struct sockaddr_in own;
    socklen_t own_length = sizeof own;
    struct ifaddrs *list, *one;
    (void)fid;
    if (*length < ADDRESS)
        return -FI_ETOOSMALL;
    *length = ADDRESS;
    memset(address, 0, ADDRESS);
    if (is_reliable()) {
        uint32_t name = getpid();
        memcpy(address, &name, sizeof name);
        return 0;
    }
    getsockname(state.socket, (struct sockaddr *)&own, &own_length);
    /* The first address that is not loopback's, if there is one. */
    own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (getifaddrs(&list) == 0) {
        for (one = list; one; one = one->ifa_next)
            if (one->ifa_addr && one->ifa_addr->sa_family == AF_INET && !(one->ifa_flags & IFF_LOOPBACK))
                own.sin_addr = ((struct sockaddr_in *)one->ifa_addr)->sin_addr;
        freeifaddrs(list);
    }
    memcpy(address, &own.sin_addr, 4);
    memcpy((char *)address + 4, &own.sin_port, 2);
    return 0;
}

/* --- The objects ---------------------------------------------------------------------------------------- */

static int do_close(struct fid *fid) { (void)fid; return 0; }
static int no_bind(struct fid *fid, struct fid *other, uint64_t flags) { (void)fid, (void)other, (void)flags; return -FI_ENOSYS; }
static int no_control(struct fid *fid, int command, void *argument) { (void)fid, (void)command, (void)argument; return -FI_ENOSYS; }

static int ep_close(struct fid *fid)
{
    (void)fid;
    /* Operations that were under way are dropped. */
    while (state.sends.count) {
        struct operation operation = pop(&state.sends);
        if (operation.region)
            operation.region->used--;
    }
    for (struct operation *read = state.reads; read < state.reads + QUEUE_MAX; read++)
        if (read->context && read->region)
            read->region->used--;
    return 0;
}

static int domain_close(struct fid *fid)
{
    (void)fid;
    if (state.open_regions)
        wrong("%ld registrations are left", state.open_regions);
    if (is_reliable())
        unlink(state.own.un.sun_path);
    close(state.socket);
    if (property("tell", 0))
        fprintf(stderr, "strict libfabric: %llu bytes were written to memory of peers\nstrict libfabric: %llu bytes were read from memory of peers\n",
                state.written, state.read);
    return 0;
}

static int mr_close(struct fid *fid)
{
    struct region *region = (struct region *)fid;
    if (!region->number)
        wrong("a registration is closed twice");
    if (region->used)
        wrong("a registration is closed while its memory is in use");
    state.open_regions--;
    region->number = 0;
    return 0;
}

static int mr_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
    (void)flags;
    if (other != &state.ep.fid)
        wrong("fi_mr_bind with something else than the endpoint");
    ((struct region *)fid)->is_bound = 1;
    return 0;
}

static int mr_control(struct fid *fid, int command, void *argument)
{
    struct region *region = (struct region *)fid;
    (void)argument;
    if (command != FI_ENABLE || !region->is_bound)
        return -FI_ENOSYS;
    region->is_enabled = 1;
    region->mr.key = region->key;
    return 0;
}

static int av_insert(struct fid_av *av, const void *address, size_t count, fi_addr_t *name, uint64_t flags, void *context)
{
    (void)av, (void)flags, (void)context;
    if (count != 1 || state.peer_count == PEERS_MAX)
        return -FI_ENOMEM;
    uint32_t process;
    memcpy(&process, address, sizeof process);
    if (is_reliable()) {
        if (socket_name(&state.peers[state.peer_count].un, process))
            return -FI_EINVAL;
    } else {
        struct sockaddr_in *peer = &state.peers[state.peer_count].in;
        peer->sin_family = AF_INET;
        memcpy(&peer->sin_addr, address, 4);
        memcpy(&peer->sin_port, (const char *)address + 4, 2);
    }
    *name = state.peer_count++;
    return 1;
}

static int mr_reg(struct fid *fid, const void *buffer, size_t length, uint64_t access, uint64_t offset, uint64_t key, uint64_t flags,
                  struct fid_mr **mr, void *context)
{
    static struct fi_ops ops = {.size = sizeof ops, .close = mr_close, .bind = mr_bind, .control = mr_control};
    long bytes = property("keybytes", 8);
    struct region *region = NULL;
    (void)fid, (void)context;
    if (!length || !access || offset || flags)
        wrong("fi_mr_reg with a length or rights of nothing, an offset or flags");
    if (state.open_regions >= property("regions", REGIONS_MAX))
        return -FI_ENOMEM;
    if (!property("keys", 0) && bytes < 8 && key >> 8 * bytes)
        wrong("a key of more than %ld bytes", bytes);
    for (struct region *other = state.regions; other < state.regions + REGIONS_MAX; other++) {
        if (!other->number)
            region = region ? region : other;
        else if (!property("keys", 0) && other->key == key)
            return -FI_ENOKEY;
    }
    if (!region)
        return -FI_ENOMEM;
    state.open_regions++;
    uint64_t number = ++state.registrations;
    if (property("keys", 0))
        key = number * 0x9e3779b97f4a7c15;
    int waits = property("endpoint", 0);
    /* No descriptor is given twice, and where a registration is to be enabled there is no key before. */
    *region = (struct region){
        .mr = {.fid.ops = &ops, .mem_desc = (void *)(uintptr_t)number, .key = waits ? FI_KEY_NOTAVAIL : key},
        .start = buffer, .end = (const char *)buffer + length, .number = number, .key = key, .access = access, .is_enabled = !waits};
    *mr = &region->mr;
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
    static struct fi_ops ops = {.size = sizeof ops, .close = ep_close, .bind = ep_bind, .control = ep_control};
    static struct fi_ops_cm cm = {.size = sizeof cm, .getname = ep_getname};
    static struct fi_ops_msg msg = {.size = sizeof msg, .recv = ep_recv, .send = ep_send, .inject = ep_inject};
    static struct fi_ops_rma rma = {.size = sizeof rma, .read = ep_read, .write = ep_write};
    (void)domain, (void)info, (void)context;
    state.ep = (struct fid_ep){.fid.ops = &ops, .cm = &cm, .msg = &msg, .rma = &rma};
    *ep = &state.ep;
    return 0;
}

static int domain(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **made, void *context)
{
    static struct fi_ops ops = {.size = sizeof ops, .close = domain_close, .bind = no_bind, .control = no_control};
    static struct fi_ops_domain domain_ops =
        {.size = sizeof domain_ops, .av_open = av_open, .cq_open = cq_open, .endpoint = endpoint};
    static struct fi_ops_mr mr = {.size = sizeof mr, .reg = mr_reg};
    (void)fabric, (void)info, (void)context;
    state.socket = socket(is_reliable() ? AF_UNIX : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    socklen_t length = sizeof state.own.in;
    state.own.in = (struct sockaddr_in){.sin_family = AF_INET};
    if (is_reliable()) {
        length = sizeof state.own.un;
        if (socket_name(&state.own.un, getpid()))
            return -FI_EINVAL;
        unlink(state.own.un.sun_path);
    }
    if (bind(state.socket, &state.own.any, length))
        return -errno;
    state.domain = (struct fid_domain){.fid.ops = &ops, .ops = &domain_ops, .mr = &mr};
    *made = &state.domain;
    return 0;
}

static int trywait(struct fid_fabric *fabric, struct fid **fids, int count)
{
    char byte;
    (void)fabric, (void)fids, (void)count;
    return state.sends.count || state.answer_count || recv(state.socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 ? -FI_EAGAIN : 0;
}

/* --- What the library exports --------------------------------------------------------------------------- */

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
    enum fi_ep_type type = is_reliable() ? FI_EP_RDM : FI_EP_DGRAM;
    uint64_t orders = FI_ORDER_SAS | (places() ? FI_ORDER_SAW : 0);
    if (hints->ep_attr->type != type || hints->tx_attr->msg_order & ~orders || (hints->caps & FI_RMA && !places()) || (provider && strcmp(provider, "strict")))
        return -FI_ENODATA;
    if (prefix() && !(hints->mode & FI_MSG_PREFIX))
        return -FI_ENODATA;
    int mode = (property("register", 0) ? FI_MR_LOCAL : 0) | (property("endpoint", 0) ? FI_MR_ENDPOINT : 0)
               | (property("virtual", 0) ? FI_MR_VIRT_ADDR : 0) | (property("keys", 0) ? FI_MR_PROV_KEY : 0);
    if (mode & ~hints->domain_attr->mr_mode)
        return -FI_ENODATA;
    *info = fi_dupinfo(NULL);
    (*info)->mode = prefix() ? FI_MSG_PREFIX : 0;
    /* Most providers set the mode of the whole; a provider that sets it for a direction means that direction.
     */
    (*info)->rx_attr->mode = property("received", 0) ? (*info)->mode : 0;
    (*info)->addr_format = FI_FORMAT_UNSPEC;
    (*info)->tx_attr->inject_size = property("inject", 64);
    (*info)->tx_attr->size = (*info)->rx_attr->size = depth();
    (*info)->ep_attr->type = type;
    (*info)->ep_attr->max_msg_size = prefix() + largest();
    (*info)->ep_attr->msg_prefix_size = prefix();
    (*info)->domain_attr->mr_mode = mode;
    (*info)->domain_attr->mr_key_size = property("keybytes", 8);
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
