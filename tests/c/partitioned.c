/* Partitioned communication (MPI-5.0 chapter 4): every rank sends to the next one and receives from the one
 * before; with one rank, from itself. */
#include "check.h"
#include <pthread.h>

static MPI_Comm comm;
static int next, before, level;

static int value(int sender, int epoch, int index)
{
    return sender * 1000003 + epoch * 10007 + index * 31 + 5;
}

/* A permutation of 0 to n - 1 that differs with `seed`. */
static void shuffle(int *order, int n, unsigned seed)
{
    for (int i = 0; i < n; i++)
        order[i] = i;
    for (int i = n - 1; i > 0; i--) {
        seed = seed * 1103515245u + 12345u;
        int j = (int)(seed >> 8) % (i + 1), kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
}

static void wait_for_partition(MPI_Request request, int partition)
{
    int arrived = 0;
    while (!arrived)
        MPI_Parrived(request, partition, &arrived);
}

/* §4.2: the number of partitions may differ on both sides, as long as the amount of data is the same; several
 * epochs; any order. */
static void exchange(int send_partitions, int receive_partitions, int items)
{
    int each = items / send_partitions, each_there = items / receive_partitions;
    int *out = memory(items * sizeof(int)), *in = memory(items * sizeof(int)), *order = memory(send_partitions * sizeof(int));
    MPI_Request requests[2];
    MPI_Psend_init(out, send_partitions, each, MPI_INT, next, 7, comm, MPI_INFO_NULL, &requests[0]);
    MPI_Precv_init(in, receive_partitions, each_there, MPI_INT, before, 7, comm, MPI_INFO_NULL, &requests[1]);
    for (int epoch = 0; epoch < 4; epoch++) {
        shuffle(order, send_partitions, rank + epoch + send_partitions);
        MPI_Startall(2, requests);
        for (int i = 0; i < send_partitions; i++) {
            int partition = order[i];
            for (int j = partition * each; j < (partition + 1) * each; j++)
                out[j] = value(rank, epoch, j);
            MPI_Pready(partition, requests[0]);
        }
        for (int i = 0; i < receive_partitions; i++) {
            wait_for_partition(requests[1], i);
            for (int j = i * each_there; j < (i + 1) * each_there; j++)
                CHECK_EQUAL(in[j], value(before, epoch, j));
        }
        MPI_Status statuses[2];
        int code = MPI_Waitall(2, requests, statuses), count;
        CHECK_EQUAL(code, MPI_SUCCESS);
        MPI_Get_count(&statuses[1], MPI_INT, &count);
        CHECK_EQUAL(count, items);
        CHECK_EQUAL(statuses[1].MPI_SOURCE, before);
        CHECK_EQUAL(statuses[1].MPI_TAG, 7);
        CHECK(requests[0] != MPI_REQUEST_NULL && requests[1] != MPI_REQUEST_NULL, "persistent requests are inactive, not null");
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
    free(out);
    free(in);
    free(order);
}

/* §4.2.1: the operations meet in the order in which they were initialized, as persistent ones do; the order
 * of the starts does not matter. */
static void matching_order(void)
{
    STORY("operations meet in the order of their initialization");
    int out[3], in[3] = {0};
    MPI_Request sends[3], receives[3];
    for (int i = 0; i < 3; i++)
        MPI_Psend_init(&out[i], 1, 1, MPI_INT, next, 9, comm, MPI_INFO_NULL, &sends[i]);
    for (int i = 0; i < 3; i++)
        MPI_Precv_init(&in[i], 1, 1, MPI_INT, before, 9, comm, MPI_INFO_NULL, &receives[i]);
    for (int epoch = 0; epoch < 2; epoch++) {
        for (int i = 2; i >= 0; i--) {
            out[i] = value(rank, epoch, i);
            MPI_Start(&sends[i]);
            MPI_Pready(0, sends[i]);
        }
        MPI_Start(&receives[1]);
        MPI_Start(&receives[2]);
        MPI_Start(&receives[0]);
        MPI_Waitall(3, receives, MPI_STATUSES_IGNORE);
        MPI_Waitall(3, sends, MPI_STATUSES_IGNORE);
        for (int i = 0; i < 3; i++)
            CHECK_EQUAL(in[i], value(before, epoch, i));
    }
    for (int i = 0; i < 3; i++) {
        MPI_Request_free(&sends[i]);
        MPI_Request_free(&receives[i]);
    }
}

/* §4.2: partitioned operations and others never match each other. */
static void apart_from_others(void)
{
    STORY("ordinary messages of the same tag go their own way");
    int out[4] = {1, 2, 3, 4}, in[4] = {0}, plain = rank, got = -1;
    MPI_Request requests[3];
    MPI_Precv_init(in, 4, 1, MPI_INT, before, 3, comm, MPI_INFO_NULL, &requests[0]);
    MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &requests[2]);
    MPI_Psend_init(out, 4, 1, MPI_INT, next, 3, comm, MPI_INFO_NULL, &requests[1]);
    MPI_Startall(2, requests);
    MPI_Pready_range(0, 3, requests[1]);
    MPI_Send(&plain, 1, MPI_INT, next, 3, comm);
    MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
    CHECK_EQUAL(got, before);
    CHECK(in[0] == 1 && in[3] == 4, "%d %d", in[0], in[3]);
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
}

/* §4.2.1, §5.1: derived datatypes, other ones on each side, with partitions that cut the items of the other
 * side. */
static void datatypes(void)
{
    STORY("derived datatypes");
    enum { PARTITIONS = 6, BLOCKS = 5 };
    MPI_Datatype comb, pairs;
    MPI_Type_vector(2, 1, 3, MPI_INT, &comb); /* ints 0 and 3, extent 4 */
    MPI_Type_commit(&comb);
    MPI_Type_contiguous(4, MPI_INT, &pairs);
    MPI_Type_commit(&pairs);
    int out[PARTITIONS * BLOCKS * 4], in[PARTITIONS * BLOCKS * 2];
    MPI_Request requests[2];
    MPI_Psend_init(out, PARTITIONS, BLOCKS, comb, next, 1, comm, MPI_INFO_NULL, &requests[0]);
    MPI_Precv_init(in, 3, BLOCKS, pairs, before, 1, comm, MPI_INFO_NULL, &requests[1]);
    int list[] = {5, 0, 3}, rest[] = {4, 1, 2};
    for (int epoch = 0; epoch < 2; epoch++) {
        for (int i = 0; i < PARTITIONS * BLOCKS * 4; i++)
            out[i] = value(rank, epoch, i);
        memset(in, 0, sizeof in);
        MPI_Startall(2, requests);
        MPI_Pready_list(3, list, requests[0]);
        MPI_Pready_list(3, rest, requests[0]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        for (int i = 0; i < PARTITIONS * BLOCKS; i++) {
            CHECK_EQUAL(in[2 * i], value(before, epoch, 4 * i));
            CHECK_EQUAL(in[2 * i + 1], value(before, epoch, 4 * i + 3));
        }
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
    MPI_Type_free(&comb);
    MPI_Type_free(&pairs);

    STORY("a receiver whose items are cut by the sender's partitions");
    double doubles[9] = {0};
    unsigned char bytes[9 * 8], wanted[9 * 8];
    MPI_Datatype apart;
    MPI_Type_create_resized(MPI_DOUBLE, 0, 16, &apart);
    MPI_Type_commit(&apart);
    double spread[18] = {0};
    MPI_Psend_init(bytes, 24, 3, MPI_BYTE, next, 2, comm, MPI_INFO_NULL, &requests[0]);
    MPI_Precv_init(spread, 3, 3, apart, before, 2, comm, MPI_INFO_NULL, &requests[1]);
    fill(bytes, sizeof bytes, rank, 2);
    fill(wanted, sizeof wanted, before, 2);
    MPI_Startall(2, requests);
    for (int i = 23; i >= 0; i--)
        MPI_Pready(i, requests[0]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < 9; i++)
        doubles[i] = spread[2 * i];
    CHECK(memcmp(doubles, wanted, sizeof wanted) == 0, "other bytes");
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
    MPI_Type_free(&apart);
}

/* §4.2.2: a partition arrives while others are not ready. MPI_Parrived does not complete the operation, and
 * may be called again. A library may wait for all partitions before it sends any, as MPICH 5.0 does: Weft
 * promises more. */
static void parts_arrive_alone(void)
{
    STORY("a partition arrives while the others are not ready");
    enum { EACH = 3000 };
    int *out = memory(4 * EACH * sizeof(int)), *in = memory(4 * EACH * sizeof(int)), flag = -1, told = 0;
    MPI_Request requests[2];
    MPI_Psend_init(out, 4, EACH, MPI_INT, next, 4, comm, MPI_INFO_NULL, &requests[0]);
    MPI_Precv_init(in, 4, EACH, MPI_INT, before, 4, comm, MPI_INFO_NULL, &requests[1]);
    MPI_Parrived(requests[1], 0, &flag); /* inactive */
    CHECK_EQUAL(flag, 1);
    MPI_Startall(2, requests);
    for (int i = 0; i < 4 * EACH; i++)
        out[i] = value(rank, 0, i);
    MPI_Pready(2, requests[0]);
    wait_for_partition(requests[1], 2);
    for (int i = 2 * EACH; i < 3 * EACH; i++)
        CHECK_EQUAL(in[i], value(before, 0, i));
    MPI_Parrived(requests[1], 2, &flag);
    CHECK_EQUAL(flag, 1);
    /* The other partitions are marked only once every rank has seen this one. */
    MPI_Allreduce(&flag, &told, 1, MPI_INT, MPI_SUM, comm);
    CHECK_EQUAL(told, ranks);
    MPI_Parrived(requests[1], 1, &flag);
    CHECK_EQUAL(flag, 0);
    MPI_Test(&requests[0], &flag, MPI_STATUS_IGNORE);
    CHECK_EQUAL(flag, 0);
    MPI_Barrier(comm);
    MPI_Pready_range(0, 1, requests[0]);
    MPI_Pready_range(3, 3, requests[0]);
    for (flag = 0; !flag;)
        MPI_Testall(2, requests, &flag, MPI_STATUSES_IGNORE);
    for (int i = 0; i < 4 * EACH; i++)
        CHECK_EQUAL(in[i], value(before, 0, i));
    MPI_Parrived(requests[1], 3, &flag);
    CHECK_EQUAL(flag, 1);
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
    flag = 0;
    MPI_Parrived(MPI_REQUEST_NULL, 0, &flag);
    CHECK_EQUAL(flag, 1);
    free(out);
    free(in);
}

/* §4.2: a started receive is served whatever its process waits for; initialization does not wait for the
 * other side. */
static void progress(void)
{
    STORY("data comes while the receiver waits in a barrier");
    enum { EACH = 100000 };
    int *out = memory(4 * EACH * sizeof(int)), *in = memory(4 * EACH * sizeof(int));
    MPI_Request send, receive;
    MPI_Precv_init(in, 2, 2 * EACH, MPI_INT, before, 5, comm, MPI_INFO_NULL, &receive);
    MPI_Start(&receive);
    for (int i = 0; i < 4 * EACH; i++)
        out[i] = value(rank, 0, i);
    MPI_Barrier(comm);
    MPI_Psend_init(out, 4, EACH, MPI_INT, next, 5, comm, MPI_INFO_NULL, &send);
    if (rank % 2 == 0) {
        MPI_Start(&send);
        MPI_Pready_range(0, 3, send);
        MPI_Wait(&send, MPI_STATUS_IGNORE);
    }
    MPI_Barrier(comm);
    if (rank % 2 != 0) {
        MPI_Start(&send);
        MPI_Pready_range(0, 3, send);
        MPI_Wait(&send, MPI_STATUS_IGNORE);
    }
    MPI_Wait(&receive, MPI_STATUS_IGNORE);
    for (int i = 0; i < 4 * EACH; i++)
        CHECK_EQUAL(in[i], value(before, 0, i));
    MPI_Request_free(&send);
    MPI_Request_free(&receive);
    free(out);
    free(in);
}

/* §3.10: MPI_PROC_NULL may stand for a source or a destination, and communication with it has no effect. */
static void null_process(void)
{
    STORY("MPI_PROC_NULL");
    int out[4] = {0}, in[4] = {-1, -1, -1, -1};
    MPI_Request requests[2];
    MPI_Psend_init(out, 4, 1, MPI_INT, MPI_PROC_NULL, 1, comm, MPI_INFO_NULL, &requests[0]);
    MPI_Precv_init(in, 4, 1, MPI_INT, MPI_PROC_NULL, 1, comm, MPI_INFO_NULL, &requests[1]);
    for (int epoch = 0; epoch < 2; epoch++) {
        MPI_Startall(2, requests);
        MPI_Pready_range(0, 3, requests[0]);
        MPI_Status status;
        MPI_Wait(&requests[1], &status);
        CHECK_EQUAL(status.MPI_SOURCE, MPI_PROC_NULL);
        MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
        CHECK_EQUAL(in[0], -1);
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
}

static void special_cases(void)
{
    int out[4] = {0}, in[4] = {-1, -1, -1, -1}, flag;
    MPI_Request requests[2];
    STORY("partitions without data");
    MPI_Psend_init(out, 4, 0, MPI_INT, next, 1, comm, MPI_INFO_NULL, &requests[0]);
    MPI_Precv_init(in, 2, 0, MPI_INT, before, 1, comm, MPI_INFO_NULL, &requests[1]);
    MPI_Startall(2, requests);
    MPI_Pready_range(0, 3, requests[0]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);

    STORY("a partition without data has arrived once it was marked ready, and not before"); /* §4.2.2 */
    MPI_Psend_init(out, 4, 0, MPI_INT, next, 2, comm, MPI_INFO_NULL, &requests[0]);
    MPI_Precv_init(in, 2, 0, MPI_INT, before, 2, comm, MPI_INFO_NULL, &requests[1]);
    for (int epoch = 0; epoch < 3; epoch++) {
        MPI_Start(&requests[1]);
        for (int i = 0; i < 2; i++) {
            MPI_Parrived(requests[1], i, &flag);
            CHECK_EQUAL(flag, 0);
        }
        MPI_Test(&requests[1], &flag, MPI_STATUS_IGNORE);
        CHECK_EQUAL(flag, 0);
        MPI_Barrier(comm);
        MPI_Start(&requests[0]);
        MPI_Pready_range(0, 3, requests[0]);
        wait_for_partition(requests[1], 0);
        wait_for_partition(requests[1], 1);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        MPI_Barrier(comm);
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);

    STORY("made and freed without being started");
    MPI_Psend_init(out, 4, 1, MPI_INT, next, 1, comm, MPI_INFO_NULL, &requests[0]);
    MPI_Precv_init(in, 4, 1, MPI_INT, before, 1, comm, MPI_INFO_NULL, &requests[1]);
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
    exchange(4, 4, 4);

    STORY("a wait for an inactive one returns at once"); /* §3.9 */
    MPI_Psend_init(out, 4, 1, MPI_INT, next, 1, comm, MPI_INFO_NULL, &requests[0]);
    MPI_Precv_init(in, 4, 1, MPI_INT, before, 1, comm, MPI_INFO_NULL, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    MPI_Test(&requests[1], &flag, MPI_STATUS_IGNORE);
    CHECK_EQUAL(flag, 1);
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
}

enum { THREADS = 4, THREAD_PARTITIONS = 32, THREAD_ITEMS = 500, THREAD_EPOCHS = 5 };
static int *thread_out;
static MPI_Request thread_send;
static pthread_barrier_t epoch_begins, epoch_ends;

static void *mark(void *argument)
{
    int me = (int)(intptr_t)argument, order[THREAD_PARTITIONS];
    for (int epoch = 0; epoch < THREAD_EPOCHS; epoch++) {
        pthread_barrier_wait(&epoch_begins);
        shuffle(order, THREAD_PARTITIONS, me + epoch);
        for (int i = 0; i < THREAD_PARTITIONS; i++) {
            int partition = order[i];
            if (partition % THREADS != me)
                continue;
            for (int j = partition * THREAD_ITEMS; j < (partition + 1) * THREAD_ITEMS; j++)
                thread_out[j] = value(rank, epoch, j);
            MPI_Pready(partition, thread_send);
        }
        pthread_barrier_wait(&epoch_ends);
    }
    return NULL;
}

/* §4.2.1: threads mark partitions in any order, while the main thread waits for all of them. */
static void threads(void)
{
    STORY("threads that mark partitions");
    if (level < MPI_THREAD_MULTIPLE)
        return;
    size_t bytes = THREAD_PARTITIONS * THREAD_ITEMS * sizeof(int);
    int *in = memory(bytes);
    thread_out = memory(bytes);
    MPI_Request receive;
    MPI_Psend_init(thread_out, THREAD_PARTITIONS, THREAD_ITEMS, MPI_INT, next, 6, comm, MPI_INFO_NULL, &thread_send);
    MPI_Precv_init(in, THREAD_PARTITIONS / 2, 2 * THREAD_ITEMS, MPI_INT, before, 6, comm, MPI_INFO_NULL, &receive);
    pthread_barrier_init(&epoch_begins, NULL, THREADS + 1);
    pthread_barrier_init(&epoch_ends, NULL, THREADS + 1);
    pthread_t workers[THREADS];
    for (int i = 0; i < THREADS; i++)
        pthread_create(&workers[i], NULL, mark, (void *)(intptr_t)i);
    for (int epoch = 0; epoch < THREAD_EPOCHS; epoch++) {
        MPI_Start(&receive);
        MPI_Start(&thread_send);
        pthread_barrier_wait(&epoch_begins);
        MPI_Wait(&thread_send, MPI_STATUS_IGNORE);
        MPI_Wait(&receive, MPI_STATUS_IGNORE);
        for (int j = 0; j < THREAD_PARTITIONS * THREAD_ITEMS; j++)
            CHECK_EQUAL(in[j], value(before, epoch, j));
        pthread_barrier_wait(&epoch_ends);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(workers[i], NULL);
    MPI_Request_free(&thread_send);
    MPI_Request_free(&receive);
    free(in);
    free(thread_out);
}

int main(int argc, char **argv)
{
    level = begin_threads(&argc, &argv);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    next = (rank + 1) % ranks;
    before = (rank + ranks - 1) % ranks;
    STORY("different numbers of partitions on both sides");
    static const int pairs[][2] = {{1, 1}, {1, 4}, {4, 1}, {2, 3}, {12, 8}, {60, 60}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        exchange(pairs[i][0], pairs[i][1], 120);
        exchange(pairs[i][0], pairs[i][1], 12000);
    }
    STORY("large partitions");
    exchange(3, 2, 600000);
    matching_order();
    apart_from_others();
    datatypes();
    if (!left_out("parts-alone"))
        parts_arrive_alone();
    progress();
    if (!left_out("null-process"))
        null_process();
    special_cases();
    threads();
    MPI_Comm_free(&comm);
    return end();
}
