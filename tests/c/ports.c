/* Two jobs meet at a port (MPI-5.0 sections 11.9 and 11.10): runs on any MPI library.
 *
 * ports serve FILE TIMES: opens a port, writes its name to FILE, and accepts TIMES jobs, one after the other.
 * ports come FILE TIMES: connects as often, and disconnects each time.
 * ports clients FILE TIMES: as serve, for jobs that only say a word; the server's memory must not grow.
 * ports client FILE: such a job.
 * ports bereaved FILE: serves a job that is killed, and then one that says a word.
 * ports dies FILE: a job that is killed while it is connected.
 * ports: the stories of one job.
 */
#include "check.h"

#include <arpa/inet.h>
#include <fcntl.h>
#if __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif
#include <netinet/in.h>
#include <sys/socket.h>

enum { LARGE = 300000, TAG = 5 };

/* Exchanges messages of several sizes with every process of the other job. */
static void exchange(MPI_Comm inter)
{
    int other_size, own;
    MPI_Comm_remote_size(inter, &other_size);
    MPI_Comm_rank(inter, &own);
    int counts[] = {0, 1, 1000, LARGE};
    for (int which = 0; which < 4; which++) {
        int count = counts[which];
        MPI_Request *requests = memory(2 * other_size * sizeof(MPI_Request));
        int *in = memory((size_t)other_size * LARGE * sizeof(int)), *out = memory(LARGE * sizeof(int));
        for (int i = 0; i < count; i++)
            out[i] = 1000 * own + i;
        for (int other = 0; other < other_size; other++) {
            MPI_Irecv(in + (size_t)other * LARGE, count, MPI_INT, other, TAG, inter, &requests[other]);
            MPI_Isend(out, count, MPI_INT, other, TAG, inter, &requests[other_size + other]);
        }
        MPI_Waitall(2 * other_size, requests, MPI_STATUSES_IGNORE);
        for (int other = 0; other < other_size; other++)
            for (int i = 0; i < count; i += 1 + count / 7)
                CHECK_EQUAL(in[(size_t)other * LARGE + i], 1000 * other + i);
        free(out);
        free(in);
        free(requests);
    }
}

/* What two groups can do together that have met. */
static void together(MPI_Comm inter, int is_server)
{
    int flag = 0, remote, size, own;
    MPI_Comm_test_inter(inter, &flag);
    CHECK(flag, "no intercommunicator");
    MPI_Comm_remote_size(inter, &remote);
    exchange(inter);
    STORY("11.9 collectives between the two jobs");
    int value = 1, sum = 0;
    MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, inter);
    CHECK_EQUAL(sum, remote);
    MPI_Barrier(inter);
    STORY("11.9 one communicator of both jobs");
    MPI_Comm both, part, twin;
    MPI_Intercomm_merge(inter, is_server, &both);
    MPI_Comm_size(both, &size);
    MPI_Comm_rank(both, &own);
    CHECK_EQUAL(size, ranks + remote);
    CHECK_EQUAL(own, is_server ? remote + rank : rank);
    for (int count = 1; count <= 100000; count *= 100) {
        int *mine = memory(count * sizeof(int)), *total = memory(count * sizeof(int));
        for (int i = 0; i < count; i++)
            mine[i] = own + i;
        MPI_Allreduce(mine, total, count, MPI_INT, MPI_SUM, both);
        for (int i = 0; i < count; i += 1 + count / 9)
            CHECK_EQUAL(total[i], size * (size - 1) / 2 + size * i);
        for (int root = 0; root < size; root++) {
            int sent = own == root ? 77 + root : -1;
            mine[0] = sent;
            MPI_Bcast(mine, count, MPI_INT, root, both);
            CHECK_EQUAL(mine[0], 77 + root);
        }
        free(total);
        free(mine);
    }
    MPI_Comm_split(both, own % 2, own, &part);
    MPI_Comm_dup(part, &twin);
    value = 1;
    MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, twin);
    CHECK_EQUAL(sum, own % 2 ? size / 2 : (size + 1) / 2);
    STORY("11.9 a window of both jobs");
    long *base;
    MPI_Win window;
    MPI_Win_allocate(sizeof(long), sizeof(long), MPI_INFO_NULL, both, &base, &window);
    *base = -1;
    MPI_Win_fence(0, window);
    long mine = own;
    MPI_Put(&mine, 1, MPI_LONG, (own + 1) % size, 0, 1, MPI_LONG, window);
    MPI_Win_fence(0, window);
    CHECK_EQUAL(*base, (own + size - 1) % size);
    MPI_Win_free(&window);
    MPI_Comm_free(&twin);
    MPI_Comm_free(&part);
    MPI_Comm_free(&both);
}

/* Opens a port and writes its name to the file. */
static void open_port(const char *file, char *port)
{
    char hidden[4096];
    if (rank != 0)
        return;
    MPI_Open_port(MPI_INFO_NULL, port);
    snprintf(hidden, sizeof hidden, "%s.new", file);
    FILE *out = fopen(hidden, "w");
    fprintf(out, "%s\n", port);
    fclose(out);
    rename(hidden, file);
}

static void close_port(const char *file, const char *port)
{
    if (rank == 0) {
        MPI_Close_port(port);
        remove(file);
    }
}

/* Waits until the file has the name of a port. */
static void find_port(const char *file, char *port)
{
    FILE *in = NULL;
    if (rank != 0)
        return;
    while (!(in = fopen(file, "r")))
        usleep(1000);
    CHECK(fgets(port, MPI_MAX_PORT_NAME, in), "no name of a port");
    port[strcspn(port, "\n")] = 0;
    fclose(in);
}

static void serve(const char *file, int times)
{
    char port[MPI_MAX_PORT_NAME] = "";
    open_port(file, port);
    for (int time = 0; time < times; time++) {
        MPI_Comm inter;
        STORY("11.9.2 accept");
        MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter);
        together(inter, 1);
        MPI_Comm_disconnect(&inter);
        CHECK(inter == MPI_COMM_NULL, "the handle is still there");
    }
    close_port(file, port);
}

static void come(const char *file, int times)
{
    char port[MPI_MAX_PORT_NAME] = "";
    find_port(file, port);
    for (int time = 0; time < times; time++) {
        MPI_Comm inter;
        STORY("11.9.3 connect");
        MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter);
        together(inter, 0);
        MPI_Comm_disconnect(&inter);
    }
}

/* The number in the line of /proc/self/status that begins with this word. */
static long status_of(const char *word)
{
    char line[200];
    long value = -1;
    FILE *in = fopen("/proc/self/status", "r");
    while (in && fgets(line, sizeof line, in))
        if (!strncmp(line, word, strlen(word)))
            value = atol(line + strlen(word));
    if (in)
        fclose(in);
    return value;
}

static int descriptors(void)
{
    int count = 0;
    for (int fd = 0; fd < 1000; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

/* Serves jobs that come, say a word and end. What a server has after the first few suffices for all. */
static void clients(const char *file, int times)
{
    /* A library touches its buffers for packets one after the other. A client is known by two descriptors. */
    enum { FIRST = 20, GROWTH_KB = 2500, OF_A_CLIENT = 2 };
    char port[MPI_MAX_PORT_NAME] = "";
    long memory_before = 0, descriptors_before = 0;
    open_port(file, port);
    for (int time = 0; time < times; time++) {
        MPI_Comm inter;
        int word = 0;
        STORY("11.9 clients one after the other");
        MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter);
        if (rank == 0) {
            MPI_Recv(&word, 1, MPI_INT, 0, TAG, inter, MPI_STATUS_IGNORE);
            CHECK_EQUAL(word, 4711);
        }
        MPI_Comm_disconnect(&inter);
        if (time == FIRST) {
            memory_before = status_of("RssAnon:");
            descriptors_before = descriptors();
        }
    }
    if (times > FIRST) {
        long grown = status_of("RssAnon:") - memory_before;
        CHECK(grown < GROWTH_KB, "the memory has grown by %ld KB with %d clients", grown, times - FIRST);
        /* The last client may not have said farewell yet. */
        CHECK(descriptors() <= descriptors_before + OF_A_CLIENT, "%d descriptors, and %ld before %d clients",
              descriptors(), descriptors_before, times - FIRST);
    }
    close_port(file, port);
}

static void client(const char *file)
{
    char port[MPI_MAX_PORT_NAME] = "";
    MPI_Comm inter;
    int word = 4711;
    find_port(file, port);
    MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter);
    if (rank == 0)
        MPI_Send(&word, 1, MPI_INT, 0, TAG, inter);
    MPI_Comm_disconnect(&inter);
}

/* A job that dies while others wait for it. */
static void die(const char *file)
{
    char port[MPI_MAX_PORT_NAME] = "";
    MPI_Comm inter;
    find_port(file, port);
    MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter);
    exchange(inter);
    /* What has been sent need not arrive once its sender is dead: all of it must be there before. */
    MPI_Barrier(inter);
    raise(SIGKILL);
}

/* The processes of a job that dies are told to those that it was connected with, who can meet others. The
 * communicator with the dead job stays until MPI_Finalize, which ends all the same. */
static void bereaved(const char *file)
{
    char port[MPI_MAX_PORT_NAME] = "";
    MPI_Comm inter;
    int word = 0;
    open_port(file, port);
    STORY("11.9 the other job dies");
    MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter);
    MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN);
    exchange(inter);
    /* It may fail: the other job dies as soon as it has come here. */
    MPI_Barrier(inter);
    CHECK_CLASS(MPI_Recv(&word, 1, MPI_INT, 0, TAG, inter, MPI_STATUS_IGNORE), MPI_ERR_PROC_ABORTED);
    CHECK_CLASS(MPI_Send(&word, 1, MPI_INT, 0, TAG, inter), MPI_ERR_PROC_ABORTED);
#ifdef MPIX_ERR_PROC_FAILED
    STORY("an agreement with a job that has died");
    int flag = 1;
    CHECK_CLASS(MPIX_Comm_agree(inter, &flag), MPI_ERR_PROC_ABORTED);
    CHECK_EQUAL(flag, 1);
#endif
    MPI_Barrier(MPI_COMM_WORLD);
    STORY("11.9 another job comes after one that has died");
    MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter);
    if (rank == 0) {
        MPI_Recv(&word, 1, MPI_INT, 0, TAG, inter, MPI_STATUS_IGNORE);
        CHECK_EQUAL(word, 4711);
    }
    MPI_Comm_disconnect(&inter);
    close_port(file, port);
}

/* Says whether ranks 0 and 1 are on one host, where the loopback interface leads from one to the other. */
static int first_two_share_host(void)
{
    char names[2][MPI_MAX_PROCESSOR_NAME] = {"", ""};
    int length;
    for (int which = 0; which < 2; which++) {
        if (rank == which)
            MPI_Get_processor_name(names[which], &length);
        MPI_Bcast(names[which], MPI_MAX_PROCESSOR_NAME, MPI_CHAR, which, MPI_COMM_WORLD);
    }
    return !strcmp(names[0], names[1]);
}

/* Ranks 0 and 1 join at the ends of a connection by TCP. */
static void join_first_two(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    MPI_Comm inter;
    int listener = -1, end = -1, word = rank, heard = -1;
    if (rank == 0) {
        listener = socket(AF_INET, SOCK_STREAM, 0);
        CHECK_EQUAL(bind(listener, (struct sockaddr *)&address, length), 0);
        CHECK_EQUAL(listen(listener, 1), 0);
        CHECK_EQUAL(getsockname(listener, (struct sockaddr *)&address, &length), 0);
        MPI_Send(&address, sizeof address, MPI_BYTE, 1, TAG, MPI_COMM_WORLD);
        end = accept(listener, NULL, NULL);
        close(listener);
    } else if (rank == 1) {
        MPI_Recv(&address, sizeof address, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        end = socket(AF_INET, SOCK_STREAM, 0);
        CHECK_EQUAL(connect(end, (struct sockaddr *)&address, length), 0);
    } else {
        return;
    }
    for (int time = 0; time < 2; time++) { /* the socket can be used again */
        CHECK_EQUAL(MPI_Comm_join(end, &inter), MPI_SUCCESS);
        MPI_Sendrecv(&word, 1, MPI_INT, 0, TAG, &heard, 1, MPI_INT, 0, TAG, inter, MPI_STATUS_IGNORE);
        CHECK_EQUAL(heard, 1 - rank);
        MPI_Comm_disconnect(&inter);
    }
    char byte = 'x', read_byte = 0;
    if (left_out("socket")) {
        close(end);
        return;
    }
    CHECK_EQUAL(write(end, &byte, 1), 1);
    CHECK_EQUAL(read(end, &read_byte, 1), 1);
    CHECK_EQUAL(read_byte, 'x');
    close(end);
}

/* Two halves of one job meet as two jobs do. */
static void alone(void)
{
    MPI_Comm half, inter;
    int is_odd = rank % 2, remote;
    char port[MPI_MAX_PORT_NAME] = "";
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    if (rank == 0)
        CHECK_EQUAL(MPI_Open_port(MPI_INFO_NULL, port), MPI_SUCCESS);
    if (ranks > 1) {
        STORY("11.9 two groups of one job meet at a port");
        MPI_Comm_split(MPI_COMM_WORLD, is_odd, rank, &half);
        MPI_Bcast(port, sizeof port, MPI_CHAR, 0, MPI_COMM_WORLD);
        if (is_odd)
            MPI_Comm_connect(port, MPI_INFO_NULL, 0, half, &inter);
        else
            MPI_Comm_accept(port, MPI_INFO_NULL, 0, half, &inter);
        MPI_Comm_remote_size(inter, &remote);
        CHECK_EQUAL(remote, is_odd ? (ranks + 1) / 2 : ranks / 2);
        exchange(inter);
        MPI_Comm_disconnect(&inter);
        MPI_Comm_free(&half);
        STORY("11.10.5 two processes join at a socket");
        if (first_two_share_host())
            join_first_two();
    }
    STORY("11.9.2 a port that is closed, or never was, is an error of its class");
    if (rank == 0 && !left_out("closed-ports")) {
        MPI_Close_port(port);
        CHECK_CLASS(MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter), MPI_ERR_PORT);
        CHECK_CLASS(MPI_Comm_connect("nonsense", MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter), MPI_ERR_PORT);
    }
    STORY("11.9.4 names of services");
    if (rank == 0) {
        char found[MPI_MAX_PORT_NAME] = "";
        MPI_Open_port(MPI_INFO_NULL, port);
        CHECK_CLASS(MPI_Lookup_name("weft-none", MPI_INFO_NULL, found), MPI_ERR_NAME);
        CHECK_EQUAL(MPI_Publish_name("weft-ports", MPI_INFO_NULL, port), MPI_SUCCESS);
        CHECK_EQUAL(MPI_Lookup_name("weft-ports", MPI_INFO_NULL, found), MPI_SUCCESS);
        CHECK(!strcmp(found, port), "found %.500s", found);
        CHECK_EQUAL(MPI_Unpublish_name("weft-ports", MPI_INFO_NULL, port), MPI_SUCCESS);
        CHECK_CLASS(MPI_Unpublish_name("weft-ports", MPI_INFO_NULL, port), MPI_ERR_SERVICE);
        MPI_Close_port(port);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    const char *what = argc > 1 ? argv[1] : "alone";
    int times = argc > 3 ? atoi(argv[3]) : 1;
    if (!strcmp(what, "serve"))
        serve(argv[2], times);
    else if (!strcmp(what, "come"))
        come(argv[2], times);
    else if (!strcmp(what, "clients"))
        clients(argv[2], times);
    else if (!strcmp(what, "client"))
        client(argv[2]);
    else if (!strcmp(what, "bereaved"))
        bereaved(argv[2]);
    else if (!strcmp(what, "dies"))
        die(argv[2]);
    else
        alone();
    return end();
}
