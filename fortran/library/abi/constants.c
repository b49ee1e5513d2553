/* The constants that are recognised by their address. A Fortran program has common blocks of these names, and
 * the linker makes one variable of both. */
#include "fortran.h"

int mpifort_bottom_, mpifort_in_place_, mpifort_buffer_automatic_;
int mpifort_unweighted_, mpifort_weights_empty_, mpifort_errcodes_ignore_;
int mpifort_status_ignore_[8], mpifort_statuses_ignore_[8];
char mpifort_argv_null_, mpifort_argvs_null_;
