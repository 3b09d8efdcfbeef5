/*
 * bench_table.h: the report of `anyflash bench` as text.
 */
#ifndef AF_KIT_CLI_BENCH_TABLE_H
#define AF_KIT_CLI_BENCH_TABLE_H

#include "bench/report.h"
#include "kit/cli/page.h"

/* Facts, a table for each operation, and notes; within the page's columns. */
void af_cli_bench_table(const struct af_bench_report *report, struct af_page *page);

#endif
