/* Every collective, with several lengths, all roots, in place and not, contiguous and strided, regular and
 * with counts. */
#include "check.h"

static const int lengths[] = {0, 1, 2, 7, 100, 3000, 50000};
enum { LENGTHS = sizeof lengths / sizeof *lengths, LONGEST = 50000 };

static MPI_Comm comm;

/* The value that `source` sends to `target` at `index`; small enough to be added up. */
static int value(int source, int target, int index)
{
    return (source + 1) * 1000003 % 8191 + target * 17 + index % 1009;
}

static int *ints(size_t count)
{
    int *result = memory((count + 1) * sizeof(int));
    for (size_t i = 0; i <= count; i++)
        result[i] = -1;
    return result;
}

/* The sum of element `index` over all ranks up to, not including, `end`. */
static int sum(int target, int index, int end)
{
    int total = 0;
    for (int source = 0; source < end; source++)
        total += value(source, target, index);
    return total;
}

static int wrong_sums(const int *found, int length, int target, int first, int end)
{
    int wrong = 0;
    int before = 0;
    for (int i = 0; i < length; i++) {
        /* The value repeats with the index: only the first 1009 sums are computed. */
        if (i < 1009 || i == length - 1)
            before = sum(target, first + i, end), wrong += found[i] != before;
        else
            wrong += found[i] != found[i - 1009];
    }
    return wrong;
}

static int wrong_values(const int *found, int length, int source, int target)
{
    int wrong = 0;
    for (int i = 0; i < length; i++)
        wrong += found[i] != value(source, target, i);
    return wrong;
}

static void barrier(void)
{
    STORY("§6.3 Barrier");
    /* No rank leaves before all have come: rank r's message is sent before it enters. */
    for (int late = 0; late < ranks; late++) {
        if (rank == late) {
            usleep(2000);
            for (int other = 0; other < ranks; other++)
                if (other != rank)
                    MPI_Send(&late, 1, MPI_INT, other, 9, comm);
        }
        MPI_Barrier(comm);
        if (rank != late) {
            int got = -1;
            MPI_Recv(&got, 1, MPI_INT, late, 9, comm, MPI_STATUS_IGNORE);
            CHECK_EQUAL(got, late);
        }
    }
    for (int i = 0; i < 200; i++)
        MPI_Barrier(comm);
}

static void bcast(void)
{
    STORY("§6.4 Bcast");
    int *data = ints(2 * LONGEST);
    MPI_Datatype strided;
    for (int l = 0; l < LENGTHS; l++)
        for (int root = 0; root < ranks; root++) {
            int n = lengths[l];
            for (int i = 0; i < n; i++)
                data[i] = rank == root ? value(root, 0, i) : -1;
            data[n] = -5;
            MPI_Bcast(data, n, MPI_INT, root, comm);
            CHECK(wrong_values(data, n, root, 0) == 0 && data[n] == -5, "length %d, root %d", n, root);
            /* The root sends from one form, the others receive into another. */
            MPI_Type_vector(n, 1, 2, MPI_INT, &strided);
            MPI_Type_commit(&strided);
            for (int i = 0; i < 2 * n; i++)
                data[i] = rank == root ? value(root, 1, i / 2) : -1;
            if (rank == root)
                MPI_Bcast(data, n ? 1 : 0, strided, root, comm);
            else
                MPI_Bcast(data, n, MPI_INT, root, comm);
            if (rank != root)
                CHECK(wrong_values(data, n, root, 1) == 0, "strided, length %d, root %d", n, root);
            MPI_Type_free(&strided);
        }
    free(data);
}

static void reduce(void)
{
    int *in = ints(LONGEST), *out = ints(LONGEST);
    for (int l = 0; l < LENGTHS; l++) {
        int n = lengths[l];
        for (int i = 0; i < n; i++)
            in[i] = value(rank, 3, i);
        STORY("§6.9.1 Reduce");
        for (int root = 0; root < ranks; root++) {
            out[n] = -5;
            MPI_Reduce(in, rank == root ? out : NULL, n, MPI_INT, MPI_SUM, root, comm);
            if (rank == root)
                CHECK(wrong_sums(out, n, 3, 0, ranks) == 0 && out[n] == -5, "length %d, root %d", n, root);
            memcpy(out, in, n * sizeof(int));
            MPI_Reduce(rank == root ? MPI_IN_PLACE : in, rank == root ? out : NULL, n, MPI_INT, MPI_SUM, root, comm);
            if (rank == root)
                CHECK(wrong_sums(out, n, 3, 0, ranks) == 0, "in place, length %d, root %d", n, root);
        }
        STORY("§6.9.6 Allreduce");
        out[n] = -5;
        MPI_Allreduce(in, out, n, MPI_INT, MPI_SUM, comm);
        CHECK(wrong_sums(out, n, 3, 0, ranks) == 0 && out[n] == -5, "length %d", n);
        memcpy(out, in, n * sizeof(int));
        MPI_Allreduce(MPI_IN_PLACE, out, n, MPI_INT, MPI_SUM, comm);
        CHECK(wrong_sums(out, n, 3, 0, ranks) == 0, "in place, length %d", n);

        STORY("§6.11 Scan and Exscan");
        MPI_Scan(in, out, n, MPI_INT, MPI_SUM, comm);
        CHECK(wrong_sums(out, n, 3, 0, rank + 1) == 0, "Scan, length %d", n);
        memcpy(out, in, n * sizeof(int));
        MPI_Scan(MPI_IN_PLACE, out, n, MPI_INT, MPI_SUM, comm);
        CHECK(wrong_sums(out, n, 3, 0, rank + 1) == 0, "Scan in place, length %d", n);
        MPI_Exscan(in, out, n, MPI_INT, MPI_SUM, comm);
        if (rank > 0)
            CHECK(wrong_sums(out, n, 3, 0, rank) == 0, "Exscan, length %d", n);
        memcpy(out, in, n * sizeof(int));
        MPI_Exscan(MPI_IN_PLACE, out, n, MPI_INT, MPI_SUM, comm);
        if (rank > 0)
            CHECK(wrong_sums(out, n, 3, 0, rank) == 0, "Exscan in place, length %d", n);
    }
    free(in);
    free(out);
}

static void reduce_scatter(void)
{
    for (int l = 0; l < LENGTHS - 1; l++) {
        int n = lengths[l], total = n * ranks;
        int *in = ints(total), *out = ints(total);
        STORY("§6.10.1 Reduce_scatter_block");
        for (int i = 0; i < total; i++)
            in[i] = value(rank, 4, i);
        MPI_Reduce_scatter_block(in, out, n, MPI_INT, MPI_SUM, comm);
        CHECK(wrong_sums(out, n, 4, rank * n, ranks) == 0 && out[n] == -1, "length %d", n);
        memcpy(out, in, total * sizeof(int));
        MPI_Reduce_scatter_block(MPI_IN_PLACE, out, n, MPI_INT, MPI_SUM, comm);
        CHECK(wrong_sums(out, n, 4, rank * n, ranks) == 0, "in place, length %d", n);
        free(in);
        free(out);

        STORY("§6.10.2 Reduce_scatter");
        int *counts = memory(ranks * sizeof(int)), before = 0;
        total = 0;
        for (int other = 0; other < ranks; other++) {
            counts[other] = other % 3 == 1 ? 0 : n + other;
            before += other < rank ? counts[other] : 0;
            total += counts[other];
        }
        in = ints(total);
        out = ints(total);
        for (int i = 0; i < total; i++)
            in[i] = value(rank, 5, i);
        MPI_Reduce_scatter(in, out, counts, MPI_INT, MPI_SUM, comm);
        CHECK(wrong_sums(out, counts[rank], 5, before, ranks) == 0, "length %d", n);
        memcpy(out, in, total * sizeof(int));
        MPI_Reduce_scatter(MPI_IN_PLACE, out, counts, MPI_INT, MPI_SUM, comm);
        CHECK(wrong_sums(out, counts[rank], 5, before, ranks) == 0, "in place, length %d", n);
        free(in);
        free(out);
        free(counts);
    }
}

static void gather_scatter(void)
{
    for (int l = 0; l < LENGTHS - 1; l++) {
        int n = lengths[l];
        int *mine = ints(n), *all = ints((size_t)n * ranks);
        for (int root = 0; root < ranks; root += root == 0 && ranks > 3 ? ranks - 2 : 1) {
            STORY("§6.5 Gather");
            for (int i = 0; i < n; i++)
                mine[i] = value(rank, root, i);
            MPI_Gather(mine, n, MPI_INT, rank == root ? all : NULL, n, MPI_INT, root, comm);
            for (int other = 0; rank == root && other < ranks; other++)
                CHECK(wrong_values(all + (size_t)other * n, n, other, root) == 0, "length %d, root %d, of %d", n, root, other);
            if (rank == root) {
                memset(all, 0xff, (size_t)n * ranks * sizeof(int));
                memcpy(all + (size_t)n * rank, mine, n * sizeof(int));
            }
            MPI_Gather(rank == root ? MPI_IN_PLACE : mine, n, MPI_INT, all, n, MPI_INT, root, comm);
            for (int other = 0; rank == root && other < ranks; other++)
                CHECK(wrong_values(all + (size_t)other * n, n, other, root) == 0, "in place, length %d, root %d", n, root);

            STORY("§6.6 Scatter");
            for (int other = 0; other < ranks; other++)
                for (int i = 0; i < n; i++)
                    all[(size_t)other * n + i] = rank == root ? value(root, other, i) : -1;
            memset(mine, 0xff, n * sizeof(int));
            MPI_Scatter(rank == root ? all : NULL, n, MPI_INT, mine, n, MPI_INT, root, comm);
            CHECK(wrong_values(mine, n, root, rank) == 0 && mine[n] == -1, "length %d, root %d", n, root);
            memset(mine, 0xff, n * sizeof(int));
            MPI_Scatter(all, n, MPI_INT, rank == root ? MPI_IN_PLACE : mine, n, MPI_INT, root, comm);
            if (rank != root)
                CHECK(wrong_values(mine, n, root, rank) == 0, "in place, length %d, root %d", n, root);
        }
        STORY("§6.7 Allgather");
        for (int i = 0; i < n; i++)
            mine[i] = value(rank, 6, i);
        MPI_Allgather(mine, n, MPI_INT, all, n, MPI_INT, comm);
        for (int other = 0; other < ranks; other++)
            CHECK(wrong_values(all + (size_t)other * n, n, other, 6) == 0, "length %d, of %d", n, other);
        memset(all, 0xff, (size_t)n * ranks * sizeof(int));
        memcpy(all + (size_t)n * rank, mine, n * sizeof(int));
        MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, n, MPI_INT, comm);
        for (int other = 0; other < ranks; other++)
            CHECK(wrong_values(all + (size_t)other * n, n, other, 6) == 0, "in place, length %d, of %d", n, other);

        STORY("§6.8 Alltoall");
        int *from = ints((size_t)n * ranks);
        for (int other = 0; other < ranks; other++)
            for (int i = 0; i < n; i++)
                from[(size_t)other * n + i] = value(rank, other, i);
        MPI_Alltoall(from, n, MPI_INT, all, n, MPI_INT, comm);
        for (int other = 0; other < ranks; other++)
            CHECK(wrong_values(all + (size_t)other * n, n, other, rank) == 0, "length %d, of %d", n, other);
        MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, from, n, MPI_INT, comm);
        for (int other = 0; other < ranks; other++)
            CHECK(wrong_values(from + (size_t)other * n, n, other, rank) == 0, "in place, length %d, of %d", n, other);
        free(from);
        free(mine);
        free(all);
    }
}

/* The collectives with a count and a place for each rank; blocks of different lengths, some empty, with gaps
 * between. */
static void with_counts(void)
{
    enum { GAP = 3 };
    for (int l = 0; l < LENGTHS - 2; l++) {
        int n = lengths[l], end_ = 0;
        int *counts = memory(ranks * sizeof(int)), *at = memory(ranks * sizeof(int));
        for (int other = 0; other < ranks; other++) {
            counts[other] = other % 4 == 2 ? 0 : n + other;
            at[other] = end_ + GAP;
            end_ = at[other] + counts[other];
        }
        int mine_count = counts[rank];
        int *mine = ints(n + ranks), *all = ints(end_ + GAP);

        STORY("§6.5 Gatherv");
        for (int root = 0; root < ranks; root += ranks > 1 ? ranks - 1 : 1) {
            for (int i = 0; i < mine_count; i++)
                mine[i] = value(rank, root, i);
            for (int i = 0; i < end_; i++)
                all[i] = -1;
            MPI_Gatherv(mine, mine_count, MPI_INT, all, counts, at, MPI_INT, root, comm);
            for (int other = 0; rank == root && other < ranks; other++) {
                CHECK(wrong_values(all + at[other], counts[other], other, root) == 0, "length %d, root %d, of %d", n, root, other);
                CHECK_EQUAL(all[at[other] - 1], -1);
            }
            STORY("§6.6 Scatterv");
            for (int other = 0; other < ranks; other++)
                for (int i = 0; i < counts[other]; i++)
                    all[at[other] + i] = value(root, other, i);
            memset(mine, 0xff, (n + ranks) * sizeof(int));
            MPI_Scatterv(all, counts, at, MPI_INT, mine, mine_count, MPI_INT, root, comm);
            CHECK(wrong_values(mine, mine_count, root, rank) == 0 && mine[mine_count] == -1, "length %d, root %d", n, root);
            MPI_Scatterv(all, counts, at, MPI_INT, rank == root ? MPI_IN_PLACE : mine, mine_count, MPI_INT, root, comm);
        }
        STORY("§6.7 Allgatherv");
        for (int i = 0; i < mine_count; i++)
            mine[i] = value(rank, 7, i);
        memset(all, 0xff, end_ * sizeof(int));
        MPI_Allgatherv(mine, mine_count, MPI_INT, all, counts, at, MPI_INT, comm);
        for (int other = 0; other < ranks; other++)
            CHECK(wrong_values(all + at[other], counts[other], other, 7) == 0, "length %d, of %d", n, other);
        memset(all, 0xff, end_ * sizeof(int));
        memcpy(all + at[rank], mine, mine_count * sizeof(int));
        MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, counts, at, MPI_INT, comm);
        for (int other = 0; other < ranks; other++)
            CHECK(wrong_values(all + at[other], counts[other], other, 7) == 0, "in place, length %d, of %d", n, other);
        free(mine);
        free(all);
        free(counts);
        free(at);
    }
}

/* Rank a sends n + a + 2 b (or nothing) to rank b. */
static int alltoallv_count(int n, int a, int b)
{
    return (a + b) % 5 == 3 ? 0 : n + a + 2 * b;
}

static void alltoallv_and_w(void)
{
    for (int l = 0; l < LENGTHS - 2; l++) {
        int n = lengths[l], out_end = 0, in_end = 0;
        int *out_count = memory(ranks * sizeof(int)), *out_at = memory(ranks * sizeof(int));
        int *in_count = memory(ranks * sizeof(int)), *in_at = memory(ranks * sizeof(int));
        MPI_Datatype *types = memory(ranks * sizeof *types);
        for (int other = 0; other < ranks; other++) {
            out_count[other] = alltoallv_count(n, rank, other);
            in_count[other] = alltoallv_count(n, other, rank);
            out_at[other] = out_end + 1;
            in_at[other] = in_end + 2;
            out_end = out_at[other] + out_count[other];
            in_end = in_at[other] + in_count[other];
            types[other] = MPI_INT;
        }
        int *out = ints(out_end), *in = ints(in_end);
        for (int other = 0; other < ranks; other++)
            for (int i = 0; i < out_count[other]; i++)
                out[out_at[other] + i] = value(rank, other, i);
        STORY("§6.8 Alltoallv");
        MPI_Alltoallv(out, out_count, out_at, MPI_INT, in, in_count, in_at, MPI_INT, comm);
        for (int other = 0; other < ranks; other++)
            CHECK(wrong_values(in + in_at[other], in_count[other], other, rank) == 0, "length %d, of %d", n, other);
        STORY("§6.8 Alltoallw");
        memset(in, 0xff, in_end * sizeof(int));
        for (int other = 0; other < ranks; other++)
            out_at[other] *= sizeof(int), in_at[other] *= sizeof(int);
        MPI_Alltoallw(out, out_count, out_at, types, in, in_count, in_at, types, comm);
        for (int other = 0; other < ranks; other++)
            CHECK(wrong_values(in + in_at[other] / sizeof(int), in_count[other], other, rank) == 0, "length %d, of %d", n, other);
        /* In place: counts must agree both ways. */
        STORY("§6.8 Alltoallv in place");
        int end_ = 0;
        for (int other = 0; other < ranks; other++) {
            in_count[other] = n + (rank + other) % 3;
            in_at[other] = end_;
            end_ += in_count[other];
        }
        int *both = ints(end_);
        for (int other = 0; other < ranks; other++)
            for (int i = 0; i < in_count[other]; i++)
                both[in_at[other] + i] = value(rank, other, i);
        MPI_Alltoallv(MPI_IN_PLACE, NULL, NULL, MPI_DATATYPE_NULL, both, in_count, in_at, MPI_INT, comm);
        for (int other = 0; other < ranks; other++)
            CHECK(wrong_values(both + in_at[other], in_count[other], other, rank) == 0, "length %d, of %d", n, other);
        free(both);
        free(out);
        free(in);
        free(out_count);
        free(out_at);
        free(in_count);
        free(in_at);
        free(types);
    }
}

static void strided(void)
{
    STORY("§6.2 collectives on strided data");
    enum { N = 300 };
    MPI_Datatype column, padded;
    MPI_Type_vector(N, 1, 2, MPI_INT, &column);
    MPI_Type_create_resized(column, 0, 2 * N * sizeof(int), &padded);
    MPI_Type_commit(&padded);
    int *from = ints(2 * N), *all = ints((size_t)2 * N * ranks), *dense = ints((size_t)N * ranks);
    for (int i = 0; i < N; i++)
        from[2 * i] = value(rank, 0, i);
    MPI_Allgather(from, 1, padded, all, 1, padded, comm);
    MPI_Allgather(from, 1, padded, dense, N, MPI_INT, comm);
    for (int other = 0; other < ranks; other++)
        for (int i = 0; i < N; i++) {
            CHECK_EQUAL(all[(size_t)2 * N * other + 2 * i], value(other, 0, i));
            CHECK_EQUAL(all[(size_t)2 * N * other + 2 * i + 1], -1);
            CHECK_EQUAL(dense[(size_t)N * other + i], value(other, 0, i));
        }
    memset(dense, 0xff, N * sizeof(int));
    MPI_Scatter(all, 1, padded, dense, N, MPI_INT, ranks - 1, comm);
    CHECK_EQUAL(wrong_values(dense, N, rank, 0), 0);
    memset(all, 0xff, (size_t)2 * N * ranks * sizeof(int));
    MPI_Gather(dense, N, MPI_INT, all, 1, padded, 0, comm);
    for (int other = 0; rank == 0 && other < ranks; other++)
        for (int i = 0; i < N; i++)
            CHECK_EQUAL(all[(size_t)2 * N * other + 2 * i], value(other, 0, i));
    MPI_Type_free(&padded);
    MPI_Type_free(&column);
    free(from);
    free(all);
    free(dense);
}

static void back_to_back(void)
{
    STORY("§6.14 collectives back to back with messages between them");
    for (int i = 0; i < 100; i++) {
        int root = i % ranks, got = rank == root ? i : -1, total = 0, peer = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;
        int token = i * ranks + rank, their = -1;
        MPI_Request request;
        MPI_Irecv(&their, 1, MPI_INT, from, i, comm, &request);
        MPI_Bcast(&got, 1, MPI_INT, root, comm);
        MPI_Send(&token, 1, MPI_INT, peer, i, comm);
        MPI_Allreduce(&got, &total, 1, MPI_INT, MPI_SUM, comm);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        CHECK_EQUAL(total, i * ranks);
        CHECK_EQUAL(their, i * ranks + from);
    }
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    comm = MPI_COMM_WORLD;
    barrier();
    bcast();
    reduce();
    reduce_scatter();
    gather_scatter();
    with_counts();
    alltoallv_and_w();
    strided();
    back_to_back();

    STORY("§6.2 all again on a communicator in reverse order");
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &comm);
    MPI_Comm_rank(comm, &rank);
    bcast();
    reduce();
    gather_scatter();
    MPI_Comm_free(&comm);
    return end();
}
