/*
 * build_clean.h: shows and removes what builds keep in the cache.
 */
#ifndef AF_KIT_CLI_BUILD_CLEAN_H
#define AF_KIT_CLI_BUILD_CLEAN_H

#include "kit/cli/commands.h"

/* `anyflash build --clean`; with --dry-run it removes nothing. *exit_out: NO if one stays. */
enum anyflash_status af_cli_build_clean(struct af_cli *cli, enum af_exit *exit_out,
                                        struct anyflash_error *err);

#endif
