/* usage: together [--load-only] FIRST SECOND: loads two modules (module.c), each compiled for another MPI
 * library. Expect: both are in one job, have the same rank, and their messages meet. With --load-only the
 * first is only there, and the second begins and ends MPI. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *load(const char *file)
{
    void *module = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!module) {
        fprintf(stderr, "%s\n", dlerror());
        exit(2);
    }
    return module;
}

static int call(void *module, const char *name, int first, int second)
{
    int (*function)(int, int) = (int (*)(int, int))dlsym(module, name);
    return function(first, second);
}

static int expect(const char *what, int found, int expected)
{
    if (found != expected)
        printf("%s is %d, expected %d\n", what, found, expected);
    return found != expected;
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "--load-only") == 0) {
        load(argv[2]);
        void *alone = load(argv[3]);
        return call(alone, "module_begin", 0, 0) || call(alone, "module_end", 0, 0);
    }
    if (argc != 3)
        return 2;
    void *first = load(argv[1]), *second = load(argv[2]);
    int failures = expect("the first begin", call(first, "module_begin", 0, 0), 0);
    failures += expect("the second begin", call(second, "module_begin", 0, 0), 0);
    int rank = call(first, "module_rank", 0, 0);
    failures += expect("the rank in the second", call(second, "module_rank", 0, 0), rank);
    if (rank == 0) {
        failures += expect("a send by the first", call(first, "module_send", 41, 1), 0);
        failures += expect("an answer to the first", call(first, "module_receive", 0, 0), 42);
    } else if (rank == 1) {
        failures += expect("a message to the second", call(second, "module_receive", 0, 0), 41);
        failures += expect("an answer by the second", call(second, "module_send", 42, 0), 0);
    }
    failures += expect("a sum in the second", call(second, "module_sum", 1, 0), 2);
    failures += expect("a sum in the first", call(first, "module_sum", 2, 0), 4);
    failures += expect("the end", call(first, "module_end", 0, 0), 0);
    if (rank == 0)
        printf("together: failures %d\n", failures);
    return failures != 0;
}
