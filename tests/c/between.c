/* Collective operations between two groups (MPI-5.0 section 6.2.3 and those of the operations), in every
 * form. Runs on any MPI library. */
#include "check.h"
#include "forms.h"

enum { COUNT = 5 };

static MPI_Comm inter;
/* The two groups: this process's own, and the other. World ranks of a group follow each other. */
static int is_first, own_rank, own_size, other_size, other_start;

static void begin_groups(void)
{
    int firsts = (ranks + 2) / 3;
    MPI_Comm own;
    is_first = rank < firsts;
    other_start = is_first ? firsts : 0;
    MPI_Comm_split(MPI_COMM_WORLD, is_first, rank, &own);
    MPI_Intercomm_create(own, 0, MPI_COMM_WORLD, other_start, 5, &inter);
    MPI_Comm_rank(inter, &own_rank);
    MPI_Comm_size(inter, &own_size);
    MPI_Comm_remote_size(inter, &other_size);
    MPI_Comm_free(&own);
}

static int content(int from, int to, int index)
{
    return from * 10000 + to * 100 + index;
}

/* The number of items from one process of the world to another, where the number differs. */
static int length(int from, int to)
{
    return (from + 2 * to) % (COUNT + 1);
}

/* The argument `root` where process `root` of the first group, or of the second, is the root. */
static int root_argument(int in_first, int root)
{
    if (is_first != in_first)
        return root;
    return own_rank == root ? MPI_ROOT : MPI_PROC_NULL;
}

static void rooted(int in_first, int root)
{
    int in[64 * (COUNT + 1)], out[64 * (COUNT + 1)], counts[64], displs[64], argument = root_argument(in_first, root);
    int root_in_world = (is_first == in_first ? rank - own_rank : other_start) + root;
    for (int form = 0; form < FORMS; form++) {
        STORY("6.5 Gather");
        for (int i = 0; i < COUNT; i++)
            out[i] = content(rank, 0, i);
        memset(in, 0xff, sizeof in);
        FORM(form, MPI_Gather, MPI_Igather, MPI_Gather_init, out, COUNT, MPI_INT, in, COUNT, MPI_INT, argument, inter);
        for (int other = 0; other < other_size; other++)
            for (int i = 0; i < COUNT; i++)
                CHECK_EQUAL(in[other * COUNT + i], argument == MPI_ROOT ? content(other_start + other, 0, i) : -1);

        STORY("6.5 Gatherv");
        for (int other = 0; other < other_size; other++) {
            counts[other] = length(other_start + other, 0);
            displs[other] = (other_size - 1 - other) * (COUNT + 1);
        }
        memset(in, 0xff, sizeof in);
        FORM(form, MPI_Gatherv, MPI_Igatherv, MPI_Gatherv_init, out, length(rank, 0), MPI_INT, in, counts, displs, MPI_INT,
             argument, inter);
        for (int other = 0; other < other_size; other++)
            for (int i = 0; i < COUNT + 1; i++)
                CHECK_EQUAL(in[displs[other] + i],
                            argument == MPI_ROOT && i < counts[other] ? content(other_start + other, 0, i) : -1);

        STORY("6.6 Scatter");
        for (int other = 0; other < other_size; other++)
            for (int i = 0; i < COUNT; i++)
                out[other * COUNT + i] = content(rank, other_start + other, i);
        memset(in, 0xff, sizeof in);
        FORM(form, MPI_Scatter, MPI_Iscatter, MPI_Scatter_init, out, COUNT, MPI_INT, in, COUNT, MPI_INT, argument, inter);
        for (int i = 0; i < COUNT; i++)
            CHECK_EQUAL(in[i], is_first != in_first ? content(root_in_world, rank, i) : -1);

        STORY("6.6 Scatterv");
        for (int other = 0; other < other_size; other++)
            for (int i = 0; i < counts[other]; i++)
                out[displs[other] + i] = content(rank, other_start + other, i);
        memset(in, 0xff, sizeof in);
        FORM(form, MPI_Scatterv, MPI_Iscatterv, MPI_Scatterv_init, out, counts, displs, MPI_INT, in, length(rank, 0), MPI_INT,
             argument, inter);
        for (int i = 0; i < COUNT + 1; i++)
            CHECK_EQUAL(in[i],
                        is_first != in_first && i < length(rank, 0) ? content(root_in_world, rank, i) : -1);

        STORY("6.9.1 Reduce");
        for (int i = 0; i < COUNT; i++)
            out[i] = content(rank, 0, i);
        memset(in, 0xff, sizeof in);
        FORM(form, MPI_Reduce, MPI_Ireduce, MPI_Reduce_init, out, in, COUNT, MPI_INT, MPI_SUM, argument, inter);
        for (int i = 0; i < COUNT; i++) {
            int expected = 0;
            for (int other = 0; other < other_size; other++)
                expected += content(other_start + other, 0, i);
            CHECK_EQUAL(in[i], argument == MPI_ROOT ? expected : -1);
        }
    }
}

static void all(void)
{
    int in[64 * (COUNT + 1)], out[64 * (COUNT + 1)], counts[64], displs[64], recvcounts[64], bytes[64];
    MPI_Count recvcounts_c[64];
    MPI_Aint displs_c[64];
    MPI_Datatype types[64];
    for (int form = 0; form < FORMS; form++) {
        STORY("6.7 Allgather");
        for (int i = 0; i < COUNT; i++)
            out[i] = content(rank, 0, i);
        memset(in, 0xff, sizeof in);
        FORM(form, MPI_Allgather, MPI_Iallgather, MPI_Allgather_init, out, COUNT, MPI_INT, in, COUNT, MPI_INT, inter);
        for (int other = 0; other < other_size; other++)
            for (int i = 0; i < COUNT; i++)
                CHECK_EQUAL(in[other * COUNT + i], content(other_start + other, 0, i));
        CHECK_EQUAL(in[other_size * COUNT], -1);

        STORY("6.7 Allgatherv, with large counts");
        for (int other = 0; other < other_size; other++) {
            recvcounts_c[other] = recvcounts[other] = length(other_start + other, 0);
            displs_c[other] = displs[other] = (other_size - 1 - other) * (COUNT + 1);
        }
        memset(in, 0xff, sizeof in);
        if (form % 2)
            FORM(form, MPI_Allgatherv_c, MPI_Iallgatherv_c, MPI_Allgatherv_init_c, out, length(rank, 0), MPI_INT, in,
                 recvcounts_c, displs_c, MPI_INT, inter);
        else
            FORM(form, MPI_Allgatherv, MPI_Iallgatherv, MPI_Allgatherv_init, out, length(rank, 0), MPI_INT, in, recvcounts,
                 displs, MPI_INT, inter);
        for (int other = 0; other < other_size; other++)
            for (int i = 0; i < COUNT + 1; i++)
                CHECK_EQUAL(in[displs[other] + i], i < recvcounts[other] ? content(other_start + other, 0, i) : -1);

        STORY("6.8 Alltoall");
        for (int other = 0; other < other_size; other++)
            for (int i = 0; i < COUNT; i++)
                out[other * COUNT + i] = content(rank, other_start + other, i);
        memset(in, 0xff, sizeof in);
        FORM(form, MPI_Alltoall, MPI_Ialltoall, MPI_Alltoall_init, out, COUNT, MPI_INT, in, COUNT, MPI_INT, inter);
        for (int other = 0; other < other_size; other++)
            for (int i = 0; i < COUNT; i++)
                CHECK_EQUAL(in[other * COUNT + i], content(other_start + other, rank, i));

        for (int typed = 0; typed < 2; typed++) {
            STORY(typed ? "6.8 Alltoallw" : "6.8 Alltoallv");
            for (int other = 0; other < other_size; other++) {
                counts[other] = length(rank, other_start + other);
                recvcounts[other] = length(other_start + other, rank);
                displs[other] = other * (COUNT + 1);
                bytes[other] = displs[other] * (int)sizeof(int);
                types[other] = MPI_INT;
                for (int i = 0; i < counts[other]; i++)
                    out[displs[other] + i] = content(rank, other_start + other, i);
            }
            memset(in, 0xff, sizeof in);
            if (typed)
                FORM(form, MPI_Alltoallw, MPI_Ialltoallw, MPI_Alltoallw_init, out, counts, bytes, types, in, recvcounts,
                     bytes, types, inter);
            else
                FORM(form, MPI_Alltoallv, MPI_Ialltoallv, MPI_Alltoallv_init, out, counts, displs, MPI_INT, in, recvcounts,
                     displs, MPI_INT, inter);
            for (int other = 0; other < other_size; other++)
                for (int i = 0; i < COUNT + 1; i++)
                    CHECK_EQUAL(in[displs[other] + i],
                                i < recvcounts[other] ? content(other_start + other, rank, i) : -1);
        }
    }
}

/* The map a·x + b, composed from left to right: it does not commute. Counts have the size for which the
 * operation was made. */
static void compose(unsigned *in, unsigned *inout, long long pairs)
{
    for (long long i = 0; i < pairs; i++) {
        unsigned a = in[2 * i], b = in[2 * i + 1], c = inout[2 * i], d = inout[2 * i + 1];
        inout[2 * i] = a * c;
        inout[2 * i + 1] = a * d + b;
    }
}

static void compose_small(void *in, void *inout, int *length, MPI_Datatype *type)
{
    (void)type;
    compose(in, inout, *length);
}

static void compose_large(void *in, void *inout, MPI_Count *length, MPI_Datatype *type)
{
    (void)type;
    compose(in, inout, *length);
}

static void map_of(int of, int index, unsigned map[2])
{
    map[0] = 2u * (unsigned)(of + index) + 3u;
    map[1] = (unsigned)(of * 7 + index);
}

/* The composition of the other group's maps, in the order of its ranks. */
static void composed(int index, unsigned map[2])
{
    map_of(other_start, index, map);
    for (int other = 1; other < other_size; other++) {
        unsigned right[2];
        map_of(other_start + other, index, right);
        compose(map, right, 1);
        memcpy(map, right, sizeof right);
    }
}

static void reductions(void)
{
    MPI_Datatype map;
    MPI_Op ops[2];
    MPI_Type_contiguous(2, MPI_UNSIGNED, &map);
    MPI_Type_commit(&map);
    MPI_Op_create(compose_small, 0, &ops[0]);
    MPI_Op_create_c(compose_large, 0, &ops[1]);
    int total = own_size * other_size * 2, counts[64];
    unsigned *out = memory(total * 2 * sizeof(unsigned)), *in = memory((total + 1) * 2 * sizeof(unsigned));
    for (int i = 0; i < total; i++)
        map_of(rank, i, out + 2 * i);
    for (int form = 0; form < FORMS; form++)
        for (int large = 0; large < 2; large++) {
            STORY("6.10.1 Reduce_scatter_block of an operation that does not commute");
            int count = other_size * 2, first = own_rank * count;
            memset(in, 0xff, (total + 1) * 2 * sizeof(unsigned));
            FORM(form, MPI_Reduce_scatter_block, MPI_Ireduce_scatter_block, MPI_Reduce_scatter_block_init, out, in, count, map,
                 ops[large], inter);
            for (int i = 0; i < count; i++) {
                unsigned expected[2];
                composed(first + i, expected);
                CHECK(in[2 * i] == expected[0] && in[2 * i + 1] == expected[1], "item %d is %u %u, not %u %u", i, in[2 * i],
                      in[2 * i + 1], expected[0], expected[1]);
            }
            CHECK_EQUAL((int)in[2 * count], -1);

            STORY("6.10.2 Reduce_scatter: everything to the last, and nothing to the others");
            for (int other = 0; other < own_size; other++)
                counts[other] = other == own_size - 1 ? total : 0;
            memset(in, 0xff, (total + 1) * 2 * sizeof(unsigned));
            FORM(form, MPI_Reduce_scatter, MPI_Ireduce_scatter, MPI_Reduce_scatter_init, out, in, counts, map, ops[large], inter);
            for (int i = 0; i < counts[own_rank]; i++) {
                unsigned expected[2];
                composed(i, expected);
                CHECK(in[2 * i] == expected[0] && in[2 * i + 1] == expected[1], "item %d is %u %u, not %u %u", i, in[2 * i],
                      in[2 * i + 1], expected[0], expected[1]);
            }
            CHECK_EQUAL((int)in[2 * counts[own_rank]], -1);

            STORY("6.9.6 Allreduce of an operation that does not commute");
            memset(in, 0xff, (total + 1) * 2 * sizeof(unsigned));
            FORM(form, MPI_Allreduce, MPI_Iallreduce, MPI_Allreduce_init, out, in, total, map, ops[large], inter);
            for (int i = 0; i < total; i++) {
                unsigned expected[2];
                composed(i, expected);
                CHECK(in[2 * i] == expected[0] && in[2 * i + 1] == expected[1], "item %d is %u %u, not %u %u", i, in[2 * i],
                      in[2 * i + 1], expected[0], expected[1]);
            }
        }
    free(in);
    free(out);
    MPI_Op_free(&ops[0]);
    MPI_Op_free(&ops[1]);
    MPI_Type_free(&map);
}

static void large(void)
{
    STORY("6.8 large blocks, several under way");
    enum { LARGE = 60000 };
    int *out = memory(sizeof(int) * LARGE * other_size), *in = memory(sizeof(int) * LARGE * other_size);
    int *sums = memory(sizeof(int) * LARGE), wrong = 0;
    MPI_Request requests[2];
    for (int i = 0; i < LARGE * other_size; i++)
        out[i] = i % LARGE + rank * 3 + i / LARGE;
    MPI_Ialltoall(out, LARGE, MPI_INT, in, LARGE, MPI_INT, inter, &requests[0]);
    MPI_Iallreduce(out, sums, LARGE, MPI_INT, MPI_MAX, inter, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < LARGE * other_size; i++)
        wrong += in[i] != i % LARGE + (other_start + i / LARGE) * 3 + own_rank;
    for (int i = 0; i < LARGE; i++)
        wrong += sums[i] != i + (other_start + other_size - 1) * 3;
    CHECK_EQUAL(wrong, 0);
    free(sums);
    free(in);
    free(out);
}

static void mistakes(void)
{
    if (left_out("mistakes"))
        return;
    STORY("6.2.3 mistakes");
    int out[64] = {0}, in[64], none = -1;
    MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN);
    CHECK_CLASS(MPI_Gather(out, 1, MPI_INT, in, 1, MPI_INT, other_size, inter), MPI_ERR_ROOT);
    CHECK_CLASS(MPI_Scatter(out, 1, MPI_INT, in, 1, MPI_INT, -17, inter), MPI_ERR_ROOT);
    CHECK_CLASS(MPI_Reduce(out, in, 1, MPI_INT, MPI_SUM, other_size, inter), MPI_ERR_ROOT);
    CHECK_CLASS(MPI_Allgather(MPI_IN_PLACE, 1, MPI_INT, in, 1, MPI_INT, inter), MPI_ERR_BUFFER);
    CHECK_CLASS(MPI_Alltoall(MPI_IN_PLACE, 1, MPI_INT, in, 1, MPI_INT, inter), MPI_ERR_BUFFER);
    CHECK_CLASS(MPI_Reduce_scatter_block(MPI_IN_PLACE, in, 1, MPI_INT, MPI_SUM, inter), MPI_ERR_BUFFER);
    CHECK_CLASS(MPI_Reduce_scatter_block(out, in, -1, MPI_INT, MPI_SUM, inter), MPI_ERR_COUNT);
    CHECK_CLASS(MPI_Reduce_scatter(out, in, &none, MPI_INT, MPI_SUM, inter), MPI_ERR_COUNT);
    CHECK_CLASS(MPI_Allgather(out, 1, MPI_INT, out, 1, MPI_INT, inter), MPI_ERR_BUFFER);
    CHECK_CLASS(MPI_Alltoall(out, -1, MPI_INT, in, 1, MPI_INT, inter), MPI_ERR_COUNT);
    CHECK_CLASS(MPI_Reduce(out, in, 1, MPI_INT, MPI_MINLOC, MPI_ROOT, inter), MPI_ERR_OP);
    CHECK_CLASS(MPI_Scan(out, in, 1, MPI_INT, MPI_SUM, inter), MPI_ERR_COMM); /* 6.11: there is none */
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    if (ranks > 1) {
        begin_groups();
        for (int in_first = 0; in_first < 2; in_first++)
            for (int root = 0; root < (is_first == in_first ? own_size : other_size); root++)
                rooted(in_first, root);
        all();
        reductions();
        large();
        mistakes();
        MPI_Comm_free(&inter);
    }
    return end();
}
