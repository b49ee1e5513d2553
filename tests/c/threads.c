/* MPI_THREAD_MULTIPLE: many threads of every rank send, receive, wait and call collectives at the same time
 * (MPI-5.0 §11.6). */
#include "check.h"

#include <pthread.h>

enum { THREADS = 4, ROUNDS = 200 };

static MPI_Comm comms[THREADS];
static int next, previous;

static void *messages(void *argument)
{
    int id = (int)(intptr_t)argument;
    unsigned char *out = memory(70000), *in = memory(70000);
    for (int i = 0; i < ROUNDS; i++) {
        int length = i % 20 == 19 ? 70000 : i % 5 * 300, count;
        MPI_Status status;
        fill(out, length, rank, id * ROUNDS + i);
        MPI_Sendrecv(out, length, MPI_BYTE, next, id, in, 70000, MPI_BYTE, previous, id, MPI_COMM_WORLD, &status);
        MPI_Get_count(&status, MPI_BYTE, &count);
        CHECK_EQUAL(count, length);
        CHECK_EQUAL(wrong_bytes(in, count, previous, id * ROUNDS + i), 0);
    }
    free(out);
    free(in);
    return NULL;
}

static void *requests(void *argument)
{
    int id = (int)(intptr_t)argument;
    for (int i = 0; i < ROUNDS; i++) {
        int out[8], in[8], flag = 0;
        MPI_Request request[16];
        for (int k = 0; k < 8; k++) {
            out[k] = rank * 1000 + i + k;
            MPI_Irecv(&in[k], 1, MPI_INT, previous, 100 + id * 8 + k, MPI_COMM_WORLD, &request[k]);
        }
        for (int k = 0; k < 8; k++)
            MPI_Isend(&out[k], 1, MPI_INT, next, 100 + id * 8 + k, MPI_COMM_WORLD, &request[8 + k]);
        if (i % 2)
            MPI_Waitall(16, request, MPI_STATUSES_IGNORE);
        else
            while (!flag)
                MPI_Testall(16, request, &flag, MPI_STATUSES_IGNORE);
        for (int k = 0; k < 8; k++)
            CHECK_EQUAL(in[k], previous * 1000 + i + k);
    }
    return NULL;
}

static void *collectives(void *argument)
{
    int id = (int)(intptr_t)argument;
    for (int i = 0; i < ROUNDS; i++) {
        int mine = rank + id + i, total, root = i % ranks, got = rank == root ? i : -1;
        MPI_Allreduce(&mine, &total, 1, MPI_INT, MPI_SUM, comms[id]);
        CHECK_EQUAL(total, ranks * (ranks - 1) / 2 + ranks * (id + i));
        MPI_Bcast(&got, 1, MPI_INT, root, comms[id]);
        CHECK_EQUAL(got, i);
    }
    return NULL;
}

/* One thread blocks in a receive that only another thread of the same rank satisfies. */
static void *receiver(void *argument)
{
    int *got = argument;
    MPI_Recv(got, 1, MPI_INT, rank, 900, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return NULL;
}

static void run(void *(*work)(void *), const char *name)
{
    pthread_t threads[THREADS];
    STORY(name);
    for (int id = 1; id < THREADS; id++)
        pthread_create(&threads[id], NULL, work, (void *)(intptr_t)id);
    work((void *)0);
    for (int id = 1; id < THREADS; id++)
        pthread_join(threads[id], NULL);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void *everything(void *argument)
{
    int id = (int)(intptr_t)argument;
    return id == 0 ? messages(argument) : id == 1 ? requests(argument) : collectives(argument);
}

int main(int argc, char **argv)
{
    CHECK_EQUAL(begin_threads(&argc, &argv), MPI_THREAD_MULTIPLE);
    next = (rank + 1) % ranks;
    previous = (rank + ranks - 1) % ranks;
    for (int id = 0; id < THREADS; id++)
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[id]);
    run(messages, "messages from all threads");
    run(requests, "requests from all threads");
    run(collectives, "collectives from all threads");
    run(everything, "everything at once");

    STORY("§11.6.1 a thread waits for another one");
    pthread_t thread;
    int got = -1, value = 42;
    pthread_create(&thread, NULL, receiver, &got);
    usleep(5000);
    MPI_Send(&value, 1, MPI_INT, rank, 900, MPI_COMM_WORLD);
    pthread_join(thread, NULL);
    CHECK_EQUAL(got, 42);
    for (int id = 0; id < THREADS; id++)
        MPI_Comm_free(&comms[id]);
    return end();
}
