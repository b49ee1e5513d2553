/* Jobs that spawn others (MPI-5.0 section 11.8): runs on any MPI library. The program spawns itself; a word
 * tells each job what it is to do. */
#include "check.h"

enum { TAG = 6, CHILDREN = 3, LARGE = 200000 };

/* The path of this program: children may start in another directory. */
static char program[4096];

/* Parents and children exchange messages, and become one communicator. */
static void together(MPI_Comm inter, int is_parent, int others)
{
    int remote, size, own, local;
    MPI_Comm_remote_size(inter, &remote);
    CHECK_EQUAL(remote, others);
    MPI_Comm_rank(inter, &local);
    MPI_Comm_size(inter, &size);
    int *out = memory(LARGE * sizeof(int)), *in = memory(LARGE * sizeof(int));
    for (int i = 0; i < LARGE; i++)
        out[i] = local + i;
    for (int other = 0; other < remote; other++) {
        MPI_Request request;
        MPI_Isend(out, LARGE, MPI_INT, other, TAG, inter, &request);
        MPI_Recv(in, LARGE, MPI_INT, other, TAG, inter, MPI_STATUS_IGNORE);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        for (int i = 0; i < LARGE; i += 999)
            CHECK_EQUAL(in[i], other + i);
    }
    int sum = 0, one = 1, root = is_parent ? (local == 0 ? MPI_ROOT : MPI_PROC_NULL) : 0;
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, inter);
    CHECK_EQUAL(sum, remote);
    int word = is_parent ? 99 : -1;
    MPI_Bcast(&word, 1, MPI_INT, root, inter);
    CHECK_EQUAL(word, 99);
    MPI_Comm both;
    MPI_Intercomm_merge(inter, !is_parent, &both);
    MPI_Comm_rank(both, &own);
    CHECK_EQUAL(own, is_parent ? local : remote + local);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, both);
    CHECK_EQUAL(sum, size + remote);
    MPI_Comm_free(&both);
    free(in);
    free(out);
}

/* A child is told by its first argument what to do, and by the second how many parents it has. */
static void child(MPI_Comm parent, int argc, char **argv)
{
    char name[MPI_MAX_OBJECT_NAME];
    int length, flag, *number, parents = argc > 2 ? atoi(argv[2]) : 1;
    STORY("11.8 a child");
    MPI_Comm_get_name(parent, name, &length);
    CHECK(length > 0, "the communicator of the parents has no name");
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &number, &flag);
    if (!strcmp(argv[1], "several"))
        CHECK_EQUAL(flag ? *number : -1, rank == 0 ? 0 : 1);
    if (!strcmp(argv[1], "quick")) {
        MPI_Comm_disconnect(&parent);
        MPI_Comm_get_parent(&parent);
        CHECK(parent == MPI_COMM_NULL, "there is a parent still");
        return;
    }
    if (!strcmp(argv[1], "words")) {
        CHECK_EQUAL(argc, 6);
        CHECK(!strcmp(argv[3], "") && !strcmp(argv[4], "two words") && !strcmp(argv[5], "a;b\n=c%20\"'\\"),
              "arguments are \"%s\", \"%s\", \"%s\"", argv[3], argv[4], argv[5]);
    }
    if (!strcmp(argv[1], "abroad")) {
        char directory[4096];
        CHECK(getcwd(directory, sizeof directory) && !strcmp(directory, "/"), "the directory is %.200s", directory);
    }
    together(parent, 0, parents);
    if (!strcmp(argv[1], "deep")) {
        char *words[] = {"plain", argv[2], NULL};
        MPI_Comm grandchildren;
        int ranks_here[10];
        snprintf(argv[2], 2, "%d", ranks);
        MPI_Comm_spawn(program, words, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &grandchildren, ranks_here);
        together(grandchildren, 1, 2);
        MPI_Comm_disconnect(&grandchildren);
    }
    if (strcmp(argv[1], "stays"))
        MPI_Comm_disconnect(&parent);
}

static void spawn(const char *what, MPI_Comm from, int count, MPI_Info info)
{
    char parents[10];
    int size, codes[CHILDREN];
    MPI_Comm_size(from, &size);
    snprintf(parents, sizeof parents, "%d", size);
    char *words[] = {(char *)what, parents, NULL, NULL, NULL, NULL};
    if (!strcmp(what, "words")) {
        words[2] = "";
        words[3] = "two words";
        words[4] = "a;b\n=c%20\"'\\";
    }
    MPI_Comm inter;
    for (int i = 0; i < count; i++)
        codes[i] = -1;
    CHECK_EQUAL(MPI_Comm_spawn(program, words, count, info, 0, from, &inter, codes), MPI_SUCCESS);
    for (int i = 0; i < count; i++)
        CHECK_EQUAL(codes[i], MPI_SUCCESS);
    if (strcmp(what, "quick"))
        together(inter, 1, count);
    if (strcmp(what, "stays"))
        MPI_Comm_disconnect(&inter);
}

static void parents(void)
{
    STORY("11.8.2 the world spawns");
    spawn("plain", MPI_COMM_WORLD, CHILDREN, MPI_INFO_NULL);
    STORY("11.8.2 words of a command line");
    if (!left_out("words"))
        spawn("words", MPI_COMM_WORLD, 1, MPI_INFO_NULL);
    STORY("11.8.2 one process spawns");
    if (rank == ranks - 1)
        spawn("plain", MPI_COMM_SELF, 2, MPI_INFO_NULL);
    MPI_Barrier(MPI_COMM_WORLD);
    STORY("11.8.2 children spawn");
    spawn("deep", MPI_COMM_WORLD, 2, MPI_INFO_NULL);
    STORY("11.8.2 the key wdir");
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "wdir", "/");
    spawn("abroad", MPI_COMM_WORLD, 1, info);
    MPI_Info_free(&info);
    STORY("11.8.4 the key soft: fewer processes will do");
    if (!left_out("soft")) {
        char one_word[10], *soft_words[] = {"plain", one_word, NULL};
        MPI_Comm fewer;
        int soft_codes[CHILDREN] = {-1, -1, MPI_SUCCESS};
        snprintf(one_word, sizeof one_word, "%d", ranks);
        MPI_Info_create(&info);
        MPI_Info_set(info, "soft", "2");
        MPI_Comm_spawn(program, soft_words, CHILDREN, info, 0, MPI_COMM_WORLD, &fewer, soft_codes);
        CHECK(soft_codes[0] == MPI_SUCCESS && soft_codes[1] == MPI_SUCCESS && soft_codes[2] != MPI_SUCCESS,
              "the error codes are %d %d %d", soft_codes[0], soft_codes[1], soft_codes[2]);
        together(fewer, 1, 2);
        MPI_Comm_disconnect(&fewer);
        MPI_Info_free(&info);
    }
    STORY("11.8.3 several programs");
    char *programs[] = {program, program}, one[10], *first[] = {"several", one, NULL}, *second[] = {"several", one, NULL};
    char **words[] = {first, second};
    int counts[] = {1, 2}, codes[CHILDREN] = {-1, -1, -1};
    MPI_Info infos[] = {MPI_INFO_NULL, MPI_INFO_NULL};
    MPI_Comm inter;
    snprintf(one, sizeof one, "%d", ranks);
    MPI_Comm_spawn_multiple(2, programs, words, counts, infos, 0, MPI_COMM_WORLD, &inter, codes);
    for (int i = 0; i < CHILDREN; i++)
        CHECK_EQUAL(codes[i], MPI_SUCCESS);
    together(inter, 1, CHILDREN);
    MPI_Comm_disconnect(&inter);
    STORY("11.8.2 a program that is not there");
    if (!left_out("missing")) {
        char nowhere[] = "/weft/is/not/here";
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        codes[0] = codes[1] = MPI_SUCCESS;
        CHECK_CLASS(MPI_Comm_spawn(nowhere, MPI_ARGV_NULL, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, codes),
                    MPI_ERR_SPAWN);
        CHECK(codes[0] != MPI_SUCCESS, "the error code says success");
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    }
    STORY("11.10.4 finalize with children that are connected");
    spawn("stays", MPI_COMM_WORLD, 2, MPI_INFO_NULL);
}

/* Spawns many jobs one after the other: nothing of them may stay. */
static void many(int times)
{
    STORY("11.8.2 many jobs one after the other");
    for (int time = 0; time < times; time++)
        spawn("quick", MPI_COMM_WORLD, 1, MPI_INFO_NULL);
}

int main(int argc, char **argv)
{
    MPI_Comm parent;
    CHECK(readlink("/proc/self/exe", program, sizeof program - 1) > 0, "the program has no path");
    begin(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL)
        child(parent, argc, argv);
    else if (argc > 2 && !strcmp(argv[1], "many"))
        many(atoi(argv[2]));
    else
        parents();
    return end();
}
