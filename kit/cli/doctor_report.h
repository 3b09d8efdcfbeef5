/*
 * doctor_report.h: the file that a user attaches to a bug report: the verdict,
 * excerpts of logs and the machine's facts, scrubbed (kit/doctor/scrub.h).
 */
#ifndef AF_KIT_CLI_DOCTOR_REPORT_H
#define AF_KIT_CLI_DOCTOR_REPORT_H

#include "kit/cli/command_inputs.h"

/* Appends "## TITLE" and the text as a block; an empty text adds nothing. */
void af_cli_report_section(struct af_text *report, const char *title, const char *text);

/* Appends the facts of the machine as JSON. Fails with NO_MEMORY. */
enum anyflash_status af_cli_report_machine(struct af_text *report, struct af_machine *machine,
                                           struct anyflash_error *err);

/*
 * Scrubs the report and writes it to --output (default: anyflash-report.md); says on stderr
 * what it contains and what was removed. A file that is no such report is not overwritten.
 * Fails with IO or NO_MEMORY.
 */
enum anyflash_status af_cli_report_write(struct af_cli *cli, const struct af_text *report,
                                         struct anyflash_error *err);

#endif
