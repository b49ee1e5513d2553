/* The forms of a collective operation: blocking, nonblocking, persistent, and persistent twice. */
#ifndef WEFT_TESTS_FORMS_H
#define WEFT_TESTS_FORMS_H

#include "check.h"

enum { FORMS = 4 };

/* Completes the call of a form: nonblocking (1), or persistent (2, 3: begun a second time). */
static inline void complete(int form, MPI_Request *request)
{
    if (form == 1)
        MPI_Wait(request, MPI_STATUS_IGNORE);
    if (form < 2)
        return;
    for (int again = 0; again < form - 1; again++) {
        MPI_Start(request);
        MPI_Wait(request, MPI_STATUS_IGNORE);
    }
    MPI_Request_free(request);
}

/* Calls one of the three procedures with these arguments, to which the nonblocking and the persistent one
 * have some more, and completes the call. */
#define FORM(form, blocking, nonblocking, persistent, ...)                                                             \
    do {                                                                                                               \
        MPI_Request request_ = MPI_REQUEST_NULL;                                                                       \
        if ((form) == 0)                                                                                               \
            blocking(__VA_ARGS__);                                                                                     \
        else if ((form) == 1)                                                                                          \
            nonblocking(__VA_ARGS__, &request_);                                                                       \
        else                                                                                                           \
            persistent(__VA_ARGS__, MPI_INFO_NULL, &request_);                                                         \
        complete(form, &request_);                                                                                     \
        CHECK(request_ == MPI_REQUEST_NULL, "a request is left");                                                      \
    } while (0)

#endif
