/* The variables of libmpifort.so.12: the constants that are recognised by their address, and those of the
 * module mpi_f08. */
#include "fortran.h"
#include "handles.h"
#include "../../fortran/modules.h"

__typeof__(mpipriv1_) mpipriv1_;
__typeof__(mpipriv2_) mpipriv2_;
__typeof__(mpiprivc_) mpiprivc_;
int mpifcmb5_, mpifcmb9_, mpifcmba_;
int MPIR_F08_MPI_BOTTOM, MPIR_F08_MPI_IN_PLACE;
MPI_Status MPIR_F08_MPI_STATUS_IGNORE_OBJ, MPIR_F08_MPI_STATUSES_IGNORE_OBJ;
int __mpi_f08_link_constants_MOD_mpi_errcodes_ignore;
int __mpi_f08_link_constants_MOD_mpi_unweighted, __mpi_f08_link_constants_MOD_mpi_weights_empty;
char __mpi_f08_link_constants_MOD_mpi_argv_null, __mpi_f08_link_constants_MOD_mpi_argvs_null;

/* C code knows by these that a Fortran program ignores a status (MPI-5.0 §19.3.5). */
__attribute__((constructor)) static void tell_c(void) {
    MPI_F_STATUS_IGNORE = mpipriv1_.status_ignore;
    MPI_F_STATUSES_IGNORE = mpipriv2_.statuses_ignore;
    MPI_F08_STATUS_IGNORE = &MPIR_F08_MPI_STATUS_IGNORE_OBJ;
    MPI_F08_STATUSES_IGNORE = &MPIR_F08_MPI_STATUSES_IGNORE_OBJ;
}

#define CONSTANT(name, integer) const int __mpi_f08_compile_constants_MOD_##name = (int)(integer);
HANDLES(CONSTANT)
/* Datatypes that the standard does not have any more: the face refuses them. */
CONSTANT(mpi_lb, 0x4c000010)
CONSTANT(mpi_ub, 0x4c000011)

/* Comparisons of handles, of which one may be an integer. */
#define COMPARISONS(word)                                                                                     \
    EQUAL(__mpi_f08_types_MOD_mpi_##word##_eq, __mpi_f08_types_MOD_mpi_##word##_neq)                          \
    EQUAL(__mpi_f08_types_MOD_mpi_##word##_f08_eq_f, __mpi_f08_types_MOD_mpi_##word##_f08_neq_f)              \
    EQUAL(__mpi_f08_types_MOD_mpi_##word##_f_eq_f08, __mpi_f08_types_MOD_mpi_##word##_f_neq_f08)              \
    EQUAL(__mpi_constants_MOD_##word##eq, __mpi_constants_MOD_##word##neq)
KINDS_OF_HANDLES(COMPARISONS)

/* Conversions between handles of the module and those of C, which are integers. */
#define CONVERSIONS_OF(word)                                                                                  \
    int __mpi_f08_types_MOD_mpi_##word##_c2f(const int *handle) { return *handle; }                           \
    int __mpi_f08_types_MOD_mpi_##word##_f2c(const int *handle) { return *handle; }
KINDS_OF_HANDLES(CONVERSIONS_OF)

static void copy_of_status(const int *from, int *to, int *ierror) {
    for (int i = 0; i < F_MPI_F_STATUS_SIZE; i++) {
        to[i] = from[i];
    }
    give(ierror, MPI_SUCCESS);
}
void __mpi_f08_types_MOD_mpi_status_f082f(const int *from, int *to, int *ierror) { copy_of_status(from, to, ierror); }
void __mpi_f08_types_MOD_mpi_status_f2f08(const int *from, int *to, int *ierror) { copy_of_status(from, to, ierror); }
void __mpi_f08_types_MOD_mpi_status_c_assign_f08(int *to, const int *from) { copy_of_status(from, to, NULL); }
void __mpi_f08_types_MOD_mpi_status_f08_assign_c(int *to, const int *from) { copy_of_status(from, to, NULL); }

/* MPI_SIZEOF of the module mpi_f08, and of the module mpi for scalars and arrays. */
#define SIZE_OF(name, bytes) SIZE(__mpi_f08_types_MOD_mpi_sizeof_##name, bytes)
SIZE_OF(character, 1)
SIZE_OF(logical, 4)
SIZE_OF(xint8, 1)
SIZE_OF(xint16, 2)
SIZE_OF(xint32, 4)
SIZE_OF(xint64, 8)
SIZE_OF(xreal32, 4)
SIZE_OF(xreal64, 8)
SIZE_OF(xreal128, 16)
SIZE_OF(xcomplex32, 8)
SIZE_OF(xcomplex64, 16)
SIZE_OF(xcomplex128, 32)
#define SIZES_OF(name, bytes)                                                                                 \
    SIZE(__mpi_sizeofs_MOD_mpi_sizeof_##name, bytes)                                                          \
    SIZE(__mpi_sizeofs_MOD_mpi_sizeof_##name##v, bytes)
SIZES_OF(ch, 1)
SIZES_OF(l, 4)
SIZES_OF(i, 4)
SIZES_OF(i1, 1)
SIZES_OF(i2, 2)
SIZES_OF(i8, 8)
SIZES_OF(r, 4)
SIZES_OF(d, 8)
SIZES_OF(cx, 8)
