/* Collective access: the file is one three-dimensional array, and each rank writes or reads a block of it in
 * one call, as MPI-Tile-IO does. `size` is the length of the runs in which the block lies in the file: the
 * last two dimensions are divided over the ranks. */
#ifndef WEFT_BENCH_FILE_TILES_H
#define WEFT_BENCH_FILE_TILES_H

#include "files.h"

/* How the ranks divide the last two dimensions, and a rank's block: planes of rows of `size` bytes. */
typedef struct tiles {
    int across[2];
    int planes, rows;
} tiles;

static tiles tiles_of(const bench *b, size_t size)
{
    tiles t = {{0, 0}, 1, 1};
    long pieces = (long)(files.bytes / (double)size);
    MPI_Dims_create(b->ranks, 2, t.across);
    while ((long)t.rows * t.rows * 4 <= pieces)
        t.rows *= 2;
    t.planes = pieces / t.rows < 1 ? 1 : (int)(pieces / t.rows);
    return t;
}

static size_t tile_bytes(const tiles *t, size_t size)
{
    return (size_t)t->planes * (size_t)t->rows * size;
}

/* The file's rows follow each other plane by plane; each is divided into one run for each rank across it. */
static void tiles_owner(const bench *b, size_t size, long run, int *owner, size_t *position)
{
    tiles t = tiles_of(b, size);
    long column = run % t.across[1], line = run / t.across[1], all_rows = (long)t.rows * t.across[0];
    long plane = line / all_rows, row = line % all_rows;
    *owner = (int)(row / t.rows * t.across[1] + column);
    *position = ((size_t)plane * (size_t)t.rows + (size_t)(row % t.rows)) * size;
}

static void tiles_buffers(const bench *b, size_t size, size_t *send, size_t *receive)
{
    tiles t = tiles_of(b, size);
    *send = *receive = tile_bytes(&t, size);
}

static void tiles_view(const bench *b, const tiles *t, size_t size)
{
    int array[3] = {t->planes, t->rows * t->across[0], (int)size * t->across[1]};
    int block[3] = {t->planes, t->rows, (int)size};
    int starts[3] = {0, b->rank / t->across[1] * t->rows, b->rank % t->across[1] * (int)size};
    MPI_Datatype filetype;
    MPI_Type_create_subarray(3, array, block, starts, MPI_ORDER_C, MPI_BYTE, &filetype);
    MPI_Type_commit(&filetype);
    MPI_File_set_view(files.mpi, 0, MPI_BYTE, filetype, "native", MPI_INFO_NULL);
    MPI_Type_free(&filetype);
}

static void tiles_prepare(bench *b, size_t size)
{
    tiles t = tiles_of(b, size);
    files_prepare(b, size, tile_bytes(&t, size), tiles_owner);
    tiles_view(b, &t, size);
}

static void mpi_pass(bench *b, size_t size, long iterations)
{
    tiles t = tiles_of(b, size);
    int bytes = (int)tile_bytes(&t, size);
    for (long i = 0; i < iterations; i++) {
        if (files.writes)
            MPI_File_write_at_all(files.mpi, 0, b->send, bytes, MPI_BYTE, MPI_STATUS_IGNORE);
        else
            MPI_File_read_at_all(files.mpi, 0, b->receive, bytes, MPI_BYTE, MPI_STATUS_IGNORE);
    }
}

/* The same bytes in one run for each rank. Reads go into the buffer of writes, as the other one is to be
 * checked. */
static void plain_pass(bench *b, size_t size, long iterations)
{
    tiles t = tiles_of(b, size);
    size_t bytes = tile_bytes(&t, size);
    for (long i = 0; i < iterations; i++) {
        if (files.writes)
            plain_write(files.plain, b->send, bytes, (off_t)bytes * b->rank);
        else
            plain_read(files.plain, b->send, bytes, (off_t)bytes * b->rank);
    }
}

static double tiles_run(bench *b, size_t size, long iterations)
{
    return files_passes(b, size, iterations, mpi_pass, plain_pass);
}

static int tiles_check(const bench *b, size_t size, char why[BENCH_WHY_MAX])
{
    tiles t = tiles_of(b, size);
    return files_check(b, size, tile_bytes(&t, size), tiles_owner, why);
}

static double tiles_value(const bench *b, size_t size, double seconds)
{
    tiles t = tiles_of(b, size);
    return (double)tile_bytes(&t, size) * b->ranks / seconds / 1e6;
}

static int tiles_measure(bench *b)
{
    static const bench_case c = {.unit = "MB/s", .ranks_min = 1, .buffers = tiles_buffers, .prepare = tiles_prepare, .run = tiles_run,
        .check = tiles_check, .value = tiles_value, .fields = files_fields};
    return bench_measure(b, &c);
}

static int tiles_main(const char *measurement, int writes, int argc, char **argv)
{
    files.writes = writes;
    return files_main(measurement, "64,1k,64k", "MB/s", argc, argv, tiles_measure);
}

#endif
