/*
 * Each kind of object that MPI makes, made, used and freed: a turn of each leaves nothing behind. All
 * processes of MPI_COMM_WORLD take the same turns. For programs that take many turns, and check whether a
 * quantity grows.
 */
#ifndef WEFT_TESTS_KINDS_H
#define WEFT_TESTS_KINDS_H

#include "check.h"

#include <dirent.h>
#include <malloc.h>
#include <time.h>

/* ---- What a process has -------------------------------------------------------------------------------- */

struct holdings {
    long long heap;        /* bytes that malloc has given out */
    long long resident_kb; /* memory of its own that is in use (RssAnon) */
    long long descriptors, mappings, threads;
    long long processor_us; /* processor time, including the system's */
};

/* glibc counts memory that a thread keeps for itself as given out: this program begins anew with nothing
 * kept. */
static inline void count_exactly(char **argv)
{
    if (!getenv("GLIBC_TUNABLES")) {
        setenv("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0", 1);
        execv("/proc/self/exe", argv);
    }
}

static inline long long entries(const char *directory)
{
    long long count = 0;
    DIR *open = opendir(directory);
    while (open && readdir(open))
        count++;
    if (open)
        closedir(open);
    return count;
}

static inline long long heap_bytes(void)
{
    struct mallinfo2 given = mallinfo2();
    return (long long)(given.uordblks + given.hblkhd);
}

static inline struct holdings holdings(void)
{
    struct holdings now = {.descriptors = entries("/proc/self/fd"), .threads = entries("/proc/self/task")};
    char line[512];
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file))
        sscanf(line, "RssAnon: %lld", &now.resident_kb);
    if (file)
        fclose(file);
    file = fopen("/proc/self/maps", "r");
    while (file && fgets(line, sizeof line, file))
        now.mappings++;
    if (file)
        fclose(file);
    struct timespec spent;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &spent);
    now.processor_us = spent.tv_sec * 1000000LL + spent.tv_nsec / 1000;
    now.heap = heap_bytes();
    return now;
}

/* ---- Communicators ------------------------------------------------------------------------------------- */

/* A message to the next rank, and a sum; then it is freed. */
static inline void use_and_free(MPI_Comm *comm)
{
    if (*comm == MPI_COMM_NULL)
        return;
    int size, own, one = 1, total = 0, got = -1;
    MPI_Comm_size(*comm, &size);
    MPI_Comm_rank(*comm, &own);
    MPI_Sendrecv(&own, 1, MPI_INT, (own + 1) % size, 5, &got, 1, MPI_INT, (own + size - 1) % size, 5, *comm, MPI_STATUS_IGNORE);
    CHECK_EQUAL(got, (own + size - 1) % size);
    MPI_Allreduce(&one, &total, 1, MPI_INT, MPI_SUM, *comm);
    CHECK_EQUAL(total, size);
    MPI_Comm_free(comm);
}

static inline void duplicates(void)
{
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_name(comm, "a name that is longer than what fits beside it");
    use_and_free(&comm);
}

static inline void duplicates_with_info(void)
{
    MPI_Comm comm;
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "mpi_assert_no_any_tag", "true");
    MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &comm);
    MPI_Info_free(&info);
    MPI_Comm_get_info(comm, &info);
    MPI_Info_free(&info);
    use_and_free(&comm);
}

static inline void duplicates_begun(void)
{
    MPI_Comm comms[2];
    MPI_Request requests[2];
    for (int i = 0; i < 2; i++)
        MPI_Comm_idup(MPI_COMM_WORLD, &comms[i], &requests[i]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < 2; i++)
        use_and_free(&comms[i]);
}

static inline void splits(void)
{
    MPI_Comm comm;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &comm);
    use_and_free(&comm);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &comm);
    use_and_free(&comm);
}

static inline void of_groups(void)
{
    MPI_Comm comm;
    MPI_Group world, lower;
    int range[1][3] = {{0, (ranks - 1) / 2, 1}};
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_range_incl(world, 1, range, &lower);
    MPI_Comm_create(MPI_COMM_WORLD, lower, &comm);
    use_and_free(&comm);
    if (rank <= (ranks - 1) / 2) {
        MPI_Comm_create_group(MPI_COMM_WORLD, lower, 3, &comm);
        use_and_free(&comm);
    }
    MPI_Group_free(&lower);
    MPI_Group_free(&world);
}

static inline void grids(void)
{
    MPI_Comm grid, line;
    int periodic = 1, remain = 1;
    MPI_Cart_create(MPI_COMM_WORLD, 1, &ranks, &periodic, 0, &grid);
    MPI_Cart_sub(grid, &remain, &line);
    int mine = rank, theirs[2] = {-1, -1};
    MPI_Neighbor_allgather(&mine, 1, MPI_INT, theirs, 1, MPI_INT, line);
    CHECK_EQUAL(theirs[0], (rank + ranks - 1) % ranks);
    use_and_free(&line);
    use_and_free(&grid);
}

static inline void graphs(void)
{
    MPI_Comm graph;
    int last = 2 * ranks, *index = memory(sizeof(int) * (size_t)ranks), *edges = memory(sizeof(int) * (size_t)last);
    for (int i = 0; i < ranks; i++) {
        index[i] = 2 * (i + 1);
        edges[2 * i] = (i + ranks - 1) % ranks;
        edges[2 * i + 1] = (i + 1) % ranks;
    }
    MPI_Graph_create(MPI_COMM_WORLD, ranks, index, edges, 0, &graph);
    use_and_free(&graph);
    int degree = 1, next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    MPI_Dist_graph_create(MPI_COMM_WORLD, 1, &rank, &degree, &next, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &graph);
    use_and_free(&graph);
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &before, MPI_UNWEIGHTED, 1, &next, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &graph);
    use_and_free(&graph);
    free(index);
    free(edges);
}

static inline void intercommunicators(void)
{
    if (ranks < 2)
        return;
    MPI_Comm half, between, whole;
    int upper = rank >= ranks / 2, size, theirs, one = 1, total = 0;
    MPI_Comm_split(MPI_COMM_WORLD, upper, rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, upper ? 0 : ranks / 2, 9, &between);
    MPI_Comm_size(half, &size);
    MPI_Comm_remote_size(between, &theirs);
    CHECK_EQUAL(size + theirs, ranks);
    MPI_Allreduce(&one, &total, 1, MPI_INT, MPI_SUM, between);
    CHECK_EQUAL(total, theirs);
    MPI_Intercomm_merge(between, upper, &whole);
    use_and_free(&whole);
    MPI_Comm_free(&between);
    use_and_free(&half);
}

static inline void sessions(void)
{
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm;
    char name[40];
    static int turn;
    snprintf(name, sizeof name, "turn %d", turn++);
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, name, MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
    use_and_free(&comm);
    MPI_Group_free(&group);
    MPI_Session_finalize(&session);
}

/* A message that was sent when the communicator was freed, and that no process receives: a program may count
 * only on that it does no harm. */
static inline void messages_left(void)
{
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Send(&rank, 1, MPI_INT, (rank + 1) % ranks, 5, comm);
    MPI_Comm_free(&comm);
}

/* Operations that are under way when the communicator is freed go on (MPI-5.0 section 7.4.3). */
static inline void freed_while_used(void)
{
    MPI_Comm comm;
    MPI_Request requests[3];
    int got = -1, one = 1, total = 0;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &requests[0]);
    MPI_Iallreduce(&one, &total, 1, MPI_INT, MPI_SUM, comm, &requests[1]);
    MPI_Isend(&rank, 1, MPI_INT, (rank + 1) % ranks, 5, comm, &requests[2]);
    MPI_Comm_free(&comm);
    MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
    CHECK_EQUAL(got, (rank + ranks - 1) % ranks);
    CHECK_EQUAL(total, ranks);
}

static inline void persistent_left(void)
{
    MPI_Comm comm;
    MPI_Request requests[2];
    int got = -1;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Recv_init(&got, 1, MPI_INT, (rank + ranks - 1) % ranks, 5, comm, &requests[0]);
    MPI_Send_init(&rank, 1, MPI_INT, (rank + 1) % ranks, 5, comm, &requests[1]);
    MPI_Comm_free(&comm);
    for (int i = 0; i < 2; i++) {
        MPI_Startall(2, requests);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        CHECK_EQUAL(got, (rank + ranks - 1) % ranks);
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
}

/* ---- Windows ------------------------------------------------------------------------------------------- */

static inline void put_and_free(MPI_Win *win)
{
    MPI_Win_fence(0, *win);
    MPI_Put(&rank, 1, MPI_INT, (rank + 1) % ranks, 0, 1, MPI_INT, *win);
    MPI_Win_fence(0, *win);
    MPI_Win_free(win);
}

static inline void windows(void)
{
    MPI_Win win;
    int words[4] = {-1, -1, -1, -1}, *base;
    MPI_Win_create(words, sizeof words, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    put_and_free(&win);
    CHECK_EQUAL(words[0], (rank + ranks - 1) % ranks);
    MPI_Win_allocate(64, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
    MPI_Win_set_name(win, "a name that is longer than what fits beside it");
    put_and_free(&win);
}

static inline void windows_shared(void)
{
    MPI_Comm node;
    MPI_Win win;
    int *base, size, own;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node);
    MPI_Comm_size(node, &size);
    MPI_Comm_rank(node, &own);
    MPI_Win_allocate_shared(64, sizeof(int), MPI_INFO_NULL, node, &base, &win);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, (own + 1) % size, 0, win);
    MPI_Put(&rank, 1, MPI_INT, (own + 1) % size, 0, 1, MPI_INT, win);
    MPI_Win_unlock((own + 1) % size, win);
    MPI_Win_free(&win);
    use_and_free(&node);
}

static inline void windows_dynamic(void)
{
    MPI_Win win;
    int words[4] = {0}, got = -1;
    MPI_Aint own, theirs;
    MPI_Request request;
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_attach(win, words, sizeof words);
    MPI_Get_address(words, &own);
    MPI_Sendrecv(&own, 1, MPI_AINT, (rank + ranks - 1) % ranks, 6, &theirs, 1, MPI_AINT, (rank + 1) % ranks, 6, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    MPI_Win_lock_all(0, win);
    MPI_Rget(&got, 1, MPI_INT, (rank + 1) % ranks, theirs, 1, MPI_INT, win, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Accumulate(&rank, 1, MPI_INT, (rank + 1) % ranks, theirs, 1, MPI_INT, MPI_SUM, win);
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_EQUAL(words[0], (rank + ranks - 1) % ranks);
    MPI_Win_detach(win, words);
    MPI_Win_free(&win);
}

/* ---- What no other process knows of -------------------------------------------------------------------- */

static inline void groups(void)
{
    MPI_Group world, half, rest, all;
    int range[1][3] = {{0, ranks - 1, 2}}, size;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_range_incl(world, 1, range, &half);
    MPI_Group_difference(world, half, &rest);
    MPI_Group_union(half, rest, &all);
    MPI_Group_size(all, &size);
    CHECK_EQUAL(size, ranks);
    MPI_Group_free(&all);
    MPI_Group_free(&rest);
    MPI_Group_free(&half);
    MPI_Group_free(&world);
}

static inline void datatypes(void)
{
    MPI_Datatype rows, pair, copy, resized;
    int lengths[2] = {1, 3}, got[8] = {0}, values[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    MPI_Aint places[2] = {0, 8};
    MPI_Datatype parts[2] = {MPI_INT, MPI_DOUBLE};
    MPI_Type_vector(2, 2, 4, MPI_INT, &rows);
    MPI_Type_commit(&rows);
    MPI_Type_create_struct(2, lengths, places, parts, &pair);
    MPI_Type_dup(pair, &copy);
    MPI_Type_create_resized(copy, 0, 64, &resized);
    MPI_Type_commit(&resized);
    MPI_Type_set_name(resized, "a name that is longer than what fits beside it");
    MPI_Sendrecv(values, 1, rows, (rank + 1) % ranks, 7, got, 1, rows, (rank + ranks - 1) % ranks, 7, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    CHECK_EQUAL(got[5], 6);
    MPI_Type_free(&resized);
    MPI_Type_free(&copy);
    MPI_Type_free(&pair);
    MPI_Type_free(&rows);
}

static void add(void *in, void *inout, int *count, MPI_Datatype *type)
{
    (void)type;
    for (int i = 0; i < *count; i++)
        ((int *)inout)[i] += ((int *)in)[i];
}

static inline void operations(void)
{
    MPI_Op op;
    int one = 1, total = 0;
    MPI_Op_create(add, 1, &op);
    MPI_Allreduce(&one, &total, 1, MPI_INT, op, MPI_COMM_WORLD);
    CHECK_EQUAL(total, ranks);
    MPI_Op_free(&op);
}

static void ignore(MPI_Comm *comm, int *code, ...)
{
    (void)comm;
    (void)code;
}

static inline void error_handlers(void)
{
    MPI_Errhandler handler, found;
    int class, code;
    MPI_Comm_create_errhandler(ignore, &handler);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, handler);
    MPI_Comm_get_errhandler(MPI_COMM_SELF, &found);
    MPI_Errhandler_free(&found);
    MPI_Errhandler_free(&handler);
    MPI_Send(&rank, 1, MPI_INT, 77, 0, MPI_COMM_SELF);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
    MPI_Add_error_class(&class);
    MPI_Add_error_code(class, &code);
    MPI_Add_error_string(code, "what went wrong");
    MPI_Remove_error_string(code);
    MPI_Remove_error_code(code);
    MPI_Remove_error_class(class);
}

static inline void infos(void)
{
    MPI_Info info, copy;
    MPI_Info_create(&info);
    for (int i = 0; i < 5; i++) {
        char key[20];
        snprintf(key, sizeof key, "key %d", i);
        MPI_Info_set(info, key, "a value");
    }
    MPI_Info_dup(info, &copy);
    MPI_Info_delete(info, "key 3");
    MPI_Info_free(&info);
    MPI_Info_free(&copy);
}

static int copies_and_deletes;
static int copy_value(MPI_Comm comm, int key, void *extra, void *value, void *out, int *flag)
{
    (void)comm, (void)key, (void)extra;
    *(void **)out = value;
    *flag = 1;
    copies_and_deletes++;
    return MPI_SUCCESS;
}
static int delete_value(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)comm, (void)key, (void)value, (void)extra;
    copies_and_deletes++;
    return MPI_SUCCESS;
}

static inline void attributes(void)
{
    int key, type_key, win_key, before = copies_and_deletes;
    MPI_Comm comm, copy;
    MPI_Datatype type;
    MPI_Win win;
    MPI_Comm_create_keyval(copy_value, delete_value, &key, NULL);
    MPI_Comm_dup(MPI_COMM_SELF, &comm);
    MPI_Comm_set_attr(comm, key, &rank);
    MPI_Comm_dup(comm, &copy);
    MPI_Comm_free_keyval(&key);
    MPI_Comm_free(&comm);
    MPI_Comm_free(&copy);
    CHECK_EQUAL(copies_and_deletes - before, 3);
    MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, MPI_TYPE_NULL_DELETE_FN, &type_key, NULL);
    MPI_Type_contiguous(3, MPI_INT, &type);
    MPI_Type_set_attr(type, type_key, &rank);
    MPI_Type_free(&type);
    MPI_Type_free_keyval(&type_key);
    MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, MPI_WIN_NULL_DELETE_FN, &win_key, NULL);
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_SELF, &win);
    MPI_Win_set_attr(win, win_key, &rank);
    MPI_Win_free(&win);
    MPI_Win_free_keyval(&win_key);
}

static inline void allocations(void)
{
    void *base;
    MPI_Alloc_mem(10000, MPI_INFO_NULL, &base);
    memset(base, 1, 10000);
    MPI_Free_mem(base);
}

/* ---- Requests ------------------------------------------------------------------------------------------ */

enum { LONG_MESSAGE = 100000 };
static unsigned char long_out[LONG_MESSAGE], long_in[LONG_MESSAGE];

static inline void persistent(void)
{
    MPI_Request requests[4];
    int got = -1, one = 1, total = 0, next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    MPI_Recv_init(&got, 1, MPI_INT, before, 8, MPI_COMM_WORLD, &requests[0]);
    MPI_Ssend_init(&rank, 1, MPI_INT, next, 8, MPI_COMM_WORLD, &requests[1]);
    MPI_Allreduce_init(&one, &total, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[2]);
    MPI_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, &requests[3]);
    for (int i = 0; i < 2; i++) {
        MPI_Startall(4, requests);
        MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
        CHECK_EQUAL(got, before);
        CHECK_EQUAL(total, ranks);
    }
    for (int i = 0; i < 4; i++)
        MPI_Request_free(&requests[i]);
}

static inline void partitioned(void)
{
    MPI_Request requests[2];
    int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks, in[4] = {0}, out[4] = {1, 2, 3, 4};
    MPI_Precv_init(in, 2, 2, MPI_INT, before, 9, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]);
    MPI_Psend_init(out, 2, 2, MPI_INT, next, 9, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]);
    for (int i = 0; i < 2; i++) {
        MPI_Startall(2, requests);
        MPI_Pready_range(0, 1, requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        CHECK_EQUAL(in[3], 4);
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
}

/* No call says when the long messages are complete: their memory stays, and holds the same in each turn. */
static inline void freed_requests(void)
{
    MPI_Request request;
    int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks, got = 0, one = 1;
    MPI_Irecv(long_in, LONG_MESSAGE, MPI_BYTE, before, 10, MPI_COMM_WORLD, &request);
    MPI_Request_free(&request);
    MPI_Isend(long_out, LONG_MESSAGE, MPI_BYTE, next, 10, MPI_COMM_WORLD, &request);
    MPI_Request_free(&request);
    MPI_Issend(&one, 1, MPI_INT, next, 11, MPI_COMM_WORLD, &request);
    MPI_Request_free(&request);
    MPI_Recv(&got, 1, MPI_INT, before, 11, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK_EQUAL(got, 1);
    MPI_Barrier(MPI_COMM_WORLD);
}

static inline void cancelled(void)
{
    MPI_Request request;
    MPI_Status status;
    int got, flag = 0;
    MPI_Irecv(&got, 1, MPI_INT, (rank + 1) % ranks, 13, MPI_COMM_WORLD, &request);
    MPI_Cancel(&request);
    MPI_Wait(&request, &status);
    MPI_Test_cancelled(&status, &flag);
    CHECK_EQUAL(flag, 1);
}

static inline void messages(void)
{
    static const int lengths[] = {0, 8, 1000, 9000, 40000, LONG_MESSAGE};
    MPI_Message message;
    MPI_Request request;
    MPI_Status status;
    int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        int length = lengths[i], found = -1;
        MPI_Isend(long_out, length, MPI_BYTE, next, 14, MPI_COMM_WORLD, &request);
        MPI_Mprobe(before, 14, MPI_COMM_WORLD, &message, &status);
        MPI_Get_count(&status, MPI_BYTE, &found);
        CHECK_EQUAL(found, length);
        MPI_Mrecv(long_in, length, MPI_BYTE, &message, MPI_STATUS_IGNORE);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
}

static inline void buffered(void)
{
    static char room[LONG_MESSAGE + 2 * MPI_BSEND_OVERHEAD + 8];
    void *detached;
    int size, got = -1, next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    MPI_Comm comm;
    MPI_Buffer_attach(room, sizeof room);
    MPI_Bsend(long_out, LONG_MESSAGE, MPI_BYTE, next, 15, MPI_COMM_WORLD);
    MPI_Bsend(&rank, 1, MPI_INT, next, 16, MPI_COMM_WORLD);
    MPI_Recv(long_in, LONG_MESSAGE, MPI_BYTE, before, 15, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Recv(&got, 1, MPI_INT, before, 16, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK_EQUAL(got, before);
    MPI_Buffer_detach(&detached, &size);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_attach_buffer(comm, room, sizeof room);
    MPI_Bsend(long_out, LONG_MESSAGE, MPI_BYTE, next, 17, comm);
    MPI_Recv(long_in, LONG_MESSAGE, MPI_BYTE, before, 17, comm, MPI_STATUS_IGNORE);
    MPI_Comm_detach_buffer(comm, &detached, &size);
    MPI_Comm_free(&comm);
}

static int query(void *extra, MPI_Status *status)
{
    (void)extra;
    MPI_Status_set_elements(status, MPI_BYTE, 0);
    MPI_Status_set_cancelled(status, 0);
    return MPI_SUCCESS;
}
static int free_extra(void *extra)
{
    free(extra);
    return MPI_SUCCESS;
}
static int cancel(void *extra, int complete)
{
    (void)extra, (void)complete;
    return MPI_SUCCESS;
}

static inline void generalized(void)
{
    MPI_Request request;
    MPI_Grequest_start(query, free_extra, cancel, memory(16), &request);
    MPI_Grequest_complete(request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static inline void collectives(void)
{
    MPI_Request requests[4];
    int one = 1, total = 0, *all = memory(sizeof(int) * (size_t)ranks), *turned = memory(sizeof(int) * (size_t)ranks), root = rank;
    MPI_Iallreduce(&one, &total, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[0]);
    MPI_Iallgather(&rank, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD, &requests[1]);
    MPI_Ibcast(&root, 1, MPI_INT, ranks - 1, MPI_COMM_WORLD, &requests[2]);
    MPI_Ibarrier(MPI_COMM_WORLD, &requests[3]);
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
    CHECK_EQUAL(total, ranks);
    CHECK_EQUAL(root, ranks - 1);
    MPI_Alltoall(all, 1, MPI_INT, turned, 1, MPI_INT, MPI_COMM_WORLD);
    CHECK_EQUAL(turned[0], rank);
    MPI_Bcast(long_in, LONG_MESSAGE, MPI_BYTE, 0, MPI_COMM_WORLD);
    free(all);
    free(turned);
}

static inline void tools(void)
{
    MPI_T_pvar_session session;
    int provided;
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    MPI_T_pvar_session_create(&session);
    MPI_T_pvar_session_free(&session);
    MPI_T_finalize();
}

static const struct kind {
    const char *name;
    void (*turn)(void);
} kinds[] = {
    {"duplicates", duplicates},
    {"duplicates with info", duplicates_with_info},
    {"duplicates that are begun", duplicates_begun},
    {"splits", splits},
    {"communicators of groups", of_groups},
    {"grids", grids},
    {"graphs", graphs},
    {"intercommunicators", intercommunicators},
    {"sessions", sessions},
    {"messages left in freed communicators", messages_left},
    {"communicators freed while they are used", freed_while_used},
    {"persistent requests of freed communicators", persistent_left},
    {"windows", windows},
    {"shared windows", windows_shared},
    {"dynamic windows", windows_dynamic},
    {"groups", groups},
    {"datatypes", datatypes},
    {"operations", operations},
    {"error handlers", error_handlers},
    {"infos", infos},
    {"attributes", attributes},
    {"allocated memory", allocations},
    {"persistent requests", persistent},
    {"partitioned requests", partitioned},
    {"freed requests", freed_requests},
    {"cancelled requests", cancelled},
    {"messages", messages},
    {"buffered messages", buffered},
    {"generalized requests", generalized},
    {"collectives", collectives},
    {"tools", tools},
};

enum { KINDS = sizeof kinds / sizeof *kinds };

#endif
