/*
 * run_torch.h: which torch there will be after a command: the one that is pinned, else the one
 * that the installer chooses for the other requirements, else the installed one, else the
 * newest that has a wheel.
 */
#ifndef AF_KIT_CLI_RUN_TORCH_H
#define AF_KIT_CLI_RUN_TORCH_H

#include "kit/cli/run_resolver.h"
#include "kit/cli/run_versions.h"

/* Whether wanted->answer is a wheel of a version that the project allows. */
bool af_cli_wanted_has_wheel(const struct af_cli_wanted *wanted);

/*
 * Sets wanted->torch, torch_stays and torch_why to what the installer answers, or refuses.
 * `flash` is as in af_cli_resolver_ask(), which also says how this fails. wanted->torch is NULL
 * if torch is neither installed nor needed by others.
 */
enum anyflash_status af_cli_torch_resolve(struct af_cli_wanted *wanted, const char *flash,
                                          struct af_cli_resolved *answer_out,
                                          struct anyflash_error *err);

/* Sets these, and wanted->answer to the plan for that torch; or refuses. */
enum anyflash_status af_cli_torch_choose(struct af_cli_wanted *wanted,
                                         struct anyflash_error *err);

#endif
