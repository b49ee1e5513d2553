/* MPICH's ABI in C, as far as Fortran's sources name it. */
#ifndef WEFT_FACE_MPI_H
#define WEFT_FACE_MPI_H

#include <stddef.h>
#include <stdint.h>

typedef intptr_t MPI_Aint;
typedef int64_t MPI_Offset;
typedef int64_t MPI_Count;
typedef int MPI_Comm;
typedef int MPI_Datatype;
typedef int MPI_Errhandler;
typedef int MPI_Group;
typedef int MPI_Info;
typedef int MPI_Message;
typedef int MPI_Op;
typedef int MPI_Request;
typedef int MPI_Session;
typedef int MPI_Win;
typedef struct ADIOI_FileD *MPI_File;
typedef struct {
    int count_lo, count_hi_and_cancelled;
    int MPI_SOURCE, MPI_TAG, MPI_ERROR;
} MPI_Status;

#include "constants.h"
#include "prototypes.h"

#define MPI_COMM_NULL F_MPI_COMM_NULL
#define MPI_COMM_SELF F_MPI_COMM_SELF
#define MPI_DATATYPE_NULL F_MPI_DATATYPE_NULL
#define MPI_ERRHANDLER_NULL F_MPI_ERRHANDLER_NULL
#define MPI_FILE_NULL ((MPI_File)0)
#define MPI_GROUP_NULL F_MPI_GROUP_NULL
#define MPI_INFO_NULL F_MPI_INFO_NULL
#define MPI_MESSAGE_NULL F_MPI_MESSAGE_NULL
#define MPI_REQUEST_NULL ((MPI_Request)F_MPI_REQUEST_NULL)
#define MPI_SESSION_NULL F_MPI_SESSION_NULL
#define MPI_WIN_NULL F_MPI_WIN_NULL

#define MPI_BUFFER_AUTOMATIC ((void *)F_MPI_BUFFER_AUTOMATIC)
extern int *const MPI_UNWEIGHTED, *const MPI_WEIGHTS_EMPTY;

int PMPI_File_c2f(MPI_File file);
MPI_File PMPI_File_f2c(int file);
extern int *MPI_F_STATUS_IGNORE, *MPI_F_STATUSES_IGNORE;
extern void *MPI_F08_STATUS_IGNORE, *MPI_F08_STATUSES_IGNORE;

#endif
