/* carrier NAME [options]: measures the floor under a figure, without MPI. Prints one JSON line per sample on
 * stdout. Build: cc -O2 -o carrier *.c -lm */
#include "carrier.h"
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

const carrier carriers[] = {
    {"udp", "64,1024", "UDP sockets, spinning; streams without offload", 1, udp_run},
    {"udp-offload", "1448", "streams over UDP with UDP_SEGMENT and UDP_GRO", 1, udp_offload_run},
    {"packet", "64,1024", "AF_PACKET datagrams past the queueing discipline (CAP_NET_RAW)", 1, packet_run},
    {"xdp", "64,1024", "AF_XDP with a redirecting program of our own (CAP_NET_RAW, CAP_BPF, CAP_NET_ADMIN)", 1, xdp_run},
    {"shared-memory", "8,64,1k,16k,64k,1m", "cache lines between two processes, copied in and out", 0, shared_run},
    {"memcpy", "64,1k,16k,64k,1m,4m", "one copy in one process", 0, memcpy_run},
    {"process-vm-readv", "64,1k,16k,64k,1m,4m", "one copy out of another process", 0, readv_run},
    {NULL, NULL, NULL, 0, NULL},
};

static void usage(FILE *out)
{
    fprintf(out, "usage: carrier NAME [OPTION VALUE]...\n\n");
    for (const carrier *c = carriers; c->name; c++)
        fprintf(out, "  %-18s %s (sizes %s)\n", c->name, c->help, c->sizes);
    fprintf(out, "\n"
        "  --sizes A,B,C      bytes (k, m: 1024, 1048576)\n"
        "  --samples N        lines per size (default 5)\n"
        "  --seconds S        aimed length of a sample (default 0.05)\n"
        "  --only M           pingpong or bandwidth (default both)\n"
        "  --frame N          bytes of a datagram in a stream (default: 1448, or what the interface takes)\n"
        "  --server ADDRESS   answer a client of another host; ADDRESS: own, or any\n"
        "  --client ADDRESS   measure against the server there (udp: its IP address; packet, xdp: its MAC, or any)\n"
        "  --interface NAME   for packet and xdp (packet alone on one host: lo)\n"
        "  --processor N      stay on the Nth usable processor, from 0 (default: a server or second side on 1, the other on 0)\n"
        "  --port N           for udp between hosts (default 7471)\n"
        "\nExit status: 0 measured, 1 failed, 2 wrong use, 77 a privilege or facility is missing.\n");
}

static void refuse(const char *sentence, const char *word)
{
    fprintf(stderr, "carrier: ");
    fprintf(stderr, sentence, word);
    fprintf(stderr, "\n");
    exit(WRONG_USE);
}

static void list_sizes(options *o, const char *text)
{
    char word[32];
    const char *rest = text;
    o->sizes_count = 0;
    while (*rest) {
        size_t length = strcspn(rest, ",");
        double value;
        if (length == 0 || length >= sizeof word || o->sizes_count == SIZES_MAX)
            refuse("wrong list of sizes: '%s'", text);
        memcpy(word, rest, length);
        word[length] = 0;
        value = plain_number(word);
        if (value < 1 || value > (1 << 30) || value != floor(value))
            refuse("wrong size: '%s' (whole bytes from 1 to 1g)", word);
        o->sizes[o->sizes_count++] = (size_t)value;
        rest += length + (rest[length] == ',');
    }
}

static double number_option(const char *name, const char *text, double least, double most, int whole)
{
    double value = plain_number(text);
    if (value < least || value > most || (whole && value != floor(value)))
        refuse("%s: not a number in its range", name);
    return value;
}

static void parse(options *o, const carrier *c, int argc, char **argv)
{
    const char *sizes = c->sizes;
    *o = (options){.samples = 5, .seconds = 0.05, .port = 7471, .processor = -1};
    for (int i = 2; i < argc; i += 2) {
        const char *name = argv[i], *value = argv[i + 1];
        if (i + 1 == argc)
            refuse("%s needs a value", name);
        if (strcmp(name, "--sizes") == 0)
            sizes = value;
        else if (strcmp(name, "--samples") == 0)
            o->samples = (int)number_option(name, value, 1, 100000, 1);
        else if (strcmp(name, "--seconds") == 0)
            o->seconds = number_option(name, value, 1e-4, 60, 0);
        else if (strcmp(name, "--only") == 0)
            o->only = value;
        else if (strcmp(name, "--frame") == 0)
            o->frame = (size_t)number_option(name, value, 64, 65000, 1);
        else if (strcmp(name, "--port") == 0)
            o->port = (int)number_option(name, value, 1, 65535, 1);
        else if (strcmp(name, "--client") == 0)
            o->client = value;
        else if (strcmp(name, "--server") == 0)
            o->server = 1;
        else if (strcmp(name, "--processor") == 0)
            o->processor = (int)number_option(name, value, 0, 1023, 1);
        else if (strcmp(name, "--interface") == 0)
            o->interface = value;
        else
            refuse("unknown option '%s' (carrier --help lists them)", name);
    }
    list_sizes(o, sizes);
    if (o->only && strcmp(o->only, "pingpong") != 0 && strcmp(o->only, "bandwidth") != 0)
        refuse("--only: '%s' is neither pingpong nor bandwidth", o->only);
    if (o->client && o->server)
        refuse("%s: either --server or --client", c->name);
    if (!c->needs_peer && (o->client || o->server))
        refuse("%s works on one host only", c->name);
}

static void too_long(int signal_number)
{
    static const char sentence[] = "carrier: gave up, the run took longer than its limit\n";
    (void)signal_number;
    if (write(2, sentence, sizeof sentence - 1) < 0)
        _exit(1);
    _exit(1);
}

int main(int argc, char **argv)
{
    const carrier *c = carriers;
    options o;
    if (argc < 2 || strcmp(argv[1], "--help") == 0) {
        usage(argc < 2 ? stderr : stdout);
        return argc < 2 ? WRONG_USE : 0;
    }
    while (c->name && strcmp(c->name, argv[1]) != 0)
        c++;
    if (!c->name)
        refuse("no carrier is called '%s' (carrier --help lists them)", argv[1]);
    parse(&o, c, argc, argv);
    signal(SIGALRM, too_long);
    alarm(LIMIT_S);
    if (o.processor >= 0)
        choose_processor(o.processor);
    return c->run(c, &o);
}

/* ---- What the carriers share ---- */

void child_begins(void)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(LIMIT_S);
}

void choose_processor(int number)
{
    cpu_set_t allowed, one;
    if (sched_getaffinity(0, sizeof allowed, &allowed) < 0 || number >= CPU_COUNT(&allowed))
        return;
    for (int p = 0, seen = 0; p < CPU_SETSIZE; p++)
        if (CPU_ISSET(p, &allowed) && seen++ == number) {
            CPU_ZERO(&one);
            CPU_SET(p, &one);
            sched_setaffinity(0, sizeof one, &one);
            return;
        }
}

void separate(int side)
{
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) == 0 && CPU_COUNT(&allowed) > 1)
        choose_processor(side);
}

double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void give_up(const char *what, int error)
{
    int missing = error == EPERM || error == EACCES || error == ENOSYS || error == EAFNOSUPPORT || error == EOPNOTSUPP
        || error == ENOPROTOOPT || error == EPROTONOSUPPORT;
    fprintf(stderr, "carrier: %s: %s%s\n", what, strerror(error), error == EPERM || error == EACCES ? " (a privilege is missing; root has it)" : "");
    exit(missing ? MISSING : 1);
}

void print_sample(const carrier *c, const char *measurement, size_t size, const char *unit, double value, long iterations, int sample,
                  const char *why, void (*more)(const void *), const void *argument)
{
    if (!why && !(isfinite(value) && value >= 0))
        why = "the time of the sample is not a positive number";
    json_open(measurement);
    json_text("carrier", c->name);
    json_integer("size", (long long)size);
    json_integer("ranks", 2);
    json_text("unit", unit);
    json_number("value", value);
    json_integer("iterations", iterations);
    json_integer("sample", sample);
    json_true("checked", 1);
    if (more)
        more(argument);
    json_true("valid", !why);
    if (why)
        json_text("why", why);
    json_close();
}

long choose_iterations(double seconds, double (*trial)(void *, long), void *argument)
{
    long n = 1;
    /* 2^30 iterations of the cheapest copy are seconds: enough for any sample. */
    while (n < 1L << 30) {
        double took = trial(argument, n);
        if (took >= seconds / 8) {
            /* The first count may have met a cold cache or a process just started: the quicker of two counts
             * is taken. */
            double again = trial(argument, n), fit;
            if (again < seconds / 8 && again < took / 2)
                continue;
            fit = (double)n * seconds / (again < took ? again : took);
            return fit < 1 ? 1 : (long)fit;
        }
        n *= took < seconds / 64 ? 4 : 2;
    }
    return n;
}

void fill(unsigned char *bytes, size_t from, size_t to, unsigned owner, unsigned seed)
{
    for (size_t i = from; i < to; i++)
        bytes[i] = plain_content(i, owner, seed);
}

int filled(const unsigned char *bytes, size_t from, size_t to, unsigned owner, unsigned seed, char why[WHY_MAX])
{
    for (size_t i = from; i < to; i++) {
        unsigned char want = plain_content(i, owner, seed);
        if (bytes[i] != want) {
            snprintf(why, WHY_MAX, "byte %zu of %zu is %d, not %d", i, to, bytes[i], want);
            return 0;
        }
    }
    return 1;
}

unsigned char *memory(size_t bytes)
{
    void *p = NULL;
    if (posix_memalign(&p, 4096, bytes ? bytes : 1) != 0)
        give_up("memory for buffers", ENOMEM);
    memset(p, 0, bytes);
    return p;
}
