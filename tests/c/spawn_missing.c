/*
 * A spawn of a program that is not there (MPI-5.0 section 11.8.2) ends with one error at every process,
 * whatever the launcher knows: `spawn_missing SECONDS`, the longest wait.
 */
#include "check.h"

int main(int argc, char **argv)
{
    MPI_Comm none;
    MPI_Info info;
    int codes[] = {MPI_SUCCESS, MPI_SUCCESS};
    begin(&argc, &argv);
    STORY("11.8.2 a program that is not there");
    MPI_Info_create(&info);
    MPI_Info_set(info, "timeout", argv[1]);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    CHECK_CLASS(MPI_Comm_spawn("/weft/is/not/here", MPI_ARGV_NULL, 2, info, 0, MPI_COMM_WORLD, &none, codes), MPI_ERR_SPAWN);
    MPI_Info_free(&info);
    printf("rank %d has the error\n", rank);
    fflush(stdout);
    return end();
}
