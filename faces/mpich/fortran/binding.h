/* The binding of libmpifort.so.12: names, handles, constants and sections of MPICH's ABI. Facts are from
 * mpif.h and the symbols of MPICH 4.0.2 and Intel MPI 2021.19. */
#ifndef WEFT_BINDING_H
#define WEFT_BINDING_H

/* The other spellings of each name are made when the library is linked (tools/faces.sh). */
#ifdef WEFT_PROFILING
#define F08(name) p##name##_f08_
#define F08TS(name) p##name##_f08ts_
#else
#define F08(name) name##_f08_
#define F08TS(name) name##_f08ts_
#endif
#define SAME_IN_F08(name) extern __typeof__(F(name)) F08(name) __attribute__((alias(TEXT(F(name)))))
#define GIVE_IN_MPIF(ierror, code) give(ierror, code)
/* The procedures of the module have no BIND(C): a string has its length behind all arguments. */
#define STRING_IN_F08(name) const char *name
#define STRING_LENGTH_IN_F08(name) , size_t name##_length
#define PASS_LENGTH(name) , name##_length
#define STRING_OF(name) name
#define LENGTH_OF(name) name##_length

/* Handles are the same integers in C, but for files. So none has to be told from others. */
#define are_predefined(handles) false
#define are_predefined_by_sum(handles) false
#define SAME_INTEGER(kind, type)                                                                              \
    static inline type kind##_c(int handle) { return handle; }                                                \
    static inline int kind##_f(type handle) { return handle; }
SAME_INTEGER(comm, MPI_Comm)
SAME_INTEGER(datatype, MPI_Datatype)
SAME_INTEGER(errhandler, MPI_Errhandler)
SAME_INTEGER(group, MPI_Group)
SAME_INTEGER(info, MPI_Info)
SAME_INTEGER(message, MPI_Message)
SAME_INTEGER(op, MPI_Op)
SAME_INTEGER(request, MPI_Request)
SAME_INTEGER(session, MPI_Session)
SAME_INTEGER(win, MPI_Win)
static inline MPI_File file_c(int handle) { return PMPI_File_f2c(handle); }
static inline int file_f(MPI_File handle) { return PMPI_File_c2f(handle); }

/* The keys of predefined attributes are even in Fortran, and the odd numbers below in C. */
static inline bool is_key_of_comm(int key) { return (key & ~0xf) == (F_MPI_TAG_UB & ~0xf); }
static inline bool is_key_of_win(int key) { return (key & ~0xf) == (F_MPI_WIN_BASE & ~0xf); }
static inline int key_c(int key) { return (is_key_of_comm(key) || is_key_of_win(key)) && key % 2 == 0 ? key - 1 : key; }
static inline bool is_predefined_key(int key) { return is_key_of_comm(key); }

/* Constants that are recognised by their address. Each has one in the common blocks of mpif.h and of the
 * module mpi, and another one in the module mpi_f08. */
extern struct {
    int bottom, in_place, status_ignore[5];
} mpipriv1_;
extern struct {
    int statuses_ignore[5], errcodes_ignore;
} mpipriv2_;
extern struct {
    char argvs_null, argv_null;
} mpiprivc_;
extern int mpifcmb5_, mpifcmb9_, mpifcmba_;
extern int MPIR_F08_MPI_BOTTOM, MPIR_F08_MPI_IN_PLACE;
extern MPI_Status MPIR_F08_MPI_STATUS_IGNORE_OBJ, MPIR_F08_MPI_STATUSES_IGNORE_OBJ;
extern int __mpi_f08_link_constants_MOD_mpi_errcodes_ignore;
extern int __mpi_f08_link_constants_MOD_mpi_unweighted, __mpi_f08_link_constants_MOD_mpi_weights_empty;
extern char __mpi_f08_link_constants_MOD_mpi_argv_null, __mpi_f08_link_constants_MOD_mpi_argvs_null;

#define ONE_OF(name, classic, modern)                                                                         \
    static inline bool name(const void *address) {                                                            \
        return address == (const void *)&(classic) || address == (const void *)&(modern);                     \
    }
ONE_OF(is_bottom, mpipriv1_.bottom, MPIR_F08_MPI_BOTTOM)
ONE_OF(is_in_place, mpipriv1_.in_place, MPIR_F08_MPI_IN_PLACE)
ONE_OF(is_status_ignore, mpipriv1_.status_ignore, MPIR_F08_MPI_STATUS_IGNORE_OBJ)
ONE_OF(is_statuses_ignore, mpipriv2_.statuses_ignore, MPIR_F08_MPI_STATUSES_IGNORE_OBJ)
ONE_OF(is_errcodes_ignore, mpipriv2_.errcodes_ignore, __mpi_f08_link_constants_MOD_mpi_errcodes_ignore)
ONE_OF(is_argv_null, mpiprivc_.argv_null, __mpi_f08_link_constants_MOD_mpi_argv_null)
ONE_OF(is_argvs_null, mpiprivc_.argvs_null, __mpi_f08_link_constants_MOD_mpi_argvs_null)
ONE_OF(is_unweighted, mpifcmb5_, __mpi_f08_link_constants_MOD_mpi_unweighted)
ONE_OF(is_weights_empty, mpifcmb9_, __mpi_f08_link_constants_MOD_mpi_weights_empty)
static inline bool is_buffer_automatic(const void *buffer) { return buffer == &mpifcmba_; }
#define BUFFER_AUTOMATIC ((void *)&mpifcmba_)

/* Sections of arrays: what gfortran passes for TYPE(*), DIMENSION(..) to a procedure without BIND(C).
 * Bounds and strides count pieces of `span` bytes. The last upper bound of an array of assumed size is -1. */
struct dimension {
    ptrdiff_t stride, lower_bound, upper_bound;
};
struct descriptor {
    void *base;
    ptrdiff_t offset;
    size_t element;
    int version;
    signed char rank, type;
    short attribute;
    ptrdiff_t span;
    struct dimension dimensions[];
};
static inline ptrdiff_t section_extent(const struct descriptor *section, int i) {
    return section->dimensions[i].upper_bound - section->dimensions[i].lower_bound + 1;
}
static inline ptrdiff_t section_stride(const struct descriptor *section, int i) {
    return section->dimensions[i].stride * section->span;
}

#endif
