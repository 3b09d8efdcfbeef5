/*
 * check_scope.h: what `anyflash check` is asked to look at, before it reads a file. Private to
 * this room.
 */
#ifndef AF_KIT_CLI_CHECK_SCOPE_H
#define AF_KIT_CLI_CHECK_SCOPE_H

#include "kit/cli/check_files.h"

/*
 * Sets project->root and options.only by the words, which are one folder, or files below the
 * current one. Fails with NOT_FOUND, or ARGUMENT for several folders.
 */
enum anyflash_status af_cli_project_read_words(struct af_cli_project *project,
                                               struct anyflash_error *err);

/*
 * Sets options.ignored and project->excluded by [tool.anyflash] in the root's pyproject.toml; a
 * file that cannot be read has no settings. Fails with ARGUMENT if a setting is no array of
 * strings, or names a finding that there is not.
 */
enum anyflash_status af_cli_project_read_settings(struct af_cli_project *project,
                                                  struct anyflash_error *err);

#endif
