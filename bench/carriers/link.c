/* Ping-pong and stream over any link of datagrams. The client measures. The server answers pings, counts a
 * stream, and reports the count when the client asks. Both spin. Every datagram starts with a header;
 * contents that can be checked follow. */
#include "carrier.h"
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    MAGIC = 0x57654674,
    FRAME_MAX = 65536,
    BURST = 32,                 /* datagrams of a stream handed over at once */
    RESENDS_MAX = 100,          /* of one question */
    ENDS = 5,                   /* times the end is announced: it gets no answer */
    CLOCK_EVERY = 64            /* polls between two looks at the clock */
};

/* A question is asked again after this many seconds without an answer. */
static const double resend_s = 0.05;

enum kind { HELLO = 1, PING, STREAM, COUNT, END };

typedef struct header {
    uint32_t magic;
    uint16_t kind;
    uint16_t answer;            /* set by the server: both sides may hear both on one wire */
    uint32_t run;               /* counts the samples */
    uint32_t length;            /* of the datagram: Ethernet pads short ones */
    uint64_t sequence;
} header;

/* The server's report about a stream, after the header. */
typedef struct count {
    uint64_t frames, bytes, wrong;
    double seconds;
} count;

enum { LEAST = sizeof(header) };

typedef struct side {
    link_t *link;
    unsigned char *frame;       /* to send */
    /* The observations of take_*. */
    int answered;
    uint32_t run;
    uint16_t kind;
    uint64_t sequence;
    unsigned char *last;        /* the datagram that answered or the last of a stream */
    size_t last_length;
    /* The server's stream. */
    count counted;
    double first, latest;
    int ended, heard;
} side;

static int parse(const unsigned char *bytes, size_t length, header *h)
{
    if (length < LEAST)
        return 0;
    memcpy(h, bytes, sizeof *h);
    return h->magic == MAGIC && h->length <= length && h->length >= LEAST;
}

static void keep(side *s, const unsigned char *bytes, size_t length)
{
    memcpy(s->last, bytes, length);
    s->last_length = length;
}

static void send_surely(link_t *l, const void *bytes, size_t length)
{
    double until = now() + PATIENCE_S;
    while (!l->send(l, bytes, length))
        if (now() > until)
            give_up("the link takes no datagram", EAGAIN);
}

/* ---- The serving side ---- */

static void count_frame(side *s, const header *h, const unsigned char *bytes)
{
    if (h->run != s->run) {
        s->run = h->run;
        s->counted = (count){0};
        s->first = s->latest = now();
        keep(s, bytes, h->length);
        /* The first datagram only starts the clock. */
        return;
    }
    s->counted.frames++;
    s->counted.bytes += h->length;
}

static void answer_count(side *s, header h)
{
    char why[WHY_MAX];
    unsigned char reply[LEAST + sizeof(count)];
    if (h.run != s->run)
        s->counted = (count){0};
    s->counted.seconds = s->latest - s->first;
    s->counted.wrong = s->last_length > 0 && !filled(s->last, LEAST, s->last_length, 0, h.run, why);
    h.answer = 1;
    h.length = sizeof reply;
    memcpy(reply, &h, sizeof h);
    memcpy(reply + sizeof h, &s->counted, sizeof s->counted);
    send_surely(s->link, reply, sizeof reply);
}

static void serve_one(void *argument, const unsigned char *bytes, size_t length)
{
    side *s = argument;
    header h;
    if (!parse(bytes, length, &h) || h.answer)
        return;
    s->heard = 1;
    switch (h.kind) {
    case HELLO:
    case PING:
        memcpy(s->frame, bytes, h.length);
        ((header *)(void *)s->frame)->answer = 1;
        send_surely(s->link, s->frame, h.length);
        break;
    case STREAM:
        count_frame(s, &h, bytes);
        break;
    case COUNT:
        answer_count(s, h);
        break;
    case END:
        s->ended = 1;
        break;
    }
}

static int serve(side *s)
{
    double silent = now();
    for (unsigned polls = 0; !s->ended; polls++) {
        uint64_t before = s->counted.frames;
        int got = s->link->receive(s->link, serve_one, s);
        if (got > 0 || polls % CLOCK_EVERY == 0) {
            double t = now();
            if (got > 0)
                silent = t;
            if (s->counted.frames != before)
                s->latest = t;
            if (t - silent > PATIENCE_S * (s->heard ? 1 : 3)) {
                fprintf(stderr, "carrier: the server heard nothing from a client for %d s\n", PATIENCE_S * (s->heard ? 1 : 3));
                return 1;
            }
        }
    }
    return 0;
}

/* ---- The client ---- */

static void take_answer(void *argument, const unsigned char *bytes, size_t length)
{
    side *s = argument;
    header h;
    if (!parse(bytes, length, &h) || !h.answer || h.kind != s->kind || h.run != s->run || h.sequence != s->sequence)
        return;
    s->answered = 1;
    keep(s, bytes, h.length);
}

static void make_frame(side *s, enum kind kind, size_t length, uint32_t run)
{
    header h = {MAGIC, (uint16_t)kind, 0, run, (uint32_t)length, 0};
    memcpy(s->frame, &h, sizeof h);
    fill(s->frame, LEAST, length, 0, run);
    s->run = run;
    s->kind = (uint16_t)kind;
}

/* Sends the frame under the next number and spins for its answer; 0 when there is none. */
static int ask(side *s, size_t length)
{
    ((header *)(void *)s->frame)->sequence = ++s->sequence;
    s->answered = 0;
    for (int try = 0; try < RESENDS_MAX; try++) {
        double until = 0;
        send_surely(s->link, s->frame, length);
        for (unsigned polls = 1; !s->answered; polls++) {
            s->link->receive(s->link, take_answer, s);
            if (polls % CLOCK_EVERY == 0 && !s->answered) {
                double t = now();
                if (until == 0)
                    until = t + resend_s;
                else if (t > until)
                    break;
            }
        }
        if (s->answered)
            return 1;
    }
    return 0;
}

static int find_server(side *s)
{
    double until = now() + PATIENCE_S;
    make_frame(s, HELLO, LEAST, 1);
    while (now() < until)
        if (ask(s, LEAST))
            return 1;
    fprintf(stderr, "carrier: no answer from the server within %d s\n", PATIENCE_S);
    return 0;
}

typedef struct trial {
    side *side;
    size_t length;
    int lost;
} trial;

static double pings(void *argument, long rounds)
{
    trial *t = argument;
    double began = now();
    for (long i = 0; i < rounds; i++)
        if (!ask(t->side, t->length)) {
            t->lost = 1;
            break;
        }
    return now() - began;
}

static int pingpong(side *s, const options *o, size_t size, uint32_t *run)
{
    trial t = {s, size < LEAST ? LEAST : size, 0};
    int status = 0;
    long rounds;
    if (t.length > s->link->frame_max) {
        print_sample(s->link->carrier, "pingpong", size, "us", NAN, 0, 0, "larger than a datagram of this link", NULL, NULL);
        return 1;
    }
    make_frame(s, PING, t.length, ++*run);
    rounds = choose_iterations(o->seconds, pings, &t);
    for (int sample = 0; sample < o->samples; sample++) {
        char why[WHY_MAX] = "";
        double each;
        int right;
        make_frame(s, PING, t.length, ++*run);
        each = pings(&t, rounds) / (double)rounds;
        right = !t.lost && s->last_length == t.length && filled(s->last, LEAST, t.length, 0, *run, why);
        if (!right && !why[0])
            snprintf(why, sizeof why, "a datagram was lost again and again");
        status |= !right;
        print_sample(s->link->carrier, "pingpong", t.length, "us", each / 2 * 1e6, rounds, sample, right ? NULL : why, NULL, NULL);
    }
    return status;
}

static void stamp(void *argument, unsigned char *frame)
{
    (void)argument;
    ((header *)(void *)frame)->sequence++;
}

static int burst(link_t *l, unsigned char *frame, size_t length)
{
    int sent = 0;
    if (l->burst)
        return l->burst(l, frame, length, BURST, stamp, NULL);
    for (; sent < BURST; sent++) {
        stamp(NULL, frame);
        if (!l->send(l, frame, length))
            break;
    }
    return sent;
}

typedef struct stream_facts {
    uint64_t sent, arrived;
} stream_facts;

static void stream_fields(const void *argument)
{
    const stream_facts *f = argument;
    json_integer("sent", (long long)f->sent);
    json_integer("arrived", (long long)f->arrived);
    json_number("lost_percent", f->sent ? 100.0 * (1 - (double)f->arrived / (double)f->sent) : 0);
}

/* Sends one unpaced stream: the figure is what arrived, and the loss is reported with it. */
static int stream(side *s, const options *o, size_t length, int sample, uint32_t run)
{
    stream_facts facts = {0, 0};
    count counted = {0};
    const char *why = NULL;
    double began, sending;
    make_frame(s, STREAM, length, run);
    began = now();
    while ((sending = now() - began) < o->seconds)
        facts.sent += (uint64_t)burst(s->link, s->frame, length);
    make_frame(s, COUNT, LEAST, run);
    if (!ask(s, LEAST))
        why = "the server did not say what arrived";
    else
        memcpy(&counted, s->last + LEAST, sizeof counted);
    facts.arrived = counted.frames + (counted.frames > 0);
    if (!why && counted.wrong)
        why = "the server got wrong contents";
    if (!why && counted.frames == 0)
        why = "nothing of the stream arrived";
    /* A server that was held up and then drains its buffer is not faster than the client that filled it. */
    if (counted.seconds > sending)
        sending = counted.seconds;
    print_sample(s->link->carrier, "bandwidth", length, "MB/s", (double)counted.bytes / sending / 1e6, (long)facts.sent, sample, why,
                 stream_fields, &facts);
    return why != NULL;
}

static int measure(side *s, const options *o)
{
    size_t frame = o->frame ? o->frame : s->link->frame_max < 1448 ? s->link->frame_max : 1448;
    uint32_t run = 1;
    int status = 0;
    if (!find_server(s))
        return 1;
    for (int i = 0; wanted(o, "pingpong") && !s->link->no_pingpong && i < o->sizes_count; i++)
        status |= pingpong(s, o, o->sizes[i], &run);
    if (frame > s->link->frame_max) {
        print_sample(s->link->carrier, "bandwidth", frame, "MB/s", NAN, 0, 0, "larger than a datagram of this link", NULL, NULL);
        status = 1;
    } else {
        for (int sample = 0; wanted(o, "bandwidth") && sample < o->samples; sample++)
            status |= stream(s, o, frame, sample, ++run);
    }
    make_frame(s, END, LEAST, ++run);
    for (int i = 0; i < ENDS; i++)
        send_surely(s->link, s->frame, LEAST);
    return status;
}

int link_run(link_t *l, const options *o, int child)
{
    side s = {.link = l, .frame = memory(FRAME_MAX), .last = memory(FRAME_MAX)};
    int status = l->serves ? serve(&s) : measure(&s, o), served = 0;
    if (child > 0) {
        waitpid(child, &served, 0);
        status |= served != 0;
    }
    return status;
}

int link_serves(const options *o, int *child)
{
    int serves = o->server;
    *child = 0;
    if (!o->server && !o->client) {
        *child = fork();
        if (*child < 0)
            give_up("fork", errno);
        serves = *child == 0;
        if (serves)
            child_begins();
    }
    if (o->processor < 0)
        separate(serves);
    return serves;
}

int link_peer_address(const options *o, unsigned char address[6])
{
    unsigned a[6];
    char rest;
    memset(address, 0xff, 6);
    if (!o->client || strcmp(o->client, "any") == 0)
        return 0;
    if (sscanf(o->client, "%2x:%2x:%2x:%2x:%2x:%2x%c", a, a + 1, a + 2, a + 3, a + 4, a + 5, &rest) != 6) {
        fprintf(stderr, "carrier: --client: '%s' is no MAC address, nor 'any'\n", o->client);
        exit(WRONG_USE);
    }
    for (int i = 0; i < 6; i++)
        address[i] = (unsigned char)a[i];
    return 1;
}
