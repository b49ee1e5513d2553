/* What all sources of a face share. A face is a library with the name and the ABI of another MPI library. It
 * converts arguments, calls libmpi_abi, and converts what comes back. Each face is these sources, compiled
 * with the types, the handles and the values of its ABI (abi.h and values.h of its directory).
 *
 * Names that begin with F_ are the ABI's of the face, others the standard's. A conversion to the
 * standard's ABI is named x_c, as in Fortran's library, and one to the face's ABI x_f. */
#ifndef WEFT_FACE_H
#define WEFT_FACE_H

/* MPI-1's functions, too. */
#define WEFT_REMOVED_NAMES
#include <mpi.h>
#include <mpi-ext.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* These are variables in other ABIs. */
#undef MPI_F_STATUS_IGNORE
#undef MPI_F_STATUSES_IGNORE
#undef MPI_F08_STATUS_IGNORE
#undef MPI_F08_STATUSES_IGNORE

#include "functions.h"
#include "values.h"

/* What sources of a face share and programs do not see. */
#define INTERNAL __attribute__((visibility("hidden")))
#define EXPORTED __attribute__((visibility("default")))
#define COLD __attribute__((cold, noinline))
#define UNUSUAL_CALL __attribute__((noinline))
#define LIKELY(condition) __builtin_expect(!!(condition), 1)

/* The functions of libmpi_abi. They are called by address, so neither a profiler nor the face itself, which
 * define the same names, can come between. */
struct library {
#define MEMBER(name) __typeof__(&P##name) name;
    FUNCTIONS(MEMBER)
#undef MEMBER
};
INTERNAL extern struct library library;

/* The function face_NAME is NAME and PNAME for programs. */
#define EXPORT(name)                                                                                          \
    EXPORTED extern __typeof__(face_##name) exported_##name __asm__(#name) __attribute__((alias("face_" #name))); \
    EXPORTED extern __typeof__(face_##name) exported_P##name __asm__("P" #name) __attribute__((alias("face_" #name)));

/* Does a thing at two pointers for each of `count` elements, with one test for eight of them. */
#define FOR_EACH(count, one, other, thing)                                                                    \
    do {                                                                                                      \
        for (int left = (count) >> 3; left > 0; left--, (one) += 8, (other) += 8) {                           \
            thing(0) thing(1) thing(2) thing(3) thing(4) thing(5) thing(6) thing(7)                           \
        }                                                                                                     \
        for (int left = (count) & 7; left > 0; left--, (one)++, (other)++) {                                  \
            thing(0)                                                                                          \
        }                                                                                                     \
    } while (0)

/* Room for the converted elements of an array: most arrays need no allocation. */
#define ROOM 256
struct room {
    void *few[ROOM];
    void *many;
};
/* Memory for `count` elements of `size` bytes, or null when there is none left. */
INTERNAL void *room_open_many(struct room *room, MPI_Count count, size_t size);
INTERNAL void room_close_many(struct room *room);
static inline void *room_open(struct room *room, MPI_Count count, size_t size) {
    room->many = NULL;
    return LIKELY(count <= (MPI_Count)(sizeof room->few / size)) ? room->few : room_open_many(room, count, size);
}
/* The number of elements to convert. An array that cannot be in memory has none: the library refuses the
 * count. */
static inline MPI_Count elements(const void *array, MPI_Count count) {
    return array && count <= INT64_MAX / (MPI_Count)sizeof(void *) ? count : 0;
}
static inline void room_close(struct room *room) {
    if (!LIKELY(room->many == NULL)) {
        room_close_many(room);
    }
}

/* Errors of a face itself: calls the error handler of MPI_COMM_SELF (MPI-5.0 §9.3) and returns the code. */
INTERNAL COLD int fail(int class);
INTERNAL COLD int no_memory(void);

/* Codes of errors. */
INTERNAL COLD int error_that_happened_f(int code);
INTERNAL int error_c(int code);
/* Returns whether a number is a class of the ABI that the standard does not have, or would be one: classes of
 * extensions, and gaps between classes. */
INTERNAL bool is_foreign_class(int code);
static inline int error_f(int code) { return LIKELY(code == MPI_SUCCESS) ? code : error_that_happened_f(code); }

/* Constants of which each has a value in both ABIs. A value that is none of them stays: it is as wrong
 * there. */
#define TO_C(name)                                                                                            \
    case F_##name: return name;
#define TO_F(name)                                                                                            \
    case name: return F_##name;
#define VALUES(word, list)                                                                                    \
    static inline int word##_c(int value) {                                                                   \
        switch (value) {                                                                                      \
            list(TO_C) default : return value;                                                                \
        }                                                                                                     \
    }                                                                                                         \
    static inline int word##_f(int value) {                                                                   \
        switch (value) {                                                                                      \
            list(TO_F) default : return value;                                                                \
        }                                                                                                     \
    }
VALUES(bind, F_BIND_LIST)
VALUES(callback_safety, F_CALLBACK_SAFETY_LIST)
VALUES(combiner, F_COMBINER_LIST)
VALUES(comparison, F_COMPARISON_LIST)
VALUES(distribution, F_DISTRIBUTION_LIST)
VALUES(flavor, F_FLAVOR_LIST)
VALUES(lock, F_LOCK_LIST)
VALUES(model, F_MODEL_LIST)
VALUES(order, F_ORDER_LIST)
VALUES(pvar_class, F_PVAR_CLASS_LIST)
VALUES(scope, F_SCOPE_LIST)
VALUES(source_order, F_SOURCE_ORDER_LIST)
VALUES(split_type, F_SPLIT_TYPE_LIST)
VALUES(thread, F_THREAD_LIST)
VALUES(topology, F_TOPOLOGY_LIST)
VALUES(typeclass, F_TYPECLASS_LIST)
VALUES(verbosity, F_VERBOSITY_LIST)
VALUES(whence, F_WHENCE_LIST)
#define KEYVAL_LIST(X) F_COMM_KEYVAL_LIST(X) F_WIN_KEYVAL_LIST(X)
VALUES(keyval, KEYVAL_LIST)

/* Sets of bits. A bit that the ABI does not have becomes one that the standard's does not have. */
#define BIT_TO_C(name)                                                                                        \
    if (value & F_##name) {                                                                                   \
        set |= name;                                                                                          \
        value &= ~F_##name;                                                                                   \
    }
#define BIT_TO_F(name)                                                                                        \
    if (value & name) {                                                                                       \
        set |= F_##name;                                                                                      \
    }
#define BITS(word, list)                                                                                      \
    static inline int word##_c(int value) {                                                                   \
        int set = 0;                                                                                          \
        list(BIT_TO_C) return value ? set | 1 << 30 : set;                                                    \
    }                                                                                                         \
    static inline int word##_f(int value) {                                                                   \
        int set = 0;                                                                                          \
        list(BIT_TO_F) return set;                                                                            \
    }
BITS(access_mode, F_ACCESS_MODE_LIST)
BITS(assertion, F_ASSERT_LIST)

/* Ranks and tags: only the constants among them are negative. */
static inline int negative_rank_c(int rank) {
    switch (rank) {
    case F_MPI_ANY_SOURCE: return MPI_ANY_SOURCE;
    case F_MPI_PROC_NULL: return MPI_PROC_NULL;
    case F_MPI_ROOT: return MPI_ROOT;
    default: return INT32_MIN; /* No rank. */
    }
}
static inline int rank_c(int rank) { return LIKELY(rank >= 0) ? rank : negative_rank_c(rank); }
static inline int negative_rank_f(int rank) {
    switch (rank) {
    case MPI_ANY_SOURCE: return F_MPI_ANY_SOURCE;
    case MPI_PROC_NULL: return F_MPI_PROC_NULL;
    case MPI_ROOT: return F_MPI_ROOT;
    default: return rank;
    }
}
static inline int rank_f(int rank) { return LIKELY(rank >= 0) ? rank : negative_rank_f(rank); }
static inline int tag_c(int tag) {
    return LIKELY(tag >= 0) ? tag : tag == F_MPI_ANY_TAG ? MPI_ANY_TAG : INT32_MIN;
}
static inline int tag_f(int tag) { return tag == MPI_ANY_TAG ? F_MPI_ANY_TAG : tag; }

static inline int distribution_argument_c(int argument) {
    return argument == F_MPI_DISTRIBUTE_DFLT_DARG ? MPI_DISTRIBUTE_DFLT_DARG : argument;
}
static inline int distribution_argument_f(int argument) {
    return argument == MPI_DISTRIBUTE_DFLT_DARG ? F_MPI_DISTRIBUTE_DFLT_DARG : argument;
}
static inline MPI_Offset displacement_c(MPI_Offset displacement) {
    return displacement == F_MPI_DISPLACEMENT_CURRENT ? MPI_DISPLACEMENT_CURRENT : displacement;
}

/* Addresses that are constants. */
static inline void *in_place_c(const void *buffer) {
    return (intptr_t)buffer == F_MPI_IN_PLACE ? MPI_IN_PLACE : (void *)buffer;
}
/* Where the constants are variables, they have the standard's values. */
static inline int *weights_c(const int *weights) {
#ifdef F_MPI_UNWEIGHTED
    if ((intptr_t)weights == F_MPI_UNWEIGHTED) {
        return MPI_UNWEIGHTED;
    }
    if ((intptr_t)weights == F_MPI_WEIGHTS_EMPTY) {
        return MPI_WEIGHTS_EMPTY;
    }
#endif
    return (int *)weights;
}
static inline MPI_T_pvar_handle pvar_c(MPI_T_pvar_handle handle) {
#ifdef F_MPI_T_PVAR_ALL_HANDLES
    if ((intptr_t)handle == F_MPI_T_PVAR_ALL_HANDLES) {
        return MPI_T_PVAR_ALL_HANDLES;
    }
#endif
    return handle;
}
static inline MPI_T_pvar_handle pvar_f(MPI_T_pvar_handle handle) { return handle; }

/* Gives a string of the library to a program that has room for `room` characters, with its length if that is
 * asked for. A longer string is cut. */
INTERNAL int text_f(char *to, size_t room, const char *from, int *length);
/* The same for the name of a port. A name that is cut would be useless, so it is an error. */
INTERNAL int port_f(char *to, size_t room, const char *from, int *length);

/* The number of peers from which and to which a process has parts in a collective of its communicator. */
INTERNAL int peers(MPI_Comm comm, bool neighbors, int *sources, int *destinations);

#include "abi.h"

/* Statuses. The third private integer of Weft's status is 0 or 1 once the library has written it. The
 * error is written by some calls only (MPI-5.0 §3.2.5, §3.7.3). No error has the number that stands for
 * neither. */
#define UNWRITTEN (-0x57454654)
#define CANCELLED 2
static inline bool is_ignored(const void *status) { return (uintptr_t)status <= 1; }
static inline void status_start(MPI_Status *status) {
    status->MPI_ERROR = UNWRITTEN;
    status->MPI_internal[CANCELLED] = UNWRITTEN;
}
static inline void status_done(const MPI_Status *from, F_Status *to) {
    if (!is_ignored(to) && from->MPI_internal[CANCELLED] != UNWRITTEN) {
        status_f(from, to);
        if (from->MPI_ERROR != UNWRITTEN) {
            to->MPI_ERROR = error_f(from->MPI_ERROR);
        }
    }
}
#define STATUS_ROOM(status)                                                                                   \
    MPI_Status c_##status;                                                                                    \
    status_start(&c_##status)
#define STATUS_AT(status) (is_ignored(status) ? MPI_STATUS_IGNORE : &c_##status)
#define STATUS_DONE(status) status_done(&c_##status, status)

#define STATUSES_ROOM 64
struct status_room {
    MPI_Status few[STATUSES_ROOM];
    MPI_Status *many;
};

/* Functions of the program that the library calls: each becomes a function with the standard's arguments, or
 * null when there is no room for another one. */
INTERNAL MPI_User_function *operation_c(void *function);
INTERNAL MPI_User_function_c *large_operation_c(void *function);
INTERNAL MPI_Comm_errhandler_function *comm_errhandler_c(void *function);
INTERNAL MPI_Win_errhandler_function *win_errhandler_c(void *function);
INTERNAL MPI_File_errhandler_function *file_errhandler_c(void *function);
INTERNAL MPI_Session_errhandler_function *session_errhandler_c(void *function);

#endif
