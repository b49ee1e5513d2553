/* The time to open and close a file that all ranks share, µs. */
#include "files.h"

static double run(bench *b, size_t size, long iterations)
{
    double began = bench_now();
    (void)b;
    (void)size;
    for (long i = 0; i < iterations; i++) {
        files_open_mpi();
        MPI_File_close(&files.mpi);
    }
    return bench_now() - began;
}

static int measure(bench *b)
{
    static const bench_case c = {.unit = "us", .ranks_min = 1, .run = run, .value = bench_microseconds};
    int status;
    MPI_File_close(&files.mpi);
    status = bench_measure(b, &c);
    files_open_mpi();
    return status;
}

int main(int argc, char **argv)
{
    return files_main("file_open", "", "us", argc, argv, measure);
}
