/*
 * selection_options.h: the options that say which part of flash-attn a build
 * holds, for `build` and `plan`.
 */
#ifndef AF_KIT_CLI_SELECTION_OPTIONS_H
#define AF_KIT_CLI_SELECTION_OPTIONS_H

#include "kit/build/offer/slim.h"
#include "kit/cli/commands.h"

/*
 * --for, then what is said by hand over it, --full or nothing. Where nothing is
 * said, fails with ARGUMENT if `must` be, else takes af_slim_usual(). Remarks on
 * what a configuration does not say go to stderr. `archs` are none.
 */
enum anyflash_status af_cli_read_selection(struct af_cli *cli, bool must, struct af_slim *slim,
                                           struct anyflash_error *err);

/* Whether any of those options stands on the command line. */
bool af_cli_selection_said(const struct af_options *options);

/*
 * Those options as they were typed, so that `build` makes the same of them; with
 * the size and type of af_slim_usual() where they say none. In the arena; NULL
 * when memory fails.
 */
const char *const *af_cli_selection_words(struct af_cli *cli, size_t *count_out);

#endif
