/*
 * plan_wheels.h: `plan --wheel FILENAME` and `plan --all`.
 */
#ifndef AF_KIT_CLI_PLAN_WHEELS_H
#define AF_KIT_CLI_PLAN_WHEELS_H

#include "kit/cli/load.h"

/* The verdict on one wheel, with every reason, for each machine. */
enum anyflash_status af_cli_plan_one(struct af_cli *cli, const struct af_question *question,
                                     enum af_exit *exit_out, struct anyflash_error *err);

/* Every wheel with its verdict, best first; at most --limit of them. */
enum anyflash_status af_cli_plan_all(struct af_cli *cli, const struct af_question *question,
                                     enum af_exit *exit_out, struct anyflash_error *err);

#endif
