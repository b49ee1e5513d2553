/* Communicators that are created at the same time: the messages of each stay apart from those of all others.
 */
#include "communicator_works.h"

#include <pthread.h>

enum { PENDING = 6, THREADS = 4, ROUNDS = 40 };

/* Messages on several communicators at once, all with the same tag: a message on a wrong communicator would
 * show. */
static void check_apart(MPI_Comm *comms, int count)
{
    int in[PENDING], out[PENDING];
    MPI_Request requests[2 * PENDING];
    for (int i = 0; i < count; i++) {
        out[i] = 100 * rank + i;
        MPI_Irecv(&in[i], 1, MPI_INT, (rank + ranks - 1) % ranks, 3, comms[i], &requests[i]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = count - 1; i >= 0; i--)
        MPI_Isend(&out[i], 1, MPI_INT, (rank + 1) % ranks, 3, comms[i], &requests[count + i]);
    MPI_Waitall(2 * count, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < count; i++)
        CHECK_EQUAL(in[i], 100 * ((rank + ranks - 1) % ranks) + i);
}

static void pending_duplicates(void)
{
    STORY("§7.4.2 several duplicates of one communicator are pending");
    MPI_Comm comms[PENDING];
    MPI_Request requests[PENDING];
    for (int i = 0; i < PENDING; i++)
        MPI_Comm_idup(MPI_COMM_WORLD, &comms[i], &requests[i]);
    for (int i = PENDING - 1; i >= 0; i--)
        MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
    check_apart(comms, PENDING);
    for (int i = 0; i < PENDING; i++) {
        check_works(comms[i], i);
        MPI_Comm_free(&comms[i]);
    }
}

static void opposite_orders(void)
{
    STORY("§7.4.2 duplicates of two communicators are started in opposite orders");
    MPI_Comm parents[2], comms[4];
    MPI_Request requests[4];
    MPI_Comm_dup(MPI_COMM_WORLD, &parents[0]);
    MPI_Comm_dup(MPI_COMM_WORLD, &parents[1]);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < 4; i++) {
            int which = rank % 2 ? 3 - i : i;
            /* Two communicators of each parent; those of one parent keep their order. */
            int child = (which / 2) * 2 + i % 2;
            MPI_Comm_idup(parents[which / 2], &comms[child], &requests[child]);
        }
        MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
        check_apart(comms, 4);
        for (int i = 0; i < 4; i++)
            MPI_Comm_free(&comms[i]);
    }
    STORY("§7.4.2 a duplicate is pending while others are made");
    for (int round = 0; round < ROUNDS; round++) {
        if (rank % 2)
            MPI_Comm_dup(parents[1], &comms[1]);
        MPI_Comm_idup(parents[0], &comms[0], &requests[0]);
        if (rank % 2 == 0)
            MPI_Comm_dup(parents[1], &comms[1]);
        MPI_Comm_split(parents[1], 0, rank, &comms[2]);
        MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
        check_apart(comms, 3);
        for (int i = 0; i < 3; i++)
            MPI_Comm_free(&comms[i]);
    }
    MPI_Comm_free(&parents[0]);
    MPI_Comm_free(&parents[1]);
}

static int copies;

static int count_copies(MPI_Comm comm, int keyval, void *extra, void *value, void *result, int *flag)
{
    (void)comm, (void)keyval, (void)extra;
    *(void **)result = value;
    *flag = 1;
    copies++;
    return MPI_SUCCESS;
}

static void what_is_copied(void)
{
    STORY("§7.4.2, §7.7.2 attributes and hints of a pending duplicate");
    int keyval, value = 5, *found = NULL, flag = 0;
    char text[20] = "";
    MPI_Comm parent, comm;
    MPI_Request request;
    MPI_Info info;
    MPI_Comm_dup(MPI_COMM_WORLD, &parent);
    MPI_Comm_create_keyval(count_copies, MPI_COMM_NULL_DELETE_FN, &keyval, NULL);
    MPI_Comm_set_attr(parent, keyval, &value);
    MPI_Info_create(&info);
    MPI_Info_set(info, "mpi_assert_no_any_tag", "true");
    MPI_Comm_idup_with_info(parent, info, &comm, &request);
    /* The copy has the attributes of the time of the call. */
    MPI_Comm_delete_attr(parent, keyval);
    MPI_Info_free(&info);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK_EQUAL(copies, 1);
    MPI_Comm_get_attr(comm, keyval, &found, &flag);
    CHECK(flag && found == &value, "flag %d, value %p", flag, (void *)found);
    MPI_Comm_get_info(comm, &info);
    int length = sizeof text;
    MPI_Info_get_string(info, "mpi_assert_no_any_tag", &length, text, &flag);
    CHECK(flag && strcmp(text, "true") == 0, "flag %d, text %s", flag, text);
    MPI_Info_free(&info);
    MPI_Comm_free_keyval(&keyval);
    MPI_Comm_free(&comm);
    MPI_Comm_free(&parent);
}

static MPI_Comm parents[THREADS];

/* Each thread creates communicators from its own: the order among threads differs from rank to rank. */
static void *creations(void *argument)
{
    int id = (int)(intptr_t)argument;
    MPI_Comm kept[PENDING];
    for (int i = 0; i < ROUNDS; i++) {
        MPI_Comm comm = MPI_COMM_NULL;
        MPI_Group group, part;
        MPI_Request request;
        switch ((i + id) % 4) {
        case 0:
            MPI_Comm_dup(parents[id], &comm);
            break;
        case 1:
            MPI_Comm_split(parents[id], rank % 2, -rank, &comm);
            break;
        case 2:
            MPI_Comm_idup(parents[id], &comm, &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            break;
        default:
            /* All threads create from one parent, told apart by the tag; the last rank stays outside. */
            MPI_Comm_group(MPI_COMM_WORLD, &group);
            MPI_Group_excl(group, ranks > 1, (int[]){ranks - 1}, &part);
            MPI_Comm_create_group(MPI_COMM_WORLD, part, id, &comm);
            MPI_Group_free(&group);
            MPI_Group_free(&part);
        }
        if (comm != MPI_COMM_NULL)
            check_works(comm, id * 1000 + i);
        if (i >= PENDING && kept[i % PENDING] != MPI_COMM_NULL)
            MPI_Comm_free(&kept[i % PENDING]);
        kept[i % PENDING] = comm;
    }
    for (int i = 0; i < PENDING; i++)
        if (kept[i] != MPI_COMM_NULL) {
            check_works(kept[i], id * 1000 + ROUNDS + i);
            MPI_Comm_free(&kept[i]);
        }
    return NULL;
}

static void threads(void)
{
    STORY("§7.4.2, §11.6 threads create communicators at the same time");
    pthread_t thread[THREADS];
    for (int id = 0; id < THREADS; id++)
        MPI_Comm_dup(MPI_COMM_WORLD, &parents[id]);
    for (int id = 0; id < THREADS; id++)
        pthread_create(&thread[id], NULL, creations, (void *)(intptr_t)id);
    for (int id = 0; id < THREADS; id++)
        pthread_join(thread[id], NULL);
    for (int id = 0; id < THREADS; id++)
        MPI_Comm_free(&parents[id]);
}

int main(int argc, char **argv)
{
    CHECK_EQUAL(begin_threads(&argc, &argv), MPI_THREAD_MULTIPLE);
    pending_duplicates();
    opposite_orders();
    what_is_copied();
    threads();
    return end();
}
