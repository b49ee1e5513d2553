/* Operations other than the broadcast that a library may multicast: barriers, allreduce, allgather, and
 * agreements on new communicators, in all forms, on several communicators.
 *
 * - `multicast_others all`: all of these.
 * - `barrier`, `allreduce`, `allgather` or `duplicate`: one of them alone, many times.
 * - `gone`: a rank is stopped for good in the middle. The ranks that wait for it are told within the bound,
 *   and the job ends with code 42. */
#include "check.h"

#include <time.h>

enum { TURNS = 60, SEVERAL = 4, HEARD = 42, LONGEST = 400001 };

static const int lengths[] = {0, 1, 3, 350, 358, 1000, 8191, 8192, 16385, 100000, LONGEST};
enum { LENGTHS = sizeof lengths / sizeof *lengths };

static int *data, *result;

static void one_barrier(MPI_Comm comm, int form, MPI_Request *again)
{
    MPI_Request request;
    if (form == 0)
        MPI_Barrier(comm);
    else if (form == 1) {
        MPI_Ibarrier(comm, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
        MPI_Start(again);
        MPI_Wait(again, MPI_STATUS_IGNORE);
    }
}

static void barriers(MPI_Comm comm, int turns)
{
    STORY("§6.3 nobody leaves a barrier before all have entered it");
    int own, count;
    MPI_Comm_rank(comm, &own);
    MPI_Comm_size(comm, &count);
    MPI_Request again;
    MPI_Barrier(comm);
    MPI_Barrier_init(comm, MPI_INFO_NULL, &again);
    double *times = memory(sizeof *times * 2 * (size_t)count);
    for (int turn = 0; turn < turns; turn++) {
        if (turn % 7 == own % 7)
            usleep(500);
        double mine[2] = {machine_seconds(), 0};
        one_barrier(comm, turn % 3, &again);
        mine[1] = machine_seconds();
        MPI_Gather(mine, 2, MPI_DOUBLE, times, 2, MPI_DOUBLE, turn % count, comm);
        if (own != turn % count)
            continue;
        double last_entered = times[0], first_left = times[1];
        for (int from = 1; from < count; from++) {
            last_entered = times[2 * from] > last_entered ? times[2 * from] : last_entered;
            first_left = times[2 * from + 1] < first_left ? times[2 * from + 1] : first_left;
        }
        CHECK(last_entered <= first_left, "the first left %g s before the last entered, turn %d", last_entered - first_left,
              turn);
    }
    MPI_Request_free(&again);
    free(times);
}

static int value(int from, int turn, int at)
{
    return from * 7 + turn * 31 + at % 1000;
}

static void fill_values(int *to, int count, int from, int turn)
{
    for (int at = 0; at < count; at++)
        to[at] = value(from, turn, at);
}

static int wrong_sums(const int *sums, int count, int turn, int members)
{
    int wrong = 0;
    for (int at = 0; at < count; at++)
        wrong += sums[at] != members * (turn * 31 + at % 1000) + 7 * (members * (members - 1) / 2);
    return wrong;
}

static void allreduces(MPI_Comm comm, int turns)
{
    STORY("§6.9.6 Allreduce of all lengths");
    int own, count;
    MPI_Comm_rank(comm, &own);
    MPI_Comm_size(comm, &count);
    for (int turn = 0; turn < turns; turn++) {
        int length = lengths[turn % LENGTHS];
        fill_values(data, length, own, turn);
        result[length] = -1;
        if (turn % 2) {
            MPI_Allreduce(MPI_IN_PLACE, data, length, MPI_INT, MPI_SUM, comm);
        } else {
            MPI_Allreduce(data, result, length, MPI_INT, MPI_SUM, comm);
        }
        const int *sums = turn % 2 ? data : result;
        CHECK_EQUAL(wrong_sums(sums, length, turn, count), 0);
        CHECK_EQUAL(result[length], -1);
    }
}

/* Maps x → ax + b modulo 2³²: composing them does not commute. */
static void compose(void *in, void *inout, int *count, MPI_Datatype *type)
{
    (void)type;
    unsigned *first = in, *second = inout;
    for (int at = 0; at < 2 * *count; at += 2) {
        second[at + 1] = second[at] * first[at + 1] + second[at + 1];
        second[at] *= first[at];
    }
}

static void in_order(MPI_Comm comm)
{
    STORY("§6.9.5 an operation that does not commute");
    enum { MAPS = 40 };
    int own, count;
    MPI_Comm_rank(comm, &own);
    MPI_Comm_size(comm, &count);
    MPI_Datatype map;
    MPI_Op op;
    MPI_Type_contiguous(2, MPI_INT, &map);
    MPI_Type_commit(&map);
    MPI_Op_create(compose, 0, &op);
    for (int turn = 0; turn < 10; turn++) {
        unsigned maps[2 * MAPS], found[2 * MAPS];
        for (int at = 0; at < MAPS; at++) {
            maps[2 * at] = (unsigned)(2 * own + 3 + turn);
            maps[2 * at + 1] = (unsigned)(own + at);
        }
        MPI_Allreduce(maps, found, MAPS, map, op, comm);
        int wrong = 0;
        for (int at = 0; at < MAPS; at++) {
            unsigned a = (unsigned)(3 + turn), b = (unsigned)at;
            for (int from = 1; from < count; from++) {
                unsigned next[2] = {(unsigned)(2 * from + 3 + turn), (unsigned)(from + at)};
                b = next[0] * b + next[1];
                a *= next[0];
            }
            wrong += found[2 * at] != a || found[2 * at + 1] != b;
        }
        CHECK_EQUAL(wrong, 0);
    }
    MPI_Op_free(&op);
    MPI_Type_free(&map);
}

static void allgathers(MPI_Comm comm, int turns)
{
    STORY("§6.7 Allgather and Allgatherv");
    int own, count;
    MPI_Comm_rank(comm, &own);
    MPI_Comm_size(comm, &count);
    int counts[count], places[count];
    for (int turn = 0; turn < turns; turn++) {
        int length = lengths[turn % LENGTHS] / count, wrong = 0;
        fill_values(data, length, own, turn);
        if (turn % 3 == 0) {
            MPI_Allgather(data, length, MPI_INT, result, length, MPI_INT, comm);
        } else if (turn % 3 == 1) {
            memcpy(result + own * length, data, (size_t)length * sizeof *data);
            MPI_Allgather(MPI_IN_PLACE, 0, MPI_INT, result, length, MPI_INT, comm);
        }
        for (int from = 0; turn % 3 < 2 && from < count; from++)
            for (int at = 0; at < length; at++)
                wrong += result[from * length + at] != value(from, turn, at);
        if (turn % 3 == 2) {
            for (int from = 0, place = 0; from < count; from++) {
                counts[from] = from % 2 ? length : from % 4 ? 0 : length / 2;
                places[from] = place;
                place += counts[from];
            }
            fill_values(data, counts[own], own, turn);
            MPI_Allgatherv(data, counts[own], MPI_INT, result, counts, places, MPI_INT, comm);
            for (int from = 0; from < count; from++)
                for (int at = 0; at < counts[from]; at++)
                    wrong += result[places[from] + at] != value(from, turn, at);
        }
        CHECK_EQUAL(wrong, 0);
    }
}

static void several_at_a_time(MPI_Comm twin)
{
    STORY("§6.12 several of different kinds at a time, on two communicators");
    enum { LENGTH = 5000 };
    int blocks[2][ranks];
    for (int turn = 0; turn < TURNS; turn++) {
        MPI_Request requests[SEVERAL + 1];
        int root = turn % ranks, word = turn * 3 + root;
        fill_values(data, LENGTH, rank, turn);
        fill_values(data + LENGTH, LENGTH, rank, turn + 1);
        int own = rank * 10 + turn, told = rank == root ? word : -1;
        MPI_Iallreduce(data, result, LENGTH, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[0]);
        MPI_Iallgather(&own, 1, MPI_INT, blocks[0], 1, MPI_INT, twin, &requests[1]);
        MPI_Iallreduce(data + LENGTH, result + LENGTH, LENGTH, MPI_INT, MPI_SUM, twin, &requests[2]);
        MPI_Ibcast(&told, 1, MPI_INT, root, MPI_COMM_WORLD, &requests[3]);
        MPI_Ibarrier(twin, &requests[4]);
        /* A blocking operation among them. */
        MPI_Allgather(&own, 1, MPI_INT, blocks[1], 1, MPI_INT, MPI_COMM_WORLD);
        MPI_Waitall(SEVERAL + 1, requests, MPI_STATUSES_IGNORE);
        CHECK_EQUAL(wrong_sums(result, LENGTH, turn, ranks), 0);
        CHECK_EQUAL(wrong_sums(result + LENGTH, LENGTH, turn + 1, ranks), 0);
        CHECK_EQUAL(told, word);
        for (int from = 0; from < ranks; from++) {
            CHECK_EQUAL(blocks[0][from], from * 10 + turn);
            CHECK_EQUAL(blocks[1][from], from * 10 + turn);
        }
    }
}

static void again_and_again(MPI_Comm twin)
{
    STORY("§6.13 persistent ones");
    enum { LENGTH = 3000 };
    MPI_Request requests[2];
    MPI_Allreduce_init(data, result, LENGTH, MPI_INT, MPI_SUM, twin, MPI_INFO_NULL, &requests[0]);
    MPI_Allgather_init(data + LENGTH, 100, MPI_INT, result + LENGTH, 100, MPI_INT, twin, MPI_INFO_NULL, &requests[1]);
    for (int turn = 0; turn < TURNS; turn++) {
        fill_values(data, LENGTH, rank, turn);
        fill_values(data + LENGTH, 100, rank, turn);
        MPI_Startall(2, requests);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        int wrong = 0;
        for (int from = 0; from < ranks; from++)
            for (int at = 0; at < 100; at++)
                wrong += result[LENGTH + 100 * from + at] != value(from, turn, at);
        CHECK_EQUAL(wrong, 0);
        CHECK_EQUAL(wrong_sums(result, LENGTH, turn, ranks), 0);
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
}

static void duplicates(int turns)
{
    STORY("§7.4.2 communicators that are made and freed, while other operations go on");
    for (int turn = 0; turn < turns; turn++) {
        MPI_Comm first, second, half;
        MPI_Request requests[2];
        int one = 1, sum = 0, told = rank == 0 ? turn : -1;
        MPI_Comm_idup(MPI_COMM_WORLD, &first, &requests[0]);
        MPI_Ibcast(&told, 1, MPI_INT, 0, MPI_COMM_WORLD, &requests[1]);
        MPI_Comm_dup(MPI_COMM_WORLD, &second);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        MPI_Comm_split(second, rank % 2, rank, &half);
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, first);
        CHECK_EQUAL(sum, ranks);
        CHECK_EQUAL(told, turn);
        int members;
        MPI_Comm_size(half, &members);
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, half);
        CHECK_EQUAL(sum, members);
        MPI_Comm_free(&first);
        MPI_Comm_free(&half);
        MPI_Comm_free(&second);
    }
}

static void all(void)
{
    MPI_Comm twin, some;
    MPI_Comm_dup(MPI_COMM_WORLD, &twin);
    MPI_Comm_split(MPI_COMM_WORLD, rank < ranks - 1, -rank, &some);
    barriers(MPI_COMM_WORLD, TURNS);
    allreduces(MPI_COMM_WORLD, 2 * LENGTHS);
    in_order(MPI_COMM_WORLD);
    allgathers(MPI_COMM_WORLD, 3 * LENGTHS);
    barriers(some, TURNS / 2);
    allreduces(some, LENGTHS);
    allgathers(some, LENGTHS);
    several_at_a_time(twin);
    again_and_again(twin);
    duplicates(10);
    MPI_Comm_free(&some);
    MPI_Comm_free(&twin);
}

static int gone(void)
{
    STORY("a rank is stopped for good while others reduce");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    allreduces(MPI_COMM_WORLD, LENGTHS);
    if (rank == 1)
        raise(SIGSTOP);
    int code = MPI_SUCCESS, turn = 0;
    for (; code == MPI_SUCCESS; turn++) {
        int one = 1, sum;
        code = turn % 2 ? MPI_Barrier(MPI_COMM_WORLD)
                        : MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    }
    if (rank == 0) {
        char text[MPI_MAX_ERROR_STRING];
        int length;
        MPI_Error_string(code, text, &length);
        printf("rank 0 was told after %d operations: %s\n", turn, text);
        fflush(stdout);
        MPI_Abort(MPI_COMM_WORLD, failures ? 1 : HEARD);
    }
    /* The end of the job ends the others. */
    pause();
    return 1;
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    const char *what = argc > 1 ? argv[1] : "all";
    data = memory(sizeof *data * (LONGEST + 1));
    result = memory(sizeof *result * (LONGEST + 1));
    if (!strcmp(what, "gone"))
        return gone();
    if (!strcmp(what, "barrier"))
        barriers(MPI_COMM_WORLD, 10 * TURNS);
    else if (!strcmp(what, "allreduce"))
        allreduces(MPI_COMM_WORLD, 4 * LENGTHS);
    else if (!strcmp(what, "allgather"))
        allgathers(MPI_COMM_WORLD, 4 * LENGTHS);
    else if (!strcmp(what, "duplicate"))
        duplicates(TURNS / 2);
    else
        all();
    free(data);
    free(result);
    return end();
}
