/*
 * build_check.h: `anyflash build --check`, and the same before a build starts.
 */
#ifndef AF_KIT_CLI_BUILD_CHECK_H
#define AF_KIT_CLI_BUILD_CHECK_H

#include "kit/build/build.h"
#include "kit/cli/commands.h"

/* What the selection needs, on `cores` cores, for the verdicts about room. */
struct af_build_resources af_cli_build_resources(const struct af_build *build, int64_t cores);

/*
 * Prints the verdicts as a table, or as JSON with --json or --format json. The
 * exit code is NO when one of them is. Fails with ARGUMENT for another --format.
 */
enum anyflash_status af_cli_build_check(struct af_cli *cli, struct af_build *build,
                                        struct af_build_resources resources,
                                        enum af_exit *exit_out, struct anyflash_error *err);

/*
 * Before a build: fails with UNSUPPORTED, naming the first thing that no build
 * gets past, and the hint is what settles it. What may end badly is remarked.
 */
enum anyflash_status af_cli_build_refuse(struct af_cli *cli, struct af_build *build,
                                         struct af_build_resources resources,
                                         struct anyflash_error *err);

#endif
