/*
 * commands.c: what all commands use: remarks on stderr, colour and JSON on stdout, and the
 * commands that they tell the user to type next.
 */
#include "kit/cli/commands.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kit/answer/plan_answer.h"
#include "kit/catalog/tables.h"
#include "kit/cli/screen.h"

#define NOTE "note: "
#define REMARK_BYTES 4096

void af_cli_remark(const struct af_cli *cli, const char *format, ...)
{
    char text[REMARK_BYTES];
    va_list arguments;
    struct af_text note = {0};
    struct af_screen screen = {&note, af_screen_columns(), false};
    if (af_option_given(&cli->options, AF_OPTION_QUIET))
        return;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (isatty(STDERR_FILENO) == 1)
        af_screen_add(&screen, (int)strlen(NOTE), NOTE, AF_TONE_PLAIN, text);
    if (note.len > 0)
        fputs(af_text_get(&note), stderr);
    else /* whole, where nothing is wrapped */
        fprintf(stderr, NOTE "%s\n", text);
    af_text_release(&note);
}

void af_cli_remark_advisory(const struct af_cli *cli, const char *package, const char *version)
{
    const struct af_advisory *advisory = af_tables_advisory(package, version);
    if (advisory != NULL)
        af_cli_remark(cli, "%s: %s", advisory->id, advisory->detail);
}

bool af_cli_color(const struct af_cli *cli)
{
    const char *when = cli->options.values[AF_OPTION_COLOR];
    if (af_equal(when, "always"))
        return true;
    const char *no_color = getenv("NO_COLOR");
    const char *term = getenv("TERM");
    return !af_equal(when, "never") && (no_color == NULL || no_color[0] == '\0') &&
           !af_equal(term, "dumb") && isatty(STDOUT_FILENO) == 1;
}

enum anyflash_status af_cli_json_take(struct af_cli *cli, json_t *json,
                                      struct anyflash_error *err)
{
    return af_json_write_take(json, &cli->out, err);
}

/* Whether `command` repeats the option. */
static bool is_repeated(const struct af_options *options, size_t id, enum af_command_id command)
{
    const struct af_option_row *row = &af_option_rows[id];
    bool only_prints = row->group == AF_CLI_GROUP_OUTPUT || id == AF_OPTION_WHEEL ||
                       id == AF_OPTION_ALL || id == AF_OPTION_LIMIT;
    /* that of `build` names what it compiles for, perhaps several */
    bool is_target = options->command == AF_COMMAND_BUILD && id == AF_OPTION_ARCH;
    return options->values[id] != NULL && !only_prints && !is_target &&
           (row->commands & AF_ON_PLAN) != 0 && (row->commands & (1u << command)) != 0;
}

/* Adds "--name VALUE" for each value; returns the new number of words. */
static size_t add_option(struct af_cli *cli, const char **words, size_t at, size_t id)
{
    const struct af_options *options = &cli->options;
    const struct af_word_list *list = id == AF_OPTION_MACHINE ? &options->machines
                                      : id == AF_OPTION_GIVEN ? &options->givens
                                                              : NULL;
    const char *name = af_arena_format(&cli->arena, "--%s", af_option_rows[id].name);
    for (size_t i = 0; i < (list != NULL ? list->count : 1); i++) {
        words[at++] = name;
        if (af_option_rows[id].argument != NULL)
            words[at++] = list != NULL ? list->items[i] : options->values[id];
    }
    return at;
}

const char *const *af_cli_repeated_options(struct af_cli *cli, enum af_command_id command)
{
    const struct af_options *options = &cli->options;
    size_t max = 2 * (AF_OPTION_COUNT + options->machines.count + options->givens.count);
    const char **words = af_arena_array(&cli->arena, max + 1, sizeof *words);
    size_t count = 0;
    for (size_t id = 0; id < AF_OPTION_COUNT; id++)
        if (is_repeated(options, id, command))
            count = add_option(cli, words, count, id);
    words[count] = NULL;
    return words;
}

const char *af_cli_next_command(struct af_cli *cli, enum af_command_id command,
                                const char *const *words)
{
    return af_plan_command_line(af_command_rows[command].name, words,
                                af_cli_repeated_options(cli, command), &cli->arena);
}
