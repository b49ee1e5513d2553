/*
 * Random programs on one file, from a seed, beside an oracle that knows which values each byte may have:
 * `random_files [--seed N] [--programs M] [--steps K] [--unit U] [--directory D]` runs the programs with the
 * seeds N to N + M - 1. Each byte of which the oracle knows stands for U equal bytes of the file. Passes on
 * any MPI library with any number of ranks up to 64.
 *
 * Every rank knows the whole program: the hints, views, pointers and accesses of all ranks. A program
 * consists of rounds. Within a round the ranks do not wait for each other, except in collective calls. A
 * round ends when all ranks have settled the file (§14.6.1): then its bytes are compared with the oracle,
 * without MPI. Unless atomic mode is on, no two ranks write the same byte in a round. What a rank has read is
 * compared at the end of the round, because only then all writes of other ranks are known which may have met
 * the read.
 *
 * Parts can be left out for libraries that are known to do them wrong: "nonblocking" and "atomic-requests"
 * (nonblocking accesses, always or in atomic mode), "late-pointer" (nonblocking collective accesses by
 * individual pointers), "moved-pointer" (accesses by offset move no pointer), "progress" (blocking calls
 * while a nonblocking collective access goes on), "preallocate", "short-reads", "empty-spread" (no items of a
 * type with gaps), "ordered-race" (a rank begins its second ordered access while another one has not begun
 * its first), and "holes" (bytes that none has written are zero).
 */
#include "files.h"

enum {
    ROOM = 12000, /* the bytes of the file that the oracle knows */
    ETYPES = 5,
    ITEMS_MAX = 12, /* etypes of a tile */
    RANKS_MAX = 64,
    ACCESSES_MAX = 1200, /* of a round, by all ranks */
    WAITING_MAX = 6,     /* nonblocking accesses of a rank at a time */
    COUNT_MAX = 40       /* etypes of an access */
};

static uint64_t seed = 1, stream;
static int steps = 60, step, unit = 1;
static char title[200];
static const char *const file_name = "random";

static uint64_t random_of(void)
{
    uint64_t x = (stream += 0x9e3779b97f4a7c15u);
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static int below(int limit)
{
    return (int)(random_of() % (uint64_t)limit);
}

/* Ends the program with one sentence. */
#define FAIL(at, ...)                                                                                                  \
    do {                                                                                                               \
        char why_[300];                                                                                                \
        snprintf(why_, sizeof why_, __VA_ARGS__);                                                                      \
        fprintf(stderr, "random_files --seed %llu --steps %d --unit %d with %d ranks: rank %d, step %d: %s\n",         \
                (unsigned long long)seed, steps, unit, ranks, rank, at, why_);                                         \
        unlink(path(file_name));                                                                                       \
        rmdir(directory);                                                                                              \
        MPI_Abort(MPI_COMM_WORLD, 1);                                                                                  \
        _exit(1);                                                                                                      \
    } while (0)

#define MUST(call)                                                                                                     \
    do {                                                                                                               \
        int code_ = (call), length_ = 0;                                                                               \
        if (code_ != MPI_SUCCESS) {                                                                                    \
            char text_[MPI_MAX_ERROR_STRING] = "";                                                                     \
            MPI_Error_string(code_, text_, &length_);                                                                  \
            FAIL(step, "%.80s failed: %.200s", #call, text_);                                                          \
        }                                                                                                              \
    } while (0)

/* -- Views -- */

struct etype {
    MPI_Datatype type, spread; /* in memory one behind the other, or with a gap of the same size behind each */
    int size;                  /* in units */
};

static struct etype etypes[ETYPES];

struct view {
    int displacement, etype, items, extent; /* units; an index; etypes of a tile; etypes */
    int tile[ITEMS_MAX];
};

static struct view views[RANKS_MAX];
static int is_common; /* all ranks have the same view, as shared pointers ask for */

static void make_etypes(void)
{
    MPI_Datatype triple;
    MPI_Type_contiguous(3, MPI_INT, &triple);
    MPI_Type_commit(&triple);
    MPI_Datatype types[ETYPES] = {MPI_BYTE, MPI_SHORT, MPI_INT, MPI_DOUBLE, triple};
    for (int i = 0; i < ETYPES; i++) {
        MPI_Type_size(types[i], &etypes[i].size);
        if (unit > 1)
            MPI_Type_contiguous(unit, types[i], &etypes[i].type);
        else
            MPI_Type_dup(types[i], &etypes[i].type);
        MPI_Type_commit(&etypes[i].type);
        MPI_Type_create_resized(etypes[i].type, 0, 2 * etypes[i].size * (MPI_Aint)unit, &etypes[i].spread);
        MPI_Type_commit(&etypes[i].spread);
    }
    MPI_Type_free(&triple);
}

static void free_etypes(void)
{
    for (int i = 0; i < ETYPES; i++) {
        MPI_Type_free(&etypes[i].type);
        MPI_Type_free(&etypes[i].spread);
    }
}

enum { ONE, INDEXED, BY_BYTES, VECTOR, SUBARRAY, IN_TURN, SHAPES };

/* Fills in a view of one of the shapes; returns its filetype, not committed. */
static MPI_Datatype make_view(struct view *view, int shape, int of)
{
    MPI_Datatype old = etypes[view->etype].type, type = MPI_DATATYPE_NULL, result;
    int size = etypes[view->etype].size, lengths[ITEMS_MAX], at = 0;
    MPI_Aint bytes[ITEMS_MAX];
    view->items = view->extent = 1;
    view->tile[0] = 0;
    switch (shape) {
    case INDEXED:
    case BY_BYTES:
        view->items = 1 + below(ITEMS_MAX);
        for (int i = 0; i < view->items; i++) {
            at += below(3);
            view->tile[i] = at++;
            bytes[i] = (MPI_Aint)view->tile[i] * size * unit;
            lengths[i] = 1;
        }
        view->extent = at + below(4);
        if (shape == INDEXED)
            MPI_Type_indexed(view->items, lengths, view->tile, old, &type);
        else
            MPI_Type_create_hindexed_block(view->items, 1, bytes, old, &type);
        break;
    case VECTOR: {
        int blocks = 1 + below(4), block = 1 + below(3), stride = block + below(4);
        view->items = blocks * block;
        for (int i = 0; i < view->items; i++)
            view->tile[i] = i / block * stride + i % block;
        view->extent = blocks * stride;
        MPI_Type_vector(blocks, block, stride, old, &type);
        break;
    }
    case SUBARRAY: {
        int sizes[2] = {1 + below(4), 1 + below(5)}, part[2], starts[2];
        for (int i = 0; i < 2; i++) {
            part[i] = 1 + below(sizes[i] < 3 ? sizes[i] : 3);
            starts[i] = below(sizes[i] - part[i] + 1);
        }
        view->items = part[0] * part[1];
        for (int i = 0; i < view->items; i++)
            view->tile[i] = (starts[0] + i / part[1]) * sizes[1] + starts[1] + i % part[1];
        view->extent = sizes[0] * sizes[1];
        MPI_Type_create_subarray(2, sizes, part, starts, MPI_ORDER_C, old, &type);
        break;
    }
    case IN_TURN: { /* the ranks' blocks lie between each other */
        int block = 1 + below(4);
        view->items = block;
        for (int i = 0; i < block; i++)
            view->tile[i] = of * block + i;
        view->extent = block * ranks;
        MPI_Type_create_indexed_block(1, block, view->tile, old, &type);
        break;
    }
    default:
        MPI_Type_dup(old, &type);
    }
    MPI_Type_create_resized(type, 0, (MPI_Aint)view->extent * size * unit, &result);
    MPI_Type_free(&type);
    return result;
}

/* Where a byte of the view lies in the file, both in units. */
static int place_of_byte(const struct view *view, long byte)
{
    int size = etypes[view->etype].size;
    long item = byte / size;
    return (int)(view->displacement + (item / view->items * view->extent + view->tile[item % view->items]) * size + byte % size);
}

/* -- The state of the program and of the oracle -- */

/* An access of the round. Writes of all ranks are kept, and reads of this rank. */
struct access {
    int of, step, is_write, bytes, etype_size;
    uint64_t id;
    int *places;
    unsigned char *expected; /* of a read: what this rank must find where no other rank writes */
    unsigned char *found, *torn; /* torn: the bytes of the unit are not equal */
    int least_size; /* of the file, as this rank knows it */
    int count;      /* etypes that were read, or MPI_UNDEFINED */
    char name[24];
};

struct waiting {
    MPI_Request request;
    struct access *access;
    unsigned char *buffer;
    int is_spread;
};

static MPI_File file;
static int is_atomic;
static struct access accesses[ACCESSES_MAX];
static int access_count;
static unsigned char old[ROOM], mine[ROOM]; /* the settled bytes; those as this rank sees them */
static int old_size, size_of[RANKS_MAX];    /* the settled size; at least this, as each rank knows */
static int size_max;                        /* at most this, whatever the ranks have done in the round */
static short writer[ROOM];                  /* -1: none in this round; a rank; RANKS_MAX: several */
static int position[RANKS_MAX], shared_position;
static unsigned char busy[RANKS_MAX][ROOM]; /* the rank has an access there that has not been completed */
static int waiting_count[RANKS_MAX], waiting_ends[RANKS_MAX];
static struct waiting waiting[WAITING_MAX];

static unsigned char value_of(uint64_t id, int index)
{
    uint64_t x = id * 0x9e3779b97f4a7c15u + (uint64_t)index * 0xbf58476d1ce4e5b9u;
    return (unsigned char)(x >> 29 ^ x >> 51);
}

static void begin_round(void)
{
    for (int i = 0; i < access_count; i++) {
        free(accesses[i].places);
        free(accesses[i].expected);
        free(accesses[i].found);
        free(accesses[i].torn);
    }
    access_count = 0;
    memcpy(mine, old, ROOM);
    for (int i = 0; i < ROOM; i++)
        writer[i] = -1;
    for (int of = 0; of < ranks; of++)
        size_of[of] = old_size;
    size_max = old_size;
}

/* -- Units -- */

/* Sets a unit of memory, at this place in units. */
static void set_unit(unsigned char *bytes, int at, unsigned char value)
{
    memset(bytes + (size_t)at * (size_t)unit, value, (size_t)unit);
}

/* Returns the value of a unit, and whether its bytes differ. */
static unsigned char get_unit(const unsigned char *bytes, int at, unsigned char *torn)
{
    const unsigned char *first = bytes + (size_t)at * (size_t)unit;
    /* Bytes that none has written may be any, where "holes" are left out. */
    *torn = unit > 1 && memcmp(first, first + 1, (size_t)unit - 1) != 0 && !left_out("holes");
    return *first;
}

/* Reads the whole file without MPI; returns its size in units. */
static int read_whole(unsigned char *values, unsigned char *torn)
{
    long long size = disk_size(file_name);
    if (size < 0 || size % unit != 0 || size / unit > ROOM)
        FAIL(step, "the file has %lld bytes", size);
    unsigned char *bytes = memory((size_t)ROOM * (size_t)unit);
    disk_read(file_name, 0, bytes, (size_t)size);
    for (int i = 0; i < ROOM; i++)
        values[i] = get_unit(bytes, i, &torn[i]);
    free(bytes);
    return (int)(size / unit);
}

/* -- Completing nonblocking accesses -- */

static void take_result(struct access *access, const MPI_Status *status, const unsigned char *buffer, int is_spread)
{
    int size = access->etype_size, wanted = access->bytes / size;
    MPI_Datatype type = MPI_DATATYPE_NULL;
    for (int i = 0; i < ETYPES; i++)
        type = etypes[i].size == size ? etypes[i].type : type;
    access->count = count_of(status, type);
    if (access->is_write && access->count != wanted)
        FAIL(access->step, "%s of %d etypes says that it wrote %d", access->name, wanted, access->count);
    for (int i = 0; !access->is_write && i < access->bytes; i++)
        access->found[i] = get_unit(buffer, is_spread ? i / size * 2 * size + i % size : i, &access->torn[i]);
}

/* A rank completes all that it has begun; known to all ranks. */
static void wait_for_all(int of)
{
    if (of == rank) {
        MPI_Request requests[WAITING_MAX];
        MPI_Status statuses[WAITING_MAX];
        for (int i = 0; i < waiting_count[of]; i++)
            requests[i] = waiting[i].request;
        MUST(MPI_Waitall(waiting_count[of], requests, statuses));
        for (int i = 0; i < waiting_count[of]; i++) {
            take_result(waiting[i].access, &statuses[i], waiting[i].buffer, waiting[i].is_spread);
            free(waiting[i].buffer);
        }
    }
    if (waiting_ends[of] > size_of[of])
        size_of[of] = waiting_ends[of];
    waiting_ends[of] = 0;
    waiting_count[of] = 0;
    memset(busy[of], 0, ROOM);
}

/* -- Accesses -- */

enum way { AT, POINTER, ORDERED, AT_ALL, ALL, WAYS };
enum form { BLOCKING, LARGE, NONBLOCKING, SPLIT };

/* The number of etypes, at most `count`, that a rank can access from this position on. */
static int possible(int of, const struct view *view, int from, int count, int is_write)
{
    int size = etypes[view->etype].size;
    for (int i = 0; i < count * size; i++) {
        int place = place_of_byte(view, (long)from * size + i);
        int is_taken = place < ROOM && is_write && !is_atomic && writer[place] != -1 && writer[place] != of;
        int is_behind = place < ROOM && !is_write && left_out("short-reads") && place >= size_of[of];
        if (place >= ROOM || is_taken || is_behind)
            return i / size;
    }
    return count;
}

/* Completes what a rank has begun, if the access would touch the same bytes. */
static void avoid_busy(int of, const struct view *view, int from, int count)
{
    int size = etypes[view->etype].size, meets = waiting_count[of] == WAITING_MAX;
    for (int i = 0; i < count * size; i++)
        meets |= busy[of][place_of_byte(view, (long)from * size + i)];
    if (meets)
        wait_for_all(of);
}

/* Enters an access into the oracle. Returns NULL for reads of other ranks. */
static struct access *enter(int of, const struct view *view, int from, int count, int is_write, int is_waiting, const char *name)
{
    static struct access unused;
    static uint64_t next_id;
    int size = etypes[view->etype].size, end = 0, length = count * size;
    uint64_t id = ++next_id;
    struct access *access = is_write || of == rank ? &accesses[access_count++] : &unused;
    if (access_count == ACCESSES_MAX)
        FAIL(step, "too many accesses in one round");
    *access = (struct access){of, step, is_write, length, size, id, NULL, NULL, NULL, NULL, size_of[of], 0, ""};
    snprintf(access->name, sizeof access->name, "%s", name);
    if (access == &unused && !is_waiting)
        return NULL;
    access->places = memory(sizeof(int) * (size_t)length);
    if (!is_write && of == rank) {
        access->expected = memory((size_t)length);
        access->found = memory((size_t)length);
        access->torn = memory((size_t)length);
    }
    for (int i = 0; i < length; i++) {
        int place = access->places[i] = place_of_byte(view, (long)from * size + i);
        if (place + 1 > end)
            end = place + 1;
        if (is_waiting)
            busy[of][place] = 1;
        if (is_write) {
            writer[place] = writer[place] == -1 || writer[place] == of ? (short)of : RANKS_MAX;
            if (of == rank)
                mine[place] = value_of(id, i);
        } else if (of == rank) {
            access->expected[i] = mine[place];
        }
    }
    if (is_write) {
        size_max = end > size_max ? end : size_max;
        if (!is_waiting && end > size_of[of])
            size_of[of] = end;
        if (is_waiting && end > waiting_ends[of])
            waiting_ends[of] = end;
    }
    if (access == &unused) {
        free(unused.places);
        return NULL;
    }
    return access;
}

static void call(struct access *access, enum way way, enum form form, int at, unsigned char *buffer, int count, MPI_Datatype type, MPI_Request *request, MPI_Status *status)
{
    int w = access->is_write, large = form == LARGE;
    switch (way) {
    case AT:
        if (form == NONBLOCKING)
            MUST(w ? MPI_File_iwrite_at(file, at, buffer, count, type, request) : MPI_File_iread_at(file, at, buffer, count, type, request));
        else if (large)
            MUST(w ? MPI_File_write_at_c(file, at, buffer, count, type, status) : MPI_File_read_at_c(file, at, buffer, count, type, status));
        else
            MUST(w ? MPI_File_write_at(file, at, buffer, count, type, status) : MPI_File_read_at(file, at, buffer, count, type, status));
        break;
    case POINTER:
        if (form == NONBLOCKING)
            MUST(w ? MPI_File_iwrite(file, buffer, count, type, request) : MPI_File_iread(file, buffer, count, type, request));
        else if (large)
            MUST(w ? MPI_File_write_c(file, buffer, count, type, status) : MPI_File_read_c(file, buffer, count, type, status));
        else
            MUST(w ? MPI_File_write(file, buffer, count, type, status) : MPI_File_read(file, buffer, count, type, status));
        break;
    case AT_ALL:
        if (form == NONBLOCKING) {
            MUST(w ? MPI_File_iwrite_at_all(file, at, buffer, count, type, request) : MPI_File_iread_at_all(file, at, buffer, count, type, request));
        } else if (form == SPLIT) {
            MUST(w ? MPI_File_write_at_all_begin(file, at, buffer, count, type) : MPI_File_read_at_all_begin(file, at, buffer, count, type));
            MUST(w ? MPI_File_write_at_all_end(file, buffer, status) : MPI_File_read_at_all_end(file, buffer, status));
        } else {
            MUST(w ? MPI_File_write_at_all(file, at, buffer, count, type, status) : MPI_File_read_at_all(file, at, buffer, count, type, status));
        }
        break;
    case ALL:
        if (form == NONBLOCKING) {
            MUST(w ? MPI_File_iwrite_all(file, buffer, count, type, request) : MPI_File_iread_all(file, buffer, count, type, request));
        } else if (form == SPLIT) {
            MUST(w ? MPI_File_write_all_begin(file, buffer, count, type) : MPI_File_read_all_begin(file, buffer, count, type));
            MUST(w ? MPI_File_write_all_end(file, buffer, status) : MPI_File_read_all_end(file, buffer, status));
        } else {
            MUST(w ? MPI_File_write_all(file, buffer, count, type, status) : MPI_File_read_all(file, buffer, count, type, status));
        }
        break;
    default:
        if (form == SPLIT) {
            MUST(w ? MPI_File_write_ordered_begin(file, buffer, count, type) : MPI_File_read_ordered_begin(file, buffer, count, type));
            MUST(w ? MPI_File_write_ordered_end(file, buffer, status) : MPI_File_read_ordered_end(file, buffer, status));
        } else {
            MUST(w ? MPI_File_write_ordered(file, buffer, count, type, status) : MPI_File_read_ordered(file, buffer, count, type, status));
        }
    }
}

/* One access of one rank: entered by all ranks, made by that rank. */
static void access_by(int of, enum way way, enum form form, int from, int count, int is_write, int is_spread)
{
    static const char *const names[WAYS] = {"_at", "", "_ordered", "_at_all", "_all"};
    const struct view *view = &views[of];
    if (form == NONBLOCKING && (left_out("nonblocking") || (is_atomic && left_out("atomic-requests"))))
        form = BLOCKING;
    int size = etypes[view->etype].size, uses_pointer = way == POINTER || way == ALL;
    char name[24];
    snprintf(name, sizeof name, "%s%s%s", form == NONBLOCKING ? "i" : "", is_write ? "write" : "read", names[way]);
    if (uses_pointer)
        from = position[of];
    if (way != ORDERED)
        count = possible(of, view, from, count, is_write);
    if (count == 0 && left_out("empty-spread"))
        is_spread = 0;
    avoid_busy(of, view, from, count);
    int may_be_short = count > 0 && !is_write && place_of_byte(view, (long)(from + count) * size - 1) >= size_of[of];
    struct access *access = enter(of, view, from, count, is_write, form == NONBLOCKING, name);
    if (of == rank) {
        MPI_Status status;
        MPI_Request request = MPI_REQUEST_NULL;
        unsigned char *buffer = memory((size_t)(2 * access->bytes) * (size_t)unit);
        for (int i = 0; is_write && i < access->bytes; i++)
            set_unit(buffer, is_spread ? i / size * 2 * size + i % size : i, value_of(access->id, i));
        if (uses_pointer && left_out("moved-pointer"))
            MUST(MPI_File_seek(file, from, MPI_SEEK_SET));
        call(access, way, form, from, buffer, count, is_spread ? etypes[view->etype].spread : etypes[view->etype].type, &request, &status);
        if (form == NONBLOCKING) {
            waiting[waiting_count[of]] = (struct waiting){request, access, buffer, is_spread};
        } else {
            take_result(access, &status, buffer, is_spread);
            free(buffer);
        }
        /* Where a pointer is after a read that the end of the file cut off is the library's matter. */
        if (uses_pointer && may_be_short)
            MUST(MPI_File_seek(file, from + count, MPI_SEEK_SET));
        if (uses_pointer && position_of(file) != from + count && !left_out("moved-pointer"))
            FAIL(step, "the pointer is at %lld after %s, not at %d", (long long)position_of(file), name, from + count);
    }
    if (uses_pointer)
        position[of] = from + count;
    if (form == NONBLOCKING)
        waiting_count[of]++;
}

/* -- The end of a round -- */

/* Compares a read of this rank with the oracle. */
static void check_read(const struct access *access)
{
    int size = access->etype_size, wanted = access->bytes / size, least = 0, most = 0;
    for (int i = 0; i < wanted; i++) {
        least += access->places[(i + 1) * size - 1] < access->least_size;
        most += access->places[i * size] < size_max;
    }
    if (access->count == MPI_UNDEFINED ? least == most : access->count < least || access->count > most)
        FAIL(access->step, "%s of %d etypes says that it read %d, the file has %d to %d", access->name, wanted, access->count, least, most);
    int sure = access->count == MPI_UNDEFINED ? least : access->count;
    for (int i = 0; i < sure * size; i++) {
        int place = access->places[i], found = access->found[i], is_allowed = found == access->expected[i];
        int is_foreign = writer[place] != -1 && writer[place] != rank;
        if (is_foreign && !is_atomic)
            continue; /* §14.6.1: undefined */
        if (access->expected[i] == 0 && place >= old_size && left_out("holes"))
            continue;
        for (int k = 0; is_foreign && !is_allowed && k < access_count; k++)
            for (int n = 0; accesses[k].is_write && accesses[k].of != rank && n < accesses[k].bytes; n++)
                is_allowed |= accesses[k].places[n] == place && value_of(accesses[k].id, n) == found;
        if (!is_allowed || (access->torn[i] && !is_foreign))
            FAIL(access->step, "byte %d of %s is %d, expected %d; it lies at byte %d of the file", i, access->name, found, access->expected[i], place);
    }
}

/* Compares the file with what the writes of the round leave, and takes what it has as settled. */
static void check_file(void)
{
    static unsigned char found[ROOM], torn[ROOM];
    static int last[RANKS_MAX][ROOM], index_of[RANKS_MAX][ROOM];
    static unsigned char is_before[ACCESSES_MAX][ACCESSES_MAX];
    int size = read_whole(found, torn);
    if (size != size_max)
        FAIL(step, "the file has %d bytes, expected %d", size, size_max);
    for (int of = 0; of < ranks; of++)
        memset(last[of], -1, sizeof last[of]);
    for (int k = 0; k < access_count; k++)
        for (int n = 0; accesses[k].is_write && n < accesses[k].bytes; n++) {
            last[accesses[k].of][accesses[k].places[n]] = k;
            index_of[accesses[k].of][accesses[k].places[n]] = n;
        }
    if (is_atomic)
        for (int k = 0; k < access_count; k++)
            memset(is_before[k], 0, (size_t)access_count);
    for (int place = 0; place < size_max; place++) {
        int winner = -1, candidates = 0, newest = -1;
        for (int of = 0; of < ranks; of++) {
            int k = last[of][place];
            if (k < 0)
                continue;
            candidates++;
            newest = k;
            if (value_of(accesses[k].id, index_of[of][place]) == found[place])
                winner = winner == -1 ? k : ACCESSES_MAX; /* two have the same value by chance */
        }
        if (candidates == 0 && found[place] != old[place] && !(place >= old_size && left_out("holes")))
            FAIL(step, "byte %d of the file is %d, and was %d before the round, in which none wrote it", place, found[place], old[place]);
        if (candidates > 0 && (winner == -1 || torn[place]))
            FAIL(accesses[newest].step, "%s of rank %d has not left its value in byte %d of the file, which is %d", accesses[newest].name, accesses[newest].of, place, found[place]);
        /* One write comes before another one as a whole. */
        for (int of = 0; candidates > 1 && winner < ACCESSES_MAX && of < ranks; of++) {
            int k = last[of][place];
            if (k < 0 || k == winner)
                continue;
            is_before[k][winner] = 1;
            if (is_before[winner][k])
                FAIL(accesses[k].step, "%s of rank %d and %s of rank %d in step %d have each overwritten a part of the other in atomic mode", accesses[k].name, of, accesses[winner].name,
                     accesses[winner].of, accesses[winner].step);
        }
    }
    memcpy(old, found, ROOM);
    old_size = size_max;
}

static void settle(void)
{
    for (int of = 0; of < ranks; of++)
        wait_for_all(of);
    MUST(MPI_File_sync(file));
    MPI_Barrier(MPI_COMM_WORLD);
    MUST(MPI_File_sync(file));
    for (int k = 0; k < access_count; k++)
        if (!accesses[k].is_write && accesses[k].of == rank)
            check_read(&accesses[k]);
    check_file();
    MPI_Offset size = -1;
    MUST(MPI_File_get_size(file, &size));
    if (size != (MPI_Offset)old_size * unit)
        FAIL(step, "MPI_File_get_size says %lld, the file has %lld bytes", (long long)size, (long long)old_size * unit);
    MPI_Barrier(MPI_COMM_WORLD);
    begin_round();
}

/* -- Steps -- */

static void set_views(int common)
{
    settle();
    int in_turn = !common && below(3) == 0, etype = below(ETYPES), displacement = below(300);
    MPI_Datatype own = MPI_DATATYPE_NULL;
    uint64_t same = random_of();
    for (int of = 0; of < ranks; of++) {
        if (common || in_turn)
            stream = same; /* the same choices for all */
        views[of].etype = etype;
        views[of].displacement = displacement + (common || in_turn ? 0 : below(200));
        MPI_Datatype type = make_view(&views[of], in_turn ? IN_TURN : below(SHAPES - 1), of);
        position[of] = 0;
        if (of == rank)
            own = type;
        else
            MPI_Type_free(&type);
    }
    is_common = common;
    shared_position = 0;
    MPI_Type_commit(&own);
    MUST(MPI_File_set_view(file, (MPI_Offset)views[rank].displacement * unit, etypes[etype].type, own, "native", MPI_INFO_NULL));
    MPI_Type_free(&own);
}

static void independent(void)
{
    for (int of = 0; of < ranks; of++) {
        int times = below(4);
        for (int i = 0; i < times; i++) {
            enum form form = below(3) == 0 ? NONBLOCKING : below(2) ? LARGE : BLOCKING;
            int from = below(120), count = below(COUNT_MAX), is_write = below(5) < 3, is_spread = below(3) == 0;
            if (below(4) == 0) {
                position[of] = below(100);
                if (of == rank)
                    MUST(MPI_File_seek(file, position[of], MPI_SEEK_SET));
            }
            access_by(of, below(2) ? AT : POINTER, form, from, count, is_write, is_spread);
            if (below(4) == 0)
                wait_for_all(of);
        }
    }
}

static void collective(void)
{
    enum way way = below(2) ? AT_ALL : ALL;
    static const enum form forms[] = {BLOCKING, BLOCKING, NONBLOCKING, SPLIT};
    enum form form = forms[below(4)];
    int is_write = below(5) < 3;
    for (int of = 0; of < ranks && left_out("progress"); of++)
        wait_for_all(of);
    if (form == NONBLOCKING && left_out("late-pointer"))
        way = AT_ALL;
    for (int of = 0; of < ranks; of++) {
        int from = below(100), count = below(6) == 0 ? 0 : below(COUNT_MAX), is_spread = below(3) == 0;
        if (form == NONBLOCKING && waiting_count[of] > 0)
            wait_for_all(of);
        access_by(of, way, form, from, count, is_write, is_spread);
    }
}

/* All ranks by the shared pointer, in their order. */
static void ordered(void)
{
    int is_write = below(2), at = shared_position;
    for (int of = 0; of < ranks && left_out("progress"); of++)
        wait_for_all(of);
    enum form form = below(3) == 0 ? SPLIT : BLOCKING;
    if (left_out("ordered-race"))
        MPI_Barrier(MPI_COMM_WORLD);
    if (!is_write)
        settle(); /* it moves by what was asked for where the file is long enough */
    for (int of = 0; of < ranks; of++) {
        int count = possible(of, &views[of], at, below(12), is_write), size = etypes[views[of].etype].size;
        if (!is_write)
            while (count > 0 && place_of_byte(&views[of], (long)(at + count) * size - 1) >= old_size)
                count--;
        access_by(of, ORDERED, form, at, count, is_write, below(3) == 0);
        at += count;
    }
    shared_position = at;
}

/* All ranks write by the shared pointer, in any order: which rank has which slot is found out afterwards. */
static void shared_writes(void)
{
    settle();
    const struct view *view = &views[0];
    int size = etypes[view->etype].size, count = 1 + below(8), bytes = count * size, large = below(2), is_nonblocking = below(3) == 0 && !left_out("nonblocking");
    if (possible(0, view, shared_position, count * ranks, 1) < count * ranks)
        return;
    uint64_t id = random_of();
    unsigned char *buffer = memory((size_t)bytes * (size_t)unit), *found = memory((size_t)bytes), taken[RANKS_MAX] = {0};
    static unsigned char whole[ROOM], torn[ROOM];
    MPI_Status status;
    for (int i = 0; i < bytes; i++)
        set_unit(buffer, i, value_of(id + (uint64_t)rank, i));
    if (is_nonblocking) {
        MPI_Request request;
        MUST(MPI_File_iwrite_shared(file, buffer, count, etypes[view->etype].type, &request));
        MUST(MPI_Wait(&request, &status));
    } else {
        MUST(large ? MPI_File_write_shared_c(file, buffer, count, etypes[view->etype].type, &status) : MPI_File_write_shared(file, buffer, count, etypes[view->etype].type, &status));
    }
    if (count_of(&status, etypes[view->etype].type) != count)
        FAIL(step, "write_shared of %d etypes says that it wrote %d", count, count_of(&status, etypes[view->etype].type));
    MUST(MPI_File_sync(file));
    MPI_Barrier(MPI_COMM_WORLD);
    read_whole(whole, torn);
    if (left_out("holes"))
        memcpy(old + old_size, whole + old_size, (size_t)(ROOM - old_size));
    for (int slot = 0; slot < ranks; slot++) {
        int owner = -1, is_torn = 0;
        for (int i = 0; i < bytes; i++) {
            int place = place_of_byte(view, (long)(shared_position + slot * count) * size + i);
            found[i] = whole[place];
            is_torn |= torn[place];
        }
        for (int of = 0; of < ranks && owner < 0; of++) {
            int differs = taken[of] | is_torn;
            for (int i = 0; i < bytes; i++)
                differs |= found[i] != value_of(id + (uint64_t)of, i);
            if (!differs)
                owner = of;
        }
        if (owner < 0)
            FAIL(step, "slot %d of write_shared has the bytes of no rank, or those of a rank that has another slot", slot);
        taken[owner] = 1;
        for (int i = 0; i < bytes; i++) {
            int place = place_of_byte(view, (long)(shared_position + slot * count) * size + i);
            old[place] = found[i];
            old_size = place + 1 > old_size ? place + 1 : old_size;
        }
    }
    shared_position += count * ranks;
    MPI_Offset now = shared_position_of(file);
    if (now != shared_position)
        FAIL(step, "the shared pointer is at %lld, expected %d", (long long)now, shared_position);
    MPI_Barrier(MPI_COMM_WORLD);
    begin_round();
    free(buffer);
    free(found);
}

/* All ranks read by the shared pointer, in any order: each gets one of the slots. */
static void shared_reads(void)
{
    settle();
    const struct view *view = &views[0];
    int size = etypes[view->etype].size, count = 1 + below(8), bytes = count * size;
    if (place_of_byte(view, (long)(shared_position + count * ranks) * size - 1) >= old_size) {
        shared_position = below(10);
        MUST(MPI_File_seek_shared(file, shared_position, MPI_SEEK_SET));
    }
    if (place_of_byte(view, (long)(shared_position + count * ranks) * size - 1) >= old_size)
        return;
    unsigned char *buffer = memory((size_t)bytes * (size_t)unit), torn = 0;
    MPI_Status status;
    MPI_Barrier(MPI_COMM_WORLD);
    MUST(MPI_File_read_shared(file, buffer, count, etypes[view->etype].type, &status));
    int is_right = 0;
    for (int slot = 0; slot < ranks && !is_right; slot++) {
        is_right = 1;
        for (int i = 0; i < bytes; i++)
            is_right &= get_unit(buffer, i, &torn) == old[place_of_byte(view, (long)(shared_position + slot * count) * size + i)] && !torn;
    }
    if (!is_right || count_of(&status, etypes[view->etype].type) != count)
        FAIL(step, "read_shared of %d etypes got %d, and bytes that are in no slot", count, count_of(&status, etypes[view->etype].type));
    MPI_Barrier(MPI_COMM_WORLD);
    shared_position += count * ranks;
    MPI_Offset now = shared_position_of(file);
    if (now != shared_position)
        FAIL(step, "the shared pointer is at %lld, expected %d", (long long)now, shared_position);
    MPI_Barrier(MPI_COMM_WORLD);
    free(buffer);
}

static void resize(void)
{
    settle();
    int size = below(ROOM / 2), grows_only = below(3) == 0 && !left_out("preallocate");
    MPI_Offset found = -1;
    if (grows_only) {
        MUST(MPI_File_preallocate(file, (MPI_Offset)size * unit));
        size = size > old_size ? size : old_size;
    } else {
        MUST(MPI_File_set_size(file, (MPI_Offset)size * unit));
    }
    MUST(MPI_File_get_size(file, &found));
    if (found != (MPI_Offset)size * unit)
        FAIL(step, "the file has %lld bytes, not %lld", (long long)found, (long long)size * unit);
    if (size < ROOM)
        memset(old + size, 0, (size_t)(ROOM - size));
    old_size = size;
    MPI_Barrier(MPI_COMM_WORLD);
    begin_round();
}

/* Opens the file with hints that change how accesses are done, and nothing else. */
static void open_file(int amode)
{
    static const char *const hints[][2] = {{"romio_cb_write", "enable"}, {"romio_cb_write", "disable"}, {"romio_cb_read", "enable"},
                                           {"romio_cb_read", "disable"}, {"romio_ds_write", "enable"},  {"romio_ds_write", "disable"},
                                           {"romio_ds_read", "enable"},  {"romio_ds_read", "disable"},  {"cb_nodes", "1"},
                                           {"cb_nodes", "2"},            {"cb_buffer_size", "512"},     {"ind_wr_buffer_size", "256"},
                                           {"ind_rd_buffer_size", "256"}, {"striping_unit", "1024"}};
    MPI_Info info;
    MPI_Info_create(&info);
    for (size_t i = 0; i < sizeof hints / sizeof *hints; i++)
        if (below(6) == 0)
            MPI_Info_set(info, hints[i][0], hints[i][1]);
    MUST(MPI_File_open(MPI_COMM_WORLD, path(file_name), amode, info, &file));
    MPI_Info_free(&info);
    is_atomic = 0;
}

static void reopen(void)
{
    settle();
    MUST(MPI_File_close(&file));
    MPI_Barrier(MPI_COMM_WORLD);
    open_file(MPI_MODE_RDWR);
    set_views(below(2));
}

static void check_places(void)
{
    for (int i = 0; i < 5; i++) {
        int item = below(200);
        MPI_Offset place = -1;
        MUST(MPI_File_get_byte_offset(file, item, &place));
        if (place != (MPI_Offset)place_of_byte(&views[rank], (long)item * etypes[views[rank].etype].size) * unit)
            FAIL(step, "MPI_File_get_byte_offset of %d gives %lld", item, (long long)place);
    }
}

static void one_step(void)
{
    int choice = below(100);
    const char *name = choice < 35 ? "independent accesses" : choice < 62 ? "a collective access" : choice < 69 ? "views" : choice < 77 ? "settling" : "others";
    snprintf(title, sizeof title, "random_files --seed %llu --steps %d: step %d, %s", (unsigned long long)seed, steps, step, name);
    STORY(title);
    if (choice < 35) {
        independent();
    } else if (choice < 62) {
        collective();
    } else if (choice < 69) {
        set_views(below(2));
    } else if (choice < 77) {
        settle();
    } else if (choice < 81) {
        resize();
    } else if (choice < 83) {
        reopen();
    } else if (choice < 86) {
        settle();
        is_atomic = !is_atomic && !left_out("atomic");
        MUST(MPI_File_set_atomicity(file, is_atomic));
    } else if (choice < 88) {
        check_places();
    } else if (!is_common) {
        set_views(1);
    } else if (choice < 92) {
        ordered();
    } else if (choice < 96) {
        shared_writes();
    } else {
        shared_reads();
    }
    if (access_count > ACCESSES_MAX / 2)
        settle();
}

static void run(void)
{
    alarm((unsigned)time_limit());
    stream = seed * 0x2545f4914f6cdd1du + (uint64_t)ranks;
    step = old_size = 0;
    memset(old, 0, ROOM);
    begin_round();
    disk_remove(file_name);
    open_file(MPI_MODE_CREATE | MPI_MODE_RDWR);
    set_views(below(2));
    for (step = 1; step <= steps; step++)
        one_step();
    settle();
    MUST(MPI_File_close(&file));
    MPI_Barrier(MPI_COMM_WORLD);
    if (disk_size(file_name) != (long long)old_size * unit)
        FAIL(step, "the closed file has %lld bytes, expected %lld", disk_size(file_name), (long long)old_size * unit);
    disk_remove(file_name);
    begin_round();
}

int main(int argc, char **argv)
{
    int programs = 5;
    const char *where = NULL;
    begin(&argc, &argv);
    for (int i = 1; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--seed"))
            seed = strtoull(argv[i + 1], NULL, 10);
        else if (!strcmp(argv[i], "--steps"))
            steps = atoi(argv[i + 1]);
        else if (!strcmp(argv[i], "--programs"))
            programs = atoi(argv[i + 1]);
        else if (!strcmp(argv[i], "--unit"))
            unit = atoi(argv[i + 1]);
        else if (!strcmp(argv[i], "--directory"))
            where = argv[i + 1];
    }
    if (ranks > RANKS_MAX || unit < 1) {
        fprintf(stderr, "random_files takes %d ranks at most, and units of at least one byte\n", RANKS_MAX);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    open_directory(where);
    make_etypes();
    for (uint64_t first = seed; seed < first + (uint64_t)programs; seed++)
        run();
    free_etypes();
    close_directory();
    return end();
}
