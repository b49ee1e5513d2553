/* Communicators, groups, attributes, info, names. */
#include "check.h"

static void check_comm(MPI_Comm comm, int expected_rank, int expected_size)
{
    int found_rank, found_size, total = 0, one = 1;
    MPI_Comm_rank(comm, &found_rank);
    MPI_Comm_size(comm, &found_size);
    CHECK_EQUAL(found_rank, expected_rank);
    CHECK_EQUAL(found_size, expected_size);
    MPI_Allreduce(&one, &total, 1, MPI_INT, MPI_SUM, comm);
    CHECK_EQUAL(total, expected_size);
    int next = (found_rank + 1) % found_size, previous = (found_rank + found_size - 1) % found_size, got = -1;
    MPI_Sendrecv(&found_rank, 1, MPI_INT, next, 0, &got, 1, MPI_INT, previous, 0, comm, MPI_STATUS_IGNORE);
    CHECK_EQUAL(got, previous);
}

static void duplicates(void)
{
    STORY("§7.2.4 world and self");
    check_comm(MPI_COMM_WORLD, rank, ranks);
    check_comm(MPI_COMM_SELF, 0, 1);
    int result;
    MPI_Comm_compare(MPI_COMM_WORLD, MPI_COMM_WORLD, &result);
    CHECK_EQUAL(result, MPI_IDENT);
    MPI_Comm_compare(MPI_COMM_WORLD, MPI_COMM_SELF, &result);
    CHECK_EQUAL(result, ranks == 1 ? MPI_CONGRUENT : MPI_UNEQUAL);

    STORY("§7.4.2 Comm_dup");
    MPI_Comm copy, many[30];
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    check_comm(copy, rank, ranks);
    MPI_Comm_compare(MPI_COMM_WORLD, copy, &result);
    CHECK_EQUAL(result, MPI_CONGRUENT);
    MPI_Comm_free(&copy);
    CHECK(copy == MPI_COMM_NULL, "not null after Comm_free");
    for (int i = 0; i < 30; i++)
        MPI_Comm_dup(i ? many[i - 1] : MPI_COMM_WORLD, &many[i]);
    check_comm(many[29], rank, ranks);
    for (int i = 0; i < 30; i++)
        MPI_Comm_free(&many[i]);
    for (int i = 0; i < 300; i++) { /* a freed context can be had again */
        MPI_Comm_dup(MPI_COMM_WORLD, &copy);
        MPI_Comm_free(&copy);
    }
    STORY("§7.4.3 a communicator freed while a message is under way");
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    static char bytes[100000], got[100000];
    MPI_Request request[2];
    memset(bytes, rank + 1, sizeof bytes);
    MPI_Irecv(got, sizeof got, MPI_BYTE, (rank + ranks - 1) % ranks, 0, copy, &request[0]);
    MPI_Isend(bytes, sizeof bytes, MPI_BYTE, (rank + 1) % ranks, 0, copy, &request[1]);
    MPI_Comm_free(&copy);
    MPI_Waitall(2, request, MPI_STATUSES_IGNORE);
    CHECK_EQUAL(got[99999], (rank + ranks - 1) % ranks + 1);
}

static void splits(void)
{
    STORY("§7.4.2 Comm_split");
    MPI_Comm part;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &part);
    check_comm(part, rank / 2, (ranks + (rank % 2 == 0)) / 2);
    MPI_Comm_free(&part);
    MPI_Comm_split(MPI_COMM_WORLD, 5, -rank, &part);
    check_comm(part, ranks - 1 - rank, ranks);
    int result;
    MPI_Comm_compare(MPI_COMM_WORLD, part, &result);
    CHECK_EQUAL(result, ranks == 1 ? MPI_CONGRUENT : MPI_SIMILAR);
    MPI_Comm_free(&part);
    MPI_Comm_split(MPI_COMM_WORLD, rank == 0 ? MPI_UNDEFINED : 1, 0, &part);
    if (rank == 0) {
        CHECK(part == MPI_COMM_NULL, "not null though the colour is undefined");
    } else {
        check_comm(part, rank - 1, ranks - 1); /* equal keys: in the order of the old ranks */
        MPI_Comm_free(&part);
    }
    STORY("§7.4.2 Comm_split_type");
    int size;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &part);
    MPI_Comm_size(part, &size);
    CHECK(size >= 1 && size <= ranks, "%d", size);
    int total = 0, share = 840 / size;
    MPI_Allreduce(&share, &total, 1, MPI_INT, MPI_SUM, part);
    CHECK_EQUAL(total, 840 / size * size);
    MPI_Comm_free(&part);
    /* Ranks of one node are not told apart. Ranks of several nodes are, and the library reports by which
     * resource (MPI-5.0 section 7.4.2). */
    int near_ranks = size, flag, length = MPI_MAX_INFO_VAL;
    char value[MPI_MAX_INFO_VAL];
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_HW_UNGUIDED, rank, info, &part);
    CHECK_EQUAL(part == MPI_COMM_NULL, near_ranks == ranks);
    MPI_Info_get_string(info, "mpi_hw_resource_type", &length, value, &flag);
    CHECK_EQUAL(flag, part != MPI_COMM_NULL);
    if (part != MPI_COMM_NULL) {
        MPI_Comm_size(part, &size);
        CHECK_EQUAL(size, near_ranks);
        CHECK(!strcmp(value, "mpi_shared_memory"), "%.100s", value);
        MPI_Comm_free(&part);
    }
    MPI_Info_free(&info);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_UNDEFINED, 0, MPI_INFO_NULL, &part);
    CHECK(part == MPI_COMM_NULL, "not null though the type is undefined");
}

static void groups(void)
{
    STORY("§7.3 groups");
    MPI_Group world, odd, even, both, none, range;
    int size, my_rank, result;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_size(world, &size);
    MPI_Group_rank(world, &my_rank);
    CHECK_EQUAL(size, ranks);
    CHECK_EQUAL(my_rank, rank);
    int *odd_ranks = memory(ranks * sizeof(int)), odd_count = 0;
    for (int other = 1; other < ranks; other += 2)
        odd_ranks[odd_count++] = other;
    MPI_Group_incl(world, odd_count, odd_ranks, &odd);
    MPI_Group_excl(world, odd_count, odd_ranks, &even);
    MPI_Group_size(even, &size);
    CHECK_EQUAL(size, ranks - odd_count);
    MPI_Group_rank(odd, &my_rank);
    CHECK_EQUAL(my_rank, rank % 2 ? rank / 2 : MPI_UNDEFINED);
    MPI_Group_intersection(odd, even, &none);
    MPI_Group_compare(none, MPI_GROUP_EMPTY, &result);
    CHECK_EQUAL(result, MPI_IDENT);
    MPI_Group_union(even, odd, &both);
    MPI_Group_compare(both, world, &result);
    CHECK_EQUAL(result, ranks <= 2 ? MPI_IDENT : MPI_SIMILAR);
    MPI_Group_free(&both);
    MPI_Group_difference(world, odd, &both);
    MPI_Group_compare(both, even, &result);
    CHECK_EQUAL(result, MPI_IDENT);
    int triplet[1][3] = {{ranks - 1, 0, -1}};
    MPI_Group_range_incl(world, 1, triplet, &range);
    int from[1] = {0}, to[1] = {-1};
    MPI_Group_translate_ranks(range, 1, from, world, to);
    CHECK_EQUAL(to[0], ranks - 1);
    MPI_Group_free(&range);
    triplet[0][1] = ranks - 1;
    triplet[0][2] = 1;
    MPI_Group_range_excl(world, 1, triplet, &range);
    MPI_Group_size(range, &size);
    CHECK_EQUAL(size, ranks - 1);
    from[0] = ranks - 1;
    MPI_Group_translate_ranks(world, 1, from, range, to);
    CHECK_EQUAL(to[0], MPI_UNDEFINED);

    STORY("§7.4.2 Comm_create and Comm_create_group");
    MPI_Comm comm;
    MPI_Comm_create(MPI_COMM_WORLD, even, &comm);
    if (rank % 2 == 0) {
        check_comm(comm, rank / 2, ranks - odd_count);
        MPI_Comm_free(&comm);
    } else {
        CHECK(comm == MPI_COMM_NULL, "not null outside the group");
    }
    if (rank % 2 == 0) {
        MPI_Comm_create_group(MPI_COMM_WORLD, even, 4, &comm);
        check_comm(comm, rank / 2, ranks - odd_count);
        MPI_Comm_free(&comm);
    }
    MPI_Group_free(&range);
    MPI_Group_free(&both);
    MPI_Group_free(&none);
    MPI_Group_free(&even);
    MPI_Group_free(&odd);
    MPI_Group_free(&world);
    CHECK(world == MPI_GROUP_NULL, "not null after Group_free");
    free(odd_ranks);
}

static int copies, deletions;

static int copy_and_count(MPI_Comm comm, int key, void *extra, void *in, void *out, int *flag)
{
    (void)comm, (void)key;
    copies++;
    CHECK(extra == &copies, "the extra state is lost");
    *(void **)out = (char *)in + 1;
    *flag = 1;
    return MPI_SUCCESS;
}

static int delete_and_count(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)comm, (void)key, (void)value, (void)extra;
    deletions++;
    return MPI_SUCCESS;
}

static void attributes(void)
{
    STORY("§7.7.2 attributes");
    int key, plain, flag;
    char place[8];
    void *value;
    MPI_Comm comm, copy;
    MPI_Comm_create_keyval(copy_and_count, delete_and_count, &key, &copies);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &plain, NULL);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_get_attr(comm, key, &value, &flag);
    CHECK(!flag, "an attribute nobody set");
    MPI_Comm_set_attr(comm, key, &place[0]);
    MPI_Comm_set_attr(comm, plain, &place[5]);
    MPI_Comm_get_attr(comm, key, &value, &flag);
    CHECK(flag && value == &place[0], "lost");
    MPI_Comm_dup(comm, &copy);
    CHECK_EQUAL(copies, 1);
    MPI_Comm_get_attr(copy, key, &value, &flag);
    CHECK(flag && value == &place[1], "the copy function's value is not there");
    MPI_Comm_get_attr(copy, plain, &value, &flag);
    CHECK(!flag, "copied by the null function");
    MPI_Comm_set_attr(comm, key, &place[2]); /* replacing deletes */
    CHECK_EQUAL(deletions, 1);
    MPI_Comm_delete_attr(comm, key);
    CHECK_EQUAL(deletions, 2);
    MPI_Comm_free(&copy);
    CHECK_EQUAL(deletions, 3);
    MPI_Comm_free(&comm);
    MPI_Comm_free_keyval(&key);
    CHECK(key == MPI_KEYVAL_INVALID, "the key is still valid");
    MPI_Comm_free_keyval(&plain);

    STORY("§9.1.2 attributes of the world");
    int *number;
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &number, &flag);
    CHECK(flag && *number >= 32767, "MPI_TAG_UB");
    int most = *number, got = -1;
    MPI_Sendrecv(&rank, 1, MPI_INT, rank, most, &got, 1, MPI_INT, rank, most, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK_EQUAL(got, rank);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_WTIME_IS_GLOBAL, &number, &flag);
    CHECK(flag && (*number == 0 || *number == 1), "MPI_WTIME_IS_GLOBAL");
    STORY("§7.7.4 attributes of a type");
    MPI_Datatype type;
    MPI_Type_create_keyval(MPI_TYPE_DUP_FN, MPI_TYPE_NULL_DELETE_FN, &key, NULL);
    MPI_Type_contiguous(2, MPI_INT, &type);
    MPI_Type_set_attr(type, key, place);
    MPI_Datatype twin;
    MPI_Type_dup(type, &twin);
    MPI_Type_get_attr(twin, key, &value, &flag);
    CHECK(flag && value == place, "not copied with the type");
    MPI_Type_free(&twin);
    MPI_Type_free(&type);
    MPI_Type_free_keyval(&key);
}

static void names_and_info(void)
{
    STORY("§7.8 names");
    char name[MPI_MAX_OBJECT_NAME];
    int length, flag, count;
    MPI_Comm_get_name(MPI_COMM_WORLD, name, &length);
    CHECK(strcmp(name, "MPI_COMM_WORLD") == 0 && length == 14, "%s", name);
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_SELF, &comm);
    MPI_Comm_set_name(comm, "mine");
    MPI_Comm_get_name(comm, name, &length);
    CHECK(strcmp(name, "mine") == 0 && length == 4, "%s", name);

    STORY("§10 info");
    MPI_Info info, twin;
    char value[64], key[MPI_MAX_INFO_KEY];
    MPI_Info_create(&info);
    MPI_Info_set(info, "first", "one");
    MPI_Info_set(info, "second", "two");
    MPI_Info_set(info, "first", "three");
    MPI_Info_get_nkeys(info, &count);
    CHECK_EQUAL(count, 2);
    MPI_Info_get_nthkey(info, 1, key);
    CHECK(strcmp(key, "second") == 0, "%s", key);
    MPI_Info_dup(info, &twin);
    MPI_Info_delete(info, "first");
    length = sizeof value;
    MPI_Info_get_string(twin, "first", &length, value, &flag);
    CHECK(flag && strcmp(value, "three") == 0 && length == 6, "%s %d", value, length);
    length = sizeof value;
    MPI_Info_get_string(info, "first", &length, value, &flag);
    CHECK(!flag, "deleted, but still there");
    length = 3; /* cut to the room there is, and its length told */
    MPI_Info_get_string(twin, "first", &length, value, &flag);
    CHECK(flag && strcmp(value, "th") == 0 && length == 6, "%s %d", value, length);
    MPI_Comm_set_info(comm, twin);
    MPI_Info_free(&info);
    CHECK(info == MPI_INFO_NULL, "not null after Info_free");
    MPI_Info_free(&twin);
    MPI_Comm_get_info(comm, &info);
    CHECK(info != MPI_INFO_NULL, "no info");
    MPI_Info_free(&info);
    MPI_Comm_free(&comm);
    MPI_Info_get_nkeys(MPI_INFO_ENV, &count);
    CHECK(count >= 0, "%d", count);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    duplicates();
    splits();
    groups();
    attributes();
    names_and_info();
    return end();
}
