/* What modules of Fortran have beside the procedures of MPI: comparisons of handles, and MPI_SIZEOF. */
#ifndef WEFT_FACE_MODULES_H
#define WEFT_FACE_MODULES_H

#define KINDS_OF_HANDLES(X)                                                                                   \
    X(comm) X(datatype) X(errhandler) X(file) X(group) X(info) X(message) X(op) X(request) X(session) X(win)

/* Handles are structures of one integer. */
#define EQUAL(equal, unequal)                                                                                 \
    int equal(const int *left, const int *right) { return *left == *right; }                                  \
    int unequal(const int *left, const int *right) { return *left != *right; }

#define SIZE(name, bytes)                                                                                     \
    void name(const void *variable, int *size, int *ierror) {                                                 \
        (void)variable;                                                                                       \
        *size = (bytes);                                                                                      \
        give(ierror, MPI_SUCCESS);                                                                            \
    }

#endif
