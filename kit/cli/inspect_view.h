/*
 * inspect_view.h: an inspection as a page for people and as JSON.
 */
#ifndef AF_KIT_CLI_INSPECT_VIEW_H
#define AF_KIT_CLI_INSPECT_VIEW_H

#include "kit/cli/inspection.h"

/* Writes the page to cli->out. */
void af_cli_inspect_view(struct af_cli *cli, const struct af_inspection *inspection);

/* Writes "anyflash-inspect/1" (docs/reference/json.md). Fails with NO_MEMORY. */
enum anyflash_status af_cli_inspect_json(struct af_cli *cli,
                                         const struct af_inspection *inspection,
                                         struct anyflash_error *err);

#endif
