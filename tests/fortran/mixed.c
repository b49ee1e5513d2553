/* The C half of mixed.f90: handles, statuses and attributes go from one language to the other (MPI-5.0
 * §19.3). */
#include <mpi.h>
#include <stdlib.h>

static int key_of_c = MPI_KEYVAL_INVALID, value_of_c = 42;

/* Returns the size of a communicator that Fortran made. */
int size_in_c_(const int *comm) {
    int size = -1;
    MPI_Comm_size(MPI_Comm_fromint(*comm), &size);
    return size;
}

/* Gives Fortran a datatype that C made: three integers. */
int datatype_of_c_(void) {
    MPI_Datatype type;
    MPI_Type_contiguous(3, MPI_INT, &type);
    MPI_Type_commit(&type);
    return MPI_Type_toint(type);
}

/* Reads an attribute that Fortran set: C sees a pointer to an integer of the size of an address. */
int attribute_in_c_(const int *comm, const int *key, MPI_Aint *value) {
    MPI_Aint *attribute = NULL;
    int found = 0;
    MPI_Comm_get_attr(MPI_Comm_fromint(*comm), *key, &attribute, &found);
    if (found) {
        *value = *attribute;
    }
    return found;
}

/* Sets an attribute in C, and gives its key and its address. */
void set_in_c_(const int *comm, int *key, MPI_Aint *address) {
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &key_of_c, NULL);
    MPI_Comm_set_attr(MPI_Comm_fromint(*comm), key_of_c, &value_of_c);
    *key = key_of_c;
    *address = (MPI_Aint)&value_of_c;
}

/* Completes a request that Fortran began, with a section of an array. */
void wait_in_c_(int *request) {
    MPI_Request one = MPI_Request_fromint(*request);
    MPI_Wait(&one, MPI_STATUS_IGNORE);
    *request = MPI_Request_toint(one);
}

/* Does the same with all calls that may find that a request is complete: two requests, the second one by
 * looking at it, and freeing it. */
void complete_in_c_(int *first, int *second) {
    MPI_Request one = MPI_Request_fromint(*first), other = MPI_Request_fromint(*second);
    int done = 0, index;
    MPI_Status status;
    while (!done) {
        MPI_Testany(1, &one, &index, &done, &status);
    }
    for (done = 0; !done;) {
        MPI_Request_get_status(other, &done, &status);
    }
    MPI_Request_free(&other);
    *first = MPI_Request_toint(one);
    *second = MPI_Request_toint(other);
}

/* Reads a status of Fortran, whose integers are those of the C structure. */
int count_in_c_(const int *status) {
    MPI_Status converted;
    int count;
    MPI_Status_f2c(status, &converted);
    MPI_Get_count(&converted, MPI_INT, &count);
    return count;
}
