/* The first half of the ranks waits, each in its way, for the second half, which sends nothing:
 * `vanish gone`, `vanish leaves` or `vanish slow SECONDS`.
 *
 * The second half computes: for ever, until it exits without MPI_Finalize, or for SECONDS seconds. A rank
 * that would wait for ever must hear of it by an error; the job then ends with code 42. */
#include "check.h"

enum { TAG = 5, HEARD = 42, FOREVER_SECONDS = 40, WAYS = 10, LARGE = 8 << 20, SMALL = 4000, MANY = 3000 };

static const char *const ways[WAYS] = {
    "MPI_Recv",    "MPI_Recv from anybody",  "MPI_Probe",           "MPI_Wait",     "MPI_Ssend",
    "MPI_Barrier", "MPI_Send of 8 MB",       "MPI_Recv of 8 MB",    "many MPI_Send", "MPI_Test"};

static char bytes[LARGE];

/* Waits for rank `peer` in way `way`, for the pair's own communicator `pair`. */
static int wait_for(int way, int peer, MPI_Comm pair)
{
    int value = 0, code = MPI_SUCCESS, done = 0;
    MPI_Status status;
    MPI_Request request;
    switch (way) {
    case 0:
        return MPI_Recv(&value, 1, MPI_INT, peer, TAG, MPI_COMM_WORLD, &status);
    case 1:
        return MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, &status);
    case 2: {
        int code = MPI_Probe(peer, TAG, MPI_COMM_WORLD, &status);
        return code ? code : MPI_Recv(&value, 1, MPI_INT, peer, TAG, MPI_COMM_WORLD, &status);
    }
    case 3:
        MPI_Irecv(&value, 1, MPI_INT, peer, TAG, MPI_COMM_WORLD, &request);
        return MPI_Wait(&request, &status);
    case 4:
        return MPI_Ssend(&value, 1, MPI_INT, peer, TAG, MPI_COMM_WORLD);
    case 5:
        return MPI_Barrier(pair);
    case 6:
        return MPI_Send(bytes, LARGE, MPI_BYTE, peer, TAG, MPI_COMM_WORLD);
    case 7:
        return MPI_Recv(bytes, LARGE, MPI_BYTE, peer, TAG, MPI_COMM_WORLD, &status);
    case 8:
        for (int i = 0; i < MANY && code == MPI_SUCCESS; i++)
            code = MPI_Send(bytes, SMALL, MPI_BYTE, peer, TAG, MPI_COMM_WORLD);
        return code;
    default:
        MPI_Irecv(&value, 1, MPI_INT, peer, TAG, MPI_COMM_WORLD, &request);
        while (!done && code == MPI_SUCCESS)
            code = MPI_Test(&request, &done, &status);
        return code;
    }
}

static void answer(int way, int peer, MPI_Comm pair)
{
    int value = 1;
    if (way < 4 || way == 9)
        MPI_Send(&value, 1, MPI_INT, peer, TAG, MPI_COMM_WORLD);
    else if (way == 4)
        MPI_Recv(&value, 1, MPI_INT, peer, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else if (way == 5)
        MPI_Barrier(pair);
    else if (way == 6)
        MPI_Recv(bytes, LARGE, MPI_BYTE, peer, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else if (way == 7)
        MPI_Send(bytes, LARGE, MPI_BYTE, peer, TAG, MPI_COMM_WORLD);
    else
        for (int i = 0; i < MANY; i++)
            MPI_Recv(bytes, SMALL, MPI_BYTE, peer, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* Computes outside of MPI. */
static void compute(double seconds)
{
    double until = MPI_Wtime() + seconds;
    while (MPI_Wtime() < until)
        usleep(1000);
}

int main(int argc, char **argv)
{
    int leaves = argc > 1 && !strcmp(argv[1], "leaves");
    int gone = leaves || (argc > 1 && !strcmp(argv[1], "gone"));
    begin(&argc, &argv);
    int half = ranks / 2, way = rank % half, waits = rank < half;
    MPI_Comm pair, side;
    MPI_Comm_split(MPI_COMM_WORLD, way, rank, &pair);
    MPI_Comm_split(MPI_COMM_WORLD, waits, rank, &side);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(pair, MPI_ERRORS_RETURN);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        printf("waiting\n");
        fflush(stdout);
    }
    STORY(ways[way]);
    if (!waits) {
        /* A rank that leaves does so while the others wait. */
        compute(leaves ? 0.2 : gone ? FOREVER_SECONDS : atof(argv[2]));
        if (gone)
            return 1;
        answer(way, rank - half, pair);
    } else {
        double began = MPI_Wtime();
        int code = wait_for(way, rank + half, pair);
        if (gone) {
            printf("%s heard of it after %.1f s\n", ways[way], MPI_Wtime() - began);
            fflush(stdout);
            CHECK_CLASS(code, MPI_ERR_PROC_ABORTED);
            /* All ranks of this host have heard. */
            MPI_Barrier(side);
            if (rank == 0)
                MPI_Abort(MPI_COMM_WORLD, failures ? 1 : HEARD);
            compute(FOREVER_SECONDS);
        }
        char text[MPI_MAX_ERROR_STRING] = "";
        int length = 0;
        if (code != MPI_SUCCESS)
            MPI_Error_string(code, text, &length);
        CHECK(code == MPI_SUCCESS, "after %.1f s: %s", MPI_Wtime() - began, text);
    }
    MPI_Comm_free(&pair);
    MPI_Comm_free(&side);
    return end();
}
