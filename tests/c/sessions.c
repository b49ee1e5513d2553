/* Sessions, process sets, and the objects that come from them (MPI-5.0 sections 3.6, 7.4.2, 9.3.4 and 11.3):
 * runs on any MPI library. */
#include "check.h"

static MPI_Session opened(const char *level)
{
    MPI_Info info = MPI_INFO_NULL;
    if (level) {
        MPI_Info_create(&info); /* 10: before any initialisation, too */
        MPI_Info_set(info, "thread_level", level);
    }
    MPI_Session session = MPI_SESSION_NULL;
    int code = MPI_Session_init(info, MPI_ERRORS_ARE_FATAL, &session);
    CHECK(code == MPI_SUCCESS && session != MPI_SESSION_NULL, "no session: %d", code);
    if (level)
        MPI_Info_free(&info);
    return session;
}

static MPI_Comm made(MPI_Session session, const char *set, const char *tag)
{
    MPI_Group group;
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Group_from_session_pset(session, set, &group);
    MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
    MPI_Group_free(&group);
    return comm;
}

static void check_comm(MPI_Comm comm, int expected_size)
{
    int mine, size, total = 0, one = 1, got = -1;
    MPI_Comm_rank(comm, &mine);
    MPI_Comm_size(comm, &size);
    CHECK_EQUAL(size, expected_size);
    MPI_Allreduce(&one, &total, 1, MPI_INT, MPI_SUM, comm);
    CHECK_EQUAL(total, size);
    MPI_Sendrecv(&mine, 1, MPI_INT, (mine + 1) % size, 0, &got, 1, MPI_INT, (mine + size - 1) % size, 0, comm,
                 MPI_STATUS_IGNORE);
    CHECK_EQUAL(got, (mine + size - 1) % size);
}

static void process_sets(MPI_Session session)
{
    STORY("11.3.2 process sets");
    int count = 0, has_world = 0, has_self = 0;
    MPI_Session_get_num_psets(session, MPI_INFO_NULL, &count);
    CHECK(count >= 2, "%d sets", count);
    for (int n = 0; n < count; n++) {
        char name[MPI_MAX_PSET_NAME_LEN], start[4];
        int length = 0, room = sizeof name, few = sizeof start, flag, digits = 20, size, mine;
        MPI_Session_get_nth_pset(session, MPI_INFO_NULL, n, &length, NULL);
        MPI_Session_get_nth_pset(session, MPI_INFO_NULL, n, &room, name);
        CHECK_EQUAL(length, (int)strlen(name) + 1); /* 11.3.2: with the byte of zero */
        MPI_Session_get_nth_pset(session, MPI_INFO_NULL, n, &few, start);
        CHECK(!strncmp(name, start, 3) && !start[3], "cut to %.3s", start);
        has_world |= !strcmp(name, "mpi://WORLD");
        has_self |= !strcmp(name, "mpi://SELF");
        MPI_Info info;
        MPI_Session_get_pset_info(session, name, &info);
        char value[20];
        MPI_Info_get_string(info, "mpi_size", &digits, value, &flag);
        MPI_Info_free(&info);
        MPI_Group group;
        MPI_Group_from_session_pset(session, name, &group);
        MPI_Group_size(group, &size);
        MPI_Group_rank(group, &mine);
        CHECK(flag && atoi(value) == size, "mpi_size of %.100s is %s, its group has %d", name, value, size);
        CHECK(mine >= 0 && mine < size, "this process is not in its set %.100s", name);
        MPI_Group_free(&group);
    }
    CHECK(has_world && has_self, "the standard's sets are missing");
}

static void info_and_levels(void)
{
    STORY("11.3.1 thread level of each session");
    const char *levels[] = {"MPI_THREAD_SINGLE", "MPI_THREAD_FUNNELED", "MPI_THREAD_MULTIPLE"};
    MPI_Session sessions[3];
    for (int i = 0; i < 3; i++)
        sessions[i] = opened(levels[i]);
    for (int i = 0; i < 3; i++) {
        MPI_Info info;
        char value[MPI_MAX_INFO_VAL + 1] = "";
        int flag = 0, length = sizeof value;
        MPI_Session_get_info(sessions[i], &info);
        MPI_Info_get_string(info, "thread_level", &length, value, &flag);
        CHECK(flag && !strncmp(value, "MPI_THREAD_", 11), "thread_level is '%.100s'", value);
        MPI_Info_free(&info);
    }
    for (int i = 2; i >= 0; i--) {
        MPI_Session_finalize(&sessions[i]);
        CHECK(sessions[i] == MPI_SESSION_NULL, "not null after Session_finalize");
    }
}

static int handled, handled_code;

static void note(MPI_Session *session, int *code, ...)
{
    (void)session;
    handled++;
    handled_code = *code;
}

static void error_handlers(MPI_Session session)
{
    STORY("9.3.4 error handlers of sessions");
    MPI_Errhandler handler, found;
    MPI_Session_create_errhandler(note, &handler);
    MPI_Session_set_errhandler(session, handler);
    MPI_Session_get_errhandler(session, &found);
    CHECK(found == handler, "another handler");
    MPI_Errhandler_free(&found);
    MPI_Errhandler_free(&handler);
    STORY("9.5.2 Session_call_errhandler");
    MPI_Session_call_errhandler(session, MPI_ERR_OTHER);
    CHECK_EQUAL(handled, 1);
    CHECK_EQUAL(handled_code, MPI_ERR_OTHER);
    STORY("11.3.2 sets that are none");
    MPI_Session_set_errhandler(session, MPI_ERRORS_RETURN);
    MPI_Group group;
    MPI_Info info;
    int length = 0;
    CHECK(MPI_Group_from_session_pset(session, "weft://none", &group) != MPI_SUCCESS, "no error");
    CHECK(MPI_Session_get_pset_info(session, "weft://none", &info) != MPI_SUCCESS, "no error");
    CHECK_CLASS(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, 1000, &length, NULL), MPI_ERR_ARG);
    MPI_Session_set_errhandler(session, MPI_ERRORS_ARE_FATAL);
}

static void buffers(MPI_Session session, MPI_Comm comm)
{
    STORY("3.6 buffers of sessions");
    static char space[4 * (MPI_BSEND_OVERHEAD + 8)];
    int mine, size, out, got = -1, bytes = 0;
    void *address = NULL;
    MPI_Comm_rank(comm, &mine);
    MPI_Comm_size(comm, &size);
    MPI_Session_attach_buffer(session, space, sizeof space);
    out = mine;
    MPI_Bsend(&out, 1, MPI_INT, (mine + 1) % size, 1, comm);
    out = -5; /* the sent buffer is no longer ours */
    MPI_Recv(&got, 1, MPI_INT, (mine + size - 1) % size, 1, comm, MPI_STATUS_IGNORE);
    CHECK_EQUAL(got, (mine + size - 1) % size);
    MPI_Session_flush_buffer(session);
    MPI_Request request;
    MPI_Session_iflush_buffer(session, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Session_detach_buffer(session, &address, &bytes);
    CHECK(address == space && bytes == sizeof space, "not what was attached: %d bytes", bytes);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    CHECK_CLASS(MPI_Bsend(&out, 1, MPI_INT, mine, 1, comm), MPI_ERR_BUFFER);
    /* The process's buffer serves communicators of a session that has none. */
    MPI_Buffer_attach(space, sizeof space);
    int next = (mine + 1) % size;
    CHECK_EQUAL(MPI_Bsend(&mine, 1, MPI_INT, next, 2, comm), MPI_SUCCESS);
    MPI_Recv(&got, 1, MPI_INT, (mine + size - 1) % size, 2, comm, MPI_STATUS_IGNORE);
    CHECK_EQUAL(got, (mine + size - 1) % size);
    /* Where the session has one, that of the process is not used. */
    static char little[1];
    if (!left_out("little-buffer")) {
        MPI_Session_attach_buffer(session, little, sizeof little);
        CHECK_CLASS(MPI_Bsend(&out, 1, MPI_INT, mine, 1, comm), MPI_ERR_BUFFER);
        MPI_Session_detach_buffer(session, &address, &bytes);
    }
    MPI_Buffer_detach(&address, &bytes);
    CHECK(address == space && bytes == sizeof space, "not what was attached: %d bytes", bytes);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_ARE_FATAL);
}

static void groups_of_sessions(MPI_Session session)
{
    STORY("7.3.2 groups made from a session's");
    MPI_Group world, even, odd, none, all;
    int size, mine, result, range[1][3] = {{0, ranks - 1, 2}};
    MPI_Group_from_session_pset(session, "mpi://WORLD", &world);
    MPI_Group_range_incl(world, 1, range, &even);
    MPI_Group_difference(world, even, &odd);
    MPI_Group_intersection(even, odd, &none);
    MPI_Group_size(none, &size);
    CHECK_EQUAL(size, 0);
    MPI_Group_union(even, odd, &all);
    MPI_Group_compare(all, world, &result);
    CHECK(result != MPI_UNEQUAL, "the union of both halves is not the world");
    MPI_Group_rank(even, &mine);
    MPI_Group own = mine == MPI_UNDEFINED ? odd : even, other = mine == MPI_UNDEFINED ? even : odd;
    MPI_Comm half, inter;
    MPI_Comm_create_from_group(own, "halves", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &half);
    MPI_Group_size(own, &size);
    check_comm(half, size);
    STORY("7.6.2 Intercomm_create_from_groups");
    int remote, flag;
    MPI_Intercomm_create_from_groups(own, 0, other, 0, "between", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &inter);
    MPI_Comm_test_inter(inter, &flag);
    MPI_Comm_remote_size(inter, &remote);
    CHECK(flag && remote == ranks - size, "%d, %d", flag, remote);
    MPI_Comm_free(&inter);
    MPI_Comm_free(&half);
    MPI_Group *groups[] = {&world, &even, &odd, &none, &all};
    for (int i = 0; i < 5; i++)
        if (*groups[i] != MPI_GROUP_EMPTY)
            MPI_Group_free(groups[i]);
}

static int refused_sessions;

static void on_session(MPI_Session *session, int *code, ...)
{
    (void)code;
    refused_sessions += *session == MPI_SESSION_NULL;
}

/* 9.3.4, 11.3.1: a failure to open a session is for the given handler, also where nothing is initialised. */
static void refused_session(void)
{
    STORY("11.3.1 a session that is refused");
    MPI_Info info, freed;
    MPI_Errhandler handler;
    MPI_Session session;
    MPI_Info_create(&info);
    freed = info;
    MPI_Info_free(&info);
    MPI_Session_create_errhandler(on_session, &handler);
    CHECK_CLASS(MPI_Session_init(freed, handler, &session), MPI_ERR_INFO);
    CHECK_EQUAL(refused_sessions, 1);
    CHECK_CLASS(MPI_Session_init(freed, MPI_ERRORS_RETURN, &session), MPI_ERR_INFO);
    CHECK_EQUAL(refused_sessions, 1);
    MPI_Errhandler_free(&handler);
}

int main(int argc, char **argv)
{
    watch_the_clock();
    int flag, length;
    char library[MPI_MAX_LIBRARY_VERSION_STRING];
    MPI_Get_library_version(library, &length); /* 11.4.1: at any time */
    CHECK(length == (int)strlen(library), "%d", length);

    if (!left_out("refused"))
        refused_session();
    STORY("11.3 a session before the World Model");
    MPI_Session first = opened(NULL);
    MPI_Initialized(&flag);
    CHECK_EQUAL(flag, 0); /* 11.4.1: that is about the World Model */
    MPI_Comm comm = made(first, "mpi://WORLD", "org.example/first"), self = made(first, "mpi://SELF", "self");
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    check_comm(comm, ranks);
    check_comm(self, 1);
    process_sets(first);
    error_handlers(first);
    buffers(first, comm);
    if (ranks > 1)
        groups_of_sessions(first);
    info_and_levels();

    STORY("11.3 several sessions at once, and communicators with one name from each");
    MPI_Session second = opened("MPI_THREAD_MULTIPLE");
    CHECK(second != first, "the same session twice");
    MPI_Comm other = made(second, "mpi://WORLD", "org.example/first");
    int out = 1, got = 0;
    MPI_Status status;
    MPI_Request sends[2]; /* 3.5: a standard send to oneself may block until the receive is there */
    MPI_Isend(&out, 1, MPI_INT, rank, 1, comm, &sends[0]);
    MPI_Isend(&out, 1, MPI_INT, rank, 2, other, &sends[1]);
    MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, other, &status);
    CHECK_EQUAL(status.MPI_TAG, 2);
    MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &status);
    CHECK_EQUAL(status.MPI_TAG, 1);
    MPI_Waitall(2, sends, MPI_STATUSES_IGNORE);
    MPI_Comm_free(&other);
    MPI_Session_finalize(&second);

    STORY("11.3 the World Model beside a session");
    MPI_Init(&argc, &argv);
    MPI_Initialized(&flag);
    CHECK_EQUAL(flag, 1);
    int in_world, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &in_world);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CHECK_EQUAL(size, ranks);
    check_comm(MPI_COMM_WORLD, ranks);
    check_comm(comm, ranks);
    second = opened(NULL); /* during */
    other = made(second, "mpi://WORLD", "during");
    check_comm(other, ranks);
    MPI_Comm_free(&other);
    MPI_Session_finalize(&second);
    check_comm(MPI_COMM_WORLD, ranks);
    MPI_Finalize();
    MPI_Finalized(&flag);
    CHECK_EQUAL(flag, 1);

    STORY("11.3 a session goes on after Finalize");
    check_comm(comm, ranks);
    MPI_Comm_free(&self);
    MPI_Comm_free(&comm);
    MPI_Session_finalize(&first);

    STORY("11.3 sessions after everything was finalized");
    for (int round = 0; round < 3 && !left_out("again"); round++) {
        first = opened(NULL);
        comm = made(first, "mpi://WORLD", "again");
        check_comm(comm, ranks);
        MPI_Comm_free(&comm);
        MPI_Session_finalize(&first);
    }
    if (failures > PRINTED_MAX)
        fprintf(stderr, "%s: rank %d: %d more failures\n", __FILE__, rank, failures - PRINTED_MAX);
    return failures > 0;
}
