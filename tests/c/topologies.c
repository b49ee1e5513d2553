/*
 * Chapter 8 of MPI 5.0, virtual topologies, but its neighbourhood collectives: conformance. Passes on any MPI
 * library with any number of ranks. Where the standard names no error class for a mistake, the program
 * accepts the classes that libraries give.
 */
#include "check.h"

enum { DIMS_MAX = 6 };

/* The call must fail with one of these classes; the error handler is one that returns. */
#define CHECK_CLASS_IN(call, one, other, third)                                                                        \
    do {                                                                                                               \
        int code_ = (call), class_ = -1;                                                                               \
        MPI_Error_class(code_, &class_);                                                                               \
        CHECK(class_ == (one) || class_ == (other) || class_ == (third), #call " gave class %d", class_);              \
    } while (0)

static MPI_Comm world; /* MPI_COMM_WORLD with an error handler that returns. */

static void dimensions(void)
{
    STORY("§8.5.2 MPI_Dims_create");
    struct {
        int nodes, count, given[3], expected[3];
    } table[] = {
        /* The table of the standard. */
        {6, 2, {0, 0}, {3, 2}},
        {7, 2, {0, 0}, {7, 1}},
        {6, 3, {0, 3, 0}, {2, 3, 1}},
        {24, 3, {0, 0, 0}, {4, 3, 2}},
        {60, 3, {0, 0, 0}, {5, 4, 3}},
        {1, 2, {0, 0}, {1, 1}},
        {12, 2, {12, 0}, {12, 1}},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        int dims[3];
        memcpy(dims, table[i].given, sizeof dims);
        MPI_Dims_create(table[i].nodes, table[i].count, dims);
        for (int d = 0; d < table[i].count; d++)
            CHECK(dims[d] == table[i].expected[d], "%d nodes: dims[%d] is %d", table[i].nodes, d, dims[d]);
    }
    for (int nodes = 1; nodes <= 200; nodes++)
        for (int count = 1; count <= 4; count++) {
            int dims[4] = {0}, product = 1;
            MPI_Dims_create(nodes, count, dims);
            for (int d = 0; d < count; d++) {
                product *= dims[d];
                CHECK(d == 0 || dims[d] <= dims[d - 1], "%d into %d: not in non-increasing order", nodes, count);
            }
            CHECK_EQUAL(product, nodes);
        }
    /* The errors belong to no communicator: MPI_COMM_SELF's handler is asked (§9.3). */
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int dims[2] = {4, 0}, negative[2] = {-1, 0};
    CHECK_CLASS(MPI_Dims_create(6, 2, dims), MPI_ERR_DIMS);
    CHECK_CLASS_IN(MPI_Dims_create(6, 2, negative), MPI_ERR_DIMS, MPI_ERR_ARG, MPI_ERR_DIMS);
}

/* A grid of all ranks of `count` dimensions, periodic as the bits of `mask` say. */
static void grid(int count, int mask, int reorder)
{
    STORY("§8.5.1, §8.5.5, §8.5.6 a Cartesian grid");
    int dims[DIMS_MAX] = {0}, periods[DIMS_MAX], found_dims[DIMS_MAX], found_periods[DIMS_MAX], coords[DIMS_MAX],
        own[DIMS_MAX], kind, number, cart_rank, size;
    MPI_Comm cart;
    MPI_Dims_create(ranks, count, dims);
    for (int d = 0; d < count; d++)
        periods[d] = (mask >> d & 1) * 3; /* Any number but 0 is true. */
    CHECK_EQUAL(MPI_Cart_create(world, count, dims, periods, reorder, &cart), MPI_SUCCESS);
    MPI_Comm_rank(cart, &cart_rank);
    MPI_Comm_size(cart, &size);
    CHECK_EQUAL(size, ranks);
    if (!reorder)
        CHECK_EQUAL(cart_rank, rank);
    MPI_Topo_test(cart, &kind);
    CHECK_EQUAL(kind, MPI_CART);
    MPI_Cartdim_get(cart, &number);
    CHECK_EQUAL(number, count);
    MPI_Cart_get(cart, DIMS_MAX, found_dims, found_periods, own);
    MPI_Cart_coords(cart, cart_rank, DIMS_MAX, coords);
    for (int d = 0; d < count; d++) {
        CHECK_EQUAL(found_dims[d], dims[d]);
        CHECK_EQUAL(!found_periods[d], !periods[d]);
        CHECK_EQUAL(own[d], coords[d]);
    }
    /* Row-major numbering (§8.5.1): the last coordinate varies fastest. */
    for (int r = 0; r < size; r++) {
        int rest = r, back;
        MPI_Cart_coords(cart, r, count, coords);
        for (int d = count - 1; d >= 0; d--) {
            CHECK_EQUAL(coords[d], rest % dims[d]);
            rest /= dims[d];
        }
        MPI_Cart_rank(cart, coords, &back);
        CHECK_EQUAL(back, r);
        /* Coordinates out of range are shifted back where the dimension is periodic. */
        for (int d = 0; d < count; d++)
            if (periods[d]) {
                coords[d] -= 2 * dims[d];
                MPI_Cart_rank(cart, coords, &back);
                CHECK_EQUAL(back, r);
                coords[d] += 5 * dims[d];
                MPI_Cart_rank(cart, coords, &back);
                CHECK_EQUAL(back, r);
                coords[d] -= 3 * dims[d];
            }
    }
    for (int d = 0; d < count; d++)
        for (int displacement = -dims[d] - 1; displacement <= dims[d] + 1; displacement++) {
            int source, destination, expected[2];
            MPI_Cart_shift(cart, d, displacement, &source, &destination);
            for (int side = 0; side < 2; side++) {
                int at = own[d] + (side ? displacement : -displacement);
                memcpy(coords, own, sizeof coords);
                if (periods[d])
                    at = (at % dims[d] + dims[d]) % dims[d];
                coords[d] = at;
                if (at < 0 || at >= dims[d])
                    expected[side] = MPI_PROC_NULL;
                else
                    MPI_Cart_rank(cart, coords, &expected[side]);
            }
            CHECK_EQUAL(source, expected[0]);
            CHECK_EQUAL(destination, expected[1]);
            /* The neighbours are those that a shift needs: a message from my source comes from it, if there
             * is one. */
            int got = -7, mine = cart_rank;
            MPI_Sendrecv(&mine, 1, MPI_INT, destination, 1, &got, 1, MPI_INT, source, 1, cart, MPI_STATUS_IGNORE);
            CHECK_EQUAL(got, source == MPI_PROC_NULL ? -7 : source);
        }
    MPI_Comm_free(&cart);
}

static void smaller_and_empty_grids(void)
{
    STORY("§8.5.1 a grid that is smaller than the group, and one without dimensions");
    MPI_Comm cart = MPI_COMM_SELF;
    int one = 1, none = 0, kind, number = -1, found = -1, size, newrank;
    MPI_Cart_create(world, 1, &one, &none, 0, &cart);
    CHECK((cart != MPI_COMM_NULL) == (rank == 0), "the communicator is %s", cart == MPI_COMM_NULL ? "null" : "not");
    if (cart != MPI_COMM_NULL)
        MPI_Comm_free(&cart);
    if (ranks > 2) {
        MPI_Cart_create(world, 1, (int[]){ranks - 1}, &one, 0, &cart);
        CHECK((cart != MPI_COMM_NULL) == (rank < ranks - 1), "rank %d", rank);
        if (cart != MPI_COMM_NULL) {
            MPI_Comm_size(cart, &size);
            CHECK_EQUAL(size, ranks - 1);
            MPI_Comm_free(&cart);
        }
    }
    MPI_Cart_create(world, 0, NULL, NULL, 0, &cart);
    CHECK((cart != MPI_COMM_NULL) == (rank == 0), "the communicator is %s", cart == MPI_COMM_NULL ? "null" : "not");
    if (cart != MPI_COMM_NULL) {
        MPI_Comm sub;
        MPI_Topo_test(cart, &kind);
        CHECK_EQUAL(kind, MPI_CART);
        MPI_Cartdim_get(cart, &number);
        CHECK_EQUAL(number, 0);
        /* §8.5.5: these leave their arrays as they are, and the rank is 0. */
        CHECK_EQUAL(MPI_Cart_get(cart, 0, NULL, NULL, NULL), MPI_SUCCESS);
        CHECK_EQUAL(MPI_Cart_coords(cart, 0, 0, NULL), MPI_SUCCESS);
        CHECK_EQUAL(MPI_Cart_rank(cart, NULL, &found), MPI_SUCCESS);
        CHECK_EQUAL(found, 0);
        /* §8.5.6: there is no direction to shift in. */
        MPI_Comm_set_errhandler(cart, MPI_ERRORS_RETURN);
        int source, destination;
        CHECK_CLASS_IN(MPI_Cart_shift(cart, 0, 1, &source, &destination), MPI_ERR_ARG, MPI_ERR_DIMS, MPI_ERR_TOPOLOGY);
        CHECK_EQUAL(MPI_Cart_sub(cart, NULL, &sub), MPI_SUCCESS);
        MPI_Topo_test(sub, &kind);
        CHECK_EQUAL(kind, MPI_CART);
        MPI_Comm_free(&sub);
        MPI_Comm_free(&cart);
    }
    /* §8.5.8: a rank outside of the grid has none there. */
    MPI_Cart_map(world, 1, &one, &none, &newrank);
    int mapped = newrank == 0, total;
    CHECK(newrank == 0 || newrank == MPI_UNDEFINED, "the new rank is %d", newrank);
    MPI_Allreduce(&mapped, &total, 1, MPI_INT, MPI_SUM, world);
    CHECK_EQUAL(total, 1);
}

/* MPI_Cart_map returns a rank for each process, and MPI_Cart_create gives that rank (§8.5.8). */
static void maps(void)
{
    STORY("§8.5.8 MPI_Cart_map and MPI_Graph_map");
    int dims[2] = {0, 0}, periods[2] = {0, 1}, newrank, *all = memory(ranks * sizeof *all), *seen = memory(ranks * sizeof *seen);
    MPI_Dims_create(ranks, 2, dims);
    MPI_Cart_map(world, 2, dims, periods, &newrank);
    int of_none = -5;
    CHECK_EQUAL(MPI_Cart_map(world, 0, NULL, NULL, &of_none), MPI_SUCCESS);
    CHECK_EQUAL(of_none, rank == 0 ? 0 : MPI_UNDEFINED);
    MPI_Allgather(&newrank, 1, MPI_INT, all, 1, MPI_INT, world);
    for (int r = 0; r < ranks; r++) {
        CHECK(all[r] >= 0 && all[r] < ranks, "rank %d becomes %d", r, all[r]);
        if (all[r] >= 0 && all[r] < ranks)
            seen[all[r]]++;
    }
    for (int r = 0; r < ranks; r++)
        CHECK_EQUAL(seen[r], 1);
    /* A path. */
    int *index = memory(ranks * sizeof *index), *edges = memory(2 * ranks * sizeof *edges), count = 0;
    for (int r = 0; r < ranks; r++) {
        if (r > 0)
            edges[count++] = r - 1;
        if (r < ranks - 1)
            edges[count++] = r + 1;
        index[r] = count;
    }
    MPI_Graph_map(world, ranks, index, edges, &newrank);
    memset(seen, 0, ranks * sizeof *seen);
    MPI_Allgather(&newrank, 1, MPI_INT, all, 1, MPI_INT, world);
    for (int r = 0; r < ranks; r++)
        if (all[r] >= 0 && all[r] < ranks)
            seen[all[r]]++;
    for (int r = 0; r < ranks; r++)
        CHECK_EQUAL(seen[r], 1);
    free(all), free(seen), free(index), free(edges);
}

static void subgrids(int reorder)
{
    STORY("§8.5.7 MPI_Cart_sub");
    int dims[3] = {0}, periods[3] = {1, 0, 1}, own[3];
    MPI_Comm cart;
    MPI_Dims_create(ranks, 3, dims);
    MPI_Cart_create(world, 3, dims, periods, reorder, &cart);
    MPI_Cart_get(cart, 3, dims, periods, own);
    for (int mask = 0; mask < 8; mask++) {
        int remain[3] = {mask & 1, mask & 2, mask & 4}, kept = 0, size = 1, expected = 0, number, found, found_size;
        int sub_dims[3], sub_periods[3], sub_coords[3], kind;
        MPI_Comm sub;
        CHECK_EQUAL(MPI_Cart_sub(cart, remain, &sub), MPI_SUCCESS);
        MPI_Topo_test(sub, &kind);
        CHECK_EQUAL(kind, MPI_CART);
        MPI_Cartdim_get(sub, &number);
        MPI_Cart_get(sub, 3, sub_dims, sub_periods, sub_coords);
        for (int d = 0; d < 3; d++)
            if (remain[d]) {
                CHECK_EQUAL(sub_dims[kept], dims[d]);
                CHECK_EQUAL(!sub_periods[kept], !periods[d]);
                CHECK_EQUAL(sub_coords[kept], own[d]);
                size *= dims[d];
                expected = expected * dims[d] + own[d];
                kept++;
            }
        CHECK_EQUAL(number, kept);
        MPI_Comm_rank(sub, &found);
        MPI_Comm_size(sub, &found_size);
        CHECK_EQUAL(found, expected);
        CHECK_EQUAL(found_size, size);
        /* All members have the dropped coordinates in common. */
        for (int d = 0; d < 3; d++) {
            int range[2] = {own[d], -own[d]}, highest[2];
            MPI_Allreduce(range, highest, 2, MPI_INT, MPI_MAX, sub);
            CHECK(remain[d] || highest[0] == -highest[1], "the members differ in dimension %d", d);
        }
        MPI_Comm_free(&sub);
    }
    MPI_Comm_free(&cart);
}

static int deleted;

static int copy_it(MPI_Comm comm, int keyval, void *extra, void *value, void *result, int *flag)
{
    (void)comm, (void)keyval, (void)extra;
    *(void **)result = value;
    *flag = 1;
    return MPI_SUCCESS;
}

static int delete_it(MPI_Comm comm, int keyval, void *value, void *extra)
{
    (void)comm, (void)keyval, (void)value, (void)extra;
    deleted++;
    return MPI_SUCCESS;
}

/* §7.4.2: a duplicate has the topology of its parent, and the attributes cached there; §8.5.1: a new grid has
 * none of them. */
static void duplicates(void)
{
    STORY("§7.4.2 duplicates keep the topology");
    int dims[2] = {0, 0}, periods[2] = {1, 0}, found_dims[2], found_periods[2], coords[2], keyval, value = 5, flag, kind;
    int *found = NULL;
    MPI_Comm parent, cart, copies[3], split;
    MPI_Request request;
    MPI_Comm_create_keyval(copy_it, delete_it, &keyval, NULL);
    MPI_Comm_dup(world, &parent);
    MPI_Comm_set_attr(parent, keyval, &value);
    MPI_Dims_create(ranks, 2, dims);
    MPI_Cart_create(parent, 2, dims, periods, 0, &cart);
    MPI_Comm_get_attr(cart, keyval, &found, &flag);
    CHECK(!flag, "a new grid has the attribute of its parent");
    MPI_Comm_set_attr(cart, keyval, &value);
    MPI_Comm_dup(cart, &copies[0]);
    MPI_Comm_dup_with_info(cart, MPI_INFO_NULL, &copies[1]);
    MPI_Comm_idup(cart, &copies[2], &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int i = 0; i < 3; i++) {
        MPI_Topo_test(copies[i], &kind);
        CHECK_EQUAL(kind, MPI_CART);
        MPI_Cart_get(copies[i], 2, found_dims, found_periods, coords);
        CHECK(memcmp(found_dims, dims, sizeof dims) == 0, "%d × %d", found_dims[0], found_dims[1]);
        CHECK(found_periods[0] && !found_periods[1], "%d, %d", found_periods[0], found_periods[1]);
        MPI_Comm_get_attr(copies[i], keyval, &found, &flag);
        CHECK(flag && found == &value, "flag %d", flag);
    }
    /* The copy outlives the original, and a split has no topology. */
    MPI_Comm_free(&cart);
    MPI_Cart_get(copies[0], 2, found_dims, found_periods, coords);
    CHECK(memcmp(found_dims, dims, sizeof dims) == 0, "%d × %d", found_dims[0], found_dims[1]);
    MPI_Comm_split(copies[0], 0, rank, &split);
    MPI_Topo_test(split, &kind);
    CHECK_EQUAL(kind, MPI_UNDEFINED);
    MPI_Comm_free(&split);
    for (int i = 0; i < 3; i++)
        MPI_Comm_free(&copies[i]);
    CHECK_EQUAL(deleted, 4);
    MPI_Comm_free(&parent);
    MPI_Comm_free_keyval(&keyval);
}

static void graphs(int reorder)
{
    STORY("§8.5.3, §8.5.5 a graph");
    /* A star around 0, with an edge from it to itself, and two to the last. */
    int *index = memory(ranks * sizeof *index), *edges = memory((2 * ranks + 2) * sizeof *edges), count = 0, kind;
    int nodes, number, *found_index = memory(ranks * sizeof *index), *found = memory((2 * ranks + 2) * sizeof *found);
    for (int r = 0; r < ranks; r++) {
        if (r == 0) {
            for (int to = 0; to < ranks; to++)
                edges[count++] = to;
            edges[count++] = ranks - 1;
        } else
            edges[count++] = 0;
        index[r] = count;
    }
    MPI_Comm graph, copy;
    CHECK_EQUAL(MPI_Graph_create(world, ranks, index, edges, reorder, &graph), MPI_SUCCESS);
    MPI_Comm_dup(graph, &copy);
    MPI_Comm_free(&graph);
    MPI_Topo_test(copy, &kind);
    CHECK_EQUAL(kind, MPI_GRAPH);
    MPI_Graphdims_get(copy, &nodes, &number);
    CHECK_EQUAL(nodes, ranks);
    CHECK_EQUAL(number, count);
    MPI_Graph_get(copy, ranks, count, found_index, found);
    CHECK(memcmp(found_index, index, ranks * sizeof *index) == 0, "the index differs");
    CHECK(memcmp(found, edges, count * sizeof *edges) == 0, "the edges differ");
    for (int r = 0; r < ranks; r++) {
        int first = r ? index[r - 1] : 0;
        MPI_Graph_neighbors_count(copy, r, &number);
        CHECK_EQUAL(number, index[r] - first);
        MPI_Graph_neighbors(copy, r, number, found);
        CHECK(memcmp(found, edges + first, number * sizeof *found) == 0, "the neighbours of %d differ", r);
    }
    MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN);
    CHECK_CLASS(MPI_Graph_neighbors_count(copy, ranks, &number), MPI_ERR_RANK);
    CHECK_CLASS(MPI_Graph_neighbors(copy, -1, 1, found), MPI_ERR_RANK);
    CHECK_CLASS(MPI_Graph_get(copy, ranks - 1, count, found_index, found), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Graph_get(copy, ranks, count - 1, found_index, found), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Cartdim_get(copy, &number), MPI_ERR_TOPOLOGY);
    CHECK_CLASS(MPI_Dist_graph_neighbors_count(copy, &nodes, &number, &kind), MPI_ERR_TOPOLOGY);
    MPI_Comm_free(&copy);
    STORY("§8.5.3 a graph that is smaller than the group, and one of nobody");
    int zero = 0, two = 2;
    CHECK_EQUAL(MPI_Graph_create(world, 1, &two, (int[]){0, 0}, 0, &graph), MPI_SUCCESS);
    CHECK((graph != MPI_COMM_NULL) == (rank == 0), "rank %d", rank);
    if (graph != MPI_COMM_NULL)
        MPI_Comm_free(&graph);
    graph = MPI_COMM_SELF;
    CHECK_EQUAL(MPI_Graph_create(world, 0, &zero, &zero, 0, &graph), MPI_SUCCESS);
    CHECK(graph == MPI_COMM_NULL, "a communicator of nobody");
    STORY("§8.5.3 mistakes in a graph");
    CHECK_CLASS(MPI_Graph_create(world, ranks + 1, index, edges, 0, &graph), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Graph_create(world, 1, (int[]){-1}, edges, 0, &graph), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Graph_create(world, 1, (int[]){1}, (int[]){-1}, 0, &graph), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Graph_create(world, 1, (int[]){1}, (int[]){ranks + 1}, 0, &graph), MPI_ERR_ARG);
    if (ranks > 1)
        CHECK_CLASS(MPI_Graph_create(world, 2, (int[]){1, 0}, edges, 0, &graph), MPI_ERR_ARG);
    free(index), free(edges), free(found_index), free(found);
}

/* The neighbours of `r` in a ring with chords: weights tell edges apart. */
static int weight_of(int from, int to)
{
    return 1 + from * 100 + to;
}

static int by_value(const void *one, const void *other)
{
    return *(const int *)one - *(const int *)other;
}

/* The neighbours of this process: from `rank - 1` and `rank - 2`, to `rank + 1` and `rank + 2`. */
static void check_ring(MPI_Comm comm, int weighted, int in_order)
{
    int own, in, out, has, kind, sources[2], destinations[2], of_sources[2], of_destinations[2];
    MPI_Comm_rank(comm, &own);
    MPI_Topo_test(comm, &kind);
    CHECK_EQUAL(kind, MPI_DIST_GRAPH);
    MPI_Dist_graph_neighbors_count(comm, &in, &out, &has);
    CHECK_EQUAL(in, 2);
    CHECK_EQUAL(out, 2);
    CHECK_EQUAL(!has, !weighted);
    MPI_Dist_graph_neighbors(comm, 2, sources, weighted ? of_sources : MPI_UNWEIGHTED, 2, destinations,
                             weighted ? of_destinations : MPI_UNWEIGHTED);
    if (weighted)
        for (int i = 0; i < 2; i++) {
            CHECK_EQUAL(of_sources[i], weight_of(sources[i], own));
            CHECK_EQUAL(of_destinations[i], weight_of(own, destinations[i]));
        }
    int expected_sources[2] = {(own + ranks - 1) % ranks, (own + 2 * ranks - 2) % ranks};
    int expected_destinations[2] = {(own + 1) % ranks, (own + 2) % ranks};
    if (!in_order) {
        qsort(sources, 2, sizeof(int), by_value), qsort(expected_sources, 2, sizeof(int), by_value);
        qsort(destinations, 2, sizeof(int), by_value), qsort(expected_destinations, 2, sizeof(int), by_value);
    }
    for (int i = 0; i < 2; i++) {
        CHECK_EQUAL(sources[i], expected_sources[i]);
        CHECK_EQUAL(destinations[i], expected_destinations[i]);
    }
}

static void distributed_graphs(int reorder)
{
    int sources[2] = {(rank + ranks - 1) % ranks, (rank + 2 * ranks - 2) % ranks};
    int destinations[2] = {(rank + 1) % ranks, (rank + 2) % ranks}, of_sources[2], of_destinations[2];
    MPI_Comm graph, copy;
    for (int i = 0; i < 2; i++) {
        of_sources[i] = weight_of(sources[i], rank);
        of_destinations[i] = weight_of(rank, destinations[i]);
    }
    STORY("§8.5.4 MPI_Dist_graph_create_adjacent");
    for (int weighted = 0; weighted < 2; weighted++) {
        CHECK_EQUAL(MPI_Dist_graph_create_adjacent(world, 2, sources, weighted ? of_sources : MPI_UNWEIGHTED, 2,
                                                   destinations, weighted ? of_destinations : MPI_UNWEIGHTED,
                                                   MPI_INFO_NULL, reorder, &graph),
                    MPI_SUCCESS);
        check_ring(graph, weighted, 1);
        MPI_Comm_dup(graph, &copy);
        MPI_Comm_free(&graph);
        check_ring(copy, weighted, 1);
        MPI_Comm_free(&copy);
    }
    STORY("§8.5.4 MPI_Dist_graph_create, each process its own edges");
    for (int weighted = 0; weighted < 2; weighted++) {
        int two = 2;
        CHECK_EQUAL(MPI_Dist_graph_create(world, 1, &rank, &two, destinations,
                                          weighted ? of_destinations : MPI_UNWEIGHTED, MPI_INFO_NULL, reorder, &graph),
                    MPI_SUCCESS);
        check_ring(graph, weighted, 0);
        MPI_Comm_free(&graph);
    }
    STORY("§8.5.4 MPI_Dist_graph_create, the last process all edges");
    for (int weighted = 0; weighted < 2; weighted++) {
        int mine = rank == ranks - 1 ? ranks : 0, *from = memory(ranks * sizeof *from), *degrees = memory(ranks * sizeof *from);
        int *to = memory(2 * ranks * sizeof *to), *weights = memory(2 * ranks * sizeof *to);
        for (int r = 0; r < mine; r++) {
            from[r] = r;
            degrees[r] = 2;
            for (int i = 0; i < 2; i++) {
                to[2 * r + i] = (r + 1 + i) % ranks;
                weights[2 * r + i] = weight_of(r, to[2 * r + i]);
            }
        }
        int *given = !weighted ? MPI_UNWEIGHTED : mine ? weights : MPI_WEIGHTS_EMPTY;
        CHECK_EQUAL(MPI_Dist_graph_create(world, mine, from, degrees, to, given, MPI_INFO_NULL, reorder, &graph), MPI_SUCCESS);
        check_ring(graph, weighted, 0);
        MPI_Comm_free(&graph);
        free(from), free(degrees), free(to), free(weights);
    }
    STORY("§8.5.4 only some have neighbours");
    int in = rank == 0 ? ranks - 1 : 0, out = rank == 0 ? 0 : 1, found_in, found_out, weighted, zero = 0, seven = 7;
    int *all = memory(ranks * sizeof *all), *sevens = memory(ranks * sizeof *all), *found = memory(ranks * sizeof *all);
    for (int i = 0; i < ranks; i++)
        all[i] = i + 1, sevens[i] = 7;
    CHECK_EQUAL(MPI_Dist_graph_create_adjacent(world, in, all, in ? sevens : MPI_WEIGHTS_EMPTY, out, &zero,
                                               out ? &seven : MPI_WEIGHTS_EMPTY, MPI_INFO_NULL, 0, &graph),
                MPI_SUCCESS);
    MPI_Dist_graph_neighbors_count(graph, &found_in, &found_out, &weighted);
    CHECK_EQUAL(found_in, in);
    CHECK_EQUAL(found_out, out);
    CHECK(weighted, "the weights are gone");
    int weight = -1, to = -1;
    MPI_Dist_graph_neighbors(graph, in, found, sevens, out, &to, &weight);
    if (out)
        CHECK(to == 0 && weight == 7, "to %d with weight %d", to, weight);
    for (int i = 0; i < in; i++)
        CHECK(found[i] == i + 1 && sevens[i] == 7, "from %d with weight %d", found[i], sevens[i]);
    MPI_Comm_free(&graph);
    free(all), free(sevens), free(found);
    STORY("§8.5.4 a graph without edges, and one with an edge to itself twice");
    CHECK_EQUAL(MPI_Dist_graph_create(world, 0, NULL, NULL, NULL, MPI_UNWEIGHTED, MPI_INFO_NULL, reorder, &graph), MPI_SUCCESS);
    MPI_Dist_graph_neighbors_count(graph, &found_in, &found_out, &weighted);
    CHECK(found_in == 0 && found_out == 0 && !weighted, "%d in, %d out, %d", found_in, found_out, weighted);
    MPI_Comm_free(&graph);
    int self[2] = {rank, rank};
    MPI_Dist_graph_create_adjacent(world, 2, self, MPI_UNWEIGHTED, 2, self, MPI_UNWEIGHTED, MPI_INFO_NULL, reorder, &graph);
    MPI_Dist_graph_neighbors_count(graph, &found_in, &found_out, &weighted);
    CHECK(found_in == 2 && found_out == 2, "%d in, %d out", found_in, found_out);
    MPI_Comm_free(&graph);
}

/* Mistakes that other libraries do not notice, or for which they end the program: Weft's answers. */
static void mistakes_seldom_noticed(void)
{
    int zero = 0, one = 1, minus = -1, beyond = ranks, self[2] = {rank, rank}, weights[2] = {1, -1};
    MPI_Comm graph;
    STORY("§8.5 mistakes that are seldom noticed");
    CHECK_CLASS(MPI_Cart_get(world, 1, self, self, self), MPI_ERR_TOPOLOGY);
    CHECK_CLASS(MPI_Cart_map(world, 1, &zero, &one, &beyond), MPI_ERR_DIMS);
    CHECK_CLASS(MPI_Dims_create(0, 2, (int[]){0, 0}), MPI_ERR_DIMS);
    CHECK_CLASS(MPI_Dims_create(6, -1, &one), MPI_ERR_DIMS);
    CHECK_CLASS(MPI_Cart_create(world, 1, &zero, &zero, 0, &graph), MPI_ERR_DIMS);
    CHECK_CLASS(MPI_Cart_create(world, 2, (int[]){-1, -ranks}, (int[]){0, 0}, 0, &graph), MPI_ERR_DIMS);
    CHECK_CLASS(MPI_Cart_create(world, 3, (int[]){1 << 16, 1 << 16, 1}, (int[]){0, 0, 0}, 0, &graph), MPI_ERR_DIMS);
    CHECK_CLASS(MPI_Graph_create(world, -1, &one, &zero, 0, &graph), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Graph_create(world, 1, &one, NULL, 0, &graph), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Graph_create(world, 1, &one, &one, 0, &graph), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Dist_graph_create(world, 1, &minus, &one, &zero, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &graph), MPI_ERR_RANK);
    CHECK_CLASS(MPI_Dist_graph_create(world, 1, &beyond, &one, &zero, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &graph), MPI_ERR_RANK);
    CHECK_CLASS(MPI_Dist_graph_create(world, 1, &zero, &one, &beyond, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &graph), MPI_ERR_RANK);
    CHECK_CLASS(MPI_Dist_graph_create(world, 1, &zero, &minus, &zero, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &graph), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Dist_graph_create(world, 1, &zero, &one, &zero, NULL, MPI_INFO_NULL, 0, &graph), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Dist_graph_create(world, 1, &zero, &one, &zero, MPI_WEIGHTS_EMPTY, MPI_INFO_NULL, 0, &graph), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Dist_graph_create(world, 1, &zero, &one, &zero, &minus, MPI_INFO_NULL, 0, &graph), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Dist_graph_create_adjacent(world, 2, self, weights, 2, self, weights, MPI_INFO_NULL, 0, &graph), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Dist_graph_create_adjacent(world, 2, self, MPI_UNWEIGHTED, 2, self, weights, MPI_INFO_NULL, 0, &graph),
                MPI_ERR_ARG);
    CHECK_CLASS(MPI_Dist_graph_create_adjacent(world, 1, &beyond, MPI_UNWEIGHTED, 0, NULL, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &graph),
                MPI_ERR_RANK);
    CHECK_CLASS(MPI_Dist_graph_create_adjacent(world, 1, NULL, MPI_UNWEIGHTED, 0, NULL, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &graph),
                MPI_ERR_ARG);
    if (ranks > 1) {
        /* All ranks hear that they do not agree. */
        int *given = rank ? MPI_UNWEIGHTED : &one;
        CHECK_CLASS(MPI_Dist_graph_create(world, 1, &rank, &one, &rank, given, MPI_INFO_NULL, 0, &graph), MPI_ERR_ARG);
    }
    CHECK_EQUAL(MPI_Cart_create(world, 2, (int[]){1, 1}, self, 0, &graph), MPI_SUCCESS);
    if (graph != MPI_COMM_NULL) {
        MPI_Comm_set_errhandler(graph, MPI_ERRORS_RETURN);
        CHECK_CLASS(MPI_Cart_get(graph, 1, self, self, self), MPI_ERR_ARG);
        MPI_Comm_free(&graph);
    }
    /* §8.5.5: room for fewer neighbours than there are. */
    int found[2] = {-5, -5}, none[2] = {-5, -5};
    CHECK_EQUAL(MPI_Dist_graph_create_adjacent(world, 2, self, MPI_UNWEIGHTED, 2, self, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &graph),
                MPI_SUCCESS);
    MPI_Dist_graph_neighbors(graph, 1, found, MPI_UNWEIGHTED, 0, none, MPI_UNWEIGHTED);
    CHECK(found[0] == rank && found[1] == -5 && none[0] == -5, "%d, %d, %d", found[0], found[1], none[0]);
    MPI_Comm_free(&graph);
}

static void mistakes(void)
{
    STORY("§8.5 without a topology");
    int kind, number, array[4], dims[2] = {ranks, 1}, periods[2] = {0, 1}, zero = 0, found;
    MPI_Comm comm, cart;
    MPI_Topo_test(world, &kind);
    CHECK_EQUAL(kind, MPI_UNDEFINED);
    CHECK_CLASS(MPI_Cartdim_get(world, &number), MPI_ERR_TOPOLOGY);
    CHECK_CLASS(MPI_Cart_rank(world, &zero, &number), MPI_ERR_TOPOLOGY);
    CHECK_CLASS(MPI_Cart_coords(world, 0, 1, array), MPI_ERR_TOPOLOGY);
    CHECK_CLASS(MPI_Cart_shift(world, 0, 1, array, array + 1), MPI_ERR_TOPOLOGY);
    CHECK_CLASS(MPI_Cart_sub(world, &zero, &comm), MPI_ERR_TOPOLOGY);
    CHECK_CLASS(MPI_Graphdims_get(world, array, array + 1), MPI_ERR_TOPOLOGY);
    CHECK_CLASS(MPI_Graph_get(world, 1, 1, array, array), MPI_ERR_TOPOLOGY);
    CHECK_CLASS(MPI_Graph_neighbors_count(world, 0, array), MPI_ERR_TOPOLOGY);
    CHECK_CLASS(MPI_Graph_neighbors(world, 0, 1, array), MPI_ERR_TOPOLOGY);
    CHECK_CLASS(MPI_Dist_graph_neighbors_count(world, array, array, array), MPI_ERR_TOPOLOGY);
    CHECK_CLASS(MPI_Dist_graph_neighbors(world, 1, array, array, 1, array, array), MPI_ERR_TOPOLOGY);
    STORY("§8.5 no communicator");
    CHECK_CLASS(MPI_Topo_test(MPI_COMM_NULL, &kind), MPI_ERR_COMM);
    CHECK_CLASS(MPI_Cart_create(MPI_COMM_NULL, 1, dims, periods, 0, &comm), MPI_ERR_COMM);
    CHECK_CLASS(MPI_Cart_shift(MPI_COMM_NULL, 0, 1, array, array + 1), MPI_ERR_COMM);
    CHECK_CLASS(MPI_Dist_graph_create(MPI_COMM_NULL, 0, NULL, NULL, NULL, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &comm),
                MPI_ERR_COMM);
    STORY("§8.5.1 mistakes in a grid");
    CHECK_CLASS_IN(MPI_Cart_create(world, -1, dims, periods, 0, &comm), MPI_ERR_DIMS, MPI_ERR_ARG, MPI_ERR_DIMS);
    CHECK_CLASS_IN(MPI_Cart_create(world, 1, (int[]){ranks + 1}, periods, 0, &comm), MPI_ERR_DIMS, MPI_ERR_ARG,
                   MPI_ERR_TOPOLOGY);
    CHECK_CLASS_IN(MPI_Cart_map(world, -1, (int[]){1}, periods, &found), MPI_ERR_DIMS, MPI_ERR_ARG, MPI_ERR_DIMS);
    CHECK_CLASS_IN(MPI_Cart_map(world, 1, (int[]){ranks + 1}, periods, &found), MPI_ERR_DIMS, MPI_ERR_ARG,
                   MPI_ERR_TOPOLOGY);
    CHECK_CLASS(MPI_Cart_create(world, 1, NULL, periods, 0, &comm), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Cart_create(world, 1, dims, NULL, 0, &comm), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Cart_create(world, 1, dims, periods, 0, NULL), MPI_ERR_ARG);
    STORY("§8.5.5, §8.5.6 mistakes with a grid");
    MPI_Cart_create(world, 2, dims, periods, 0, &cart);
    MPI_Comm_set_errhandler(cart, MPI_ERRORS_RETURN);
    CHECK_CLASS(MPI_Cart_coords(cart, ranks, 2, array), MPI_ERR_RANK);
    CHECK_CLASS(MPI_Cart_coords(cart, -1, 2, array), MPI_ERR_RANK);
    CHECK_CLASS_IN(MPI_Cart_coords(cart, 0, 1, array), MPI_ERR_ARG, MPI_ERR_DIMS, MPI_ERR_ARG);
    CHECK_CLASS_IN(MPI_Cart_shift(cart, 2, 1, array, array + 1), MPI_ERR_ARG, MPI_ERR_DIMS, MPI_ERR_TOPOLOGY);
    CHECK_CLASS_IN(MPI_Cart_shift(cart, -1, 1, array, array + 1), MPI_ERR_ARG, MPI_ERR_DIMS, MPI_ERR_TOPOLOGY);
    CHECK_CLASS_IN(MPI_Cart_rank(cart, (int[]){ranks, 0}, &found), MPI_ERR_ARG, MPI_ERR_RANK, MPI_ERR_DIMS);
    CHECK_CLASS_IN(MPI_Cart_rank(cart, (int[]){-1, 0}, &found), MPI_ERR_ARG, MPI_ERR_RANK, MPI_ERR_DIMS);
    CHECK_CLASS(MPI_Cart_rank(cart, NULL, &found), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Cart_sub(cart, NULL, &comm), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Graphdims_get(cart, array, array + 1), MPI_ERR_TOPOLOGY);
    MPI_Comm_free(&cart);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    MPI_Comm_dup(MPI_COMM_WORLD, &world);
    MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
    dimensions();
    for (int reorder = 0; reorder < 2; reorder++) {
        for (int count = 1; count <= 3; count++)
            for (int mask = 0; mask < 1 << count; mask++)
                grid(count, mask, reorder);
        grid(DIMS_MAX, 5, reorder);
        subgrids(reorder);
        graphs(reorder);
        distributed_graphs(reorder);
    }
    smaller_and_empty_grids();
    maps();
    duplicates();
    mistakes();
    if (!left_out("mistakes"))
        mistakes_seldom_noticed();
    MPI_Comm_free(&world);
    return end();
}
