/*
 * build_clean.h: `anyflash build --clean`.
 */
#ifndef AF_KIT_CLI_BUILD_CLEAN_H
#define AF_KIT_CLI_BUILD_CLEAN_H

#include "kit/cli/commands.h"

/*
 * Shows what builds keep and removes it; with --dry-run only shows. What a build
 * works in stays and is said; then the exit code is NO.
 */
enum anyflash_status af_cli_build_clean(struct af_cli *cli, enum af_exit *exit_out,
                                        struct anyflash_error *err);

#endif
