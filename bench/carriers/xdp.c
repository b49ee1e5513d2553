/* AF_XDP: frames through rings shared with the kernel. Copy mode with need-wakeup on queue 0; the interface's
 * own XDP hook (driver mode) where there is one, else the generic hook. The program that redirects our
 * EtherType is written here by hand, so that neither libbpf nor a compiler for BPF is needed. A link attaches
 * the program, which is gone when this process is. Linux: Documentation/networking/af_xdp.rst, bpf(2). */
#include "carrier.h"
#include <arpa/inet.h>
#include <linux/bpf.h>
#include <linux/if_link.h>
#include <linux/if_xdp.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    ETHER_TYPE = 0x88b5,        /* IEEE 802: local experimental */
    CHUNK = 2048,               /* memory of one frame; the kernel keeps XDP_HEADROOM of it */
    XDP_HEADROOM = 256,
    RING = 2048,                /* entries of every ring */
    CHUNKS = 2 * RING,          /* the first half to send from, the second to receive into */
    RECEIVE_BATCH = 64,
    MAP_ENTRIES = 64,           /* receive queues the program knows */
    SOL_XDP_LEVEL = 283
};

typedef struct ring {
    uint32_t *producer, *consumer, *flags;
    void *entries;
} ring;

typedef struct xdp {
    int fd, attachment;
    unsigned char *memory;
    ring fill, completion, receive, transmit;
    uint64_t free_chunks[RING];
    int free_count, known;
    unsigned char own[ETH_ALEN], peer[ETH_ALEN];
} xdp;

static long bpf(int command, union bpf_attr *attributes)
{
    return syscall(SYS_bpf, command, attributes, sizeof *attributes);
}

/* ---- The program ---- */

static int load_program(int map)
{
    /* A frame with an Ethernet header of our type goes to the socket of its queue (or on, when there is
     * none). All other frames go on. */
    struct bpf_insn code[] = {
        {.code = BPF_LDX | BPF_W | BPF_MEM, .dst_reg = 6, .src_reg = 1, .off = offsetof(struct xdp_md, data)},
        {.code = BPF_LDX | BPF_W | BPF_MEM, .dst_reg = 7, .src_reg = 1, .off = offsetof(struct xdp_md, data_end)},
        {.code = BPF_ALU64 | BPF_MOV | BPF_X, .dst_reg = 8, .src_reg = 6},
        {.code = BPF_ALU64 | BPF_ADD | BPF_K, .dst_reg = 8, .imm = ETH_HLEN},
        {.code = BPF_JMP | BPF_JGT | BPF_X, .dst_reg = 8, .src_reg = 7, .off = 13 - 5},
        {.code = BPF_LDX | BPF_H | BPF_MEM, .dst_reg = 8, .src_reg = 6, .off = ETH_HLEN - 2},
        {.code = BPF_JMP | BPF_JNE | BPF_K, .dst_reg = 8, .off = 13 - 7, .imm = htons(ETHER_TYPE)},
        {.code = BPF_LDX | BPF_W | BPF_MEM, .dst_reg = 2, .src_reg = 1, .off = offsetof(struct xdp_md, rx_queue_index)},
        {.code = BPF_LD | BPF_DW | BPF_IMM, .dst_reg = 1, .src_reg = BPF_PSEUDO_MAP_FD, .imm = map},
        {0},
        {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 3, .imm = XDP_PASS},
        {.code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_redirect_map},
        {.code = BPF_JMP | BPF_EXIT},
        {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 0, .imm = XDP_PASS},
        {.code = BPF_JMP | BPF_EXIT},
    };
    union bpf_attr a = {.prog_type = BPF_PROG_TYPE_XDP, .insn_cnt = sizeof code / sizeof *code, .insns = (uintptr_t)code,
        .license = (uintptr_t)"Dual MIT/GPL"};
    long fd;
    fd = bpf(BPF_PROG_LOAD, &a);
    if (fd < 0)
        give_up("loading an XDP program", errno);
    return (int)fd;
}

static void attach(xdp *x, unsigned interface)
{
    union bpf_attr m = {.map_type = BPF_MAP_TYPE_XSKMAP, .key_size = 4, .value_size = 4, .max_entries = MAP_ENTRIES};
    uint32_t queue = 0;
    int map = (int)bpf(BPF_MAP_CREATE, &m), program;
    if (map < 0)
        give_up("making a map of AF_XDP sockets", errno);
    union bpf_attr u = {.map_fd = (uint32_t)map, .key = (uintptr_t)&queue, .value = (uintptr_t)&x->fd};
    if (bpf(BPF_MAP_UPDATE_ELEM, &u) < 0)
        give_up("putting the AF_XDP socket into its map", errno);
    program = load_program(map);
    union bpf_attr l = {.link_create = {.prog_fd = (uint32_t)program, .target_ifindex = interface, .attach_type = BPF_XDP, .flags = XDP_FLAGS_DRV_MODE}};
    x->attachment = (int)bpf(BPF_LINK_CREATE, &l);
    if (x->attachment < 0 && (errno == EOPNOTSUPP || errno == EINVAL)) {
        l.link_create.flags = XDP_FLAGS_SKB_MODE;
        x->attachment = (int)bpf(BPF_LINK_CREATE, &l);
    }
    if (x->attachment < 0)
        give_up("attaching an XDP program", errno);
}

/* ---- Rings ---- */

static ring map_ring(int fd, const struct xdp_ring_offset *at, size_t entry, off_t page)
{
    unsigned char *p = mmap(NULL, at->desc + RING * entry, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, page);
    if (p == MAP_FAILED)
        give_up("mapping a ring of AF_XDP", errno);
    return (ring){(uint32_t *)(void *)(p + at->producer), (uint32_t *)(void *)(p + at->consumer), (uint32_t *)(void *)(p + at->flags), p + at->desc};
}

static uint32_t load(const uint32_t *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static void store(uint32_t *word, uint32_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

/* Room is never missing: there are no more chunks to receive into than entries. */
static void give_chunk(xdp *x, uint64_t address)
{
    uint32_t at = *x->fill.producer;
    ((uint64_t *)x->fill.entries)[at % RING] = address;
    store(x->fill.producer, at + 1);
}

static void set_up_rings(xdp *x)
{
    struct xdp_umem_reg reg = {.len = (uint64_t)CHUNKS * CHUNK, .chunk_size = CHUNK};
    struct xdp_mmap_offsets at;
    socklen_t length = sizeof at;
    int entries = RING;
    x->memory = memory((size_t)CHUNKS * CHUNK);
    reg.addr = (uintptr_t)x->memory;
    if (setsockopt(x->fd, SOL_XDP_LEVEL, XDP_UMEM_REG, &reg, sizeof reg) < 0) {
        /* By this error the kernel tells a user who may not lock so much memory. */
        if (errno == ENOBUFS)
            give_up("registering memory with AF_XDP, more than `ulimit -l` allows", EPERM);
        give_up("registering memory with AF_XDP", errno);
    }
    if (setsockopt(x->fd, SOL_XDP_LEVEL, XDP_UMEM_FILL_RING, &entries, sizeof entries) < 0
        || setsockopt(x->fd, SOL_XDP_LEVEL, XDP_UMEM_COMPLETION_RING, &entries, sizeof entries) < 0
        || setsockopt(x->fd, SOL_XDP_LEVEL, XDP_RX_RING, &entries, sizeof entries) < 0
        || setsockopt(x->fd, SOL_XDP_LEVEL, XDP_TX_RING, &entries, sizeof entries) < 0
        || getsockopt(x->fd, SOL_XDP_LEVEL, XDP_MMAP_OFFSETS, &at, &length) < 0)
        give_up("rings of AF_XDP", errno);
    x->fill = map_ring(x->fd, &at.fr, sizeof(uint64_t), XDP_UMEM_PGOFF_FILL_RING);
    x->completion = map_ring(x->fd, &at.cr, sizeof(uint64_t), XDP_UMEM_PGOFF_COMPLETION_RING);
    x->receive = map_ring(x->fd, &at.rx, sizeof(struct xdp_desc), XDP_PGOFF_RX_RING);
    x->transmit = map_ring(x->fd, &at.tx, sizeof(struct xdp_desc), XDP_PGOFF_TX_RING);
    for (int i = 0; i < RING; i++) {
        x->free_chunks[x->free_count++] = (uint64_t)i * CHUNK;
        give_chunk(x, (uint64_t)(RING + i) * CHUNK);
    }
}

/* ---- The link ---- */

static void reap(xdp *x)
{
    uint32_t at = *x->completion.consumer, end = load(x->completion.producer);
    for (; at != end; at++)
        x->free_chunks[x->free_count++] = ((uint64_t *)x->completion.entries)[at % RING];
    store(x->completion.consumer, at);
}

/* Tells the kernel that frames are there to send, when it wants to be told. */
static void wake(const xdp *x)
{
    if (!(load(x->transmit.flags) & XDP_RING_NEED_WAKEUP))
        return;
    if (sendto(x->fd, NULL, 0, MSG_DONTWAIT, NULL, 0) < 0 && errno != EAGAIN && errno != EBUSY && errno != ENOBUFS && errno != ENETDOWN)
        give_up("send on AF_XDP", errno);
}

static int place(xdp *x, const void *bytes, size_t length)
{
    const uint16_t type = htons(ETHER_TYPE);
    uint32_t at = *x->transmit.producer;
    uint64_t chunk;
    unsigned char *frame;
    if (x->free_count == 0)
        reap(x);
    if (x->free_count == 0)
        return 0;
    chunk = x->free_chunks[--x->free_count];
    frame = x->memory + chunk;
    memcpy(frame, x->peer, ETH_ALEN);
    memcpy(frame + ETH_ALEN, x->own, ETH_ALEN);
    memcpy(frame + 2 * ETH_ALEN, &type, sizeof type);
    memcpy(frame + ETH_HLEN, bytes, length);
    ((struct xdp_desc *)x->transmit.entries)[at % RING] = (struct xdp_desc){.addr = chunk, .len = (uint32_t)(ETH_HLEN + length)};
    store(x->transmit.producer, at + 1);
    return 1;
}

static int xdp_send(link_t *l, const void *bytes, size_t length)
{
    xdp *x = l->state;
    int placed = place(x, bytes, length);
    wake(x);
    return placed;
}

static int xdp_burst(link_t *l, unsigned char *frame, size_t length, int count, void (*stamp)(void *, unsigned char *), void *argument)
{
    xdp *x = l->state;
    int placed = 0;
    for (; placed < count; placed++) {
        stamp(argument, frame);
        if (!place(x, frame, length))
            break;
    }
    wake(x);
    return placed;
}

static int xdp_receive(link_t *l, void (*take)(void *, const unsigned char *, size_t), void *argument)
{
    xdp *x = l->state;
    uint32_t at = *x->receive.consumer, end = load(x->receive.producer);
    int taken = 0;
    for (; at != end && taken < RECEIVE_BATCH; at++, taken++) {
        struct xdp_desc d = ((struct xdp_desc *)x->receive.entries)[at % RING];
        const unsigned char *frame = x->memory + d.addr;
        if (!x->known) {
            memcpy(x->peer, frame + ETH_ALEN, ETH_ALEN);
            x->known = 1;
        }
        take(argument, frame + ETH_HLEN, d.len - ETH_HLEN);
        give_chunk(x, d.addr / CHUNK * CHUNK);
    }
    store(x->receive.consumer, at);
    return taken;
}

static size_t open_xdp(xdp *x, const char *interface)
{
    struct sockaddr_xdp to = {.sxdp_family = AF_XDP, .sxdp_flags = XDP_COPY | XDP_USE_NEED_WAKEUP};
    struct rlimit unlimited = {RLIM_INFINITY, RLIM_INFINITY};
    struct ifreq r = {0};
    size_t frame_max;
    setrlimit(RLIMIT_MEMLOCK, &unlimited);
    x->fd = socket(AF_XDP, SOCK_RAW, 0);
    if (x->fd < 0)
        give_up("AF_XDP socket", errno);
    snprintf(r.ifr_name, sizeof r.ifr_name, "%s", interface);
    to.sxdp_ifindex = if_nametoindex(interface);
    if (to.sxdp_ifindex == 0) {
        fprintf(stderr, "carrier: no interface is called '%s'\n", interface);
        exit(WRONG_USE);
    }
    /* An AF_XDP socket has no such ioctls. */
    int any = socket(AF_INET, SOCK_DGRAM, 0);
    if (any < 0 || ioctl(any, SIOCGIFHWADDR, &r) < 0)
        give_up("address of the interface", errno);
    memcpy(x->own, r.ifr_hwaddr.sa_data, ETH_ALEN);
    if (ioctl(any, SIOCGIFMTU, &r) < 0)
        give_up("MTU of the interface", errno);
    close(any);
    frame_max = (size_t)r.ifr_mtu;
    set_up_rings(x);
    if (bind(x->fd, (struct sockaddr *)&to, sizeof to) < 0)
        give_up("bind of AF_XDP", errno);
    attach(x, to.sxdp_ifindex);
    return frame_max < CHUNK - XDP_HEADROOM - ETH_HLEN ? frame_max : CHUNK - XDP_HEADROOM - ETH_HLEN;
}

int xdp_run(const carrier *c, const options *o)
{
    static xdp x;
    link_t l = {.carrier = c, .send = xdp_send, .receive = xdp_receive, .burst = xdp_burst, .state = &x};
    int child;
    if (!(o->server || o->client) || !o->interface) {
        fprintf(stderr, "carrier: xdp runs between two hosts: --interface NAME with --server any there and --client any here\n");
        return WRONG_USE;
    }
    x.known = link_peer_address(o, x.peer);
    l.serves = link_serves(o, &child);
    l.frame_max = open_xdp(&x, o->interface);
    return link_run(&l, o, child);
}
