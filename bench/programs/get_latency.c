/* Get and flush with a passive target: the time until the bytes are here. */
#include "onesided.h"

int main(int argc, char **argv)
{
    side.operation = GET;
    return onesided_main("get_latency", "us", "8,64,1k,16k,64k,1m", argc, argv);
}
