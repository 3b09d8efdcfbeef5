/*
 * wheel_table.h: prints wheels as rows of a table.
 */
#ifndef AF_KIT_CLI_WHEEL_TABLE_H
#define AF_KIT_CLI_WHEEL_TABLE_H

#include "kit/base/json.h"
#include "kit/cli/page.h"
#include "kit/fit/fit.h"

/* with_verdict: adds a column for the verdict. */
void af_cli_wheel_table_head(struct af_text *out, bool with_verdict);

/*
 * One row of at most 96 columns. with_verdict: adds the verdict; "-" if that is
 * NULL because the decision was about another package. `verbose` adds the file
 * name and the ids of the verdict's reasons below it.
 */
void af_cli_wheel_table_row(struct af_text *out, const struct af_catalog_wheel *wheel,
                            bool with_verdict, const struct af_candidate *verdict,
                            bool verbose);

#endif
