/* The procedures that the generator cannot make from the tables: callbacks, attributes, strings with lengths
 * of their own, arguments of programs, and completion. Compiled twice, see fortran.h. */
#include "fortran.h"
#include <stdlib.h>
#include <string.h>

/* Start, clock, addresses. */

void F(mpi_init)(int *ierror) { give(ierror, C(MPI_Init)(NULL, NULL)); }
SAME_IN_F08(mpi_init);

void F(mpi_init_thread)(const int *required, int *provided, int *ierror) {
    give(ierror, C(MPI_Init_thread)(NULL, NULL, *required, provided));
}
SAME_IN_F08(mpi_init_thread);

void F(mpi_info_create_env)(int *info, int *ierror) {
    MPI_Info made;
    int code = C(MPI_Info_create_env)(0, NULL, &made);
    if (code == MPI_SUCCESS) {
        *info = info_f(made);
    }
    give(ierror, code);
}
SAME_IN_F08(mpi_info_create_env);

void F(mpi_pcontrol)(const int *level) { C(MPI_Pcontrol)(*level); }
SAME_IN_F08(mpi_pcontrol);

double F(mpi_wtime)(void) { return C(MPI_Wtime)(); }
SAME_IN_F08(mpi_wtime);

double F(mpi_wtick)(void) { return C(MPI_Wtick)(); }
SAME_IN_F08(mpi_wtick);

MPI_Aint F(mpi_aint_add)(const MPI_Aint *base, const MPI_Aint *disp) { return C(MPI_Aint_add)(*base, *disp); }
SAME_IN_F08(mpi_aint_add);

MPI_Aint F(mpi_aint_diff)(const MPI_Aint *addr1, const MPI_Aint *addr2) { return C(MPI_Aint_diff)(*addr1, *addr2); }
SAME_IN_F08(mpi_aint_diff);

/* A call that the compiler cannot look into is all that is asked for (MPI-5.0 §19.1.8). */
void F(mpi_f_sync_reg)(void *buffer) { (void)buffer; }
void F08TS(mpi_f_sync_reg)(struct descriptor *buffer) { (void)buffer; }

void F08TS(mpi_sizeof)(const struct descriptor *x, int *size, int *ierror) {
    *size = (int)x->element;
    give(ierror, MPI_SUCCESS);
}

/* Statuses have one layout (MPI-5.0 §20.4.3). */
static void copy_status(const void *from, void *to, int *ierror) {
    memcpy(to, from, sizeof(MPI_Status));
    give(ierror, MPI_SUCCESS);
}

void F(mpi_status_f2f08)(const int *from, void *to, int *ierror) { copy_status(from, to, ierror); }
SAME_IN_F08(mpi_status_f2f08);

void F(mpi_status_f082f)(const void *from, int *to, int *ierror) { copy_status(from, to, ierror); }
SAME_IN_F08(mpi_status_f082f);

/* Operations and error handlers. */

#define NO_SLOT "the program has more functions of this kind than the 256 that there is room for"

#define OP_CREATE(name, c_name, trampoline)                                                                   \
    {                                                                                                         \
        MPI_Op made;                                                                                          \
        __typeof__(trampoline(NULL)) called = trampoline((void *)user_fn);                                    \
        int code = called ? C(c_name)(called, *commute != 0, &made) : fail(MPI_ERR_NO_MEM, NO_SLOT);          \
        if (code == MPI_SUCCESS) {                                                                            \
            *op = op_f(made);                                                                                 \
        }                                                                                                     \
        give(ierror, code);                                                                                   \
    }
void F(mpi_op_create)(void (*user_fn)(void), const int *commute, int *op, int *ierror)
    OP_CREATE(mpi_op_create, MPI_Op_create, operation_trampoline)
SAME_IN_F08(mpi_op_create);
void F08(mpi_op_create_c)(void (*user_fn)(void), const int *commute, int *op, int *ierror)
    OP_CREATE(mpi_op_create_c, MPI_Op_create_c, large_operation_trampoline)

#define CREATE_ERRHANDLER(name, c_name, type, kind)                                                           \
    void F(name)(void (*function)(void), int *errhandler, int *ierror) {                                      \
        MPI_Errhandler made;                                                                                  \
        type *called = (type *)errhandler_trampoline((void *)function, kind);                                 \
        int code = called ? C(c_name)(called, &made) : fail(MPI_ERR_NO_MEM, NO_SLOT);                         \
        if (code == MPI_SUCCESS) {                                                                            \
            *errhandler = errhandler_f(made);                                                                 \
        }                                                                                                     \
        give(ierror, code);                                                                                   \
    }                                                                                                         \
    SAME_IN_F08(name);
CREATE_ERRHANDLER(mpi_comm_create_errhandler, MPI_Comm_create_errhandler, MPI_Comm_errhandler_function, OF_COMM)
CREATE_ERRHANDLER(mpi_win_create_errhandler, MPI_Win_create_errhandler, MPI_Win_errhandler_function, OF_WIN)
CREATE_ERRHANDLER(mpi_file_create_errhandler, MPI_File_create_errhandler, MPI_File_errhandler_function, OF_FILE)
CREATE_ERRHANDLER(mpi_session_create_errhandler, MPI_Session_create_errhandler, MPI_Session_errhandler_function,
                  OF_SESSION)

/* Attributes. The predefined copy and delete functions are procedures that a program may also call. */

#define NULL_COPY(name, integer)                                                                              \
    void F(name)(int *object, int *keyval, integer *extra, integer *in, integer *out, int *flag, int *ierror) { \
        (void)object, (void)keyval, (void)extra, (void)in, (void)out;                                         \
        *flag = 0;                                                                                            \
        *ierror = MPI_SUCCESS;                                                                                \
    }
#define DUP(name, integer)                                                                                    \
    void F(name)(int *object, int *keyval, integer *extra, integer *in, integer *out, int *flag, int *ierror) { \
        (void)object, (void)keyval, (void)extra;                                                              \
        *out = *in;                                                                                           \
        *flag = 1;                                                                                            \
        *ierror = MPI_SUCCESS;                                                                                \
    }
#define NULL_DELETE(name, integer)                                                                            \
    void F(name)(int *object, int *keyval, integer *value, integer *extra, int *ierror) {                     \
        (void)object, (void)keyval, (void)value, (void)extra;                                                 \
        *ierror = MPI_SUCCESS;                                                                                \
    }
NULL_COPY(mpi_comm_null_copy_fn, MPI_Aint)
NULL_COPY(mpi_type_null_copy_fn, MPI_Aint)
NULL_COPY(mpi_win_null_copy_fn, MPI_Aint)
NULL_COPY(mpi_null_copy_fn, int)
DUP(mpi_comm_dup_fn, MPI_Aint)
DUP(mpi_type_dup_fn, MPI_Aint)
DUP(mpi_win_dup_fn, MPI_Aint)
DUP(mpi_dup_fn, int)
NULL_DELETE(mpi_comm_null_delete_fn, MPI_Aint)
NULL_DELETE(mpi_type_null_delete_fn, MPI_Aint)
NULL_DELETE(mpi_win_null_delete_fn, MPI_Aint)
NULL_DELETE(mpi_null_delete_fn, int)

#define NO_STATE "there is no memory to remember functions of the program"
#define NO_BOX "there is no memory for the value of an attribute"

#define KEYVALS(object, Object, type, name)                                                                   \
    void F(mpi_##object##_create_keyval)(void (*copy)(void), void (*remove)(void), int *keyval,               \
                                         const MPI_Aint *extra, int *ierror) {                                \
        void *state = keyval_state((void *)copy, (void *)remove, *extra, false);                              \
        give(ierror, state ? C(MPI_##Object##_create_keyval)(object##_copy_trampoline,                        \
                                                             object##_delete_trampoline, keyval, state)       \
                           : fail(MPI_ERR_NO_MEM, NO_STATE));                                                 \
    }                                                                                                         \
    SAME_IN_F08(mpi_##object##_create_keyval);                                                                \
    void F(mpi_##object##_set_attr)(const int *handle, const int *keyval, const MPI_Aint *value,              \
                                    int *ierror) {                                                            \
        type of = name##_c(*handle);                                                                          \
        void *box = box_new(*value);                                                                          \
        if (!box) {                                                                                           \
            give(ierror, fail(MPI_ERR_NO_MEM, NO_BOX));                                                       \
            return;                                                                                           \
        }                                                                                                     \
        int code = C(MPI_##Object##_set_attr)(of, key_c(*keyval), box);                                              \
        if (code != MPI_SUCCESS) {                                                                            \
            box_free(box);                                                                                    \
        }                                                                                                     \
        give(ierror, code);                                                                                   \
    }                                                                                                         \
    SAME_IN_F08(mpi_##object##_set_attr);                                                                     \
    void F(mpi_##object##_delete_attr)(const int *handle, const int *keyval, int *ierror) {                   \
        give(ierror, C(MPI_##Object##_delete_attr)(name##_c(*handle), key_c(*keyval)));                              \
    }                                                                                                         \
    SAME_IN_F08(mpi_##object##_delete_attr);
KEYVALS(comm, Comm, MPI_Comm, comm)
KEYVALS(type, Type, MPI_Datatype, datatype)
KEYVALS(win, Win, MPI_Win, win)

/* What Fortran sees: what Fortran set, the value of a predefined attribute, or the address that C set. */
static MPI_Aint comm_value(int keyval, void *attribute) {
    MPI_Aint value;
    if (is_predefined_key(keyval)) {
        return *(int *)attribute;
    }
    return box_read(attribute, &value) ? value : (MPI_Aint)attribute;
}

static MPI_Aint win_value(int keyval, void *attribute) {
    switch (keyval) {
    case MPI_WIN_SIZE: return *(MPI_Aint *)attribute;
    case MPI_WIN_DISP_UNIT:
    case MPI_WIN_CREATE_FLAVOR:
    case MPI_WIN_MODEL: return *(int *)attribute;
    case MPI_WIN_BASE: return (MPI_Aint)attribute;
    default: return comm_value(MPI_KEYVAL_INVALID, attribute);
    }
}

static MPI_Aint type_value(int keyval, void *attribute) {
    (void)keyval;
    return comm_value(MPI_KEYVAL_INVALID, attribute);
}

/* Without an attribute the value is 0, as with MPICH: the standard leaves it undefined. */
#define GET_ATTR(object, Object, name)                                                                        \
    void F(mpi_##object##_get_attr)(const int *handle, const int *keyval, MPI_Aint *value, int *flag,         \
                                    int *ierror) {                                                            \
        void *attribute = NULL;                                                                               \
        int found = 0;                                                                                        \
        int code = C(MPI_##Object##_get_attr)(name##_c(*handle), key_c(*keyval), &attribute, &found);                \
        if (code == MPI_SUCCESS) {                                                                            \
            *flag = found != 0;                                                                               \
            *value = found ? object##_value(key_c(*keyval), attribute) : 0;                                   \
        }                                                                                                     \
        give(ierror, code);                                                                                   \
    }                                                                                                         \
    SAME_IN_F08(mpi_##object##_get_attr);
GET_ATTR(comm, Comm, comm)
GET_ATTR(type, Type, datatype)
GET_ATTR(win, Win, win)

/* The same of MPI-1, where values are of type INTEGER (MPI-5.0 §16.1). */

void F(mpi_keyval_create)(void (*copy)(void), void (*remove)(void), int *keyval, const int *extra, int *ierror) {
    void *state = keyval_state((void *)copy, (void *)remove, *extra, true);
    *ierror = state ? C(MPI_Keyval_create)(comm_copy_trampoline, comm_delete_trampoline, keyval, state)
                    : fail(MPI_ERR_NO_MEM, NO_STATE);
}

void F(mpi_attr_put)(const int *comm, const int *keyval, const int *value, int *ierror) {
    void *box = box_new(*value);
    int code = box ? C(MPI_Attr_put)(comm_c(*comm), key_c(*keyval), box) : fail(MPI_ERR_NO_MEM, NO_BOX);
    if (box && code != MPI_SUCCESS) {
        box_free(box);
    }
    *ierror = code;
}

void F(mpi_attr_get)(const int *comm, const int *keyval, int *value, int *flag, int *ierror) {
    void *attribute = NULL;
    int found = 0;
    int code = C(MPI_Attr_get)(comm_c(*comm), key_c(*keyval), &attribute, &found);
    if (code == MPI_SUCCESS) {
        *flag = found != 0;
        *value = found ? (int)comm_value(key_c(*keyval), attribute) : 0;
    }
    *ierror = code;
}

void F(mpi_attr_delete)(const int *comm, const int *keyval, int *ierror) {
    *ierror = C(MPI_Attr_delete)(comm_c(*comm), key_c(*keyval));
}

/* Generalized requests and data representations. */

void F(mpi_grequest_start)(void (*query)(void), void (*release)(void), void (*cancel)(void), const MPI_Aint *extra,
                           int *request, int *ierror) {
    MPI_Request made;
    void *state = grequest_state((void *)query, (void *)release, (void *)cancel, *extra);
    int code = state ? C(MPI_Grequest_start)(grequest_query_trampoline, grequest_free_trampoline,
                                             grequest_cancel_trampoline, state, &made)
                     : fail(MPI_ERR_NO_MEM, NO_STATE);
    if (code == MPI_SUCCESS) {
        *request = request_f(made);
    } else {
        free(state);
    }
    give(ierror, code);
}
SAME_IN_F08(mpi_grequest_start);

void mpi_conversion_fn_null_(void);
void mpi_conversion_fn_null_c_(void);
#ifndef WEFT_PROFILING
/* They are recognised by their address and never called. */
void mpi_conversion_fn_null_(void) {}
void mpi_conversion_fn_null_c_(void) {}
void pmpi_conversion_fn_null_(void) __attribute__((alias("mpi_conversion_fn_null_")));
void pmpi_conversion_fn_null_c_(void) __attribute__((alias("mpi_conversion_fn_null_c_")));
#endif

#define REGISTER_DATAREP(c_name, null, c_null, read_trampoline, write_trampoline)                             \
    {                                                                                                         \
        struct text text;                                                                                     \
        const char *called = text_open(&text, datarep, length, false);                                        \
        void *state = datarep_state((void *)read, (void *)write, (void *)extent, extra);                      \
        int code = called && state                                                                            \
                       ? C(c_name)(called, read == null ? c_null : read_trampoline,                           \
                                   write == null ? c_null : write_trampoline, datarep_extent_trampoline, state) \
                       : fail(MPI_ERR_NO_MEM, NO_STATE);                                                      \
        if (code != MPI_SUCCESS) {                                                                            \
            free(state);                                                                                      \
        }                                                                                                     \
        text_close(&text);                                                                                    \
        give(ierror, code);                                                                                   \
    }
void F(mpi_register_datarep)(const char *datarep, void (*read)(void), void (*write)(void), void (*extent)(void),
                             MPI_Aint *extra, int *ierror, size_t length)
    REGISTER_DATAREP(MPI_Register_datarep, mpi_conversion_fn_null_, MPI_CONVERSION_FN_NULL, datarep_read_trampoline,
                     datarep_write_trampoline)
SAME_IN_F08(mpi_register_datarep);
void F08(mpi_register_datarep_c)(const char *datarep, void (*read)(void), void (*write)(void), void (*extent)(void),
                                 MPI_Aint *extra, int *ierror, size_t length)
    REGISTER_DATAREP(MPI_Register_datarep_c, mpi_conversion_fn_null_c_, MPI_CONVERSION_FN_NULL_C,
                     datarep_large_read_trampoline, datarep_large_write_trampoline)

/* Strings whose lengths are arguments. The length that the program says holds without C's end mark. */

void F(mpi_info_get)(const int *info, const char *key, const int *valuelen, char *value, int *flag, int *ierror,
                     size_t key_length, size_t value_length) {
    struct text text;
    const char *called = text_open(&text, key, key_length, true);
    size_t room = *valuelen < 0 ? 0 : (size_t)*valuelen;
    char *got = called ? calloc(room + 1, 1) : NULL;
    int found = 0;
    int code = got ? C(MPI_Info_get)(info_c(*info), called, *valuelen, got, &found)
                   : fail(MPI_ERR_NO_MEM, "there is no memory for the value of an info object");
    if (code == MPI_SUCCESS) {
        *flag = found != 0;
        if (found) {
            text_give(value, value_length, got);
        }
    }
    free(got);
    text_close(&text);
    give(ierror, code);
}
SAME_IN_F08(mpi_info_get);

void F(mpi_info_get_string)(const int *info, const char *key, int *buflen, char *value, int *flag, int *ierror,
                            size_t key_length, size_t value_length) {
    struct text text;
    const char *called = text_open(&text, key, key_length, true);
    /* In Fortran, lengths are those of the value itself (MPI-5.0 §10). */
    int room = *buflen <= 0 ? 0 : *buflen + 1, found = 0;
    char *got = called ? calloc((size_t)room + 1, 1) : NULL;
    int code = got ? C(MPI_Info_get_string)(info_c(*info), called, &room, got, &found)
                   : fail(MPI_ERR_NO_MEM, "there is no memory for the value of an info object");
    if (code == MPI_SUCCESS) {
        *flag = found != 0;
        if (found) {
            if (*buflen > 0) {
                text_give(value, value_length, got);
            }
            *buflen = room - 1;
        }
    }
    free(got);
    text_close(&text);
    give(ierror, code);
}
SAME_IN_F08(mpi_info_get_string);

void F(mpi_session_get_nth_pset)(const int *session, const int *info, const int *n, int *pset_len, char *pset_name,
                                 int *ierror, size_t length) {
    int room = *pset_len <= 0 ? 0 : *pset_len + 1;
    char *got = calloc((size_t)room + 1, 1);
    int code = got ? C(MPI_Session_get_nth_pset)(session_c(*session), info_c(*info), *n, &room, got)
                   : fail(MPI_ERR_NO_MEM, "there is no memory for the name of a process set");
    if (code == MPI_SUCCESS) {
        if (*pset_len > 0) {
            text_give(pset_name, length, got);
        }
        *pset_len = room - 1;
    }
    free(got);
    give(ierror, code);
}
SAME_IN_F08(mpi_session_get_nth_pset);

/* Buffers that are detached: mpi_f08 gives their address, mpif.h and the module mpi do not (MPI-5.0 §3.6). */

/* The address of the constant is what stands for buffers that MPI makes. */
static void *detached_f(void *buffer) {
    return buffer == MPI_BUFFER_AUTOMATIC ? BUFFER_AUTOMATIC : buffer;
}

#define DETACH(name, c_name, of, handle)                                                                      \
    void F(name)(of void *buffer, int *size, int *ierror) {                                                   \
        void *detached;                                                                                       \
        (void)buffer;                                                                                         \
        *ierror = C(c_name)(handle &detached, size);                                                          \
    }                                                                                                         \
    void F08(name)(of void **buffer, int *size, int *ierror) {                                                \
        int code = C(c_name)(handle buffer, size);                                                            \
        *buffer = code == MPI_SUCCESS ? detached_f(*buffer) : NULL;                                           \
        give(ierror, code);                                                                                   \
    }                                                                                                         \
    void F08(name##_c)(of void **buffer, MPI_Count *size, int *ierror) {                                      \
        int code = C(c_name##_c)(handle buffer, size);                                                        \
        *buffer = code == MPI_SUCCESS ? detached_f(*buffer) : NULL;                                           \
        give(ierror, code);                                                                                   \
    }
#define OF const int *of,
#define COMM comm_c(*of),
#define SESSION session_c(*of),
DETACH(mpi_buffer_detach, MPI_Buffer_detach, , )
DETACH(mpi_comm_detach_buffer, MPI_Comm_detach_buffer, OF, COMM)
DETACH(mpi_session_detach_buffer, MPI_Session_detach_buffer, OF, SESSION)

/* Datatypes that are taken apart. Only the entries that the datatype has are written. */

#define GET_CONTENTS(count, envelope, contents, ...)                                                          \
    MPI_Datatype type = datatype_c(*datatype);                                                                \
    count number = 0;                                                                                         \
    int code = envelope;                                                                                      \
    struct room room;                                                                                         \
    MPI_Datatype *types = (MPI_Datatype *)room_open(&room, *max_datatypes);                                   \
    if (code == MPI_SUCCESS && !types) {                                                                      \
        code = fail(MPI_ERR_NO_MEM, "there is no memory for the parts of a datatype");                        \
    }                                                                                                         \
    if (code == MPI_SUCCESS) {                                                                                \
        code = contents;                                                                                      \
    }                                                                                                         \
    for (count i = 0; code == MPI_SUCCESS && i < number && i < *max_datatypes; i++) {                         \
        array_of_datatypes[i] = datatype_f(types[i]);                                                         \
    }                                                                                                         \
    room_close(&room);                                                                                        \
    give(ierror, code);
void F(mpi_type_get_contents)(const int *datatype, const int *max_integers, const int *max_addresses,
                              const int *max_datatypes, int *array_of_integers, MPI_Aint *array_of_addresses,
                              int *array_of_datatypes, int *ierror) {
    int integers, addresses, combiner;
    GET_CONTENTS(int, PMPI_Type_get_envelope(type, &integers, &addresses, &number, &combiner),
                 C(MPI_Type_get_contents)(type, *max_integers, *max_addresses, *max_datatypes, array_of_integers,
                                          array_of_addresses, types))
}
SAME_IN_F08(mpi_type_get_contents);
void F08(mpi_type_get_contents_c)(const int *datatype, const MPI_Count *max_integers, const MPI_Count *max_addresses,
                                  const MPI_Count *max_large_counts, const MPI_Count *max_datatypes,
                                  int *array_of_integers, MPI_Aint *array_of_addresses,
                                  MPI_Count *array_of_large_counts, int *array_of_datatypes, int *ierror) {
    MPI_Count integers, addresses, large_counts;
    int combiner;
    GET_CONTENTS(MPI_Count,
                 PMPI_Type_get_envelope_c(type, &integers, &addresses, &large_counts, &number, &combiner),
                 C(MPI_Type_get_contents_c)(type, *max_integers, *max_addresses, *max_large_counts, *max_datatypes,
                                            array_of_integers, array_of_addresses, array_of_large_counts, types))
}

/* Programs to spawn. Arguments are an array of strings of one length, which a blank string ends. */

/* Every `step`-th string, until a blank one or `limit` of them, as a C array in one piece of memory. */
static char **strings(const char *from, size_t length, size_t step, size_t limit) {
    size_t number = 0, used = 0;
    for (; number < limit; number++, used = 0) {
        const char *string = from + number * step * length;
        for (used = length; used > 0 && string[used - 1] == ' '; used--) {
        }
        if (used == 0 && limit == SIZE_MAX) {
            break;
        }
    }
    char **made = malloc((number + 1) * sizeof *made + number * (length + 1));
    if (!made) {
        return NULL;
    }
    char *at = (char *)(made + number + 1);
    for (size_t i = 0; i < number; i++, at += length + 1) {
        const char *string = from + i * step * length;
        for (used = length; used > 0 && string[used - 1] == ' '; used--) {
        }
        memcpy(at, string, used);
        at[used] = '\0';
        made[i] = at;
    }
    made[number] = NULL;
    return made;
}

static int *errcodes_c(int *errcodes) { return is_errcodes_ignore(errcodes) ? MPI_ERRCODES_IGNORE : errcodes; }

void F(mpi_comm_spawn)(const char *command, const char *argv, const int *maxprocs, const int *info, const int *root,
                       const int *comm, int *intercomm, int *array_of_errcodes, int *ierror, size_t command_length,
                       size_t argv_length) {
    struct text text;
    const char *program = text_open(&text, command, command_length, false);
    char **arguments = is_argv_null(argv) ? NULL : strings(argv, argv_length, 1, SIZE_MAX);
    MPI_Comm made;
    int code = program && (arguments || is_argv_null(argv))
                   ? C(MPI_Comm_spawn)(program, arguments, *maxprocs, info_c(*info), *root, comm_c(*comm), &made,
                                       errcodes_c(array_of_errcodes))
                   : fail(MPI_ERR_NO_MEM, "there is no memory for the arguments of a program");
    if (code == MPI_SUCCESS) {
        *intercomm = comm_f(made);
    }
    free(arguments);
    text_close(&text);
    give(ierror, code);
}
SAME_IN_F08(mpi_comm_spawn);

/* The arguments of program i are argv(i, 1), argv(i, 2), …: every `count`-th string. */
void F(mpi_comm_spawn_multiple)(const int *count, const char *array_of_commands, const char *array_of_argv,
                                const int *array_of_maxprocs, const int *array_of_info, const int *root,
                                const int *comm, int *intercomm, int *array_of_errcodes, int *ierror,
                                size_t command_length, size_t argv_length) {
    size_t number = *count > 0 ? (size_t)*count : 0;
    bool none = is_argvs_null(array_of_argv);
    char **commands = strings(array_of_commands, command_length, 1, number);
    char ***arguments = calloc(number + 1, sizeof *arguments);
    MPI_Info *infos = calloc(number + 1, sizeof *infos);
    bool is_room = commands && arguments && infos;
    for (size_t i = 0; is_room && i < number; i++) {
        infos[i] = info_c(array_of_info[i]);
        arguments[i] = none ? NULL : strings(array_of_argv + i * argv_length, argv_length, number, SIZE_MAX);
        is_room = none || arguments[i];
    }
    MPI_Comm made;
    int code = is_room ? C(MPI_Comm_spawn_multiple)(*count, commands, none ? MPI_ARGVS_NULL : arguments,
                                                    array_of_maxprocs, infos, *root, comm_c(*comm), &made,
                                                    errcodes_c(array_of_errcodes))
                       : fail(MPI_ERR_NO_MEM, "there is no memory for the arguments of programs");
    if (code == MPI_SUCCESS) {
        *intercomm = comm_f(made);
    }
    for (size_t i = 0; arguments && i < number; i++) {
        free(arguments[i]);
    }
    free(arguments);
    free(infos);
    free(commands);
    give(ierror, code);
}
SAME_IN_F08(mpi_comm_spawn_multiple);

/* Completion. Indices count from 1 in Fortran. */

/* Gives a request back to the program after a call that may have completed it. `taken` is what is kept. */
static void request_give(struct kept *taken, int *request, MPI_Request now, bool completed) {
    if (taken && completed) {
        kept_settle(taken, *request, now == MPI_REQUEST_NULL);
    }
    *request = request_f(now);
}

static struct kept *take(const int *requests, int count) { return any_kept() ? kept_take(requests, count) : NULL; }

static void give_back(struct kept *taken) {
    if (taken) {
        kept_return(taken);
    }
}

void F(mpi_wait)(int *request, void *status, int *ierror) {
    MPI_Request one = request_c(*request);
    struct kept *taken = take(request, 1);
    int code = C(MPI_Wait)(&one, status_c(status));
    request_give(taken, request, one, true);
    give_back(taken);
    give(ierror, code);
}
SAME_IN_F08(mpi_wait);

void F(mpi_test)(int *request, int *flag, void *status, int *ierror) {
    MPI_Request one = request_c(*request);
    int done = 0;
    struct kept *taken = take(request, 1);
    int code = C(MPI_Test)(&one, &done, status_c(status));
    *flag = done != 0;
    request_give(taken, request, one, done != 0);
    give_back(taken);
    give(ierror, code);
}
SAME_IN_F08(mpi_test);

void F(mpi_request_get_status)(const int *request, int *flag, void *status, int *ierror) {
    int done = 0;
    int code = C(MPI_Request_get_status)(request_c(*request), &done, status_c(status));
    *flag = done != 0;
    if (done && any_kept()) {
        kept_complete(*request);
    }
    give(ierror, code);
}
SAME_IN_F08(mpi_request_get_status);

void F(mpi_request_free)(int *request, int *ierror) {
    MPI_Request one = request_c(*request);
    int old = *request, code = C(MPI_Request_free)(&one);
    if (code == MPI_SUCCESS) {
        *request = request_f(one);
        if (any_kept()) {
            kept_free(old);
        }
    }
    give(ierror, code);
}
SAME_IN_F08(mpi_request_free);

void F(mpi_start)(int *request, int *ierror) {
    MPI_Request one = request_c(*request);
    if (any_kept()) {
        kept_start(*request);
    }
    int code = C(MPI_Start)(&one);
    *request = request_f(one);
    give(ierror, code);
}
SAME_IN_F08(mpi_start);

#define NO_ROOM "there is no memory for an array of requests"

/* Opens room for the requests of an array; on failure gives the error and returns. */
#define REQUESTS(number)                                                                                      \
    struct room room;                                                                                         \
    MPI_Request *requests = (MPI_Request *)room_open(&room, number);                                          \
    if (!requests) {                                                                                          \
        give(ierror, fail(MPI_ERR_NO_MEM, NO_ROOM));                                                          \
        return;                                                                                               \
    }                                                                                                         \
    for (int i = 0; i < (number); i++) {                                                                      \
        requests[i] = request_c(array_of_requests[i]);                                                        \
    }

void F(mpi_startall)(const int *count, int *array_of_requests, int *ierror) {
    REQUESTS(*count)
    for (int i = 0; any_kept() && i < *count; i++) {
        kept_start(array_of_requests[i]);
    }
    int code = C(MPI_Startall)(*count, requests);
    for (int i = 0; i < *count; i++) {
        array_of_requests[i] = request_f(requests[i]);
    }
    room_close(&room);
    give(ierror, code);
}
SAME_IN_F08(mpi_startall);

/* After a failure in one of them, those that have completed are those that are gone. */
static void all_give(struct kept *taken, int count, int *array, const MPI_Request *requests, bool completed) {
    for (int i = 0; i < count; i++) {
        request_give(taken, &array[i], requests[i], completed || requests[i] == MPI_REQUEST_NULL);
    }
    give_back(taken);
}

void F(mpi_waitall)(const int *count, int *array_of_requests, void *array_of_statuses, int *ierror) {
    REQUESTS(*count)
    struct kept *taken = take(array_of_requests, *count);
    int code = C(MPI_Waitall)(*count, requests, statuses_c(array_of_statuses));
    all_give(taken, *count, array_of_requests, requests, code == MPI_SUCCESS);
    room_close(&room);
    give(ierror, code);
}
SAME_IN_F08(mpi_waitall);

void F(mpi_testall)(const int *count, int *array_of_requests, int *flag, void *array_of_statuses, int *ierror) {
    REQUESTS(*count)
    int done = 0;
    struct kept *taken = take(array_of_requests, *count);
    int code = C(MPI_Testall)(*count, requests, &done, statuses_c(array_of_statuses));
    *flag = done != 0;
    all_give(taken, *count, array_of_requests, requests, done != 0);
    room_close(&room);
    give(ierror, code);
}
SAME_IN_F08(mpi_testall);

void F(mpi_request_get_status_all)(const int *count, const int *array_of_requests, int *flag,
                                   void *array_of_statuses, int *ierror) {
    REQUESTS(*count)
    int done = 0;
    int code = C(MPI_Request_get_status_all)(*count, requests, &done, statuses_c(array_of_statuses));
    *flag = done != 0;
    for (int i = 0; done && any_kept() && i < *count; i++) {
        kept_complete(array_of_requests[i]);
    }
    room_close(&room);
    give(ierror, code);
}
SAME_IN_F08(mpi_request_get_status_all);

/* Takes over the requests of an array where at most one has completed, and gives its index. */
static void any_give(struct kept *taken, int count, int *array, const MPI_Request *requests, int completed, int *index) {
    for (int i = 0; i < count; i++) {
        request_give(taken, &array[i], requests[i], i == completed);
    }
    give_back(taken);
    *index = completed == MPI_UNDEFINED ? completed : completed + 1;
}

void F(mpi_waitany)(const int *count, int *array_of_requests, int *index, void *status, int *ierror) {
    REQUESTS(*count)
    int completed = MPI_UNDEFINED;
    struct kept *taken = take(array_of_requests, *count);
    int code = C(MPI_Waitany)(*count, requests, &completed, status_c(status));
    any_give(taken, *count, array_of_requests, requests, completed, index);
    room_close(&room);
    give(ierror, code);
}
SAME_IN_F08(mpi_waitany);

void F(mpi_testany)(const int *count, int *array_of_requests, int *index, int *flag, void *status, int *ierror) {
    REQUESTS(*count)
    int completed = MPI_UNDEFINED, done = 0;
    struct kept *taken = take(array_of_requests, *count);
    int code = C(MPI_Testany)(*count, requests, &completed, &done, status_c(status));
    *flag = done != 0;
    any_give(taken, *count, array_of_requests, requests, done ? completed : MPI_UNDEFINED, index);
    room_close(&room);
    give(ierror, code);
}
SAME_IN_F08(mpi_testany);

void F(mpi_request_get_status_any)(const int *count, const int *array_of_requests, int *index, int *flag,
                                   void *status, int *ierror) {
    REQUESTS(*count)
    int completed = MPI_UNDEFINED, done = 0;
    int code = C(MPI_Request_get_status_any)(*count, requests, &completed, &done, status_c(status));
    *flag = done != 0;
    *index = completed == MPI_UNDEFINED ? completed : completed + 1;
    if (done && completed != MPI_UNDEFINED && any_kept()) {
        kept_complete(array_of_requests[completed]);
    }
    room_close(&room);
    give(ierror, code);
}
SAME_IN_F08(mpi_request_get_status_any);

/* Takes over the requests of which some have completed, and counts their indices from 1. */
static void some_give(struct kept *taken, int count, int *array, const MPI_Request *requests, int completed, int *indices) {
    for (int i = 0; i < completed; i++) {
        request_give(taken, &array[indices[i]], requests[indices[i]], true);
        indices[i]++;
    }
    for (int i = 0; i < count; i++) {
        array[i] = request_f(requests[i]);
    }
    give_back(taken);
}

void F(mpi_waitsome)(const int *incount, int *array_of_requests, int *outcount, int *array_of_indices,
                     void *array_of_statuses, int *ierror) {
    REQUESTS(*incount)
    *outcount = MPI_UNDEFINED;
    struct kept *taken = take(array_of_requests, *incount);
    int code = C(MPI_Waitsome)(*incount, requests, outcount, array_of_indices, statuses_c(array_of_statuses));
    some_give(taken, *incount, array_of_requests, requests, *outcount, array_of_indices);
    room_close(&room);
    give(ierror, code);
}
SAME_IN_F08(mpi_waitsome);

void F(mpi_testsome)(const int *incount, int *array_of_requests, int *outcount, int *array_of_indices,
                     void *array_of_statuses, int *ierror) {
    REQUESTS(*incount)
    *outcount = MPI_UNDEFINED;
    struct kept *taken = take(array_of_requests, *incount);
    int code = C(MPI_Testsome)(*incount, requests, outcount, array_of_indices, statuses_c(array_of_statuses));
    some_give(taken, *incount, array_of_requests, requests, *outcount, array_of_indices);
    room_close(&room);
    give(ierror, code);
}
SAME_IN_F08(mpi_testsome);

void F(mpi_request_get_status_some)(const int *incount, const int *array_of_requests, int *outcount,
                                    int *array_of_indices, void *array_of_statuses, int *ierror) {
    REQUESTS(*incount)
    *outcount = MPI_UNDEFINED;
    int code = C(MPI_Request_get_status_some)(*incount, requests, outcount, array_of_indices,
                                              statuses_c(array_of_statuses));
    for (int i = 0; i < *outcount; i++) {
        if (any_kept()) {
            kept_complete(array_of_requests[array_of_indices[i]]);
        }
        array_of_indices[i]++;
    }
    room_close(&room);
    give(ierror, code);
}
SAME_IN_F08(mpi_request_get_status_some);

/* Procedures that MPI-3.0 removed, and that programs with mpif.h still call (MPI-5.0 §17.1). Their addresses
 * and displacements are of type INTEGER. */

ALSO(mpi_errhandler_create, mpi_comm_create_errhandler);

void F(mpi_errhandler_get)(const int *comm, int *errhandler, int *ierror) {
    MPI_Errhandler found;
    *ierror = C(MPI_Comm_get_errhandler)(comm_c(*comm), &found);
    if (*ierror == MPI_SUCCESS) {
        *errhandler = errhandler_f(found);
    }
}

void F(mpi_errhandler_set)(const int *comm, const int *errhandler, int *ierror) {
    *ierror = C(MPI_Comm_set_errhandler)(comm_c(*comm), errhandler_c(*errhandler));
}

/* Gives a number that must be small enough. */
static int give_small(MPI_Aint number, int *to) {
    if (number < INT32_MIN || number > INT32_MAX) {
        return fail(MPI_ERR_ARG, "an INTEGER is too small for this address or extent; MPI_Get_address and "
                                 "MPI_Type_get_extent take INTEGER(KIND=MPI_ADDRESS_KIND)");
    }
    *to = (int)number;
    return MPI_SUCCESS;
}

void F(mpi_address)(void *location, int *address, int *ierror) {
    MPI_Aint found = 0;
    int code = C(MPI_Get_address)(buffer_c(location), &found);
    *ierror = code == MPI_SUCCESS ? give_small(found, address) : code;
}

static int bound(int datatype, int *lower, int *upper, int *extent) {
    MPI_Aint start, length;
    int code = C(MPI_Type_get_extent)(datatype_c(datatype), &start, &length);
    if (code == MPI_SUCCESS && lower) {
        code = give_small(start, lower);
    } else if (code == MPI_SUCCESS && upper) {
        code = give_small(start + length, upper);
    } else if (code == MPI_SUCCESS) {
        code = give_small(length, extent);
    }
    return code;
}

void F(mpi_type_extent)(const int *datatype, int *extent, int *ierror) { *ierror = bound(*datatype, NULL, NULL, extent); }
void F(mpi_type_lb)(const int *datatype, int *lower, int *ierror) { *ierror = bound(*datatype, lower, NULL, NULL); }
void F(mpi_type_ub)(const int *datatype, int *upper, int *ierror) { *ierror = bound(*datatype, NULL, upper, NULL); }

void F(mpi_type_hvector)(const int *count, const int *blocklength, const int *stride, const int *oldtype, int *newtype,
                         int *ierror) {
    MPI_Datatype made;
    *ierror = C(MPI_Type_create_hvector)(*count, *blocklength, *stride, datatype_c(*oldtype), &made);
    if (*ierror == MPI_SUCCESS) {
        *newtype = datatype_f(made);
    }
}

/* A structure, or blocks of one datatype: then `types` is null. */
static int blocks(int count, const int *lengths, const int *displacements, const int *types, MPI_Datatype of,
                  int *newtype) {
    size_t number = count > 0 ? (size_t)count : 0;
    MPI_Aint *places = calloc(number + 1, sizeof *places);
    MPI_Datatype *parts = calloc(number + 1, sizeof *parts), made;
    int code;
    if (places && parts) {
        for (size_t i = 0; i < number; i++) {
            places[i] = displacements[i];
            parts[i] = types ? datatype_c(types[i]) : of;
        }
        code = types ? C(MPI_Type_create_struct)(count, lengths, places, parts, &made)
                     : C(MPI_Type_create_hindexed)(count, lengths, places, of, &made);
    } else {
        code = fail(MPI_ERR_NO_MEM, "there is no memory for the parts of a datatype");
    }
    if (code == MPI_SUCCESS) {
        *newtype = datatype_f(made);
    }
    free(places);
    free(parts);
    return code;
}

void F(mpi_type_hindexed)(const int *count, const int *lengths, const int *displacements, const int *oldtype,
                          int *newtype, int *ierror) {
    *ierror = blocks(*count, lengths, displacements, NULL, datatype_c(*oldtype), newtype);
}

void F(mpi_type_struct)(const int *count, const int *lengths, const int *displacements, const int *types, int *newtype,
                        int *ierror) {
    *ierror = blocks(*count, lengths, displacements, types, MPI_DATATYPE_NULL, newtype);
}
