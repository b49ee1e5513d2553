/* Programs that survive the death of their processes, with mpi-ext.h. Runs with `mpiexec --on-failure
 * continue`, as `recovery STORY`. Some ranks kill themselves; the others check what they learn of it, and how
 * they go on. Each survivor counts its wrong checks in its exit code; the lowest one says how many are
 * left. */
#include "each_collective.h"
#include <linux/if_packet.h>
#include <mpi-ext.h>
#include <sys/socket.h>

enum { ITEMS = 3000, LARGE = 1 << 20, TURNS = 20 };

static int small[ITEMS * 16], small_too[ITEMS * 16];
static char large[LARGE];

static void die(void)
{
    raise(SIGKILL);
}

static MPI_Comm duplicate(MPI_Comm comm)
{
    MPI_Comm copy;
    MPI_Comm_dup(comm, &copy);
    MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN);
    return copy;
}

/* Waits until this process knows of `count` failures in the communicator. */
static void await_failures(MPI_Comm comm, int count)
{
    for (int failed = 0; failed < count;) {
        MPI_Group group;
        CHECK_EQUAL(MPIX_Comm_get_failed(comm, &group), MPI_SUCCESS);
        MPI_Group_size(group, &failed);
        MPI_Group_free(&group);
        usleep(100);
    }
}

/* Makes a communicator of the survivors, checks that it works, and returns it. */
static MPI_Comm survivors(MPI_Comm comm, int expected)
{
    MPI_Comm left;
    CHECK_EQUAL(MPIX_Comm_shrink(comm, &left), MPI_SUCCESS);
    MPI_Comm_set_errhandler(left, MPI_ERRORS_RETURN);
    int size, own, sum = -1, one = 1;
    MPI_Comm_size(left, &size);
    MPI_Comm_rank(left, &own);
    CHECK_EQUAL(size, expected);
    CHECK_EQUAL(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, left), MPI_SUCCESS);
    CHECK_EQUAL(sum, expected);
    int from = -1, next = (own + 1) % size, before = (own + size - 1) % size;
    CHECK_EQUAL(MPI_Sendrecv(&own, 1, MPI_INT, next, 0, &from, 1, MPI_INT, before, 0, left, MPI_STATUS_IGNORE),
                MPI_SUCCESS);
    CHECK_EQUAL(from, before);
    return left;
}

/* The last rank dies; each way to wait for it by name ends with an error, however often. */
static void named(void)
{
    STORY("operations with a named process that has failed");
    MPI_Comm comm = duplicate(MPI_COMM_WORLD);
    int victim = ranks - 1, value = 0;
    MPI_Request before[2];
    MPI_Irecv(&value, 1, MPI_INT, victim, 1, comm, &before[0]);
    MPI_Issend(&value, 1, MPI_INT, victim, 2, comm, &before[1]);
    MPI_Barrier(comm);
    if (rank == victim)
        die();
    CHECK_CLASS(MPI_Recv(&value, 1, MPI_INT, victim, 3, comm, MPI_STATUS_IGNORE), MPIX_ERR_PROC_FAILED);
    CHECK_CLASS(MPI_Wait(&before[0], MPI_STATUS_IGNORE), MPIX_ERR_PROC_FAILED);
    CHECK_CLASS(MPI_Wait(&before[1], MPI_STATUS_IGNORE), MPIX_ERR_PROC_FAILED);
    for (int turn = 0; turn < TURNS; turn++) {
        int flag;
        MPI_Request request;
        CHECK_CLASS(MPI_Send(&value, 1, MPI_INT, victim, 0, comm), MPIX_ERR_PROC_FAILED);
        CHECK_CLASS(MPI_Send(large, LARGE, MPI_CHAR, victim, 0, comm), MPIX_ERR_PROC_FAILED);
        CHECK_CLASS(MPI_Ssend(&value, 1, MPI_INT, victim, 0, comm), MPIX_ERR_PROC_FAILED);
        CHECK_CLASS(MPI_Recv(large, LARGE, MPI_CHAR, victim, 0, comm, MPI_STATUS_IGNORE), MPIX_ERR_PROC_FAILED);
        CHECK_CLASS(MPI_Probe(victim, 0, comm, MPI_STATUS_IGNORE), MPIX_ERR_PROC_FAILED);
        CHECK_CLASS(MPI_Iprobe(victim, 0, comm, &flag, MPI_STATUS_IGNORE), MPIX_ERR_PROC_FAILED);
        CHECK_EQUAL(MPI_Irecv(&value, 1, MPI_INT, victim, 0, comm, &request), MPI_SUCCESS);
        CHECK_CLASS(MPI_Wait(&request, MPI_STATUS_IGNORE), MPIX_ERR_PROC_FAILED);
    }
    /* The others still reach each other. */
    int next = (rank + 1) % victim, last = (rank + victim - 1) % victim, got = -1;
    CHECK_EQUAL(MPI_Sendrecv(&rank, 1, MPI_INT, next, 4, &got, 1, MPI_INT, last, 4, comm, MPI_STATUS_IGNORE),
                MPI_SUCCESS);
    CHECK_EQUAL(got, last);
    MPI_Comm left = survivors(comm, ranks - 1);
    MPI_Comm_free(&left);
    MPI_Comm_free(&comm);
}

/* Receives from any source warn of failures until these are acknowledged, and then go on. */
static void anybody(void)
{
    STORY("receives from any source");
    MPI_Comm comm = duplicate(MPI_COMM_WORLD);
    int victim = ranks - 1, value = -1, flag = -1, other = -1, count;
    MPI_Request request;
    MPI_Group failed, acknowledged;
    if (rank == 0)
        CHECK_EQUAL(MPI_Irecv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 7, comm, &request), MPI_SUCCESS);
    MPI_Barrier(comm);
    if (rank == victim)
        die();
    await_failures(comm, 1);
    if (rank == 0) {
        CHECK_CLASS(MPI_Wait(&request, MPI_STATUS_IGNORE), MPIX_ERR_PROC_FAILED_PENDING);
        CHECK(request != MPI_REQUEST_NULL, "the request is gone");
        CHECK_CLASS(MPI_Test(&request, &flag, MPI_STATUS_IGNORE), MPIX_ERR_PROC_FAILED_PENDING);
        CHECK_CLASS(MPI_Recv(&other, 1, MPI_INT, MPI_ANY_SOURCE, 8, comm, MPI_STATUS_IGNORE), MPIX_ERR_PROC_FAILED);
        CHECK_CLASS(MPI_Probe(MPI_ANY_SOURCE, 8, comm, MPI_STATUS_IGNORE), MPIX_ERR_PROC_FAILED);
        MPI_Comm_group(comm, &failed);
        MPI_Group_free(&failed);
        MPIX_Comm_failure_get_acked(comm, &acknowledged);
        MPI_Group_size(acknowledged, &count);
        CHECK_EQUAL(count, 0);
        MPI_Group_free(&acknowledged);
        MPIX_Comm_get_failed(comm, &failed);
        int one = 0, in_world = -1;
        MPI_Group world;
        MPI_Comm_group(MPI_COMM_WORLD, &world);
        MPI_Group_translate_ranks(failed, 1, &one, world, &in_world);
        CHECK_EQUAL(in_world, victim);
        MPI_Group_free(&failed);
        MPI_Group_free(&world);
        CHECK_EQUAL(MPIX_Comm_ack_failed(comm, 0, &count), MPI_SUCCESS);
        CHECK_EQUAL(count, 0);
        CHECK_EQUAL(MPIX_Comm_failure_ack(comm), MPI_SUCCESS);
        CHECK_EQUAL(MPIX_Comm_ack_failed(comm, 0, &count), MPI_SUCCESS);
        CHECK_EQUAL(count, 1);
        CHECK_EQUAL(MPI_Test(&request, &flag, MPI_STATUS_IGNORE), MPI_SUCCESS);
        CHECK_EQUAL(flag, 0);
        /* The message comes to the receive that was posted before the failure. */
        MPI_Send(&rank, 1, MPI_INT, 1, 9, comm);
        CHECK_EQUAL(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_SUCCESS);
        CHECK_EQUAL(value, 1);
        CHECK_EQUAL(MPI_Recv(&other, 1, MPI_INT, MPI_ANY_SOURCE, 8, comm, MPI_STATUS_IGNORE), MPI_SUCCESS);
        CHECK_EQUAL(other, 1);
    } else if (rank == 1) {
        MPI_Recv(&value, 1, MPI_INT, 0, 9, comm, MPI_STATUS_IGNORE);
        MPI_Send(&rank, 1, MPI_INT, 0, 7, comm);
        MPI_Send(&rank, 1, MPI_INT, 0, 8, comm);
    }
    MPI_Comm left = survivors(comm, ranks - 1);
    MPI_Comm_free(&left);
    MPI_Comm_free(&comm);
}

/* A process is lost in the middle of each collective; afterwards the survivors go on without it. */
static void collective(enum collective which, int form)
{
    static char name[100];
    snprintf(name, sizeof name, "%s %s without a process", forms[form], collectives[which]);
    STORY(name);
    MPI_Comm comm = own_communicator(MPI_COMM_WORLD);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    for (int turn = 0; turn < 4; turn++) {
        if (turn == 1 && rank == 1)
            die();
        /* Others may be in the first turn still when a quick one has revoked the communicator. */
        int class_, code = do_collective(which, form, small, small_too, turn == 2 ? 1 : ITEMS, comm);
        MPI_Error_class(code, &class_);
        CHECK(class_ == MPI_SUCCESS || class_ == MPIX_ERR_PROC_FAILED || class_ == MPIX_ERR_REVOKED,
              "class %d", class_);
        if (class_ != MPI_SUCCESS)
            MPIX_Comm_revoke(comm);
    }
    MPI_Comm left = survivors(comm, ranks - 1);
    CHECK_EQUAL(do_collective(ALLREDUCE, BLOCKING, small, small_too, ITEMS, left), MPI_SUCCESS);
    MPI_Comm_free(&left);
}

static void each_collective(const char *first, const char *second)
{
    for (int which = 0; which < COLLECTIVES; which++)
        for (int form = 0; form < FORMS; form++)
            if (!strcmp(collectives[which], first) && !strcmp(forms[form], second))
                collective(which, form);
}

/* Ranks wait in many ways for processes that live; a revocation ends all waits. */
static void revoked(void)
{
    STORY("a revocation ends everything that waits");
    MPI_Comm comm = duplicate(MPI_COMM_WORLD);
    int value = 0, flag = -1, next = (rank + 1) % ranks;
    MPI_Request many[3];
    CHECK_EQUAL(MPIX_Comm_is_revoked(comm, &flag), MPI_SUCCESS);
    CHECK_EQUAL(flag, 0);
    MPI_Irecv(&value, 1, MPI_INT, next, 100, comm, &many[0]);
    MPI_Irecv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 101, comm, &many[1]);
    MPI_Issend(&value, 1, MPI_INT, next, 102, comm, &many[2]);
    MPI_Barrier(comm);
    if (rank == ranks - 1) {
        usleep(20000);
        CHECK_EQUAL(MPIX_Comm_revoke(comm), MPI_SUCCESS);
    } else {
        switch (rank % 5) {
        case 0: CHECK_CLASS(MPI_Recv(&value, 1, MPI_INT, next, 0, comm, MPI_STATUS_IGNORE), MPIX_ERR_REVOKED); break;
        case 1: CHECK_CLASS(MPI_Barrier(comm), MPIX_ERR_REVOKED); break;
        case 2: CHECK_CLASS(MPI_Probe(MPI_ANY_SOURCE, 0, comm, MPI_STATUS_IGNORE), MPIX_ERR_REVOKED); break;
        case 3: CHECK_CLASS(MPI_Ssend(large, LARGE, MPI_CHAR, next, 0, comm), MPIX_ERR_REVOKED); break;
        default: CHECK_CLASS(MPI_Bcast(large, LARGE, MPI_CHAR, ranks - 1, comm), MPIX_ERR_REVOKED); break;
        }
    }
    for (int at = 0; at < 3; at++)
        CHECK_CLASS(MPI_Wait(&many[at], MPI_STATUS_IGNORE), MPIX_ERR_REVOKED);
    CHECK_EQUAL(MPIX_Comm_is_revoked(comm, &flag), MPI_SUCCESS);
    CHECK_EQUAL(flag, 1);
    CHECK_CLASS(MPI_Send(&value, 1, MPI_INT, next, 0, comm), MPIX_ERR_REVOKED);
    CHECK_CLASS(MPI_Send(&value, 1, MPI_INT, MPI_PROC_NULL, 0, comm), MPIX_ERR_REVOKED);
    CHECK_CLASS(MPI_Recv(&value, 1, MPI_INT, MPI_PROC_NULL, 0, comm, MPI_STATUS_IGNORE), MPIX_ERR_REVOKED);
    CHECK_CLASS(MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 0, comm, MPI_STATUS_IGNORE), MPIX_ERR_REVOKED);
    CHECK_CLASS(MPI_Ibarrier(comm, &many[0]), MPIX_ERR_REVOKED);
    MPI_Comm other;
    CHECK_CLASS(MPI_Comm_dup(comm, &other), MPIX_ERR_REVOKED);
    CHECK_EQUAL(MPIX_Comm_revoke(comm), MPI_SUCCESS);
    int size;
    CHECK_EQUAL(MPI_Comm_size(comm, &size), MPI_SUCCESS);
    CHECK_EQUAL(size, ranks);
    flag = ~(1 << (rank % 31));
    CHECK_EQUAL(MPIX_Comm_agree(comm, &flag), MPI_SUCCESS);
    MPI_Comm left = survivors(comm, ranks);
    MPI_Comm_free(&left);
    MPI_Comm_free(&comm);
}

/* Agreements have one result, and one error as long as a failure is not acknowledged everywhere. */
static void agreements(void)
{
    STORY("agreements without failures");
    MPI_Comm comm = duplicate(MPI_COMM_WORLD);
    for (int turn = 0; turn < TURNS; turn++) {
        int flag = ~(1 << rank % 31), all = -1;
        for (int other = 0; other < ranks; other++)
            all &= ~(1 << other % 31);
        CHECK_EQUAL(MPIX_Comm_agree(comm, &flag), MPI_SUCCESS);
        CHECK_EQUAL(flag, all);
        int flags[2] = {turn + rank, -1};
        MPI_Request requests[2];
        CHECK_EQUAL(MPIX_Comm_iagree(comm, &flags[0], &requests[0]), MPI_SUCCESS);
        CHECK_EQUAL(MPIX_Comm_iagree(comm, &flags[1], &requests[1]), MPI_SUCCESS);
        CHECK_EQUAL(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE), MPI_SUCCESS);
        CHECK_EQUAL(flags[1], -1);
    }
    STORY("agreements with failures");
    int victims = ranks / 3 + 1;
    if (rank >= ranks - victims || (ranks > 4 && rank == 0)) {
        usleep(3000 * (rank % 3));
        die();
    }
    int left_over = ranks - victims - (ranks > 4);
    int flag = 7, count, agreed;
    agreed = MPIX_Comm_agree(comm, &flag);
    /* Who agrees before all have died, agrees again. */
    for (;;) {
        int done;
        await_failures(comm, 1);
        MPIX_Comm_failure_ack(comm);
        MPIX_Comm_ack_failed(comm, 0, &done);
        done = done == ranks - left_over;
        agreed = MPIX_Comm_agree(comm, &done);
        if (agreed == MPI_SUCCESS && done)
            break;
        CHECK(agreed == MPI_SUCCESS || (MPI_Error_class(agreed, &count), count == MPIX_ERR_PROC_FAILED), "%d", agreed);
    }
    flag = rank;
    CHECK_EQUAL(MPIX_Comm_agree(comm, &flag), MPI_SUCCESS);
    MPI_Comm left = survivors(comm, left_over);
    MPI_Comm_free(&left);
    MPI_Comm_free(&comm);
}

/* One process after the other dies in the middle of an agreement or a shrinking, until two are left. */
static void one_by_one(void)
{
    STORY("one process after the other");
    MPI_Comm comm = duplicate(MPI_COMM_WORLD);
    for (int size = ranks, turn = 0; size > 2; size--, turn++) {
        int own, flag = 1;
        MPI_Comm next;
        MPI_Request request;
        MPI_Comm_rank(comm, &own);
        /* The coordinator dies as often as any other. */
        int victim = turn % 2 ? 0 : size - 1;
        if (own == victim) {
            if (turn % 3 == 0)
                die();
            if (turn % 3 == 1)
                MPIX_Comm_ishrink(comm, &next, &request);
            else
                MPIX_Comm_iagree(comm, &flag, &request);
            int over;
            for (int look = 0; look < turn * 2; look++)
                MPI_Test(&request, &over, MPI_STATUS_IGNORE);
            die();
        }
        if (turn % 3 == 2)
            MPIX_Comm_agree(comm, &flag);
        /* A shrinking that was decided before the death keeps the dead process: shrink once more. */
        MPI_Comm left = comm;
        for (int left_size = size; left_size == size;) {
            CHECK_EQUAL(MPIX_Comm_shrink(left, &next), MPI_SUCCESS);
            MPI_Comm_set_errhandler(next, MPI_ERRORS_RETURN);
            if (left != comm)
                MPI_Comm_free(&left);
            left = next;
            MPI_Comm_size(left, &left_size);
        }
        MPI_Comm_free(&comm);
        comm = left;
        int one = 1, sum = -1;
        CHECK_EQUAL(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm), MPI_SUCCESS);
        CHECK_EQUAL(sum, size - 1);
    }
    MPI_Comm_free(&comm);
}

/* A process dies in each synchronization of windows; then the window is revoked and freed. */
static void windows(void)
{
    STORY("windows");
    MPI_Comm comm = duplicate(MPI_COMM_WORLD);
    int *memory, flag = -1, class_, victim = ranks - 1;
    MPI_Win win, other;
    MPI_Win_allocate(ITEMS * sizeof(int), sizeof(int), MPI_INFO_NULL, comm, &memory, &win);
    MPI_Win_create(small, sizeof small, sizeof(int), MPI_INFO_NULL, comm, &other);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    MPI_Win_set_errhandler(other, MPI_ERRORS_RETURN);
    CHECK_EQUAL(MPIX_Win_is_revoked(win, &flag), MPI_SUCCESS);
    CHECK_EQUAL(flag, 0);
    MPI_Win_fence(0, win);
    if (rank == victim) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, other);
        MPI_Put(&rank, 1, MPI_INT, 0, 0, 1, MPI_INT, other);
        MPI_Win_flush(0, other);
        MPI_Barrier(comm);
        die();
    }
    MPI_Barrier(comm);
    await_failures(comm, 1);
    /* The lock of the dead process is free again. */
    CHECK_EQUAL(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, other), MPI_SUCCESS);
    CHECK_EQUAL(MPI_Win_unlock(0, other), MPI_SUCCESS);
    int code = MPI_Win_fence(0, win);
    MPI_Error_class(code, &class_);
    CHECK(class_ == MPIX_ERR_PROC_FAILED || class_ == MPIX_ERR_REVOKED, "class %d", class_);
    CHECK_CLASS(MPI_Win_lock(MPI_LOCK_SHARED, victim, 0, other), MPIX_ERR_PROC_FAILED);
    CHECK_EQUAL(MPIX_Win_revoke(win), MPI_SUCCESS);
    CHECK_EQUAL(MPIX_Win_is_revoked(win, &flag), MPI_SUCCESS);
    CHECK_EQUAL(flag, 1);
    CHECK_CLASS(MPI_Win_fence(0, win), MPIX_ERR_REVOKED);
    CHECK_CLASS(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win), MPIX_ERR_REVOKED);
    CHECK_CLASS(MPI_Win_lock_all(0, win), MPIX_ERR_REVOKED);
    /* No process revokes the other window before all have come here. */
    flag = 1;
    MPIX_Comm_failure_ack(comm);
    CHECK_EQUAL(MPIX_Comm_agree(comm, &flag), MPI_SUCCESS);
    STORY("a wait in a window ends with its revocation");
    MPI_Group all, first;
    int zero = 0;
    MPI_Comm_group(comm, &all);
    MPI_Group_incl(all, 1, &zero, &first);
    if (rank == 0) {
        usleep(20000);
        CHECK_EQUAL(MPIX_Win_revoke(other), MPI_SUCCESS);
    } else {
        CHECK_CLASS(MPI_Win_start(first, 0, other), MPIX_ERR_REVOKED);
    }
    MPI_Group_free(&all);
    MPI_Group_free(&first);
    CHECK_EQUAL(MPI_Win_free(&win), MPI_SUCCESS);
    CHECK_EQUAL(MPI_Win_free(&other), MPI_SUCCESS);
    MPI_Comm left = survivors(comm, ranks - 1);
    MPI_Comm_free(&left);
    MPI_Comm_free(&comm);
}

/* Many processes die at once, the lowest ranks among them; the survivors shrink the world itself. */
static void many(void)
{
    STORY("many processes at once");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank % 2 == 0)
        die();
    int code = MPI_Barrier(MPI_COMM_WORLD);
    CHECK(code != MPI_SUCCESS, "the barrier of the dead");
    MPIX_Comm_revoke(MPI_COMM_WORLD);
    MPI_Comm comm = MPI_COMM_WORLD, left;
    for (int size = ranks; size != ranks / 2; comm = left) {
        CHECK_EQUAL(MPIX_Comm_shrink(comm, &left), MPI_SUCCESS);
        MPI_Comm_set_errhandler(left, MPI_ERRORS_RETURN);
        MPI_Comm_size(left, &size);
    }
    int one = 1, sum = -1;
    CHECK_EQUAL(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm), MPI_SUCCESS);
    CHECK_EQUAL(sum, ranks / 2);
}

/* The agent of the second host dies, and its ranks with it. */
static void host(void)
{
    STORY("a host is lost");
    MPI_Comm comm = duplicate(MPI_COMM_WORLD), left = comm, next;
    int first = ranks / 2, value, size = ranks;
    MPI_Barrier(comm);
    if (rank == first)
        kill(getppid(), SIGKILL);
    if (rank >= first)
        for (;;)
            pause();
    CHECK_CLASS(MPI_Recv(&value, 1, MPI_INT, first, 0, comm, MPI_STATUS_IGNORE), MPIX_ERR_PROC_FAILED);
    for (; size > first; left = next) {
        CHECK_EQUAL(MPIX_Comm_shrink(left, &next), MPI_SUCCESS);
        MPI_Comm_set_errhandler(next, MPI_ERRORS_RETURN);
        MPI_Comm_size(next, &size);
    }
    next = survivors(left, first);
    MPI_Comm_free(&next);
}

/* The state of a process of this machine as the system shows it; 'Z' when all its files have been closed. */
static char state_of(int pid)
{
    char path[64], text[512] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "r");
    if (!file)
        return 'X';
    size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[length] = 0;
    const char *name_end = strrchr(text, ')');
    return name_end && name_end[1] ? name_end[2] : 'X';
}

/* The last rank dies with a socket for raw frames, which the system needs long to close. Says whether a rank
 * has heard of it before. */
static void slow_end(void)
{
    STORY("news of a death while the system still closes sockets");
    MPI_Comm comm = duplicate(MPI_COMM_WORLD);
    int victim = ranks - 1, value, pid = getpid(), heard_before, any = 0;
    struct tpacket_req ring = {.tp_block_size = 65536, .tp_block_nr = 4, .tp_frame_size = 2048, .tp_frame_nr = 128};
    int one = rank == victim ? socket(AF_PACKET, SOCK_RAW, 0) : 0, allowed;
    if (rank == victim)
        setsockopt(one, SOL_PACKET, PACKET_RX_RING, &ring, sizeof ring);
    MPI_Allreduce(&one, &allowed, 1, MPI_INT, MPI_MIN, comm);
    MPI_Bcast(&pid, 1, MPI_INT, victim, comm);
    MPI_Barrier(comm);
    if (rank == victim)
        die();
    CHECK_CLASS(MPI_Recv(&value, 1, MPI_INT, victim, 0, comm, MPI_STATUS_IGNORE), MPIX_ERR_PROC_FAILED);
    char state = state_of(pid);
    heard_before = state != 'Z' && state != 'X';
    MPI_Comm left = survivors(comm, ranks - 1);
    MPI_Allreduce(&heard_before, &any, 1, MPI_INT, MPI_MAX, left);
    if (rank == 0)
        printf("%s\n", allowed < 0 ? "no sockets for raw frames" : any ? "heard before" : "heard afterwards");
    MPI_Comm_free(&left);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    const char *which = argc > 1 ? argv[1] : "named";
    if (!strcmp(which, "named"))
        named();
    else if (!strcmp(which, "anybody"))
        anybody();
    else if (!strcmp(which, "collective") && argc > 3)
        each_collective(argv[2], argv[3]);
    else if (!strcmp(which, "revoked"))
        revoked();
    else if (!strcmp(which, "agreements"))
        agreements();
    else if (!strcmp(which, "one-by-one"))
        one_by_one();
    else if (!strcmp(which, "windows"))
        windows();
    else if (!strcmp(which, "many"))
        many();
    else if (!strcmp(which, "host"))
        host();
    else if (!strcmp(which, "slow-end"))
        slow_end();
    else
        return 2;
    printf("rank %d goes on\n", rank);
    return end();
}
