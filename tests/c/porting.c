/* The parts of mpi.h for programs of all ages: conversions between C and Fortran (MPI-5.0 §19.3.4, §19.3.5),
 * and the names that MPI-3.0 removed (its chapter 16), which this library declares when a program asks for
 * them. */
#define WEFT_REMOVED_NAMES
#include "check.h"
#include <stddef.h>

/* A handle is the same after its way through Fortran. */
#define THERE_AND_BACK(class, handle) CHECK(MPI_##class##_f2c(MPI_##class##_c2f(handle)) == (handle), "it is another")

static void handles(void)
{
    STORY("handles go to Fortran and come back");
    THERE_AND_BACK(Comm, MPI_COMM_WORLD);
    THERE_AND_BACK(Comm, MPI_COMM_NULL);
    THERE_AND_BACK(Type, MPI_DOUBLE);
    THERE_AND_BACK(Op, MPI_SUM);
    THERE_AND_BACK(Group, MPI_GROUP_EMPTY);
    THERE_AND_BACK(Errhandler, MPI_ERRORS_RETURN);
    THERE_AND_BACK(Info, MPI_INFO_ENV);
    THERE_AND_BACK(Request, MPI_REQUEST_NULL);
    THERE_AND_BACK(Message, MPI_MESSAGE_NO_PROC);
    THERE_AND_BACK(Win, MPI_WIN_NULL);
    THERE_AND_BACK(File, MPI_FILE_NULL);
    THERE_AND_BACK(Session, MPI_SESSION_NULL);

    MPI_Comm comm;
    MPI_Datatype type;
    MPI_Group group;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Type_contiguous(3, MPI_INT, &type);
    MPI_Comm_group(comm, &group);
    THERE_AND_BACK(Comm, comm);
    THERE_AND_BACK(Type, type);
    THERE_AND_BACK(Group, group);
    int size = -1;
    MPI_Comm_size(MPI_Comm_f2c(MPI_Comm_c2f(comm)), &size);
    CHECK_EQUAL(size, ranks);
    MPI_Group_free(&group);
    MPI_Type_free(&type);
    MPI_Comm_free(&comm);
}

static void statuses(void)
{
    STORY("statuses go to Fortran and come back");
    int sent[5] = {1, 2, 3, 4, 5}, received[9], count = -1, cancelled = -1;
    MPI_Status first, again;
    MPI_Fint in_fortran[MPI_F_STATUS_SIZE];
    MPI_F08_status in_f08;
    MPI_Sendrecv(sent, 5, MPI_INT, rank, 77, received, 9, MPI_INT, rank, 77, MPI_COMM_WORLD, &first);
    first.MPI_ERROR = MPI_ERR_TOPOLOGY;
    memset(&again, 0xaa, sizeof again);
    CHECK_EQUAL(MPI_Status_c2f(&first, in_fortran), MPI_SUCCESS);
    CHECK_EQUAL(in_fortran[MPI_F_SOURCE], rank);
    CHECK_EQUAL(in_fortran[MPI_F_TAG], 77);
    CHECK_EQUAL(in_fortran[MPI_F_ERROR], MPI_ERR_TOPOLOGY);
    CHECK_EQUAL(MPI_Status_f2f08(in_fortran, &in_f08), MPI_SUCCESS);
    memset(in_fortran, 0xaa, sizeof in_fortran);
    CHECK_EQUAL(MPI_Status_f082f(&in_f08, in_fortran), MPI_SUCCESS);
    CHECK_EQUAL(MPI_Status_f2c(in_fortran, &again), MPI_SUCCESS);
    CHECK(!memcmp(&first, &again, sizeof first), "it is another");
    MPI_Get_count(&again, MPI_INT, &count);
    CHECK_EQUAL(count, 5);
    MPI_Test_cancelled(&again, &cancelled);
    CHECK_EQUAL(cancelled, 0);
    memset(&again, 0xaa, sizeof again);
    CHECK_EQUAL(MPI_Status_c2f08(&first, &in_f08), MPI_SUCCESS);
    CHECK_EQUAL(MPI_Status_f082c(&in_f08, &again), MPI_SUCCESS);
    CHECK(!memcmp(&first, &again, sizeof first), "it is another");

    STORY("a status that is to be ignored holds nothing");
    CHECK_EQUAL(MPI_Status_f2c(MPI_F_STATUS_IGNORE, &again), MPI_ERR_ARG);
    CHECK_EQUAL(MPI_Status_f082c(MPI_F08_STATUS_IGNORE, &again), MPI_ERR_ARG);
}

struct pair {
    int number;
    double value;
};

static int called_with;

static void remember(MPI_Comm *comm, int *code, ...)
{
    (void)comm;
    MPI_Error_class(*code, &called_with);
}

static void removed_types(void)
{
    STORY("datatypes by the names of MPI-1");
    struct pair sent[2] = {{7, 0.5}, {8, 0.25}}, received[2] = {{0, 0}, {0, 0}};
    int lengths[2] = {1, 1};
    MPI_Aint places[2], base, extent = -1, lower = -1, upper = -1;
    MPI_Datatype types[2] = {MPI_INT, MPI_DOUBLE}, pair, spread;
    MPI_Address(&sent[0], &base);
    MPI_Address(&sent[0].number, &places[0]);
    MPI_Address(&sent[0].value, &places[1]);
    CHECK_EQUAL(places[1] - places[0], offsetof(struct pair, value));
    places[0] -= base;
    places[1] -= base;
    MPI_Type_struct(2, lengths, places, types, &pair);
    MPI_Type_commit(&pair);
    MPI_Type_extent(pair, &extent);
    MPI_Type_lb(pair, &lower);
    MPI_Type_ub(pair, &upper);
    CHECK_EQUAL(extent, sizeof(struct pair));
    CHECK_EQUAL(lower, 0);
    CHECK_EQUAL(upper, sizeof(struct pair));
    MPI_Sendrecv(sent, 2, pair, rank, 1, received, 2, pair, rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(received[1].number == 8 && received[1].value == 0.25, "%d %g", received[1].number, received[1].value);
    MPI_Type_free(&pair);

    int size = -1, first[2] = {1, 2};
    MPI_Aint far[2] = {8, 32};
    MPI_Type_hvector(3, 2, 16, MPI_INT, &spread);
    MPI_Type_size(spread, &size);
    MPI_Type_extent(spread, &extent);
    CHECK_EQUAL(size, 24);
    CHECK_EQUAL(extent, 40);
    MPI_Type_free(&spread);
    MPI_Type_hindexed(2, first, far, MPI_INT, &spread);
    MPI_Type_lb(spread, &lower);
    MPI_Type_ub(spread, &upper);
    CHECK_EQUAL(lower, 8);
    CHECK_EQUAL(upper, 40);
    MPI_Type_free(&spread);
}

static void removed_handlers(void)
{
    STORY("error handlers by the names of MPI-1");
    MPI_Errhandler mine, found = MPI_ERRHANDLER_NULL;
    MPI_Comm comm;
    MPI_Handler_function *function = remember;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Errhandler_create(function, &mine);
    MPI_Errhandler_set(comm, mine);
    MPI_Errhandler_get(comm, &found);
    CHECK(found == mine, "another handler");
    MPI_Errhandler_free(&found);
    MPI_Errhandler_free(&mine);
    MPI_Send(NULL, 0, MPI_INT, ranks, 0, comm);
    CHECK_EQUAL(called_with, MPI_ERR_RANK);
    MPI_Comm_free(&comm);

    MPI_Errhandler_set(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Errhandler_set(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Aint extent;
    CHECK_CLASS(MPI_Type_extent(MPI_DATATYPE_NULL, &extent), MPI_ERR_TYPE);
    CHECK_CLASS(MPI_Type_hvector(-1, 1, 1, MPI_INT, &(MPI_Datatype){MPI_DATATYPE_NULL}), MPI_ERR_COUNT);
    CHECK_CLASS(MPI_Address(&extent, NULL), MPI_ERR_ARG);
}

static void absent_attribute(void)
{
    STORY("an attribute that is not there may be deleted, as programs do (MPI-5.0 §7.7.2)");
    int keyval, flag = 1, value = 7;
    void *found;
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &keyval, NULL);
    CHECK_EQUAL(MPI_Comm_delete_attr(MPI_COMM_SELF, keyval), MPI_SUCCESS);
    MPI_Comm_set_attr(MPI_COMM_SELF, keyval, &value);
    CHECK_EQUAL(MPI_Comm_delete_attr(MPI_COMM_SELF, keyval), MPI_SUCCESS);
    CHECK_EQUAL(MPI_Comm_delete_attr(MPI_COMM_SELF, keyval), MPI_SUCCESS);
    MPI_Comm_get_attr(MPI_COMM_SELF, keyval, &found, &flag);
    CHECK_EQUAL(flag, 0);
    MPI_Comm_free_keyval(&keyval);
    keyval = MPI_KEYVAL_INVALID;
    CHECK_CLASS(MPI_Comm_delete_attr(MPI_COMM_SELF, keyval), MPI_ERR_KEYVAL);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    handles();
    statuses();
    removed_types();
    removed_handlers();
    absent_attribute();
    return end();
}
