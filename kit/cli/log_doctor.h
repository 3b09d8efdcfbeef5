/*
 * log_doctor.h: `anyflash doctor LOG...`: what went wrong in a log.
 */
#ifndef AF_KIT_CLI_LOG_DOCTOR_H
#define AF_KIT_CLI_LOG_DOCTOR_H

#include "kit/cli/commands.h"

/* Reads the logs that the command's words name, and writes the diagnosis. */
enum anyflash_status af_cli_doctor_logs(struct af_cli *cli, enum af_exit *exit_out,
                                        struct anyflash_error *err);

/* Writes the screen of a cause, or with "all" the list of causes. */
enum anyflash_status af_cli_doctor_explain(struct af_cli *cli, const char *id,
                                           struct anyflash_error *err);

#endif
