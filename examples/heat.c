/*
 * heat: heat spreads over a plate, computed by many ranks.
 *
 *   mpicc -O2 -o heat heat.c && mpiexec -n 4 ./heat --input heat.pgm --output heat.png
 *
 * The plate is a grey image (PGM): black is cold, white is hot, and its edge keeps its temperature. Without
 * an image the plate is cold, with a hot disc. Every rank owns one rectangle and a rim of one cell around it,
 * which it exchanges with its four neighbours before every step; rows are contiguous in memory, columns are a
 * derived datatype. With `--puts` each rank puts its cells into the rims of its neighbours instead (post,
 * start, complete, wait), and no messages are sent for them. Afterwards rank 0 computes the same by itself
 * and compares both results to the last bit. The result is a PNG.
 *
 * Exit code 0: both are equal. 1: they are not, or a file could not be read or written.
 */
#include <errno.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE_MAX = 16384, SCALE_MAX = 64, STEPS_MAX = 10000000, REPORT_EVERY = 50 };
/* How much of a temperature difference moves to a neighbour in one step; stable below 0.25. */
static const double SPREAD = 0.2;

struct options {
    const char *input, *output;
    int scale, steps, check, puts;
};

/* The whole plate: width * height temperatures from 0 to 1, row by row. */
struct plate {
    int width, height;
    double *cell;
};

/* The cells that a rank puts into the rim of a neighbour. */
struct rim {
    int to, count;
    MPI_Datatype type, its_type;    /* a column has other strides there */
    size_t from;                    /* cells before the first one, here ... */
    MPI_Aint at;                    /* ... and there */
};

/* One rank's part: `height` rows of `width` cells with a rim around them, in memory rows of `stride`. */
struct part {
    int columns, rows;              /* how many parts there are in each direction */
    int column, row;                /* which of them this is */
    int x, y, width, height;        /* where it lies on the plate */
    int stride;
    double *now, *next;
    int left, right, up, down;      /* neighbours' ranks, or MPI_PROC_NULL */
    MPI_Win win, next_win;          /* `now` and `next` where neighbours put; MPI_WIN_NULL where they send */
    MPI_Group neighbours;
    struct rim rims[4];
};

static int rank, ranks;

static double *cells(size_t count)
{
    double *memory = calloc(count ? count : 1, sizeof(double));
    if (!memory) {
        fprintf(stderr, "heat: no memory for %zu cells\n", count);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return memory;
}

/* ---- one step ------------------------------------------------------------------------------------------ */

/* Computes rows [y0, y1) x columns [x0, x1) of `next` from `now`; returns the largest change. Serial and
 * parallel solutions both use this function, so each cell sees the same operations in the same order. */
static double step(const double *now, double *next, int stride, int x0, int x1, int y0, int y1)
{
    double largest = 0;
    for (int y = y0; y < y1; y++) {
        const double *here = now + (size_t)y * stride, *above = here - stride, *below = here + stride;
        double *out = next + (size_t)y * stride;
        for (int x = x0; x < x1; x++) {
            double change = SPREAD * (((above[x] + below[x]) + (here[x - 1] + here[x + 1])) - 4 * here[x]);
            out[x] = here[x] + change;
            if (change < 0)
                change = -change;
            if (change > largest)
                largest = change;
        }
    }
    return largest;
}

/* The serial solution; the plate's edge is not touched. Returns the largest change of the last step. */
static double solve_alone(struct plate *plate, int steps)
{
    size_t count = (size_t)plate->width * plate->height;
    double *now = plate->cell, *next = cells(count), change = 0;
    memcpy(next, now, count * sizeof(double));
    for (int i = 0; i < steps; i++) {
        change = step(now, next, plate->width, 1, plate->width - 1, 1, plate->height - 1);
        double *swap = now;
        now = next;
        next = swap;
    }
    plate->cell = now;
    free(next);
    return change;
}

/* ---- the parts ----------------------------------------------------------------------------------------- */

/* Where part `index` of `count` begins along a side of `length` cells. */
static int begin(int index, int count, int length)
{
    return (int)((int64_t)length * index / count);
}

static int rank_at(const struct part *part, int column, int row)
{
    if (column < 0 || column >= part->columns || row < 0 || row >= part->rows)
        return MPI_PROC_NULL;
    return row * part->columns + column;
}

/* The place of `owner`'s part on the plate: the division into columns x rows with the shortest rims. */
static struct part lay_out(int owner, int width, int height)
{
    struct part part = {0};
    double best = 0;
    for (int columns = 1; columns <= ranks; columns++) {
        int rows = ranks / columns;
        if (rows * columns != ranks || columns > width || rows > height)
            continue;
        double rim = (double)width / columns + (double)height / rows;
        if (part.columns == 0 || rim < best) {
            best = rim;
            part.columns = columns;
            part.rows = rows;
        }
    }
    if (part.columns == 0)
        return part;
    part.column = owner % part.columns;
    part.row = owner / part.columns;
    part.x = begin(part.column, part.columns, width);
    part.y = begin(part.row, part.rows, height);
    part.width = begin(part.column + 1, part.columns, width) - part.x;
    part.height = begin(part.row + 1, part.rows, height) - part.y;
    part.stride = part.width + 2;
    part.left = rank_at(&part, part.column - 1, part.row);
    part.right = rank_at(&part, part.column + 1, part.row);
    part.up = rank_at(&part, part.column, part.row - 1);
    part.down = rank_at(&part, part.column, part.row + 1);
    return part;
}

/* A rectangle of width x height cells in memory rows of `stride`. */
static MPI_Datatype rectangle(int width, int height, int stride)
{
    MPI_Datatype type;
    MPI_Type_vector(height, width, stride, MPI_DOUBLE, &type);
    MPI_Type_commit(&type);
    return type;
}

enum direction { HAND_OUT, COLLECT };

/* Moves every part between rank 0's plate and its owner. */
static void move_parts(enum direction direction, struct plate *plate, struct part *part)
{
    MPI_Request *requests = malloc((size_t)(ranks + 1) * sizeof *requests);
    int count = 0;
    if (!requests)
        MPI_Abort(MPI_COMM_WORLD, 1);
    if (rank == 0)
        for (int other = 0; other < ranks; other++) {
            struct part its = lay_out(other, plate->width, plate->height);
            double *corner = plate->cell + (size_t)its.y * plate->width + its.x;
            MPI_Datatype type = rectangle(its.width, its.height, plate->width);
            if (direction == HAND_OUT)
                MPI_Isend(corner, 1, type, other, 0, MPI_COMM_WORLD, &requests[count++]);
            else
                MPI_Irecv(corner, 1, type, other, 0, MPI_COMM_WORLD, &requests[count++]);
            MPI_Type_free(&type);
        }
    MPI_Datatype type = rectangle(part->width, part->height, part->stride);
    double *corner = part->now + part->stride + 1;
    if (direction == HAND_OUT)
        MPI_Irecv(corner, 1, type, 0, 0, MPI_COMM_WORLD, &requests[count++]);
    else
        MPI_Isend(corner, 1, type, 0, 0, MPI_COMM_WORLD, &requests[count++]);
    MPI_Type_free(&type);
    MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
    free(requests);
}

/* Fills the rim from the neighbours, and theirs from us. */
static void exchange(struct part *part, MPI_Datatype column)
{
    enum { TO_LEFT = 1, TO_RIGHT, TO_UP, TO_DOWN };
    double *corner = part->now + part->stride + 1;
    double *last_row = corner + (size_t)(part->height - 1) * part->stride;
    MPI_Request requests[8];
    MPI_Irecv(corner - 1, 1, column, part->left, TO_RIGHT, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(corner + part->width, 1, column, part->right, TO_LEFT, MPI_COMM_WORLD, &requests[1]);
    MPI_Irecv(corner - part->stride, part->width, MPI_DOUBLE, part->up, TO_DOWN, MPI_COMM_WORLD, &requests[2]);
    MPI_Irecv(last_row + part->stride, part->width, MPI_DOUBLE, part->down, TO_UP, MPI_COMM_WORLD, &requests[3]);
    MPI_Isend(corner, 1, column, part->left, TO_LEFT, MPI_COMM_WORLD, &requests[4]);
    MPI_Isend(corner + part->width - 1, 1, column, part->right, TO_RIGHT, MPI_COMM_WORLD, &requests[5]);
    MPI_Isend(corner, part->width, MPI_DOUBLE, part->up, TO_UP, MPI_COMM_WORLD, &requests[6]);
    MPI_Isend(last_row, part->width, MPI_DOUBLE, part->down, TO_DOWN, MPI_COMM_WORLD, &requests[7]);
    MPI_Waitall(8, requests, MPI_STATUSES_IGNORE);
}

/* Lays out the neighbours and the data for each: a column or a row of cells beside the edge here, into the
 * rim there. */
static void lay_out_rims(struct part *part, int width, int height)
{
    const int to[4] = {part->left, part->right, part->up, part->down};
    for (int i = 0; i < 4; i++) {
        struct rim *rim = &part->rims[i];
        rim->to = to[i];
        rim->type = rim->its_type = MPI_DOUBLE;
        if (to[i] == MPI_PROC_NULL)
            continue;
        struct part its = lay_out(to[i], width, height);
        int is_column = i < 2;
        rim->count = is_column ? 1 : part->width;
        if (is_column) {
            rim->type = rectangle(1, part->height, part->stride);
            rim->its_type = rectangle(1, its.height, its.stride);
        }
        rim->from = (size_t)(i == 3 ? part->height : 1) * part->stride + (i == 1 ? part->width : 1);
        rim->at = (MPI_Aint)(i == 2 ? its.height + 1 : is_column) * its.stride + (i == 0 ? its.width + 1 : !is_column);
    }
}

/*
 * Exchanges rims by puts. All ranks are in the same step, and each has two windows. A rank has read the rim
 * of `next` in the step before, so it exposes that rim before it completes its puts to the rim of `now`. A
 * neighbour that waits for these puts knows then that it may put in the next step, without a message.
 */
static void exchange_by_puts(const struct part *part, int is_last)
{
    if (!is_last)
        MPI_Win_post(part->neighbours, MPI_MODE_NOCHECK, part->next_win);
    MPI_Win_start(part->neighbours, MPI_MODE_NOCHECK, part->win);
    for (int i = 0; i < 4; i++) {
        const struct rim *rim = &part->rims[i];
        MPI_Put(part->now + rim->from, rim->count, rim->type, rim->to, rim->at, rim->count, rim->its_type, part->win);
    }
    MPI_Win_complete(part->win);
    MPI_Win_wait(part->win);
}

/* Makes memory for `now` and `next`; with puts it is a window. */
static void make_memory(struct part *part, const struct options *options, int width, int height)
{
    size_t count = (size_t)part->stride * (part->height + 2);
    part->win = part->next_win = MPI_WIN_NULL;
    if (!options->puts) {
        part->now = cells(count);
        part->next = cells(count);
    } else {
        MPI_Group everybody;
        int ranks_of[4], some = 0;
        lay_out_rims(part, width, height);
        for (int i = 0; i < 4; i++)
            if (part->rims[i].to != MPI_PROC_NULL)
                ranks_of[some++] = part->rims[i].to;
        MPI_Aint bytes = (MPI_Aint)(count * sizeof(double));
        MPI_Win_allocate(bytes, sizeof(double), MPI_INFO_NULL, MPI_COMM_WORLD, &part->now, &part->win);
        MPI_Win_allocate(bytes, sizeof(double), MPI_INFO_NULL, MPI_COMM_WORLD, &part->next, &part->next_win);
        memset(part->now, 0, (size_t)bytes);
        memset(part->next, 0, (size_t)bytes);
        MPI_Win_get_group(part->win, &everybody);
        MPI_Group_incl(everybody, some, ranks_of, &part->neighbours);
        MPI_Group_free(&everybody);
    }
}

static void free_memory(struct part *part)
{
    if (part->win == MPI_WIN_NULL) {
        free(part->now);
        free(part->next);
        return;
    }
    for (int i = 0; i < 2; i++)
        if (part->rims[i].to != MPI_PROC_NULL) {
            MPI_Type_free(&part->rims[i].type);
            MPI_Type_free(&part->rims[i].its_type);
        }
    MPI_Group_free(&part->neighbours);
    MPI_Win_free(&part->win);
    MPI_Win_free(&part->next_win);
}

/* The parallel solution of this rank's part. Returns the largest change of the last step, over all ranks. */
static double solve_together(struct part *part, int steps)
{
    /* The plate's edge keeps its temperature: its cells are left out. */
    int x0 = part->left == MPI_PROC_NULL ? 2 : 1, x1 = part->width + (part->right == MPI_PROC_NULL ? 0 : 1);
    int y0 = part->up == MPI_PROC_NULL ? 2 : 1, y1 = part->height + (part->down == MPI_PROC_NULL ? 0 : 1);
    MPI_Datatype column = rectangle(1, part->height, part->stride);
    double change = 0;
    if (part->win != MPI_WIN_NULL) {
        MPI_Win_post(part->neighbours, MPI_MODE_NOCHECK, part->win);
        /* No rank starts before all have posted. */
        MPI_Barrier(MPI_COMM_WORLD);
    }
    for (int i = 1; i <= steps; i++) {
        if (part->win == MPI_WIN_NULL)
            exchange(part, column);
        else
            exchange_by_puts(part, i == steps);
        change = step(part->now, part->next, part->stride, x0, x1, y0, y1);
        double *swap = part->now;
        part->now = part->next;
        part->next = swap;
        MPI_Win swap_win = part->win;
        part->win = part->next_win;
        part->next_win = swap_win;
        if (i == steps || i % REPORT_EVERY == 0)
            MPI_Allreduce(MPI_IN_PLACE, &change, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    }
    MPI_Type_free(&column);
    return change;
}

/* ---- images -------------------------------------------------------------------------------------------- */

/* The next number of a PGM's header; comments run from # to the line's end. Returns -1 where there is none.
 */
static int header_number(FILE *file)
{
    int c = getc(file), number;
    while (c == '#' || c == ' ' || c == '\t' || c == '\n' || c == '\r') {
        if (c == '#')
            while (c != '\n' && c != EOF)
                c = getc(file);
        c = getc(file);
    }
    ungetc(c, file);
    return fscanf(file, "%d", &number) == 1 ? number : -1;
}

/* The plate without an image: cold, with a hot disc beside its middle. */
static void make_plate(int scale, struct plate *plate)
{
    plate->width = 240 * scale;
    plate->height = 180 * scale;
    plate->cell = cells((size_t)plate->width * plate->height);
    for (int y = 0; y < plate->height; y++)
        for (int x = 0; x < plate->width; x++) {
            int right = x - plate->width / 3, down = y - plate->height / 2, radius = plate->height / 4;
            plate->cell[(size_t)y * plate->width + x] = right * right + down * down < radius * radius;
        }
}

/* Reads a binary PGM (P5, up to 255 greys); each of its pixels becomes scale x scale cells. Returns an
 * error's text. */
static const char *read_plate(const char *path, int scale, struct plate *plate)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return strerror(errno);
    int p = getc(file), five = getc(file);
    int width = header_number(file), height = header_number(file), white = header_number(file);
    getc(file);
    const char *wrong = NULL;
    if (p != 'P' || five != '5' || white < 1 || white > 255)
        wrong = "not a binary PGM image (P5) with at most 255 greys";
    else if (width < 1 || height < 1 || (int64_t)width * scale > SIDE_MAX || (int64_t)height * scale > SIDE_MAX)
        wrong = "its size, scaled, is not within 1 ... 16384";
    else {
        plate->width = width * scale;
        plate->height = height * scale;
        plate->cell = cells((size_t)plate->width * plate->height);
        for (int y = 0; y < height && !wrong; y++)
            for (int x = 0; x < width; x++) {
                int grey = getc(file);
                if (grey == EOF) {
                    wrong = "ends before its last pixel";
                    break;
                }
                for (int cell = 0; cell < scale * scale; cell++) {
                    size_t row = (size_t)y * scale + cell / scale;
                    plate->cell[row * plate->width + (size_t)x * scale + cell % scale] = (double)grey / white;
                }
            }
    }
    fclose(file);
    return wrong;
}

struct png {
    FILE *file;
    uint32_t crc_table[256], crc, adler_a, adler_b;
};

static void png_bytes(struct png *png, const void *data, size_t length)
{
    const unsigned char *byte = data;
    for (size_t i = 0; i < length; i++)
        png->crc = png->crc_table[(png->crc ^ byte[i]) & 255] ^ (png->crc >> 8);
    fwrite(data, 1, length, png->file);
}

static void png_number(struct png *png, uint32_t number)
{
    unsigned char bytes[4] = {number >> 24, number >> 16, number >> 8, number};
    png_bytes(png, bytes, 4);
}

/* A chunk's head: the CRC runs from its name on. */
static void png_chunk(struct png *png, const char *name, uint32_t length)
{
    png_number(png, length);
    png->crc = 0xffffffff;
    png_bytes(png, name, 4);
}

static void png_end(struct png *png)
{
    png_number(png, ~png->crc);
}

/* One row as one stored deflate block: no compression, and no library needed for it. */
static void png_row(struct png *png, const unsigned char *row, uint16_t length, int is_last)
{
    unsigned char head[5] = {is_last, length & 255, length >> 8, ~length & 255, (uint16_t)~length >> 8};
    png_bytes(png, head, 5);
    png_bytes(png, row, length);
    for (int i = 0; i < length; i++) {
        png->adler_a = (png->adler_a + row[i]) % 65521;
        png->adler_b = (png->adler_b + png->adler_a) % 65521;
    }
}

/* Black over violet, red and yellow to white. */
static void colour(int heat, unsigned char rgb[3])
{
    static const unsigned char stop[6][3] = {{4, 4, 20},     {74, 16, 108},  {172, 42, 92},
                                             {238, 104, 44}, {252, 186, 60}, {255, 253, 220}};
    int from = heat * 5 / 256, rest = heat * 5 - from * 256;
    for (int i = 0; i < 3; i++)
        rgb[i] = (stop[from][i] * (256 - rest) + stop[from + 1][i] * rest) / 256;
}

/* Returns an error's text. */
static const char *write_png(const char *path, const struct plate *plate)
{
    struct png png = {.file = fopen(path, "wb"), .adler_a = 1};
    unsigned char *row = malloc((size_t)plate->width + 1);
    if (!png.file || !row) {
        free(row);
        return strerror(errno);
    }
    for (uint32_t i = 0; i < 256; i++) {
        png.crc_table[i] = i;
        for (int bit = 0; bit < 8; bit++)
            png.crc_table[i] = png.crc_table[i] & 1 ? 0xedb88320 ^ (png.crc_table[i] >> 1) : png.crc_table[i] >> 1;
    }
    fwrite("\x89PNG\r\n\x1a\n", 1, 8, png.file);
    png_chunk(&png, "IHDR", 13);
    png_number(&png, plate->width);
    png_number(&png, plate->height);
    png_bytes(&png, "\x08\x03\0\0", 5); /* 8 bits a pixel, by palette; not interlaced */
    png_end(&png);
    png_chunk(&png, "PLTE", 3 * 256);
    for (int heat = 0; heat < 256; heat++) {
        unsigned char rgb[3];
        colour(heat, rgb);
        png_bytes(&png, rgb, 3);
    }
    png_end(&png);
    png_chunk(&png, "IDAT", 2 + (uint32_t)plate->height * (5 + 1 + plate->width) + 4);
    png_bytes(&png, "\x78\x01", 2);
    for (int y = 0; y < plate->height; y++) {
        row[0] = 0; /* no filter */
        for (int x = 0; x < plate->width; x++)
            row[x + 1] = (unsigned char)(plate->cell[(size_t)y * plate->width + x] * 255 + 0.5);
        png_row(&png, row, plate->width + 1, y == plate->height - 1);
    }
    png_number(&png, png.adler_b << 16 | png.adler_a);
    png_end(&png);
    png_chunk(&png, "IEND", 0);
    png_end(&png);
    free(row);
    int failed = ferror(png.file);
    return fclose(png.file) || failed ? strerror(errno) : NULL;
}

/* ---- the program --------------------------------------------------------------------------------------- */

static int number(const char *text, int most)
{
    char *end;
    long value = text ? strtol(text, &end, 10) : 0;
    return text && *text && !*end && value >= 1 && value <= most ? (int)value : -1;
}

/* Returns 0, or the argument that is not understood. */
static const char *parse(int argc, char **argv, struct options *options)
{
    *options = (struct options){NULL, "heat.png", 2, 500, 1, 0};
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i];
        if (strcmp(name, "--no-check") == 0) {
            options->check = 0;
            continue;
        }
        if (strcmp(name, "--puts") == 0) {
            options->puts = 1;
            continue;
        }
        const char *value = ++i < argc ? argv[i] : NULL;
        if (value && strcmp(name, "--input") == 0)
            options->input = value;
        else if (value && strcmp(name, "--output") == 0)
            options->output = value;
        else if (strcmp(name, "--scale") == 0 && number(value, SCALE_MAX) > 0)
            options->scale = number(value, SCALE_MAX);
        else if (strcmp(name, "--steps") == 0 && number(value, STEPS_MAX) > 0)
            options->steps = number(value, STEPS_MAX);
        else
            return name;
    }
    return NULL;
}

/* Prints the result of the check. Returns 1 where the two differ. */
static int compare(const struct plate *together, const struct plate *alone, double change, double change_alone)
{
    size_t count = (size_t)alone->width * alone->height, wrong = 0, first = 0;
    for (size_t i = count; i-- > 0;)
        if (memcmp(&together->cell[i], &alone->cell[i], sizeof(double)) != 0) {
            wrong++;
            first = i;
        }
    if (wrong > 0)
        printf("heat: %zu of %zu cells differ from the serial solution, first x=%zu y=%zu: %.17g, expected %.17g\n", wrong,
               count, first % alone->width, first / alone->width, together->cell[first], alone->cell[first]);
    else if (change != change_alone)
        printf("heat: the last step's largest change is %.17g, expected %.17g\n", change, change_alone);
    return wrong > 0 || change != change_alone;
}

/* Rank 0's part at the end: check and write. Returns the exit code. */
static int conclude(const struct options *options, struct plate *result, struct plate *start, double change,
                    double seconds, const struct part *part)
{
    const char *verdict = "not checked";
    if (options->check) {
        double change_alone = solve_alone(start, options->steps);
        if (compare(result, start, change, change_alone))
            return 1;
        verdict = "equal to the serial solution to the last bit";
    }
    const char *wrong = write_png(options->output, result);
    if (wrong) {
        fprintf(stderr, "heat: cannot write %s: %s\n", options->output, wrong);
        return 1;
    }
    printf("heat: %d x %d cells, %d steps, %d ranks (%d x %d): %.2f s; %s; wrote %s\n", result->width, result->height,
           options->steps, ranks, part->columns, part->rows, seconds, verdict, options->output);
    return 0;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);

    struct options options;
    struct plate start = {0}, result = {0};
    const char *wrong = parse(argc, argv, &options);
    if (wrong) {
        if (rank == 0)
            fprintf(stderr, "heat: %s is not understood or lacks a good value\nusage: heat [--input FILE.pgm] [--output FILE.png] "
                            "[--scale 1...%d] [--steps N] [--no-check] [--puts]\n", wrong, SCALE_MAX);
        MPI_Finalize();
        return 2;
    }
    /* Rank 0 reads the image; a size of 0 x 0 tells the others that it could not. */
    if (rank == 0 && options.input == NULL)
        make_plate(options.scale, &start);
    else if (rank == 0 && (wrong = read_plate(options.input, options.scale, &start)) != NULL) {
        fprintf(stderr, "heat: cannot read %s: %s\n", options.input, wrong);
        start.width = start.height = 0;
    }
    int size[2] = {start.width, start.height};
    MPI_Bcast(size, 2, MPI_INT, 0, MPI_COMM_WORLD);
    struct part part = lay_out(rank, size[0], size[1]);
    if (part.columns == 0) {
        if (rank == 0 && size[0] > 0)
            fprintf(stderr, "heat: %d ranks cannot share %d x %d cells evenly\n", ranks, size[0], size[1]);
        MPI_Finalize();
        return 1;
    }

    make_memory(&part, &options, size[0], size[1]);
    move_parts(HAND_OUT, &start, &part);
    memcpy(part.next, part.now, (size_t)part.stride * (part.height + 2) * sizeof(double));
    MPI_Barrier(MPI_COMM_WORLD);
    double began = MPI_Wtime();
    double change = solve_together(&part, options.steps);
    double seconds = MPI_Wtime() - began;
    if (rank == 0) {
        result = start;
        result.cell = cells((size_t)size[0] * size[1]);
    }
    move_parts(COLLECT, &result, &part);

    int code = rank == 0 ? conclude(&options, &result, &start, change, seconds, &part) : 0;
    MPI_Bcast(&code, 1, MPI_INT, 0, MPI_COMM_WORLD);
    free_memory(&part);
    free(start.cell);
    free(result.cell);
    MPI_Finalize();
    return code;
}
