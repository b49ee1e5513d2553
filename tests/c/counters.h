/*
 * The library's performance variables (MPI-5.0 §15.3.7), most of them counters, for programs that check what
 * has happened under their calls.
 */
#ifndef WEFT_TESTS_COUNTERS_H
#define WEFT_TESTS_COUNTERS_H

#include "check.h"

static MPI_T_pvar_session counters;

static void open_counters(void)
{
    int provided;
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    MPI_T_pvar_session_create(&counters);
}

/* 1 if the library has a variable of this name and class. */
static inline int is_variable(const char *name, int class)
{
    int index;
    return MPI_T_pvar_get_index(name, class, &index) == MPI_SUCCESS;
}

/* The variable of this name and class. A counter counts from now on. */
static MPI_T_pvar_handle variable(const char *name, int class)
{
    MPI_T_pvar_handle handle = MPI_T_PVAR_HANDLE_NULL;
    int index = 0, count;
    CHECK_EQUAL(MPI_T_pvar_get_index(name, class, &index), MPI_SUCCESS);
    CHECK_EQUAL(MPI_T_pvar_handle_alloc(counters, index, NULL, &handle, &count), MPI_SUCCESS);
    if (class == MPI_T_PVAR_CLASS_COUNTER)
        CHECK_EQUAL(MPI_T_pvar_start(counters, handle), MPI_SUCCESS);
    return handle;
}

static inline MPI_T_pvar_handle counter(const char *name)
{
    return variable(name, MPI_T_PVAR_CLASS_COUNTER);
}

static unsigned long long counted(MPI_T_pvar_handle handle)
{
    unsigned long long value = 0;
    CHECK_EQUAL(MPI_T_pvar_read(counters, handle, &value), MPI_SUCCESS);
    return value;
}

static void close_counters(void)
{
    MPI_T_pvar_session_free(&counters);
    MPI_T_finalize();
}

#endif
