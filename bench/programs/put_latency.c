/* Put and flush with a passive target: the time until the bytes are there. */
#include "onesided.h"

int main(int argc, char **argv)
{
    return onesided_main("put_latency", "8,64,1k,16k,64k,1m", 1, 0, argc, argv);
}
