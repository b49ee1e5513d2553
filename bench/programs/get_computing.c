/* Get and flush from a target that computes for a second, without a call to MPI. In get_latency the target
 * waits in MPI. */
#include "onesided.h"

int main(int argc, char **argv)
{
    side.operation = GET;
    side.compute = 1;
    return onesided_main("get_computing", "us", "8", argc, argv);
}
