/* C functions that call the program's Fortran functions, and the state they need. Compiled once.
 *
 * A Fortran function takes every argument by reference and handles as integers. Where MPI passes an extra
 * state, that state leads to the Fortran function. Operations and error handlers have none: each Fortran
 * function gets a C function of its own from a table. A program has few such functions, and a function that
 * is given again gets the same one. So the table does not grow with the objects that are made. */
#include "fortran.h"
#include <pthread.h>
#include <stdlib.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The number of Fortran functions of each kind that a program may have. */
#define SLOTS 256

/* Returns the slot of a function, which may be new, or -1 when all are taken. */
static int slot_of(void **functions, void *function) {
    int slot = -1;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < SLOTS; i++) {
        if (functions[i] == function || !functions[i]) {
            functions[i] = function;
            slot = i;
            break;
        }
    }
    pthread_mutex_unlock(&lock);
    return slot;
}

/* The 256 two-digit numbers in base 16, as parts of names and as numbers. */
#define ROW(each, high)                                                                                       \
    each(high##0) each(high##1) each(high##2) each(high##3) each(high##4) each(high##5) each(high##6)         \
    each(high##7) each(high##8) each(high##9) each(high##a) each(high##b) each(high##c) each(high##d)         \
    each(high##e) each(high##f)
#define ALL(each)                                                                                             \
    ROW(each, 0x0) ROW(each, 0x1) ROW(each, 0x2) ROW(each, 0x3) ROW(each, 0x4) ROW(each, 0x5) ROW(each, 0x6)  \
    ROW(each, 0x7) ROW(each, 0x8) ROW(each, 0x9) ROW(each, 0xa) ROW(each, 0xb) ROW(each, 0xc) ROW(each, 0xd)  \
    ROW(each, 0xe) ROW(each, 0xf)

/* Operations (MPI-5.0 §6.9.5). */
typedef void operation(void *in, void *inout, int *length, int *datatype);
typedef void large_operation(void *in, void *inout, MPI_Count *length, int *datatype);
static void *operations[SLOTS], *large_operations[SLOTS];

#define OPERATION(n)                                                                                          \
    static void operation_##n(void *in, void *inout, int *length, MPI_Datatype *datatype) {                   \
        int integer = datatype_f(*datatype);                                                                  \
        ((operation *)operations[n])(in, inout, length, &integer);                                            \
    }
#define LARGE_OPERATION(n)                                                                                    \
    static void large_operation_##n(void *in, void *inout, MPI_Count *length, MPI_Datatype *datatype) {       \
        int integer = datatype_f(*datatype);                                                                  \
        ((large_operation *)large_operations[n])(in, inout, length, &integer);                                \
    }
ALL(OPERATION)
ALL(LARGE_OPERATION)
#define NAME_OPERATION(n) operation_##n,
#define NAME_LARGE_OPERATION(n) large_operation_##n,
static MPI_User_function *const operation_trampolines[SLOTS] = {ALL(NAME_OPERATION)};
static MPI_User_function_c *const large_operation_trampolines[SLOTS] = {ALL(NAME_LARGE_OPERATION)};

MPI_User_function *operation_trampoline(void *function) {
    int slot = slot_of(operations, function);
    return slot < 0 ? NULL : operation_trampolines[slot];
}

MPI_User_function_c *large_operation_trampoline(void *function) {
    int slot = slot_of(large_operations, function);
    return slot < 0 ? NULL : large_operation_trampolines[slot];
}

/* Error handlers (MPI-5.0 §9.3). */
typedef void handler(int *handle, int *code);
static void *comm_handlers[SLOTS], *win_handlers[SLOTS], *file_handlers[SLOTS], *session_handlers[SLOTS];

#define HANDLER(n)                                                                                            \
    static void comm_handler_##n(MPI_Comm *comm, int *code, ...) {                                            \
        int integer = comm_f(*comm);                                                                          \
        ((handler *)comm_handlers[n])(&integer, code);                                                        \
    }                                                                                                         \
    static void win_handler_##n(MPI_Win *win, int *code, ...) {                                               \
        int integer = win_f(*win);                                                                            \
        ((handler *)win_handlers[n])(&integer, code);                                                         \
    }                                                                                                         \
    static void file_handler_##n(MPI_File *file, int *code, ...) {                                            \
        int integer = file_f(*file);                                                                          \
        ((handler *)file_handlers[n])(&integer, code);                                                        \
    }                                                                                                         \
    static void session_handler_##n(MPI_Session *session, int *code, ...) {                                   \
        int integer = session_f(*session);                                                                    \
        ((handler *)session_handlers[n])(&integer, code);                                                     \
    }
ALL(HANDLER)
#define NAME_COMM(n) comm_handler_##n,
#define NAME_WIN(n) win_handler_##n,
#define NAME_FILE(n) file_handler_##n,
#define NAME_SESSION(n) session_handler_##n,
static MPI_Comm_errhandler_function *const comm_trampolines[SLOTS] = {ALL(NAME_COMM)};
static MPI_Win_errhandler_function *const win_trampolines[SLOTS] = {ALL(NAME_WIN)};
static MPI_File_errhandler_function *const file_trampolines[SLOTS] = {ALL(NAME_FILE)};
static MPI_Session_errhandler_function *const session_trampolines[SLOTS] = {ALL(NAME_SESSION)};

void *errhandler_trampoline(void *function, int kind) {
    void **functions[] = {comm_handlers, win_handlers, file_handlers, session_handlers};
    int slot = slot_of(functions[kind], function);
    if (slot < 0) {
        return NULL;
    }
    switch (kind) {
    case OF_COMM: return (void *)comm_trampolines[slot];
    case OF_WIN: return (void *)win_trampolines[slot];
    case OF_FILE: return (void *)file_trampolines[slot];
    default: return (void *)session_trampolines[slot];
    }
}

/* Attributes (MPI-5.0 §7.7, §19.3.7). */
typedef void copy_function(int *object, int *keyval, MPI_Aint *extra, MPI_Aint *in, MPI_Aint *out, int *flag, int *ierror);
typedef void delete_function(int *object, int *keyval, MPI_Aint *value, MPI_Aint *extra, int *ierror);
/* Those of MPI-1, whose values are of type INTEGER (MPI-5.0 §16.1). */
typedef void old_copy_function(int *object, int *keyval, int *extra, int *in, int *out, int *flag, int *ierror);
typedef void old_delete_function(int *object, int *keyval, int *value, int *extra, int *ierror);

struct keyval_state {
    struct keyval_state *next;
    void *copy, *remove;
    MPI_Aint extra;
    bool old;
};
static struct keyval_state *keyval_states;

/* An attribute may outlive its key, and nothing says when the last one is gone. So states stay, and keys with
 * the same functions and the same extra state share one. */
void *keyval_state(void *copy, void *remove, MPI_Aint extra, bool old) {
    pthread_mutex_lock(&lock);
    struct keyval_state *state = keyval_states;
    while (state && (state->copy != copy || state->remove != remove || state->extra != extra || state->old != old)) {
        state = state->next;
    }
    if (!state && (state = malloc(sizeof *state))) {
        *state = (struct keyval_state){keyval_states, copy, remove, extra, old};
        keyval_states = state;
    }
    pthread_mutex_unlock(&lock);
    return state;
}

/* Boxes, found by their address. */
struct box {
    MPI_Aint value; /* first: C sees the address of the box as that of an integer */
    struct box *next;
};
static struct box *boxes[1024];

static struct box **box_place(void *attribute) { return &boxes[((uintptr_t)attribute >> 5) % 1024]; }

void *box_new(MPI_Aint value) {
    struct box *box = malloc(sizeof *box);
    if (box) {
        pthread_mutex_lock(&lock);
        *box = (struct box){value, *box_place(box)};
        *box_place(box) = box;
        pthread_mutex_unlock(&lock);
    }
    return box;
}

bool box_read(void *attribute, MPI_Aint *value) {
    pthread_mutex_lock(&lock);
    struct box *box = *box_place(attribute);
    while (box && box != attribute) {
        box = box->next;
    }
    if (box) {
        *value = box->value;
    }
    pthread_mutex_unlock(&lock);
    return box != NULL;
}

void box_free(void *attribute) {
    pthread_mutex_lock(&lock);
    struct box **at = box_place(attribute);
    while (*at && *at != attribute) {
        at = &(*at)->next;
    }
    struct box *found = *at;
    if (found) {
        *at = found->next;
    }
    pthread_mutex_unlock(&lock);
    free(found);
}

/* What Fortran sees of an attribute: what Fortran set, or the address that C set. */
static MPI_Aint seen(void *attribute) {
    MPI_Aint value;
    return box_read(attribute, &value) ? value : (MPI_Aint)attribute;
}

static int copy_attribute(int object, int keyval, void *extra, void *in, void *out, int *flag) {
    struct keyval_state *state = extra;
    MPI_Aint from = seen(in), to = 0, extra_state = state->extra;
    int copied = 0, code = MPI_SUCCESS;
    if (state->old) {
        int old_extra = (int)extra_state, old_from = (int)from, old_to = 0;
        ((old_copy_function *)state->copy)(&object, &keyval, &old_extra, &old_from, &old_to, &copied, &code);
        to = old_to;
    } else {
        ((copy_function *)state->copy)(&object, &keyval, &extra_state, &from, &to, &copied, &code);
    }
    *flag = copied != 0;
    if (code == MPI_SUCCESS && copied && !(*(void **)out = box_new(to))) {
        return MPI_ERR_NO_MEM;
    }
    return code;
}

static int delete_attribute(int object, int keyval, void *attribute, void *extra) {
    struct keyval_state *state = extra;
    MPI_Aint value = seen(attribute), extra_state = state->extra;
    int code = MPI_SUCCESS;
    if (state->old) {
        int old_value = (int)value, old_extra = (int)extra_state;
        ((old_delete_function *)state->remove)(&object, &keyval, &old_value, &old_extra, &code);
    } else {
        ((delete_function *)state->remove)(&object, &keyval, &value, &extra_state, &code);
    }
    if (code == MPI_SUCCESS) {
        box_free(attribute);
    }
    return code;
}

#define ATTRIBUTES(kind, type, name)                                                                          \
    int kind##_copy_trampoline(type object, int keyval, void *extra, void *in, void *out, int *flag) {        \
        return copy_attribute(name##_f(object), keyval, extra, in, out, flag);                                \
    }                                                                                                         \
    int kind##_delete_trampoline(type object, int keyval, void *attribute, void *extra) {                     \
        return delete_attribute(name##_f(object), keyval, attribute, extra);                                  \
    }
ATTRIBUTES(comm, MPI_Comm, comm)
ATTRIBUTES(type, MPI_Datatype, datatype)
ATTRIBUTES(win, MPI_Win, win)

/* Generalized requests (MPI-5.0 §13.2). */
typedef void query_function(MPI_Aint *extra, void *status, int *ierror);
typedef void free_function(MPI_Aint *extra, int *ierror);
typedef void cancel_function(MPI_Aint *extra, int *complete, int *ierror);
struct grequest_state {
    void *query, *release, *cancel;
    MPI_Aint extra;
};

void *grequest_state(void *query, void *release, void *cancel, MPI_Aint extra) {
    struct grequest_state *state = malloc(sizeof *state);
    if (state) {
        *state = (struct grequest_state){query, release, cancel, extra};
    }
    return state;
}

int grequest_query_trampoline(void *extra, MPI_Status *status) {
    struct grequest_state *state = extra;
    int code = MPI_SUCCESS;
    ((query_function *)state->query)(&state->extra, status, &code);
    return code;
}

int grequest_free_trampoline(void *extra) {
    struct grequest_state *state = extra;
    int code = MPI_SUCCESS;
    ((free_function *)state->release)(&state->extra, &code);
    free(state);
    return code;
}

int grequest_cancel_trampoline(void *extra, int complete) {
    struct grequest_state *state = extra;
    int code = MPI_SUCCESS;
    ((cancel_function *)state->cancel)(&state->extra, &complete, &code);
    return code;
}

/* Data representations (MPI-5.0 §14.5.3). They are never unregistered, so neither are their states. */
typedef void conversion_function(void *user, int *datatype, int *count, void *file, MPI_Offset *position,
                                 MPI_Aint *extra, int *ierror);
typedef void large_conversion_function(void *user, int *datatype, MPI_Count *count, void *file, MPI_Offset *position,
                                       MPI_Aint *extra, int *ierror);
typedef void extent_function(int *datatype, MPI_Aint *extent, MPI_Aint *extra, int *ierror);
struct datarep_state {
    void *read, *write, *extent;
    MPI_Aint *extra;
};

void *datarep_state(void *read, void *write, void *extent, void *extra) {
    struct datarep_state *state = malloc(sizeof *state);
    if (state) {
        *state = (struct datarep_state){read, write, extent, extra};
    }
    return state;
}

#define CONVERSION(name, member, type, function)                                                              \
    int name(void *user, MPI_Datatype datatype, type count, void *file, MPI_Offset position, void *extra) {   \
        struct datarep_state *state = extra;                                                                  \
        int handle = datatype_f(datatype), code = MPI_SUCCESS;                                                \
        ((function *)state->member)(user, &handle, &count, file, &position, state->extra, &code);             \
        return code;                                                                                          \
    }
CONVERSION(datarep_read_trampoline, read, int, conversion_function)
CONVERSION(datarep_write_trampoline, write, int, conversion_function)
CONVERSION(datarep_large_read_trampoline, read, MPI_Count, large_conversion_function)
CONVERSION(datarep_large_write_trampoline, write, MPI_Count, large_conversion_function)

int datarep_extent_trampoline(MPI_Datatype datatype, MPI_Aint *extent, void *extra) {
    struct datarep_state *state = extra;
    int handle = datatype_f(datatype), code = MPI_SUCCESS;
    ((extent_function *)state->extent)(&handle, extent, state->extra, &code);
    return code;
}
