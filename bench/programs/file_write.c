/* Bytes a second that all ranks together write in blocks of their own of one file. */
#include "file_blocks.h"

int main(int argc, char **argv)
{
    return blocks_main("file_write", 1, argc, argv);
}
