/*
 * numbers.c: options whose values are numbers. Used by attend and bench.
 */
#include "kit/cli/numbers.h"

#include <math.h>
#include <stdlib.h>

#define THREADS_MAX 1024

enum anyflash_status af_option_float(const struct af_cli *cli, enum af_option_id id,
                                     float *number_out, struct anyflash_error *err)
{
    const char *text = cli->options.values[id];
    char *end = NULL;
    if (text == NULL)
        return ANYFLASH_OK;
    float number = strtof(text, &end);
    if (end == text || *end != '\0' || !isfinite(number) || number <= 0)
        return af_fail(err, ANYFLASH_E_ARGUMENT, "--%s takes a number above 0",
                       af_option_rows[id].name);
    *number_out = number;
    return ANYFLASH_OK;
}

enum anyflash_status af_option_threads(const struct af_cli *cli, int32_t *threads_out,
                                       struct anyflash_error *err)
{
    const char *text = cli->options.values[AF_OPTION_THREADS];
    int64_t threads = 0;
    if (text != NULL && !af_parse_i64(text, 1, THREADS_MAX, &threads))
        return af_fail(err, ANYFLASH_E_ARGUMENT, "--threads takes a number from 1 to %d",
                       THREADS_MAX);
    *threads_out = (int32_t)threads;
    return ANYFLASH_OK;
}
