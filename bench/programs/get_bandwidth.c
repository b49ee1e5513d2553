/* Bytes a second of a window of gets, completed by one flush; the target is passive. */
#include "onesided.h"

int main(int argc, char **argv)
{
    return onesided_main("get_bandwidth", "1k,16k,64k,1m,4m", 0, 1, argc, argv);
}
