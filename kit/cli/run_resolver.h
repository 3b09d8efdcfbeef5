/*
 * run_resolver.h: finds out which torch the user's installer would choose for the requirements
 * other than flash-attn. It runs the user's own command with --dry-run, so with the same
 * environment and indexes, and gives it an empty wheel of flash-attn that requires nothing.
 * Otherwise a torch that we choose could contradict another requirement.
 */
#ifndef AF_KIT_CLI_RUN_RESOLVER_H
#define AF_KIT_CLI_RUN_RESOLVER_H

#include "kit/cli/run_resolver_answer.h"

/*
 * Whether anything but torch and flash-attn may decide on torch: another requirement, or a file
 * of constraints that is not read here. False if the project pins torch.
 */
bool af_cli_resolver_matters(const struct af_cli_wanted *wanted);

/*
 * Asks the installer. `flash` is the version of the empty flash-attn; NULL: the command names
 * its file, which is used. `torch` is a version that torch shall have; NULL: any. An installer
 * that fails, or takes more than ten minutes, is no failure: resolved_out->failure says why.
 * Fails with IO, or TIMEOUT when the user interrupts.
 */
enum anyflash_status af_cli_resolver_ask(struct af_cli_wanted *wanted, const char *flash,
                                         const char *torch,
                                         struct af_cli_resolved *resolved_out,
                                         struct anyflash_error *err);

#endif
