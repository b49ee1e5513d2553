/* Bytes a second that all ranks together read in blocks of their own of one file. */
#include "file_blocks.h"

int main(int argc, char **argv)
{
    return blocks_main("file_read", 0, argc, argv);
}
