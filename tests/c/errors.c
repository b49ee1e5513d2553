/* The error handler is called for wrong arguments, with the right class; error codes, classes, strings and
 * handlers. */
#include "check.h"

static MPI_Comm comm;

static void wrong_arguments(void)
{
    STORY("§9.4 wrong arguments");
    int value = 0, flag;
    MPI_Request request = MPI_REQUEST_NULL;
    CHECK_CLASS(MPI_Send(&value, 1, MPI_INT, ranks, 0, comm), MPI_ERR_RANK);
    CHECK_CLASS(MPI_Send(&value, 1, MPI_INT, -7, 0, comm), MPI_ERR_RANK);
    CHECK_CLASS(MPI_Send(&value, -1, MPI_INT, 0, 0, comm), MPI_ERR_COUNT);
    CHECK_CLASS(MPI_Send(&value, 1, MPI_INT, 0, -5, comm), MPI_ERR_TAG);
    CHECK_CLASS(MPI_Send(&value, 1, MPI_DATATYPE_NULL, 0, 0, comm), MPI_ERR_TYPE);
    CHECK_CLASS(MPI_Recv(&value, 1, MPI_INT, ranks + 3, 0, comm, MPI_STATUS_IGNORE), MPI_ERR_RANK);
    CHECK_CLASS(MPI_Irecv(&value, -2, MPI_INT, 0, 0, comm, &request), MPI_ERR_COUNT);
    CHECK_CLASS(MPI_Bcast(&value, 1, MPI_INT, ranks, comm), MPI_ERR_ROOT);
    CHECK_CLASS(MPI_Reduce(&value, &flag, 1, MPI_INT, MPI_OP_NULL, 0, comm), MPI_ERR_OP);
    MPI_Datatype type;
    MPI_Type_contiguous(2, MPI_INT, &type);
    CHECK_CLASS(MPI_Send(&value, 1, type, MPI_PROC_NULL, 0, comm), MPI_ERR_TYPE); /* not committed */
    MPI_Type_free(&type);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    CHECK_CLASS(MPI_Comm_rank(MPI_COMM_NULL, &value), MPI_ERR_COMM);
    CHECK_CLASS(MPI_Group_size(MPI_GROUP_NULL, &value), MPI_ERR_GROUP);
    if (!left_out("no-info"))
        CHECK_CLASS(MPI_Info_set(MPI_INFO_NULL, "a", "b"), MPI_ERR_INFO);
    CHECK_CLASS(MPI_Type_contiguous(-1, MPI_INT, &type), MPI_ERR_COUNT);
    CHECK_CLASS(MPI_Start(&request), MPI_ERR_REQUEST);
    STORY("§3.6, §9.4 a buffer too small for Bsend");
    char pool[MPI_BSEND_OVERHEAD + 10], big[1000] = {0};
    MPI_Buffer_attach(pool, sizeof pool);
    CHECK_CLASS(MPI_Bsend(big, sizeof big, MPI_CHAR, rank, 0, comm), MPI_ERR_BUFFER);
    void *detached;
    int size;
    MPI_Buffer_detach(&detached, &size);
}

static int handled, handled_class;

static void handler(MPI_Comm *which, int *code, ...)
{
    handled++;
    MPI_Error_class(*code, &handled_class);
    int result;
    MPI_Comm_compare(*which, comm, &result);
    CHECK_EQUAL(result, MPI_IDENT);
}

static void handlers(void)
{
    STORY("§9.3 error handlers");
    MPI_Errhandler mine, found;
    MPI_Comm_create_errhandler(handler, &mine);
    MPI_Comm_set_errhandler(comm, mine);
    MPI_Comm_get_errhandler(comm, &found);
    CHECK(found == mine, "another handler than the one set");
    MPI_Errhandler_free(&found);
    MPI_Errhandler_free(&mine); /* the communicator keeps it */
    CHECK(mine == MPI_ERRHANDLER_NULL, "not null after Errhandler_free");
    int value = 0;
    MPI_Send(&value, 1, MPI_INT, ranks, 0, comm);
    CHECK_EQUAL(handled, 1);
    CHECK_EQUAL(handled_class, MPI_ERR_RANK);
    MPI_Comm_call_errhandler(comm, MPI_ERR_TOPOLOGY);
    CHECK_EQUAL(handled, 2);
    CHECK_EQUAL(handled_class, MPI_ERR_TOPOLOGY);
    MPI_Comm copy; /* handlers are inherited */
    MPI_Comm_dup(comm, &copy);
    MPI_Comm_get_errhandler(copy, &found);
    CHECK(found != MPI_ERRORS_ARE_FATAL, "not inherited");
    MPI_Errhandler_free(&found);
    MPI_Comm_free(&copy);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Comm_get_errhandler(comm, &found);
    CHECK(found == MPI_ERRORS_RETURN, "not MPI_ERRORS_RETURN");
}

static int file_handled;

static void file_handler(MPI_File *which, int *code, ...)
{
    file_handled++;
    CHECK(*which == MPI_FILE_NULL, "another file than the one that was named");
    MPI_Error_class(*code, &handled_class);
}

/* The handlers that opened files get, and the handler that is called when a file cannot be opened. */
static void handlers_of_files(void)
{
    STORY("§9.3.3, §14.7 the error handler of MPI_FILE_NULL");
    MPI_Errhandler mine, found;
    MPI_File_get_errhandler(MPI_FILE_NULL, &found);
    CHECK(found == MPI_ERRORS_RETURN, "not MPI_ERRORS_RETURN from the start");
    MPI_File_create_errhandler(file_handler, &mine);
    MPI_File_set_errhandler(MPI_FILE_NULL, mine);
    MPI_File_get_errhandler(MPI_FILE_NULL, &found);
    CHECK(found == mine, "another handler than the one set");
    MPI_Errhandler_free(&found);
    MPI_Errhandler_free(&mine); /* it is kept */
    MPI_File_call_errhandler(MPI_FILE_NULL, MPI_ERR_AMODE);
    CHECK_EQUAL(file_handled, 1);
    CHECK_EQUAL(handled_class, MPI_ERR_AMODE);
    MPI_File file;
    MPI_File_open(MPI_COMM_SELF, "/there/is/no/such/directory", MPI_MODE_RDONLY, MPI_INFO_NULL, &file);
    CHECK_EQUAL(file_handled, 2);
    MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN);
}

static void codes_and_strings(void)
{
    STORY("§9.4 classes and strings");
    char text[MPI_MAX_ERROR_STRING];
    int length, class, code, other;
    for (int i = 0; i <= MPI_ERR_LASTCODE && i < 100; i++)
        if (MPI_Error_string(i, text, &length) == MPI_SUCCESS)
            CHECK(length > 0 && length < MPI_MAX_ERROR_STRING && (int)strlen(text) == length, "class %d: %d", i, length);
    MPI_Error_string(MPI_ERR_RANK, text, &length);
    CHECK(strstr(text, "rank") != NULL, "MPI_ERR_RANK is \"%s\"", text);
    code = MPI_Send(&length, 1, MPI_INT, ranks + 7, 0, comm);
    CHECK(code != MPI_SUCCESS, "no error");
    CHECK(MPI_Error_string(code, text, &length) == MPI_SUCCESS && length > 0, "no string");
    MPI_Error_class(code, &class);
    CHECK_EQUAL(class, MPI_ERR_RANK);
    STORY("§9.5 a user's own classes");
    MPI_Add_error_class(&class);
    CHECK(class > MPI_ERR_LASTCODE, "%d", class);
    MPI_Add_error_code(class, &code);
    MPI_Add_error_string(code, "the loom is jammed");
    MPI_Error_string(code, text, &length);
    CHECK(strcmp(text, "the loom is jammed") == 0, "%s", text);
    MPI_Error_class(code, &other);
    CHECK_EQUAL(other, class);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    wrong_arguments();
    handlers();
    handlers_of_files();
    codes_and_strings();
    STORY("§9.3 communication goes on after errors");
    int total = 0;
    MPI_Allreduce(&rank, &total, 1, MPI_INT, MPI_SUM, comm);
    CHECK_EQUAL(total, ranks * (ranks - 1) / 2);
    MPI_Comm_free(&comm);
    return end();
}
