/*
 * run_torch.h: which torch there will be after a command: the one that is pinned, else the one
 * that the installer chooses for the other requirements, else the installed one, else the
 * newest that has a wheel; and the versions of flash-attn that the project allows.
 */
#ifndef AF_KIT_CLI_RUN_TORCH_H
#define AF_KIT_CLI_RUN_TORCH_H

#include "kit/cli/run_resolver.h"

/* Whether all that is written about `name` (normalised) allows the version. */
bool af_cli_wanted_allows(const struct af_cli_wanted *wanted, const char *name,
                          const char *version);

/* The version of `name` that the project pins, as written; NULL: none. */
const char *af_cli_wanted_pin(const struct af_cli_wanted *wanted, const char *name);

/* The pinned version of flash-attn in normal form; NULL: none is. */
const char *af_cli_wanted_version(struct af_cli_wanted *wanted, bool with_local);

/* The newest flash-attn in the catalog that the project allows; NULL: none. */
const struct af_catalog_wheel *af_cli_wanted_newest(const struct af_cli_wanted *wanted);

/* Whether wanted->answer is a wheel of a version that the project allows. */
bool af_cli_wanted_has_wheel(const struct af_cli_wanted *wanted);

/* "2.8.0+cu128" for "2.8.0": the build that the command's index has; else `version`. */
const char *af_cli_torch_with_build(struct af_cli_wanted *wanted, const char *version);

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
