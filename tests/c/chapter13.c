/*
 * Chapter 13 of MPI 5.0, external interfaces: generalized requests, and the fields of a status that a program
 * may write: conformance. Passes on any MPI library with any number of ranks.
 */
#include "check.h"
#include <pthread.h>

/* The values with which the callbacks of one request were called. */
struct operation {
    int queried, freed, cancelled, was_complete, elements;
    MPI_Request request;
};

static int query(void *extra, MPI_Status *status)
{
    struct operation *operation = extra;
    operation->queried++;
    MPI_Status_set_elements(status, MPI_INT, operation->elements);
    MPI_Status_set_cancelled(status, operation->cancelled);
    status->MPI_SOURCE = 17;
    status->MPI_TAG = 18;
    return MPI_SUCCESS;
}

static int release(void *extra)
{
    ((struct operation *)extra)->freed++;
    return MPI_SUCCESS;
}

static int cancel(void *extra, int complete)
{
    struct operation *operation = extra;
    operation->was_complete = complete;
    if (!complete) {
        operation->cancelled = 1;
        MPI_Grequest_complete(operation->request);
    }
    return MPI_SUCCESS;
}

static void start(struct operation *operation, int elements)
{
    *operation = (struct operation){.elements = elements, .was_complete = -1};
    MPI_Grequest_start(query, release, cancel, operation, &operation->request);
}

static void check_status(const MPI_Status *status, int elements)
{
    int count = -1, cancelled = -1;
    MPI_Get_count(status, MPI_INT, &count);
    CHECK_EQUAL(count, elements);
    MPI_Test_cancelled(status, &cancelled);
    CHECK_EQUAL(cancelled, 0);
    CHECK_EQUAL(status->MPI_SOURCE, 17);
    CHECK_EQUAL(status->MPI_TAG, 18);
}

static void *complete_later(void *argument)
{
    struct operation *operation = argument;
    usleep(20000);
    MPI_Grequest_complete(operation->request);
    return NULL;
}

static void generalized(int provided)
{
    STORY("13.2 a generalized request is complete when the program says so");
    struct operation operation;
    MPI_Status status;
    int flag = -1;
    start(&operation, 5);
    MPI_Test(&operation.request, &flag, &status);
    CHECK_EQUAL(flag, 0);
    CHECK_EQUAL(operation.queried, 0);
    MPI_Grequest_complete(operation.request);
    CHECK_EQUAL(operation.freed, 0);
    MPI_Wait(&operation.request, &status);
    CHECK(operation.request == MPI_REQUEST_NULL, "not null after MPI_Wait");
    CHECK(operation.queried == 1 && operation.freed == 1, "%d queries, freed %d times", operation.queried, operation.freed);
    check_status(&status, 5);

    STORY("13.2 MPI_Request_get_status asks, and does not free");
    start(&operation, 6);
    MPI_Grequest_complete(operation.request);
    MPI_Request_get_status(operation.request, &flag, &status);
    CHECK_EQUAL(flag, 1);
    CHECK(operation.queried == 1 && operation.freed == 0, "%d queries, freed %d times", operation.queried, operation.freed);
    check_status(&status, 6);
    flag = 0;
    MPI_Test(&operation.request, &flag, &status);
    CHECK(flag && operation.freed == 1, "%d, freed %d times", flag, operation.freed);
    check_status(&status, 6);

    STORY("13.2 it is freed once: when it is complete and MPI_Request_free has been called");
    start(&operation, 1);
    MPI_Request kept = operation.request;
    MPI_Request_free(&operation.request);
    CHECK_EQUAL(operation.freed, 0);
    MPI_Grequest_complete(kept);
    CHECK_EQUAL(operation.freed, 1);

    STORY("13.2 MPI_Cancel tells the program whether the operation is complete");
    start(&operation, 0);
    MPI_Cancel(&operation.request);
    CHECK_EQUAL(operation.was_complete, 0);
    MPI_Wait(&operation.request, &status);
    MPI_Test_cancelled(&status, &flag);
    CHECK_EQUAL(flag, 1);
    start(&operation, 2);
    MPI_Grequest_complete(operation.request);
    MPI_Cancel(&operation.request);
    CHECK_EQUAL(operation.was_complete, 1);
    MPI_Wait(&operation.request, &status);
    check_status(&status, 2);

    STORY("13.2 it completes among requests of other kinds");
    int got = -1, index, next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    MPI_Request all[3];
    MPI_Status statuses[3];
    start(&operation, 3);
    MPI_Irecv(&got, 1, MPI_INT, before, 1, MPI_COMM_WORLD, &all[0]);
    all[1] = operation.request;
    MPI_Isend(&rank, 1, MPI_INT, next, 1, MPI_COMM_WORLD, &all[2]);
    MPI_Grequest_complete(operation.request);
    MPI_Waitall(3, all, statuses);
    CHECK_EQUAL(got, before);
    check_status(&statuses[1], 3);
    start(&operation, 4);
    all[0] = MPI_REQUEST_NULL;
    all[1] = operation.request;
    MPI_Grequest_complete(operation.request);
    MPI_Waitany(2, all, &index, &status);
    CHECK_EQUAL(index, 1);
    check_status(&status, 4);
    CHECK_EQUAL(operation.freed, 1);

    STORY("13.2 a thread completes what another one waits for");
    if (provided < MPI_THREAD_MULTIPLE)
        return;
    pthread_t thread;
    start(&operation, 8);
    pthread_create(&thread, NULL, complete_later, &operation);
    MPI_Request waited = operation.request; /* the other thread reads `operation.request` */
    MPI_Wait(&waited, &status);
    pthread_join(thread, NULL);
    check_status(&status, 8);
    CHECK_EQUAL(operation.freed, 1);
}

static void statuses(void)
{
    STORY("13.3 elements of a status");
    MPI_Status status = {0};
    MPI_Datatype pair;
    int count, flag;
    MPI_Count large;
    MPI_Type_contiguous(2, MPI_INT, &pair);
    MPI_Type_commit(&pair);
    MPI_Status_set_elements(&status, MPI_INT, 7);
    MPI_Get_elements(&status, MPI_INT, &count);
    CHECK_EQUAL(count, 7);
    MPI_Get_elements(&status, pair, &count);
    CHECK_EQUAL(count, 7);
    MPI_Get_count(&status, pair, &count); /* §3.2.5: seven are no whole number of pairs */
    CHECK_EQUAL(count, MPI_UNDEFINED);
    MPI_Status_set_elements(&status, pair, 8); /* basic elements, also here */
    MPI_Get_count(&status, pair, &count);
    CHECK_EQUAL(count, 4);
    MPI_Status_set_elements_c(&status, MPI_BYTE, (MPI_Count)3 << 40);
    MPI_Get_elements_c(&status, MPI_BYTE, &large);
    CHECK_EQUAL(large, (MPI_Count)3 << 40);
    MPI_Get_count_c(&status, MPI_BYTE, &large);
    CHECK_EQUAL(large, (MPI_Count)3 << 40);
    MPI_Get_count(&status, MPI_BYTE, &count); /* §3.2.5: more than an int can say */
    CHECK_EQUAL(count, MPI_UNDEFINED);
    MPI_Type_free(&pair);

    STORY("13.3 whether it was cancelled");
    MPI_Status_set_cancelled(&status, 1);
    MPI_Test_cancelled(&status, &flag);
    CHECK_EQUAL(flag, 1);
    MPI_Status_set_cancelled(&status, 0);
    MPI_Test_cancelled(&status, &flag);
    CHECK_EQUAL(flag, 0);

    STORY("13.3 its fields, by procedures too"); /* §3.2.5: MPI_Status_get_… */
    int source, tag, error;
    MPI_Status_set_source(&status, 41);
    MPI_Status_set_tag(&status, 42);
    MPI_Status_set_error(&status, MPI_ERR_OTHER);
    CHECK(status.MPI_SOURCE == 41 && status.MPI_TAG == 42 && status.MPI_ERROR == MPI_ERR_OTHER, "%d, %d, %d", status.MPI_SOURCE,
          status.MPI_TAG, status.MPI_ERROR);
    MPI_Status_get_source(&status, &source);
    MPI_Status_get_tag(&status, &tag);
    MPI_Status_get_error(&status, &error);
    CHECK(source == 41 && tag == 42 && error == MPI_ERR_OTHER, "%d, %d, %d", source, tag, error);
}

int main(int argc, char **argv)
{
    int provided = begin_threads(&argc, &argv);
    generalized(provided);
    statuses();
    return end();
}
