/* Init in all forms, and the calls that are allowed before and after (MPI-5.0 §11.4.1): `start [LEVEL]`. */
#include "check.h"

static void always_allowed(int initialized, int finalized)
{
    int flag = -1, version, subversion, length;
    char library[MPI_MAX_LIBRARY_VERSION_STRING];
    MPI_Initialized(&flag);
    CHECK_EQUAL(flag, initialized);
    MPI_Finalized(&flag);
    CHECK_EQUAL(flag, finalized);
    MPI_Get_version(&version, &subversion);
    CHECK(version == MPI_VERSION && version >= 5, "%d.%d", version, subversion);
    MPI_Get_library_version(library, &length);
    CHECK(length > 0 && length < MPI_MAX_LIBRARY_VERSION_STRING && (int)strlen(library) == length, "%d", length);
    MPI_Abi_get_version(&version, &subversion);
    CHECK(version == MPI_ABI_VERSION && subversion == MPI_ABI_SUBVERSION, "%d.%d", version, subversion);
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "weave", "plain");
    MPI_Info_free(&info);
    int class;
    char text[MPI_MAX_ERROR_STRING];
    MPI_Error_class(MPI_ERR_TAG, &class);
    MPI_Error_string(MPI_ERR_TAG, text, &length);
    CHECK_EQUAL(class, MPI_ERR_TAG);
}

static int deleted;

static int at_finalize(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)comm, (void)key, (void)value, (void)extra;
    int flag = 1;
    MPI_Finalized(&flag);
    CHECK(!flag, "MPI is finalized while attributes of MPI_COMM_SELF are deleted");
    deleted++;
    return MPI_SUCCESS;
}

int main(int argc, char **argv)
{
    static const int levels[] = {MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED, MPI_THREAD_MULTIPLE};
    int wanted = argc > 1 ? atoi(argv[1]) : -1, provided = -1, found, is_main;
    watch_the_clock();
    STORY("§11.4.1 before Init");
    always_allowed(0, 0);

    STORY("§11.2.1 Init");
    if (wanted < 0) {
        MPI_Init(NULL, NULL);
    } else {
        MPI_Init_thread(&argc, &argv, levels[wanted], &provided);
        CHECK(provided >= levels[wanted], "wanted %d, provided %d", levels[wanted], provided);
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    always_allowed(1, 0);
    MPI_Query_thread(&found);
    CHECK(wanted < 0 || found == provided, "%d and %d", found, provided);
    MPI_Is_thread_main(&is_main);
    CHECK(is_main, "the main thread is not the main thread");

    STORY("§9.6, §9.1.2 clock and name");
    double before = MPI_Wtime(), tick = MPI_Wtick();
    usleep(2000);
    double slept = MPI_Wtime() - before;
    CHECK(slept >= 0.002 && slept < 5, "%g s", slept);
    CHECK(tick > 0 && tick < 0.001, "%g s", tick);
    char name[MPI_MAX_PROCESSOR_NAME];
    int length;
    MPI_Get_processor_name(name, &length);
    CHECK(length > 0 && (int)strlen(name) == length, "%d", length);

    STORY("§11.2.2 Finalize");
    int key;
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, at_finalize, &key, NULL);
    MPI_Comm_set_attr(MPI_COMM_SELF, key, &key);
    MPI_Finalize();
    CHECK_EQUAL(deleted, 1);
    STORY("§11.4.1 after Finalize");
    always_allowed(1, 1);
    return failures > 0;
}
