/*
 * Reads and writes much, under a launcher: `stream LINES`. Rank 0 reads its standard input to the end; then
 * each rank writes so many lines of 64 bytes, and rank 0 says how many bytes it has read.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    int rank, lines = argc > 1 ? atoi(argv[1]) : 0;
    long bytes = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    while (rank == 0 && getchar() != EOF)
        bytes++;
    MPI_Bcast(&bytes, 1, MPI_LONG, 0, MPI_COMM_WORLD);
    for (int line = 0; line < lines; line++)
        printf("<%05d:%08d:%046ld>\n", rank, line, bytes);
    fflush(stdout);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        printf("rank 0 has read %ld bytes\n", bytes);
    MPI_Finalize();
    return 0;
}
