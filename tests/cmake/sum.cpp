// The same as sum.c, in C++.
#include <iostream>
#include <mpi.h>
#include <vector>

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank = 0, size = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    std::vector<int> one(1, rank + 1), sum(1, 0);
    MPI_Allreduce(one.data(), sum.data(), 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        std::cout << "sum over " << size << " ranks: " << sum[0] << "\n";
    MPI_Finalize();
    return sum[0] == size * (size + 1) / 2 ? 0 : 1;
}
