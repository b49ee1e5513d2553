/* endpoint DIRECTORY ADDRESS PORT 0|1 BLOCKS MESSAGES: messages of 8 bytes between two processes over
 * libfabric's provider `verbs` (FI_EP_MSG), without MPI, as `fi_pingpong` sends them: a send and its
 * completion, a receive's completion and the next receive. The rules of messages.c for counting hold here,
 * too: by two FIFOs in DIRECTORY, no process looks in vain. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { BYTES = 8, ROOM = 4096, WAIT_MS = 20000, SETTLE_NS = 3000000 };

static int rank, tells, hears;
static struct fid_ep *endpoint;
static struct fid_cq *sent, *received;
static char *memory;
static void *described;

static void check(const char *call, long code)
{
    if (code) {
        fprintf(stderr, "endpoint: rank %d: %s: %s\n", rank, call, fi_strerror((int)(code < 0 ? -code : code)));
        exit(1);
    }
}

static void complete(struct fid_cq *queue)
{
    struct fi_cq_entry entry;
    ssize_t count;
    do
        count = fi_cq_read(queue, &entry, 1);
    while (count == -FI_EAGAIN);
    if (count != 1)
        check("fi_cq_read", count);
}

static void post(void)
{
    check("fi_recv", fi_recv(endpoint, memory + ROOM, ROOM, described, 0, memory));
}

static void send_one(void)
{
    check("fi_send", fi_send(endpoint, memory, BYTES, described, 0, memory));
    complete(sent);
}

static void receive_one(void)
{
    complete(received);
    post();
}

__attribute__((noinline)) void counted(void (*step)(void))
{
    step();
    __asm__ volatile("" ::: "memory");
}

__attribute__((noinline)) void mark(void)
{
    __asm__ volatile("" ::: "memory");
}

static int fifo(const char *directory, const char *name)
{
    char path[4096];
    int descriptor;
    if (snprintf(path, sizeof path, "%s/%s", directory, name) >= (int)sizeof path)
        check("the directory's name", FI_EINVAL);
    if (mkfifo(path, 0600) && errno != EEXIST)
        check("mkfifo", errno);
    descriptor = open(path, O_RDWR | O_CLOEXEC);
    check("open", descriptor < 0 ? errno : 0);
    return descriptor;
}

/* The device's own threads need a moment. */
static void tell(void)
{
    struct timespec settle = {0, SETTLE_NS};
    nanosleep(&settle, NULL);
    check("write", write(tells, "", 1) != 1);
}

static void hear(void)
{
    char byte;
    check("read", read(hears, &byte, 1) != 1);
}

static struct fi_info *hints(void)
{
    struct fi_info *hints = fi_allocinfo();
    check("fi_allocinfo", hints ? 0 : FI_ENOMEM);
    hints->ep_attr->type = FI_EP_MSG;
    hints->caps = FI_MSG;
    hints->addr_format = FI_SOCKADDR_IN;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->fabric_attr->prov_name = strdup("verbs");
    return hints;
}

static void await_event(struct fid_eq *events, uint32_t wanted, struct fi_eq_cm_entry *entry)
{
    uint32_t event = 0;
    ssize_t bytes = fi_eq_sread(events, &event, entry, sizeof *entry, WAIT_MS, 0);
    if (bytes < 0)
        check("fi_eq_sread", bytes);
    check("an event of the connection", event == wanted ? 0 : FI_EOTHER);
}

static void connect_both(const char *address, const char *port)
{
    struct fi_eq_attr of_events = {.wait_obj = FI_WAIT_UNSPEC};
    struct fi_cq_attr of_completions = {.format = FI_CQ_FORMAT_CONTEXT, .wait_obj = FI_WAIT_NONE, .size = 64};
    struct fi_eq_cm_entry entry = {0};
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_eq *events;
    struct fid_pep *listener;
    struct fid_mr *registered;
    if (rank == 0)
        hear();
    check("fi_getinfo", fi_getinfo(FI_VERSION(1, 11), address, port, rank == 1 ? FI_SOURCE : 0, hints(), &info));
    check("fi_fabric", fi_fabric(info->fabric_attr, &fabric, NULL));
    check("fi_eq_open", fi_eq_open(fabric, &of_events, &events, NULL));
    if (rank == 1) {
        check("fi_passive_ep", fi_passive_ep(fabric, info, &listener, NULL));
        check("fi_pep_bind", fi_pep_bind(listener, &events->fid, 0));
        check("fi_listen", fi_listen(listener));
        tell();
        await_event(events, FI_CONNREQ, &entry);
        info = entry.info;
    }
    check("fi_domain", fi_domain(fabric, info, &domain, NULL));
    check("fi_cq_open", fi_cq_open(domain, &of_completions, &sent, NULL));
    check("fi_cq_open", fi_cq_open(domain, &of_completions, &received, NULL));
    check("fi_endpoint", fi_endpoint(domain, info, &endpoint, NULL));
    check("fi_ep_bind", fi_ep_bind(endpoint, &events->fid, 0));
    check("fi_ep_bind", fi_ep_bind(endpoint, &sent->fid, FI_TRANSMIT));
    check("fi_ep_bind", fi_ep_bind(endpoint, &received->fid, FI_RECV));
    check("fi_enable", fi_enable(endpoint));
    memory = aligned_alloc(ROOM, 2 * ROOM);
    check("aligned_alloc", memory ? 0 : FI_ENOMEM);
    check("fi_mr_reg", fi_mr_reg(domain, memory, 2 * ROOM, FI_SEND | FI_RECV, 0, 0, 0, &registered, NULL));
    described = fi_mr_desc(registered);
    post();
    if (rank == 1)
        check("fi_accept", fi_accept(endpoint, NULL, 0));
    else
        check("fi_connect", fi_connect(endpoint, info->dest_addr, NULL, 0));
    await_event(events, FI_CONNECTED, &entry);
}

int main(int argc, char **argv)
{
    if (argc != 7) {
        fprintf(stderr, "usage: endpoint DIRECTORY ADDRESS PORT 0|1 BLOCKS MESSAGES\n");
        return 2;
    }
    rank = atoi(argv[4]);
    tells = fifo(argv[1], rank ? "to-0" : "to-1");
    hears = fifo(argv[1], rank ? "to-1" : "to-0");
    connect_both(argv[2], argv[3]);
    /* The first is the warm-up. */
    for (long block = atol(argv[5]); block >= 0; block--) {
        for (long message = atol(argv[6]); message > 0; message--) {
            if (rank == 0) {
                counted(send_one);
                tell();
                hear();
                receive_one();
            } else {
                hear();
                counted(receive_one);
                send_one();
                tell();
            }
        }
        mark();
    }
    /* Neither process closes the connection before the other has its messages. */
    tell();
    hear();
    return 0;
}
