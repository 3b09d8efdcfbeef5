/*
 * run_versions.h: which versions of torch and flash-attn the project of a command allows.
 */
#ifndef AF_KIT_CLI_RUN_VERSIONS_H
#define AF_KIT_CLI_RUN_VERSIONS_H

#include "kit/cli/run_choice.h"

/* Whether all that is written about `name` (normalised) allows the version. */
bool af_cli_wanted_allows(const struct af_cli_wanted *wanted, const char *name,
                          const char *version);

/* The version of `name` that the project pins, as written; NULL: none. */
const char *af_cli_wanted_pin(const struct af_cli_wanted *wanted, const char *name);

/* The pinned version of flash-attn in normal form; NULL: none is. */
const char *af_cli_wanted_version(struct af_cli_wanted *wanted, bool with_local);

/* The newest flash-attn in the catalog that the project allows; NULL: none. */
const struct af_catalog_wheel *af_cli_wanted_newest(const struct af_cli_wanted *wanted);

/* The newest before `rank` (af_catalog_wheel.version_rank) that it allows; NULL: none. */
const struct af_catalog_wheel *af_cli_wanted_next_version(const struct af_cli_wanted *wanted,
                                                          int32_t rank);

/* "2.8.0+cu128" for "2.8.0": the build that the command's index has; else `version`. */
const char *af_cli_torch_with_build(struct af_cli_wanted *wanted, const char *version);

#endif
