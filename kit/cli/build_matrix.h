/*
 * build_matrix.h: `anyflash build --matrix`: the jobs printed. Private to
 * cmd_build.c.
 */
#ifndef AF_KIT_CLI_BUILD_MATRIX_H
#define AF_KIT_CLI_BUILD_MATRIX_H

#include "kit/build/offer/slim.h"
#include "kit/cli/commands.h"

/*
 * Prints the jobs that the words of the command line ask for, each building
 * `slim` of flash-attn `version` with at most `memory_bytes` (0: not said), in
 * the form of --format. What is left out is a remark each; without any job the
 * exit code is NO. Fails as af_matrix_make() and with ARGUMENT on options that
 * contradict it.
 */
enum anyflash_status af_cli_build_matrix(struct af_cli *cli, const struct af_slim *slim,
                                         const char *version, uint64_t memory_bytes,
                                         enum af_exit *exit_out, struct anyflash_error *err);

#endif
