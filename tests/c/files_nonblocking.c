/*
 * Section 14.4 of MPI 5.0, nonblocking access to files: by offsets, by individual and shared pointers, and
 * collectively. Passes on any MPI library with any number of ranks.
 */
#include "files.h"

enum { LENGTH = 50 };

/* -- The procedures, by number -- */

enum { AT, POINTER, SHARED, AT_ALL, ALL, KINDS };
static const char *const kinds[] = {"iwrite_at", "iwrite", "iwrite_shared", "iwrite_at_all", "iwrite_all"};

static void start_write(int kind, int large, MPI_File file, MPI_Offset at, const void *bytes, int count, MPI_Datatype type, MPI_Request *request)
{
    switch (kind) {
    case AT:
        WORKS(large ? MPI_File_iwrite_at_c(file, at, bytes, count, type, request) : MPI_File_iwrite_at(file, at, bytes, count, type, request));
        break;
    case POINTER:
        WORKS(large ? MPI_File_iwrite_c(file, bytes, count, type, request) : MPI_File_iwrite(file, bytes, count, type, request));
        break;
    case SHARED:
        WORKS(large ? MPI_File_iwrite_shared_c(file, bytes, count, type, request) : MPI_File_iwrite_shared(file, bytes, count, type, request));
        break;
    case AT_ALL:
        WORKS(large ? MPI_File_iwrite_at_all_c(file, at, bytes, count, type, request) : MPI_File_iwrite_at_all(file, at, bytes, count, type, request));
        break;
    default:
        WORKS(large ? MPI_File_iwrite_all_c(file, bytes, count, type, request) : MPI_File_iwrite_all(file, bytes, count, type, request));
    }
}

static void start_read(int kind, int large, MPI_File file, MPI_Offset at, void *bytes, int count, MPI_Datatype type, MPI_Request *request)
{
    switch (kind) {
    case AT:
        WORKS(large ? MPI_File_iread_at_c(file, at, bytes, count, type, request) : MPI_File_iread_at(file, at, bytes, count, type, request));
        break;
    case POINTER:
        WORKS(large ? MPI_File_iread_c(file, bytes, count, type, request) : MPI_File_iread(file, bytes, count, type, request));
        break;
    case SHARED:
        WORKS(large ? MPI_File_iread_shared_c(file, bytes, count, type, request) : MPI_File_iread_shared(file, bytes, count, type, request));
        break;
    case AT_ALL:
        WORKS(large ? MPI_File_iread_at_all_c(file, at, bytes, count, type, request) : MPI_File_iread_at_all(file, at, bytes, count, type, request));
        break;
    default:
        WORKS(large ? MPI_File_iread_all_c(file, bytes, count, type, request) : MPI_File_iread_all(file, bytes, count, type, request));
    }
}

/* Completes a request in one of several ways; returns its status. */
static MPI_Status complete(MPI_Request *request, int how)
{
    MPI_Status status;
    int done = 0, index = -1, count = 0;
    switch (how % 6) {
    case 0:
        WORKS(MPI_Wait(request, &status));
        break;
    case 1:
        while (!done)
            WORKS(MPI_Test(request, &done, &status));
        break;
    case 2:
        WORKS(MPI_Waitany(1, request, &index, &status));
        CHECK_EQUAL(index, 0);
        break;
    case 3:
        WORKS(MPI_Waitsome(1, request, &count, &index, &status));
        CHECK_EQUAL(count, 1);
        break;
    case 4:
        WORKS(MPI_Waitall(1, request, &status));
        break;
    default:
        while (!done)
            WORKS(MPI_Request_get_status(*request, &done, &status));
        WORKS(MPI_Wait(request, &status));
    }
    CHECK(*request == MPI_REQUEST_NULL, "not null at the end");
    return status;
}

static void each_kind(void)
{
    for (int kind = 0; kind < KINDS; kind++)
        for (int turn = 0; turn < 6; turn++) {
            static char title[100];
            snprintf(title, sizeof title, "14.4 %s%s, completed in way %d", kinds[kind], turn % 2 ? "_c" : "", turn);
            STORY(title);
            int values[LENGTH], got[LENGTH];
            MPI_Request request = MPI_REQUEST_NULL;
            for (int i = 0; i < LENGTH; i++)
                values[i] = 1000 * rank + i;
            MPI_File file = open_new("kinds");
            WORKS(MPI_File_set_view(file, 5, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
            WORKS(MPI_File_seek(file, LENGTH * rank, MPI_SEEK_SET));
            start_write(kind, turn % 2, file, LENGTH * rank, values, LENGTH, MPI_INT, &request);
            /* §14.4.3: the pointer moves when the access begins, not when it ends. */
            CHECK_EQUAL(position_of(file), LENGTH * (rank + (kind == POINTER || kind == ALL)));
            MPI_Status status = complete(&request, turn);
            CHECK_EQUAL(count_of(&status, MPI_INT), LENGTH);
            WORKS(MPI_File_sync(file));
            MPI_Barrier(MPI_COMM_WORLD);
            WORKS(MPI_File_sync(file));
            CHECK_EQUAL(disk_size("kinds"), 5 + 4 * LENGTH * ranks);
            if (kind == SHARED)
                CHECK_EQUAL(shared_position_of(file), LENGTH * ranks);
            MPI_Barrier(MPI_COMM_WORLD);
            WORKS(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
            WORKS(MPI_File_seek(file, LENGTH * rank, MPI_SEEK_SET));
            memset(got, -1, sizeof got);
            start_read(kind, turn % 2, file, LENGTH * rank, got, LENGTH, MPI_INT, &request);
            status = complete(&request, turn + 1);
            CHECK_EQUAL(count_of(&status, MPI_INT), LENGTH);
            /* Blocks lie in any order if they were written by the shared pointer. */
            int from = got[0] / 1000, wrong = from != rank && kind != SHARED;
            for (int i = 0; i < LENGTH; i++)
                wrong += got[i] != 1000 * from + i;
            CHECK(wrong == 0, "%d wrong, the first is %d", wrong, got[0]);
            int sum = 0;
            MPI_Allreduce(&from, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
            CHECK_EQUAL(sum, ranks * (ranks - 1) / 2);
            close_and_remove(&file, "kinds");
        }
}

static void many_at_once(void)
{
    STORY("14.4 many accesses at once, completed in another order");
    enum { MANY = 300 };
    static int values[MANY][3], got[MANY][3];
    static MPI_Request requests[MANY];
    static MPI_Status statuses[MANY];
    MPI_Datatype type, tile;
    MPI_Type_contiguous(3, MPI_INT, &type);
    MPI_Type_create_resized(type, 0, 12 * ranks, &tile);
    MPI_Type_commit(&tile);
    MPI_Type_free(&type);
    for (int i = 0; i < 3 * MANY; i++)
        values[i / 3][i % 3] = 10000 * rank + i;
    MPI_File file = open_new("many");
    WORKS(MPI_File_set_view(file, 12 * rank, MPI_INT, tile, "native", MPI_INFO_NULL));
    MPI_Type_free(&tile);
    for (int i = 0; i < MANY; i++) {
        int at = i * 7 % MANY;
        WORKS(MPI_File_iwrite_at(file, 3 * at, values[at], 3, MPI_INT, &requests[i]));
    }
    for (int i = 0; i < MANY / 2; i++)
        WORKS(MPI_Wait(&requests[MANY - 1 - i], &statuses[0]));
    WORKS(MPI_Waitall(MANY, requests, MPI_STATUSES_IGNORE));
    for (int i = 0; i < MANY; i++)
        WORKS(MPI_File_iread_at(file, 3 * i, got[i], 3, MPI_INT, &requests[i]));
    WORKS(MPI_Waitall(MANY, requests, statuses));
    for (int i = 0; i < MANY; i++) {
        CHECK_EQUAL(count_of(&statuses[i], MPI_INT), 3);
        CHECK(!memcmp(got[i], values[i], sizeof got[i]), "%d: %d %d %d", i, got[i][0], got[i][1], got[i][2]);
    }

    STORY("14.4.3 many accesses by the individual pointer, each begins where the last one will end");
    WORKS(MPI_File_seek(file, 0, MPI_SEEK_SET));
    for (int i = 0; i < MANY; i++)
        WORKS(MPI_File_iread(file, got[MANY - 1 - i], 3, MPI_INT, &requests[i]));
    CHECK_EQUAL(position_of(file), 3 * MANY);
    int left = MANY;
    while (left > 0) {
        int count = 0, indices[MANY];
        WORKS(MPI_Waitsome(MANY, requests, &count, indices, statuses));
        left -= count > 0 ? count : left;
    }
    for (int i = 0; i < MANY; i++)
        CHECK(!memcmp(got[MANY - 1 - i], values[i], sizeof got[i]), "%d: %d %d %d", i, got[i][0], got[i][1], got[i][2]);
    close_and_remove(&file, "many");
}

static void with_messages(void)
{
    STORY("14.4 accesses and messages in one array of requests");
    MPI_Request requests[5];
    MPI_Status statuses[5];
    int values[2] = {rank, 7 * rank}, got[2] = {-1, -1}, from = -1, sum = -1, next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    MPI_File file = open_new("messages");
    WORKS(MPI_File_iwrite_at(file, 8 * rank, values, 8, MPI_BYTE, &requests[0]));
    MPI_Irecv(&from, 1, MPI_INT, before, 5, MPI_COMM_WORLD, &requests[1]);
    MPI_Isend(&rank, 1, MPI_INT, next, 5, MPI_COMM_WORLD, &requests[2]);
    MPI_Iallreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[3]);
    requests[4] = MPI_REQUEST_NULL;
    WORKS(MPI_Waitall(5, requests, statuses));
    CHECK_EQUAL(count_of(&statuses[0], MPI_BYTE), 8);
    CHECK(from == before && sum == ranks * (ranks - 1) / 2, "%d, %d", from, sum);
    WORKS(MPI_File_iread_at(file, 8 * rank, got, 8, MPI_BYTE, &requests[0]));
    MPI_Irecv(&from, 1, MPI_INT, before, 6, MPI_COMM_WORLD, &requests[1]);
    MPI_Isend(&rank, 1, MPI_INT, next, 6, MPI_COMM_WORLD, &requests[2]);
    int done = left_out("testall");
    while (!done)
        WORKS(MPI_Testall(3, requests, &done, statuses));
    WORKS(MPI_Waitall(3, requests, statuses));
    CHECK(got[0] == rank && got[1] == 7 * rank && from == before, "%d %d, %d", got[0], got[1], from);
    close_and_remove(&file, "messages");
}

static void collective(void)
{
    STORY("14.6.5 several collective accesses at once, begun in the same order by all ranks");
    enum { TURNS = 10 };
    int values[TURNS][4], got[TURNS][4];
    MPI_Request requests[TURNS];
    MPI_Status statuses[TURNS];
    MPI_Datatype type, tile;
    MPI_Type_contiguous(4, MPI_INT, &type);
    MPI_Type_create_resized(type, 0, 16 * ranks, &tile);
    MPI_Type_commit(&tile);
    MPI_Type_free(&type);
    MPI_File file = open_new("collective"), other = open_new("other");
    WORKS(MPI_File_set_view(file, 16 * rank, MPI_INT, tile, "native", MPI_INFO_NULL));
    WORKS(MPI_File_set_view(other, 16 * rank, MPI_INT, tile, "native", MPI_INFO_NULL));
    MPI_Type_free(&tile);
    for (int i = 0; i < TURNS; i++) {
        for (int k = 0; k < 4; k++)
            values[i][k] = 1000 * rank + 10 * i + k;
        WORKS(i % 2 ? MPI_File_iwrite_all(file, values[i], 4, MPI_INT, &requests[i]) : MPI_File_iwrite_at_all(other, 4 * i, values[i], 4, MPI_INT, &requests[i]));
    }
    MPI_Barrier(MPI_COMM_WORLD); /* a collective of another kind in between */
    for (int i = 0; i < TURNS; i++)
        WORKS(MPI_Wait(&requests[(i + 5) % TURNS], &statuses[i]));
    for (int i = 0; i < TURNS; i++)
        WORKS(i % 2 ? MPI_File_iread_at_all(file, 4 * (i / 2), got[i], 4, MPI_INT, &requests[i]) : MPI_File_iread_at_all(other, 4 * i, got[i], 4, MPI_INT, &requests[i]));
    WORKS(MPI_Waitall(TURNS, requests, statuses));
    for (int i = 0; i < TURNS; i++) {
        CHECK_EQUAL(count_of(&statuses[i], MPI_INT), 4);
        CHECK(!memcmp(got[i], values[i], sizeof got[i]), "%d: %d", i, got[i][0]);
    }

    STORY("14.6.5 ranks that give nothing to a collective access, and complete it at other times");
    int value = 5 * rank, is_in = rank % 2 == 0, back = -1;
    WORKS(MPI_File_iwrite_at_all(file, 100, &value, is_in, MPI_INT, &requests[0]));
    if (!is_in)
        WORKS(MPI_Wait(&requests[0], &statuses[0]));
    MPI_Barrier(MPI_COMM_WORLD);
    if (is_in)
        WORKS(MPI_Wait(&requests[0], &statuses[0]));
    CHECK_EQUAL(count_of(&statuses[0], MPI_INT), is_in);
    WORKS(MPI_File_iread_at_all(file, 100, &back, is_in, MPI_INT, &requests[0]));
    WORKS(MPI_Wait(&requests[0], &statuses[0]));
    CHECK_EQUAL(back, is_in ? value : -1);
    close_and_remove(&file, "collective");
    close_and_remove(&other, "other");
}

static void types_and_ends(void)
{
    STORY("14.4 memory with holes, and types that are freed while the access goes on");
    int matrix[20][3], back[20][3];
    MPI_Datatype column, holes;
    MPI_Request request;
    MPI_Status status;
    for (int i = 0; i < 60; i++)
        matrix[i / 3][i % 3] = 100 * rank + i;
    memset(back, -1, sizeof back);
    MPI_Type_vector(20, 1, 3, MPI_INT, &column);
    MPI_Type_commit(&column);
    MPI_Type_vector(4, 1, ranks, MPI_INT, &holes);
    MPI_Datatype tile;
    MPI_Type_create_resized(holes, 0, 16 * ranks, &tile);
    MPI_Type_commit(&tile);
    MPI_Type_free(&holes);
    MPI_File file = open_new("types");
    WORKS(MPI_File_set_view(file, 4 * rank, MPI_INT, tile, "native", MPI_INFO_NULL));
    MPI_Type_free(&tile);
    WORKS(MPI_File_iwrite_at(file, 0, &matrix[0][1], 1, column, &request));
    WORKS(MPI_Wait(&request, &status));
    CHECK_EQUAL(count_of(&status, MPI_INT), 20);
    WORKS(MPI_File_iread_at(file, 0, &back[0][2], 1, column, &request));
    MPI_Type_free(&column);
    WORKS(MPI_Wait(&request, &status));
    for (int i = 0; i < 20; i++)
        CHECK(back[i][2] == matrix[i][1] && back[i][1] == -1 && back[i][0] == -1, "row %d: %d", i, back[i][2]);

    STORY("14.4 reading at the end of the file, and accesses of nothing");
    int got[30];
    WORKS(MPI_File_sync(file));
    MPI_Barrier(MPI_COMM_WORLD);
    WORKS(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    WORKS(MPI_File_iread_at(file, 20 * ranks - 7, got, 30, MPI_INT, &request));
    WORKS(MPI_Wait(&request, &status));
    CHECK_EQUAL(count_of(&status, MPI_INT), 7);
    WORKS(MPI_File_iread_at(file, 20 * ranks + 5, got, 30, MPI_INT, &request));
    WORKS(MPI_Wait(&request, &status));
    CHECK_EQUAL(count_of(&status, MPI_INT), 0);
    WORKS(MPI_File_iread_at_all(file, 20 * ranks - 7, got, 30, MPI_INT, &request));
    WORKS(MPI_Wait(&request, &status));
    if (!left_out("short-collective"))
        CHECK_EQUAL(count_of(&status, MPI_INT), 7);
    for (int kind = 0; kind < KINDS; kind++) {
        start_write(kind, 0, file, 0, NULL, 0, MPI_INT, &request);
        WORKS(MPI_Wait(&request, &status));
        CHECK_EQUAL(count_of(&status, MPI_INT), 0);
        start_read(kind, 0, file, 0, NULL, 0, MPI_INT, &request);
        WORKS(MPI_Wait(&request, &status));
        CHECK_EQUAL(count_of(&status, MPI_INT), 0);
    }
    CHECK_EQUAL(size_of_file(file), 80 * ranks);
    close_and_remove(&file, "types");
}

/* The error of an access is that of the call which starts it, or that of the call which completes it. */
static int class_of_access(int code, MPI_Request *request)
{
    int class = -1;
    MPI_Status status;
    if (code == MPI_SUCCESS)
        code = MPI_Wait(request, &status);
    MPI_Error_class(code, &class);
    return class;
}

static void refused(void)
{
    STORY("14.4 accesses that the mode forbids: no request is left");
    MPI_Request request = MPI_REQUEST_NULL;
    int value = 1, code;
    disk_write("refused", "0123456789", 10);
    MPI_File file = open_in(MPI_COMM_WORLD, "refused", MPI_MODE_RDONLY);
    code = MPI_File_iwrite_at(file, 0, &value, 4, MPI_BYTE, &request);
    CHECK_EQUAL(class_of_access(code, &request), MPI_ERR_READ_ONLY);
    code = MPI_File_iwrite(file, &value, 4, MPI_BYTE, &request);
    CHECK_EQUAL(class_of_access(code, &request), MPI_ERR_READ_ONLY);
    code = MPI_File_iwrite_all(file, &value, 4, MPI_BYTE, &request);
    int class = class_of_access(code, &request);
    if (!left_out("read-only-collective"))
        CHECK_EQUAL(class, MPI_ERR_READ_ONLY);
    CHECK_CLASS(MPI_File_iread_at(file, -1, &value, 4, MPI_BYTE, &request), MPI_ERR_ARG);
    WORKS(MPI_File_close(&file));
    file = open_in(MPI_COMM_WORLD, "refused", MPI_MODE_WRONLY);
    code = MPI_File_iread_at(file, 0, &value, 4, MPI_BYTE, &request);
    CHECK_EQUAL(class_of_access(code, &request), MPI_ERR_ACCESS);
    code = MPI_File_iread_shared(file, &value, 4, MPI_BYTE, &request);
    class = class_of_access(code, &request);
    if (!left_out("write-only-shared"))
        CHECK_EQUAL(class, MPI_ERR_ACCESS);
    WORKS(MPI_File_close(&file));
    char found[11] = "";
    disk_read("refused", 0, found, 10);
    CHECK(!strcmp(found, "0123456789"), "%s", found);
    disk_remove("refused");
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    open_directory(argc > 1 ? argv[1] : NULL);
    each_kind();
    many_at_once();
    with_messages();
    collective();
    types_and_ends();
    refused();
    close_directory();
    return end();
}
