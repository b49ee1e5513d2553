/* Events of the tool interface (MPI-5.0 15.3.8) as this library has them: real events, whose callbacks read
 * their elements. */
#include "check.h"

#define TOOL(call) CHECK_EQUAL(call, MPI_SUCCESS)
#define HOLDS(condition) CHECK(condition, "it does not")

enum { MESSAGES = 5, TAG = 30 };

struct seen {
    int count, wrong, source[MESSAGES], tag[MESSAGES];
    unsigned long long bytes[MESSAGES];
    MPI_Count time[MESSAGES];
    MPI_T_event_registration registration;
    MPI_T_event_instance instance;
};

static int freed;

static void note(MPI_T_event_instance instance, MPI_T_event_registration registration, MPI_T_cb_safety safety, void *user_data)
{
    struct seen *seen = user_data;
    struct {
        int source, tag;
        unsigned long long bytes;
    } copy;
    int source_index = -1, tag = 0, rank_in_callback;
    MPI_Count time = 0;
    if (MPI_T_event_read(instance, 1, &tag) != MPI_SUCCESS || tag < TAG || tag >= TAG + MESSAGES)
        return; /* of a collective */
    seen->wrong += MPI_T_event_copy(instance, &copy) != MPI_SUCCESS || copy.tag != tag;
    seen->wrong += MPI_T_event_get_timestamp(instance, &time) != MPI_SUCCESS;
    seen->wrong += MPI_T_event_get_source(instance, &source_index) != MPI_SUCCESS || source_index != 0;
    seen->wrong += MPI_T_event_read(instance, 3, &tag) != MPI_T_ERR_INVALID_INDEX;
    seen->wrong += registration != seen->registration || safety != MPI_T_CB_REQUIRE_NONE;
    /* At this level of safety a callback may call MPI. */
    seen->wrong += MPI_Comm_rank(MPI_COMM_WORLD, &rank_in_callback) != MPI_SUCCESS || rank_in_callback != rank;
    if (seen->count < MESSAGES) {
        seen->source[seen->count] = copy.source;
        seen->tag[seen->count] = copy.tag;
        seen->bytes[seen->count] = copy.bytes;
        seen->time[seen->count] = time;
    }
    seen->count++;
    seen->instance = instance;
}

static void note_free(MPI_T_event_registration registration, MPI_T_cb_safety safety, void *user_data)
{
    (void)registration;
    (void)safety;
    freed += *(int *)user_data;
}

static void listen(const char *name, struct seen *seen)
{
    int index;
    TOOL(MPI_T_event_get_index(name, &index));
    TOOL(MPI_T_event_handle_alloc(index, NULL, MPI_INFO_NULL, &seen->registration));
    TOOL(MPI_T_event_register_callback(seen->registration, MPI_T_CB_REQUIRE_NONE, MPI_INFO_NULL, seen, note));
}

/* Calls that are not in a hurry report the events. */
static void look(void)
{
    int flag;
    MPI_Iprobe(MPI_ANY_SOURCE, 999, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
}

static void messages(struct seen *unexpected, struct seen *matched)
{
    STORY("messages that nobody asks for, and that find their receives later");
    char data[64] = "";
    MPI_Count began, ended;
    TOOL(MPI_T_source_get_timestamp(0, &began));
    if (rank == 1)
        for (int i = 0; i < MESSAGES; i++)
            MPI_Send(data, 8 * i, MPI_CHAR, 0, TAG + i, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank != 0)
        return;
    /* A rank that waits for the last message has all before it. */
    MPI_Status status;
    MPI_Probe(1, TAG + MESSAGES - 1, MPI_COMM_WORLD, &status);
    look();
    CHECK_EQUAL(unexpected->count, MESSAGES);
    CHECK_EQUAL(matched->count, 0);
    for (int i = MESSAGES - 1; i >= 0; i--)
        MPI_Recv(data, sizeof data, MPI_CHAR, 1, TAG + i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    look();
    CHECK_EQUAL(matched->count, MESSAGES);
    TOOL(MPI_T_source_get_timestamp(0, &ended));
    for (int i = 0; i < MESSAGES; i++) {
        CHECK_EQUAL(unexpected->source[i], 1);
        CHECK_EQUAL(unexpected->tag[i], TAG + i);
        CHECK_EQUAL(unexpected->bytes[i], 8 * i);
        CHECK_EQUAL(matched->tag[i], TAG + MESSAGES - 1 - i);
        HOLDS(unexpected->time[i] >= began && matched->time[i] <= ended && unexpected->time[i] <= matched->time[i]);
        HOLDS(i == 0 || unexpected->time[i - 1] <= unexpected->time[i]);
    }
    CHECK_EQUAL(unexpected->wrong + matched->wrong, 0);
    /* An instance can be read only inside its callback. */
    int tag;
    CHECK_EQUAL(MPI_T_event_read(unexpected->instance, 1, &tag), MPI_T_ERR_INVALID_HANDLE);
}

static long long dropped;

static void note_dropped(MPI_Count count, MPI_T_event_registration registration, int source, MPI_T_cb_safety safety, void *user_data)
{
    struct seen *seen = user_data;
    seen->wrong += registration != seen->registration || source != 0 || safety != MPI_T_CB_REQUIRE_NONE;
    dropped += count;
}

/* More events than are kept, in one call: the dropped ones are counted. */
static void flood(struct seen *unexpected)
{
    STORY("events that nobody could be told in time are counted");
    enum { MANY = 6000 };
    int value = 0;
    if (rank == 0)
        TOOL(MPI_T_event_set_dropped_handler(unexpected->registration, note_dropped));
    int before = unexpected->count;
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1)
        for (int i = 0; i < MANY; i++)
            MPI_Send(&value, 1, MPI_INT, 0, TAG, MPI_COMM_WORLD);
    if (rank == 0) {
        for (int i = 0; i < MANY; i++)
            MPI_Recv(&value, 1, MPI_INT, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        look();
        HOLDS(unexpected->count - before + dropped <= MANY + 100);
        CHECK_EQUAL(unexpected->wrong, 0);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    int provided, one = 1, flag = 0;
    struct seen unexpected = {0}, matched = {0};
    watch_the_clock();
    TOOL(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    /* A tool may listen before MPI_Init. */
    listen("messages_queued_unexpected", &unexpected);
    begin(&argc, &argv);
    listen("messages_unexpected_matched", &matched);
    if (ranks > 1) {
        messages(&unexpected, &matched);
        flood(&unexpected);
    }
    STORY("registrations are freed, and nothing is told any more");
    TOOL(MPI_T_event_handle_free(unexpected.registration, &one, note_free));
    TOOL(MPI_T_event_handle_free(matched.registration, NULL, NULL));
    CHECK_EQUAL(freed, 1);
    CHECK_EQUAL(MPI_T_event_handle_free(matched.registration, NULL, NULL), MPI_T_ERR_INVALID_HANDLE);
    int before = unexpected.count;
    if (ranks > 1) {
        if (rank == 1)
            MPI_Send(&one, 1, MPI_INT, 0, TAG, MPI_COMM_WORLD);
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0) {
            while (!flag)
                MPI_Iprobe(1, TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
            MPI_Recv(&one, 1, MPI_INT, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
    }
    CHECK_EQUAL(unexpected.count, before);
    TOOL(MPI_T_finalize());
    return end();
}
