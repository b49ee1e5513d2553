/* The processor time that a nonblocking write or read leaves to the program: rank 0 starts one, computes
 * without a call to MPI for one and a half times as long as the transfer takes alone, and waits. The other
 * ranks are inside MPI. As in availability.c,
 *   overhead     = the whole - the work alone
 *   availability = 1 - overhead / transfer time
 * Each of the times is the shortest of a few: a disturbance only adds time. */
#include "files.h"

enum { REPEATS = 5, ATTEMPTS = 5 };

/* The work beside a transfer, in transfer times, and the least with which the transfer can be hidden. */
static const double work_per_transfer = 1.5, least_work = 1.2;
static double steps_per_second;

static void work(long steps)
{
    volatile unsigned long x = 1;
    for (long i = 0; i < steps; i++)
        x = x * 6364136223846793005UL + 1442695040888963407UL;
}

static double work_alone(long steps)
{
    double shortest = INFINITY;
    for (int i = 0; i < REPEATS; i++) {
        double began = bench_now(), took;
        work(steps);
        took = bench_now() - began;
        shortest = took < shortest ? took : shortest;
    }
    return shortest;
}

static double post_work_wait(bench *b, int size, long steps)
{
    double shortest = INFINITY;
    for (int i = 0; i < REPEATS; i++) {
        double began = bench_now(), took;
        if (files.writes)
            MPI_File_iwrite_at(files.mpi, 0, b->send, size, MPI_BYTE, b->requests);
        else
            MPI_File_iread_at(files.mpi, 0, b->receive, size, MPI_BYTE, b->requests);
        work(steps);
        MPI_Wait(b->requests, MPI_STATUS_IGNORE);
        took = bench_now() - began;
        shortest = took < shortest ? took : shortest;
    }
    return shortest;
}

/* What a rank wrote is what it reads through the same handle (MPI-5.0 §14.6.1). */
static int is_right(bench *b, size_t size, char why[BENCH_WHY_MAX])
{
    if (files.writes)
        MPI_File_read_at(files.mpi, 0, b->receive, (int)size, MPI_BYTE, MPI_STATUS_IGNORE);
    return bench_filled(b, b->receive, size, 0, why);
}

/* Takes a sample on rank 0 and prints it. Returns 0, or 1 when it is not valid. */
static int sample(bench *b, size_t size, int number)
{
    double transfer, alone, whole, overhead;
    long steps;
    char why[BENCH_WHY_MAX] = "";
    int right, enough;
    b->seed++;
    bench_buffers(b, size, size);
    bench_fill(b, b->send, size, 0);
    if (!files.writes)
        plain_write(files.content, b->send, size, 0);
    memset(b->receive, 0, size);
    transfer = post_work_wait(b, (int)size, 0);
    steps = (long)(transfer * work_per_transfer * steps_per_second);
    alone = work_alone(steps);
    /* The pace of the processor is not what it was when the steps were counted. */
    for (int attempt = 0; attempt < ATTEMPTS && alone < transfer * least_work; attempt++) {
        steps = (long)((double)steps * work_per_transfer * transfer / alone) + 1;
        alone = work_alone(steps);
    }
    whole = post_work_wait(b, (int)size, steps);
    overhead = whole - alone;
    right = is_right(b, size, why);
    enough = alone >= transfer * least_work;
    if (right && !enough)
        snprintf(why, sizeof why, "disturbed: the work is shorter than the transfer");
    json_open(b->measurement);
    json_integer("size", (long long)size);
    json_integer("ranks", b->ranks);
    json_text("kind", files.writes ? "write" : "read");
    json_text("unit", "percent");
    json_number("value", (1 - overhead / transfer) * 100);
    json_number("overhead_us", overhead * 1e6);
    json_number("transfer_us", transfer * 1e6);
    json_number("work_us", alone * 1e6);
    json_integer("iterations", REPEATS);
    json_integer("sample", number);
    json_true("checked", 1);
    json_true("valid", right && enough);
    if (!right || !enough)
        json_text("why", why);
    json_close();
    return !(right && enough);
}

static int measure(bench *b)
{
    int status = 0;
    if (b->rank == 0) {
        const long steps = 10000000;
        steps_per_second = (double)steps / work_alone(steps);
        for (int i = 0; i < b->sizes_count; i++)
            for (files.writes = 1; files.writes >= 0; files.writes--)
                for (int number = 0; number < b->samples; number++)
                    status |= sample(b, b->sizes[i], number);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    return status;
}

int main(int argc, char **argv)
{
    return files_main("file_availability", "64m", "percent", argc, argv, measure);
}
