/* Collective operations in which one process describes less data than the others. The program is wrong
 * (MPI-5.0 §6.4). It hears of the mistake, or has the data that it asked for; no rank waits for ever,
 * whatever the algorithm. All ranks choose the same algorithm: amounts differ by little. */
#include "each_collective.h"

enum { ITEMS_MAX = 150000 };

static const int counts[] = {9, 100, 3000, 20000, ITEMS_MAX};

static int *from, *into;

/* Every rank is here again, and the communicator that they share works. */
static void everybody_goes_on(MPI_Comm used)
{
    int sum = 0, one = 1;
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK_EQUAL(sum, ranks);
    MPI_Comm_free(&used);
}

/* One process, `odd`, takes `its` items where the others have `n`. */
static void differ(enum collective which, int form, int odd, int n, int its)
{
    static char name[100];
    snprintf(name, sizeof name, "%s %s of %d items, %d at rank %d", forms[form], collectives[which], n, its, odd);
    STORY(name);
    MPI_Comm comm = own_communicator(MPI_COMM_WORLD);
    size_t blocks = has_blocks(which) ? (size_t)ranks : 1, items = blocks * (size_t)(n > its ? n : its);
    for (size_t i = 0; i < items; i++) {
        from[i] = (int)i;
        into[i] = which == BCAST && rank == ROOT ? (int)i + 1 : 0;
    }
    int code = do_collective(which, form, from, into, rank == odd ? its : n, comm), class = MPI_SUCCESS;
    MPI_Error_class(code, &class);
    CHECK(class == MPI_SUCCESS || class == MPI_ERR_TRUNCATE || class == MPI_ERR_OTHER, "error class %d", class);
    if (which == BCAST && odd != ROOT && its < n) {
        /* A rank without room for the root's data hears of exactly that, and a rank that hears of nothing has
         * all the data. */
        if (rank == odd)
            CHECK_EQUAL(class, MPI_ERR_TRUNCATE);
        for (int i = 0; rank != odd && class == MPI_SUCCESS && i < n; i++)
            if (into[i] != i + 1) {
                CHECK(0, "item %d is %d", i, into[i]);
                break;
            }
    }
    everybody_goes_on(comm);
}

/* One process, `odd`, sends blocks of `sent` items, and describes all others with `n` as the others do. */
static void send_other(enum collective which, int form, int odd, int sent, int n)
{
    static char name[100];
    snprintf(name, sizeof name, "%s %s of %d items, rank %d sends %d", forms[form], collectives[which], n, odd, sent);
    STORY(name);
    MPI_Comm comm = own_communicator(MPI_COMM_WORLD);
    size_t items = (size_t)ranks * (sent > n ? sent : n);
    memset(from, 0, items * sizeof *from);
    int code = do_collective_of(which, form, from, into, rank == odd ? sent : n, n, comm), class = MPI_SUCCESS;
    MPI_Error_class(code, &class);
    CHECK(class == MPI_SUCCESS || class == MPI_ERR_TRUNCATE || class == MPI_ERR_OTHER, "error class %d", class);
    everybody_goes_on(comm);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    from = malloc(sizeof *from * ITEMS_MAX * 2);
    into = malloc(sizeof *into * ITEMS_MAX * 2);
    int first = argc > 1 ? atoi(argv[1]) : 0, last = argc > 1 ? first : COLLECTIVES - 1;
    for (int which = first; which <= last; which++)
        for (int form = 0; form < FORMS; form++)
            for (unsigned c = 0; c < sizeof counts / sizeof *counts; c++) {
                int n = has_blocks(which) ? counts[c] / ranks + 2 : counts[c];
                for (int odd = 1; odd < ranks; odd++)
                    differ(which, form, odd, n, n - 1);
                for (unsigned s = 0; sends_blocks(which) && s < sizeof counts / sizeof *counts; s++)
                    send_other(which, form, (int)(c + s) % ranks, counts[s] / ranks + 2, n - 1);
            }
    free(from);
    free(into);
    return end();
}
