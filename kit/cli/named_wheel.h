/*
 * named_wheel.h: makes the plan for a wheel that the user names.
 */
#ifndef AF_KIT_CLI_NAMED_WHEEL_H
#define AF_KIT_CLI_NAMED_WHEEL_H

#include "kit/answer/plan.h"
#include "kit/cli/commands.h"

/*
 * The plan that installs `word`, a wheel's file or URL. Fails with ARGUMENT if
 * it is neither, or if --sha256 is not a hash.
 */
enum anyflash_status af_named_wheel_plan(struct af_cli *cli, const struct af_machine *machine,
                                         const char *word, struct af_plan *plan,
                                         struct anyflash_error *err);

#endif
