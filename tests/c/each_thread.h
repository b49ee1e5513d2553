/* Threads that call at the same time, each on a communicator of its own. */
#include "check.h"

#include <pthread.h>

enum { THREADS = 3 };

/* Runs `work` in each thread, with a pointer to the thread's communicator. */
static void in_each_thread(void *(*work)(void *comm))
{
    pthread_t running[THREADS];
    MPI_Comm comms[THREADS];
    for (int at = 0; at < THREADS; at++)
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[at]);
    for (int at = 0; at < THREADS; at++)
        pthread_create(&running[at], NULL, work, &comms[at]);
    for (int at = 0; at < THREADS; at++)
        pthread_join(running[at], NULL);
    for (int at = 0; at < THREADS; at++)
        MPI_Comm_free(&comms[at]);
}
