/* Bytes a second that all ranks together read in one collective call, each a 3-D block of one array. */
#include "file_tiles.h"

int main(int argc, char **argv)
{
    return tiles_main("file_read_all", 0, argc, argv);
}
