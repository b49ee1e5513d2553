/* pingpong [BYTES [ROUNDS]]: median half round trip between ranks 0 and 1, in microseconds, as one number. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

/* Round trips timed together: a clock read costs as much as a message on one node. */
enum { BATCH = 20, WARM_UP = 500 };

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void round_trip(int rank, char *bytes, int length)
{
    if (rank == 0) {
        MPI_Send(bytes, length, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
        MPI_Recv(bytes, length, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (rank == 1) {
        MPI_Recv(bytes, length, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(bytes, length, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
    }
}

int main(int argc, char **argv)
{
    int rank, length = argc > 1 ? atoi(argv[1]) : 8, batches = (argc > 2 ? atoi(argv[2]) : 20000) / BATCH;
    char *bytes = calloc(length + 1, 1);
    double *half = malloc((batches + 1) * sizeof(double));
    if (!bytes || !half || batches < 1)
        return 2;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < WARM_UP; i++)
        round_trip(rank, bytes, length);
    for (int batch = 0; batch < batches; batch++) {
        double began = MPI_Wtime();
        for (int i = 0; i < BATCH; i++)
            round_trip(rank, bytes, length);
        half[batch] = (MPI_Wtime() - began) / BATCH / 2;
    }
    qsort(half, batches, sizeof(double), ascending);
    if (rank == 0)
        printf("%.3f\n", half[batches / 2] * 1e6);
    MPI_Finalize();
    return 0;
}
