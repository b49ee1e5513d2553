/* The tool interface (MPI-5.0 15.3): settings can be read, and written before MPI_Init; counters count
 * messages that were sent. */
#include "check.h"

/* Tools' calls return their codes themselves: no error handler. */
#define TOOL(call) CHECK_EQUAL(call, MPI_SUCCESS)
#define HOLDS(condition) CHECK(condition, "it does not")

static void settings_before_init(void)
{
    STORY("control variables before MPI_Init");
    int count, index, provided, length = 0;
    CHECK_EQUAL(MPI_T_cvar_get_num(&count), MPI_T_ERR_NOT_INITIALIZED);
    TOOL(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    TOOL(MPI_T_cvar_get_num(&count));
    HOLDS(count > 5);
    TOOL(MPI_T_cvar_get_index("WEFT_EAGER_LIMIT", &index));
    CHECK_EQUAL(MPI_T_cvar_get_index("WEFT_NOTHING", &index), MPI_T_ERR_INVALID_NAME);
    char name[64];
    int verbosity, bind, scope;
    MPI_Datatype type;
    MPI_T_enum enumeration;
    /* A length of zero asks for the length. */
    TOOL(MPI_T_cvar_get_info(index, name, &length, &verbosity, &type, &enumeration, NULL, NULL, &bind, &scope));
    CHECK_EQUAL(length, (int)strlen("WEFT_EAGER_LIMIT") + 1);
    TOOL(MPI_T_cvar_get_info(index, name, &length, NULL, NULL, NULL, NULL, NULL, NULL, NULL));
    HOLDS(strcmp(name, "WEFT_EAGER_LIMIT") == 0);
    length = 5;
    TOOL(MPI_T_cvar_get_info(index, name, &length, NULL, NULL, NULL, NULL, NULL, NULL, NULL));
    HOLDS(strcmp(name, "WEFT") == 0);
    HOLDS(type == MPI_CHAR && bind == MPI_T_BIND_NO_OBJECT);
    CHECK_EQUAL(MPI_T_cvar_get_info(count, name, &length, NULL, NULL, NULL, NULL, NULL, NULL, NULL), MPI_T_ERR_INVALID_INDEX);
    MPI_T_cvar_handle handle;
    TOOL(MPI_T_cvar_handle_alloc(index, NULL, &handle, &length));
    char *value = malloc((size_t)length);
    TOOL(MPI_T_cvar_write(handle, "4096"));
    TOOL(MPI_T_cvar_read(handle, value));
    HOLDS(strcmp(value, "4096") == 0);
    TOOL(MPI_T_cvar_handle_free(&handle));
    HOLDS(handle == MPI_T_CVAR_HANDLE_NULL);
    CHECK_EQUAL(MPI_T_cvar_read(handle, value), MPI_T_ERR_INVALID_HANDLE);
    free(value);
}

/* §15.3.6: the scope of each variable is true: a variable that can be set takes its own value again, and a
 * constant takes none. Returns whether any can be set. */
static int scopes_are_true(void)
{
    int count, settable = 0;
    TOOL(MPI_T_cvar_get_num(&count));
    for (int index = 0; index < count; index++) {
        int length, scope, name_length = 64;
        char name[64];
        MPI_T_cvar_handle handle;
        TOOL(MPI_T_cvar_get_info(index, name, &name_length, NULL, NULL, NULL, NULL, NULL, NULL, &scope));
        TOOL(MPI_T_cvar_handle_alloc(index, NULL, &handle, &length));
        char *value = malloc((size_t)length);
        TOOL(MPI_T_cvar_read(handle, value));
        int code = MPI_T_cvar_write(handle, value);
        int is_constant = scope == MPI_T_SCOPE_CONSTANT || scope == MPI_T_SCOPE_READONLY;
        CHECK(code == (is_constant ? MPI_T_ERR_CVAR_SET_NEVER : MPI_SUCCESS), "%s has scope %d, and a write gives %d", name,
              scope, code);
        settable += !is_constant;
        TOOL(MPI_T_cvar_handle_free(&handle));
        free(value);
    }
    return settable;
}

static void wrong_values(void)
{
    STORY("a value that a setting may not have is refused, and the one before stays");
    int index, length;
    char value[256];
    MPI_T_cvar_handle handle;
    TOOL(MPI_T_cvar_get_index("WEFT_EAGER_LIMIT", &index));
    TOOL(MPI_T_cvar_handle_alloc(index, NULL, &handle, &length));
    HOLDS(length <= 256);
    CHECK_EQUAL(MPI_T_cvar_write(handle, "as much as you can"), MPI_T_ERR_INVALID);
    TOOL(MPI_T_cvar_read(handle, value));
    HOLDS(strcmp(value, "4096") == 0);
    TOOL(MPI_T_cvar_handle_free(&handle));
    length = -2;
    CHECK_EQUAL(MPI_T_cvar_get_info(index, value, &length, NULL, NULL, NULL, NULL, NULL, NULL, NULL), MPI_T_ERR_INVALID);
}

/* Writes a setting; before MPI_Init it takes effect. */
static void set(const char *name, const char *value)
{
    int index, length;
    MPI_T_cvar_handle handle;
    TOOL(MPI_T_cvar_get_index(name, &index));
    TOOL(MPI_T_cvar_handle_alloc(index, NULL, &handle, &length));
    TOOL(MPI_T_cvar_write(handle, value));
    TOOL(MPI_T_cvar_handle_free(&handle));
}

/* With WEFT_VERBOSE_ERRORS, written above, a returned error is printed too. */
static void what_was_written_counts(void)
{
    STORY("a control variable that was written before MPI_Init has its effect");
    char text[512] = "";
    FILE *file = tmpfile();
    HOLDS(file != NULL);
    fflush(stderr);
    int stderr_kept = dup(2);
    dup2(fileno(file), 2);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int code = MPI_Send(NULL, 0, MPI_BYTE, ranks, 0, MPI_COMM_WORLD);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    fflush(stderr);
    dup2(stderr_kept, 2);
    close(stderr_kept);
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    CHECK_CLASS(code, MPI_ERR_RANK);
    HOLDS(strstr(text, "MPI_Send") && strstr(text, "MPI_ERR_RANK"));
}

static void settings_after_init(void)
{
    STORY("control variables after MPI_Init");
    int index, length;
    MPI_T_cvar_handle handle;
    TOOL(MPI_T_cvar_get_index("WEFT_EAGER_LIMIT", &index));
    TOOL(MPI_T_cvar_handle_alloc(index, NULL, &handle, &length));
    char *value = malloc((size_t)length);
    TOOL(MPI_T_cvar_read(handle, value));
    HOLDS(strcmp(value, "4096") == 0);
    CHECK_EQUAL(MPI_T_cvar_write(handle, "1"), MPI_T_ERR_CVAR_SET_NEVER);
    TOOL(MPI_T_cvar_handle_free(&handle));
    free(value);
}

static unsigned long long reading(MPI_T_pvar_session session, MPI_T_pvar_handle handle)
{
    unsigned long long value = ~0ull;
    TOOL(MPI_T_pvar_read(session, handle, &value));
    return value;
}

static void counters(void)
{
    STORY("performance variables");
    int index, length, sum = 0, one = 1;
    MPI_T_pvar_session session, other;
    MPI_T_pvar_handle messages, unexpected;
    TOOL(MPI_T_pvar_session_create(&session));
    TOOL(MPI_T_pvar_session_create(&other));
    TOOL(MPI_T_pvar_get_index("messages_sent", MPI_T_PVAR_CLASS_COUNTER, &index));
    CHECK_EQUAL(MPI_T_pvar_get_index("messages_sent", MPI_T_PVAR_CLASS_LEVEL, &index), MPI_T_ERR_INVALID_NAME);
    TOOL(MPI_T_pvar_handle_alloc(session, index, NULL, &messages, &length));
    CHECK_EQUAL(length, 1);
    CHECK_EQUAL(MPI_T_pvar_start(other, messages), MPI_T_ERR_INVALID_HANDLE);
    CHECK_EQUAL((int)reading(session, messages), 0);
    TOOL(MPI_T_pvar_start(session, messages));
    MPI_Send(&one, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD);
    CHECK_EQUAL((int)reading(session, messages), 0);
    MPI_Request request;
    MPI_Isend(&one, 1, MPI_INT, rank, 3, MPI_COMM_WORLD, &request);
    CHECK_EQUAL((int)reading(session, messages), 1);
    TOOL(MPI_T_pvar_get_index("messages_unexpected", MPI_T_PVAR_CLASS_LEVEL, &index));
    TOOL(MPI_T_pvar_handle_alloc(session, index, NULL, &unexpected, &length));
    MPI_Probe(rank, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    /* Other ranks may be ahead, in the collective below: their messages are unexpected too. */
    int waiting = (int)reading(session, unexpected);
    HOLDS(ranks == 1 ? waiting == 1 : waiting >= 1);
    MPI_Recv(&sum, 1, MPI_INT, rank, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    HOLDS(ranks > 1 || reading(session, unexpected) == 0);
    CHECK_EQUAL(MPI_T_pvar_reset(session, unexpected), MPI_T_ERR_PVAR_NO_WRITE);
    TOOL(MPI_T_pvar_stop(session, messages));
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK_EQUAL((int)reading(session, messages), 1);
    unsigned long long value;
    TOOL(MPI_T_pvar_readreset(session, messages, &value));
    CHECK_EQUAL((int)value, 1);
    TOOL(MPI_T_pvar_start(session, MPI_T_PVAR_ALL_HANDLES));
    CHECK_EQUAL((int)reading(session, messages), 0);
    /* A collective need not send any message: ranks of one host may have memory in common. */
    MPI_Sendrecv(&one, 1, MPI_INT, (rank + 1) % ranks, 4, &sum, 1, MPI_INT, (rank + ranks - 1) % ranks, 4, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    CHECK_EQUAL((int)reading(session, messages), 1);
    TOOL(MPI_T_pvar_handle_free(session, &messages));
    TOOL(MPI_T_pvar_session_free(&session));
    CHECK_EQUAL(MPI_T_pvar_read(session, unexpected, &value), MPI_T_ERR_INVALID_SESSION);
    TOOL(MPI_T_pvar_session_free(&other));
}

static void categories(void)
{
    STORY("categories hold every variable once");
    int count, settings, variables, in_categories = 0, cvars, pvars, categories_in, indices[256];
    TOOL(MPI_T_category_get_num(&count));
    TOOL(MPI_T_cvar_get_num(&settings));
    TOOL(MPI_T_pvar_get_num(&variables));
    for (int i = 0; i < count; i++) {
        TOOL(MPI_T_category_get_info(i, NULL, NULL, NULL, NULL, &cvars, &pvars, &categories_in));
        HOLDS(pvars <= 256 && cvars <= 256);
        TOOL(MPI_T_category_get_pvars(i, 256, indices));
        for (int k = 0; k < pvars; k++)
            HOLDS(indices[k] >= 0 && indices[k] < variables);
        in_categories += cvars + pvars;
    }
    CHECK_EQUAL(in_categories, settings + variables);
    CHECK_EQUAL(MPI_T_category_get_info(count, NULL, NULL, NULL, NULL, &cvars, NULL, NULL), MPI_T_ERR_INVALID_INDEX);
    int events, of_category;
    TOOL(MPI_T_event_get_num(&events));
    HOLDS(events > 0);
    for (int i = 0; i < count; i++) {
        TOOL(MPI_T_category_get_num_events(i, &of_category));
        events -= of_category;
    }
    CHECK_EQUAL(events, 0);
    /* No variable has an enumeration, so that no handle is one. */
    CHECK_EQUAL(MPI_T_enum_get_info(MPI_T_ENUM_NULL, &count, NULL, NULL), MPI_T_ERR_INVALID_HANDLE);
}

int main(int argc, char **argv)
{
    watch_the_clock();
    settings_before_init();
    STORY("scopes before MPI_Init");
    HOLDS(scopes_are_true() > 5);
    wrong_values();
    set("WEFT_VERBOSE_ERRORS", "1");
    begin(&argc, &argv);
    settings_after_init();
    STORY("scopes after MPI_Init");
    CHECK_EQUAL(scopes_are_true(), 0);
    what_was_written_counts();
    counters();
    categories();
    TOOL(MPI_T_finalize());
    int count;
    CHECK_EQUAL(MPI_T_pvar_get_num(&count), MPI_T_ERR_NOT_INITIALIZED);
    return end();
}
