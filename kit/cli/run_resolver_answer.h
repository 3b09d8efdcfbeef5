/*
 * run_resolver_answer.h: what the user's installer answers when it is asked what it would
 * install.
 */
#ifndef AF_KIT_CLI_RUN_RESOLVER_ANSWER_H
#define AF_KIT_CLI_RUN_RESOLVER_ANSWER_H

#include "kit/cli/run_choice.h"

#define AF_CLI_RESOLVED_PACKAGES_MAX 4000u /* more are left out */

/* A package that the installer would install. Texts in the caller's arena. */
struct af_cli_resolved_package {
    const char *name; /* normalised */
    const char *version;
};

/* An answer. Packages that are installed and stay are not in it. */
struct af_cli_resolved {
    struct af_cli_resolved_package *packages; /* room for AF_CLI_RESOLVED_PACKAGES_MAX */
    size_t count;
    const char
        *needs_torch;    /* "vllm 0.8.5", which asks for exactly that torch; NULL: unknown */
    const char *failure; /* the installer's last error, if it has no answer; else NULL */
};

/* The version of the package in the answer; NULL: the installer would not install it. */
const char *af_cli_resolved_version(const struct af_cli_resolved *resolved, const char *name);

/*
 * Whether both answers have the same version of every package that is in both, but for torch,
 * its companions (torchvision and the like) and its own libraries.
 */
bool af_cli_resolved_agree(const struct af_cli_resolved *a, const struct af_cli_resolved *b);

/* The last error that the installer printed, scrubbed, in the arena. */
const char *af_cli_resolved_last_error(struct af_arena *arena, struct af_span text);

/* Reads what `uv --dry-run` printed; resolved->failure says if that is no answer. */
void af_cli_resolved_read_uv(struct af_cli_resolved *resolved, struct af_arena *arena,
                             struct af_span text);

/* Reads pip's report in the file `path`; resolved->failure says if there is none to read. */
void af_cli_resolved_read_pip(struct af_cli_wanted *wanted, const char *path,
                              struct af_cli_resolved *resolved);

#endif
