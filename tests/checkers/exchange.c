/*
 * Programs for memory checkers: `exchange WHAT`. Two ranks.
 *
 * Without an argument the program is right: it looks at every value that it has received, in every way, and
 * no checker may complain. Otherwise one rank makes a mistake that a checker must find:
 *
 * - `short BYTES` receives into a buffer with half of the bytes that it claims;
 * - `later BYTES` does the same with a request;
 * - `unset` sends memory that has no value;
 * - `items` receives items that lie behind the end of their memory;
 * - `collective` gives a broadcast too little memory.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank;

/* Branches on every byte: a checker reports a byte without a value. */
static int look(const unsigned char *bytes, size_t length, unsigned char expected)
{
    size_t wrong = 0;
    for (size_t i = 0; i < length; i++)
        if (bytes[i] != (unsigned char)(expected + i % 13))
            wrong++;
    if (wrong > 0)
        printf("rank %d: %zu of %zu bytes are wrong\n", rank, wrong, length);
    return wrong == 0;
}

static unsigned char *filled(size_t length, unsigned char value)
{
    unsigned char *bytes = malloc(length + 1);
    for (size_t i = 0; i < length; i++)
        bytes[i] = (unsigned char)(value + i % 13);
    return bytes;
}

/* All sizes, which take all protocols; both sides wait in their calls, or neither does, or one of them. */
static int right(void)
{
    const int sizes[] = {1, 8, 100, 3000, 20000, 70000, 300000, 3000000};
    int good = 1, peer = 1 - rank;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int way = 0; way < 6; way++) {
            int bytes = sizes[i];
            unsigned char *out = filled(bytes, (unsigned char)(rank + way));
            unsigned char *in = malloc(bytes);
            MPI_Request requests[2];
            if (way == 0) {
                if (rank == 0) {
                    MPI_Send(out, bytes, MPI_BYTE, peer, 1, MPI_COMM_WORLD);
                    MPI_Recv(in, bytes, MPI_BYTE, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                } else {
                    MPI_Recv(in, bytes, MPI_BYTE, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                    MPI_Send(out, bytes, MPI_BYTE, peer, 1, MPI_COMM_WORLD);
                }
            } else if (way == 1) {
                MPI_Irecv(in, bytes, MPI_BYTE, peer, 2, MPI_COMM_WORLD, &requests[0]);
                MPI_Barrier(MPI_COMM_WORLD);
                MPI_Isend(out, bytes, MPI_BYTE, peer, 2, MPI_COMM_WORLD, &requests[1]);
                MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
            } else if (way == 2) {
                MPI_Irecv(in, bytes, MPI_BYTE, MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, &requests[0]);
                MPI_Barrier(MPI_COMM_WORLD);
                MPI_Send(out, bytes, MPI_BYTE, peer, 3, MPI_COMM_WORLD);
                MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
            } else if (way == 3)
                MPI_Sendrecv(out, bytes, MPI_BYTE, peer, 4, in, bytes, MPI_BYTE, peer, 4, MPI_COMM_WORLD,
                             MPI_STATUS_IGNORE);
            else if (way == 4) {
                memcpy(in, out, bytes);
                MPI_Sendrecv_replace(in, bytes, MPI_BYTE, peer, 5, peer, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            } else {
                memcpy(in, out, bytes);
                MPI_Bcast(in, bytes, MPI_BYTE, 1, MPI_COMM_WORLD);
                if (rank == 1)
                    in[0] = (unsigned char)way;
            }
            good &= rank == 1 && way == 5 ? 1 : look(in, bytes, (unsigned char)(peer + way));
            free(out);
            free(in);
        }
    /* Items with gaps, which have no value and are not sent; the memory between the items that arrive keeps
     * its contents. */
    MPI_Datatype comb;
    int *apart = malloc(3000 * sizeof *apart), sum = 0, *total = malloc(sizeof *total);
    for (int i = 0; i < 3000; i += 3)
        apart[i] = i;
    MPI_Type_vector(1000, 1, 3, MPI_INT, &comb);
    MPI_Type_commit(&comb);
    if (rank == 0)
        MPI_Send(apart, 1, comb, 1, 6, MPI_COMM_WORLD);
    else {
        for (int i = 0; i < 3000; i += 3)
            apart[i] = -1;
        MPI_Recv(apart, 1, comb, 0, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    for (int i = 0; i < 3000; i += 3)
        sum += apart[i] == i;
    MPI_Allreduce(&sum, total, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    good &= *total == 2000;
    MPI_Type_free(&comb);
    free(apart);
    free(total);
    return good;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    int count = argc > 2 ? atoi(argv[2]) : 400, good = 1;
    MPI_Request request;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    unsigned char *half = calloc(count / 2, 1), *whole = calloc(count, 1), *unset = malloc(count);
    if (strcmp(what, "") == 0)
        good = right();
    else if (strcmp(what, "short") == 0) {
        if (rank == 0)
            MPI_Send(whole, count, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
        else
            MPI_Recv(half, count, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (strcmp(what, "later") == 0) {
        /* Little data comes, but the receive claims more room than there is. */
        if (rank == 0)
            MPI_Send(whole, 1, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
        else {
            MPI_Irecv(half, count, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
    } else if (strcmp(what, "unset") == 0) {
        if (rank == 0)
            MPI_Send(unset, count, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
        else
            MPI_Recv(whole, count, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (strcmp(what, "items") == 0) {
        MPI_Datatype comb;
        MPI_Type_vector(count / 8, 4, 8, MPI_BYTE, &comb);
        MPI_Type_commit(&comb);
        if (rank == 0)
            MPI_Send(whole, 1, comb, 1, 1, MPI_COMM_WORLD);
        else
            MPI_Recv(half, 1, comb, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Type_free(&comb);
    } else if (strcmp(what, "collective") == 0)
        MPI_Bcast(rank == 0 ? whole : half, count, MPI_BYTE, 0, MPI_COMM_WORLD);
    free(half);
    free(whole);
    free(unset);
    MPI_Finalize();
    if (rank == 0)
        printf("the end\n");
    return !good;
}
