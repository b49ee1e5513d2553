/* More than 2 GiB and more than 2^31 items in one message (MPI-5.0 §3.2.2, §3.2.5). The buffers are large
 * only as addresses: the same 2 MiB of memory are mapped one after the other, so the program needs little
 * memory, and takes as long as the copies do. */
#define _GNU_SOURCE
#include "check.h"
#include <sys/mman.h>

static const size_t window = 2 << 20;
static const MPI_Count items = ((MPI_Count)1 << 31) + 4096;

static unsigned char *repeated(size_t bytes)
{
    int file = memfd_create("window", 0);
    if (file < 0 || ftruncate(file, (off_t)window) != 0) {
        perror("memory");
        _exit(5);
    }
    size_t length = (bytes + window - 1) / window * window;
    unsigned char *start = mmap(NULL, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    for (size_t at = 0; start != MAP_FAILED && at < length; at += window)
        if (mmap(start + at, window, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) == MAP_FAILED)
            start = MAP_FAILED;
    if (start == MAP_FAILED) {
        perror("mapping");
        _exit(5);
    }
    close(file);
    return start;
}

static void check_counts(const MPI_Status *status)
{
    MPI_Count wide = 0;
    int narrow = 0;
    MPI_Get_count_c(status, MPI_BYTE, &wide);
    CHECK_EQUAL(wide, items);
    MPI_Get_elements_c(status, MPI_BYTE, &wide);
    CHECK_EQUAL(wide, items);
    MPI_Get_count(status, MPI_BYTE, &narrow); /* §3.2.5: it does not fit */
    CHECK_EQUAL(narrow, MPI_UNDEFINED);
    CHECK_EQUAL(status->MPI_SOURCE, 0);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    unsigned char *buffer = repeated((size_t)items);
    MPI_Status status;
    MPI_Datatype page;
    MPI_Type_contiguous(4096, MPI_BYTE, &page);
    MPI_Type_commit(&page);

    STORY("more than 2^31 items");
    if (rank == 0) {
        fill(buffer, window, 0, 1);
        MPI_Send_c(buffer, items, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
    } else if (rank == 1) {
        MPI_Recv_c(buffer, items, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &status);
        check_counts(&status);
        CHECK_EQUAL(wrong_bytes(buffer, window, 0, 1), 0);
    }

    STORY("more than 2 GiB of a datatype, with int counts, back");
    if (rank == 1) {
        fill(buffer, window, 1, 2);
        MPI_Request request;
        MPI_Isend(buffer, (int)(items / 4096), page, 0, 2, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else if (rank == 0 && ranks > 1) {
        int pages = 0;
        MPI_Recv(buffer, (int)(items / 4096), page, 1, 2, MPI_COMM_WORLD, &status);
        MPI_Get_count(&status, page, &pages);
        CHECK_EQUAL(pages, items / 4096);
        CHECK_EQUAL(wrong_bytes(buffer, window, 1, 2), 0);
    }

    STORY("one more item than the buffer has");
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    if (rank == 0)
        MPI_Send_c(buffer, items, MPI_BYTE, 1, 3, comm);
    else if (rank == 1)
        CHECK_CLASS(MPI_Recv_c(buffer, items - 1, MPI_BYTE, 0, 3, comm, MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE);
    MPI_Comm_free(&comm);

    STORY("a broadcast of more than 2^31 items");
    memset(buffer, rank, window);
    if (rank == 0)
        fill(buffer, window, 0, 4);
    MPI_Bcast_c(buffer, items, MPI_BYTE, 0, MPI_COMM_WORLD);
    CHECK_EQUAL(wrong_bytes(buffer, window, 0, 4), 0);
    MPI_Type_free(&page);
    return end();
}
