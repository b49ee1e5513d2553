/* Open MPI's ABI in C, as far as Fortran's sources name it. */
#ifndef WEFT_FACE_MPI_H
#define WEFT_FACE_MPI_H

#include <stddef.h>
#include <stdint.h>

typedef intptr_t MPI_Aint;
typedef int64_t MPI_Offset;
typedef int64_t MPI_Count;
typedef struct ompi_communicator_t *MPI_Comm;
typedef struct ompi_datatype_t *MPI_Datatype;
typedef struct ompi_errhandler_t *MPI_Errhandler;
typedef struct ompi_file_t *MPI_File;
typedef struct ompi_group_t *MPI_Group;
typedef struct ompi_info_t *MPI_Info;
typedef struct ompi_message_t *MPI_Message;
typedef struct ompi_op_t *MPI_Op;
typedef struct ompi_request_t *MPI_Request;
typedef struct ompi_instance_t *MPI_Session;
typedef struct ompi_win_t *MPI_Win;
typedef struct {
    int MPI_SOURCE, MPI_TAG, MPI_ERROR;
    int cancelled;
    size_t count;
} MPI_Status;

#include "constants.h"
#include "prototypes.h"

/* The variables are larger. Only their addresses count. */
#define HANDLE_AT(type, variable) ((type)(void *)variable)
extern char ompi_mpi_comm_null[], ompi_mpi_comm_self[], ompi_mpi_datatype_null[], ompi_mpi_errhandler_null[];
extern char ompi_mpi_file_null[], ompi_mpi_group_null[], ompi_mpi_info_null[], ompi_message_null[];
extern char ompi_request_null[], ompi_mpi_instance_null[], ompi_mpi_win_null[];
#define MPI_COMM_NULL HANDLE_AT(MPI_Comm, ompi_mpi_comm_null)
#define MPI_COMM_SELF HANDLE_AT(MPI_Comm, ompi_mpi_comm_self)
#define MPI_DATATYPE_NULL HANDLE_AT(MPI_Datatype, ompi_mpi_datatype_null)
#define MPI_ERRHANDLER_NULL HANDLE_AT(MPI_Errhandler, ompi_mpi_errhandler_null)
#define MPI_FILE_NULL HANDLE_AT(MPI_File, ompi_mpi_file_null)
#define MPI_GROUP_NULL HANDLE_AT(MPI_Group, ompi_mpi_group_null)
#define MPI_INFO_NULL HANDLE_AT(MPI_Info, ompi_mpi_info_null)
#define MPI_MESSAGE_NULL HANDLE_AT(MPI_Message, ompi_message_null)
#define MPI_REQUEST_NULL HANDLE_AT(MPI_Request, ompi_request_null)
#define MPI_SESSION_NULL HANDLE_AT(MPI_Session, ompi_mpi_instance_null)
#define MPI_WIN_NULL HANDLE_AT(MPI_Win, ompi_mpi_win_null)

#define MPI_UNWEIGHTED ((int *)F_MPI_UNWEIGHTED)
#define MPI_WEIGHTS_EMPTY ((int *)F_MPI_WEIGHTS_EMPTY)

#define CONVERT(type, name)                                                                                   \
    int PMPI_##name##_c2f(type handle);                                                                       \
    type PMPI_##name##_f2c(int handle);
CONVERT(MPI_Comm, Comm)
CONVERT(MPI_Datatype, Type)
CONVERT(MPI_Errhandler, Errhandler)
CONVERT(MPI_File, File)
CONVERT(MPI_Group, Group)
CONVERT(MPI_Info, Info)
CONVERT(MPI_Message, Message)
CONVERT(MPI_Op, Op)
CONVERT(MPI_Request, Request)
CONVERT(MPI_Session, Session)
CONVERT(MPI_Win, Win)
extern int *MPI_F_STATUS_IGNORE, *MPI_F_STATUSES_IGNORE, *MPI_F08_STATUS_IGNORE, *MPI_F08_STATUSES_IGNORE;

#endif
