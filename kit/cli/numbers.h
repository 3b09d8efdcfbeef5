/*
 * numbers.h: options whose values are numbers.
 */
#ifndef AF_KIT_CLI_NUMBERS_H
#define AF_KIT_CLI_NUMBERS_H

#include "kit/cli/commands.h"

/* A finite number above 0; the variable keeps its value if the option was not given. */
enum anyflash_status af_option_float(const struct af_cli *cli, enum af_option_id id,
                                     float *number_out, struct anyflash_error *err);

/* --threads: 1 to 1024, or 0 (all usable cores) if it was not given. */
enum anyflash_status af_option_threads(const struct af_cli *cli, int32_t *threads_out,
                                       struct anyflash_error *err);

#endif
