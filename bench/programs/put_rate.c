/* Puts a second, a window of them completed by one flush; the target is passive. */
#include "onesided.h"

int main(int argc, char **argv)
{
    side.operation = PUT;
    side.many = 1;
    side.rate = 1;
    return onesided_main("put_rate", "messages/s", "8", argc, argv);
}
