/* The binding of libmpi_mpifh.so.40: names, handles and constants of Open MPI's ABI. Facts are from mpif.h
 * and the symbols of Open MPI 4.1.4. */
#ifndef WEFT_BINDING_H
#define WEFT_BINDING_H

/* The module mpi_f08 passes addresses of buffers, as mpif.h does. So its procedures are those of mpif.h,
 * and those with descriptors stay inside, where the linker leaves them out. The other spellings of each
 * name are made when the library is linked (tools/faces.sh). */
#ifdef WEFT_PROFILING
#define F08(name) p##name##_f08_
#define F08TS(name) __attribute__((visibility("hidden"))) p##name##_f08ts_
#else
#define F08(name) name##_f08_
#define F08TS(name) __attribute__((visibility("hidden"))) name##_f08ts_
#endif
#define SAME_IN_F08(name) extern __typeof__(F(name)) F08(name) __attribute__((alias(TEXT(F(name)))))
#define GIVE_IN_MPIF(ierror, code) give(ierror, code)
#define STRING_IN_F08(name) const char *name
#define STRING_LENGTH_IN_F08(name) , size_t name##_length
#define PASS_LENGTH(name) , name##_length
#define STRING_OF(name) name
#define LENGTH_OF(name) name##_length

/* Handles. The face knows the integers. */
#define are_predefined(handles) false
#define are_predefined_by_sum(handles) false
#define CONVERSIONS(kind, type, name)                                                                         \
    static inline type kind##_c(int handle) { return PMPI_##name##_f2c(handle); }                             \
    static inline int kind##_f(type handle) { return PMPI_##name##_c2f(handle); }
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
static inline bool is_predefined_key(int key) { return key >= F_MPI_TAG_UB && key < F_MPI_WIN_BASE; }

/* Constants that are recognised by their address. Each is a common block, which the program shares. */
extern int mpi_fortran_bottom_, mpi_fortran_in_place_, mpi_fortran_unweighted_, mpi_fortran_weights_empty_;
extern int mpi_fortran_errcodes_ignore_, mpi_fortran_status_ignore_[6], mpi_fortran_statuses_ignore_[6];
extern char mpi_fortran_argv_null_, mpi_fortran_argvs_null_;

static inline bool is_bottom(const void *buffer) { return buffer == &mpi_fortran_bottom_; }
static inline bool is_in_place(const void *buffer) { return buffer == &mpi_fortran_in_place_; }
static inline bool is_status_ignore(const void *status) { return status == mpi_fortran_status_ignore_; }
static inline bool is_statuses_ignore(const void *statuses) { return statuses == mpi_fortran_statuses_ignore_; }
static inline bool is_unweighted(const void *weights) { return weights == &mpi_fortran_unweighted_; }
static inline bool is_weights_empty(const void *weights) { return weights == &mpi_fortran_weights_empty_; }
static inline bool is_errcodes_ignore(const void *codes) { return codes == &mpi_fortran_errcodes_ignore_; }
static inline bool is_argv_null(const void *argv) { return argv == &mpi_fortran_argv_null_; }
static inline bool is_argvs_null(const void *argvs) { return argvs == &mpi_fortran_argvs_null_; }

/* This ABI has no MPI_BUFFER_AUTOMATIC. */
#define MPI_BUFFER_AUTOMATIC NULL
#define BUFFER_AUTOMATIC NULL
static inline bool is_buffer_automatic(const void *buffer) { return buffer == NULL; }

#include "descriptor.h"

#endif
