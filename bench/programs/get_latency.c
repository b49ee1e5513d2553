/* Get and flush with a passive target: the time until the bytes are here. */
#include "onesided.h"

int main(int argc, char **argv)
{
    return onesided_main("get_latency", "8,64,1k,16k,64k,1m", 0, 0, argc, argv);
}
