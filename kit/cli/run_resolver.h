/*
 * run_resolver.h: finds out which torch the user's installer would choose for the requirements
 * other than flash-attn. It runs the user's own command with --dry-run, so with the same
 * environment and indexes, and gives it an empty wheel of flash-attn that requires nothing.
 * Otherwise a torch that we choose could contradict another requirement.
 */
#ifndef AF_KIT_CLI_RUN_RESOLVER_H
#define AF_KIT_CLI_RUN_RESOLVER_H

#include "kit/cli/run_choice.h"

/* A package that the installer would install. Texts in the caller's arena. */
struct af_cli_resolved_package {
    const char *name; /* normalised */
    const char *version;
};

/* An answer. Packages that are installed and stay are not in it. */
struct af_cli_resolved {
    struct af_cli_resolved_package *packages;
    size_t count;
    const char
        *needs_torch;    /* "vllm 0.8.5", which asks for exactly that torch; NULL: unknown */
    const char *failure; /* the installer's last error, if it has no answer; else NULL */
};

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

/* The version of the package in the answer; NULL: the installer would not install it. */
const char *af_cli_resolved_version(const struct af_cli_resolved *resolved, const char *name);

/*
 * Whether both answers have the same version of every package that is in both, but for torch,
 * its companions (torchvision and the like) and its own libraries.
 */
bool af_cli_resolved_agree(const struct af_cli_resolved *a, const struct af_cli_resolved *b);

#endif
