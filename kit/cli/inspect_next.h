/*
 * inspect_next.h: what to do about the answer of `inspect`.
 */
#ifndef AF_KIT_CLI_INSPECT_NEXT_H
#define AF_KIT_CLI_INSPECT_NEXT_H

#include "kit/cli/inspection.h"

/* One sentence in the arena of the call; NULL: nothing is to be done, or nobody knows what. */
const char *af_cli_inspect_next(struct af_cli *cli, const struct af_inspection *inspection);

#endif
