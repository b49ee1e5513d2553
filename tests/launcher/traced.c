/* Two ranks whose packets and waits are known: for the suite `trace`.
 *
 *   traced exchange   rank 0 sends 20 messages of 64 bytes with tag 7, rank 1 one of 200000 bytes with tag 9;
 *                     then both end
 *   traced limited    the same, but no file may grow (`ulimit -f`)
 *   traced hang       each waits for a message that the other never sends: rank 0 with tag 42, rank 1 with
 *                     tag 43 */
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { SMALL = 20, SMALL_BYTES = 64, LARGE_BYTES = 200000, LIMIT_SECONDS = 60 };

static char large[LARGE_BYTES];

static void exchange(int rank)
{
    char small[SMALL_BYTES];
    for (int i = 0; i < SMALL; i++) {
        memset(small, i, sizeof small);
        if (rank == 0)
            MPI_Send(small, SMALL_BYTES, MPI_BYTE, 1, 7, MPI_COMM_WORLD);
        else
            MPI_Recv(small, SMALL_BYTES, MPI_BYTE, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    if (rank == 1)
        MPI_Send(large, LARGE_BYTES, MPI_BYTE, 0, 9, MPI_COMM_WORLD);
    else
        MPI_Recv(large, LARGE_BYTES, MPI_BYTE, 1, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv)
{
    int rank, ranks, never;
    /* The program ends in any case. */
    alarm(LIMIT_SECONDS);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc != 2 || ranks != 2) {
        fprintf(stderr, "usage: mpiexec -n 2 traced exchange|limited|hang\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    if (strcmp(argv[1], "limited") == 0)
        setrlimit(RLIMIT_FSIZE, &(struct rlimit){16, 16});
    exchange(rank);
    MPI_Barrier(MPI_COMM_WORLD);
    if (strcmp(argv[1], "hang") == 0) {
        printf("rank %d is process %d\n", rank, (int)getpid());
        fflush(stdout);
        MPI_Recv(&never, 1, MPI_INT, 1 - rank, 42 + rank, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    MPI_Finalize();
    return 0;
}
