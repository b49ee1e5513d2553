/* Errors, the environment, start and end (MPI-5.0 chapters 9 and 11, and hints of section 7.4.4): runs on any
 * MPI library. */
#include "check.h"

static int deleted_in[3], deletions;

static int note_deletion(MPI_Comm comm, int key, void *value, void *state)
{
    (void)comm, (void)key, (void)state;
    int finalized = 1;
    MPI_Finalized(&finalized);
    if (deletions < 3)
        deleted_in[deletions] = finalized ? -1 : *(int *)value;
    deletions++;
    return MPI_SUCCESS;
}

static int handled, handled_class;
static MPI_Comm handled_on;

static void note(MPI_Comm *comm, int *code, ...)
{
    handled++;
    handled_on = *comm;
    MPI_Error_class(*code, &handled_class);
}

static void before_and_level(void)
{
    STORY("11.4.1 what may be called at any time");
    int flag = -1, version, subversion, length;
    char library[MPI_MAX_LIBRARY_VERSION_STRING];
    MPI_Initialized(&flag);
    CHECK_EQUAL(flag, 0);
    MPI_Finalized(&flag);
    CHECK_EQUAL(flag, 0);
    MPI_Get_version(&version, &subversion);
    CHECK(version == MPI_VERSION && subversion == MPI_SUBVERSION, "%d.%d", version, subversion); /* 9.1.1 */
    MPI_Get_library_version(library, &length);
    CHECK(length > 0 && length == (int)strlen(library), "%d", length);
    STORY("10 info objects before initialisation");
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "key", "value");
    MPI_Info_get_nkeys(info, &flag);
    CHECK_EQUAL(flag, 1);
    MPI_Info_free(&info);
}

static void inquiries(int provided)
{
    STORY("11.2.1 thread levels");
    int level, flag, *value;
    MPI_Query_thread(&level);
    CHECK_EQUAL(level, provided);
    MPI_Is_thread_main(&flag);
    CHECK(flag, "the main thread is not the main thread");
    STORY("9.1.2 environmental inquiries");
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &value, &flag);
    CHECK(flag && *value >= 32767, "MPI_TAG_UB");
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_IO, &value, &flag);
    CHECK(flag, "MPI_IO");
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_WTIME_IS_GLOBAL, &value, &flag);
    CHECK(flag && (*value == 0 || *value == 1), "MPI_WTIME_IS_GLOBAL");
    char name[MPI_MAX_PROCESSOR_NAME];
    int length;
    MPI_Get_processor_name(name, &length);
    CHECK(length > 0 && length == (int)strlen(name), "%d", length);
    STORY("9.2 memory");
    double *memory_of_mpi = NULL;
    MPI_Alloc_mem(1000 * sizeof(double), MPI_INFO_NULL, &memory_of_mpi);
    CHECK(memory_of_mpi, "none");
    memory_of_mpi[0] = memory_of_mpi[999] = 1;
    MPI_Free_mem(memory_of_mpi);
    STORY("9.6 clocks");
    double began = MPI_Wtime(), tick = MPI_Wtick();
    CHECK(tick > 0 && MPI_Wtime() >= began, "%g", tick);
}

static void error_handlers(void)
{
    STORY("9.3.1 error handlers of communicators");
    MPI_Comm comm, copy;
    MPI_Errhandler handler, found;
    int value = 0;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_get_errhandler(comm, &found);
    CHECK(found == MPI_ERRORS_ARE_FATAL, "not the default");
    MPI_Errhandler_free(&found);
    MPI_Comm_create_errhandler(note, &handler);
    MPI_Comm_set_errhandler(comm, handler);
    MPI_Errhandler_free(&handler);
    MPI_Send(&value, 1, MPI_INT, ranks, 0, comm);
    CHECK(handled == 1 && handled_class == MPI_ERR_RANK && handled_on == comm, "%d %d", handled, handled_class);
    STORY("9.3.1 a new communicator has its parent's error handler");
    MPI_Comm_dup(comm, &copy);
    MPI_Send(&value, -1, MPI_INT, 0, 0, copy);
    CHECK(handled == 2 && handled_class == MPI_ERR_COUNT && handled_on == copy, "%d", handled);
    MPI_Comm_free(&copy);
    STORY("9.5.2 Comm_call_errhandler");
    MPI_Comm_call_errhandler(comm, MPI_ERR_TAG);
    CHECK(handled == 3 && handled_class == MPI_ERR_TAG, "%d %d", handled, handled_class);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    CHECK_EQUAL(MPI_Comm_call_errhandler(comm, MPI_ERR_TAG), MPI_SUCCESS);
    CHECK_EQUAL(handled, 3);
    MPI_Comm_free(&comm);

    STORY("9.4 classes and strings");
    char text[MPI_MAX_ERROR_STRING];
    int length, class, *last, flag;
    for (int code = 0; code <= MPI_ERR_ERRHANDLER; code++) {
        MPI_Error_class(code, &class);
        CHECK_EQUAL(class, code);
        MPI_Error_string(code, text, &length);
        CHECK(length > 0 && length == (int)strlen(text), "code %d: %d", code, length);
    }
    STORY("9.5.1 classes, codes and strings of the program");
    int own_class, own_code;
    MPI_Add_error_class(&own_class);
    CHECK(own_class > MPI_ERR_LASTCODE, "%d", own_class);
    MPI_Add_error_code(own_class, &own_code);
    MPI_Add_error_string(own_code, "of the program");
    MPI_Error_string(own_code, text, &length);
    CHECK(!strcmp(text, "of the program"), "%.100s", text);
    MPI_Error_class(own_code, &class);
    CHECK_EQUAL(class, own_class);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &last, &flag);
    CHECK(flag && *last >= own_class, "MPI_LASTUSEDCODE");
    MPI_Remove_error_string(own_code);
    MPI_Remove_error_code(own_code);
    MPI_Remove_error_class(own_class);
}

static void assertion(MPI_Comm comm, const char *expected)
{
    MPI_Info info;
    char value[MPI_MAX_INFO_VAL + 1] = "";
    int flag = 0, length = sizeof value;
    MPI_Comm_get_info(comm, &info);
    MPI_Info_get_string(info, "mpi_assert_no_any_tag", &length, value, &flag);
    CHECK(flag && !strcmp(value, expected), "it is '%.50s', expected %s", value, expected);
    MPI_Info_free(&info);
}

static void hints(void)
{
    STORY("7.4.4 the assertions have values, false at first");
    MPI_Comm comm;
    MPI_Info info;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    assertion(comm, "false");
    MPI_Info_create(&info);
    MPI_Info_set(info, "mpi_assert_no_any_tag", "true");
    MPI_Info_set(info, "org.example.hint", "true"); /* unknown keys are ignored */
    MPI_Comm_set_info(comm, info);
    assertion(comm, "true");
    MPI_Info_delete(info, "mpi_assert_no_any_tag");
    MPI_Comm_set_info(comm, info); /* keys that are not named stay */
    assertion(comm, "true");
    MPI_Comm_free(&comm);
    STORY("7.4.2 Comm_dup_with_info");
    MPI_Info_set(info, "mpi_assert_no_any_tag", "true");
    MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &comm);
    assertion(comm, "true");
    MPI_Comm_free(&comm);
    MPI_Info_free(&info);
}

int main(int argc, char **argv)
{
    watch_the_clock();
    before_and_level();
    STORY("11.2.1 Init_thread");
    int provided = -1, flag;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    CHECK(provided >= MPI_THREAD_SINGLE && provided <= MPI_THREAD_MULTIPLE, "%d", provided);
    inquiries(provided);
    error_handlers();
    hints();
    STORY("11.2.4 attributes of MPI_COMM_SELF are deleted first, the last that was set first");
    int key[2], values[2] = {10, 20};
    for (int i = 0; i < 2; i++) {
        MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, note_deletion, &key[i], NULL);
        MPI_Comm_set_attr(MPI_COMM_SELF, key[i], &values[i]);
    }
    STORY("11.2.2 Finalize");
    MPI_Finalize();
    CHECK(deletions == 2 && deleted_in[0] == 20 && deleted_in[1] == 10, "%d: %d, %d", deletions, deleted_in[0],
          deleted_in[1]);
    STORY("11.4.1 after the end");
    MPI_Initialized(&flag);
    CHECK_EQUAL(flag, 1);
    MPI_Finalized(&flag);
    CHECK_EQUAL(flag, 1);
    return failures > 0;
}
