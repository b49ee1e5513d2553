/* Collectives of ranks that share a node. Some data is published in shared memory. Other data goes by
 * messages, because it has no room there, or because another communicator has the memory. On several hosts
 * the same calls go by messages. */
#include "each_thread.h"

enum { OUTSTANDING = 40, AHEAD = 300, COMMUNICATORS = 20, ROUNDS = 30 };

/* Bytes around the ends of small cells and large ones. */
static const int lengths[] = {0, 1, 8, 47, 48, 49, 1007, 1008, 1009, 4096, 32767, 32816, 32817, 70001, 300004};
enum { LENGTHS = sizeof lengths / sizeof *lengths };

/* Runs every operation once, with `length` bytes. */
static void everything(MPI_Comm comm, int length, int round)
{
    int me, size;
    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &size);
    unsigned char *mine = malloc((size_t)length * size + 1), *all = malloc((size_t)length * size + 1);
    int root = round % size, wrong;

    fill(mine, length, me == root ? root : 200, round);
    MPI_Bcast(mine, length, MPI_BYTE, root, comm);
    CHECK((wrong = (int)wrong_bytes(mine, length, root, round)) == 0, "MPI_Bcast of %d bytes: %d are wrong", length, wrong);

    fill(mine, length, me, round);
    MPI_Allgather(mine, length, MPI_BYTE, all, length, MPI_BYTE, comm);
    for (int who = 0; who < size; who++)
        CHECK((wrong = (int)wrong_bytes(all + (size_t)who * length, length, who, round)) == 0,
              "MPI_Allgather of %d bytes: %d bytes of rank %d are wrong", length, wrong, who);
    memset(all, 0, (size_t)length * size);
    fill(all + (size_t)me * length, length, me, round);
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_BYTE, all, length, MPI_BYTE, comm);
    for (int who = 0; who < size; who++)
        CHECK((wrong = (int)wrong_bytes(all + (size_t)who * length, length, who, round)) == 0,
              "MPI_Allgather in place of %d bytes: %d bytes of rank %d are wrong", length, wrong, who);

    for (int who = 0; who < size; who++)
        fill(mine + (size_t)who * length, length, me * 16 + who, round);
    MPI_Alltoall(mine, length, MPI_BYTE, all, length, MPI_BYTE, comm);
    for (int who = 0; who < size; who++)
        CHECK((wrong = (int)wrong_bytes(all + (size_t)who * length, length, who * 16 + me, round)) == 0,
              "MPI_Alltoall of %d bytes: %d bytes of rank %d are wrong", length, wrong, who);
    MPI_Alltoall(MPI_IN_PLACE, 0, MPI_BYTE, mine, length, MPI_BYTE, comm);
    for (int who = 0; who < size; who++)
        CHECK((wrong = (int)wrong_bytes(mine + (size_t)who * length, length, who * 16 + me, round)) == 0,
              "MPI_Alltoall in place of %d bytes: %d bytes of rank %d are wrong", length, wrong, who);

    int count = length / (int)sizeof(int), sum = 0;
    int *numbers = (int *)mine, *results = (int *)all;
    for (int who = 0; who < size; who++)
        sum += who * 1000;
    for (int at = 0; at < count; at++)
        numbers[at] = me * 1000 + at;
    MPI_Allreduce(numbers, results, count, MPI_INT, MPI_SUM, comm);
    for (int at = 0; at < count; at++)
        CHECK(results[at] == sum + at * size, "MPI_Allreduce of %d: number %d is %d", count, at, results[at]);
    MPI_Reduce(me == root ? MPI_IN_PLACE : numbers, numbers, count, MPI_INT, MPI_SUM, root, comm);
    for (int at = 0; at < count && me == root; at++)
        CHECK(numbers[at] == sum + at * size, "MPI_Reduce of %d: number %d is %d", count, at, numbers[at]);
    for (int at = 0; at < count; at++)
        numbers[at] = me * 1000 + at;
    MPI_Allreduce(MPI_IN_PLACE, numbers, count, MPI_INT, MPI_SUM, comm);
    for (int at = 0; at < count; at++)
        CHECK(numbers[at] == sum + at * size, "MPI_Allreduce in place of %d: number %d is %d", count, at, numbers[at]);
    MPI_Barrier(comm);
    free(mine);
    free(all);
}

static void all_lengths(void)
{
    STORY("operations of all lengths");
    for (int at = 0; at < LENGTHS; at++)
        for (int round = 0; round < 3; round++)
            everything(MPI_COMM_WORLD, lengths[at], round + at);
}

/* More communicators than have memory of their own at a time; all their ranks must agree on which have it. */
static void many_communicators(void)
{
    STORY("many communicators");
    MPI_Comm comms[COMMUNICATORS];
    for (int again = 0; again < 3; again++) {
        for (int at = 0; at < COMMUNICATORS; at++)
            MPI_Comm_split(MPI_COMM_WORLD, at % 3 ? (rank + at) % 2 : 0, at % 2 ? rank : -rank, &comms[at]);
        for (int at = 0; at < COMMUNICATORS; at++)
            everything(comms[at], lengths[at % 8], at);
        for (int at = 0; at < COMMUNICATORS; at++)
            MPI_Comm_free(&comms[(at * 7) % COMMUNICATORS]);
    }
    /* Each communicator gets the memory of the last one, as soon as no rank reads there. */
    for (int at = 0; at < 3 * COMMUNICATORS; at++) {
        MPI_Comm comm;
        int number = rank == 0 ? at : -1;
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        MPI_Bcast(&number, 1, MPI_INT, 0, comm);
        CHECK_EQUAL(number, at);
        MPI_Comm_free(&comm);
    }
}

static void many_outstanding(void)
{
    STORY("many outstanding");
    MPI_Request requests[OUTSTANDING];
    int sums[OUTSTANDING], numbers[OUTSTANDING], *all = malloc(sizeof(int) * OUTSTANDING * ranks);
    for (int at = 0; at < OUTSTANDING; at++) {
        numbers[at] = rank + at;
        sums[at] = rank == at % ranks ? at : -1;
        if (at % 4 == 0)
            MPI_Iallreduce(&numbers[at], &sums[at], 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[at]);
        else if (at % 4 == 1)
            MPI_Ibcast(&sums[at], 1, MPI_INT, at % ranks, MPI_COMM_WORLD, &requests[at]);
        else if (at % 4 == 2)
            MPI_Ibarrier(MPI_COMM_WORLD, &requests[at]);
        else
            MPI_Iallgather(&numbers[at], 1, MPI_INT, all + at * ranks, 1, MPI_INT, MPI_COMM_WORLD, &requests[at]);
    }
    /* Some wait for the newest first. */
    for (int i = 0; i < OUTSTANDING; i++) {
        int at = rank % 2 ? OUTSTANDING - 1 - i : i;
        MPI_Wait(&requests[at], MPI_STATUS_IGNORE);
        if (at % 4 == 0)
            CHECK_EQUAL(sums[at], ranks * (ranks - 1) / 2 + at * ranks);
        else if (at % 4 == 1)
            CHECK_EQUAL(sums[at], at);
        else if (at % 4 == 3)
            for (int who = 0; who < ranks; who++)
                CHECK_EQUAL(all[at * ranks + who], who + at);
    }
    free(all);
}

/* Persistent operations may be started in any order, and between others. */
static void persistent_among_others(void)
{
    STORY("persistent among others");
    MPI_Request requests[2];
    int ones[2] = {1, 10}, sums[2];
    for (int at = 0; at < 2; at++)
        MPI_Allreduce_init(&ones[at], &sums[at], 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[at]);
    for (int round = 0; round < ROUNDS; round++) {
        int first = (rank + round) % 2, number = rank == 0 ? round : -1;
        MPI_Start(&requests[first]);
        MPI_Bcast(&number, 1, MPI_INT, 0, MPI_COMM_WORLD);
        MPI_Start(&requests[1 - first]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        CHECK(number == round && sums[0] == ranks && sums[1] == 10 * ranks, "%d, %d, %d", number, sums[0], sums[1]);
    }
    for (int at = 0; at < 2; at++)
        MPI_Request_free(&requests[at]);
}

/* The root is done with each operation as soon as there is room, whether or not another rank has come. */
static void root_runs_ahead(void)
{
    STORY("the root runs ahead of a late rank");
    static unsigned char bytes[5000];
    for (int length = 8; length <= 5000; length += 4992) {
        if (rank == ranks - 1)
            usleep(100000);
        for (int round = 0; round < AHEAD; round++) {
            fill(bytes, length, rank ? 99 : 0, round);
            MPI_Bcast(bytes, length, MPI_BYTE, 0, MPI_COMM_WORLD);
            CHECK_EQUAL(wrong_bytes(bytes, length, 0, round), 0);
        }
    }
}

/* A rank that waits for the late one sleeps, is woken, and receives messages meanwhile. */
static void late_rank(void)
{
    STORY("a rank that comes late");
    int number = rank, sum = 0, from = (rank + ranks - 1) % ranks;
    double sent = rank, got = -1;
    MPI_Request requests[2];
    for (int late = 0; late < ranks; late++) {
        MPI_Irecv(&got, 1, MPI_DOUBLE, from, 3, MPI_COMM_WORLD, &requests[0]);
        MPI_Isend(&sent, 1, MPI_DOUBLE, (rank + 1) % ranks, 3, MPI_COMM_WORLD, &requests[1]);
        if (rank == late)
            usleep(50000);
        MPI_Allreduce(&number, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        CHECK_EQUAL(sum, ranks * (ranks - 1) / 2);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        CHECK(got == from, "%g from %d", got, from);
    }
}

/* A matrix of two times two; its product depends on the order. */
static void multiply(void *left, void *right, int *count, MPI_Datatype *type)
{
    (void)type;
    long *a = left, *b = right;
    for (int i = 0; i < *count; i++, a += 4, b += 4) {
        long product[4] = {a[0] * b[0] + a[1] * b[2], a[0] * b[1] + a[1] * b[3], a[2] * b[0] + a[3] * b[2],
                           a[2] * b[1] + a[3] * b[3]};
        for (int j = 0; j < 4; j++)
            b[j] = product[j] % 10007;
    }
}

static void order_of_operands(void)
{
    STORY("operands in the order of ranks");
    MPI_Datatype matrix;
    MPI_Op product;
    MPI_Type_contiguous(4, MPI_LONG, &matrix);
    MPI_Type_commit(&matrix);
    MPI_Op_create(multiply, 0, &product);
    for (int count = 1; count <= 2000; count *= 10) {
        long *mine = malloc(sizeof(long) * 4 * count), *result = malloc(sizeof(long) * 4 * count);
        long expected[4] = {1, 0, 0, 1};
        for (int who = ranks - 1; who >= 0; who--) {
            long left[4] = {who + 2, 3, 5, who + 7};
            int one = 1;
            multiply(left, expected, &one, &matrix);
        }
        for (int at = 0; at < count; at++) {
            long own[4] = {rank + 2, 3, 5, rank + 7};
            memcpy(mine + 4 * at, own, sizeof own);
        }
        MPI_Allreduce(mine, result, count, matrix, product, MPI_COMM_WORLD);
        for (int at = 0; at < 4 * count; at++)
            CHECK(result[at] == expected[at % 4], "MPI_Allreduce: %ld instead of %ld", result[at], expected[at % 4]);
        MPI_Request request;
        MPI_Iallreduce(MPI_IN_PLACE, mine, count, matrix, product, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        CHECK(!memcmp(mine, result, sizeof(long) * 4 * count), "MPI_Iallreduce in place differs");
        free(mine);
        free(result);
    }
    MPI_Op_free(&product);
    MPI_Type_free(&matrix);
    struct {
        double value;
        int index;
    } own = {-rank, rank}, least;
    MPI_Allreduce(&own, &least, 1, MPI_DOUBLE_INT, MPI_MINLOC, MPI_COMM_WORLD);
    CHECK(least.value == -(ranks - 1) && least.index == ranks - 1, "%g at %d", least.value, least.index);
}

/* Two ranks only: among more, a rank that has got too much passes nothing on. */
static void longer_than_expected(void)
{
    STORY("the root sends more than a rank expects");
    int numbers[4] = {1, 2, 3, 4}, class = MPI_SUCCESS;
    MPI_Comm pair;
    MPI_Comm_split(MPI_COMM_WORLD, rank < 2 ? 0 : MPI_UNDEFINED, rank, &pair);
    if (pair == MPI_COMM_NULL)
        return;
    MPI_Comm_set_errhandler(pair, MPI_ERRORS_RETURN);
    MPI_Error_class(MPI_Bcast(numbers, rank ? 2 : 4, MPI_INT, 0, pair), &class);
    CHECK_EQUAL(class, rank ? MPI_ERR_TRUNCATE : MPI_SUCCESS);
    MPI_Comm_free(&pair);
}

static void *in_thread(void *comm)
{
    for (int round = 0; round < ROUNDS; round++)
        everything(*(MPI_Comm *)comm, lengths[round % 9], round);
    return NULL;
}

int main(int argc, char **argv)
{
    CHECK_EQUAL(begin_threads(&argc, &argv), MPI_THREAD_MULTIPLE);
    all_lengths();
    many_communicators();
    many_outstanding();
    persistent_among_others();
    root_runs_ahead();
    late_rank();
    order_of_operands();
    longer_than_expected();
    STORY("a communicator for each thread");
    in_each_thread(in_thread);
    return end();
}
