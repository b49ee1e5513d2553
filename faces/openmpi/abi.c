/* The variables whose addresses are Open MPI's handles, and what libmpi.so.40 has beside functions. */
#include "face.h"

/* Each has the size of Open MPI's, which a program may have copied. */
#define VARIABLE(symbol, size, number)                                                                        \
    EXPORTED __attribute__((aligned(64))) struct {                                                            \
        uintptr_t handle;                                                                                     \
        char rest[(size) - sizeof(uintptr_t)];                                                                \
    } symbol = {.handle = (number)};
F_VARIABLES_LIST(VARIABLE)
F_OTHER_VARIABLES_LIST(VARIABLE)

#define BY_NUMBER(symbol, size, number) [number] = &symbol,
void *const predefined[PREDEFINED] = {F_VARIABLES_LIST(BY_NUMBER)};

/* The functions that MPI_COMM_DUP_FN and its like name. */
#define NULL_COPY(name)                                                                                       \
    EXPORTED int name(void *object, int keyval, void *extra_state, void *in, void *out, int *flag) {          \
        (void)object, (void)keyval, (void)extra_state, (void)in, (void)out;                                   \
        *flag = 0;                                                                                            \
        return MPI_SUCCESS;                                                                                   \
    }
#define DUP(name)                                                                                             \
    EXPORTED int name(void *object, int keyval, void *extra_state, void *in, void *out, int *flag) {          \
        (void)object, (void)keyval, (void)extra_state;                                                        \
        *(void **)out = in;                                                                                   \
        *flag = 1;                                                                                            \
        return MPI_SUCCESS;                                                                                   \
    }
#define NULL_DELETE(name)                                                                                     \
    EXPORTED int name(void *object, int keyval, void *value, void *extra_state) {                             \
        (void)object, (void)keyval, (void)value, (void)extra_state;                                           \
        return MPI_SUCCESS;                                                                                   \
    }
NULL_COPY(OMPI_C_MPI_NULL_COPY_FN)
NULL_COPY(OMPI_C_MPI_COMM_NULL_COPY_FN)
NULL_COPY(OMPI_C_MPI_TYPE_NULL_COPY_FN)
NULL_COPY(OMPI_C_MPI_WIN_NULL_COPY_FN)
DUP(OMPI_C_MPI_DUP_FN)
DUP(OMPI_C_MPI_COMM_DUP_FN)
DUP(OMPI_C_MPI_TYPE_DUP_FN)
DUP(OMPI_C_MPI_WIN_DUP_FN)
NULL_DELETE(OMPI_C_MPI_NULL_DELETE_FN)
NULL_DELETE(OMPI_C_MPI_COMM_NULL_DELETE_FN)
NULL_DELETE(OMPI_C_MPI_TYPE_NULL_DELETE_FN)
NULL_DELETE(OMPI_C_MPI_WIN_NULL_DELETE_FN)

/* Statuses that Fortran ignores (MPI-5.0 §19.3.5): no status of a program has these addresses. */
static F_Status ignored[2];
EXPORTED int *MPI_F_STATUS_IGNORE = &ignored[0].MPI_SOURCE;
EXPORTED int *MPI_F_STATUSES_IGNORE = &ignored[0].MPI_SOURCE;
EXPORTED int *MPI_F08_STATUS_IGNORE = &ignored[1].MPI_SOURCE;
EXPORTED int *MPI_F08_STATUSES_IGNORE = &ignored[1].MPI_SOURCE;

/* What programs ask before they pass memory of devices. */
EXPORTED int MPIX_Query_cuda_support(void) { return 0; }
EXPORTED int MPIX_Query_rocm_support(void) { return 0; }
