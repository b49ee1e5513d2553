/* The parts of every measurement that need no MPI: JSON lines, numbers of options, contents that can be
 * checked. Shared with the programs of ../carriers. */
#ifndef WEFT_BENCH_PLAIN_H
#define WEFT_BENCH_PLAIN_H

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- JSON lines: open, add fields, close. Numbers that are not finite become null. ---- */

static inline void json_open(const char *measurement)
{
    printf("{\"measurement\":\"%s\"", measurement);
}

static inline void json_text(const char *name, const char *value)
{
    printf(",\"%s\":\"", name);
    for (; *value; value++) {
        unsigned char c = (unsigned char)*value;
        if (c == '"' || c == '\\')
            printf("\\%c", c);
        else if (c < 0x20 || c > 0x7e)
            printf("\\u%04x", c);
        else
            putchar(c);
    }
    putchar('"');
}

static inline void json_number(const char *name, double value)
{
    if (isfinite(value))
        printf(",\"%s\":%.9g", name, value);
    else
        printf(",\"%s\":null", name);
}

static inline void json_integer(const char *name, long long value)
{
    printf(",\"%s\":%lld", name, value);
}

static inline void json_true(const char *name, int value)
{
    printf(",\"%s\":%s", name, value ? "true" : "false");
}

static inline void json_close(void)
{
    printf("}\n");
    /* The next sample may never come: this one must be out by then. */
    fflush(stdout);
}

/* ---- Options ---- */

/* Parses a number that is not negative, whole or broken, with an optional k, m or g (1024, 1024^2, 1024^3).
 * Returns -1 for any other text. */
static inline double plain_number(const char *text)
{
    char *end;
    double value;
    errno = 0;
    value = strtod(text, &end);
    if (end == text || errno || !isfinite(value) || value < 0)
        return -1;
    if (*end == 'k' || *end == 'K')
        value *= 1024, end++;
    else if (*end == 'm' || *end == 'M')
        value *= 1048576, end++;
    else if (*end == 'g' || *end == 'G')
        value *= 1073741824.0, end++;
    return *end ? -1 : value;
}

/* ---- Contents ---- */

/* The byte at a position of the contents that `owner` sends under `seed`. The terms tell blocks of 256 and
 * 65536 bytes apart, so a piece at a wrong place is seen. */
static inline unsigned char plain_content(size_t position, unsigned owner, unsigned seed)
{
    return (unsigned char)(position * 7 + (position >> 8) * 13 + (position >> 16) * 29 + owner * 31 + seed * 17 + 1);
}

#endif
