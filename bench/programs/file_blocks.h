/* Independent access: each rank writes or reads blocks of its own in a shared file, with explicit offsets.
 *
 * The kinds are those of IOR. The blocks of a rank follow each other (no `kind`), or the blocks of all ranks
 * take turns (`strided`), or they take turns and one call moves all of a rank's through a view (`view`). */
#ifndef WEFT_BENCH_FILE_BLOCKS_H
#define WEFT_BENCH_FILE_BLOCKS_H

#include "files.h"

static struct {
    int strided, by_view;
} blocks;

/* Blocks of a rank in the file. */
static long blocks_count(size_t size)
{
    long count = (long)(files.bytes / (double)size);
    return count < 1 ? 1 : count;
}

static size_t blocks_bytes(size_t size)
{
    return size * (size_t)blocks_count(size);
}

static off_t offset_of(const bench *b, size_t size, long block)
{
    if (blocks.strided)
        return (off_t)size * ((off_t)block * b->ranks + b->rank);
    return (off_t)size * ((off_t)b->rank * blocks_count(size) + block);
}

static void blocks_owner(const bench *b, size_t size, long run, int *owner, size_t *position)
{
    *owner = (int)(blocks.strided ? run % b->ranks : run / blocks_count(size));
    *position = size * (size_t)(blocks.strided ? run / b->ranks : run % blocks_count(size));
}

static void blocks_buffers(const bench *b, size_t size, size_t *send, size_t *receive)
{
    (void)b;
    *send = *receive = blocks_bytes(size);
}

static void set_view(const bench *b, size_t size)
{
    MPI_Datatype filetype, block;
    MPI_Type_contiguous((int)size, MPI_BYTE, &block);
    MPI_Type_create_resized(block, 0, (MPI_Aint)size * b->ranks, &filetype);
    MPI_Type_commit(&filetype);
    MPI_File_set_view(files.mpi, (MPI_Offset)size * b->rank, MPI_BYTE, filetype, "native", MPI_INFO_NULL);
    MPI_Type_free(&filetype);
    MPI_Type_free(&block);
}

static void blocks_prepare(bench *b, size_t size)
{
    files_prepare(b, size, blocks_bytes(size), blocks_owner);
    if (blocks.by_view)
        set_view(b, size);
}

/* An iteration moves all blocks of every rank: a single call would be lost in the start of the ranks. */
static void mpi_pass(bench *b, size_t size, long iterations)
{
    long calls = blocks.by_view ? 1 : blocks_count(size);
    int bytes = (int)(blocks.by_view ? blocks_bytes(size) : size);
    for (long i = 0; i < iterations; i++)
        for (long call = 0; call < calls; call++) {
            MPI_Offset offset = blocks.by_view ? 0 : offset_of(b, size, call);
            if (files.writes)
                MPI_File_write_at(files.mpi, offset, b->send + (size_t)call * size, bytes, MPI_BYTE, MPI_STATUS_IGNORE);
            else
                MPI_File_read_at(files.mpi, offset, b->receive + (size_t)call * size, bytes, MPI_BYTE, MPI_STATUS_IGNORE);
        }
}

/* Reads go into the buffer of writes: the other one is to be checked. */
static void plain_pass(bench *b, size_t size, long iterations)
{
    long count = blocks_count(size);
    for (long i = 0; i < iterations; i++)
        for (long block = 0; block < count; block++) {
            if (files.writes)
                plain_write(files.plain, b->send + (size_t)block * size, size, offset_of(b, size, block));
            else
                plain_read(files.plain, b->send + (size_t)block * size, size, offset_of(b, size, block));
        }
}

static double blocks_run(bench *b, size_t size, long iterations)
{
    return files_passes(b, size, iterations, mpi_pass, plain_pass);
}

static int blocks_check(const bench *b, size_t size, char why[BENCH_WHY_MAX])
{
    return files_check(b, size, blocks_bytes(size), blocks_owner, why);
}

static double blocks_value(const bench *b, size_t size, double seconds)
{
    return (double)blocks_bytes(size) * b->ranks / seconds / 1e6;
}

static int blocks_measure(bench *b)
{
    static const bench_case c = {.unit = "MB/s", .ranks_min = 1, .buffers = blocks_buffers, .prepare = blocks_prepare, .run = blocks_run,
        .check = blocks_check, .value = blocks_value, .fields = files_fields};
    int status = 0;
    for (int kind = 0; kind < 3; kind++) {
        files.kind = kind == 0 ? NULL : kind == 1 ? "strided" : "view";
        blocks.strided = kind > 0;
        blocks.by_view = kind == 2;
        status |= bench_measure(b, &c);
    }
    return status;
}

static int blocks_main(const char *measurement, int writes, int argc, char **argv)
{
    files.writes = writes;
    return files_main(measurement, "1k,64k,16m", "MB/s", argc, argv, blocks_measure);
}

#endif
