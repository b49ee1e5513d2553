/* MPI_Fetch_and_op of eight bytes and flush with a passive target: the time until the former value is at the
 * origin. */
#include "onesided.h"

int main(int argc, char **argv)
{
    side.operation = FETCH;
    return onesided_main("fetch_latency", "us", "8", argc, argv);
}
