/*
 * Section 14.7 of MPI 5.0, error handling of files: the handler of MPI_FILE_NULL, handlers of single files,
 * and handles as integers. Passes on any MPI library with any number of ranks.
 */
#include "files.h"

static int handled, handled_class;
static MPI_File handled_file;

static void handler(MPI_File *file, int *code, ...)
{
    handled++;
    handled_file = *file;
    MPI_Error_class(*code, &handled_class);
}

static void other_handler(MPI_File *file, int *code, ...)
{
    handled += 100;
    handled_file = *file;
    MPI_Error_class(*code, &handled_class);
}

static void expect_handled(int count, MPI_File file, int class)
{
    CHECK_EQUAL(handled, count);
    CHECK(handled_file == file, "the handler got another file");
    CHECK_EQUAL(handled_class, class);
    handled = 0;
}

/* The call fails, and calls a handler of the program: the code that it returns is of this class. */
#define CHECK_RETURNED(call, expected)                                                                                 \
    do {                                                                                                               \
        if (left_out("returned-code"))                                                                                 \
            (void)(call);                                                                                              \
        else                                                                                                           \
            CHECK_CLASS(call, expected);                                                                               \
    } while (0)

static void defaults(void)
{
    STORY("14.7 files return their errors unless another handler was set");
    MPI_Errhandler found = MPI_ERRHANDLER_NULL;
    MPI_Status status;
    MPI_File file = open_new("default");
    WORKS(MPI_File_get_errhandler(MPI_FILE_NULL, &found));
    CHECK(found == MPI_ERRORS_RETURN, "MPI_FILE_NULL has another handler");
    WORKS(MPI_File_get_errhandler(file, &found));
    CHECK(found == MPI_ERRORS_RETURN, "the file has another handler");
    CHECK_CLASS(MPI_File_write_at(file, -1, "x", 1, MPI_CHAR, &status), MPI_ERR_ARG);
    CHECK_CLASS(MPI_File_call_errhandler(file, MPI_ERR_IO), MPI_SUCCESS);
    close_and_remove(&file, "default");
}

static void own_handlers(void)
{
    STORY("14.7 a file has a handler of its own");
    MPI_Errhandler mine, other, found = MPI_ERRHANDLER_NULL;
    MPI_Status status;
    MPI_Offset offset;
    MPI_File file = open_new("own"), second = open_in(MPI_COMM_WORLD, "own", MPI_MODE_RDWR);
    WORKS(MPI_File_create_errhandler(handler, &mine));
    WORKS(MPI_File_create_errhandler(other_handler, &other));
    WORKS(MPI_File_set_errhandler(file, mine));
    WORKS(MPI_File_get_errhandler(file, &found));
    CHECK(found == mine, "another handler");
    MPI_Errhandler_free(&found);
    WORKS(MPI_File_get_errhandler(second, &found));
    CHECK(found == MPI_ERRORS_RETURN, "the handler of another file has changed");
    MPI_Errhandler_free(&mine); /* the file keeps it */
    CHECK_RETURNED(MPI_File_write_at(file, -1, "x", 1, MPI_CHAR, &status), MPI_ERR_ARG);
    expect_handled(1, file, MPI_ERR_ARG);
    CHECK_RETURNED(MPI_File_seek(file, -1, MPI_SEEK_SET), MPI_ERR_ARG);
    expect_handled(1, file, MPI_ERR_ARG);
    CHECK_RETURNED(MPI_File_get_byte_offset(file, -1, &offset), MPI_ERR_ARG);
    expect_handled(1, file, MPI_ERR_ARG);
    CHECK_RETURNED(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "nothing known", MPI_INFO_NULL), MPI_ERR_UNSUPPORTED_DATAREP);
    expect_handled(1, file, MPI_ERR_UNSUPPORTED_DATAREP);
    CHECK_CLASS(MPI_File_write_at(second, -1, "x", 1, MPI_CHAR, &status), MPI_ERR_ARG);
    CHECK_EQUAL(handled, 0);

    STORY("14.7 a handler is called by the program");
    WORKS(MPI_File_call_errhandler(file, MPI_ERR_QUOTA));
    expect_handled(1, file, MPI_ERR_QUOTA);
    WORKS(MPI_File_set_errhandler(file, other));
    WORKS(MPI_File_call_errhandler(file, MPI_ERR_NO_SPACE));
    expect_handled(100, file, MPI_ERR_NO_SPACE);
    MPI_Errhandler_free(&other);
    WORKS(MPI_File_set_errhandler(file, MPI_ERRORS_RETURN));
    CHECK_CLASS(MPI_File_seek(file, -1, MPI_SEEK_SET), MPI_ERR_ARG);
    CHECK_EQUAL(handled, 0);
    WORKS(MPI_File_close(&second));
    close_and_remove(&file, "own");
}

static void default_handler(void)
{
    STORY("14.7 the handler of MPI_FILE_NULL is that of files to come, and of files that cannot be opened");
    MPI_Errhandler mine, found = MPI_ERRHANDLER_NULL;
    MPI_File file = MPI_FILE_NULL;
    WORKS(MPI_File_create_errhandler(handler, &mine));
    WORKS(MPI_File_set_errhandler(MPI_FILE_NULL, mine));
    WORKS(MPI_File_get_errhandler(MPI_FILE_NULL, &found));
    CHECK(found == mine, "another handler");
    MPI_Errhandler_free(&found);
    CHECK_RETURNED(MPI_File_open(MPI_COMM_WORLD, path("missing"), MPI_MODE_RDONLY, MPI_INFO_NULL, &file), MPI_ERR_NO_SUCH_FILE);
    expect_handled(1, MPI_FILE_NULL, MPI_ERR_NO_SUCH_FILE);
    CHECK_RETURNED(MPI_File_delete(path("missing"), MPI_INFO_NULL), MPI_ERR_NO_SUCH_FILE);
    expect_handled(1, MPI_FILE_NULL, MPI_ERR_NO_SUCH_FILE);
    file = open_new("to-come");
    WORKS(MPI_File_get_errhandler(file, &found));
    CHECK(found == mine, "the file has another handler");
    MPI_Errhandler_free(&found);
    CHECK_RETURNED(MPI_File_seek(file, -1, MPI_SEEK_SET), MPI_ERR_ARG);
    expect_handled(1, file, MPI_ERR_ARG);
    WORKS(MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN));
    CHECK_RETURNED(MPI_File_seek(file, -1, MPI_SEEK_SET), MPI_ERR_ARG); /* it keeps the one it was opened with */
    expect_handled(1, file, MPI_ERR_ARG);
    MPI_Errhandler_free(&mine);
    WORKS(MPI_File_set_errhandler(file, MPI_ERRORS_RETURN));
    close_and_remove(&file, "to-come");
    CHECK_CLASS(MPI_File_open(MPI_COMM_WORLD, path("missing"), MPI_MODE_RDONLY, MPI_INFO_NULL, &file), MPI_ERR_NO_SUCH_FILE);
    CHECK_EQUAL(handled, 0);
}

/* The handlers of communicators have nothing to do with files. */
static void independent_of_communicators(void)
{
    STORY("14.7 a file does not take the handler of the communicator that opens it");
    MPI_Comm comm;
    MPI_Errhandler found;
    MPI_File file;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_ARE_FATAL);
    CHECK_CLASS(MPI_File_open(comm, path("missing"), MPI_MODE_RDONLY, MPI_INFO_NULL, &file), MPI_ERR_NO_SUCH_FILE);
    disk_remove("comm");
    file = open_in(comm, "comm", MPI_MODE_CREATE | MPI_MODE_RDWR);
    WORKS(MPI_File_get_errhandler(file, &found));
    CHECK(found == MPI_ERRORS_RETURN, "another handler");
    CHECK_CLASS(MPI_File_seek(file, -1, MPI_SEEK_SET), MPI_ERR_ARG);
    close_and_remove(&file, "comm");
    MPI_Comm_free(&comm);
}

static void handles(void)
{
    STORY("20.4 handles of files as integers");
#if defined(MPI_ABI_VERSION)
    MPI_File files[3];
    CHECK(MPI_File_fromint(MPI_File_toint(MPI_FILE_NULL)) == MPI_FILE_NULL, "MPI_FILE_NULL is another one as an integer");
    for (int i = 0; i < 3; i++)
        files[i] = open_in(MPI_COMM_WORLD, i ? "handle" : "handle0", MPI_MODE_CREATE | MPI_MODE_RDWR);
    for (int i = 0; i < 3; i++) {
        int number = MPI_File_toint(files[i]);
        CHECK(MPI_File_fromint(number) == files[i], "file %d is another one as an integer", i);
#if defined(MPI_ABI_INLINE) /* the ABI leaves Fortran's numbers to the compiler's wrappers */
        CHECK(MPI_File_f2c(MPI_File_c2f(files[i])) == files[i], "file %d is another one in Fortran", i);
#endif
        for (int k = 0; k < i; k++)
            CHECK(MPI_File_toint(files[k]) != number, "files %d and %d have one number", i, k);
    }
    for (int i = 0; i < 3; i++)
        WORKS(MPI_File_close(&files[i]));
    disk_remove("handle");
    disk_remove("handle0");
#endif
}

static void no_file(void)
{
    if (left_out("null-file"))
        return;
    STORY("14.8 calls for MPI_FILE_NULL");
    MPI_File file = MPI_FILE_NULL;
    MPI_Offset offset = 0;
    MPI_Status status;
    MPI_Request request;
    MPI_Group group;
    MPI_Info info;
    MPI_Datatype type;
    MPI_Aint extent;
    int value = 0;
    char text[MPI_MAX_DATAREP_STRING];
    CHECK_CLASS(MPI_File_close(&file), MPI_ERR_FILE);
    CHECK_CLASS(MPI_File_set_size(file, 1), MPI_ERR_FILE);
    CHECK_CLASS(MPI_File_preallocate(file, 1), MPI_ERR_FILE);
    CHECK_CLASS(MPI_File_get_size(file, &offset), MPI_ERR_FILE);
    CHECK_CLASS(MPI_File_get_group(file, &group), MPI_ERR_FILE);
    CHECK_CLASS(MPI_File_get_amode(file, &value), MPI_ERR_FILE);
    CHECK_CLASS(MPI_File_set_info(file, MPI_INFO_NULL), MPI_ERR_FILE);
    CHECK_CLASS(MPI_File_get_info(file, &info), MPI_ERR_FILE);
    CHECK_CLASS(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL), MPI_ERR_FILE);
    CHECK_CLASS(MPI_File_get_view(file, &offset, &type, &type, text), MPI_ERR_FILE);
    CHECK_CLASS(MPI_File_read_at(file, 0, &value, 1, MPI_INT, &status), MPI_ERR_FILE);
    CHECK_CLASS(MPI_File_write_at_all(file, 0, &value, 1, MPI_INT, &status), MPI_ERR_FILE);
    CHECK_CLASS(MPI_File_iread(file, &value, 1, MPI_INT, &request), MPI_ERR_FILE);
    CHECK_CLASS(MPI_File_iwrite_shared(file, &value, 1, MPI_INT, &request), MPI_ERR_FILE);
    CHECK_CLASS(MPI_File_read_ordered(file, &value, 1, MPI_INT, &status), MPI_ERR_FILE);
    CHECK_CLASS(MPI_File_write_all_begin(file, &value, 1, MPI_INT), MPI_ERR_FILE);
    CHECK_CLASS(MPI_File_read_at_all_end(file, &value, &status), MPI_ERR_FILE);
    CHECK_CLASS(MPI_File_seek(file, 0, MPI_SEEK_SET), MPI_ERR_FILE);
    CHECK_CLASS(MPI_File_seek_shared(file, 0, MPI_SEEK_SET), MPI_ERR_FILE);
    CHECK_CLASS(MPI_File_get_position(file, &offset), MPI_ERR_FILE);
    CHECK_CLASS(MPI_File_get_position_shared(file, &offset), MPI_ERR_FILE);
    CHECK_CLASS(MPI_File_get_byte_offset(file, 0, &offset), MPI_ERR_FILE);
    CHECK_CLASS(MPI_File_get_type_extent(file, MPI_INT, &extent), MPI_ERR_FILE);
    CHECK_CLASS(MPI_File_set_atomicity(file, 1), MPI_ERR_FILE);
    CHECK_CLASS(MPI_File_get_atomicity(file, &value), MPI_ERR_FILE);
    CHECK_CLASS(MPI_File_sync(file), MPI_ERR_FILE);
}

/* §14.8: each class has a text, and classes that a program adds work as those of files do. */
static void classes(void)
{
    STORY("14.8 the error classes of files");
    static const int all[] = {MPI_ERR_FILE, MPI_ERR_NOT_SAME, MPI_ERR_AMODE, MPI_ERR_UNSUPPORTED_DATAREP, MPI_ERR_UNSUPPORTED_OPERATION, MPI_ERR_NO_SUCH_FILE, MPI_ERR_FILE_EXISTS,
                              MPI_ERR_BAD_FILE, MPI_ERR_ACCESS, MPI_ERR_NO_SPACE, MPI_ERR_QUOTA, MPI_ERR_READ_ONLY, MPI_ERR_FILE_IN_USE, MPI_ERR_DUP_DATAREP, MPI_ERR_CONVERSION, MPI_ERR_IO};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char text[MPI_MAX_ERROR_STRING] = "";
        int length = 0, class = -1;
        CHECK_EQUAL(MPI_Error_string(all[i], text, &length), MPI_SUCCESS);
        CHECK(length > 0 && (int)strlen(text) == length, "class %d has the text \"%.100s\"", all[i], text);
        MPI_Error_class(all[i], &class);
        CHECK_EQUAL(class, all[i]);
    }
    MPI_Errhandler mine;
    int class = -1, code = -1;
    MPI_File file = open_new("class");
    MPI_Add_error_class(&class);
    MPI_Add_error_code(class, &code);
    MPI_Add_error_string(code, "the program's own");
    MPI_File_create_errhandler(handler, &mine);
    WORKS(MPI_File_set_errhandler(file, mine));
    MPI_Errhandler_free(&mine);
    WORKS(MPI_File_call_errhandler(file, code));
    expect_handled(1, file, class);
    close_and_remove(&file, "class");
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    open_directory(argc > 1 ? argv[1] : NULL);
    defaults();
    own_handlers();
    default_handler();
    independent_of_communicators();
    handles();
    classes();
    no_file();
    close_directory();
    return end();
}
