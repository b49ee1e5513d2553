/* Sums of floating-point numbers of very different size, by all operations that sum: prints their bits. */
#include "check.h"

enum { COUNT = 3000 };

static uint64_t digest(const double *values, int count)
{
    uint64_t state = 1469598103934665603u;
    for (int i = 0; i < count; i++) {
        uint64_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        state = (state ^ bits) * 1099511628211u;
    }
    return state;
}

int main(int argc, char **argv)
{
    static const int counts[] = {1, 100, COUNT};
    static double mine[COUNT], sum[COUNT];
    begin(&argc, &argv);
    for (int i = 0; i < COUNT; i++)
        mine[i] = (rank % 2 ? -1e9 : 1.0) / (1 + rank * 31 + i % 97);
    for (int at = 0; at < 3; at++) {
        MPI_Allreduce(mine, sum, counts[at], MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        if (rank == 0)
            printf("allreduce of %d: %016llx\n", counts[at], (unsigned long long)digest(sum, counts[at]));
        MPI_Reduce(mine, sum, counts[at], MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
        if (rank == 0)
            printf("reduce of %d: %016llx\n", counts[at], (unsigned long long)digest(sum, counts[at]));
    }
    return end();
}
