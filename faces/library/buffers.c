/* Buffers for sends in buffered mode (MPI-5.0 §3.6). A program computes the size of its buffer with the
 * MPI_BSEND_OVERHEAD of its ABI, and the library needs more for each message. So a larger buffer takes
 * the place of the program's: as large as the most messages need that the program's buffer can hold.
 * Pages of it that hold no message take no memory. */
#include "face.h"
#include <pthread.h>
#include <stdlib.h>

struct buffer {
    struct buffer *next;
    void *programs;
    MPI_Count size;
    char memory[];
};
static struct buffer *buffers;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

#define MORE_FOR_A_MESSAGE (MPI_BSEND_OVERHEAD - F_MPI_BSEND_OVERHEAD)
_Static_assert(MORE_FOR_A_MESSAGE > 0, "the program's buffer would be large enough");

/* The size of the library's buffer, which is at most `most`. */
static MPI_Count size_c(MPI_Count size, MPI_Count most) {
    MPI_Count larger = size + size / F_MPI_BSEND_OVERHEAD * MORE_FOR_A_MESSAGE;
    return larger < most ? larger : most;
}

static bool is_automatic(const void *buffer) {
    (void)buffer;
#ifdef F_MPI_BUFFER_AUTOMATIC
    return (intptr_t)buffer == F_MPI_BUFFER_AUTOMATIC;
#else
    return false;
#endif
}

/* A buffer for the library in the place of the program's, or null when there is no memory. */
static struct buffer *buffer_new(void *programs, MPI_Count size, MPI_Count most) {
    struct buffer *buffer = malloc(sizeof *buffer + (size_t)size_c(size, most));
    if (buffer) {
        pthread_mutex_lock(&lock);
        buffer->next = buffers;
        buffer->programs = programs;
        buffer->size = size;
        buffers = buffer;
        pthread_mutex_unlock(&lock);
    }
    return buffer;
}

/* Takes the buffer with this memory out of the list, if there is one. */
static struct buffer *buffer_take(const void *memory) {
    pthread_mutex_lock(&lock);
    struct buffer **at = &buffers;
    while (*at && (*at)->memory != memory) {
        at = &(*at)->next;
    }
    struct buffer *found = *at;
    if (found) {
        *at = found->next;
    }
    pthread_mutex_unlock(&lock);
    return found;
}

static void detached_f(void *address) {
    (void)address;
#ifdef F_MPI_BUFFER_AUTOMATIC
    if (*(void **)address == MPI_BUFFER_AUTOMATIC) {
        *(intptr_t *)address = F_MPI_BUFFER_AUTOMATIC;
    }
#endif
}

/* Constants, and what the library will refuse. */
static bool is_wrong_or_constant(const void *buffer, MPI_Count size) {
    return !buffer || is_automatic(buffer) || in_place_c(buffer) == MPI_IN_PLACE || size <= 0 ||
           size > INT64_MAX / MPI_BSEND_OVERHEAD;
}

/* The functions to attach and to detach. What is wrong with the program's buffer is for the library to
 * say. */
#define BOTH(attach, detach, parameter, argument, type, most)                                                 \
    int face_##attach(parameter void *buffer, type size) {                                                    \
        if (is_wrong_or_constant(buffer, size)) {                                                             \
            void *constant = is_automatic(buffer) ? MPI_BUFFER_AUTOMATIC : in_place_c(buffer);                \
            return error_f(library.attach(argument constant, size));                                          \
        }                                                                                                     \
        struct buffer *own = buffer_new(buffer, size, most);                                                  \
        if (!own) {                                                                                           \
            return no_memory();                                                                               \
        }                                                                                                     \
        int code = library.attach(argument own->memory, (type)size_c(size, most));                            \
        if (code != MPI_SUCCESS) {                                                                            \
            free(buffer_take(own->memory));                                                                   \
        }                                                                                                     \
        return error_f(code);                                                                                 \
    }                                                                                                         \
    int face_##detach(parameter void *buffer_addr, type *size) {                                              \
        int code = library.detach(argument buffer_addr, size);                                                \
        if (code == MPI_SUCCESS) {                                                                            \
            struct buffer *own = buffer_take(*(void **)buffer_addr);                                          \
            if (own) {                                                                                        \
                *(void **)buffer_addr = own->programs;                                                        \
                *size = (type)own->size;                                                                      \
                free(own);                                                                                    \
            } else {                                                                                          \
                detached_f(buffer_addr);                                                                      \
            }                                                                                                 \
        }                                                                                                     \
        return error_f(code);                                                                                 \
    }

#define NOTHING
#define OF_COMM F_Comm comm,
#define COMM_ARGUMENT comm_c(comm),
#define OF_SESSION F_Session session,
#define SESSION_ARGUMENT session_c(session),
BOTH(MPI_Buffer_attach, MPI_Buffer_detach, NOTHING, NOTHING, int, INT32_MAX)
EXPORT(MPI_Buffer_attach)
EXPORT(MPI_Buffer_detach)
BOTH(MPI_Buffer_attach_c, MPI_Buffer_detach_c, NOTHING, NOTHING, MPI_Count, INT64_MAX)
EXPORT(MPI_Buffer_attach_c)
EXPORT(MPI_Buffer_detach_c)
BOTH(MPI_Comm_attach_buffer, MPI_Comm_detach_buffer, OF_COMM, COMM_ARGUMENT, int, INT32_MAX)
EXPORT(MPI_Comm_attach_buffer)
EXPORT(MPI_Comm_detach_buffer)
BOTH(MPI_Comm_attach_buffer_c, MPI_Comm_detach_buffer_c, OF_COMM, COMM_ARGUMENT, MPI_Count, INT64_MAX)
EXPORT(MPI_Comm_attach_buffer_c)
EXPORT(MPI_Comm_detach_buffer_c)
BOTH(MPI_Session_attach_buffer, MPI_Session_detach_buffer, OF_SESSION, SESSION_ARGUMENT, int, INT32_MAX)
EXPORT(MPI_Session_attach_buffer)
EXPORT(MPI_Session_detach_buffer)
BOTH(MPI_Session_attach_buffer_c, MPI_Session_detach_buffer_c, OF_SESSION, SESSION_ARGUMENT, MPI_Count, INT64_MAX)
EXPORT(MPI_Session_attach_buffer_c)
EXPORT(MPI_Session_detach_buffer_c)
