/* Prints which library runs this program: no measurement, but the question before each. The value is the
 * version of the standard. */
#include "common.h"

int main(int argc, char **argv)
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0, version = 0, subversion = 0;
    bench b;
    bench_start(&b, "library", "", &argc, &argv, NULL, 0);
    MPI_Get_library_version(text, &length);
    MPI_Get_version(&version, &subversion);
    if (b.rank == 0) {
        json_open(b.measurement);
        json_integer("size", 0);
        json_integer("ranks", b.ranks);
        json_text("unit", "version");
        json_number("value", version + subversion / 10.0);
        json_text("library", text);
        json_true("valid", 1);
        json_close();
    }
    return bench_end(&b, 0);
}
