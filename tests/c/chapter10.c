/*
 * Chapter 10 of MPI 5.0, the info object: conformance. Passes on any MPI library with any number of ranks.
 * The chapter has no numbered sections but its own: "10" below is the whole of it.
 */
#include "check.h"

enum { MANY = 300 };

static void check_value(MPI_Info info, const char *key, const char *expected)
{
    char value[MPI_MAX_INFO_VAL + 1] = "";
    int room = sizeof value, found = -1;
    MPI_Info_get_string(info, key, &room, value, &found);
    CHECK(found == (expected != NULL), "%s: %d", key, found);
    if (expected) {
        CHECK(strcmp(value, expected) == 0, "%s is \"%.100s\"", key, value);
        CHECK_EQUAL(room, (int)strlen(expected) + 1);
    }
}

/* Calls that are allowed before MPI_Init and after MPI_Finalize (§11.4.1). */
static void without_mpi(void)
{
    MPI_Info info, copy;
    int count;
    MPI_Info_create(&info);
    MPI_Info_get_nkeys(info, &count);
    CHECK_EQUAL(count, 0);
    MPI_Info_set(info, "before", "everything");
    MPI_Info_dup(info, &copy);
    MPI_Info_delete(info, "before");
    check_value(info, "before", NULL);
    check_value(copy, "before", "everything");
    MPI_Info_free(&info);
    MPI_Info_free(&copy);
    CHECK(info == MPI_INFO_NULL && copy == MPI_INFO_NULL, "not null after MPI_Info_free");
}

static void keys_and_values(void)
{
    STORY("10: pairs are set, replaced and deleted");
    MPI_Info info;
    int count, found;
    MPI_Info_create(&info);
    MPI_Info_set(info, "one", "1");
    MPI_Info_set(info, "two", "2");
    MPI_Info_set(info, "One", "case matters");
    MPI_Info_get_nkeys(info, &count);
    CHECK_EQUAL(count, 3);
    MPI_Info_set(info, "one", "another");
    MPI_Info_get_nkeys(info, &count);
    CHECK_EQUAL(count, 3);
    check_value(info, "one", "another");
    check_value(info, "One", "case matters");
    MPI_Info_delete(info, "one");
    check_value(info, "one", NULL);
    check_value(info, "two", "2");

    STORY("10: a value is cut to the room there is, and the room that it takes is told");
    char value[8];
    memset(value, 'x', sizeof value);
    MPI_Info_set(info, "long", "abcdefgh");
    int room = 0;
    MPI_Info_get_string(info, "long", &room, value, &found); /* no room: the value is left as it is */
    CHECK(found && room == 9 && value[0] == 'x', "%d, room for %d, '%c'", found, room, value[0]);
    room = 4;
    MPI_Info_get_string(info, "long", &room, value, &found);
    CHECK(found && room == 9, "%d, room for %d", found, room);
    CHECK(memcmp(value, "abc\0x", 5) == 0, "\"%.8s\"", value);
    room = 5;
    MPI_Info_get_string(info, "no such key", &room, value, &found);
    CHECK(!found && room == 5 && value[0] == 'a', "%d, room for %d", found, room);

    STORY("10: the longest key and the longest value");
    static char key[MPI_MAX_INFO_KEY], longest[MPI_MAX_INFO_VAL];
    memset(key, 'k', sizeof key - 1);
    memset(longest, 'v', sizeof longest - 1);
    MPI_Info_set(info, key, longest);
    check_value(info, key, longest);
    MPI_Info_set(info, "empty", "");
    check_value(info, "empty", "");
    MPI_Info_set(info, " spaces ", " are kept ");
    check_value(info, " spaces ", " are kept ");
    MPI_Info_free(&info);
}

static void order(void)
{
    STORY("10: keys have numbers that stay the same as long as nothing is set or deleted; a copy has the same ones");
    MPI_Info info, copy;
    char key[MPI_MAX_INFO_KEY], other[MPI_MAX_INFO_KEY], text[30];
    int count, seen[MANY] = {0};
    MPI_Info_create(&info);
    for (int i = 0; i < MANY; i++) {
        snprintf(key, sizeof key, "key%d", i * 7919 % MANY);
        snprintf(text, sizeof text, "value%d", i * 7919 % MANY);
        MPI_Info_set(info, key, text);
    }
    MPI_Info_dup(info, &copy);
    MPI_Info_get_nkeys(info, &count);
    CHECK_EQUAL(count, MANY);
    MPI_Info_get_nkeys(copy, &count);
    CHECK_EQUAL(count, MANY);
    for (int i = 0; i < MANY; i++) {
        MPI_Info_get_nthkey(info, i, key);
        MPI_Info_get_nthkey(copy, i, other);
        CHECK(strcmp(key, other) == 0, "%d: %.40s, in the copy %.40s", i, key, other);
        int number = atoi(key + 3);
        CHECK(number >= 0 && number < MANY && !seen[number], "%.40s comes twice", key);
        seen[number % MANY] = 1;
        snprintf(text, sizeof text, "value%d", number);
        check_value(copy, key, text);
    }
    MPI_Info_free(&info);
    MPI_Info_free(&copy);
}

/* §16: deprecated by MPI-4.0, and still there. */
static void deprecated(void)
{
    STORY("16: MPI_Info_get and MPI_Info_get_valuelen");
    MPI_Info info;
    char value[5] = "";
    int length = -1, found = -1;
    MPI_Info_create(&info);
    MPI_Info_set(info, "key", "abcdef");
    MPI_Info_get_valuelen(info, "key", &length, &found);
    CHECK(found && length == 6, "%d, %d", found, length);
    char whole[7] = "";
    MPI_Info_get(info, "key", 6, whole, &found);
    CHECK(found && strcmp(whole, "abcdef") == 0, "%d, \"%s\"", found, whole);
    if (!left_out("cut-value")) {
        MPI_Info_get(info, "key", 4, value, &found);
        CHECK(found && strcmp(value, "abcd") == 0, "%d, \"%s\"", found, value);
    }
    MPI_Info_get_valuelen(info, "none", &length, &found);
    CHECK_EQUAL(found, 0);
    MPI_Info_free(&info);
}

static void predefined(void)
{
    STORY("10: MPI_INFO_ENV, and one like it from MPI_Info_create_env");
    int count;
    CHECK(MPI_INFO_ENV != MPI_INFO_NULL, "it is null");
    MPI_Info_get_nkeys(MPI_INFO_ENV, &count);
    CHECK(count >= 0 && count < 100, "%d", count);
    for (int i = 0; i < count; i++) {
        char key[MPI_MAX_INFO_KEY], value[MPI_MAX_INFO_VAL + 1];
        int room = sizeof value, found = 0;
        MPI_Info_get_nthkey(MPI_INFO_ENV, i, key);
        MPI_Info_get_string(MPI_INFO_ENV, key, &room, value, &found);
        CHECK(found, "%.40s has no value", key);
    }
    char *arguments[] = {"program", "argument", NULL};
    MPI_Info info = MPI_INFO_NULL;
    MPI_Info_create_env(2, arguments, &info);
    CHECK(info != MPI_INFO_NULL, "null");
    MPI_Info_set(info, "ours", "may be set");
    check_value(info, "ours", "may be set");
    MPI_Info_free(&info);
}

static void mistakes(void)
{
    STORY("10: mistakes, and their classes");
    static char key[MPI_MAX_INFO_KEY + 2], value[MPI_MAX_INFO_VAL + 2];
    MPI_Info info;
    memset(key, 'k', sizeof key - 1);
    memset(value, 'v', sizeof value - 1);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN); /* §9.3: errors that concern no communicator */
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Info_create(&info);
    CHECK_CLASS(MPI_Info_set(info, key, "value"), MPI_ERR_INFO_KEY);
    CHECK_CLASS(MPI_Info_set(info, "key", value), MPI_ERR_INFO_VALUE);
    CHECK_CLASS(MPI_Info_delete(info, "none"), MPI_ERR_INFO_NOKEY);
    MPI_Info_free(&info);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

int main(int argc, char **argv)
{
    STORY("11.4.1: info objects before MPI_Init");
    without_mpi();
    begin(&argc, &argv);
    keys_and_values();
    order();
    deprecated();
    predefined();
    mistakes();
    int result = end();
    STORY("11.4.1: info objects after MPI_Finalize");
    without_mpi();
    return result || failures > 0;
}
