/* Sections of arrays as buffers (MPI-5.0 §19.1.12), and what is kept until a request completes. Compiled
 * once.
 *
 * A blocking call gets a contiguous copy, which is copied back. A nonblocking one gets a datatype that
 * describes the section, so that nothing is left to do at completion. Where no datatype can say it (a
 * collective places parts of the buffer by itself; a datatype has gaps), the call gets a copy, and the
 * procedures that complete the request copy back. */
#include "fortran.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

bool section_is_contiguous(const struct descriptor *section) {
    ptrdiff_t step = (ptrdiff_t)section->element;
    for (int i = 0; i < section->rank; i++) {
        if (section_extent(section, i) == 0) {
            return true;
        }
    }
    for (int i = 0; i < section->rank; i++) {
        ptrdiff_t extent = section_extent(section, i);
        /* The last extent of an array of assumed size is not known: such arrays are contiguous. */
        if (extent < 0) {
            return true;
        }
        if (extent != 1 && section_stride(section, i) != step) {
            return false;
        }
        step *= extent;
    }
    return true;
}

static size_t section_bytes(const struct descriptor *section) {
    size_t bytes = section->element;
    for (int i = 0; i < section->rank; i++) {
        bytes *= (size_t)section_extent(section, i);
    }
    return bytes;
}

/* Copies the dimensions below `rank` of a section at `base` to contiguous memory, or `back`. Returns the end
 * of the memory. */
static char *copy(const struct descriptor *section, int rank, char *base, char *memory, bool back) {
    if (rank == 0) {
        memcpy(back ? base : memory, back ? memory : base, section->element);
        return memory + section->element;
    }
    ptrdiff_t extent = section_extent(section, rank - 1), stride = section_stride(section, rank - 1);
    for (ptrdiff_t i = 0; i < extent; i++) {
        memory = copy(section, rank - 1, base + i * stride, memory, back);
    }
    return memory;
}

/* Makes the datatype of the first `count` elements of the dimensions below `rank`. An element of the array is
 * `inner` datatypes in a row. Pieces that are made on the way are freed. */
static int describe(const struct descriptor *section, int rank, MPI_Count inner, MPI_Datatype of,
                    MPI_Count count, MPI_Datatype *made) {
    if (rank == 0) {
        return PMPI_Type_contiguous_c(count, of, made);
    }
    ptrdiff_t stride = section_stride(section, rank - 1);
    MPI_Count below = inner;
    for (int i = 0; i < rank - 1; i++) {
        below *= section_extent(section, i);
    }
    MPI_Count whole = count / below, rest = count % below;
    MPI_Datatype pieces[2] = {MPI_DATATYPE_NULL, MPI_DATATYPE_NULL};
    MPI_Aint places[2] = {0, whole * stride};
    int lengths[2] = {1, 1}, number = 0, code = MPI_SUCCESS;
    if (whole > 0) {
        MPI_Datatype row;
        code = describe(section, rank - 1, inner, of, below, &row);
        if (code == MPI_SUCCESS) {
            code = PMPI_Type_create_hvector_c(whole, 1, stride, row, &pieces[number]);
            PMPI_Type_free(&row);
            number += code == MPI_SUCCESS;
        }
    }
    if (code == MPI_SUCCESS && rest > 0) {
        places[number] = places[1];
        code = describe(section, rank - 1, inner, of, rest, &pieces[number]);
        number += code == MPI_SUCCESS;
    }
    if (code == MPI_SUCCESS) {
        code = PMPI_Type_create_struct(number, lengths, places, pieces, made);
    }
    for (int i = 0; i < number; i++) {
        PMPI_Type_free(&pieces[i]);
    }
    return code;
}

/* Tries to make the datatype that describes a part's section. Without success `made` stays null. */
static int part_describe(struct part *part) {
    MPI_Datatype type = datatype_c(part->datatype);
    MPI_Count lower, extent, true_lower, true_extent, size;
    int code = PMPI_Type_get_extent_c(type, &lower, &extent);
    if (code == MPI_SUCCESS) {
        code = PMPI_Type_get_true_extent_c(type, &true_lower, &true_extent);
    }
    if (code == MPI_SUCCESS) {
        code = PMPI_Type_size_c(type, &size);
    }
    if (code != MPI_SUCCESS) {
        return code;
    }
    bool dense = size > 0 && lower == 0 && true_lower == 0 && extent == size && true_extent == size;
    if (!dense || part->section->element % (size_t)size != 0) {
        return MPI_SUCCESS;
    }
    MPI_Count inner = (MPI_Count)part->section->element / size;
    if (part->count < 0 || part->count > (MPI_Count)(section_bytes(part->section) / (size_t)size)) {
        return fail(MPI_ERR_COUNT, "the section of an array that is the buffer has fewer elements than count says");
    }
    code = describe(part->section, part->section->rank, inner, type, part->count, &part->made);
    if (code == MPI_SUCCESS) {
        code = PMPI_Type_commit(&part->made);
    }
    return code;
}

static int part_open(struct part *part, enum use use) {
    part->made = MPI_DATATYPE_NULL;
    part->at = part->section->base;
    part->small_count = (int)part->count;
    if (contiguous(part->section)) {
        return MPI_SUCCESS;
    }
    if (use == USE_CONTIGUOUS) {
        return fail(MPI_ERR_BUFFER, "this procedure needs memory that is contiguous, and the section of an array "
                                    "that is the buffer is not");
    }
    if (use != USE_BLOCKING && part->described) {
        int code = part_describe(part);
        if (code != MPI_SUCCESS || part->made != MPI_DATATYPE_NULL) {
            part->count = part->small_count = 1;
            part->datatype = code == MPI_SUCCESS ? datatype_f(part->made) : part->datatype;
            return code;
        }
    }
    if (use == USE_ONE_SIDED) {
        return fail(MPI_ERR_TYPE, "a section of an array that is not contiguous needs a datatype without gaps, whose "
                                  "size divides that of an element of the array");
    }
    part->at = malloc(section_bytes(part->section));
    if (!part->at) {
        return fail(MPI_ERR_NO_MEM, "there is no memory for a contiguous copy of the section of an array");
    }
    copy(part->section, part->section->rank, part->section->base, part->at, false);
    return MPI_SUCCESS;
}

static bool is_copy(const struct part *part) { return part->at != part->section->base; }

int parts_open(struct part *parts, int number, enum use use) {
    for (int i = 0; i < number; i++) {
        int code = part_open(&parts[i], use);
        if (code != MPI_SUCCESS) {
            parts_close(parts, i, USE_BLOCKING, code, NULL);
            return code;
        }
    }
    return MPI_SUCCESS;
}

/* What is kept for a request: copies of sections, and memory. */
struct kept {
    struct kept *next;
    int request;
    bool persistent;
    /* Persistent: it was started and has not completed. Else: it has not completed, as far as is known. */
    bool active;
    bool writes;
    void *memory;
    /* The section of which `memory` is a copy, or null. */
    struct descriptor *section;
    /* The request is gone. */
    bool is_over;
};

int kept_requests;
static struct kept *kept_list[256];
static pthread_mutex_t kept_lock = PTHREAD_MUTEX_INITIALIZER;

static struct kept **kept_start_of(int request) {
    return &kept_list[(unsigned)request % (sizeof kept_list / sizeof *kept_list)];
}

static void complete(struct kept *kept) {
    if (kept->active && kept->section && kept->writes) {
        copy(kept->section, kept->section->rank, kept->section->base, kept->memory, true);
    }
    kept->active = false;
}

/* Weft calls `query` and `release` when a request completes, also where C completes it. Other libraries have
 * no such function: there the table says what is kept, and the procedures of Fortran look into it. */
extern int weft_request_attach(MPI_Request request, MPI_Grequest_query_function *query,
                               MPI_Grequest_free_function *release, void *state, void **before) __attribute__((weak));

static int attached_query(void *state, MPI_Status *status) {
    (void)status;
    for (struct kept *kept = state; kept; kept = kept->next) {
        complete(kept);
    }
    return MPI_SUCCESS;
}

static int attached_free(void *state) {
    for (struct kept *kept = state; kept;) {
        struct kept *next = kept->next;
        free(kept->memory);
        free(kept->section);
        free(kept);
        kept = next;
    }
    return MPI_SUCCESS;
}

/* Attaches what is kept to its request, before what is attached already. */
static bool attach(struct kept *kept) {
    void *before;
    if (kept->persistent || !weft_request_attach ||
        !weft_request_attach(request_c(kept->request), attached_query, attached_free, kept, &before)) {
        return false;
    }
    kept->next = before;
    return true;
}

static int keep(int request, void *memory, struct descriptor *section, bool persistent, bool writes) {
    struct kept *kept = malloc(sizeof *kept);
    if (!kept) {
        return fail(MPI_ERR_NO_MEM, "there is no memory to remember what a request needs until it completes");
    }
    *kept = (struct kept){NULL, request, persistent, !persistent, writes, memory, section, false};
    if (attach(kept)) {
        return MPI_SUCCESS;
    }
    pthread_mutex_lock(&kept_lock);
    struct kept **start = kept_start_of(request);
    kept->next = *start;
    *start = kept;
    __atomic_add_fetch(&kept_requests, 1, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&kept_lock);
    return MPI_SUCCESS;
}

int keep_memory(int request, void *memory, bool persistent) {
    return keep(request, memory, NULL, persistent, false);
}

static int keep_part(const struct part *part, int request, bool persistent) {
    size_t size = sizeof *part->section + part->section->rank * sizeof(struct dimension);
    struct descriptor *section = malloc(size);
    if (!section) {
        return fail(MPI_ERR_NO_MEM, "there is no memory to remember the section of an array until a request completes");
    }
    memcpy(section, part->section, size);
    return keep(request, part->at, section, persistent, part->writes);
}

int parts_close(struct part *parts, int number, enum use use, int code, const int *request) {
    for (int i = 0; i < number; i++) {
        struct part *part = &parts[i];
        if (part->made != MPI_DATATYPE_NULL) {
            /* An operation that has begun keeps the datatype (MPI-5.0 §5.1.9). */
            PMPI_Type_free(&part->made);
        } else if (is_copy(part) && use != USE_BLOCKING && code == MPI_SUCCESS) {
            int kept = keep_part(part, *request, use == USE_PERSISTENT);
            code = kept == MPI_SUCCESS ? code : kept;
        } else if (is_copy(part)) {
            if (part->writes) {
                copy(part->section, part->section->rank, part->section->base, part->at, true);
            }
            free(part->at);
        }
    }
    return code;
}

void kept_start(int request) {
    pthread_mutex_lock(&kept_lock);
    for (struct kept *kept = *kept_start_of(request); kept; kept = kept->next) {
        if (kept->request == request && kept->persistent) {
            kept->active = true;
            if (kept->section) {
                copy(kept->section, kept->section->rank, kept->section->base, kept->memory, false);
            }
        }
    }
    pthread_mutex_unlock(&kept_lock);
}

static void forget(struct kept *kept, bool with_memory) {
    if (with_memory) {
        free(kept->memory);
    }
    free(kept->section);
    free(kept);
    __atomic_sub_fetch(&kept_requests, 1, __ATOMIC_RELEASE);
}

void kept_complete(int request) {
    pthread_mutex_lock(&kept_lock);
    for (struct kept *kept = *kept_start_of(request); kept; kept = kept->next) {
        if (kept->request == request) {
            complete(kept);
        }
    }
    pthread_mutex_unlock(&kept_lock);
}

struct kept *kept_take(const int *requests, int count) {
    struct kept *taken = NULL;
    pthread_mutex_lock(&kept_lock);
    for (int i = 0; i < count; i++) {
        struct kept **at = kept_start_of(requests[i]);
        while (*at) {
            struct kept *kept = *at;
            if (kept->request == requests[i]) {
                *at = kept->next;
                kept->next = taken;
                taken = kept;
            } else {
                at = &kept->next;
            }
        }
    }
    pthread_mutex_unlock(&kept_lock);
    return taken;
}

void kept_settle(struct kept *taken, int request, bool is_gone) {
    for (struct kept *kept = taken; kept; kept = kept->next) {
        if (kept->request == request) {
            complete(kept);
            kept->is_over = is_gone && !kept->persistent;
        }
    }
}

void kept_return(struct kept *taken) {
    pthread_mutex_lock(&kept_lock);
    while (taken) {
        struct kept *kept = taken;
        taken = kept->next;
        if (kept->is_over) {
            forget(kept, true);
        } else {
            struct kept **start = kept_start_of(kept->request);
            kept->next = *start;
            *start = kept;
        }
    }
    pthread_mutex_unlock(&kept_lock);
}

void kept_free(int request) {
    pthread_mutex_lock(&kept_lock);
    struct kept **at = kept_start_of(request);
    while (*at) {
        struct kept *kept = *at;
        if (kept->request == request) {
            *at = kept->next;
            /* MPI may still use the memory of a request that is active. */
            forget(kept, !kept->active);
        } else {
            at = &kept->next;
        }
    }
    pthread_mutex_unlock(&kept_lock);
}
