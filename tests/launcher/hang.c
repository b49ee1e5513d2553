/*
 * A program that hangs as it is told, for the tests of mpiexec's explanations: `hang WHAT`. Each kind has one
 * culprit or one circle.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    int rank, ranks, value = 0;
    if (strcmp(what, "init") == 0 && getenv("PMI_RANK") && atoi(getenv("PMI_RANK")) == 0)
        pause();
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    if (strcmp(what, "circle") == 0) { /* all receive before they send */
        MPI_Recv(&value, 1, MPI_INT, before, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(&value, 1, MPI_INT, next, 7, MPI_COMM_WORLD);
    } else if (strcmp(what, "family") == 0) { /* rank 0 → spawned rank 1 → spawned rank 0 → rank 1 → rank 0 */
        char *arguments[] = {"family", NULL};
        MPI_Comm others;
        MPI_Comm_get_parent(&others);
        if (others == MPI_COMM_NULL)
            MPI_Comm_spawn(argv[0], arguments, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &others, MPI_ERRCODES_IGNORE);
        MPI_Recv(&value, 1, MPI_INT, 1 - rank, 7, rank == 0 ? others : MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (strcmp(what, "sends") == 0) { /* all send before they receive, more than is sent unasked */
        char *large = calloc(1 << 24, 1);
        MPI_Ssend(large, 1 << 24, MPI_CHAR, next, 7, MPI_COMM_WORLD);
        MPI_Recv(large, 1 << 24, MPI_CHAR, before, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (strcmp(what, "compute") == 0) { /* rank 0 does not come to the barrier */
        if (rank == 0)
            for (;;)
                pause();
        MPI_Barrier(MPI_COMM_WORLD);
    } else if (strcmp(what, "bcast") == 0) { /* the root does not come: on one node the others look into its memory */
        if (rank == 0)
            for (;;)
                pause();
        MPI_Bcast(&value, 1, MPI_INT, 0, MPI_COMM_WORLD);
    } else if (strcmp(what, "orders") == 0) { /* rank 0 begins with another communicator than the others */
        MPI_Comm twin;
        MPI_Comm_dup(MPI_COMM_WORLD, &twin);
        MPI_Comm_set_name(twin, "twin");
        MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_INT, MPI_SUM, rank == 0 ? twin : MPI_COMM_WORLD);
        MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_INT, MPI_SUM, rank == 0 ? MPI_COMM_WORLD : twin);
    } else if (strcmp(what, "finalize") == 0) { /* rank 0 has sent all its messages */
        if (rank != 0)
            MPI_Recv(&value, 1, MPI_INT, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (strncmp(what, "late-", 5) == 0) { /* the others finalize; the last rank needs something of the first, which tells it nothing by itself */
        MPI_Request request;
        if (rank == ranks - 1) {
            if (strcmp(what, "late-receive") == 0)
                MPI_Recv(&value, 1, MPI_INT, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            else if (strcmp(what, "late-wait") == 0) {
                MPI_Irecv(&value, 1, MPI_INT, 0, 7, MPI_COMM_WORLD, &request);
                MPI_Wait(&request, MPI_STATUS_IGNORE);
            } else if (strcmp(what, "late-probe") == 0)
                MPI_Probe(0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            else if (strcmp(what, "late-send") == 0)
                MPI_Ssend(&value, 1, MPI_INT, 0, 7, MPI_COMM_WORLD);
            else if (strcmp(what, "late-large") == 0)
                MPI_Send(calloc(1 << 24, 1), 1 << 24, MPI_CHAR, 0, 7, MPI_COMM_WORLD);
            else
                MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        }
    } else if (strcmp(what, "tag") == 0) { /* a message is there, with another tag */
        MPI_Comm halo;
        MPI_Comm_dup(MPI_COMM_WORLD, &halo);
        MPI_Comm_set_name(halo, "halo");
        MPI_Send(&value, 1, MPI_INT, next, 8, halo);
        MPI_Recv(&value, 1, MPI_INT, before, 9, halo, MPI_STATUS_IGNORE);
    } else if (strcmp(what, "any") == 0) { /* no rank is left that could send */
        MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (strcmp(what, "wait") == 0) { /* only one of the requests is waited for */
        MPI_Request requests[2];
        MPI_Irecv(&value, 1, MPI_INT, rank, 7, MPI_COMM_WORLD, &requests[0]);
        MPI_Irecv(&value, 1, MPI_INT, before, 8, MPI_COMM_WORLD, &requests[1]);
        if (rank == 0)
            for (;;)
                pause();
        MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
    } else if (strncmp(what, "file-", 5) == 0) {
        char name[100];
        const char *directory = getenv("TMPDIR");
        long number = (long)getpid();
        MPI_Bcast(&number, 1, MPI_LONG, 0, MPI_COMM_WORLD);
        snprintf(name, sizeof name, "%s/hang-%ld", directory ? directory : "/tmp", number);
        MPI_File file;
        MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
        int other = open(name, O_RDWR);
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0) /* the end of the job leaves nothing */
            unlink(name);
        if (strcmp(what, "file-write") == 0) { /* rank 0 does not come to the collective call */
            if (rank == 0)
                for (;;)
                    pause();
            MPI_File_write_at_all(file, rank, "x", 1, MPI_CHAR, MPI_STATUS_IGNORE);
        } else { /* rank 0 has locked the file, and does not give the lock back */
            MPI_Request request;
            MPI_File_set_atomicity(file, 1);
            if (rank == 0) {
                struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
                fcntl(other, F_OFD_SETLK, &lock);
                MPI_Barrier(MPI_COMM_WORLD);
                for (;;)
                    pause();
            }
            MPI_Barrier(MPI_COMM_WORLD);
            MPI_File_iwrite_at(file, rank, "x", 1, MPI_CHAR, &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
    } else if (strcmp(what, "probe") == 0) {
        if (rank == 0)
            for (;;)
                pause();
        MPI_Status status;
        MPI_Probe(0, 3, MPI_COMM_WORLD, &status);
    }
    MPI_Finalize();
    return 0;
}
