/* What all sources of a Fortran library share. libmpifort_abi is these sources, compiled with abi/binding.h.
 * The Fortran libraries of the faces are the same sources, compiled with the mpi.h and the binding.h of
 * another ABI: they call the face in C, as libmpifort_abi calls libmpi_abi.
 *
 * Sources of procedures are compiled twice: once for mpi_x_, which calls MPI_X, and with WEFT_PROFILING for
 * pmpi_x_, which calls PMPI_X. A tool that defines MPI_X therefore sees the calls of Fortran programs, and a
 * tool that defines mpi_x_ reaches the library by pmpi_x_ (MPI-5.0 §15.2). */
#ifndef WEFT_FORTRAN_H
#define WEFT_FORTRAN_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef WEFT_PROFILING
#define C(name) P##name
#define F(name) p##name##_
#else
#define C(name) name
#define F(name) name##_
#endif
#define TEXT_OF(name) #name
#define TEXT(name) TEXT_OF(name)
/* Another name of a procedure of mpif.h. */
#define ALSO(other, name) extern __typeof__(F(name)) F(other) __attribute__((alias(TEXT(F(name)))))

/* What sources of the library share and programs do not see. */
#define INTERNAL __attribute__((visibility("hidden")))
#define COLD __attribute__((cold, noinline))
#define LIKELY(condition) __builtin_expect(!!(condition), 1)

static inline void give(int *ierror, int code) {
    if (ierror) {
        *ierror = code;
    }
}

/* The names, the handles, the constants that are recognised by their address, and the sections of arrays:
 * of the ABI for which the library is compiled. */
#include "binding.h"

/* The addresses of buffers in C, for calls that know some of these constants, and whether they differ. */
static inline bool needs_buffer_c(const void *buffer) { return is_bottom(buffer); }
static inline void *buffer_c(const void *buffer) { return needs_buffer_c(buffer) ? MPI_BOTTOM : (void *)buffer; }

static inline bool needs_buffer_or_in_place_c(const void *buffer) {
    return is_in_place(buffer) || needs_buffer_c(buffer);
}
static inline void *buffer_or_in_place_c(const void *buffer) {
    return is_in_place(buffer) ? MPI_IN_PLACE : buffer_c(buffer);
}

static inline bool needs_attached_c(const void *buffer) {
    return is_buffer_automatic(buffer) || needs_buffer_c(buffer);
}
static inline void *attached_c(const void *buffer) {
    return is_buffer_automatic(buffer) ? MPI_BUFFER_AUTOMATIC : buffer_c(buffer);
}

/* A Fortran status has the layout of the C one, in every ABI (MPI-5.0 §20.4.3). */
static inline MPI_Status *status_c(void *status) {
    return is_status_ignore(status) ? MPI_STATUS_IGNORE : status;
}

static inline MPI_Status *statuses_c(void *statuses) {
    return is_statuses_ignore(statuses) || is_status_ignore(statuses) ? MPI_STATUSES_IGNORE : statuses;
}

static inline int *weights_c(const int *weights) {
    if (is_unweighted(weights)) {
        return MPI_UNWEIGHTED;
    }
    return is_weights_empty(weights) ? MPI_WEIGHTS_EMPTY : (int *)weights;
}

/* Room for the handles of an array: most arrays need no allocation. */
#define ROOM 64
struct room {
    void *few[ROOM];
    void *many;
};
/* Memory for `count` pointers, or null when there is none left. */
INTERNAL void **room_open(struct room *room, ptrdiff_t count);
INTERNAL void room_close(struct room *room);

/* Reports an error of the binding itself to the error handler of MPI_COMM_SELF (MPI-5.0 §9.3) and returns
 * its code. */
INTERNAL int fail(int class, const char *sentence);

/* Strings. A Fortran string has no end mark and is padded with blanks. */
struct text {
    char few[256];
    char *at;
};
/* Makes a C string without trailing blanks, and without leading ones if `both`. Null: there is no memory. */
INTERNAL const char *text_open(struct text *text, const char *from, size_t length, bool both);
INTERNAL void text_close(struct text *text);
/* Copies a C string into a Fortran string and pads it. */
INTERNAL void text_give(char *to, size_t length, const char *from);

INTERNAL bool section_is_contiguous(const struct descriptor *section);

static inline bool contiguous(const struct descriptor *section) {
    return LIKELY(section->rank == 0) ||
           LIKELY(section->rank == 1 && section_stride(section, 0) == (ptrdiff_t)section->element) ||
           section_is_contiguous(section);
}

/* How long a call uses its buffers, and so what a section that is not contiguous becomes. */
enum use {
    USE_BLOCKING,    /* until it returns: a contiguous copy */
    USE_NONBLOCKING, /* until its request completes: a datatype, else a copy that lives as long as the request */
    USE_PERSISTENT,  /* in each turn of its request: the same */
    USE_ONE_SIDED,   /* until a synchronisation of the window: a datatype */
    USE_CONTIGUOUS,  /* as memory: the section must be contiguous */
};

/* A buffer of a call, which is perhaps not contiguous. */
struct part {
    const struct descriptor *section;
    bool writes;    /* MPI writes into the buffer */
    bool described; /* count and datatype are those of this buffer alone */
    MPI_Count count;
    int small_count;
    int datatype;
    void *at;        /* what MPI gets */
    MPI_Datatype made; /* the datatype that stands for the section, or MPI_DATATYPE_NULL */
};
INTERNAL int parts_open(struct part *parts, int number, enum use use);
/* Ends the use, or keeps the copies until the request completes. Returns `code`, or the error of this. */
INTERNAL int parts_close(struct part *parts, int number, enum use use, int code, const int *request);

/* Arrays and copies that live as long as a request. */
struct kept;
/* Keeps memory from malloc until the request completes or is freed. */
INTERNAL int keep_memory(int request, void *memory, bool persistent);
/* The number of things that are kept. When it is 0, calls that complete requests do not look for any. */
extern INTERNAL int kept_requests;
static inline bool any_kept(void) { return __atomic_load_n(&kept_requests, __ATOMIC_ACQUIRE) != 0; }
/* A persistent request is about to start: its copies are made anew. */
INTERNAL void kept_start(int request);
/* The request has completed and still exists: what MPI wrote goes to the program's array. */
INTERNAL void kept_complete(int request);
/* What is kept for requests is taken out before a call that may complete them: as soon as a request is
 * gone, another thread may get a request with the same integer. */
INTERNAL struct kept *kept_take(const int *requests, int count);
/* One of these requests has completed, and is gone unless it is persistent. */
INTERNAL void kept_settle(struct kept *taken, int request, bool is_gone);
/* After the call: what is still needed goes back. */
INTERNAL void kept_return(struct kept *taken);
INTERNAL void kept_free(int request);

/* The numbers of processes, or of neighbours, with which MPI_Alltoallw and its like communicate. */
INTERNAL int peers(MPI_Comm comm, bool neighbors, int *sources, int *destinations);

/* The program's functions, and C functions that call them (callbacks.c). */
INTERNAL MPI_User_function *operation_trampoline(void *function);
INTERNAL MPI_User_function_c *large_operation_trampoline(void *function);
INTERNAL void *errhandler_trampoline(void *function, int kind);
enum { OF_COMM, OF_WIN, OF_FILE, OF_SESSION };

/* Attributes. */
INTERNAL void *keyval_state(void *copy, void *remove, MPI_Aint extra, bool old);
INTERNAL int comm_copy_trampoline(MPI_Comm, int, void *, void *, void *, int *);
INTERNAL int comm_delete_trampoline(MPI_Comm, int, void *, void *);
INTERNAL int type_copy_trampoline(MPI_Datatype, int, void *, void *, void *, int *);
INTERNAL int type_delete_trampoline(MPI_Datatype, int, void *, void *);
INTERNAL int win_copy_trampoline(MPI_Win, int, void *, void *, void *, int *);
INTERNAL int win_delete_trampoline(MPI_Win, int, void *, void *);
/* A box is how C sees an attribute that Fortran set: a pointer to an integer (MPI-5.0 §19.3.7). */
INTERNAL void *box_new(MPI_Aint value);
INTERNAL bool box_read(void *attribute, MPI_Aint *value);
INTERNAL void box_free(void *attribute);

/* Generalized requests and data representations. */
INTERNAL void *grequest_state(void *query, void *release, void *cancel, MPI_Aint extra);
INTERNAL int grequest_query_trampoline(void *, MPI_Status *);
INTERNAL int grequest_free_trampoline(void *);
INTERNAL int grequest_cancel_trampoline(void *, int);
INTERNAL void *datarep_state(void *read, void *write, void *extent, void *extra);
INTERNAL int datarep_read_trampoline(void *, MPI_Datatype, int, void *, MPI_Offset, void *);
INTERNAL int datarep_write_trampoline(void *, MPI_Datatype, int, void *, MPI_Offset, void *);
INTERNAL int datarep_large_read_trampoline(void *, MPI_Datatype, MPI_Count, void *, MPI_Offset, void *);
INTERNAL int datarep_large_write_trampoline(void *, MPI_Datatype, MPI_Count, void *, MPI_Offset, void *);
INTERNAL int datarep_extent_trampoline(MPI_Datatype, MPI_Aint *, void *);

#endif
