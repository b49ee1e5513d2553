/* Memory that a rank takes once MPI has started and before it has talked to any other rank. It is the rank's
 * proportional share of its mapped pages (Pss: a page that n processes have counts 1/n for each), so the
 * ranks' figures add up to the memory that the job takes of the machine. The value is the mean of the ranks.
 * Linux only. */
#include "common.h"

enum { PSS, PRIVATE_CLEAN, PRIVATE_DIRTY, RSS, FIGURES };

static const char *const names[] = {"Pss:", "Private_Clean:", "Private_Dirty:", "Rss:"};

/* Reads the kernel's sums over all mappings, in KiB; 0 when it does not tell them. */
static int read_figures(double figures[FIGURES])
{
    char line[256];
    int found = 0;
    FILE *f = fopen("/proc/self/smaps_rollup", "r");
    memset(figures, 0, FIGURES * sizeof *figures);
    if (!f)
        return 0;
    while (fgets(line, sizeof line, f)) {
        for (int i = 0; i < FIGURES; i++) {
            if (strncmp(line, names[i], strlen(names[i])) == 0) {
                figures[i] = strtod(line + strlen(names[i]), NULL);
                found++;
            }
        }
    }
    fclose(f);
    return found == FIGURES;
}

int main(int argc, char **argv)
{
    double own[FIGURES], sums[FIGURES], largest;
    char why[BENCH_WHY_MAX] = "the kernel does not tell how much memory a process has (/proc/self/smaps_rollup)";
    int known;
    bench b;
    bench_start(&b, "memory", "", &argc, &argv, NULL, 0);
    known = bench_agree(&b, read_figures(own), why);
    MPI_Allreduce(own, sums, FIGURES, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    largest = bench_max(own[PSS]);
    if (!known) {
        bench_failed(&b, 0, "MiB", why);
        return bench_end(&b, 0);
    }
    if (b.rank == 0) {
        double per_rank = 1.0 / 1024 / b.ranks;
        json_open(b.measurement);
        json_integer("size", 0);
        json_integer("ranks", b.ranks);
        json_text("unit", "MiB");
        json_number("value", sums[PSS] * per_rank);
        json_integer("iterations", 1);
        json_integer("sample", 0);
        json_true("checked", 0);
        json_number("private_mib", (sums[PRIVATE_CLEAN] + sums[PRIVATE_DIRTY]) * per_rank);
        json_number("resident_mib", sums[RSS] * per_rank);
        json_number("largest_mib", largest / 1024);
        json_true("valid", 1);
        json_close();
    }
    return bench_end(&b, 0);
}
