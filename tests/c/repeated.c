/* The same blocking collective again and again, and others that differ from it in one argument: each gives
 * the result of its own arguments, and a stale handle is refused although the same call was right before
 * (MPI-5.0 sections 2.8 and 6). */
#include "check.h"

enum { TIMES = 50 };

/* Sum, maximum and product of numbers that differ from round to round, in the same buffers. */
static void reductions(MPI_Comm comm, int round)
{
    int mine = rank + round, result = -1;
    int sum = ranks * round + ranks * (ranks - 1) / 2;
    for (int again = 0; again < 3; again++, mine++, sum += ranks) {
        MPI_Allreduce(&mine, &result, 1, MPI_INT, MPI_SUM, comm);
        CHECK(result == sum, "round %d: the sum is %d, not %d", round, result, sum);
    }
    mine = rank + round;
    MPI_Allreduce(&mine, &result, 1, MPI_INT, MPI_MAX, comm);
    CHECK(result == ranks - 1 + round, "round %d: the maximum is %d", round, result);
    for (int root = 0; root < ranks; root++) {
        result = -7;
        MPI_Reduce(&mine, &result, 1, MPI_INT, MPI_MIN, root, comm);
        CHECK(result == (rank == root ? round : -7), "round %d: the minimum at %d is %d", round, root, result);
    }
    mine = rank + round;
    MPI_Allreduce(MPI_IN_PLACE, &mine, 1, MPI_INT, MPI_SUM, comm);
    CHECK(mine == sum - 3 * ranks, "round %d: the sum in place is %d", round, mine);
}

static void movements(MPI_Comm comm, int round)
{
    static int mine[64], all[64 * 64];
    for (int count = 1; count <= 3; count++) {
        for (int at = 0; at < count; at++)
            mine[at] = 1000 * rank + 10 * round + at;
        MPI_Allgather(mine, count, MPI_INT, all, count, MPI_INT, comm);
        for (int at = 0; at < count * ranks; at++)
            CHECK(all[at] == 1000 * (at / count) + 10 * round + at % count, "round %d: gathered %d at %d", round, all[at], at);
    }
    for (int to = 0; to < ranks; to++)
        mine[to] = 100 * rank + to + round;
    MPI_Alltoall(mine, 1, MPI_INT, all, 1, MPI_INT, comm);
    for (int from = 0; from < ranks; from++)
        CHECK(all[from] == 100 * from + rank + round, "round %d: %d from %d", round, all[from], from);
    for (int root = 0; root < ranks; root++) {
        mine[0] = rank == root ? round * 100 + root : -1;
        MPI_Bcast(mine, 1, MPI_INT, root, comm);
        CHECK(mine[0] == round * 100 + root, "round %d: %d from root %d", round, mine[0], root);
    }
}

static void take_larger(void *in, void *inout, int *length, MPI_Datatype *type)
{
    (void)type;
    for (int i = 0; i < *length; i++)
        if (((int *)in)[i] > ((int *)inout)[i])
            ((int *)inout)[i] = ((int *)in)[i];
}

static void take_smaller(void *in, void *inout, int *length, MPI_Datatype *type)
{
    (void)type;
    for (int i = 0; i < *length; i++)
        if (((int *)in)[i] < ((int *)inout)[i])
            ((int *)inout)[i] = ((int *)in)[i];
}

/* Types and operations that the program makes, frees, and makes otherwise. */
static void made_ones(int round)
{
    int mine[4] = {rank, 10 + rank, 20 + rank, 30 + rank}, result[4] = {-1, -1, -1, -1};
    MPI_Datatype type;
    MPI_Op op;
    MPI_Type_vector(2, 1, 1 + round % 2, MPI_INT, &type);
    MPI_Type_commit(&type);
    memcpy(result, mine, sizeof mine);
    MPI_Bcast(result, 1, type, 0, MPI_COMM_WORLD);
    int second = 1 + round % 2;
    CHECK(result[0] == 0 && result[second] == 10 * second, "round %d: the type of now", round);
    CHECK(result[3 - second] == 10 * (3 - second) + rank, "round %d: the gap of now", round);
    MPI_Type_free(&type);
    MPI_Op_create(round % 2 ? take_larger : take_smaller, 1, &op);
    MPI_Allreduce(mine, result, 1, MPI_INT, op, MPI_COMM_WORLD);
    CHECK(result[0] == (round % 2 ? ranks - 1 : 0), "round %d: the operation of now gives %d", round, result[0]);
    MPI_Op_free(&op);
}

/* Communicators come and go, at the same place of memory and with other ranks. */
static void communicators(int round)
{
    MPI_Comm dup, half;
    MPI_Comm_dup(MPI_COMM_WORLD, &dup);
    MPI_Comm_set_errhandler(dup, MPI_ERRORS_RETURN);
    reductions(dup, round);
    movements(dup, round);
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "mpi_assert_no_any_tag", "true");
    MPI_Comm_set_info(dup, info);
    MPI_Info_free(&info);
    reductions(dup, round + 1);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &half);
    int mine = 1, result = 0;
    MPI_Allreduce(&mine, &result, 1, MPI_INT, MPI_SUM, half);
    CHECK(result == (ranks + 1 - rank % 2) / 2, "round %d: the half has %d", round, result);
    MPI_Comm_free(&half);
    MPI_Comm_free(&dup);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    STORY("calls that differ a little");
    for (int round = 0; round < TIMES; round++) {
        reductions(MPI_COMM_WORLD, round);
        movements(MPI_COMM_WORLD, round);
        made_ones(round);
        if (round % 10 == 0)
            communicators(round);
    }
    STORY("wrong calls behind right ones");
    /* A call that was right a moment ago is refused once its arguments are wrong. */
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int number = rank, sum = 0;
    MPI_Allreduce(&number, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK_CLASS(MPI_Allreduce(&number, &sum, -1, MPI_INT, MPI_SUM, MPI_COMM_WORLD), MPI_ERR_COUNT);
    CHECK_CLASS(MPI_Allreduce(&number, &number, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD), MPI_ERR_BUFFER);
    CHECK_CLASS(MPI_Allreduce(&number, &sum, 1, MPI_INT, MPI_OP_NULL, MPI_COMM_WORLD), MPI_ERR_OP);
    CHECK_CLASS(MPI_Reduce(&number, &sum, 1, MPI_INT, MPI_SUM, ranks, MPI_COMM_WORLD), MPI_ERR_ROOT);
    MPI_Allreduce(&number, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK(sum == ranks * (ranks - 1) / 2, "the sum behind wrong calls is %d", sum);
    return end();
}
