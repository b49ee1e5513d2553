/* Intercommunicators and communicators made from groups (MPI-5.0 sections 7.4 and 7.6): runs on any MPI
 * library. */
#include "check.h"

/* The world in two: even and odd ranks. */
static MPI_Comm half;
static int is_odd, half_rank, half_size, other_size;

/* Every process sends to every process of the remote group, and receives from every one. */
static void check_inter(MPI_Comm inter, int expected_rank, int expected_size, int expected_remote)
{
    int found_rank, found_size, remote, flag = 0;
    MPI_Comm_test_inter(inter, &flag);
    CHECK(flag, "no intercommunicator");
    MPI_Comm_rank(inter, &found_rank);
    MPI_Comm_size(inter, &found_size);
    MPI_Comm_remote_size(inter, &remote);
    CHECK_EQUAL(found_rank, expected_rank);
    CHECK_EQUAL(found_size, expected_size);
    CHECK_EQUAL(remote, expected_remote);
    int *got = memory(remote * sizeof(int));
    MPI_Request *requests = memory(2 * remote * sizeof(MPI_Request));
    MPI_Status *statuses = memory(2 * remote * sizeof(MPI_Status));
    int out = 1000 * rank + found_rank;
    for (int other = 0; other < remote; other++) {
        MPI_Irecv(&got[other], 1, MPI_INT, other, 3, inter, &requests[other]);
        MPI_Isend(&out, 1, MPI_INT, other, 3, inter, &requests[remote + other]);
    }
    MPI_Waitall(2 * remote, requests, statuses);
    MPI_Group world, theirs;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Comm_remote_group(inter, &theirs);
    for (int other = 0; other < remote; other++) {
        int in_world = -1;
        MPI_Group_translate_ranks(theirs, 1, &other, world, &in_world);
        CHECK_EQUAL(got[other], 1000 * in_world + other);
        CHECK_EQUAL(statuses[other].MPI_SOURCE, other); /* 7.6: the source is the rank in the remote group */
    }
    MPI_Group_free(&theirs);
    MPI_Group_free(&world);
    free(statuses);
    free(requests);
    free(got);
}

static MPI_Comm bridge(int tag)
{
    MPI_Comm inter;
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, is_odd ? 0 : 1, tag, &inter);
    return inter;
}

static void creation(void)
{
    STORY("7.6.2 Intercomm_create");
    MPI_Comm inter = bridge(7), another = bridge(8), twin;
    check_inter(inter, half_rank, half_size, other_size);
    check_inter(another, half_rank, half_size, other_size);
    STORY("7.6.2 a leader that is not rank 0 of its group");
    MPI_Comm last;
    int in_evens = (ranks + 1) / 2, last_even = 2 * (in_evens - 1), last_odd = 2 * (ranks / 2) - 1;
    MPI_Intercomm_create(half, half_size - 1, MPI_COMM_WORLD, is_odd ? last_even : last_odd, 9, &last);
    check_inter(last, half_rank, half_size, other_size);
    STORY("7.6.2 another peer communicator");
    MPI_Comm over;
    MPI_Comm world;
    MPI_Comm_dup(MPI_COMM_WORLD, &world);
    MPI_Intercomm_create(half, 0, world, is_odd ? 0 : 1, 9, &over);
    check_inter(over, half_rank, half_size, other_size);
    MPI_Comm_free(&over);
    MPI_Comm_free(&world);
    STORY("7.4.1 and 7.6.1 Comm_compare");
    int result;
    MPI_Comm_compare(inter, inter, &result);
    CHECK_EQUAL(result, MPI_IDENT);
    MPI_Comm_compare(inter, another, &result);
    CHECK_EQUAL(result, MPI_CONGRUENT);
    MPI_Comm_compare(inter, half, &result);
    CHECK_EQUAL(result, MPI_UNEQUAL);
    STORY("7.6.1 the local group");
    MPI_Group local, of_half;
    MPI_Comm_group(inter, &local);
    MPI_Comm_group(half, &of_half);
    MPI_Group_compare(local, of_half, &result);
    CHECK_EQUAL(result, MPI_IDENT);
    MPI_Group_free(&local);
    MPI_Group_free(&of_half);
    STORY("7.4.2 Comm_dup of an intercommunicator");
    MPI_Comm_dup(inter, &twin);
    check_inter(twin, half_rank, half_size, other_size);
    MPI_Comm_compare(inter, twin, &result);
    CHECK_EQUAL(result, MPI_CONGRUENT);
    int flag, token = rank, got = -1;
    MPI_Status status;
    if (half_rank == 0) { /* a message on one is not received on the other */
        MPI_Send(&token, 1, MPI_INT, 0, 5, inter);
        MPI_Send(&token, 1, MPI_INT, 0, 6, twin);
        MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, twin, &status);
        CHECK_EQUAL(status.MPI_TAG, 6);
        MPI_Probe(0, MPI_ANY_TAG, inter, &status);
        CHECK_EQUAL(status.MPI_TAG, 5);
        MPI_Recv(&got, 1, MPI_INT, 0, 5, inter, MPI_STATUS_IGNORE);
        CHECK_EQUAL(got, is_odd ? 0 : 1);
    }
    MPI_Comm_free(&twin);
    CHECK(twin == MPI_COMM_NULL, "not null after Comm_free");
    STORY("7.4.2 Comm_idup and the forms with info");
    MPI_Request request[2];
    MPI_Comm one, two, three;
    MPI_Comm_idup(inter, &one, &request[0]);
    MPI_Comm_idup_with_info(inter, MPI_INFO_NULL, &two, &request[1]);
    MPI_Waitall(2, request, MPI_STATUSES_IGNORE);
    MPI_Comm_dup_with_info(inter, MPI_INFO_NULL, &three);
    check_inter(one, half_rank, half_size, other_size);
    check_inter(two, half_rank, half_size, other_size);
    check_inter(three, half_rank, half_size, other_size);
    MPI_Comm_free(&one);
    MPI_Comm_free(&two);
    MPI_Comm_disconnect(&three); /* 11.10.4 */
    CHECK(three == MPI_COMM_NULL, "not null after Comm_disconnect");
    STORY("7.6.1 Comm_test_inter of an intracommunicator");
    MPI_Comm_test_inter(half, &flag);
    CHECK_EQUAL(flag, 0);
    STORY("7.8 names, 7.7 attributes and 7.4.4 info of an intercommunicator");
    char name[MPI_MAX_OBJECT_NAME];
    int length, key, value = 5, *found;
    MPI_Comm_set_name(inter, "between");
    MPI_Comm_get_name(inter, name, &length);
    CHECK(!strcmp(name, "between"), "%s", name);
    MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &key, NULL);
    MPI_Comm_set_attr(inter, key, &value);
    MPI_Comm_dup(inter, &twin);
    MPI_Comm_get_attr(twin, key, &found, &flag);
    CHECK(flag && found == &value, "the attribute is not copied");
    MPI_Comm_free(&twin);
    MPI_Comm_free_keyval(&key);
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "mpi_assert_no_any_tag", "true");
    MPI_Comm_set_info(inter, info);
    MPI_Info_free(&info);
    MPI_Comm_get_info(inter, &info);
    CHECK(info != MPI_INFO_NULL, "no info");
    MPI_Info_free(&info);
    MPI_Comm_free(&last);
    MPI_Comm_free(&another);
    MPI_Comm_free(&inter);
}

static void check_order(MPI_Comm merged, int even_first)
{
    int found, size, evens = (ranks + 1) / 2;
    MPI_Comm_rank(merged, &found);
    MPI_Comm_size(merged, &size);
    CHECK_EQUAL(size, ranks);
    CHECK_EQUAL(found, half_rank + (is_odd == even_first ? (is_odd ? evens : ranks / 2) : 0));
    int total = 0, one = 1;
    MPI_Allreduce(&one, &total, 1, MPI_INT, MPI_SUM, merged);
    CHECK_EQUAL(total, ranks);
}

static void merging(void)
{
    STORY("7.6.2 Intercomm_merge");
    MPI_Comm inter = bridge(11), merged;
    int flag;
    MPI_Intercomm_merge(inter, is_odd, &merged);
    check_order(merged, 1);
    MPI_Comm_test_inter(merged, &flag);
    CHECK_EQUAL(flag, 0);
    MPI_Comm_free(&merged);
    MPI_Intercomm_merge(inter, !is_odd, &merged);
    check_order(merged, 0);
    MPI_Comm_free(&merged);
    STORY("7.6.2 Intercomm_merge where both groups say the same: any order, but the same for all");
    MPI_Intercomm_merge(inter, 1, &merged);
    int mine, evens_rank_0 = -1;
    MPI_Comm_rank(merged, &mine);
    MPI_Bcast((evens_rank_0 = mine, &evens_rank_0), 1, MPI_INT, 0, MPI_COMM_WORLD);
    check_order(merged, evens_rank_0 == 0);
    MPI_Comm_free(&merged);
    MPI_Comm_free(&inter);
}

static void parts(void)
{
    STORY("7.4.2 Comm_split of an intercommunicator");
    MPI_Comm inter = bridge(12), part;
    /* The first process of each group is in one part, all others are in the other part, in reverse. */
    MPI_Comm_split(inter, half_rank == 0, -half_rank, &part);
    if (half_rank == 0) {
        check_inter(part, 0, 1, 1);
        MPI_Comm_free(&part);
    } else if (other_size == 1) {
        CHECK(part == MPI_COMM_NULL, "the remote group would be empty"); /* 7.4.2 */
    } else {
        check_inter(part, half_size - 1 - half_rank, half_size - 1, other_size - 1);
        MPI_Comm_free(&part);
    }
    MPI_Comm_split(inter, is_odd ? 1 : MPI_UNDEFINED, 0, &part);
    CHECK(part == MPI_COMM_NULL, "one group is empty");

    STORY("7.4.2 Comm_create on an intercommunicator");
    MPI_Group mine, chosen;
    MPI_Comm_group(inter, &mine);
    int first[1] = {0};
    MPI_Group_incl(mine, 1, first, &chosen); /* the first of the evens, and all of the odds */
    MPI_Comm_create(inter, is_odd ? mine : chosen, &part);
    if (is_odd || half_rank == 0) {
        check_inter(part, half_rank, is_odd ? half_size : 1, is_odd ? 1 : other_size);
        MPI_Comm_free(&part);
    } else {
        CHECK(part == MPI_COMM_NULL, "not null outside the group");
    }
    MPI_Comm_create(inter, is_odd ? mine : MPI_GROUP_EMPTY, &part);
    CHECK(part == MPI_COMM_NULL, "one group is empty");
    MPI_Group_free(&chosen);
    MPI_Group_free(&mine);
    MPI_Comm_free(&inter);
}

static void collectives(void)
{
    MPI_Comm inter = bridge(14);
    STORY("6.3 Barrier");
    MPI_Request request;
    MPI_Barrier(inter);
    MPI_Ibarrier(inter, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    STORY("6.4 Bcast: from one process of a group to all of the other");
    for (int round = 0; round < 4; round++) {
        int from_odd = round % 2, last = from_odd ? ranks / 2 - 1 : (ranks + 1) / 2 - 1, got[500];
        int source = round < 2 || !left_out("ibcast-root") ? last : 0;
        int root = is_odd != from_odd ? source : half_rank == source ? MPI_ROOT : MPI_PROC_NULL;
        for (int i = 0; i < 500; i++)
            got[i] = root == MPI_ROOT ? 7 * i + round : -1;
        if (round < 2) {
            MPI_Bcast(got, 500, MPI_INT, root, inter);
        } else {
            MPI_Ibcast(got, 500, MPI_INT, root, inter, &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
        for (int i = 0; i < 500; i += 499)
            CHECK_EQUAL(got[i], root == MPI_PROC_NULL ? -1 : 7 * i + round);
    }
    STORY("6.9.6 Allreduce: each group gets the result of the other");
    int in[300], out[300], expected = 0;
    for (int other = !is_odd; other < ranks; other += 2)
        expected += other;
    for (int i = 0; i < 300; i++)
        in[i] = rank + i;
    MPI_Allreduce(in, out, 300, MPI_INT, MPI_SUM, inter);
    for (int i = 0; i < 300; i += 13)
        CHECK_EQUAL(out[i], expected + other_size * i);
    MPI_Iallreduce(in, out, 1, MPI_INT, MPI_SUM, inter, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK_EQUAL(out[0], expected);
    MPI_Comm_free(&inter);
}

static void from_groups(void)
{
    STORY("7.4.2 Comm_create_from_group");
    MPI_Group world, mine;
    MPI_Comm comm;
    int size, found;
    MPI_Comm_group(half, &mine);
    MPI_Comm_create_from_group(mine, "org.example/half", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
    MPI_Comm_size(comm, &size);
    MPI_Comm_rank(comm, &found);
    CHECK_EQUAL(size, half_size);
    CHECK_EQUAL(found, half_rank);
    int total = 0, one = 1;
    MPI_Allreduce(&one, &total, 1, MPI_INT, MPI_SUM, comm);
    CHECK_EQUAL(total, half_size);
    MPI_Comm_free(&comm);
    STORY("7.4.2 Comm_create_from_group of the empty group");
    comm = MPI_COMM_WORLD;
    MPI_Comm_create_from_group(MPI_GROUP_EMPTY, "empty", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm);
    CHECK(comm == MPI_COMM_NULL, "not null");
    STORY("7.4.2 many groups with one name at the same time");
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    for (int round = 0; round < 20; round++) {
        int pair[2] = {0, ranks - 1};
        MPI_Group two;
        MPI_Group_incl(world, ranks > 1 ? 2 : 1, round % 2 ? pair : (int[2]){ranks - 1, 0}, &two);
        MPI_Group_rank(two, &found);
        if (found != MPI_UNDEFINED) {
            MPI_Comm_create_from_group(two, "pair", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
            int mine_there;
            MPI_Comm_rank(comm, &mine_there);
            CHECK_EQUAL(mine_there, found);
            MPI_Barrier(comm);
            MPI_Comm_free(&comm);
        }
        MPI_Group_free(&two);
    }
    MPI_Group_free(&world);
    MPI_Group_free(&mine);
}

static void between_groups(void)
{
    STORY("7.6.2 Intercomm_create_from_groups");
    MPI_Group world, mine, theirs;
    MPI_Comm inter;
    MPI_Comm_group(half, &mine);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_difference(world, mine, &theirs);
    MPI_Intercomm_create_from_groups(mine, 0, theirs, 0, "org.example/between", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL,
                                     &inter);
    check_inter(inter, half_rank, half_size, other_size);
    MPI_Comm_free(&inter);
    MPI_Group_free(&theirs);
    MPI_Group_free(&world);
    MPI_Group_free(&mine);
}

static void errors_of_one(void)
{
    STORY("7.6.1 an intracommunicator has no remote group");
    MPI_Comm comm;
    MPI_Group group;
    int size;
    MPI_Comm_dup(half, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    CHECK_CLASS(MPI_Comm_remote_size(comm, &size), MPI_ERR_COMM);
    CHECK_CLASS(MPI_Comm_remote_group(comm, &group), MPI_ERR_COMM);
    MPI_Comm_free(&comm);
}

static void errors(void)
{
    MPI_Comm inter = bridge(13);
    int size = 0, value = 0;
    STORY("3.2.3 ranks are those of the remote group");
    MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN);
    CHECK_CLASS(MPI_Send(&value, 1, MPI_INT, other_size, 0, inter), MPI_ERR_RANK);
    CHECK_CLASS(MPI_Recv(&value, 1, MPI_INT, other_size, 0, inter, MPI_STATUS_IGNORE), MPI_ERR_RANK);
    CHECK_CLASS(MPI_Send(&value, 1, MPI_INT, 0, -7, inter), MPI_ERR_TAG);
    CHECK_EQUAL(MPI_Send(&value, 1, MPI_INT, MPI_PROC_NULL, 0, inter), MPI_SUCCESS);
    STORY("7.4.2 Comm_create_group is for intracommunicators");
    MPI_Comm none;
    MPI_Group mine;
    MPI_Comm_group(inter, &mine);
    CHECK_CLASS(MPI_Comm_create_group(inter, mine, 0, &none), MPI_ERR_COMM);
    MPI_Group_free(&mine);
    STORY("7.6.2 Intercomm_create wants an intracommunicator and a leader in it");
    CHECK_CLASS(MPI_Intercomm_create(inter, 0, MPI_COMM_WORLD, 0, 0, &none), MPI_ERR_COMM);
    MPI_Comm local;
    MPI_Comm_dup(half, &local);
    MPI_Comm_set_errhandler(local, MPI_ERRORS_RETURN);
    MPI_Comm_size(local, &size);
    CHECK_CLASS(MPI_Intercomm_create(local, size, MPI_COMM_WORLD, 0, 0, &none), MPI_ERR_RANK);
    CHECK_CLASS(MPI_Intercomm_merge(local, 0, &none), MPI_ERR_COMM);
    MPI_Comm_free(&local);
    MPI_Comm_free(&inter);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    is_odd = rank % 2;
    MPI_Comm_split(MPI_COMM_WORLD, is_odd, rank, &half);
    MPI_Comm_rank(half, &half_rank);
    MPI_Comm_size(half, &half_size);
    other_size = ranks - half_size;
    from_groups();
    if (!left_out("errors"))
        errors_of_one();
    if (ranks > 1) {
        creation();
        merging();
        parts();
        between_groups();
        collectives();
        if (!left_out("errors"))
            errors();
    }
    MPI_Comm_free(&half);
    return end();
}
