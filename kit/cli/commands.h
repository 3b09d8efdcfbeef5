/*
 * commands.h: what a command receives and uses, and the commands themselves (in cmd_<name>.c;
 * small ones share a file with what is like them). Private to this room.
 */
#ifndef AF_KIT_CLI_COMMANDS_H
#define AF_KIT_CLI_COMMANDS_H

#include "kit/base/json.h"
#include "kit/cli/cli.h"
#include "kit/cli/options.h"

/*
 * One run of the program. `out` collects all of stdout and is written at the
 * end, so that a failing command prints no partial answer. Remarks go to stderr
 * at once.
 */
struct af_cli {
    struct af_arena arena;
    struct af_options options;
    struct af_text out;
    const char *hint; /* for the error that a command returns; arena text, or NULL */
};

/*
 * A command appends to cli->out and sets *exit_out (AF_EXIT_YES at entry).
 * Statuses become exit codes in cli.c.
 */
#define AF_COMMAND(id, name, arguments, line, doc, example)                                    \
    enum anyflash_status af_cmd_##name(struct af_cli *cli, enum af_exit *exit_out,             \
                                       struct anyflash_error *err);
#include "kit/cli/commands.inc"
#undef AF_COMMAND

/* `doctor LOG...`: reads the logs that the words name, and writes the diagnosis. */
enum anyflash_status af_cli_doctor_logs(struct af_cli *cli, enum af_exit *exit_out,
                                        struct anyflash_error *err);

/* `doctor --explain ID`: writes the screen of a cause, or with "all" the list of causes. */
enum anyflash_status af_cli_doctor_explain(struct af_cli *cli, const char *id,
                                           struct anyflash_error *err);

/* Prints one remark on stderr, unless --quiet. Its texts must already be scrubbed. */
void af_cli_remark(const struct af_cli *cli, const char *format, ...) AF_PRINTF(2, 3);

/* Remarks on a known weakness of this version of the package, if there is one. */
void af_cli_remark_advisory(const struct af_cli *cli, const char *package, const char *version);

/*
 * Whether stdout is coloured: depends on --color, NO_COLOR, TERM and whether it
 * is a terminal.
 */
bool af_cli_color(const struct af_cli *cli);

/*
 * The options of this run that another command repeats to give the same answer: those that
 * decide, without those that only choose what plan prints. With their values; ends with NULL.
 */
const char *const *af_cli_repeated_options(struct af_cli *cli, enum af_command_id command);

/*
 * "anyflash COMMAND WORDS OPTIONS" for a POSIX shell: a command that the user is told to type
 * next. OPTIONS are those of af_cli_repeated_options(). WORDS may contain options, too; `words`
 * ends with NULL, and may be NULL. Returns arena text.
 */
const char *af_cli_next_command(struct af_cli *cli, enum af_command_id command,
                                const char *const *words);

/*
 * Serialises `json` with keys in insertion order and a final newline; takes
 * ownership of `json`.
 */
enum anyflash_status af_cli_json_take(struct af_cli *cli, json_t *json,
                                      struct anyflash_error *err);

#endif
