/* How a face finds the library, and what all its functions share. */
#define _GNU_SOURCE
#include "face.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The library that the face needs, under which all faces and all programs of the standard's ABI share one. */
#define LIBRARY_NAME "libmpi_abi.so.1"

struct library library;

/* By this libmpi_abi knows that a library with the name of another MPI is a face (weft-abi, others.rs). */
EXPORTED const char weft_face[] = "a face of Weft";

static __attribute__((noreturn)) COLD void give_up(const char *what, const char *why) {
    fprintf(stderr, "weft: a library for programs of another MPI cannot work here: %s%s\n", what, why);
    abort();
}

static uintptr_t look_up(void *handle, const char *name) {
    void *function = dlsym(handle, name);
    if (!function) {
        give_up(LIBRARY_NAME " has no function ", name);
    }
    return (uintptr_t)function;
}

/* Looks up the functions in the library itself, and not in the process, where programs and profilers
 * define the same names. Runs when the face is loaded, before any call. */
__attribute__((constructor)) static void find_library(void) {
    void *handle = dlopen(LIBRARY_NAME, RTLD_LAZY | RTLD_NOLOAD);
    if (!handle) {
        give_up(LIBRARY_NAME " is not loaded: ", dlerror());
    }
#define FIND(name) library.name = (__typeof__(library.name))look_up(handle, "P" #name);
    FUNCTIONS(FIND)
    /* Handles and statuses are converted by what Weft has in them. */
    char version[MPI_MAX_LIBRARY_VERSION_STRING + 1] = "";
    int length = 0;
    library.MPI_Get_library_version(version, &length);
    if (strncmp(version, "Weft", 4) != 0) {
        version[strcspn(version, "\n")] = '\0';
        give_up("the process has the " LIBRARY_NAME " of another MPI: ", version);
    }
#ifdef HAS_SHORT_CALLS
#define FIND_SHORT(name, symbol, parameters)                                                                  \
    short_calls.name = (__typeof__(short_calls.name))look_up(handle, #symbol);
    SHORT_CALLS(FIND_SHORT)
    ((void (*)(void))look_up(handle, "weft_short_handles"))();
#endif
}

void *room_open_many(struct room *room, MPI_Count count, size_t size) {
    room->many = calloc((size_t)count, size);
    return room->many;
}

void room_close_many(struct room *room) { free(room->many); }

int fail(int class) {
    library.MPI_Comm_call_errhandler(MPI_COMM_SELF, class);
    return error_f(class);
}

int no_memory(void) { return fail(MPI_ERR_NO_MEM); }

/* The library's codes are:
 *
 * - below 128, bare classes;
 * - above, codes with a sentence, which are the same in every ABI: a program asks MPI_Error_class for the
 *   class;
 * - among those, classes of the tool interface, which are no such codes;
 * - from MPI_ERR_LASTCODE on, the program's own. Where the ABI's last code is higher, they come after that
 *   one.
 *
 * A number that is no code of the ABI may come from a function of the program, and comes back as it was.
 * Where the library has something else in its place, it gets the number with FOREIGN added, which is above
 * all codes, or negative if it is so large itself. */
#define CLASS_MAX 127
#define OWN_CODES_SHIFT (F_MPI_ERR_LASTCODE > MPI_ERR_LASTCODE ? F_MPI_ERR_LASTCODE - MPI_ERR_LASTCODE : 0)
#define FOREIGN (1 << 30)

static bool has_sentence(int code) {
    bool is_of_tools = code >= MPI_T_ERR_CANNOT_INIT && code <= MPI_T_ERR_PVAR_NO_ATOMIC;
    return code > CLASS_MAX && code < MPI_ERR_LASTCODE && !is_of_tools;
}

int error_that_happened_f(int code) {
    if (code >= FOREIGN) {
        return code - FOREIGN;
    }
    if (code < 0) {
        return code <= -FOREIGN ? -code : code;
    }
    if (code > MPI_ERR_LASTCODE) {
        return code + OWN_CODES_SHIFT;
    }
    if (has_sentence(code)) {
        return code;
    }
    switch (code) {
        F_ERROR_CLASS_LIST(TO_F)
        F_TOOL_ERROR_LIST(TO_F)
#ifndef F_MPI_ERR_ERRHANDLER
    case MPI_ERR_ERRHANDLER: return F_MPI_ERR_ARG;
#endif
    case MPI_ERR_LASTCODE: return F_MPI_ERR_LASTCODE;
    default: return F_MPI_ERR_OTHER; /* The ABI has no such class. */
    }
}

int error_c(int code) {
    if (code < 0 || has_sentence(code)) {
        return code;
    }
    if (code == F_MPI_ERR_LASTCODE) {
        return MPI_ERR_LASTCODE;
    }
    if (code > MPI_ERR_LASTCODE + OWN_CODES_SHIFT && code - OWN_CODES_SHIFT < FOREIGN) {
        return code - OWN_CODES_SHIFT;
    }
    switch (code) {
        F_ERROR_CLASS_LIST(TO_C)
        F_TOOL_ERROR_LIST(TO_C)
    default: return code < FOREIGN ? code + FOREIGN : -code;
    }
}

bool is_foreign_class(int code) { return code > 0 && code <= CLASS_MAX && error_c(code) >= FOREIGN; }

int text_f(char *to, size_t room, const char *from, int *length) {
    if (to) {
        size_t used = strnlen(from, room - 1);
        memcpy(to, from, used);
        to[used] = '\0';
        if (length) {
            *length = (int)used;
        }
    }
    return MPI_SUCCESS;
}

int port_f(char *to, size_t room, const char *from, int *length) {
    if (strnlen(from, room) == room) {
        library.MPI_Comm_call_errhandler(MPI_COMM_SELF, MPI_ERR_PORT);
        return MPI_ERR_PORT;
    }
    return text_f(to, room, from, length);
}

int peers(MPI_Comm comm, bool neighbors, int *sources, int *destinations) {
    int topology = MPI_UNDEFINED, code = MPI_SUCCESS, flag = 0;
    *sources = *destinations = 0;
    /* What is no communicator is for the collective to refuse. */
    if (library.MPI_Comm_toint(comm) == library.MPI_Comm_toint(MPI_COMM_NULL)) {
        return MPI_SUCCESS;
    }
    if (neighbors) {
        code = library.MPI_Topo_test(comm, &topology);
    }
    if (code != MPI_SUCCESS) {
        return code;
    }
    switch (topology) {
    case MPI_DIST_GRAPH: return library.MPI_Dist_graph_neighbors_count(comm, sources, destinations, &flag);
    case MPI_CART:
        code = library.MPI_Cartdim_get(comm, sources);
        *sources *= 2;
        break;
    case MPI_GRAPH: {
        int rank = 0;
        code = library.MPI_Comm_rank(comm, &rank);
        if (code == MPI_SUCCESS) {
            code = library.MPI_Graph_neighbors_count(comm, rank, sources);
        }
        break;
    }
    default:
        code = library.MPI_Comm_test_inter(comm, &flag);
        if (code == MPI_SUCCESS) {
            code = (flag ? library.MPI_Comm_remote_size : library.MPI_Comm_size)(comm, sources);
        }
    }
    *destinations = *sources;
    return code;
}
