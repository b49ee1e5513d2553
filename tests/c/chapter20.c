/*
 * Chapter 20 of MPI 5.0, the application binary interface: conformance. Passes on any library of the standard
 * ABI with any number of ranks. The larger half of the chapter is that the same binary runs on two libraries:
 * the suite of conformance programs tests that.
 */
#include "check.h"

_Static_assert(sizeof(MPI_Status) == 32, "MPI_Status has 32 bytes");
_Static_assert(sizeof(MPI_Comm) == sizeof(void *), "handles are pointers");
_Static_assert(sizeof(MPI_Aint) == sizeof(void *), "MPI_Aint is as wide as a pointer");
_Static_assert(sizeof(MPI_Count) == 8 && sizeof(MPI_Offset) == 8, "MPI_Count and MPI_Offset have 64 bits");

static void version(void)
{
    STORY("20: the version of the ABI");
    int major = -1, minor = -1;
    MPI_Abi_get_version(&major, &minor);
    CHECK(major == MPI_ABI_VERSION && minor == MPI_ABI_SUBVERSION, "%d.%d", major, minor);
    CHECK_EQUAL(major, 1);
}

static void information(void)
{
    STORY("20: sizes, by MPI_Abi_get_info");
    static const struct {
        const char *key;
        size_t bytes;
    } sizes[] = {{"mpi_aint_size", sizeof(MPI_Aint)}, {"mpi_count_size", sizeof(MPI_Count)}, {"mpi_offset_size", sizeof(MPI_Offset)}};
    MPI_Info info = MPI_INFO_NULL;
    MPI_Abi_get_info(&info);
    CHECK(info != MPI_INFO_NULL, "null");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char value[20] = "";
        int room = sizeof value, found = 0;
        MPI_Info_get_string(info, sizes[i].key, &room, value, &found);
        CHECK(found && (size_t)atoi(value) == sizes[i].bytes, "%s: %d, \"%s\"", sizes[i].key, found, value);
    }
    MPI_Info_free(&info);
}

/* §20: values that a compiler has written into binaries. */
static void constants(void)
{
    STORY("20: constants");
    CHECK_EQUAL((intptr_t)MPI_COMM_NULL, 0x100);
    CHECK_EQUAL((intptr_t)MPI_COMM_WORLD, 0x101);
    CHECK_EQUAL((intptr_t)MPI_COMM_SELF, 0x102);
    CHECK_EQUAL((intptr_t)MPI_GROUP_EMPTY, 0x109);
    CHECK_EQUAL((intptr_t)MPI_REQUEST_NULL, 0x180);
    CHECK_EQUAL((intptr_t)MPI_SUM, 0x21);
    CHECK_EQUAL((intptr_t)MPI_BYTE, 0x247);
    CHECK_EQUAL(MPI_ANY_SOURCE, -1);
    CHECK_EQUAL(MPI_PROC_NULL, -3);
    CHECK_EQUAL(MPI_ROOT, -4);
    CHECK_EQUAL(MPI_UNDEFINED, -32766);
    CHECK_EQUAL(MPI_THREAD_MULTIPLE, 4096);
}

/* §20: handles have integers, which Fortran and other languages keep; those of predefined objects are their
 * constants. */
#define SAME(kind, type, handle)                                                                                                                     \
    do {                                                                                                                                             \
        type handle_ = (handle);                                                                                                                     \
        CHECK(MPI_##kind##_fromint(MPI_##kind##_toint(handle_)) == handle_, "another " #handle " comes back from %d", MPI_##kind##_toint(handle_));   \
    } while (0)
#define PREDEFINED(kind, type, handle)                                                                                                               \
    do {                                                                                                                                             \
        SAME(kind, type, handle);                                                                                                                    \
        CHECK_EQUAL(MPI_##kind##_toint(handle), (intptr_t)(handle));                                                                                  \
    } while (0)

static void integers(void)
{
    STORY("20: predefined handles and their integers");
    PREDEFINED(Comm, MPI_Comm, MPI_COMM_WORLD);
    PREDEFINED(Comm, MPI_Comm, MPI_COMM_NULL);
    PREDEFINED(Type, MPI_Datatype, MPI_DOUBLE);
    PREDEFINED(Type, MPI_Datatype, MPI_DATATYPE_NULL);
    PREDEFINED(Op, MPI_Op, MPI_MAXLOC);
    PREDEFINED(Group, MPI_Group, MPI_GROUP_EMPTY);
    PREDEFINED(Info, MPI_Info, MPI_INFO_ENV);
    PREDEFINED(Errhandler, MPI_Errhandler, MPI_ERRORS_RETURN);
    PREDEFINED(Request, MPI_Request, MPI_REQUEST_NULL);
    PREDEFINED(Message, MPI_Message, MPI_MESSAGE_NO_PROC);
    PREDEFINED(Session, MPI_Session, MPI_SESSION_NULL);
    PREDEFINED(Win, MPI_Win, MPI_WIN_NULL);
    PREDEFINED(File, MPI_File, MPI_FILE_NULL);

    STORY("20: handles that the program has made, and their integers");
    MPI_Comm comm;
    MPI_Datatype type;
    MPI_Group group;
    MPI_Info info;
    MPI_Request request;
    int value = 0, total = 0, one = 1;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    SAME(Comm, MPI_Comm, comm);
    MPI_Allreduce(&one, &total, 1, MPI_INT, MPI_SUM, MPI_Comm_fromint(MPI_Comm_toint(comm)));
    CHECK_EQUAL(total, ranks);
    MPI_Type_contiguous(3, MPI_INT, &type);
    SAME(Type, MPI_Datatype, type);
    MPI_Comm_group(comm, &group);
    SAME(Group, MPI_Group, group);
    MPI_Info_create(&info);
    SAME(Info, MPI_Info, info);
    MPI_Recv_init(&value, 1, MPI_INT, 0, 1, comm, &request);
    SAME(Request, MPI_Request, request);
    MPI_Request_free(&request);
    MPI_Info_free(&info);
    MPI_Group_free(&group);
    MPI_Type_free(&type);
    MPI_Comm_free(&comm);
}

/* 20.4.1: a library knows Fortran's types and keeps them, or learns them from the first caller that sets
 * them. */
static void fortran_types(void)
{
    STORY("20.4.1: sizes of Fortran's types, known or set once");
    MPI_Info info = MPI_INFO_NULL, own;
    MPI_Abi_get_fortran_info(&info);
    int is_known = info != MPI_INFO_NULL, found = 0, room = 20;
    char value[20] = "";
    if (is_known) {
        int size = -1;
        MPI_Info_get_string(info, "mpi_integer_size", &room, value, &found);
        MPI_Type_size(MPI_INTEGER, &size);
        CHECK(found && atoi(value) == size, "%d \"%s\", a size of %d", found, value, size);
        MPI_Info_free(&info);
    }
    MPI_Info_create(&own);
    MPI_Info_set(own, "mpi_logical_size", "4");
    MPI_Info_set(own, "mpi_integer_size", "4");
    MPI_Info_set(own, "mpi_real_size", "4");
    MPI_Info_set(own, "mpi_double_precision_size", "8");
    CHECK_CLASS(MPI_Abi_set_fortran_info(own), is_known ? MPI_ERR_ABI : MPI_SUCCESS);
    CHECK_CLASS(MPI_Abi_set_fortran_info(own), MPI_ERR_ABI);
    MPI_Info_free(&own);
    MPI_Abi_get_fortran_info(&info);
    CHECK(info != MPI_INFO_NULL, "null behind MPI_Abi_set_fortran_info");
    MPI_Info_free(&info);

    STORY("20.4.1: Fortran's booleans, known or set once");
    int yes = -1, no = -1, is_set = -1, minus_one = -1, zero = 0;
    MPI_Abi_get_fortran_booleans(sizeof yes, &yes, &no, &is_set);
    CHECK(!is_set || yes != no, "%d and %d", yes, no);
    CHECK_CLASS(MPI_Abi_set_fortran_booleans(sizeof yes, &minus_one, &zero), is_set ? MPI_ERR_ABI : MPI_SUCCESS);
    CHECK_CLASS(MPI_Abi_set_fortran_booleans(sizeof yes, &minus_one, &zero), MPI_ERR_ABI);
    int known_yes = is_set ? yes : minus_one, known_no = is_set ? no : zero, both = 3;
    MPI_Abi_get_fortran_booleans(sizeof yes, &yes, &no, &is_set);
    CHECK(is_set && yes == known_yes && no == known_no, "%d: %d and %d", is_set, yes, no);
    MPI_Allreduce(&yes, &both, 1, MPI_LOGICAL, MPI_LAND, MPI_COMM_SELF);
    CHECK_EQUAL(both, yes);
    MPI_Reduce_local(&no, &both, 1, MPI_LOGICAL, MPI_LAND);
    CHECK_EQUAL(both, no);
    MPI_Reduce_local(&yes, &both, 1, MPI_LOGICAL, MPI_LXOR);
    CHECK_EQUAL(both, yes);
}

int main(int argc, char **argv)
{
    STORY("20 and 11.4.1: before MPI_Init");
    version();
    begin(&argc, &argv);
    version();
    information();
    constants();
    integers();
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    fortran_types();
    return end();
}
