/* The binding of libmpifort_abi: names, handles, constants and sections of the standard's ABI. */
#ifndef WEFT_BINDING_H
#define WEFT_BINDING_H

#ifdef WEFT_PROFILING
#define F08(name) p##name##_f08_
#define F08TS(name) p##name##_f08ts_
#else
#define F08(name) name##_f08_
#define F08TS(name) name##_f08ts_
#endif
/* The procedure of mpi_f08 is the same as that of mpif.h: an ierror that is absent is a null pointer. */
#define SAME_IN_F08(name) extern __typeof__(F(name)) F08(name) __attribute__((alias(TEXT(F(name)))))
/* Procedures with buffers are others in mpi_f08, and those of mpif.h have an ierror. */
#define GIVE_IN_MPIF(ierror, code) (*(ierror) = (code))
/* A string of a procedure whose buffers are descriptors is one, too. */
#define STRING_IN_F08(name) const struct descriptor *name
#define STRING_LENGTH_IN_F08(name)
#define PASS_LENGTH(name)
#define STRING_OF(name) name->base
#define LENGTH_OF(name) name->element

/* Handles. The integers of predefined handles are their values in C (MPI-5.0 §20.5), which are below 1024.
 * For others the library is asked. */
static inline bool are_predefined(int handles) { return (unsigned)handles < 1024; }
static inline bool are_predefined_by_sum(uint64_t handles) { return handles < 1024; }

#define CONVERSIONS(kind, type, name)                                                                         \
    static inline type kind##_c(int handle) {                                                                 \
        return LIKELY(are_predefined(handle)) ? (type)(intptr_t)handle : PMPI_##name##_fromint(handle);      \
    }                                                                                                         \
    static inline int kind##_f(type handle) {                                                                 \
        return LIKELY((uintptr_t)handle < 1024) ? (int)(intptr_t)handle : PMPI_##name##_toint(handle);        \
    }
CONVERSIONS(comm, MPI_Comm, Comm)
CONVERSIONS(datatype, MPI_Datatype, Type)
CONVERSIONS(errhandler, MPI_Errhandler, Errhandler)
CONVERSIONS(file, MPI_File, File)
CONVERSIONS(group, MPI_Group, Group)
CONVERSIONS(info, MPI_Info, Info)
CONVERSIONS(message, MPI_Message, Message)
CONVERSIONS(op, MPI_Op, Op)
CONVERSIONS(request, MPI_Request, Request)
CONVERSIONS(session, MPI_Session, Session)
CONVERSIONS(win, MPI_Win, Win)

/* Keys of attributes are the same numbers in C. */
static inline int key_c(int key) { return key; }
static inline bool is_predefined_key(int key) { return key >= MPI_TAG_UB && key <= MPI_UNIVERSE_SIZE; }

/* Constants that are recognised by their address. Each is a common block, which the program shares. */
extern int mpifort_bottom_, mpifort_in_place_, mpifort_buffer_automatic_;
extern int mpifort_unweighted_, mpifort_weights_empty_, mpifort_errcodes_ignore_;
extern int mpifort_status_ignore_[8], mpifort_statuses_ignore_[8];
extern char mpifort_argv_null_, mpifort_argvs_null_;

static inline bool is_bottom(const void *buffer) { return buffer == &mpifort_bottom_; }
static inline bool is_in_place(const void *buffer) { return buffer == &mpifort_in_place_; }
static inline bool is_buffer_automatic(const void *buffer) { return buffer == &mpifort_buffer_automatic_; }
#define BUFFER_AUTOMATIC ((void *)&mpifort_buffer_automatic_)
static inline bool is_status_ignore(const void *status) { return status == mpifort_status_ignore_; }
static inline bool is_statuses_ignore(const void *statuses) { return statuses == mpifort_statuses_ignore_; }
static inline bool is_unweighted(const void *weights) { return weights == &mpifort_unweighted_; }
static inline bool is_weights_empty(const void *weights) { return weights == &mpifort_weights_empty_; }
static inline bool is_errcodes_ignore(const void *codes) { return codes == &mpifort_errcodes_ignore_; }
static inline bool is_argv_null(const void *argv) { return argv == &mpifort_argv_null_; }
static inline bool is_argvs_null(const void *argvs) { return argvs == &mpifort_argvs_null_; }

#include "descriptor.h"

#endif
