/*
 * run_settings.h: what pip's and uv's files and variables add to a command.
 */
#ifndef AF_KIT_CLI_RUN_SETTINGS_H
#define AF_KIT_CLI_RUN_SETTINGS_H

#include "kit/cli/run_choice.h"

/*
 * Asks the command's installer for its settings, and refuses those that say what is installed,
 * or that it is installed elsewhere. An installer that does not answer has none.
 */
void af_cli_settings_check(struct af_cli_wanted *wanted);

#endif
