/* What the procedures of libmpifort_abi need beside the C library: strings and room. Compiled once. */
#include "fortran.h"
#include <stdlib.h>
#include <string.h>

int fail(int class, const char *sentence) {
    int code = class;
    if (PMPI_Add_error_code(class, &code) != MPI_SUCCESS || PMPI_Add_error_string(code, sentence) != MPI_SUCCESS) {
        code = class;
    }
    PMPI_Comm_call_errhandler(MPI_COMM_SELF, code);
    return code;
}

void **room_open(struct room *room, ptrdiff_t count) {
    room->many = NULL;
    if (count <= ROOM) {
        return room->few;
    }
    room->many = calloc((size_t)count, sizeof(void *));
    return room->many;
}

void room_close(struct room *room) { free(room->many); }

const char *text_open(struct text *text, const char *from, size_t length, bool both) {
    while (length > 0 && (from[length - 1] == ' ' || from[length - 1] == '\0')) {
        length--;
    }
    while (both && length > 0 && *from == ' ') {
        from++;
        length--;
    }
    text->at = length < sizeof text->few ? text->few : malloc(length + 1);
    if (text->at) {
        memcpy(text->at, from, length);
        text->at[length] = '\0';
    }
    return text->at;
}

void text_close(struct text *text) {
    if (text->at != text->few) {
        free(text->at);
    }
}

void text_give(char *to, size_t length, const char *from) {
    size_t used = strnlen(from, length);
    memcpy(to, from, used);
    memset(to + used, ' ', length - used);
}

int peers(MPI_Comm comm, bool neighbors, int *sources, int *destinations) {
    int kind = MPI_UNDEFINED, code;
    if (neighbors && (code = PMPI_Topo_test(comm, &kind)) != MPI_SUCCESS) {
        return code;
    }
    if (kind == MPI_CART) {
        code = PMPI_Cartdim_get(comm, sources);
        *sources *= 2;
    } else if (kind == MPI_GRAPH) {
        int rank;
        code = PMPI_Comm_rank(comm, &rank);
        if (code == MPI_SUCCESS) {
            code = PMPI_Graph_neighbors_count(comm, rank, sources);
        }
    } else if (kind == MPI_DIST_GRAPH) {
        int weighted;
        return PMPI_Dist_graph_neighbors_count(comm, sources, destinations, &weighted);
    } else {
        int inter = 0;
        code = PMPI_Comm_test_inter(comm, &inter);
        if (code == MPI_SUCCESS) {
            code = inter ? PMPI_Comm_remote_size(comm, sources) : PMPI_Comm_size(comm, sources);
        }
    }
    *destinations = *sources;
    return code;
}
