/* Functions of the program that MPI calls (MPI-5.0 §7.7, §13.2): their return value is what the call returns,
 * and they cannot take away the object for which they are called. Each kind of function does each deed of a
 * list. */
#include "check.h"
#include <limits.h>

/* The deeds of the functions of attributes. */
enum { NOTHING, FREE_OBJECT, DELETE_OWN, SET_OWN, SET_OTHER, FREE_KEYVAL, DUP_OBJECT, FINALIZE, DEEDS };
enum { COMM, TYPE, WIN, KINDS };

static int deed, answer, within, refused, keyval, other_keyval, calls;
static int which_kind;

static int free_object(void *object)
{
    MPI_Comm comm = object;
    MPI_Datatype type = object;
    MPI_Win win = object;
    return which_kind == COMM ? MPI_Comm_free(&comm) : which_kind == TYPE ? MPI_Type_free(&type) : MPI_Win_free(&win);
}

static int delete_attribute(void *object)
{
    return which_kind == COMM   ? MPI_Comm_delete_attr(object, keyval)
           : which_kind == TYPE ? MPI_Type_delete_attr(object, keyval)
                                : MPI_Win_delete_attr(object, keyval);
}

static int set_attribute(void *object, int key)
{
    static int value;
    return which_kind == COMM   ? MPI_Comm_set_attr(object, key, &value)
           : which_kind == TYPE ? MPI_Type_set_attr(object, key, &value)
                                : MPI_Win_set_attr(object, key, &value);
}

static int get_attribute(void *object)
{
    void *found;
    int flag = 0;
    which_kind == COMM   ? MPI_Comm_get_attr(object, keyval, &found, &flag)
    : which_kind == TYPE ? MPI_Type_get_attr(object, keyval, &found, &flag)
                         : MPI_Win_get_attr(object, keyval, &found, &flag);
    return flag;
}

static int free_keyval(int *key)
{
    return which_kind == COMM ? MPI_Comm_free_keyval(key) : which_kind == TYPE ? MPI_Type_free_keyval(key) : MPI_Win_free_keyval(key);
}

/* The duplicate, which calls the copy function again. Windows have none. */
static int dup_object(void *object)
{
    MPI_Comm comm;
    MPI_Datatype type;
    int code = which_kind == COMM ? MPI_Comm_dup(object, &comm) : MPI_Type_dup(object, &type);
    if (code == MPI_SUCCESS)
        which_kind == COMM ? MPI_Comm_free(&comm) : MPI_Type_free(&type);
    return code;
}

/* Does the deed; a forbidden deed must be refused. */
static void act(void *object, int deletes)
{
    int code = MPI_SUCCESS, must_fail = 0, key = keyval;
    calls++;
    if (within++)
        goto out;
    switch (deed) {
    case FREE_OBJECT:
        must_fail = 1;
        code = free_object(object);
        break;
    case DELETE_OWN:
        must_fail = deletes;
        if (deletes)
            code = delete_attribute(object);
        break;
    case SET_OWN:
        must_fail = deletes;
        if (deletes)
            code = set_attribute(object, keyval);
        break;
    case SET_OTHER:
        code = set_attribute(object, other_keyval);
        break;
    case FREE_KEYVAL:
        if (calls == 1)
            code = free_keyval(&key);
        break;
    case DUP_OBJECT:
        if (!deletes && which_kind != WIN)
            code = dup_object(object);
        break;
    case FINALIZE:
        must_fail = 1;
        code = MPI_Finalize();
        break;
    default:
        break;
    }
    refused += code != MPI_SUCCESS;
    CHECK((code != MPI_SUCCESS) == must_fail, "kind %d, deed %d, in a %s function: code %d", which_kind, deed,
          deletes ? "delete" : "copy", code);
    if (deletes)
        CHECK(get_attribute(object), "kind %d, deed %d: the attribute is gone before its delete function is over", which_kind, deed);
out:
    within--;
}

#define FUNCTIONS(name, Handle)                                                                                        \
    static int copy_##name(Handle object, int key, void *state, void *value, void *copy, int *flag)                    \
    {                                                                                                                  \
        (void)key, (void)state;                                                                                        \
        act(object, 0);                                                                                                \
        *(void **)copy = value;                                                                                        \
        return *flag = 1, answer;                                                                                      \
    }                                                                                                                  \
    static int delete_##name(Handle object, int key, void *value, void *state)                                         \
    {                                                                                                                  \
        (void)key, (void)value, (void)state;                                                                           \
        act(object, 1);                                                                                                \
        return answer;                                                                                                 \
    }
FUNCTIONS(comm, MPI_Comm)
FUNCTIONS(type, MPI_Datatype)
FUNCTIONS(win, MPI_Win)

static void create_keyval(void)
{
    if (which_kind == COMM) {
        MPI_Comm_create_keyval(copy_comm, delete_comm, &keyval, NULL);
        MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &other_keyval, NULL);
    } else if (which_kind == TYPE) {
        MPI_Type_create_keyval(copy_type, delete_type, &keyval, NULL);
        MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, MPI_TYPE_NULL_DELETE_FN, &other_keyval, NULL);
    } else {
        MPI_Win_create_keyval(copy_win, delete_win, &keyval, NULL);
        MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, MPI_WIN_NULL_DELETE_FN, &other_keyval, NULL);
    }
}

static void *make_object(void)
{
    MPI_Comm comm;
    MPI_Datatype type;
    MPI_Win win;
    if (which_kind == COMM) {
        MPI_Comm_dup(MPI_COMM_SELF, &comm);
        MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
        return comm;
    }
    if (which_kind == TYPE) {
        MPI_Type_contiguous(2, MPI_INT, &type);
        return type;
    }
    MPI_Win_create(NULL, 0, 1, MPI_INFO_NULL, MPI_COMM_SELF, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    return win;
}

static void deeds(void)
{
    STORY("7.7 functions of attributes that free, set, delete and copy what they are called for");
    answer = MPI_SUCCESS;
    for (which_kind = 0; which_kind < KINDS; which_kind++)
        for (deed = 0; deed < DEEDS; deed++) {
            create_keyval();
            void *object = make_object();
            CHECK_EQUAL(set_attribute(object, keyval), MPI_SUCCESS);
            calls = 0;
            if (which_kind != WIN)
                CHECK_EQUAL(dup_object(object), MPI_SUCCESS);
            /* The function is called when the value is replaced, when it is deleted, and with its object; a
             * freed keyval can no more be named. */
            int key = keyval;
            if (deed != FREE_KEYVAL) {
                CHECK_EQUAL(set_attribute(object, keyval), MPI_SUCCESS);
                CHECK_EQUAL(delete_attribute(object), MPI_SUCCESS);
                CHECK_EQUAL(set_attribute(object, keyval), MPI_SUCCESS);
            }
            CHECK_EQUAL(free_object(object), MPI_SUCCESS);
            CHECK(calls >= (deed == FREE_KEYVAL ? 1 : 3), "kind %d, deed %d: %d calls", which_kind, deed, calls);
            if (deed != FREE_KEYVAL)
                CHECK_EQUAL(free_keyval(&key), MPI_SUCCESS);
            CHECK_EQUAL(free_keyval(&other_keyval), MPI_SUCCESS);
        }
    CHECK(refused > 0, "nothing was refused");
}

/* Return values whose lowest bits are an error class, values that are no class at all, and values that are no
 * error code. */
static const int codes[] = {1, 77, 127, 128, 12345, 16384, 1 << 20, INT_MAX, -1, INT_MIN};
enum { CODES = sizeof codes / sizeof codes[0] };

static int heard;

static void on_error(MPI_Comm *comm, int *code, ...)
{
    (void)comm;
    heard = *code;
}

static void what_attributes_return(void)
{
    STORY("7.7 the code that a function of an attribute returns is that of the call");
    deed = NOTHING;
    for (which_kind = 0; which_kind < KINDS; which_kind++)
        for (int i = 0; i < CODES; i++) {
            create_keyval();
            void *object = make_object();
            answer = MPI_SUCCESS;
            set_attribute(object, keyval);
            answer = codes[i];
            if (which_kind != WIN)
                CHECK_EQUAL(dup_object(object), codes[i]);
            CHECK_EQUAL(delete_attribute(object), codes[i]);
            CHECK_EQUAL(set_attribute(object, keyval), codes[i]);
            CHECK_EQUAL(free_object(object), codes[i]);
            CHECK(get_attribute(object), "the attribute is gone though its delete function failed");
            if (which_kind == COMM) {
                MPI_Errhandler handler;
                MPI_Comm_create_errhandler(on_error, &handler);
                MPI_Comm_set_errhandler(object, handler);
                heard = 0;
                CHECK_EQUAL(delete_attribute(object), codes[i]);
                CHECK_EQUAL(heard, codes[i]);
                MPI_Errhandler_free(&handler);
            }
            answer = MPI_SUCCESS;
            CHECK_EQUAL(free_object(object), MPI_SUCCESS);
            free_keyval(&keyval);
            free_keyval(&other_keyval);
        }
    /* A returned number does not become an error code: the same classes are known as before. */
    int class;
    char text[MPI_MAX_ERROR_STRING];
    int length;
    CHECK(MPI_Error_class(1 << 20, &class) != MPI_SUCCESS, "class %d", class);
    CHECK(MPI_Error_string(INT_MIN, text, &length) != MPI_SUCCESS, "%s", text);
    CHECK_EQUAL(MPI_Error_class(MPI_ERR_BUFFER, &class), MPI_SUCCESS);
    CHECK_EQUAL(class, MPI_ERR_BUFFER);
}

static int query_answer, free_answer, cancel_answer;

static int query(void *state, MPI_Status *status)
{
    (void)state;
    status->MPI_SOURCE = MPI_UNDEFINED;
    status->MPI_TAG = MPI_UNDEFINED;
    MPI_Status_set_elements(status, MPI_BYTE, 0);
    MPI_Status_set_cancelled(status, 0);
    return query_answer;
}

/* Frees its own request: the request is over, and its handle stale. */
static int free_state(void *state)
{
    MPI_Request request = *(MPI_Request *)state;
    if (request != MPI_REQUEST_NULL)
        CHECK_CLASS(MPI_Request_free(&request), MPI_ERR_REQUEST);
    return free_answer;
}

static int cancel(void *state, int complete)
{
    (void)state, (void)complete;
    return cancel_answer;
}

static void what_generalized_requests_return(void)
{
    STORY("13.2 the code that a function of a generalized request returns is that of the call");
    for (int i = 0; i < CODES; i++)
        for (int which = 0; which < 3; which++) {
            MPI_Request request, kept = MPI_REQUEST_NULL;
            MPI_Status status;
            query_answer = which == 0 ? codes[i] : MPI_SUCCESS;
            free_answer = which == 1 ? codes[i] : MPI_SUCCESS;
            cancel_answer = which == 2 ? codes[i] : MPI_SUCCESS;
            MPI_Grequest_start(query, free_state, cancel, &kept, &request);
            CHECK_EQUAL(MPI_Cancel(&request), cancel_answer);
            kept = request;
            MPI_Grequest_complete(request);
            CHECK_EQUAL(MPI_Wait(&request, &status), which == 2 ? MPI_SUCCESS : codes[i]);
            kept = MPI_REQUEST_NULL;
            MPI_Grequest_start(query, free_state, cancel, &kept, &request);
            MPI_Grequest_complete(request);
            int code = MPI_Waitall(1, &request, &status);
            if (which == 2) {
                CHECK_EQUAL(code, MPI_SUCCESS);
            } else {
                CHECK_CLASS(code, MPI_ERR_IN_STATUS);
                CHECK_EQUAL(status.MPI_ERROR, codes[i]);
            }
            MPI_Grequest_start(query, free_state, cancel, &kept, &request);
            MPI_Grequest_complete(request);
            CHECK_EQUAL(MPI_Request_free(&request), free_answer);
        }
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    deeds();
    what_attributes_return();
    what_generalized_requests_return();
    return end();
}
