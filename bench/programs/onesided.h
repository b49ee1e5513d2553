/* Put and get between the ranks of a pair with a passive target (MPI-5.0 §12.5.3): lock_all once, flush to complete. */
#ifndef WEFT_BENCH_ONESIDED_H
#define WEFT_BENCH_ONESIDED_H

#include "common.h"

/* The whole program: measures `put` (else get), one operation a flush for latency or a window of them for `bandwidth`. */
int onesided_main(const char *measurement, const char *sizes, int put, int bandwidth, int argc, char **argv);

#endif
