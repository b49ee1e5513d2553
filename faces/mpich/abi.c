/* The tables of MPICH's handles, and what libmpi.so.12 has beside functions. */
#include "face.h"
#include <stdlib.h>

uint32_t *generations[KINDS][1 << (INDEX_BITS - PIECE_BITS)];

int made_first_f(uintptr_t handle, enum kind kind) {
    uint32_t **at = &generations[kind][(uint32_t)handle >> 8 >> PIECE_BITS], *none = NULL;
    uint32_t *piece = calloc(1 << PIECE_BITS, sizeof *piece);
    if (!piece) {
        /* A handle that was given is never forgotten. */
        abort();
    }
    if (!__atomic_compare_exchange_n(at, &none, piece, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
        free(piece);
    }
    return made_f(handle, kind);
}

struct short_calls short_calls;

#define BY_NUMBER(name, number) [number] = (int)F_##name,
#define BY_NUMBER_OF_FILE(name, number)
const int predefined[PREDEFINED] = {
    F_COMM_LIST(BY_NUMBER) F_DATATYPE_LIST(BY_NUMBER) F_ERRHANDLER_LIST(BY_NUMBER) F_GROUP_LIST(BY_NUMBER)
        F_INFO_LIST(BY_NUMBER) F_MESSAGE_LIST(BY_NUMBER) F_OP_LIST(BY_NUMBER) F_REQUEST_LIST(BY_NUMBER)
            F_SESSION_LIST(BY_NUMBER) F_WIN_LIST(BY_NUMBER)};

/* Datatypes whose lowest byte is not a number of their own share the last entry, which no handle finds. */
#define HAS_NUMBER(f) (((f) >> 24 & 0xff) == 0x4c)
#define BY_LOWEST_BYTE(name, number) [HAS_NUMBER(F_##name) ? F_##name & 0xff : 0xff] = {(int)F_##name, number},
#define BY_LOWEST_DIGIT(name, number) [F_##name & 0xf] = {(int)F_##name, number},
#pragma GCC diagnostic ignored "-Woverride-init"
#define SAME_BY_LOWEST_BYTE(f, number) [(f) & 0xff] = {(int)(f), number},
const struct numbered datatypes[256] = {F_DATATYPE_LIST(BY_LOWEST_BYTE) F_SAME_DATATYPE_LIST(SAME_BY_LOWEST_BYTE)};
const struct numbered operations[16] = {F_OP_LIST(BY_LOWEST_DIGIT)};

#define TO_HANDLE(name, number)                                                                               \
    case (int)F_##name: return name;
#define UNUSUAL(word, type, f_type, list, kind)                                                               \
    type word##_unusual_c(f_type handle) {                                                                    \
        switch (handle) {                                                                                     \
            list(TO_HANDLE) default : return made_c(handle, kind);                                            \
        }                                                                                                     \
    }
UNUSUAL(datatype, MPI_Datatype, F_Datatype, F_DATATYPE_LIST, DATATYPE)
UNUSUAL(errhandler, MPI_Errhandler, F_Errhandler, F_ERRHANDLER_LIST, ERRHANDLER)
UNUSUAL(group, MPI_Group, F_Group, F_GROUP_LIST, GROUP)
UNUSUAL(info, MPI_Info, F_Info, F_INFO_LIST, INFO)
UNUSUAL(message, MPI_Message, F_Message, F_MESSAGE_LIST, MESSAGE)
UNUSUAL(op, MPI_Op, F_Op, F_OP_LIST, OP)
UNUSUAL(session, MPI_Session, F_Session, F_SESSION_LIST, SESSION)
UNUSUAL(win, MPI_Win, F_Win, F_WIN_LIST, WIN)

MPI_Comm comm_unusual_c(F_Comm handle) {
    switch (handle) {
        F_COMM_LIST(TO_HANDLE) default : return NULL;
    }
}

void requests_unusual_c(const F_Request *array, int count, MPI_Request *c) {
    for (int i = 0; i < count; i++) {
        c[i] = request_c(array[i]);
    }
}

/* Constants that are variables. Programs read them, so their values are the standard's. */
EXPORTED int *const MPI_UNWEIGHTED_variable __asm__("MPI_UNWEIGHTED") = MPI_UNWEIGHTED;
EXPORTED int *const MPI_WEIGHTS_EMPTY_variable __asm__("MPI_WEIGHTS_EMPTY") = MPI_WEIGHTS_EMPTY;
EXPORTED MPI_T_pvar_handle const all_handles __asm__("MPI_T_PVAR_ALL_HANDLES") = MPI_T_PVAR_ALL_HANDLES;

/* Statuses that Fortran ignores (MPI-5.0 §19.3.5): no status of a program has these addresses. */
static F_Status ignored[2];
EXPORTED int *MPI_F_STATUS_IGNORE = &ignored[0].count_lo;
EXPORTED int *MPI_F_STATUSES_IGNORE = &ignored[0].count_lo;
EXPORTED F_Status *MPI_F08_STATUS_IGNORE = &ignored[1];
EXPORTED F_Status *MPI_F08_STATUSES_IGNORE = &ignored[1];

/* The function that MPI_COMM_DUP_FN and its like name. */
EXPORTED int MPIR_Dup_fn(F_Comm object, int keyval, void *extra_state, void *in, void *out, int *flag) {
    (void)object, (void)keyval, (void)extra_state;
    *(void **)out = in;
    *flag = 1;
    return MPI_SUCCESS;
}

/* What programs ask before they pass memory of devices. */
EXPORTED int MPIX_Query_cuda_support(void) { return 0; }
EXPORTED int MPIX_Query_hip_support(void) { return 0; }
EXPORTED int MPIX_Query_ze_support(void) { return 0; }
EXPORTED int MPIX_GPU_query_support(int gpu_type, int *is_supported) {
    (void)gpu_type;
    *is_supported = 0;
    return MPI_SUCCESS;
}
