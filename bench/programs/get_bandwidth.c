/* Bytes a second of a window of gets, completed by one flush; the target is passive. */
#include "onesided.h"

int main(int argc, char **argv)
{
    side.operation = GET;
    side.many = 1;
    return onesided_main("get_bandwidth", "MB/s", "1k,16k,64k,1m,4m", argc, argv);
}
