/* What older programs name and MPI-3.0 removed: MPI_LB and MPI_UB in structures. And statuses as a program
 * of this ABI has them, of receives from anybody, from nobody, and of too short a buffer. One rank; compiled
 * with the mpi.h of another library. */
#define OMPI_OMIT_MPI1_COMPAT_DECLS 0
#include "../c/check.h"

#ifndef MPI_LB
extern struct ompi_predefined_datatype_t ompi_mpi_lb, ompi_mpi_ub;
#define MPI_LB OMPI_PREDEFINED_GLOBAL(MPI_Datatype, ompi_mpi_lb)
#define MPI_UB OMPI_PREDEFINED_GLOBAL(MPI_Datatype, ompi_mpi_ub)
#endif

enum { MEMBERS_MAX = 4, TAG = 7 };

static void check_bounds(int members, const MPI_Aint *displacements, MPI_Datatype *types, MPI_Aint lb, MPI_Aint extent)
{
    int lengths[MEMBERS_MAX] = {1, 1, 1, 1}, size;
    MPI_Aint found_lb, found_extent;
    MPI_Datatype type;
    MPI_Type_create_struct(members, lengths, (MPI_Aint *)displacements, types, &type);
    MPI_Type_commit(&type);
    MPI_Type_get_extent(type, &found_lb, &found_extent);
    CHECK_EQUAL(found_lb, lb);
    CHECK_EQUAL(found_extent, extent);
    MPI_Type_size(type, &size);
    CHECK_EQUAL(size, sizeof(int));
    /* Two of them are as far apart as the bounds say. */
    _Alignas(int) char from[256] = {0}, to[256] = {0};
    int values[2] = {11, 22}, found[2];
    for (int i = 0; i < 2; i++)
        memcpy(&from[64 + 8 + i * extent], &values[i], sizeof(int));
    MPI_Sendrecv(&from[64], 2, type, rank, TAG, &to[64], 2, type, rank, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < 2; i++) {
        memcpy(&found[i], &to[64 + 8 + i * extent], sizeof(int));
        CHECK_EQUAL(found[i], values[i]);
    }
    MPI_Type_free(&type);
    CHECK(type == MPI_DATATYPE_NULL, "the handle stays");
}

static void marks(void)
{
    STORY("both bounds are marked");
    check_bounds(3, (MPI_Aint[]){-8, 8, 40}, (MPI_Datatype[]){MPI_LB, MPI_INT, MPI_UB}, -8, 48);
    STORY("the upper bound alone, before the members");
    check_bounds(2, (MPI_Aint[]){32, 8}, (MPI_Datatype[]){MPI_UB, MPI_INT}, 8, 24);
    STORY("the lower bound alone");
    check_bounds(2, (MPI_Aint[]){0, 8}, (MPI_Datatype[]){MPI_LB, MPI_INT}, 0, 12);
    STORY("the outermost of several marks counts");
    check_bounds(4, (MPI_Aint[]){16, 8, 24, 20}, (MPI_Datatype[]){MPI_UB, MPI_INT, MPI_UB, MPI_UB}, 8, 16);
    STORY("no mark");
    check_bounds(1, (MPI_Aint[]){8}, (MPI_Datatype[]){MPI_INT}, 8, 4);
}

static void check_status(const MPI_Status *status, int source, int tag, int bytes)
{
    int found;
    CHECK_EQUAL(status->MPI_SOURCE, source);
    CHECK_EQUAL(status->MPI_TAG, tag);
    CHECK_EQUAL(MPI_Get_count(status, MPI_BYTE, &found), MPI_SUCCESS);
    CHECK_EQUAL(found, bytes);
    CHECK_EQUAL(MPI_Test_cancelled(status, &found), MPI_SUCCESS);
    CHECK_EQUAL(found, 0);
}

static void statuses(MPI_Comm comm)
{
    char out[12] = "some bytes", in[64];
    MPI_Request request;
    MPI_Status status;
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    memset(&status, 0x55, sizeof status);
    int error = status.MPI_ERROR;
    STORY("a receive from anybody");
    MPI_Isend(out, sizeof out, MPI_BYTE, rank, TAG, comm, &request);
    CHECK_EQUAL(MPI_Recv(in, sizeof in, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &status), MPI_SUCCESS);
    check_status(&status, rank, TAG, sizeof out);
    CHECK_EQUAL(status.MPI_ERROR, error);
    CHECK(memcmp(in, out, sizeof out) == 0, "other bytes");
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    STORY("a receive from nobody");
    CHECK_EQUAL(MPI_Recv(in, sizeof in, MPI_BYTE, MPI_PROC_NULL, TAG, comm, &status), MPI_SUCCESS);
    check_status(&status, MPI_PROC_NULL, MPI_ANY_TAG, 0);
    STORY("an exchange");
    CHECK_EQUAL(MPI_Sendrecv(out, 5, MPI_BYTE, rank, TAG + 1, in, sizeof in, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &status), MPI_SUCCESS);
    check_status(&status, rank, TAG + 1, 5);
    CHECK_EQUAL(MPI_Sendrecv(out, 5, MPI_BYTE, MPI_PROC_NULL, TAG, in, sizeof in, MPI_BYTE, MPI_PROC_NULL, TAG, comm, &status), MPI_SUCCESS);
    check_status(&status, MPI_PROC_NULL, MPI_ANY_TAG, 0);
    STORY("too short a buffer");
    MPI_Isend(out, sizeof out, MPI_BYTE, rank, TAG, comm, &request);
    CHECK_CLASS(MPI_Recv(in, 3, MPI_BYTE, rank, TAG, comm, &status), MPI_ERR_TRUNCATE);
    CHECK_EQUAL(status.MPI_SOURCE, rank);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    STORY("wrong arguments");
    CHECK_CLASS(MPI_Recv(in, -1, MPI_BYTE, rank, TAG, comm, &status), MPI_ERR_COUNT);
    CHECK_CLASS(MPI_Recv(in, 1, MPI_BYTE, -77, TAG, comm, &status), MPI_ERR_RANK);
    CHECK_CLASS(MPI_Recv(in, 1, MPI_BYTE, rank, -77, comm, &status), MPI_ERR_TAG);
    CHECK_CLASS(MPI_Recv(in, 1, MPI_DATATYPE_NULL, rank, TAG, comm, &status), MPI_ERR_TYPE);
}

int main(int argc, char **argv)
{
    MPI_Comm own;
    begin(&argc, &argv);
    marks();
    MPI_Comm_dup(MPI_COMM_WORLD, &own);
    statuses(own);
    statuses(MPI_COMM_WORLD);
    MPI_Comm_free(&own);
    return end();
}
