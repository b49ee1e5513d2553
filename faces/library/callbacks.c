/* Functions of the program that the library calls, where the library passes no state on: operations and
 * error handlers. Each function of the program gets one of 256 functions for its kind, which converts the
 * arguments. It keeps that one, because an operation may be used as long as the process lives. A program
 * has few such functions, however many operations it makes of them. */
#include "face.h"
#include <pthread.h>

#define SLOTS 256

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The index of the function in the list of its kind, or -1 when the list is full. */
static int slot_of(void **functions, void *function) {
    pthread_mutex_lock(&lock);
    int slot = 0;
    while (slot < SLOTS && functions[slot] && functions[slot] != function) {
        slot++;
    }
    if (slot < SLOTS) {
        functions[slot] = function;
    }
    pthread_mutex_unlock(&lock);
    return slot < SLOTS ? slot : -1;
}

/* Names need digits, so the number is pasted from two of them. */
#define DIGITS(X, high)                                                                                       \
    X(high, 0) X(high, 1) X(high, 2) X(high, 3) X(high, 4) X(high, 5) X(high, 6) X(high, 7) X(high, 8)        \
    X(high, 9) X(high, a) X(high, b) X(high, c) X(high, d) X(high, e) X(high, f)
#define ALL_SLOTS(X)                                                                                          \
    DIGITS(X, 0) DIGITS(X, 1) DIGITS(X, 2) DIGITS(X, 3) DIGITS(X, 4) DIGITS(X, 5) DIGITS(X, 6) DIGITS(X, 7)   \
    DIGITS(X, 8) DIGITS(X, 9) DIGITS(X, a) DIGITS(X, b) DIGITS(X, c) DIGITS(X, d) DIGITS(X, e) DIGITS(X, f)

/* Operations. */
static void *operation_slots[SLOTS], *large_operation_slots[SLOTS];

static void call_operation(int slot, void *in, void *inout, int *length, MPI_Datatype *datatype) {
    F_Datatype handle = datatype_f(*datatype);
    ((void (*)(void *, void *, int *, F_Datatype *))operation_slots[slot])(in, inout, length, &handle);
}
static void call_large_operation(int slot, void *in, void *inout, MPI_Count *length, MPI_Datatype *datatype) {
    F_Datatype handle = datatype_f(*datatype);
    ((void (*)(void *, void *, MPI_Count *, F_Datatype *))large_operation_slots[slot])(in, inout, length, &handle);
}
#define OPERATION(high, low)                                                                                  \
    static void operation_##high##low(void *in, void *inout, int *length, MPI_Datatype *datatype) {           \
        call_operation(0x##high##low, in, inout, length, datatype);                                           \
    }                                                                                                         \
    static void large_operation_##high##low(void *in, void *inout, MPI_Count *length, MPI_Datatype *datatype) { \
        call_large_operation(0x##high##low, in, inout, length, datatype);                                     \
    }
ALL_SLOTS(OPERATION)
#define NAME_OPERATION(high, low) operation_##high##low,
#define NAME_LARGE_OPERATION(high, low) large_operation_##high##low,
static MPI_User_function *const operation_functions[SLOTS] = {ALL_SLOTS(NAME_OPERATION)};
static MPI_User_function_c *const large_operation_functions[SLOTS] = {ALL_SLOTS(NAME_LARGE_OPERATION)};

MPI_User_function *operation_c(void *function) {
    int slot = slot_of(operation_slots, function);
    return slot < 0 ? NULL : operation_functions[slot];
}
MPI_User_function_c *large_operation_c(void *function) {
    int slot = slot_of(large_operation_slots, function);
    return slot < 0 ? NULL : large_operation_functions[slot];
}

/* Error handlers: of each kind of object. What may follow the code is not passed on, for nothing says
 * what it is. */
#define ERRHANDLERS(word, type, f_type)                                                                       \
    static void *word##_handlers[SLOTS];                                                                      \
    static void call_##word##_handler(int slot, type *object, int *code) {                                    \
        f_type handle = word##_f(*object);                                                                    \
        int f_code = error_f(*code);                                                                          \
        ((void (*)(f_type *, int *, ...))word##_handlers[slot])(&handle, &f_code);                            \
    }
ERRHANDLERS(comm, MPI_Comm, F_Comm)
ERRHANDLERS(win, MPI_Win, F_Win)
ERRHANDLERS(file, MPI_File, F_File)
ERRHANDLERS(session, MPI_Session, F_Session)
#define ERRHANDLER(high, low)                                                                                 \
    static void comm_handler_##high##low(MPI_Comm *object, int *code, ...) {                                  \
        call_comm_handler(0x##high##low, object, code);                                                       \
    }                                                                                                         \
    static void win_handler_##high##low(MPI_Win *object, int *code, ...) {                                    \
        call_win_handler(0x##high##low, object, code);                                                        \
    }                                                                                                         \
    static void file_handler_##high##low(MPI_File *object, int *code, ...) {                                  \
        call_file_handler(0x##high##low, object, code);                                                       \
    }                                                                                                         \
    static void session_handler_##high##low(MPI_Session *object, int *code, ...) {                            \
        call_session_handler(0x##high##low, object, code);                                                    \
    }
ALL_SLOTS(ERRHANDLER)
#define ERRHANDLER_FUNCTIONS(word, Word)                                                                      \
    static MPI_##Word##_errhandler_function *const word##_handler_functions[SLOTS] = {                        \
        ALL_SLOTS(NAME_##word##_HANDLER)};                                                                    \
    MPI_##Word##_errhandler_function *word##_errhandler_c(void *function) {                                   \
        int slot = slot_of(word##_handlers, function);                                                        \
        return slot < 0 ? NULL : word##_handler_functions[slot];                                              \
    }
#define NAME_comm_HANDLER(high, low) comm_handler_##high##low,
#define NAME_win_HANDLER(high, low) win_handler_##high##low,
#define NAME_file_HANDLER(high, low) file_handler_##high##low,
#define NAME_session_HANDLER(high, low) session_handler_##high##low,
ERRHANDLER_FUNCTIONS(comm, Comm)
ERRHANDLER_FUNCTIONS(win, Win)
ERRHANDLER_FUNCTIONS(file, File)
ERRHANDLER_FUNCTIONS(session, Session)
