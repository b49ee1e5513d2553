/* Collective communication with neighbours (MPI-5.0 section 8.6): on grids, graphs and distributed graphs, in
 * every form. Runs on any MPI library. */
#include "check.h"
#include "forms.h"

enum { BLOCK = 3 };

/* A buffer with two different datatypes for the same data: items in pairs, and one after the other. */
static MPI_Datatype pair;

/* The values that `from` sends at place `at` of its list, and their number where it differs. */
static int content(int from, int at, int index)
{
    return from * 10000 + at * 100 + index;
}

static int length(int from, int at)
{
    return (from + at * 2) % (BLOCK + 1);
}

/* The neighbours of this process, and the block of its own that each source sends here. The program computes
 * all of these itself. */
struct neighbours {
    int sources, destinations;
    int from[40], from_place[40];
};

/* All five operations: each block that arrives must be the right one, and the memory beside it untouched. */
static void check_all(MPI_Comm comm, const struct neighbours *of)
{
    int mine;
    MPI_Comm_rank(comm, &mine);
    int out[40 * BLOCK], in[40 * (BLOCK + 1)], counts[40], displs[40], recvcounts[40], recvdispls[40];
    MPI_Count counts_c[40], recvcounts_c[40];
    MPI_Aint displs_c[40], recvdispls_c[40], bytes[40], recvbytes[40];
    MPI_Datatype types[40], recvtypes[40];
    for (int form = 0; form < FORMS; form++) {
        /* allgather: the same to all, a gap of nothing between what arrives */
        for (int i = 0; i < BLOCK; i++)
            out[i] = content(mine, 0, i);
        memset(in, 0xff, sizeof in);
        FORM(form, MPI_Neighbor_allgather, MPI_Ineighbor_allgather, MPI_Neighbor_allgather_init, out, BLOCK, MPI_INT,
             in, BLOCK, MPI_INT, comm);
        for (int place = 0; place < of->sources; place++)
            for (int i = 0; i < BLOCK; i++) {
                int expected = of->from[place] < 0 ? -1 : content(of->from[place], 0, i);
                CHECK(in[place * BLOCK + i] == expected, "allgather, form %d, place %d: %d instead of %d", form, place,
                      in[place * BLOCK + i], expected);
            }
        CHECK_EQUAL(in[of->sources * BLOCK], -1);

        /* allgatherv: from each another number, in the reverse order, with large counts */
        int own = length(mine, 0);
        for (int place = 0; place < of->sources; place++) {
            recvcounts_c[place] = recvcounts[place] = of->from[place] < 0 ? 1 : length(of->from[place], 0);
            recvdispls_c[place] = recvdispls[place] = (of->sources - 1 - place) * (BLOCK + 1);
        }
        memset(in, 0xff, sizeof in);
        if (form % 2)
            FORM(form, MPI_Neighbor_allgatherv_c, MPI_Ineighbor_allgatherv_c, MPI_Neighbor_allgatherv_init_c, out,
                 own, MPI_INT, in, recvcounts_c, recvdispls_c, MPI_INT, comm);
        else
            FORM(form, MPI_Neighbor_allgatherv, MPI_Ineighbor_allgatherv, MPI_Neighbor_allgatherv_init, out, own,
                 MPI_INT, in, recvcounts, recvdispls, MPI_INT, comm);
        for (int place = 0; place < of->sources; place++)
            for (int i = 0; i < BLOCK + 1; i++) {
                int there = of->from[place] >= 0 && i < recvcounts[place];
                int found = in[recvdispls[place] + i], expected = there ? content(of->from[place], 0, i) : -1;
                CHECK(found == expected, "allgatherv, form %d, place %d: %d instead of %d", form, place, found, expected);
            }

        /* alltoall: to each another block; two integers of the four are one pair for the receiver */
        for (int place = 0; place < of->destinations; place++)
            for (int i = 0; i < 2; i++)
                out[place * 2 + i] = content(mine, place, i);
        memset(in, 0xff, sizeof in);
        FORM(form, MPI_Neighbor_alltoall, MPI_Ineighbor_alltoall, MPI_Neighbor_alltoall_init, out, 2, MPI_INT, in, 1,
             pair, comm);
        for (int place = 0; place < of->sources; place++)
            for (int i = 0; i < 2; i++) {
                int expected = of->from[place] < 0 ? -1 : content(of->from[place], of->from_place[place], i);
                CHECK(in[place * 2 + i] == expected, "alltoall, form %d, place %d: %d instead of %d", form, place,
                      in[place * 2 + i], expected);
            }

        /* alltoallv and alltoallw: from and to each another number, some of them none */
        for (int place = 0; place < of->destinations; place++) {
            counts_c[place] = counts[place] = length(mine, place);
            displs_c[place] = displs[place] = place * BLOCK;
            bytes[place] = displs[place] * (MPI_Aint)sizeof(int);
            types[place] = MPI_INT;
            for (int i = 0; i < BLOCK; i++)
                out[place * BLOCK + i] = content(mine, place, i);
        }
        for (int place = 0; place < of->sources; place++) {
            recvcounts[place] = of->from[place] < 0 ? 1 : length(of->from[place], of->from_place[place]);
            recvcounts_c[place] = recvcounts[place];
            recvbytes[place] = recvdispls[place] * (MPI_Aint)sizeof(int);
            recvtypes[place] = MPI_INT;
        }
        for (int typed = 0; typed < 2; typed++) {
            memset(in, 0xff, sizeof in);
            if (typed && form % 2 == 0)
                FORM(form, MPI_Neighbor_alltoallw, MPI_Ineighbor_alltoallw, MPI_Neighbor_alltoallw_init, out, counts,
                     bytes, types, in, recvcounts, recvbytes, recvtypes, comm);
            else if (typed)
                FORM(form, MPI_Neighbor_alltoallw_c, MPI_Ineighbor_alltoallw_c, MPI_Neighbor_alltoallw_init_c, out,
                     counts_c, bytes, types, in, recvcounts_c, recvbytes, recvtypes, comm);
            else if (form % 2)
                FORM(form, MPI_Neighbor_alltoallv_c, MPI_Ineighbor_alltoallv_c, MPI_Neighbor_alltoallv_init_c, out,
                     counts_c, displs_c, MPI_INT, in, recvcounts_c, recvdispls_c, MPI_INT, comm);
            else
                FORM(form, MPI_Neighbor_alltoallv, MPI_Ineighbor_alltoallv, MPI_Neighbor_alltoallv_init, out, counts,
                     displs, MPI_INT, in, recvcounts, recvdispls, MPI_INT, comm);
            for (int place = 0; place < of->sources; place++)
                for (int i = 0; i < BLOCK + 1; i++) {
                    int there = of->from[place] >= 0 && i < recvcounts[place];
                    int found = in[recvdispls[place] + i];
                    int expected = there ? content(of->from[place], of->from_place[place], i) : -1;
                    CHECK(found == expected, "%s, form %d, place %d: %d instead of %d", typed ? "alltoallw" : "alltoallv",
                          form, place, found, expected);
                }
        }
    }
}

/* 8.6: first the neighbour below in each dimension, then the one above. A block that is sent one way arrives
 * from the other. */
static void grids(void)
{
    for (int dimensions = 0; dimensions < 4; dimensions++)
        for (int periodic = 0; periodic < 2; periodic++) {
            STORY("8.6 a grid");
            int dims[3] = {0, 0, 0}, periods[3] = {periodic, periodic, !periodic};
            struct neighbours of = {0};
            MPI_Comm comm;
            if (dimensions)
                MPI_Dims_create(ranks, dimensions, dims);
            MPI_Cart_create(MPI_COMM_WORLD, dimensions, dims, periods, 0, &comm);
            if (comm == MPI_COMM_NULL)
                continue;
            for (int dimension = 0; dimension < dimensions; dimension++) {
                int below, above;
                MPI_Cart_shift(comm, dimension, 1, &below, &above);
                of.from[2 * dimension] = below == MPI_PROC_NULL ? -1 : below;
                of.from_place[2 * dimension] = 2 * dimension + 1;
                of.from[2 * dimension + 1] = above == MPI_PROC_NULL ? -1 : above;
                of.from_place[2 * dimension + 1] = 2 * dimension;
            }
            of.sources = of.destinations = 2 * dimensions;
            check_all(comm, &of);
            MPI_Comm_free(&comm);
        }
}

/* Each process has itself, and its neighbours in a ring, as neighbours. */
static void graphs(void)
{
    STORY("8.6 a graph");
    int index[64], edges[192], last = 0;
    for (int node = 0; node < ranks; node++) {
        edges[last++] = node;
        if (ranks > 1)
            edges[last++] = (node + 1) % ranks;
        if (ranks > 2)
            edges[last++] = (node + ranks - 1) % ranks;
        index[node] = last;
    }
    MPI_Comm comm;
    MPI_Graph_create(MPI_COMM_WORLD, ranks, index, edges, 0, &comm);
    struct neighbours of = {0};
    of.sources = of.destinations = ranks > 2 ? 3 : ranks;
    of.from[0] = rank, of.from_place[0] = 0;
    of.from[1] = (rank + 1) % ranks, of.from_place[1] = ranks > 2 ? 2 : 1;
    of.from[2] = (rank + ranks - 1) % ranks, of.from_place[2] = 1;
    check_all(comm, &of);
    MPI_Comm_free(&comm);
}

/* Edges that exist several times, some from a process to itself, and processes without any: the first edge
 * from one to another in the one's list is the first in the other's. */
static void distributed_graphs(void)
{
    STORY("8.6 a distributed graph with repeated edges");
    struct neighbours of = {0};
    int sources[40], destinations[40], places[64] = {0};
    /* From a to b there are (a + 2 b) mod 3 edges; destinations one rank after the other, sources from the
     * last rank down. */
    for (int to = 0; to < ranks; to++)
        for (int edge = 0; edge < (rank + 2 * to) % 3; edge++)
            destinations[of.destinations++] = to;
    for (int from = ranks - 1; from >= 0; from--) {
        for (int to = 0; to < rank; to++)
            places[from] += (from + 2 * to) % 3;
        for (int edge = 0; edge < (from + 2 * rank) % 3; edge++) {
            sources[of.sources] = from;
            of.from[of.sources] = from;
            of.from_place[of.sources++] = places[from] + edge;
        }
    }
    MPI_Comm comm;
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, of.sources, sources, MPI_UNWEIGHTED, of.destinations, destinations,
                                   MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &comm);
    check_all(comm, &of);
    MPI_Comm_free(&comm);

    STORY("8.6 a distributed graph in which edges go one way, to rank 0");
    memset(&of, 0, sizeof of);
    of.destinations = 1;
    destinations[0] = 0;
    for (int from = 0; rank == 0 && from < ranks; from++)
        sources[from] = of.from[of.sources++] = from;
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, of.sources, sources, MPI_UNWEIGHTED, 1, destinations, MPI_UNWEIGHTED,
                                   MPI_INFO_NULL, 0, &comm);
    check_all(comm, &of);

    STORY("8.6 no arrays where there is nobody");
    int value = rank, all[64], ones[64], at[64];
    if (rank == 0) {
        for (int from = 0; from < ranks; from++) {
            ones[from] = 1;
            at[from] = from;
        }
        MPI_Neighbor_allgatherv(&value, 1, MPI_INT, all, ones, at, MPI_INT, comm);
        for (int from = 0; from < ranks; from++)
            CHECK_EQUAL(all[from], from);
    } else {
        MPI_Neighbor_allgatherv(&value, 1, MPI_INT, NULL, NULL, NULL, MPI_INT, comm);
    }
    MPI_Comm_free(&comm);
}

/* Large blocks, which would show a process that comes late: all of a grid at once, several times. */
static void large(void)
{
    STORY("8.6 large blocks, several exchanges under way");
    enum { LARGE = 100000, AT_ONCE = 3 };
    int dims[1] = {ranks}, periods[1] = {1}, below, above;
    MPI_Comm ring;
    MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 0, &ring);
    MPI_Cart_shift(ring, 0, 1, &below, &above);
    int *out[AT_ONCE], *in[AT_ONCE];
    MPI_Request requests[AT_ONCE];
    for (int n = 0; n < AT_ONCE; n++) {
        out[n] = memory(2 * LARGE * sizeof(int));
        in[n] = memory(2 * LARGE * sizeof(int));
        for (int i = 0; i < 2 * LARGE; i++)
            out[n][i] = (i + n) * (rank + 1);
        MPI_Ineighbor_alltoall(out[n], LARGE, MPI_INT, in[n], LARGE, MPI_INT, ring, &requests[n]);
    }
    MPI_Waitall(AT_ONCE, requests, MPI_STATUSES_IGNORE);
    for (int n = 0; n < AT_ONCE; n++) {
        int wrong = 0;
        for (int i = 0; i < LARGE; i++)
            wrong += in[n][i] != (i + LARGE + n) * (below + 1) || in[n][LARGE + i] != (i + n) * (above + 1);
        CHECK_EQUAL(wrong, 0);
        free(out[n]);
        free(in[n]);
    }
    MPI_Comm_free(&ring);
}

static void errors(void)
{
    if (left_out("mistakes"))
        return;
    STORY("8.6 mistakes");
    int out[2] = {0, 0}, in[2], dims[1] = {ranks}, periods[1] = {1}, negative[2] = {-1, -1}, zero[2] = {0, 0};
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    CHECK_CLASS(MPI_Neighbor_allgather(out, 1, MPI_INT, in, 1, MPI_INT, MPI_COMM_WORLD), MPI_ERR_TOPOLOGY);
    MPI_Comm ring;
    MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 0, &ring);
    MPI_Comm_set_errhandler(ring, MPI_ERRORS_RETURN);
    CHECK_CLASS(MPI_Neighbor_allgather(MPI_IN_PLACE, 1, MPI_INT, in, 1, MPI_INT, ring), MPI_ERR_BUFFER);
    CHECK_CLASS(MPI_Neighbor_alltoall(out, -1, MPI_INT, in, 1, MPI_INT, ring), MPI_ERR_COUNT);
    CHECK_CLASS(MPI_Neighbor_alltoall(out, 1, MPI_DATATYPE_NULL, in, 1, MPI_INT, ring), MPI_ERR_TYPE);
    CHECK_CLASS(MPI_Neighbor_alltoall(out, 1, MPI_INT, out, 1, MPI_INT, ring), MPI_ERR_BUFFER);
    CHECK_CLASS(MPI_Neighbor_allgatherv(out, 1, MPI_INT, in, negative, zero, MPI_INT, ring), MPI_ERR_COUNT);
    CHECK_CLASS(MPI_Neighbor_alltoallv(out, zero, NULL, MPI_INT, in, zero, zero, MPI_INT, ring), MPI_ERR_ARG);
    MPI_Comm_free(&ring);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    MPI_Type_contiguous(2, MPI_INT, &pair);
    MPI_Type_commit(&pair);
    grids();
    graphs();
    distributed_graphs();
    large();
    errors();
    MPI_Type_free(&pair);
    return end();
}
