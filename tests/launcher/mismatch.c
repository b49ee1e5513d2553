/*
 * Collectives that ranks call differently: `mismatch WHAT`. Rank 1 (or the last) does something else than the
 * others; with WEFT_CHECK=1 that is found before a rank hangs or memory is corrupted. Without an argument the
 * program is right, and must get no complaint.
 */
#define _DEFAULT_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROOM = 64 };

static int rank, ranks, wrong;
static int a[ROOM], b[ROOM], counts[ROOM], places[ROOM];
static double d[ROOM];

static void user_sum(void *in, void *out, int *length, MPI_Datatype *type)
{
    (void)type;
    for (int i = 0; i < *length; i++)
        ((int *)out)[i] += ((int *)in)[i];
}

/* All correct calls, in all forms; datatypes that differ in their shape but not in their signature. */
static void correct(void)
{
    MPI_Request request;
    MPI_Datatype three, pair;
    MPI_Comm other, half;
    MPI_Op op;
    int lengths[2] = {1, 1};
    MPI_Aint displacements[2] = {0, 8};
    MPI_Datatype types[2] = {MPI_INT, MPI_DOUBLE};
    MPI_Type_vector(3, 1, 2, MPI_INT, &three);
    MPI_Type_commit(&three);
    MPI_Type_create_struct(2, lengths, displacements, types, &pair);
    MPI_Type_commit(&pair);
    MPI_Bcast(a, rank == 0 ? 3 : 1, rank == 0 ? MPI_INT : three, 0, MPI_COMM_WORLD);
    MPI_Bcast(a, 2, pair, 0, MPI_COMM_WORLD);
    MPI_Bcast(a, rank == 0 ? 4 : 16, rank == 0 ? MPI_INT : MPI_BYTE, 0, MPI_COMM_WORLD);
    for (int i = 0; i < ranks; i++) {
        counts[i] = i;
        places[i] = i * (i - 1) / 2;
    }
    MPI_Gatherv(a, rank, MPI_INT, b, counts, places, MPI_INT, 1, MPI_COMM_WORLD);
    MPI_Scatterv(a, counts, places, MPI_INT, b, rank, MPI_INT, 1, MPI_COMM_WORLD);
    MPI_Allgatherv(a, rank, MPI_INT, b, counts, places, MPI_INT, MPI_COMM_WORLD);
    MPI_Gather(a, 2, MPI_INT, b, 2, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Gather(rank == 0 ? MPI_IN_PLACE : (void *)a, 2, MPI_INT, b, 2, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Scatter(a, 2, MPI_INT, rank == 0 ? MPI_IN_PLACE : (void *)b, 2, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Allgather(rank == 1 ? MPI_IN_PLACE : (void *)a, 2, MPI_INT, b, 2, MPI_INT, MPI_COMM_WORLD);
    MPI_Alltoall(a, 2, MPI_INT, b, 2, MPI_INT, MPI_COMM_WORLD);
    MPI_Alltoall(MPI_IN_PLACE, 2, MPI_INT, b, 2, MPI_INT, MPI_COMM_WORLD);
    MPI_Op_create(user_sum, 1, &op);
    MPI_Allreduce(a, b, 3, MPI_INT, op, MPI_COMM_WORLD);
    MPI_Reduce(a, b, 3, MPI_INT, MPI_MAX, 1, MPI_COMM_WORLD);
    MPI_Scan(a, b, 3, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Exscan(a, b, 3, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Reduce_scatter_block(a, b, 2, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Ibcast(a, 3, MPI_INT, 0, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    /* A nonblocking collective does not wait for the others. */
    if (rank == 0) {
        MPI_Ibarrier(MPI_COMM_WORLD, &request);
        MPI_Send(a, 1, MPI_INT, 1, 5, MPI_COMM_WORLD);
    } else {
        if (rank == 1)
            MPI_Recv(a, 1, MPI_INT, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Ibarrier(MPI_COMM_WORLD, &request);
    }
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Allreduce_init(a, b, 2, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    for (int i = 0; i < 3; i++) {
        MPI_Start(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    MPI_Request_free(&request);
    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &half);
    MPI_Barrier(half);
    MPI_Barrier(other);
    MPI_Comm_free(&half);
    MPI_Comm_free(&other);
    MPI_Op_free(&op);
    MPI_Type_free(&three);
    MPI_Type_free(&pair);
}

/* Opens a file that no directory has any more: the end of the job leaves nothing. */
static MPI_File open_file(int amode)
{
    MPI_File file;
    char name[100];
    const char *directory = getenv("TMPDIR");
    long number = (long)getpid();
    MPI_Bcast(&number, 1, MPI_LONG, 0, MPI_COMM_WORLD);
    snprintf(name, sizeof name, "%s/mismatch-%ld", directory ? directory : "/tmp", number);
    MPI_File_open(MPI_COMM_WORLD, name, amode | MPI_MODE_CREATE, MPI_INFO_NULL, &file);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        unlink(name);
    MPI_File_set_errhandler(file, MPI_ERRORS_ARE_FATAL);
    return file;
}

/* Each collective call on a file, in the forms that there are. */
static void correct_files(void)
{
    MPI_File file = open_file(MPI_MODE_RDWR);
    MPI_Request request;
    MPI_File_set_atomicity(file, 1);
    MPI_File_set_atomicity(file, 0);
    MPI_File_set_info(file, MPI_INFO_NULL);
    MPI_File_preallocate(file, 4 * ROOM);
    MPI_File_set_size(file, 4 * ROOM);
    MPI_File_set_view(file, 4 * rank, MPI_INT, MPI_INT, "external32", MPI_INFO_NULL);
    /* Offsets and counts may differ. */
    MPI_File_write_at_all(file, rank, a, 1 + rank % 3, MPI_INT, MPI_STATUS_IGNORE);
    MPI_File_write_all(file, a, rank % 2, MPI_INT, MPI_STATUS_IGNORE);
    MPI_File_write_all_begin(file, a, 1, MPI_INT);
    MPI_File_write_all_end(file, a, MPI_STATUS_IGNORE);
    MPI_File_iread_at_all(file, 0, b, 1, MPI_INT, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
    MPI_File_seek_shared(file, 3, MPI_SEEK_SET);
    MPI_File_write_ordered(file, a, 1, MPI_INT, MPI_STATUS_IGNORE);
    MPI_File_read_ordered_begin(file, b, 1, MPI_INT);
    MPI_File_read_ordered_end(file, b, MPI_STATUS_IGNORE);
    MPI_File_sync(file);
    MPI_File_close(&file);
}

/* Rank 1 does something else with a file than the others do. Errors of files end the job, too. */
static void different_files(const char *what)
{
    MPI_File file;
    MPI_Request request;
    MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_ARE_FATAL);
    if (strcmp(what, "amode") == 0)
        open_file(wrong ? MPI_MODE_WRONLY : MPI_MODE_RDWR);
    else if (strcmp(what, "name") == 0)
        MPI_File_open(MPI_COMM_WORLD, wrong ? "/proc/self/status" : "/etc/passwd", MPI_MODE_RDONLY, MPI_INFO_NULL, &file);
    file = open_file(MPI_MODE_RDWR);
    if (strcmp(what, "call") == 0) {
        if (wrong)
            MPI_File_sync(file);
        else
            MPI_File_write_all(file, a, 1, MPI_INT, MPI_STATUS_IGNORE);
    } else if (strcmp(what, "split") == 0) {
        if (wrong)
            MPI_File_read_all_begin(file, a, 1, MPI_INT);
        else
            MPI_File_read_all(file, a, 1, MPI_INT, MPI_STATUS_IGNORE);
        MPI_File_read_all_end(file, a, MPI_STATUS_IGNORE);
    } else if (strcmp(what, "nonblocking") == 0) {
        if (wrong)
            MPI_File_iread_at_all(file, 0, a, 1, MPI_INT, &request);
        else
            MPI_File_iwrite_at_all(file, 0, a, 1, MPI_INT, &request);
        /* The error of a request has a handler: that of its file. */
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else if (strcmp(what, "size") == 0)
        MPI_File_set_size(file, 4 + wrong);
    else if (strcmp(what, "datarep") == 0)
        MPI_File_set_view(file, 0, MPI_INT, MPI_INT, wrong ? "internal" : "native", MPI_INFO_NULL);
    else if (strcmp(what, "seek") == 0)
        MPI_File_seek_shared(file, wrong, MPI_SEEK_SET);
    MPI_File_close(&file);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Comm other;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    wrong = rank == 1;
    if (strcmp(what, "") == 0) {
        correct();
        correct_files();
    }
    if (strncmp(what, "file-", 5) == 0)
        different_files(what + 5);
    if (strcmp(what, "operation") == 0) {
        if (wrong)
            MPI_Barrier(MPI_COMM_WORLD);
        else
            MPI_Bcast(a, 1, MPI_INT, 0, MPI_COMM_WORLD);
    } else if (strcmp(what, "form") == 0) {
        if (wrong)
            MPI_Ibcast(a, 1, MPI_INT, 0, MPI_COMM_WORLD, &request);
        else
            MPI_Bcast(a, 1, MPI_INT, 0, MPI_COMM_WORLD);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else if (strcmp(what, "root") == 0)
        MPI_Bcast(a, 1, MPI_INT, wrong, MPI_COMM_WORLD);
    else if (strcmp(what, "count") == 0)
        MPI_Bcast(a, wrong ? 5 : 4, MPI_INT, 0, MPI_COMM_WORLD);
    else if (strcmp(what, "type") == 0)
        MPI_Bcast(wrong ? (void *)d : (void *)a, wrong ? 2 : 4, wrong ? MPI_DOUBLE : MPI_INT, 0, MPI_COMM_WORLD);
    else if (strcmp(what, "op") == 0)
        MPI_Allreduce(a, b, 4, MPI_INT, wrong ? MPI_MAX : MPI_SUM, MPI_COMM_WORLD);
    else if (strcmp(what, "operands") == 0)
        MPI_Reduce(a, b, wrong ? 3 : 4, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    else if (strcmp(what, "gather") == 0)
        MPI_Gather(a, wrong ? 3 : 2, MPI_INT, b, 2, MPI_INT, 0, MPI_COMM_WORLD);
    else if (strcmp(what, "scatterv") == 0) {
        for (int i = 0; i < ranks; i++) {
            counts[i] = 2;
            places[i] = 2 * i;
        }
        MPI_Scatterv(a, counts, places, MPI_INT, b, wrong ? 1 : 2, MPI_INT, 0, MPI_COMM_WORLD);
    } else if (strcmp(what, "alltoallv") == 0) {
        for (int i = 0; i < ranks; i++) {
            counts[i] = 1 + (wrong && i == 0);
            places[i] = 2 * i;
        }
        int expected[ROOM];
        for (int i = 0; i < ranks; i++)
            expected[i] = 1;
        MPI_Alltoallv(a, counts, places, MPI_INT, b, expected, places, MPI_INT, MPI_COMM_WORLD);
    } else if (strcmp(what, "nonblocking") == 0) {
        MPI_Iallreduce(a, b, wrong ? 2 : 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else if (strcmp(what, "persistent") == 0)
        MPI_Bcast_init(a, 1, MPI_INT, wrong, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    else if (strcmp(what, "dup") == 0) {
        if (wrong)
            MPI_Comm_split(MPI_COMM_WORLD, 0, 0, &other);
        else
            MPI_Comm_dup(MPI_COMM_WORLD, &other);
    } else if (wrong && strncmp(what, "make-", 5) == 0) { /* a collective against each call that makes a communicator */
        MPI_Barrier(MPI_COMM_WORLD);
    } else if (strcmp(what, "make-cart") == 0) {
        int periodic = 0;
        MPI_Cart_create(MPI_COMM_WORLD, 1, &ranks, &periodic, 0, &other);
    } else if (strcmp(what, "make-graph") == 0) {
        MPI_Graph_create(MPI_COMM_WORLD, ranks, counts, places, 0, &other);
    } else if (strcmp(what, "make-dist-graph") == 0) {
        MPI_Dist_graph_create(MPI_COMM_WORLD, 0, a, a, a, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &other);
    } else if (strcmp(what, "make-adjacent") == 0) {
        MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 0, a, MPI_UNWEIGHTED, 0, a, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &other);
    } else if (strcmp(what, "make-intercomm") == 0) {
        MPI_Intercomm_create(MPI_COMM_WORLD, 0, MPI_COMM_SELF, 0, 3, &other);
    } else if (strcmp(what, "make-split-type") == 0) {
        MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &other);
    } else if (strcmp(what, "finalize") == 0) {
        if (!wrong)
            MPI_Barrier(MPI_COMM_WORLD);
    } else if (strcmp(what, "order") == 0) {
        MPI_Comm one, two;
        MPI_Comm_dup(MPI_COMM_WORLD, &one);
        MPI_Comm_set_name(one, "one");
        MPI_Comm_dup(MPI_COMM_WORLD, &two);
        MPI_Comm_set_name(two, "two");
        MPI_Barrier(wrong ? two : one);
        MPI_Barrier(wrong ? one : two);
    } else if (strcmp(what, "returned") == 0) {
        char text[MPI_MAX_ERROR_STRING];
        int length, class;
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        int code = MPI_Bcast(a, 1, MPI_INT, wrong, MPI_COMM_WORLD);
        MPI_Error_class(code, &class);
        MPI_Error_string(code, text, &length);
        printf("rank %d: class %s: %s\n", rank, class == MPI_ERR_ROOT ? "MPI_ERR_ROOT" : "another", text);
        MPI_Barrier(MPI_COMM_WORLD); /* all have returned: the communicator can be used */
    }
    MPI_Finalize();
    if (strcmp(what, "") == 0 && rank == 0)
        printf("all right\n");
    return 0;
}
