/*
 * Conformance: MPI-5.0 chapter 15, Tool Support, on any MPI library. The program assumes no particular
 * variables, categories or events; each check names its section. Features that a library may leave out are
 * not demanded.
 */
#include "check.h"

#define TOOL(call) CHECK_EQUAL(call, MPI_SUCCESS)
#define HOLDS(condition) CHECK(condition, "it does not")

enum { NAME = 512, LIST = 4096 };

static int intercepted;

/* 15.2.2: a tool may define the name without P; the library offers the name with it. */
int MPI_Get_processor_name(char *name, int *length)
{
    intercepted++;
    return PMPI_Get_processor_name(name, length);
}

static void profiling(void)
{
    STORY("15.2 the profiling interface");
    char name[MPI_MAX_PROCESSOR_NAME];
    int length, size;
    MPI_Get_processor_name(name, &length);
    CHECK_EQUAL(intercepted, 1); /* 15.2.2 */
    CHECK_EQUAL(PMPI_Comm_size(MPI_COMM_WORLD, &size), MPI_SUCCESS);
    CHECK_EQUAL(size, ranks);
    /* 15.2.4: the library's own MPI_Pcontrol ignores its arguments and returns. */
    CHECK_EQUAL(MPI_Pcontrol(0), MPI_SUCCESS);
    CHECK_EQUAL(MPI_Pcontrol(1), MPI_SUCCESS);
    CHECK_EQUAL(MPI_Pcontrol(2, "anything", 3), MPI_SUCCESS);
    CHECK_EQUAL(PMPI_Pcontrol(-7), MPI_SUCCESS);
}

static void initialisation(void)
{
    STORY("15.3.4 initialization and finalization, before MPI_Init and repeated");
    int count, provided = -1;
    CHECK_EQUAL(MPI_T_cvar_get_num(&count), MPI_T_ERR_NOT_INITIALIZED); /* 15.3.4, 15.3.10 */
    TOOL(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    HOLDS(provided >= MPI_THREAD_SINGLE && provided <= MPI_THREAD_MULTIPLE);
    TOOL(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    TOOL(MPI_T_finalize());
    TOOL(MPI_T_cvar_get_num(&count)); /* as many finalizations as initializations */
    TOOL(MPI_T_finalize());
    CHECK_EQUAL(MPI_T_cvar_get_num(&count), MPI_T_ERR_NOT_INITIALIZED);
    TOOL(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
}

static int is_verbosity(int verbosity)
{
    return verbosity >= MPI_T_VERBOSITY_USER_BASIC && verbosity <= MPI_T_VERBOSITY_MPIDEV_ALL;
}

static void control_variables(void)
{
    STORY("15.3.6 control variables");
    int count, index, verbosity, bind, scope, length, description;
    char name[NAME], text[NAME], cut[4];
    MPI_Datatype type;
    MPI_T_enum enumeration;
    TOOL(MPI_T_cvar_get_num(&count));
    HOLDS(count >= 0);
    for (int i = 0; i < count; i++) {
        length = description = NAME;
        TOOL(MPI_T_cvar_get_info(i, name, &length, &verbosity, &type, &enumeration, text, &description, &bind, &scope));
        HOLDS(length > 1 && name[0] != 0 && is_verbosity(verbosity) && type != MPI_DATATYPE_NULL);
        HOLDS(scope >= MPI_T_SCOPE_CONSTANT && scope <= MPI_T_SCOPE_ALL_EQ);
        TOOL(MPI_T_cvar_get_index(name, &index)); /* names are unique */
        CHECK_EQUAL(index, i);
        /* 15.3.3: with less room the string is cut and ends with a zero byte, and the length tells the room
         * that is needed. */
        int room = sizeof cut;
        TOOL(MPI_T_cvar_get_info(i, cut, &room, &verbosity, &type, &enumeration, NULL, NULL, &bind, &scope));
        HOLDS(strlen(cut) < sizeof cut && strncmp(cut, name, strlen(cut)) == 0);
        if (bind == MPI_T_BIND_NO_OBJECT && type == MPI_CHAR) {
            MPI_T_cvar_handle handle;
            int elements;
            TOOL(MPI_T_cvar_handle_alloc(i, NULL, &handle, &elements));
            HOLDS(elements > 0);
            char *value = calloc((size_t)elements + 1, 1);
            TOOL(MPI_T_cvar_read(handle, value));
            HOLDS(strlen(value) <= (size_t)elements);
            TOOL(MPI_T_cvar_handle_free(&handle));
            HOLDS(handle == MPI_T_CVAR_HANDLE_NULL);
            free(value);
        }
    }
    CHECK_EQUAL(MPI_T_cvar_get_index("no variable has this name", &index), MPI_T_ERR_INVALID_NAME);
}

static void performance_variables(void)
{
    STORY("15.3.7 performance variables");
    int count, index, verbosity, class, bind, readonly, continuous, atomic, length;
    char name[NAME];
    MPI_Datatype type;
    MPI_T_enum enumeration;
    MPI_T_pvar_session session;
    TOOL(MPI_T_pvar_get_num(&count));
    TOOL(MPI_T_pvar_session_create(&session));
    for (int i = 0; i < count; i++) {
        length = NAME;
        TOOL(MPI_T_pvar_get_info(i, name, &length, &verbosity, &class, &type, &enumeration, NULL, NULL, &bind, &readonly, &continuous, &atomic));
        HOLDS(is_verbosity(verbosity) && class >= MPI_T_PVAR_CLASS_STATE && class <= MPI_T_PVAR_CLASS_GENERIC);
        HOLDS((readonly == 0 || readonly == 1) && (continuous == 0 || continuous == 1) && (atomic == 0 || atomic == 1));
        TOOL(MPI_T_pvar_get_index(name, class, &index)); /* unique within a class */
        CHECK_EQUAL(index, i);
        if (bind != MPI_T_BIND_NO_OBJECT || type != MPI_UNSIGNED_LONG_LONG)
            continue;
        MPI_T_pvar_handle handle;
        int elements;
        unsigned long long value[64];
        TOOL(MPI_T_pvar_handle_alloc(session, i, NULL, &handle, &elements));
        if (elements > 64) {
            MPI_T_pvar_handle_free(session, &handle);
            continue;
        }
        if (continuous)
            CHECK_EQUAL(MPI_T_pvar_start(session, handle), MPI_T_ERR_PVAR_NO_STARTSTOP);
        else
            TOOL(MPI_T_pvar_start(session, handle));
        TOOL(MPI_T_pvar_read(session, handle, value));
        if (readonly)
            CHECK_EQUAL(MPI_T_pvar_write(session, handle, value), MPI_T_ERR_PVAR_NO_WRITE);
        if (!continuous)
            TOOL(MPI_T_pvar_stop(session, handle));
        TOOL(MPI_T_pvar_handle_free(session, &handle));
        HOLDS(handle == MPI_T_PVAR_HANDLE_NULL);
    }
    TOOL(MPI_T_pvar_session_free(&session));
    HOLDS(session == MPI_T_PVAR_SESSION_NULL);
    CHECK_EQUAL(MPI_T_pvar_get_index("no variable has this name", MPI_T_PVAR_CLASS_COUNTER, &index), MPI_T_ERR_INVALID_NAME);
}

static void listener(MPI_T_event_instance instance, MPI_T_event_registration registration, MPI_T_cb_safety safety, void *user_data)
{
    MPI_Count time;
    (void)registration;
    (void)safety;
    if (MPI_T_event_get_timestamp(instance, &time) == MPI_SUCCESS)
        ++*(int *)user_data;
}

static void freed(MPI_T_event_registration registration, MPI_T_cb_safety safety, void *user_data)
{
    (void)registration;
    (void)safety;
    *(int *)user_data = 1;
}

static void events(void)
{
    STORY("15.3.8 events and their sources");
    int count, sources, index, length, description, verbosity, bind;
    MPI_T_source_order ordering;
    char name[NAME], text[NAME];
    MPI_T_enum enumeration;
    MPI_Info info;
    TOOL(MPI_T_source_get_num(&sources));
    for (int i = 0; i < sources; i++) {
        MPI_Count ticks, most, first, second;
        length = description = NAME;
        TOOL(MPI_T_source_get_info(i, name, &length, text, &description, &ordering, &ticks, &most, &info));
        HOLDS(ordering == MPI_T_SOURCE_ORDERED || ordering == MPI_T_SOURCE_UNORDERED);
        HOLDS(ticks > 0 && most > 0);
        TOOL(MPI_T_source_get_timestamp(i, &first));
        TOOL(MPI_T_source_get_timestamp(i, &second));
        HOLDS(second >= first);
    }
    TOOL(MPI_T_event_get_num(&count));
    for (int i = 0; i < count; i++) {
        MPI_Datatype types[64];
        MPI_Aint displacements[64];
        int elements = 64;
        length = description = NAME;
        TOOL(MPI_T_event_get_info(i, name, &length, &verbosity, types, displacements, &elements, &enumeration, &info, text, &description, &bind));
        HOLDS(is_verbosity(verbosity) && elements >= 0);
        for (int k = 1; k < elements && k < 64; k++)
            HOLDS(displacements[k] > displacements[k - 1]); /* in the order of the buffer of MPI_T_event_copy */
        TOOL(MPI_T_event_get_index(name, &index));
        CHECK_EQUAL(index, i);
        if (bind != MPI_T_BIND_NO_OBJECT)
            continue;
        MPI_T_event_registration registration;
        int told = 0, is_freed = 0;
        TOOL(MPI_T_event_handle_alloc(i, NULL, MPI_INFO_NULL, &registration));
        TOOL(MPI_T_event_register_callback(registration, MPI_T_CB_REQUIRE_NONE, MPI_INFO_NULL, &told, listener));
        TOOL(MPI_T_event_set_dropped_handler(registration, NULL));
        TOOL(MPI_T_event_handle_get_info(registration, &info));
        TOOL(MPI_T_event_callback_get_info(registration, MPI_T_CB_REQUIRE_NONE, &info));
        MPI_Barrier(MPI_COMM_WORLD);
        TOOL(MPI_T_event_handle_free(registration, &is_freed, freed));
        CHECK_EQUAL(is_freed, 1);
    }
    CHECK_EQUAL(MPI_T_event_get_index("no event has this name", &index), MPI_T_ERR_INVALID_NAME);
}

static void categories(void)
{
    STORY("15.3.9 categories");
    int count, index, cvars, pvars, inner, in_all, length, stamp, later, numbers[LIST], all;
    char name[NAME];
    TOOL(MPI_T_category_get_num(&count));
    TOOL(MPI_T_category_changed(&stamp));
    for (int i = 0; i < count; i++) {
        length = NAME;
        TOOL(MPI_T_category_get_info(i, name, &length, NULL, NULL, &cvars, &pvars, &inner));
        TOOL(MPI_T_category_get_index(name, &index));
        CHECK_EQUAL(index, i);
        TOOL(MPI_T_category_get_num_events(i, &in_all));
        HOLDS(cvars >= 0 && pvars >= 0 && inner >= 0 && in_all >= 0);
        if (cvars <= LIST && pvars <= LIST && inner <= LIST && in_all <= LIST) {
            TOOL(MPI_T_category_get_cvars(i, LIST, numbers));
            TOOL(MPI_T_cvar_get_num(&all));
            for (int k = 0; k < cvars; k++)
                HOLDS(numbers[k] >= 0 && numbers[k] < all);
            TOOL(MPI_T_category_get_pvars(i, LIST, numbers));
            TOOL(MPI_T_pvar_get_num(&all));
            for (int k = 0; k < pvars; k++)
                HOLDS(numbers[k] >= 0 && numbers[k] < all);
            TOOL(MPI_T_category_get_events(i, LIST, numbers));
            TOOL(MPI_T_event_get_num(&all));
            for (int k = 0; k < in_all; k++)
                HOLDS(numbers[k] >= 0 && numbers[k] < all);
            TOOL(MPI_T_category_get_categories(i, LIST, numbers));
            for (int k = 0; k < inner; k++)
                HOLDS(numbers[k] >= 0 && numbers[k] < count && numbers[k] != i);
        }
    }
    TOOL(MPI_T_category_changed(&later));
    HOLDS(later >= stamp);
    CHECK_EQUAL(MPI_T_category_get_index("no category has this name", &index), MPI_T_ERR_INVALID_NAME);
}

static void wrong_arguments(void)
{
    STORY("15.3.10 wrong arguments and their return codes");
    int count;
    TOOL(MPI_T_cvar_get_num(&count));
    CHECK_EQUAL(MPI_T_cvar_get_info(count, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL), MPI_T_ERR_INVALID_INDEX);
    TOOL(MPI_T_pvar_get_num(&count));
    CHECK_EQUAL(MPI_T_pvar_get_info(count, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL), MPI_T_ERR_INVALID_INDEX);
    TOOL(MPI_T_category_get_num(&count));
    CHECK_EQUAL(MPI_T_category_get_info(count, NULL, NULL, NULL, NULL, NULL, NULL, NULL), MPI_T_ERR_INVALID_INDEX);
    TOOL(MPI_T_source_get_num(&count));
    CHECK_EQUAL(MPI_T_source_get_info(count, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL), MPI_T_ERR_INVALID_INDEX);
    int index, elements;
    MPI_T_pvar_session session, other;
    MPI_T_pvar_handle handle;
    unsigned long long value[64];
    TOOL(MPI_T_pvar_session_create(&session));
    TOOL(MPI_T_pvar_session_create(&other));
    TOOL(MPI_T_pvar_get_num(&count));
    if (count > 0 && MPI_T_pvar_handle_alloc(session, 0, NULL, &handle, &elements) == MPI_SUCCESS) {
        /* A handle belongs to its session. */
        CHECK_EQUAL(MPI_T_pvar_read(other, handle, value), MPI_T_ERR_INVALID_HANDLE);
        TOOL(MPI_T_pvar_handle_free(session, &handle));
    }
    TOOL(MPI_T_pvar_session_free(&session));
    TOOL(MPI_T_pvar_session_free(&other));
    CHECK_EQUAL(MPI_T_cvar_get_index("no variable has this name", &index), MPI_T_ERR_INVALID_NAME);
}

int main(int argc, char **argv)
{
    watch_the_clock();
    initialisation();
    begin(&argc, &argv);
    profiling();
    control_variables();
    performance_variables();
    events();
    categories();
    if (!left_out("wrong-arguments"))
        wrong_arguments();
    TOOL(MPI_T_finalize());
    return end();
}
