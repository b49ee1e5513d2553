/* Open MPI's ABI: handles are addresses, and a status has 24 bytes. Facts are from mpi.h of Open MPI 5.0.11.
 *
 * A predefined handle is the address of a variable. A program that is not position independent has a copy
 * of the variable, and the address is the copy's. So what counts is what the variable holds: the
 * standard's handle, in its first word. Handles of the library stay as they are. They are told from
 * addresses by their lowest four bits: those hold the kind of the object, and variables lie at multiples
 * of 16. */
#ifndef WEFT_FACE_ABI_H
#define WEFT_FACE_ABI_H

#define HANDLES_ARE_ADDRESSES
#define KIND_BITS 15

typedef struct ompi_communicator_t *F_Comm;
typedef struct ompi_datatype_t *F_Datatype;
typedef struct ompi_errhandler_t *F_Errhandler;
typedef struct ompi_file_t *F_File;
typedef struct ompi_group_t *F_Group;
typedef struct ompi_info_t *F_Info;
typedef struct ompi_message_t *F_Message;
typedef struct ompi_op_t *F_Op;
typedef struct ompi_request_t *F_Request;
typedef struct ompi_instance_t *F_Session;
typedef struct ompi_win_t *F_Win;

typedef struct {
    int MPI_SOURCE;
    int MPI_TAG;
    int MPI_ERROR;
    int cancelled;
    size_t count;
} F_Status;

/* The addresses of the predefined handles of all kinds, by their number in the standard's ABI. */
#define PREDEFINED 1024
INTERNAL extern void *const predefined[PREDEFINED];

/* Every conversion of a handle is done without a call. */
#define USUAL(word, type, f_type)                                                                             \
    static inline bool word##_is_usual(f_type handle) {                                                       \
        (void)handle;                                                                                         \
        return true;                                                                                          \
    }                                                                                                         \
    static inline type word##_usual_c(f_type handle) { return word##_c(handle); }
#define HANDLE(word, type, f_type)                                                                            \
    static inline type word##_c(f_type handle) {                                                              \
        if (!LIKELY(((uintptr_t)handle & KIND_BITS) == 0)) {                                                  \
            return (type)handle;                                                                              \
        }                                                                                                     \
        return LIKELY(handle != NULL) ? *(type const *)handle : NULL;                                         \
    }                                                                                                         \
    USUAL(word, type, f_type)                                                                                 \
    static inline f_type word##_f(type handle) {                                                              \
        return (uintptr_t)handle < PREDEFINED ? (f_type)predefined[(uintptr_t)handle] : (f_type)handle;       \
    }
HANDLE(datatype, MPI_Datatype, F_Datatype)
HANDLE(errhandler, MPI_Errhandler, F_Errhandler)
HANDLE(file, MPI_File, F_File)
HANDLE(group, MPI_Group, F_Group)
HANDLE(info, MPI_Info, F_Info)
HANDLE(message, MPI_Message, F_Message)
HANDLE(op, MPI_Op, F_Op)
HANDLE(request, MPI_Request, F_Request)
HANDLE(session, MPI_Session, F_Session)
HANDLE(win, MPI_Win, F_Win)

#undef USUAL
#define USUAL(word, type, f_type)
HANDLE(comm, MPI_Comm, F_Comm)
/* The most usual communicators are known without a look at the variable. */
EXPORTED extern const struct ompi_communicator_t world __asm__("ompi_mpi_comm_world");
static inline bool comm_is_usual(F_Comm handle) { return LIKELY(handle == &world) || ((uintptr_t)handle & KIND_BITS); }
static inline MPI_Comm comm_usual_c(F_Comm handle) { return LIKELY(handle == &world) ? MPI_COMM_WORLD : (MPI_Comm)handle; }
/* Not in the standard's ABI: the variables hold no handle. */
EXPORTED extern const struct ompi_datatype_t lower_bound __asm__("ompi_mpi_lb"), upper_bound __asm__("ompi_mpi_ub");
#define F_MPI_LB ((F_Datatype)&lower_bound)
#define F_MPI_UB ((F_Datatype)&upper_bound)
#define comm_is_known comm_is_usual
#define comm_known_c comm_usual_c

/* Handles have the same size, so they are converted where they are. */
#define HANDLE_ROOM(type, at)
#define HANDLE_AT(type, at) ((type *)(at))
#define HANDLE_START(word, at)                                                                                \
    if (at) {                                                                                                 \
        *(void **)(at) = word##_c(*(at));                                                                     \
    }
#define HANDLE_DONE(word, at)                                                                                 \
    if (at) {                                                                                                 \
        *(at) = word##_f(*(void **)(at));                                                                     \
    }

/* A request that the library gives was made by it. One that it gets becomes null, or stays. */
#define REQUEST_DONE(at)
#define REQUEST_ROOM(at)
#define REQUEST_START(at)
#define REQUEST_CHANGED(at)                                                                                   \
    if ((at) && LIKELY(*(void **)(at) == MPI_REQUEST_NULL)) {                                                 \
        *(at) = request_f(MPI_REQUEST_NULL);                                                                  \
    }
static inline bool request_is_made(F_Request handle) { return ((uintptr_t)handle & KIND_BITS) != 0; }

/* Arrays of requests that the library changes. An array that is missing is an error of the library's. */
static inline MPI_Request *requests_open(struct room *room, int count, F_Request *array) {
    (void)room;
    F_Request *from = array, *to = array;
#define REQUEST_OF_ARRAY_C(i)                                                                                 \
    if (!LIKELY(request_is_made(from[i]))) {                                                                  \
        to[i] = (F_Request)request_c(from[i]);                                                                \
    }
    if (array && count > 0) {
        FOR_EACH(count, from, to, REQUEST_OF_ARRAY_C);
    }
    return (MPI_Request *)array;
}
static inline void requests_close(struct room *room, int count, F_Request *array, MPI_Request *c) {
    (void)room;
#define REQUEST_OF_ARRAY_CHANGED(i)                                                                           \
    if (LIKELY(c[i] == MPI_REQUEST_NULL)) {                                                                   \
        array[i] = request_f(MPI_REQUEST_NULL);                                                               \
    }
    if (array && count > 0) {
        FOR_EACH(count, array, c, REQUEST_OF_ARRAY_CHANGED);
    }
}

/* MPI_IN_PLACE is the standard's. */
#define BUFFER_SIGN(buffer) 0

/* All but the error. */
static inline void status_f(const MPI_Status *from, F_Status *to) {
    to->MPI_SOURCE = rank_f(from->MPI_SOURCE);
    to->MPI_TAG = tag_f(from->MPI_TAG);
    to->cancelled = from->MPI_internal[2];
    to->count = (uint32_t)from->MPI_internal[0] | (size_t)(uint32_t)from->MPI_internal[1] << 32;
}
/* The status as the library has it in `room`, or null if it is none. */
static inline MPI_Status *status_c(const F_Status *from, MPI_Status *room) {
    if ((uintptr_t)from <= 1) {
        return NULL;
    }
    *room = (MPI_Status){
        .MPI_SOURCE = rank_c(from->MPI_SOURCE),
        .MPI_TAG = tag_c(from->MPI_TAG),
        .MPI_ERROR = error_c(from->MPI_ERROR),
        .MPI_internal = {(int)from->count, (int)(from->count >> 32), from->cancelled != 0},
    };
    return room;
}

/* Predefined handles have numbers of their own in Fortran. Others have the library's integers, which are
 * larger. */
#define TO_INTEGER(name, integer)                                                                             \
    if (handle == name) {                                                                                     \
        return integer;                                                                                       \
    }
#define FROM_INTEGER(name, integer)                                                                           \
    case integer: return name;
#define INTEGERS(word, type, f_type, list, part)                                                              \
    static inline int word##_integer(f_type f_handle) {                                                       \
        type handle = word##_c(f_handle);                                                                     \
        list(TO_INTEGER) return library.MPI_##part##_toint(handle);                                           \
    }                                                                                                         \
    static inline type word##_from_integer_c(int integer) {                                                   \
        switch (integer) {                                                                                    \
            list(FROM_INTEGER) default : return library.MPI_##part##_fromint(integer);                        \
        }                                                                                                     \
    }                                                                                                         \
    static inline f_type word##_from_integer(int integer) { return word##_f(word##_from_integer_c(integer)); }
INTEGERS(comm, MPI_Comm, F_Comm, F_COMM_INTEGERS_LIST, Comm)
INTEGERS(datatype, MPI_Datatype, F_Datatype, F_DATATYPE_INTEGERS_LIST, Type)
INTEGERS(errhandler, MPI_Errhandler, F_Errhandler, F_ERRHANDLER_INTEGERS_LIST, Errhandler)
INTEGERS(file, MPI_File, F_File, F_FILE_INTEGERS_LIST, File)
INTEGERS(group, MPI_Group, F_Group, F_GROUP_INTEGERS_LIST, Group)
INTEGERS(info, MPI_Info, F_Info, F_INFO_INTEGERS_LIST, Info)
INTEGERS(message, MPI_Message, F_Message, F_MESSAGE_INTEGERS_LIST, Message)
INTEGERS(op, MPI_Op, F_Op, F_OP_INTEGERS_LIST, Op)
INTEGERS(request, MPI_Request, F_Request, F_REQUEST_INTEGERS_LIST, Request)
INTEGERS(session, MPI_Session, F_Session, F_SESSION_INTEGERS_LIST, Session)
INTEGERS(win, MPI_Win, F_Win, F_WIN_INTEGERS_LIST, Win)

#endif
