/* Parts of a communicator by the hardware that processes are bound to (MPI-5.0 7.4.2), and the library's
 * report of it (9.1.2). */
#include "check.h"

static int sum(MPI_Comm comm, int value)
{
    int total = 0;
    MPI_Allreduce(&value, &total, 1, MPI_INT, MPI_SUM, comm);
    return total;
}

static MPI_Comm part(int type, const char *key, const char *value, MPI_Comm comm)
{
    MPI_Comm found = MPI_COMM_NULL;
    MPI_Info info;
    MPI_Info_create(&info);
    if (key)
        MPI_Info_set(info, key, value);
    CHECK_EQUAL(MPI_Comm_split_type(comm, type, rank, info, &found), MPI_SUCCESS);
    MPI_Info_free(&info);
    return found;
}

static void kinds(void)
{
    STORY("each type of hardware that is told of divides, and gives a part to those that are bound to one");
    MPI_Info hardware;
    int count, length, flag, node_size;
    MPI_Comm node;
    CHECK_EQUAL(MPI_Get_hw_resource_info(&hardware), MPI_SUCCESS);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_size(node, &node_size);
    MPI_Info_get_nkeys(hardware, &count);
    CHECK(count >= 1, "%d types", count);
    for (int i = 0; i < count; i++) {
        char name[MPI_MAX_INFO_KEY + 1], value[16] = "";
        length = sizeof value;
        MPI_Info_get_nthkey(hardware, i, name);
        MPI_Info_get_string(hardware, name, &length, value, &flag);
        int is_bound = strcmp(value, "true") == 0;
        CHECK(is_bound || strcmp(value, "false") == 0, "%s is %s", name, value);
        /* 9.1.2: each key is a URI. */
        CHECK(strstr(name, "://") > name, "%s is no URI", name);
        const int types[] = {MPI_COMM_TYPE_HW_GUIDED, MPI_COMM_TYPE_RESOURCE_GUIDED};
        for (int t = 0; t < 2; t++) {
            MPI_Comm found = part(types[t], "mpi_hw_resource_type", name, MPI_COMM_WORLD);
            CHECK((found != MPI_COMM_NULL) == is_bound, "%s is %s, and its part %s", name, value,
                  found == MPI_COMM_NULL ? "nothing" : "something");
            if (found == MPI_COMM_NULL)
                continue;
            int size;
            MPI_Comm_size(found, &size);
            CHECK(size <= node_size, "%d of %d are in one %s", size, node_size, name);
            CHECK_EQUAL(sum(found, 1), size);
            MPI_Comm_free(&found);
        }
    }
    MPI_Info_free(&hardware);
    MPI_Comm_free(&node);
}

static void sets(void)
{
    STORY("a process set divides");
    int size, comparison;
    MPI_Comm found = part(MPI_COMM_TYPE_RESOURCE_GUIDED, "mpi_pset_name", "mpi://WORLD", MPI_COMM_WORLD);
    CHECK(found != MPI_COMM_NULL, "nobody is in mpi://WORLD");
    MPI_Comm_compare(found, MPI_COMM_WORLD, &comparison);
    CHECK_EQUAL(comparison, MPI_CONGRUENT);
    MPI_Comm_free(&found);
    found = part(MPI_COMM_TYPE_RESOURCE_GUIDED, "mpi_pset_name", "mpi://SELF", MPI_COMM_WORLD);
    CHECK(found != MPI_COMM_NULL, "nobody is in mpi://SELF");
    MPI_Comm_size(found, &size);
    CHECK_EQUAL(size, 1);
    MPI_Comm_free(&found);
    found = part(MPI_COMM_TYPE_RESOURCE_GUIDED, "mpi_pset_name", "weft://node/0", MPI_COMM_WORLD);
    CHECK(rank > 0 || found != MPI_COMM_NULL, "rank 0 is not on the first node");
    if (found != MPI_COMM_NULL) {
        CHECK_EQUAL(sum(found, 1) >= 1, 1);
        MPI_Comm_free(&found);
    }
    STORY("what nobody knows gives nothing");
    found = part(MPI_COMM_TYPE_RESOURCE_GUIDED, "mpi_pset_name", "weft://no such set", MPI_COMM_WORLD);
    CHECK(found == MPI_COMM_NULL, "a set that is not there");
    found = part(MPI_COMM_TYPE_HW_GUIDED, "mpi_hw_resource_type", "hwloc://Nothing", MPI_COMM_WORLD);
    CHECK(found == MPI_COMM_NULL, "a type that is not there");
    found = part(MPI_COMM_TYPE_HW_GUIDED, NULL, NULL, MPI_COMM_WORLD);
    CHECK(found == MPI_COMM_NULL, "no type");
    found = part(MPI_COMM_TYPE_HW_GUIDED, "mpi_pset_name", "mpi://WORLD", MPI_COMM_WORLD);
    CHECK(found == MPI_COMM_NULL, "sets are no hardware");
}

/* With `bound`, each rank has a core of its own: then the last parts have one process each. */
static void levels(int is_bound)
{
    STORY("the unguided split goes down level by level, and says by what it divides");
    MPI_Comm comm, below;
    int size, members = 0, flag, length, level = 0;
    char name[100] = "";
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_size(comm, &size);
    for (;; level++) {
        MPI_Info info;
        MPI_Info_create(&info);
        CHECK_EQUAL(MPI_Comm_split_type(comm, MPI_COMM_TYPE_HW_UNGUIDED, 0, info, &below), MPI_SUCCESS);
        length = sizeof name;
        MPI_Info_get_string(info, "mpi_hw_resource_type", &length, name, &flag);
        CHECK_EQUAL(flag, below != MPI_COMM_NULL);
        MPI_Info_free(&info);
        if (below == MPI_COMM_NULL)
            break;
        MPI_Comm_size(below, &members);
        CHECK(members < size, "%d of %d processes are in a part", members, size);
        /* The reported type gives the same part when the program asks for it by name. */
        MPI_Comm same = part(MPI_COMM_TYPE_HW_GUIDED, "mpi_hw_resource_type", name, comm);
        CHECK(same != MPI_COMM_NULL, "%s gives nothing", name);
        if (same != MPI_COMM_NULL) {
            int found;
            MPI_Comm_size(same, &found);
            CHECK_EQUAL(found, members);
            MPI_Comm_free(&same);
        }
        MPI_Comm_free(&comm);
        comm = below;
        size = members;
    }
    if (is_bound)
        CHECK_EQUAL(size, 1);
    MPI_Comm_free(&comm);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    kinds();
    sets();
    levels(argc > 1 && strcmp(argv[1], "bound") == 0);
    return end();
}
