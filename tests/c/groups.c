/*
 * Chapter 7 of MPI 5.0, groups and communicators: conformance. Passes on any MPI library with any number of
 * ranks. Attributes, intercommunicators and simultaneous creations have programs of their own
 * (communicators.c, intercommunicators.c, contexts.c, create_group.c).
 */
#include "check.h"

static MPI_Comm world; /* MPI_COMM_WORLD with an error handler that returns. */
static MPI_Group all;  /* Its group. */

#define CHECK_CLASS_IN(call, one, other)                                                                               \
    do {                                                                                                               \
        int code_ = (call), class_ = -1;                                                                               \
        MPI_Error_class(code_, &class_);                                                                               \
        CHECK(class_ == (one) || class_ == (other), #call " gave class %d", class_);                                   \
    } while (0)

static const char *name_of(int comparison)
{
    return comparison == MPI_IDENT     ? "MPI_IDENT"
           : comparison == MPI_CONGRUENT ? "MPI_CONGRUENT"
           : comparison == MPI_SIMILAR   ? "MPI_SIMILAR"
           : comparison == MPI_UNEQUAL   ? "MPI_UNEQUAL"
                                         : "none of them";
}

static void check_groups(MPI_Group one, MPI_Group other, int expected)
{
    int found = -1;
    MPI_Group_compare(one, other, &found);
    CHECK(found == expected, "%s, expected %s", name_of(found), name_of(expected));
}

/* The group has these ranks of the world, in this order. */
static void check_members(MPI_Group group, int count, const int *expected)
{
    int size = -1, own = -7, place = MPI_UNDEFINED, *order = memory(count * sizeof *order), *found = memory(count * sizeof *found);
    MPI_Group_size(group, &size);
    CHECK_EQUAL(size, count);
    MPI_Group_rank(group, &own);
    for (int i = 0; i < count; i++) {
        order[i] = i;
        if (expected[i] == rank)
            place = i;
    }
    CHECK_EQUAL(own, place);
    if (size == count) {
        MPI_Group_translate_ranks(group, count, order, all, found);
        for (int i = 0; i < count; i++)
            CHECK_EQUAL(found[i], expected[i]);
    }
    free(order), free(found);
}

static void accessors(void)
{
    STORY("§7.3.1 MPI_Group_size, MPI_Group_rank, MPI_Group_translate_ranks");
    int size, own, count = 0, *expected = memory(ranks * sizeof *expected), found[2];
    for (int i = 0; i < ranks; i++)
        expected[count++] = i;
    check_members(all, count, expected);
    MPI_Group_size(MPI_GROUP_EMPTY, &size);
    CHECK_EQUAL(size, 0);
    MPI_Group_rank(MPI_GROUP_EMPTY, &own);
    CHECK_EQUAL(own, MPI_UNDEFINED);
    /* MPI_PROC_NULL stays MPI_PROC_NULL; a process that is not in the other group has no rank there. */
    MPI_Group_translate_ranks(all, 2, (int[]){MPI_PROC_NULL, 0}, MPI_GROUP_EMPTY, found);
    CHECK_EQUAL(found[0], MPI_PROC_NULL);
    CHECK_EQUAL(found[1], MPI_UNDEFINED);
    MPI_Group_translate_ranks(all, 0, NULL, all, NULL);
    free(expected);
}

static void comparisons(void)
{
    STORY("§7.3.1, §7.4.1 MPI_Group_compare, MPI_Comm_compare");
    MPI_Group same, reversed, first;
    int *ranges = memory(3 * sizeof *ranges), found;
    MPI_Comm_group(MPI_COMM_WORLD, &same);
    check_groups(all, same, MPI_IDENT);
    check_groups(MPI_GROUP_EMPTY, MPI_GROUP_EMPTY, MPI_IDENT);
    check_groups(all, MPI_GROUP_EMPTY, MPI_UNEQUAL);
    MPI_Group_range_incl(all, 1, (int[][3]){{ranks - 1, 0, -1}}, &reversed);
    check_groups(all, reversed, ranks > 1 ? MPI_SIMILAR : MPI_IDENT);
    MPI_Group_incl(all, 1, (int[]){0}, &first);
    check_groups(all, first, ranks > 1 ? MPI_UNEQUAL : MPI_IDENT);
    MPI_Comm copy, backwards, part;
    MPI_Comm_dup(world, &copy);
    MPI_Comm_split(world, 0, -rank, &backwards);
    MPI_Comm_split(world, rank == 0, 0, &part);
    MPI_Comm_compare(world, world, &found);
    CHECK(found == MPI_IDENT, "%s", name_of(found));
    MPI_Comm_compare(world, copy, &found);
    CHECK(found == MPI_CONGRUENT, "%s", name_of(found));
    MPI_Comm_compare(world, backwards, &found);
    CHECK(found == (ranks > 1 ? MPI_SIMILAR : MPI_CONGRUENT), "%s", name_of(found));
    MPI_Comm_compare(world, part, &found);
    CHECK(found == (ranks > 1 ? MPI_UNEQUAL : MPI_CONGRUENT), "%s", name_of(found));
    MPI_Comm_free(&copy), MPI_Comm_free(&backwards), MPI_Comm_free(&part);
    CHECK(copy == MPI_COMM_NULL, "§7.4.3: the handle is not null");
    MPI_Group_free(&same), MPI_Group_free(&reversed), MPI_Group_free(&first);
    CHECK(same == MPI_GROUP_NULL, "§7.3.3: the handle is not null");
    free(ranges);
}

/* All subsets of the first ranks, as sets and in their order. */
static void set_operations(void)
{
    STORY("§7.3.2 union, intersection, difference");
    int population = ranks < 4 ? ranks : 4;
    for (int a = 0; a < 1 << population; a++)
        for (int b = 0; b < 1 << population; b++) {
            /* The second group is in descending order: the order of a result is that of the first. */
            int one[4], other[4], counts[2] = {0, 0}, expected[4], count = 0;
            MPI_Group groups[2], result;
            for (int i = 0; i < population; i++) {
                if (a >> i & 1)
                    one[counts[0]++] = i;
                if (b >> (population - 1 - i) & 1)
                    other[counts[1]++] = population - 1 - i;
            }
            MPI_Group_incl(all, counts[0], one, &groups[0]);
            MPI_Group_incl(all, counts[1], other, &groups[1]);
            CHECK(counts[0] || groups[0] == MPI_GROUP_EMPTY, "§7.3.2: a group of nobody is not MPI_GROUP_EMPTY");
            for (int i = 0; i < counts[0]; i++)
                expected[count++] = one[i];
            for (int i = 0; i < counts[1]; i++)
                if (!(a >> other[i] & 1))
                    expected[count++] = other[i];
            MPI_Group_union(groups[0], groups[1], &result);
            check_members(result, count, expected);
            if (result != MPI_GROUP_EMPTY)
                MPI_Group_free(&result);
            for (int wanted = 0; wanted < 2; wanted++) {
                count = 0;
                for (int i = 0; i < counts[0]; i++)
                    if ((b >> one[i] & 1) == wanted)
                        expected[count++] = one[i];
                if (wanted)
                    MPI_Group_intersection(groups[0], groups[1], &result);
                else
                    MPI_Group_difference(groups[0], groups[1], &result);
                check_members(result, count, expected);
                if (result != MPI_GROUP_EMPTY)
                    MPI_Group_free(&result);
            }
            for (int i = 0; i < 2; i++)
                if (groups[i] != MPI_GROUP_EMPTY)
                    MPI_Group_free(&groups[i]);
        }
}

static void lists_and_ranges(void)
{
    STORY("§7.3.2 incl, excl, range_incl, range_excl");
    int *expected = memory(ranks * sizeof *expected), count = 0;
    MPI_Group group;
    for (int i = 0; i < ranks; i += 2)
        expected[count++] = i;
    MPI_Group_range_incl(all, 1, (int[][3]){{0, ranks - 1, 2}}, &group);
    check_members(group, count, expected);
    MPI_Group_free(&group);
    count = 0;
    for (int i = 1; i < ranks; i += 2)
        expected[count++] = i;
    MPI_Group_range_excl(all, 1, (int[][3]){{0, ranks - 1, 2}}, &group);
    check_members(group, count, expected);
    if (group != MPI_GROUP_EMPTY)
        MPI_Group_free(&group);
    count = 0;
    for (int i = 1; i < ranks; i++)
        expected[count++] = i;
    MPI_Group_excl(all, 1, (int[]){0}, &group);
    check_members(group, count, expected);
    if (group != MPI_GROUP_EMPTY)
        MPI_Group_free(&group);
    MPI_Group_excl(all, 0, NULL, &group);
    check_groups(all, group, MPI_IDENT);
    MPI_Group_free(&group);
    /* Two ranges, the second downwards: the order is that of the list. */
    if (ranks >= 4) {
        MPI_Group_range_incl(all, 2, (int[][3]){{2, 3, 1}, {1, 0, -1}}, &group);
        check_members(group, 4, (int[]){2, 3, 1, 0});
        MPI_Group_free(&group);
    }
    STORY("§7.3.2 mistakes with groups");
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    CHECK_CLASS(MPI_Group_incl(all, 1, (int[]){ranks}, &group), MPI_ERR_RANK);
    CHECK_CLASS(MPI_Group_incl(all, 1, (int[]){-1}, &group), MPI_ERR_RANK);
    CHECK_CLASS(MPI_Group_excl(all, 1, (int[]){ranks}, &group), MPI_ERR_RANK);
    CHECK_CLASS_IN(MPI_Group_range_incl(all, 1, (int[][3]){{0, 0, 0}}, &group), MPI_ERR_ARG, MPI_ERR_RANK);
    CHECK_CLASS(MPI_Group_size(MPI_GROUP_NULL, &count), MPI_ERR_GROUP);
    CHECK_CLASS(MPI_Group_union(all, MPI_GROUP_NULL, &group), MPI_ERR_GROUP);
    free(expected);
}

/* Mistakes that not every library notices. */
static void mistakes_seldom_noticed(void)
{
    MPI_Group group;
    MPI_Comm comm;
    STORY("§7.3.2, §7.4.2 mistakes that are seldom noticed");
    CHECK_CLASS(MPI_Group_incl(all, 2, (int[]){0, 0}, &group), MPI_ERR_RANK);
    CHECK_CLASS(MPI_Comm_split(world, -5, 0, &comm), MPI_ERR_ARG);
}

static void check_works(MPI_Comm comm)
{
    int size, own, sum, one = 1;
    MPI_Comm_size(comm, &size);
    MPI_Comm_rank(comm, &own);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
    CHECK_EQUAL(sum, size);
    int to = (own + 1) % size, from = (own + size - 1) % size, got = -1;
    MPI_Sendrecv(&own, 1, MPI_INT, to, 0, &got, 1, MPI_INT, from, 0, comm, MPI_STATUS_IGNORE);
    CHECK_EQUAL(got, from);
}

static void constructors(void)
{
    STORY("§7.4.2 MPI_Comm_create");
    MPI_Group odd, found;
    MPI_Comm comm;
    int comparison;
    MPI_Group_range_excl(all, 1, (int[][3]){{0, ranks - 1, 2}}, &odd);
    MPI_Comm_create(world, odd, &comm);
    CHECK((comm != MPI_COMM_NULL) == rank % 2, "rank %d", rank);
    if (comm != MPI_COMM_NULL) {
        MPI_Comm_group(comm, &found);
        check_groups(found, odd, MPI_IDENT);
        MPI_Group_free(&found);
        check_works(comm);
        MPI_Comm_free(&comm);
    }
    /* Disjoint groups at the same time: each process gives its own. */
    MPI_Group own;
    MPI_Group_range_incl(all, 1, (int[][3]){{rank % 2 && ranks > 1, ranks - 1, 2}}, &own);
    MPI_Comm_create(world, own, &comm);
    CHECK(comm != MPI_COMM_NULL, "no communicator");
    MPI_Comm_group(comm, &found);
    check_groups(found, own, MPI_IDENT);
    check_works(comm);
    MPI_Comm_free(&comm);
    MPI_Comm_create(world, MPI_GROUP_EMPTY, &comm);
    CHECK(comm == MPI_COMM_NULL, "a communicator of nobody");
    STORY("§7.4.2 MPI_Comm_create_group");
    MPI_Comm_create_group(world, own, 7, &comm);
    MPI_Group_free(&found);
    MPI_Comm_group(comm, &found);
    check_groups(found, own, MPI_IDENT);
    check_works(comm);
    MPI_Comm_free(&comm);
    MPI_Group_free(&found), MPI_Group_free(&own);
    if (odd != MPI_GROUP_EMPTY)
        MPI_Group_free(&odd);
    STORY("§7.4.2 MPI_Comm_split");
    for (int colors = 1; colors <= 3; colors++) {
        MPI_Comm_split(world, rank % colors, -rank, &comm);
        int size, place;
        MPI_Comm_size(comm, &size);
        MPI_Comm_rank(comm, &place);
        int members = (ranks - rank % colors + colors - 1) / colors;
        CHECK_EQUAL(size, members);
        /* Descending by rank. */
        CHECK_EQUAL(place, members - 1 - rank / colors);
        check_works(comm);
        MPI_Comm_free(&comm);
    }
    /* Equal keys: by the rank in the old communicator. */
    MPI_Comm_split(world, 5, 9, &comm);
    MPI_Comm_compare(world, comm, &comparison);
    CHECK(comparison == MPI_CONGRUENT, "%s", name_of(comparison));
    MPI_Comm_free(&comm);
    comm = MPI_COMM_SELF;
    MPI_Comm_split(world, rank == 0 ? MPI_UNDEFINED : 0, 0, &comm);
    CHECK((comm == MPI_COMM_NULL) == (rank == 0), "rank %d", rank);
    if (comm != MPI_COMM_NULL)
        MPI_Comm_free(&comm);
    CHECK_CLASS(MPI_Comm_create(world, MPI_GROUP_NULL, &comm), MPI_ERR_GROUP);
    CHECK_CLASS(MPI_Comm_dup(MPI_COMM_NULL, &comm), MPI_ERR_COMM);
    MPI_Comm null = MPI_COMM_NULL;
    CHECK_CLASS(MPI_Comm_free(&null), MPI_ERR_COMM);
}

/* Members of a node find each other; a library's other knowledge of hardware is its own. */
static void split_types(void)
{
    STORY("§7.4.2 MPI_Comm_split_type");
    MPI_Comm node, comm, guided;
    MPI_Info info;
    int size, found, comparison, members;
    MPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node);
    CHECK(node != MPI_COMM_NULL, "no communicator");
    check_works(node);
    MPI_Comm_size(node, &size);
    MPI_Comm_split_type(world, MPI_UNDEFINED, 0, MPI_INFO_NULL, &comm);
    CHECK(comm == MPI_COMM_NULL, "MPI_UNDEFINED gives a communicator");
    /* The unguided split gives proper parts until it ends. */
    MPI_Comm_dup(world, &comm);
    for (int level = 0; comm != MPI_COMM_NULL; level++) {
        MPI_Comm below;
        MPI_Info_create(&info);
        MPI_Comm_split_type(comm, MPI_COMM_TYPE_HW_UNGUIDED, rank, info, &below);
        MPI_Comm_size(comm, &members);
        if (below != MPI_COMM_NULL) {
            MPI_Comm_size(below, &found);
            CHECK(found < members, "a part of %d is no proper subset of %d", found, members);
            check_works(below);
        }
        MPI_Info_free(&info);
        MPI_Comm_free(&comm);
        comm = below;
        CHECK(level < 20, "the levels do not end");
        if (level >= 20)
            break;
    }
    /* The resource that every library knows (§7.4.2, table of mpi_hw_resource_type). */
    MPI_Info_create(&info);
    MPI_Info_set(info, "mpi_hw_resource_type", "mpi_shared_memory");
    MPI_Comm_split_type(world, MPI_COMM_TYPE_HW_GUIDED, rank, info, &guided);
    if (guided != MPI_COMM_NULL) {
        MPI_Comm_compare(node, guided, &comparison);
        CHECK(comparison == MPI_CONGRUENT, "%s", name_of(comparison));
        MPI_Comm_free(&guided);
    }
    /* An unknown resource gives no communicator. */
    MPI_Info_set(info, "mpi_hw_resource_type", "no such thing");
    MPI_Comm_split_type(world, MPI_COMM_TYPE_HW_GUIDED, rank, info, &guided);
    CHECK(guided == MPI_COMM_NULL, "an unknown resource gives a communicator");
    MPI_Info_free(&info);
    MPI_Comm_free(&node);
    CHECK_CLASS(MPI_Comm_split_type(world, 12345, 0, MPI_INFO_NULL, &comm), MPI_ERR_ARG);
}

static void names_and_hints(void)
{
    STORY("§7.8 names, §7.4.4 hints");
    char name[MPI_MAX_OBJECT_NAME], text[16] = "";
    int length, flag, size = sizeof text;
    MPI_Comm comm;
    MPI_Info info;
    MPI_Comm_get_name(MPI_COMM_WORLD, name, &length);
    CHECK(strcmp(name, "MPI_COMM_WORLD") == 0 && length == 14, "%s", name);
    MPI_Comm_dup(world, &comm);
    MPI_Comm_get_name(comm, name, &length);
    CHECK(length == 0 && !*name, "the name is copied: %s", name);
    MPI_Comm_set_name(comm, "heat");
    MPI_Comm_get_name(comm, name, &length);
    CHECK(strcmp(name, "heat") == 0 && length == 4, "%s", name);
    /* A library may keep a hint that it knows or not, but a hint that it returns has the given value. */
    MPI_Info_create(&info);
    MPI_Info_set(info, "mpi_assert_allow_overtaking", "true");
    MPI_Comm_set_info(comm, info);
    MPI_Info_free(&info);
    MPI_Comm_get_info(comm, &info);
    MPI_Info_get_string(info, "mpi_assert_allow_overtaking", &size, text, &flag);
    CHECK(!flag || !strcmp(text, "true") || !strcmp(text, "false"), "%s", text);
    MPI_Info_free(&info);
    MPI_Comm_free(&comm);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    MPI_Comm_dup(MPI_COMM_WORLD, &world);
    MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
    MPI_Comm_group(world, &all);
    accessors();
    comparisons();
    set_operations();
    lists_and_ranges();
    constructors();
    split_types();
    names_and_hints();
    if (!left_out("mistakes"))
        mistakes_seldom_noticed();
    MPI_Group_free(&all);
    MPI_Comm_free(&world);
    return end();
}
