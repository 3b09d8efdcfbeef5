/*
 * build_check_view.h: prints what a build needs, and what of it is missing.
 */
#ifndef AF_KIT_CLI_BUILD_CHECK_VIEW_H
#define AF_KIT_CLI_BUILD_CHECK_VIEW_H

#include "kit/cli/commands.h"
#include "kit/compile/build.h"

/*
 * `anyflash build --check`: prints the prerequisites of this program's build, and those of
 * flash-attn's own for `targets` (compute capabilities as numbers: 8.0 is 80). *exit_out is NO
 * if one of the first is missing.
 */
enum anyflash_status af_cli_build_check(struct af_cli *cli, struct af_build *build,
                                        const int *targets, size_t target_count,
                                        enum af_exit *exit_out, struct anyflash_error *err);

/* Fails with UNSUPPORTED if no build is possible; warns about other missing prerequisites. */
enum anyflash_status af_cli_build_refuse(struct af_cli *cli, const struct af_build_check *check,
                                         struct anyflash_error *err);

#endif
