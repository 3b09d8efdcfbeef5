/*
 * wheel_table.h: prints wheels as a table: its head, then one row for each wheel.
 */
#ifndef AF_KIT_CLI_WHEEL_TABLE_H
#define AF_KIT_CLI_WHEEL_TABLE_H

#include "kit/base/text.h"
#include "kit/fit/fit.h"

/* Columns that not every table has. */
enum af_cli_wheel_column { AF_CLI_WHEEL_VERDICT = 1, AF_CLI_WHEEL_PACKAGE = 2 };

/* `columns`: AF_CLI_WHEEL_*, joined by |. */
void af_cli_wheel_table_head(struct af_text *out, unsigned columns);

/*
 * One row. Cells that do not fit a terminal's line follow in an indented one. The verdict is
 * "-" if that is NULL because the decision was about another package. `verbose` adds the
 * complete file name and the ids of the verdict's reasons below it.
 */
void af_cli_wheel_table_row(struct af_text *out, const struct af_catalog_wheel *wheel,
                            unsigned columns, const struct af_candidate *verdict, bool verbose);

#endif
