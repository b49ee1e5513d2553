/*
 * Traffic between two ranks for some seconds, while another program breaks the network under it:
 * `rails bulk|small SECONDS [failed|healed]`, bulk data one way, or small messages there and back. Prints
 * "under way" when it has begun, and checks the data that arrives. With a third word it goes on until its
 * sender has found a path to have failed for 0.3 s, and prints "a path has failed", or until that path
 * carries packets again; and tools hear of it.
 */
#include "counters.h"

enum { BULK_BYTES = 1 << 20, SMALL_BYTES = 8, STEP = 509, WARM = 5, ROUNDS_MIN = 10, TAG_MORE = 1, TAG_LAST = 2, LONGEST_SECONDS = 30 };
/* The time for which a path is down before it counts as failed. */
static const double DOWN_SECONDS = 0.3;

static unsigned char content(int i, int round)
{
    return (unsigned char)(i * 7 + round);
}

static MPI_T_pvar_handle failures_of_paths, paths_down;
/* Packets sent again are counted by cause. */
static const char *const causes[] = {"network_resent_by_gap", "network_resent_by_probe", "network_resent_by_path", "network_resent_by_denial"};
enum { CAUSES = sizeof causes / sizeof *causes };
static MPI_T_pvar_handle resent_by[CAUSES];
static volatile unsigned long long told_failed, told_resent;

static void note_failed(MPI_T_event_instance instance, MPI_T_event_registration registration, MPI_T_cb_safety safety, void *user_data)
{
    (void)instance, (void)registration, (void)safety;
    ++*(volatile unsigned long long *)user_data;
}

static void listen(const char *name, volatile unsigned long long *told)
{
    MPI_T_event_registration registration;
    int index;
    CHECK_EQUAL(MPI_T_event_get_index(name, &index), MPI_SUCCESS);
    CHECK_EQUAL(MPI_T_event_handle_alloc(index, NULL, MPI_INFO_NULL, &registration), MPI_SUCCESS);
    CHECK_EQUAL(MPI_T_event_register_callback(registration, MPI_T_CB_REQUIRE_NONE, MPI_INFO_NULL, (void *)told, note_failed),
                MPI_SUCCESS);
}

static unsigned long long resent(void)
{
    unsigned long long sum = 0;
    for (int i = 0; i < CAUSES; i++)
        sum += counted(resent_by[i]);
    return sum;
}

static void begin_to_watch(void)
{
    open_counters();
    failures_of_paths = counter("network_path_failures");
    paths_down = variable("network_paths_down", MPI_T_PVAR_CLASS_LEVEL);
    for (int i = 0; i < CAUSES; i++)
        resent_by[i] = counter(causes[i]);
    listen("network_path_failed", &told_failed);
    listen("network_packets_resent", &told_resent);
}

/*
 * Says whether the awaited event has come. On a busy machine a path may be silent for a moment while another
 * path answers: it is given up, and taken back. A path that stays down was broken by the other program.
 */
static int has_come(const char *awaited)
{
    static int said;
    /* The time at which no path was down last. */
    static double up;
    if (!awaited)
        return 1;
    if (!said) {
        double now = MPI_Wtime();
        if (up == 0 || counted(failures_of_paths) == 0 || counted(paths_down) == 0)
            up = now;
        if (now - up < DOWN_SECONDS)
            return 0;
        said = 1;
        printf("a path has failed\n");
        fflush(stdout);
    }
    return told_failed > 0 && (strcmp(awaited, "healed") != 0 || counted(paths_down) == 0);
}

/* Returns the number of packets that had been sent again before the last round. */
static unsigned long long send_rounds(unsigned char *buffer, int bytes, double seconds, int answered, const char *awaited)
{
    double begin = MPI_Wtime();
    unsigned long long resent_before = 0;
    for (int round = 0, tag = TAG_MORE; tag == TAG_MORE; round++) {
        double elapsed = MPI_Wtime() - begin;
        if ((has_come(awaited) && elapsed > seconds && round >= ROUNDS_MIN) || elapsed > LONGEST_SECONDS)
            tag = TAG_LAST;
        for (int i = 0; i < bytes; i += STEP)
            buffer[i] = content(i, round);
        resent_before = resent();
        MPI_Send(buffer, bytes, MPI_BYTE, 1, tag, MPI_COMM_WORLD);
        if (answered)
            MPI_Recv(buffer, bytes, MPI_BYTE, 1, TAG_MORE, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (round == WARM) {
            printf("under way\n");
            fflush(stdout);
        }
    }
    return resent_before;
}

static void receive_rounds(unsigned char *buffer, int bytes, int answers)
{
    MPI_Status status;
    int round = 0;
    do {
        MPI_Recv(buffer, bytes, MPI_BYTE, 0, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        for (int i = 0; i < bytes; i += STEP)
            CHECK(buffer[i] == content(i, round), "byte %d of round %d is %d", i, round, buffer[i]);
        if (answers)
            MPI_Send(buffer, bytes, MPI_BYTE, 0, TAG_MORE, MPI_COMM_WORLD);
        round++;
    } while (status.MPI_TAG != TAG_LAST);
    CHECK(round > ROUNDS_MIN, "only %d rounds", round);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    int answered = argc > 1 && strcmp(argv[1], "small") == 0;
    double seconds = argc > 2 ? atof(argv[2]) : 1;
    int bytes = answered ? SMALL_BYTES : BULK_BYTES;
    unsigned char *buffer = malloc(bytes);
    STORY(answered ? "small messages there and back" : "bulk data one way");
    const char *awaited = argc > 3 ? argv[3] : NULL;
    begin_to_watch();
    if (rank == 0) {
        unsigned long long resent_before = send_rounds(buffer, bytes, seconds, answered, awaited);
        CHECK(has_come(awaited), "%llu failures, %llu told, %llu paths down", counted(failures_of_paths), told_failed, counted(paths_down));
        /* When a path fails between two rounds, no packet need be lost. */
        CHECK(told_resent > 0 || resent_before == 0, "nothing was told of %llu packets that were sent again", resent_before);
    }
    if (rank == 1)
        receive_rounds(buffer, bytes, answered);
    free(buffer);
    int code = end();
    close_counters();
    return code;
}
