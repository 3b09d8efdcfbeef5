/*
 * next_command.h: the commands that this program tells its user to type next. They repeat
 * the options that this run's answer depends on, so that they give the same answer.
 */
#ifndef AF_KIT_CLI_NEXT_COMMAND_H
#define AF_KIT_CLI_NEXT_COMMAND_H

#include "kit/cli/commands.h"

/*
 * The options of this run that decide and that `command` takes, with their values; ends with
 * NULL. NULL if memory runs out (then cli->arena.failed is set).
 */
const char *const *af_cli_repeated_options(struct af_cli *cli, enum af_command_id command);

/*
 * "anyflash COMMAND WORDS OPTIONS" for a POSIX shell. OPTIONS are those of
 * af_cli_repeated_options(). WORDS may contain options, too; `words` ends with
 * NULL, and may be NULL. Returns arena text, "" if memory runs out (then cli->arena.failed
 * is set).
 */
const char *af_cli_next_command(struct af_cli *cli, enum af_command_id command,
                                const char *const *words);

#endif
