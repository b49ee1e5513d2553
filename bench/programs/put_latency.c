/* Put and flush with a passive target: the time until the bytes are at the target. */
#include "onesided.h"

int main(int argc, char **argv)
{
    side.operation = PUT;
    return onesided_main("put_latency", "us", "8,64,1k,16k,64k,1m", argc, argv);
}
