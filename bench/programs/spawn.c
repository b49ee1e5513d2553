/* The time to spawn a job from one process, rank 0, and to part from it, µs. The children run this program,
 * too. */
#include "common.h"

#include <unistd.h>

static char program[4096];
static double children_wanted = 1;

static double run(bench *b, size_t size, long iterations)
{
    double began = bench_now();
    (void)size;
    for (long i = 0; b->rank == 0 && i < iterations; i++) {
        MPI_Comm children;
        MPI_Comm_spawn(program, MPI_ARGV_NULL, (int)children_wanted, MPI_INFO_NULL, 0, MPI_COMM_SELF, &children, MPI_ERRCODES_IGNORE);
        MPI_Comm_disconnect(&children);
    }
    return bench_now() - began;
}

/* The children answer: as many as were asked for, each with its rank. */
static int check(const bench *b, size_t size, char why[BENCH_WHY_MAX])
{
    MPI_Comm children;
    int remote = -1;
    (void)size;
    if (b->rank != 0)
        return 1;
    MPI_Comm_spawn(program, MPI_ARGV_NULL, (int)children_wanted, MPI_INFO_NULL, 0, MPI_COMM_SELF, &children, MPI_ERRCODES_IGNORE);
    MPI_Comm_remote_size(children, &remote);
    MPI_Comm_disconnect(&children);
    if (remote == (int)children_wanted)
        return 1;
    snprintf(why, BENCH_WHY_MAX, "the new job has %d processes and not %d", remote, (int)children_wanted);
    return 0;
}

int main(int argc, char **argv)
{
    static const bench_case c = {.unit = "us", .ranks_min = 1, .run = run, .check = check, .value = bench_microseconds};
    static const bench_option options[] = {{"--children", &children_wanted, NULL, "processes of the new job (1)"}};
    MPI_Comm parent;
    bench b;
    int status = 1;
    /* A child has no options, and prints nothing. */
    if (argc == 1) {
        MPI_Init(&argc, &argv);
        MPI_Comm_get_parent(&parent);
        if (parent != MPI_COMM_NULL)
            MPI_Comm_disconnect(&parent);
        else
            fprintf(stderr, "spawn: it needs an option, such as --samples 3\n");
        MPI_Finalize();
        return 0;
    }
    bench_start(&b, "spawn", "", &argc, &argv, options, 1);
    if (readlink("/proc/self/exe", program, sizeof program - 1) > 0)
        status = bench_measure(&b, &c);
    else
        bench_failed(&b, 1, "us", "the path of the program cannot be read");
    return bench_end(&b, status);
}
