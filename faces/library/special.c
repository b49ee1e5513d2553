/* The functions that the generator cannot make from the tables: callbacks, attributes, arrays of requests,
 * structures and contents of datatypes, and conversions to Fortran. */
#include "face.h"
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* Operations and error handlers. */

#define OP_CREATE(name, type, convert)                                                                        \
    int face_##name(void *user_fn, int commute, F_Op *op) {                                                   \
        type *function = user_fn ? convert(user_fn) : NULL;                                                   \
        if (user_fn && !function) {                                                                           \
            return no_memory();                                                                               \
        }                                                                                                     \
        HANDLE_ROOM(MPI_Op, op);                                                                              \
        int code = library.name(function, commute, HANDLE_AT(MPI_Op, op));                                    \
        if (code == MPI_SUCCESS) {                                                                            \
            HANDLE_DONE(op, op);                                                                              \
        }                                                                                                     \
        return error_f(code);                                                                                 \
    }
OP_CREATE(MPI_Op_create, MPI_User_function, operation_c)
EXPORT(MPI_Op_create)
OP_CREATE(MPI_Op_create_c, MPI_User_function_c, large_operation_c)
EXPORT(MPI_Op_create_c)

#define CREATE_ERRHANDLER(name, type, convert)                                                                \
    int face_##name(void *user_fn, F_Errhandler *errhandler) {                                                \
        type *function = user_fn ? convert(user_fn) : NULL;                                                   \
        if (user_fn && !function) {                                                                           \
            return no_memory();                                                                               \
        }                                                                                                     \
        HANDLE_ROOM(MPI_Errhandler, errhandler);                                                              \
        int code = library.name(function, HANDLE_AT(MPI_Errhandler, errhandler));                             \
        if (code == MPI_SUCCESS) {                                                                            \
            HANDLE_DONE(errhandler, errhandler);                                                              \
        }                                                                                                     \
        return error_f(code);                                                                                 \
    }
CREATE_ERRHANDLER(MPI_Comm_create_errhandler, MPI_Comm_errhandler_function, comm_errhandler_c)
EXPORT(MPI_Comm_create_errhandler)
CREATE_ERRHANDLER(MPI_Win_create_errhandler, MPI_Win_errhandler_function, win_errhandler_c)
EXPORT(MPI_Win_create_errhandler)
CREATE_ERRHANDLER(MPI_File_create_errhandler, MPI_File_errhandler_function, file_errhandler_c)
EXPORT(MPI_File_create_errhandler)
CREATE_ERRHANDLER(MPI_Session_create_errhandler, MPI_Session_errhandler_function, session_errhandler_c)
EXPORT(MPI_Session_create_errhandler)
CREATE_ERRHANDLER(MPI_Errhandler_create, MPI_Comm_errhandler_function, comm_errhandler_c)
EXPORT(MPI_Errhandler_create)

/* Classes and texts of errors. The library does not know the classes that only this ABI has. */

int face_MPI_Error_class(int errorcode, int *errorclass) {
    if (errorclass && is_foreign_class(errorcode)) {
        *errorclass = errorcode;
        return MPI_SUCCESS;
    }
    int code = library.MPI_Error_class(error_c(errorcode), errorclass);
    if (code == MPI_SUCCESS) {
        *errorclass = error_f(*errorclass);
    }
    return error_f(code);
}
EXPORT(MPI_Error_class)

int face_MPI_Error_string(int errorcode, char *string, int *resultlen) {
    if (is_foreign_class(errorcode)) {
        return text_f(string, F_MPI_MAX_ERROR_STRING, "a class of errors of another MPI library, which Weft never returns",
                      resultlen);
    }
    char text[MPI_MAX_ERROR_STRING + 1] = "";
    int code = library.MPI_Error_string(error_c(errorcode), string ? text : NULL, resultlen);
    return code == MPI_SUCCESS ? text_f(string, F_MPI_MAX_ERROR_STRING, text, resultlen) : error_f(code);
}
EXPORT(MPI_Error_string)

/* Attributes. The state of a key is the program's functions and its extra state. An attribute may outlive its
 * key, and nothing says when the last one is gone. So states stay, and keys with the same functions and the
 * same extra state share one. */

struct key_state {
    struct key_state *next;
    void *copy, *remove, *extra;
};
static struct key_state *key_states;
static pthread_mutex_t key_states_lock = PTHREAD_MUTEX_INITIALIZER;

static struct key_state *key_state(void *copy, void *remove, void *extra) {
    pthread_mutex_lock(&key_states_lock);
    struct key_state *state = key_states;
    while (state && (state->copy != copy || state->remove != remove || state->extra != extra)) {
        state = state->next;
    }
    if (!state && (state = malloc(sizeof *state))) {
        *state = (struct key_state){key_states, copy, remove, extra};
        key_states = state;
    }
    pthread_mutex_unlock(&key_states_lock);
    return state;
}

#define KEYS(name, object, type, f_type)                                                                      \
    static int name##_copy(type old, int key, void *extra, void *in, void *out, int *flag) {                  \
        struct key_state *state = extra;                                                                      \
        int (*copy)(f_type, int, void *, void *, void *, int *) = state->copy;                                \
        return error_c(copy(object##_f(old), keyval_f(key), state->extra, in, out, flag));                    \
    }                                                                                                         \
    static int name##_delete(type of, int key, void *value, void *extra) {                                    \
        struct key_state *state = extra;                                                                      \
        int (*remove)(f_type, int, void *, void *) = state->remove;                                           \
        return error_c(remove(object##_f(of), keyval_f(key), value, state->extra));                           \
    }                                                                                                         \
    int face_##name(void *copy_fn, void *delete_fn, int *keyval, void *extra_state) {                         \
        struct key_state *state = key_state(copy_fn, delete_fn, extra_state);                                 \
        return state ? error_f(library.name(copy_fn ? name##_copy : NULL, delete_fn ? name##_delete : NULL,   \
                                            keyval, state))                                                   \
                     : no_memory();                                                                           \
    }
KEYS(MPI_Comm_create_keyval, comm, MPI_Comm, F_Comm)
EXPORT(MPI_Comm_create_keyval)
KEYS(MPI_Type_create_keyval, datatype, MPI_Datatype, F_Datatype)
EXPORT(MPI_Type_create_keyval)
KEYS(MPI_Win_create_keyval, win, MPI_Win, F_Win)
EXPORT(MPI_Win_create_keyval)
KEYS(MPI_Keyval_create, comm, MPI_Comm, F_Comm)
EXPORT(MPI_Keyval_create)

/* Values of predefined attributes that are constants of the ABI. Programs get addresses of them. */
static int *comm_value(int key, const int *value) {
    static int host, io, last_used_code;
    switch (key) {
    case F_MPI_HOST: host = rank_f(*value); return &host;
    case F_MPI_IO: io = rank_f(*value); return &io;
    case F_MPI_LASTUSEDCODE:
        last_used_code = *value > MPI_ERR_LASTCODE              ? error_f(*value)
                         : F_MPI_ERR_LASTCODE > MPI_ERR_LASTCODE ? F_MPI_ERR_LASTCODE
                                                                 : MPI_ERR_LASTCODE;
        return &last_used_code;
    default: return (int *)value;
    }
}

#define CONSTANTS_MAX 8
static int *win_value(int key, int *value) {
    static int constants[CONSTANTS_MAX] = {0, 1, 2, 3, 4, 5, 6, 7};
    int constant = key == F_MPI_WIN_CREATE_FLAVOR ? flavor_f(*value) : key == F_MPI_WIN_MODEL ? model_f(*value) : -1;
    return constant >= 0 && constant < CONSTANTS_MAX ? &constants[constant] : value;
}

#define GET_ATTR(name, object, f_type, convert)                                                               \
    int face_##name(f_type of, int keyval, void *attribute_val, int *flag) {                                  \
        int code = library.name(object##_c(of), keyval_c(keyval), attribute_val, flag);                       \
        if (code == MPI_SUCCESS && *flag) {                                                                   \
            *(void **)attribute_val = convert(keyval, *(void **)attribute_val);                               \
        }                                                                                                     \
        return error_f(code);                                                                                 \
    }
static void *type_value(int key, void *value) {
    (void)key;
    return value;
}
GET_ATTR(MPI_Comm_get_attr, comm, F_Comm, comm_value)
EXPORT(MPI_Comm_get_attr)
GET_ATTR(MPI_Attr_get, comm, F_Comm, comm_value)
EXPORT(MPI_Attr_get)
GET_ATTR(MPI_Type_get_attr, datatype, F_Datatype, type_value)
EXPORT(MPI_Type_get_attr)
GET_ATTR(MPI_Win_get_attr, win, F_Win, win_value)
EXPORT(MPI_Win_get_attr)

/* Generalised requests. */

struct generalised {
    int (*query)(void *, F_Status *);
    int (*free)(void *);
    int (*cancel)(void *, int);
    void *extra;
};

static int generalised_query(void *extra, MPI_Status *status) {
    struct generalised *request = extra;
    F_Status f_status;
    memset(&f_status, 0, sizeof f_status);
    status_f(status, &f_status);
    int code = request->query ? request->query(request->extra, &f_status) : MPI_SUCCESS;
    status_c(&f_status, status);
    return error_c(code);
}

static int generalised_free(void *extra) {
    struct generalised *request = extra;
    int code = request->free ? request->free(request->extra) : MPI_SUCCESS;
    free(request);
    return error_c(code);
}

static int generalised_cancel(void *extra, int complete) {
    struct generalised *request = extra;
    return error_c(request->cancel ? request->cancel(request->extra, complete) : MPI_SUCCESS);
}

int face_MPI_Grequest_start(void *query_fn, void *free_fn, void *cancel_fn, void *extra_state, F_Request *request) {
    struct generalised *state = malloc(sizeof *state);
    if (!state) {
        return no_memory();
    }
    *state = (struct generalised){query_fn, free_fn, cancel_fn, extra_state};
    REQUEST_ROOM(request);
    int code = library.MPI_Grequest_start(query_fn ? generalised_query : NULL, free_fn ? generalised_free : NULL,
                                          cancel_fn ? generalised_cancel : NULL, state,
                                          HANDLE_AT(MPI_Request, request));
    if (code == MPI_SUCCESS) {
        REQUEST_DONE(request);
    } else {
        free(state);
    }
    return error_f(code);
}
EXPORT(MPI_Grequest_start)

/* Data representations, which are never taken back. */

struct representation {
    void *read, *write;
    int (*extent)(F_Datatype, MPI_Aint *, void *);
    void *extra;
};

#define CONVERSION(name, count_type, member)                                                                  \
    static int name(void *memory, MPI_Datatype datatype, count_type count, void *file, MPI_Offset position,   \
                    void *extra) {                                                                            \
        struct representation *state = extra;                                                                 \
        int (*convert)(void *, F_Datatype, count_type, void *, MPI_Offset, void *) = state->member;           \
        return error_c(convert(memory, datatype_f(datatype), count, file, position, state->extra));           \
    }
CONVERSION(read_conversion, int, read)
CONVERSION(write_conversion, int, write)
CONVERSION(large_read_conversion, MPI_Count, read)
CONVERSION(large_write_conversion, MPI_Count, write)

static int representation_extent(MPI_Datatype datatype, MPI_Aint *extent, void *extra) {
    struct representation *state = extra;
    return error_c(state->extent(datatype_f(datatype), extent, state->extra));
}

#define REGISTER_DATAREP(name, reading, writing)                                                              \
    int face_##name(const char *datarep, void *read_fn, void *write_fn, void *extent_fn, void *extra_state) { \
        struct representation *state = malloc(sizeof *state);                                                 \
        if (!state) {                                                                                         \
            return no_memory();                                                                               \
        }                                                                                                     \
        *state = (struct representation){read_fn, write_fn, extent_fn, extra_state};                          \
        int code = library.name(datarep, read_fn ? reading : NULL, write_fn ? writing : NULL,                 \
                                extent_fn ? representation_extent : NULL, state);                             \
        if (code != MPI_SUCCESS) {                                                                            \
            free(state);                                                                                      \
        }                                                                                                     \
        return error_f(code);                                                                                 \
    }
REGISTER_DATAREP(MPI_Register_datarep, read_conversion, write_conversion)
EXPORT(MPI_Register_datarep)
REGISTER_DATAREP(MPI_Register_datarep_c, large_read_conversion, large_write_conversion)
EXPORT(MPI_Register_datarep_c)

/* Events of the tool information interface. A callback stays as long as its registration may call it, and
 * registrations with the same function and data share one state. */

struct tool_state {
    struct tool_state *next;
    void *function, *data;
};
static struct tool_state *tool_states;

static struct tool_state *tool_state(void *function, void *data) {
    pthread_mutex_lock(&key_states_lock);
    struct tool_state *state = tool_states;
    while (state && (state->function != function || state->data != data)) {
        state = state->next;
    }
    if (!state && (state = malloc(sizeof *state))) {
        *state = (struct tool_state){tool_states, function, data};
        tool_states = state;
    }
    pthread_mutex_unlock(&key_states_lock);
    return state;
}

static void event_happened(MPI_T_event_instance instance, MPI_T_event_registration registration,
                           MPI_T_cb_safety safety, void *data) {
    struct tool_state *state = data;
    void (*function)(MPI_T_event_instance, MPI_T_event_registration, int, void *) = state->function;
    function(instance, registration, callback_safety_f(safety), state->data);
}

static void event_freed(MPI_T_event_registration registration, MPI_T_cb_safety safety, void *data) {
    struct tool_state *state = data;
    void (*function)(MPI_T_event_registration, int, void *) = state->function;
    function(registration, callback_safety_f(safety), state->data);
}

int face_MPI_T_event_register_callback(MPI_T_event_registration event_registration, int cb_safety, F_Info info,
                                       void *user_data, void *event_cb_function) {
    struct tool_state *state = tool_state(event_cb_function, user_data);
    return state ? error_f(library.MPI_T_event_register_callback(
                       event_registration, (MPI_T_cb_safety)callback_safety_c(cb_safety), info_c(info), state,
                       event_cb_function ? event_happened : NULL))
                 : no_memory();
}
EXPORT(MPI_T_event_register_callback)

int face_MPI_T_event_handle_free(MPI_T_event_registration event_registration, void *user_data,
                                 void *free_cb_function) {
    struct tool_state *state = tool_state(free_cb_function, user_data);
    return state ? error_f(library.MPI_T_event_handle_free(event_registration, state,
                                                           free_cb_function ? event_freed : NULL))
                 : no_memory();
}
EXPORT(MPI_T_event_handle_free)

/* The library passes the data of the callback of events on, which leads to that callback's state. So the
 * handler of dropped events has a function of its own for each registration that it may be given. */
#define DROPPED_MAX 64
static struct {
    MPI_T_event_registration registration;
    void *function;
} dropped[DROPPED_MAX];

static void events_dropped(MPI_Count count, MPI_T_event_registration registration, int source,
                           MPI_T_cb_safety safety, void *data) {
    void *function = NULL;
    pthread_mutex_lock(&key_states_lock);
    for (int i = 0; i < DROPPED_MAX; i++) {
        if (dropped[i].registration == registration) {
            function = dropped[i].function;
        }
    }
    pthread_mutex_unlock(&key_states_lock);
    if (function) {
        struct tool_state *state = data;
        ((void (*)(MPI_Count, MPI_T_event_registration, int, int, void *))function)(
            count, registration, source, callback_safety_f(safety), state ? state->data : NULL);
    }
}

int face_MPI_T_event_set_dropped_handler(MPI_T_event_registration event_registration, void *dropped_cb_function) {
    bool kept = false;
    pthread_mutex_lock(&key_states_lock);
    for (int i = 0; i < DROPPED_MAX && !kept; i++) {
        if (!dropped[i].registration || dropped[i].registration == event_registration) {
            dropped[i].registration = event_registration;
            dropped[i].function = dropped_cb_function;
            kept = true;
        }
    }
    pthread_mutex_unlock(&key_states_lock);
    return kept ? error_f(library.MPI_T_event_set_dropped_handler(event_registration,
                                                                  dropped_cb_function ? events_dropped : NULL))
                : error_f(MPI_T_ERR_MEMORY);
}
EXPORT(MPI_T_event_set_dropped_handler)

int face_MPI_T_event_get_info(int event_index, char *name, int *name_len, int *verbosity,
                              F_Datatype array_of_datatypes[], MPI_Aint array_of_displacements[], int *num_elements,
                              MPI_T_enum *enumtype, F_Info *info, char *desc, int *desc_len, int *bind) {
    struct room room;
    int count = array_of_datatypes && num_elements && *num_elements > 0 ? *num_elements : 0;
    MPI_Datatype *datatypes = room_open(&room, count, sizeof *datatypes);
    if (!datatypes) {
        return error_f(MPI_T_ERR_MEMORY);
    }
    HANDLE_ROOM(MPI_Info, info);
    int code = library.MPI_T_event_get_info(event_index, name, name_len, verbosity,
                                            array_of_datatypes ? datatypes : NULL, array_of_displacements,
                                            num_elements, enumtype, HANDLE_AT(MPI_Info, info), desc, desc_len, bind);
    if (code == MPI_SUCCESS) {
        for (int i = 0; i < count && i < *num_elements; i++) {
            array_of_datatypes[i] = datatype_f(datatypes[i]);
        }
        HANDLE_DONE(info, info);
        if (verbosity) {
            *verbosity = verbosity_f(*verbosity);
        }
        if (bind) {
            *bind = bind_f(*bind);
        }
    }
    room_close(&room);
    return error_f(code);
}
EXPORT(MPI_T_event_get_info)

/* Arrays of requests and statuses. */

static __attribute__((noinline)) MPI_Status *statuses_open_all(struct status_room *room, int count) {
    MPI_Status *c = room->few;
    if (count > STATUSES_ROOM) {
        c = room->many = malloc((size_t)count * sizeof *c);
    }
    for (int i = 0; c && i < count; i++) {
        status_start(&c[i]);
    }
    return c;
}
static inline MPI_Status *statuses_open(struct status_room *room, int count, const F_Status *f) {
    room->many = NULL;
    return is_ignored(f) ? room->few : statuses_open_all(room, count);
}

static __attribute__((noinline)) void statuses_close_all(struct status_room *room, int count, F_Status *f, const MPI_Status *c) {
    for (int i = 0; i < count; i++) {
        status_done(&c[i], &f[i]);
    }
    free(room->many);
}
static inline void statuses_close(struct status_room *room, int count, F_Status *f, const MPI_Status *c) {
    if (!is_ignored(f)) {
        statuses_close_all(room, count, f, c);
    }
}

#define STATUSES_AT(f, c) (is_ignored(f) ? MPI_STATUSES_IGNORE : (c))

/* Calls the library with the requests and statuses of a function, as c_requests and c_statuses. */
#define WITH_REQUESTS(count, requests, statuses, call)                                                        \
    struct room room;                                                                                         \
    struct status_room room_of_statuses;                                                                         \
    MPI_Status *c_statuses = statuses_open(&room_of_statuses, count, statuses);                               \
    MPI_Request *c_requests = c_statuses ? requests_open(&room, count, requests) : NULL;                      \
    if (!c_statuses || (requests && !c_requests)) {                                                           \
        free(room_of_statuses.many);                                                                          \
        return no_memory();                                                                                   \
    }                                                                                                         \
    c_requests = requests ? c_requests : NULL;                                                                \
    int code = call;                                                                                          \
    requests_close(&room, count, requests, c_requests);                                                       \
    statuses_close(&room_of_statuses, count, statuses, c_statuses)

int face_MPI_Waitall(int count, F_Request array_of_requests[], F_Status *array_of_statuses) {
    WITH_REQUESTS(count, array_of_requests, array_of_statuses,
                  library.MPI_Waitall(count, c_requests, STATUSES_AT(array_of_statuses, c_statuses)));
    return error_f(code);
}
EXPORT(MPI_Waitall)

int face_MPI_Testall(int count, F_Request array_of_requests[], int *flag, F_Status *array_of_statuses) {
    WITH_REQUESTS(count, array_of_requests, array_of_statuses,
                  library.MPI_Testall(count, c_requests, flag, STATUSES_AT(array_of_statuses, c_statuses)));
    return error_f(code);
}
EXPORT(MPI_Testall)

int face_MPI_Waitsome(int incount, F_Request array_of_requests[], int *outcount, int array_of_indices[],
                      F_Status *array_of_statuses) {
    WITH_REQUESTS(incount, array_of_requests, array_of_statuses,
                  library.MPI_Waitsome(incount, c_requests, outcount, array_of_indices,
                                       STATUSES_AT(array_of_statuses, c_statuses)));
    return error_f(code);
}
EXPORT(MPI_Waitsome)

int face_MPI_Testsome(int incount, F_Request array_of_requests[], int *outcount, int array_of_indices[],
                      F_Status *array_of_statuses) {
    WITH_REQUESTS(incount, array_of_requests, array_of_statuses,
                  library.MPI_Testsome(incount, c_requests, outcount, array_of_indices,
                                       STATUSES_AT(array_of_statuses, c_statuses)));
    return error_f(code);
}
EXPORT(MPI_Testsome)

int face_MPI_Waitany(int count, F_Request array_of_requests[], int *index, F_Status *status) {
    WITH_REQUESTS(count, array_of_requests, (F_Status *)NULL,
                  library.MPI_Waitany(count, c_requests, index, STATUSES_AT(status, &c_statuses[0])));
    status_done(&c_statuses[0], status);
    return error_f(code);
}
EXPORT(MPI_Waitany)

int face_MPI_Testany(int count, F_Request array_of_requests[], int *index, int *flag, F_Status *status) {
    WITH_REQUESTS(count, array_of_requests, (F_Status *)NULL,
                  library.MPI_Testany(count, c_requests, index, flag, STATUSES_AT(status, &c_statuses[0])));
    status_done(&c_statuses[0], status);
    return error_f(code);
}
EXPORT(MPI_Testany)

int face_MPI_Startall(int count, F_Request array_of_requests[]) {
    WITH_REQUESTS(count, array_of_requests, (F_Status *)NULL, library.MPI_Startall(count, c_requests));
    return error_f(code);
}
EXPORT(MPI_Startall)

/* Requests that stay as they are. */
static MPI_Request *requests_copy(struct room *room, int count, const F_Request *requests) {
    MPI_Request *c = room_open(room, requests ? count : 0, sizeof *c);
    for (int i = 0; c && requests && i < count; i++) {
        c[i] = request_c(requests[i]);
    }
    return c;
}

#define LOOK_AT_REQUESTS(count, requests, statuses, call)                                                     \
    struct room room;                                                                                         \
    struct status_room room_of_statuses;                                                                         \
    MPI_Status *c_statuses = statuses_open(&room_of_statuses, count, statuses);                               \
    MPI_Request *copy = requests_copy(&room, count, requests), *c_requests = requests ? copy : NULL;          \
    if (!c_statuses || !copy) {                                                                               \
        free(room_of_statuses.many);                                                                          \
        return no_memory();                                                                                   \
    }                                                                                                         \
    int code = call;                                                                                          \
    room_close(&room);                                                                                        \
    statuses_close(&room_of_statuses, count, statuses, c_statuses)

int face_MPI_Request_get_status_all(int count, const F_Request array_of_requests[], int *flag,
                                    F_Status *array_of_statuses) {
    LOOK_AT_REQUESTS(count, array_of_requests, array_of_statuses,
                     library.MPI_Request_get_status_all(count, c_requests, flag,
                                                        STATUSES_AT(array_of_statuses, c_statuses)));
    return error_f(code);
}
EXPORT(MPI_Request_get_status_all)

int face_MPI_Request_get_status_any(int count, const F_Request array_of_requests[], int *index, int *flag,
                                    F_Status *status) {
    LOOK_AT_REQUESTS(count, array_of_requests, (F_Status *)NULL,
                     library.MPI_Request_get_status_any(count, c_requests, index, flag,
                                                        STATUSES_AT(status, &c_statuses[0])));
    status_done(&c_statuses[0], status);
    return error_f(code);
}
EXPORT(MPI_Request_get_status_any)

int face_MPI_Request_get_status_some(int incount, const F_Request array_of_requests[], int *outcount,
                                     int array_of_indices[], F_Status *array_of_statuses) {
    LOOK_AT_REQUESTS(incount, array_of_requests, array_of_statuses,
                     library.MPI_Request_get_status_some(incount, c_requests, outcount, array_of_indices,
                                                         STATUSES_AT(array_of_statuses, c_statuses)));
    return error_f(code);
}
EXPORT(MPI_Request_get_status_some)

/* What a datatype was made of. Some of the integers are constants (MPI-5.0 §5.1.13). */

static void contents_of_subarray_f(int *integers, bool is_large) {
    int *order = &integers[is_large ? 1 : 1 + 3 * integers[0]];
    *order = order_f(*order);
}

static void contents_of_darray_f(int *integers, bool is_large) {
    int dimensions = integers[2], *distributions = &integers[3 + (is_large ? 0 : dimensions)];
    for (int i = 0; i < dimensions; i++) {
        distributions[i] = distribution_f(distributions[i]);
        distributions[dimensions + i] = distribution_argument_f(distributions[dimensions + i]);
    }
    distributions[3 * dimensions] = order_f(distributions[3 * dimensions]);
}

/* Changes what the library gave to the program. `is_large`: sizes are large counts, and not integers. */
static void contents_f(int combiner, bool is_large, int *integers, MPI_Count count, const MPI_Datatype *c,
                       F_Datatype *f) {
    if (combiner == MPI_COMBINER_SUBARRAY) {
        contents_of_subarray_f(integers, is_large);
    } else if (combiner == MPI_COMBINER_DARRAY) {
        contents_of_darray_f(integers, is_large);
    }
    for (MPI_Count i = 0; i < count; i++) {
        f[i] = datatype_f(c[i]);
    }
}

int face_MPI_Type_get_contents(F_Datatype datatype, int max_integers, int max_addresses, int max_datatypes,
                               int array_of_integers[], MPI_Aint array_of_addresses[],
                               F_Datatype array_of_datatypes[]) {
    MPI_Datatype of = datatype_c(datatype);
    int integers, addresses, datatypes, combiner;
    int code = library.MPI_Type_get_envelope(of, &integers, &addresses, &datatypes, &combiner);
    if (code != MPI_SUCCESS) {
        return error_f(code);
    }
    struct room room;
    MPI_Datatype *c = room_open(&room, datatypes, sizeof *c);
    if (!c) {
        return no_memory();
    }
    code = library.MPI_Type_get_contents(of, max_integers, max_addresses, max_datatypes, array_of_integers,
                                         array_of_addresses, array_of_datatypes ? c : NULL);
    if (code == MPI_SUCCESS) {
        contents_f(combiner, false, array_of_integers, datatypes, c, array_of_datatypes);
    }
    room_close(&room);
    return error_f(code);
}
EXPORT(MPI_Type_get_contents)

int face_MPI_Type_get_contents_c(F_Datatype datatype, MPI_Count max_integers, MPI_Count max_addresses,
                                 MPI_Count max_large_counts, MPI_Count max_datatypes, int array_of_integers[],
                                 MPI_Aint array_of_addresses[], MPI_Count array_of_large_counts[],
                                 F_Datatype array_of_datatypes[]) {
    MPI_Datatype of = datatype_c(datatype);
    MPI_Count integers, addresses, counts, datatypes;
    int combiner;
    int code = library.MPI_Type_get_envelope_c(of, &integers, &addresses, &counts, &datatypes, &combiner);
    if (code != MPI_SUCCESS) {
        return error_f(code);
    }
    struct room room;
    MPI_Datatype *c = room_open(&room, datatypes, sizeof *c);
    if (!c) {
        return no_memory();
    }
    code = library.MPI_Type_get_contents_c(of, max_integers, max_addresses, max_large_counts, max_datatypes,
                                           array_of_integers, array_of_addresses, array_of_large_counts,
                                           array_of_datatypes ? c : NULL);
    if (code == MPI_SUCCESS) {
        contents_f(combiner, counts > 0, array_of_integers, datatypes, c, array_of_datatypes);
    }
    room_close(&room);
    return error_f(code);
}
EXPORT(MPI_Type_get_contents_c)

/* Structures. MPI_LB and MPI_UB mark the bounds of one. MPI-3.0 removed them, and the standard's ABI does not
 * have them, but both libraries still do, and older programs name them. */

struct member {
    MPI_Count length, displacement;
    F_Datatype type;
};

static bool is_mark(F_Datatype type) { return type == F_MPI_LB || type == F_MPI_UB; }

/* A structure of the members that are no marks, with the lowest MPI_LB and the highest MPI_UB as its bounds.
 * A bound without a mark is that of the other members (MPI-2.2 §4.1.6). */
static int marked_struct(MPI_Count count, const struct member *members, MPI_Datatype *newtype) {
    MPI_Count *lengths = calloc((size_t)count, sizeof *lengths), *displacements = calloc((size_t)count, sizeof *lengths);
    MPI_Datatype *types = calloc((size_t)count, sizeof(MPI_Datatype)), inner;
    MPI_Count others = 0, lb = 0, extent = 0, lowest = INT64_MAX, highest = INT64_MIN;
    int code = MPI_ERR_NO_MEM;
    if (!lengths || !displacements || !types) {
        goto end;
    }
    for (MPI_Count i = 0; i < count; i++) {
        const struct member *member = &members[i];
        if (!is_mark(member->type)) {
            lengths[others] = member->length;
            displacements[others] = member->displacement;
            types[others++] = datatype_c(member->type);
        } else if (member->length > 0 && member->type == F_MPI_LB) {
            lowest = member->displacement < lowest ? member->displacement : lowest;
        } else if (member->length > 0) {
            highest = member->displacement > highest ? member->displacement : highest;
        }
    }
    code = library.MPI_Type_create_struct_c(others, lengths, displacements, types, &inner);
    if (code != MPI_SUCCESS) {
        goto end;
    }
    code = library.MPI_Type_get_extent_c(inner, &lb, &extent);
    if (code == MPI_SUCCESS) {
        MPI_Count begin = lowest != INT64_MAX ? lowest : lb, end = highest != INT64_MIN ? highest : lb + extent;
        code = library.MPI_Type_create_resized_c(inner, begin, end - begin, newtype);
    }
    library.MPI_Type_free(&inner);
end:
    free(lengths);
    free(displacements);
    free(types);
    return code;
}

#define CREATE_STRUCT(name, Count, Displacement, constant)                                                    \
    int face_##name(Count count, constant Count lengths[], constant Displacement displacements[],             \
                    constant F_Datatype types[], F_Datatype *newtype) {                                       \
        struct room room;                                                                                     \
        MPI_Count number = elements(types, count), marks = 0;                                                 \
        MPI_Datatype *c = room_open(&room, number, sizeof *c);                                                \
        if (!c) {                                                                                             \
            return no_memory();                                                                               \
        }                                                                                                     \
        for (MPI_Count i = 0; i < number; i++) {                                                              \
            marks += is_mark(types[i]);                                                                       \
            c[i] = datatype_c(types[i]);                                                                      \
        }                                                                                                     \
        HANDLE_ROOM(MPI_Datatype, newtype);                                                                   \
        int code;                                                                                             \
        if (LIKELY(marks == 0) || !lengths || !displacements || !newtype) {                                   \
            code = library.name(count, lengths, displacements, types ? c : NULL, HANDLE_AT(MPI_Datatype, newtype)); \
        } else {                                                                                              \
            struct member *members = calloc((size_t)number, sizeof *members);                                 \
            for (MPI_Count i = 0; members && i < number; i++) {                                               \
                members[i] = (struct member){lengths[i], displacements[i], types[i]};                         \
            }                                                                                                 \
            code = members ? marked_struct(number, members, HANDLE_AT(MPI_Datatype, newtype)) : MPI_ERR_NO_MEM; \
            free(members);                                                                                    \
        }                                                                                                     \
        if (LIKELY(code == MPI_SUCCESS)) {                                                                    \
            HANDLE_DONE(datatype, newtype);                                                                   \
        }                                                                                                     \
        room_close(&room);                                                                                    \
        return error_f(code);                                                                                 \
    }
CREATE_STRUCT(MPI_Type_create_struct, int, MPI_Aint, const)
EXPORT(MPI_Type_create_struct)
CREATE_STRUCT(MPI_Type_create_struct_c, MPI_Count, MPI_Count, const)
EXPORT(MPI_Type_create_struct_c)
CREATE_STRUCT(MPI_Type_struct, int, MPI_Aint, )
EXPORT(MPI_Type_struct)

/* Processes that are started. */

static void codes_f(int count, int *codes) {
    for (int i = 0; codes && i < count; i++) {
        codes[i] = error_f(codes[i]);
    }
}

int face_MPI_Comm_spawn(const char *command, char *argv[], int maxprocs, F_Info info, int root, F_Comm comm,
                        F_Comm *intercomm, int array_of_errcodes[]) {
    HANDLE_ROOM(MPI_Comm, intercomm);
    int code = library.MPI_Comm_spawn(command, argv, maxprocs, info_c(info), rank_c(root), comm_c(comm),
                                      HANDLE_AT(MPI_Comm, intercomm), array_of_errcodes);
    if (code == MPI_SUCCESS) {
        codes_f(maxprocs, array_of_errcodes);
        HANDLE_DONE(comm, intercomm);
    }
    return error_f(code);
}
EXPORT(MPI_Comm_spawn)

/* Commands, numbers and hints count at the root alone. */
int face_MPI_Comm_spawn_multiple(int count, char *array_of_commands[], char **array_of_argv[],
                                 const int array_of_maxprocs[], const F_Info array_of_info[], int root, F_Comm comm,
                                 F_Comm *intercomm, int array_of_errcodes[]) {
    int rank = -1, processes = 0;
    library.MPI_Comm_rank(comm_c(comm), &rank);
    bool is_root = rank_c(root) == rank || rank_c(root) == MPI_ROOT;
    struct room room;
    MPI_Info *infos = room_open(&room, is_root && array_of_info && count > 0 ? count : 0, sizeof *infos);
    if (!infos) {
        return no_memory();
    }
    for (int i = 0; is_root && array_of_info && i < count; i++) {
        infos[i] = info_c(array_of_info[i]);
    }
    HANDLE_ROOM(MPI_Comm, intercomm);
    int code = library.MPI_Comm_spawn_multiple(count, array_of_commands, array_of_argv, array_of_maxprocs,
                                               array_of_info ? infos : NULL, rank_c(root), comm_c(comm),
                                               HANDLE_AT(MPI_Comm, intercomm), array_of_errcodes);
    if (code == MPI_SUCCESS) {
        for (int i = 0; is_root && i < count; i++) {
            processes += array_of_maxprocs[i];
        }
        codes_f(processes, array_of_errcodes);
        HANDLE_DONE(comm, intercomm);
    }
    room_close(&room);
    return error_f(code);
}
EXPORT(MPI_Comm_spawn_multiple)

int face_MPI_Pcontrol(const int level, ...) { return error_f(library.MPI_Pcontrol(level)); }
EXPORT(MPI_Pcontrol)

/* Handles as integers, for Fortran (MPI-5.0 §19.3.4). */

#define INTEGER_OF(name, word, f_type)                                                                        \
    int face_MPI_##name##_toint(f_type handle) { return word##_integer(handle); }                             \
    f_type face_MPI_##name##_fromint(int integer) { return word##_from_integer(integer); }                    \
    int face_MPI_##name##_c2f(f_type handle) { return word##_integer(handle); }                               \
    f_type face_MPI_##name##_f2c(int integer) { return word##_from_integer(integer); }                        \
    EXPORT(MPI_##name##_c2f)                                                                                  \
    EXPORT(MPI_##name##_f2c)
INTEGER_OF(Comm, comm, F_Comm)
EXPORT(MPI_Comm_toint)
EXPORT(MPI_Comm_fromint)
INTEGER_OF(Errhandler, errhandler, F_Errhandler)
EXPORT(MPI_Errhandler_toint)
EXPORT(MPI_Errhandler_fromint)
INTEGER_OF(File, file, F_File)
EXPORT(MPI_File_toint)
EXPORT(MPI_File_fromint)
INTEGER_OF(Group, group, F_Group)
EXPORT(MPI_Group_toint)
EXPORT(MPI_Group_fromint)
INTEGER_OF(Info, info, F_Info)
EXPORT(MPI_Info_toint)
EXPORT(MPI_Info_fromint)
INTEGER_OF(Message, message, F_Message)
EXPORT(MPI_Message_toint)
EXPORT(MPI_Message_fromint)
INTEGER_OF(Op, op, F_Op)
EXPORT(MPI_Op_toint)
EXPORT(MPI_Op_fromint)
INTEGER_OF(Request, request, F_Request)
EXPORT(MPI_Request_toint)
EXPORT(MPI_Request_fromint)
INTEGER_OF(Session, session, F_Session)
EXPORT(MPI_Session_toint)
EXPORT(MPI_Session_fromint)
INTEGER_OF(Type, datatype, F_Datatype)
EXPORT(MPI_Type_toint)
EXPORT(MPI_Type_fromint)
INTEGER_OF(Win, win, F_Win)
EXPORT(MPI_Win_toint)
EXPORT(MPI_Win_fromint)

/* A status in Fortran, of either kind, has the layout of the one in C. */
EXPORTED extern int *MPI_F_STATUS_IGNORE, *MPI_F_STATUSES_IGNORE;
#define STATUS_COPY(name)                                                                                     \
    int face_##name(const void *from, void *to) {                                                             \
        if (is_ignored(from) || is_ignored(to) || from == MPI_F_STATUS_IGNORE || from == MPI_F_STATUSES_IGNORE) { \
            return fail(MPI_ERR_ARG);                                                                         \
        }                                                                                                     \
        memcpy(to, from, sizeof(F_Status));                                                                   \
        return MPI_SUCCESS;                                                                                   \
    }
STATUS_COPY(MPI_Status_c2f)
EXPORT(MPI_Status_c2f)
STATUS_COPY(MPI_Status_f2c)
EXPORT(MPI_Status_f2c)
STATUS_COPY(MPI_Status_c2f08)
EXPORT(MPI_Status_c2f08)
STATUS_COPY(MPI_Status_f082c)
EXPORT(MPI_Status_f082c)
STATUS_COPY(MPI_Status_f2f08)
EXPORT(MPI_Status_f2f08)
STATUS_COPY(MPI_Status_f082f)
EXPORT(MPI_Status_f082f)
