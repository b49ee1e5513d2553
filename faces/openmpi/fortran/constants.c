/* The variables of libmpi_mpifh.so.40: the constants that are recognised by their address, and those of the
 * module mpi_f08. */
#include "fortran.h"
#include "handles.h"
#include "../../fortran/modules.h"

int mpi_fortran_bottom_, mpi_fortran_in_place_, mpi_fortran_unweighted_, mpi_fortran_weights_empty_;
int mpi_fortran_errcodes_ignore_, mpi_fortran_status_ignore_[6], mpi_fortran_statuses_ignore_[6];
char mpi_fortran_argv_null_, mpi_fortran_argvs_null_;

/* C code knows by these that a Fortran program ignores a status (MPI-5.0 §19.3.5). */
__attribute__((constructor)) static void tell_c(void) {
    MPI_F_STATUS_IGNORE = MPI_F08_STATUS_IGNORE = mpi_fortran_status_ignore_;
    MPI_F_STATUSES_IGNORE = MPI_F08_STATUSES_IGNORE = mpi_fortran_statuses_ignore_;
}

/* Constants of the module: variables in some versions, and parameters in others. */
#define CONSTANT(name, integer)                                                                               \
    int ompi_f08_##name = (integer);                                                                          \
    const int __mpi_f08_types_MOD_##name = (integer);
HANDLES(CONSTANT)
/* Datatypes that the standard does not have, or not any more: the face refuses them. */
CONSTANT(mpi_2complex, 26)
CONSTANT(mpi_2double_complex, 27)
CONSTANT(mpi_lb, 4)
CONSTANT(mpi_ub, 3)
CONSTANT(mpi_cxx_complex, 55)
/* Integers of C have two names. */
#define ALSO_NAMED(name, other) extern __typeof__(ompi_f08_##other) ompi_f08_##name __attribute__((alias("ompi_f08_" #other)));
ALSO_NAMED(mpi_int8, mpi_int8_t)
ALSO_NAMED(mpi_int16, mpi_int16_t)
ALSO_NAMED(mpi_int32, mpi_int32_t)
ALSO_NAMED(mpi_int64, mpi_int64_t)
ALSO_NAMED(mpi_uint8, mpi_uint8_t)
ALSO_NAMED(mpi_uint16, mpi_uint16_t)
ALSO_NAMED(mpi_uint32, mpi_uint32_t)
ALSO_NAMED(mpi_uint64, mpi_uint64_t)

#define COMPARISONS(word) EQUAL(__mpi_f08_types_MOD_ompi_##word##_op_eq, __mpi_f08_types_MOD_ompi_##word##_op_ne)
KINDS_OF_HANDLES(COMPARISONS)

/* MPI_SIZEOF, for scalars and for arrays of each rank. */
#define RANK(name, bytes, rank) SIZE(mpi_sizeof_##name##_##rank##_, bytes) SIZE(pmpi_sizeof_##name##_##rank##_, bytes)
#define RANKS(name, bytes)                                                                                    \
    RANK(name, bytes, scalar) RANK(name, bytes, r1) RANK(name, bytes, r2) RANK(name, bytes, r3)               \
    RANK(name, bytes, r4) RANK(name, bytes, r5) RANK(name, bytes, r6) RANK(name, bytes, r7)                   \
    RANK(name, bytes, r8) RANK(name, bytes, r9) RANK(name, bytes, r10) RANK(name, bytes, r11)                 \
    RANK(name, bytes, r12) RANK(name, bytes, r13) RANK(name, bytes, r14) RANK(name, bytes, r15)
RANKS(character, 1)
RANKS(logical, 4)
RANKS(int8, 1)
RANKS(int16, 2)
RANKS(int32, 4)
RANKS(int64, 8)
RANKS(real32, 4)
RANKS(real64, 8)
RANKS(real128, 16)
RANKS(complex32, 8)
RANKS(complex64, 16)
RANKS(complex128, 32)
