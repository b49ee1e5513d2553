/*
 * Traffic while another program changes the MTU of the network under it: `path_mtu
 * small|streams|windows|broadcasts SECONDS [smaller|larger]`. Checks all data that arrives. Prints "under
 * way" when it has begun, and "packets are smaller" when some rank has found that a path carries less. With a
 * third word it goes on until that is so, or until "packets are larger" again.
 */
#include "counters.h"

enum { SMALL_BYTES = 8, STREAM_BYTES = 1 << 20, WINDOW_BYTES = 300000, SHORT_BYTES = 3000, LONE_BYTES = 1340, BROADCAST_BYTES = 200000 };
enum { STEP = 509, WARM = 5, ROUNDS_MIN = 10, SMALL_ROUNDS = 50, LONGEST_SECONDS = 60 };

static unsigned char *near, *far;
static MPI_Win window;

static unsigned char content(int i, int round, int of)
{
    return (unsigned char)(i * 7 + round + 31 * of);
}

static void fill_with(unsigned char *bytes, int length, int round, int of)
{
    for (int i = 0; i < length; i++)
        bytes[i] = content(i, round, of);
}

static void check_all(const unsigned char *bytes, int length, int round, int of)
{
    for (int i = 0; i < length; i++)
        if (bytes[i] != content(i, round, of)) {
            CHECK(0, "byte %d of round %d of %d is %d", i, round, of, bytes[i]);
            return;
        }
}

/* The rank that has this rank's number in the other half, which is on another host. */
static int partner(void)
{
    return (rank + ranks / 2) % ranks;
}

static void small(int round)
{
    for (int i = 0; i < SMALL_ROUNDS; i++) {
        if (rank < ranks / 2) {
            fill_with(near, SMALL_BYTES, round, rank);
            MPI_Send(near, SMALL_BYTES, MPI_BYTE, partner(), round, MPI_COMM_WORLD);
            MPI_Recv(far, SMALL_BYTES, MPI_BYTE, partner(), round, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            check_all(far, SMALL_BYTES, round, partner());
        } else {
            MPI_Recv(far, SMALL_BYTES, MPI_BYTE, partner(), round, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            check_all(far, SMALL_BYTES, round, partner());
            fill_with(near, SMALL_BYTES, round, rank);
            MPI_Send(near, SMALL_BYTES, MPI_BYTE, partner(), round, MPI_COMM_WORLD);
        }
    }
}

/* Large messages, messages that fill some packets, and messages of one packet, which leaves alone: a bridge
 * of Linux passes trains whatever the size of their packets. */
static void streams(int round)
{
    int bytes = round % 3 == 0 ? STREAM_BYTES : round % 3 == 1 ? SHORT_BYTES : LONE_BYTES;
    fill_with(near, bytes, round, rank);
    memset(far, 255, bytes);
    MPI_Sendrecv(near, bytes, MPI_BYTE, partner(), round, far, bytes, MPI_BYTE, partner(), round, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    check_all(far, bytes, round, partner());
}

static void windows(int round)
{
    static unsigned char own[WINDOW_BYTES];
    int bytes = round % 3 == 0 ? WINDOW_BYTES : round % 3 == 1 ? SHORT_BYTES : LONE_BYTES;
    fill_with(own, bytes, round, rank);
    memset(far, 255, bytes);
    MPI_Win_fence(0, window);
    MPI_Put(own, bytes, MPI_BYTE, partner(), 0, bytes, MPI_BYTE, window);
    MPI_Win_fence(0, window);
    check_all(near, bytes, round, partner());
    MPI_Get(far, bytes, MPI_BYTE, partner(), 0, bytes, MPI_BYTE, window);
    MPI_Win_fence(0, window);
    check_all(far, bytes, round, rank);
}

static void broadcasts(int round)
{
    int root = round % ranks, bytes = round % 2 ? BROADCAST_BYTES : SHORT_BYTES;
    memset(near, 255, bytes);
    if (rank == root)
        fill_with(near, bytes, round, root);
    MPI_Bcast(near, bytes, MPI_BYTE, root, MPI_COMM_WORLD);
    check_all(near, bytes, round, root);
}

static void say_once(int *said, int is_so, const char *what)
{
    if (is_so && !*said && rank == 0) {
        printf("%s\n", what);
        fflush(stdout);
    }
    *said |= is_so;
}

int main(int argc, char **argv)
{
    static const struct { const char *name; void (*round)(int); } kinds[] = {
        {"small", small}, {"streams", streams}, {"windows", windows}, {"broadcasts", broadcasts}};
    void (*traffic)(int) = streams;
    begin(&argc, &argv);
    for (size_t i = 0; argc > 1 && i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(argv[1], kinds[i].name) == 0)
            traffic = kinds[i].round;
    double seconds = argc > 2 ? atof(argv[2]) : 1;
    int to_be_smaller = argc > 3, to_be_larger = argc > 3 && strcmp(argv[3], "larger") == 0;
    STORY("traffic over a path whose MTU changes");
    near = malloc(STREAM_BYTES);
    far = malloc(STREAM_BYTES);
    MPI_Win_create(near, WINDOW_BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    open_counters();
    MPI_T_pvar_handle smaller = counter("network_packets_smaller"), larger = counter("network_packets_larger");
    double from = MPI_Wtime(), now = from;
    int said[2] = {0, 0}, goes_on = 1, all[3];
    for (int round = 0; goes_on; round++) {
        traffic(round);
        if (round == WARM && rank == 0) {
            printf("under way\n");
            fflush(stdout);
        }
        now = MPI_Wtime();
        /* The findings of all ranks; rank 0's clock counts. */
        int own[3] = {counted(smaller) > 0, counted(larger) > 0, rank == 0 ? (int)((now - from) * 1000) : 0};
        MPI_Allreduce(own, all, 3, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
        say_once(&said[0], all[0], "packets are smaller");
        say_once(&said[1], all[1], "packets are larger");
        int awaits = (to_be_smaller && !all[0]) || (to_be_larger && !all[1]) || round < ROUNDS_MIN || all[2] < seconds * 1000;
        goes_on = awaits && all[2] < LONGEST_SECONDS * 1000;
    }
    CHECK(!to_be_smaller || all[0], "no packet has become smaller");
    CHECK(!to_be_larger || all[1], "no packet has become larger again");
    MPI_Win_free(&window);
    free(near);
    free(far);
    int code = end();
    close_counters();
    return code;
}
