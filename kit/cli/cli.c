/*
 * cli.c: finds the command, runs it, writes stdout once, and turns an error
 * into a sentence on stderr and an exit code. Called by main. Also what commands use:
 * remarks, and the commands that they tell the user to type next.
 */
#include "kit/cli/cli.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kit/answer/plan_answer.h"
#include "kit/base/json.h"
#include "kit/catalog/tables.h"
#include "kit/cli/commands.h"
#include "kit/cli/environment_change.h"
#include "kit/cli/screen.h"
#include "kit/system/progress.h"

#define NOTE "note: "
#define REMARK_BYTES 4096

#define AF_COMMAND(id, name, arguments, line, doc, example) af_cmd_##name,
static enum anyflash_status (*const command_functions[])(struct af_cli *, enum af_exit *,
                                                         struct anyflash_error *) = {
#include "kit/cli/commands.inc"
};
#undef AF_COMMAND

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

/* ---- the commands to type next ---- */

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

/* ---- the run ---- */

static enum anyflash_status write_out(const struct af_text *out, struct anyflash_error *err)
{
    struct pollfd room = {.fd = STDOUT_FILENO, .events = POLLOUT};
    for (size_t done = 0; done < out->len;) {
        ssize_t got = write(STDOUT_FILENO, out->data + done, out->len - done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && errno == EAGAIN && poll(&room, 1, -1) > 0)
            continue; /* a full pipe that another program made non-blocking */
        if (got < 0)
            return af_fail(err, ANYFLASH_E_IO, "cannot write to standard output: %s",
                           strerror(errno));
        done += (size_t)got;
    }
    return ANYFLASH_OK;
}

static enum af_exit exit_of(enum anyflash_status status)
{
    switch (status) {
    case ANYFLASH_OK:
        return AF_EXIT_YES;
    case ANYFLASH_E_ARGUMENT:
        return AF_EXIT_USAGE;
    case ANYFLASH_E_INTERNAL:
        return AF_EXIT_BUG;
    default:
        return AF_EXIT_WORLD;
    }
}

static enum anyflash_status check_values(const struct af_options *options,
                                         struct anyflash_error *err)
{
    const char *when = options->values[AF_OPTION_COLOR];
    if (when != NULL && !af_equal(when, "auto") && !af_equal(when, "always") &&
        !af_equal(when, "never"))
        return af_fail(err, ANYFLASH_E_ARGUMENT, "--color takes auto, always or never");
    return ANYFLASH_OK;
}

/*
 * A killed run may have left an environment half changed. Commands that change
 * environments repair it first; those that only read environments report it.
 */
static void handle_unfinished(struct af_cli *cli)
{
    unsigned command = 1u << cli->options.command;
    bool only_looks = af_option_given(&cli->options, AF_OPTION_DRY_RUN) ||
                      af_option_given(&cli->options, AF_OPTION_CHECK) ||
                      af_option_given(&cli->options, AF_OPTION_LIST);
    if (af_option_given(&cli->options, AF_OPTION_HELP) ||
        af_option_given(&cli->options, AF_OPTION_RECOVER))
        return;
    if ((command & (AF_ON_INSTALL | AF_ON_RUN | AF_ON_UNDO | AF_ON_BUILD)) != 0 && !only_looks)
        af_cli_recover(cli);
    else if ((command & (AF_ON_DECIDING | AF_ON_INSPECT | AF_ON_VERIFY | AF_ON_INSTALL |
                         AF_ON_UNDO | AF_ON_BUILD)) != 0)
        af_cli_warn_unfinished(cli);
}

/* `anyflash --help` alone prints the overview, not the default command's options. */
static bool asks_for_overview(const struct af_cli *cli, int argc, char **argv)
{
    bool is_named = cli->options.command != AF_COMMAND_DOCTOR;
    for (int i = 1; i < argc && !is_named; i++)
        is_named = strcmp(argv[i], "doctor") == 0;
    return !is_named;
}

static enum anyflash_status run(struct af_cli *cli, int argc, char **argv,
                                enum af_exit *exit_out, struct anyflash_error *err)
{
    enum anyflash_status status =
        af_options_parse(argc, argv, &cli->arena, &cli->options, &cli->hint, err);
    if (status == ANYFLASH_OK)
        status = check_values(&cli->options, err);
    if (status != ANYFLASH_OK)
        return status;
    handle_unfinished(cli);
    if (af_option_given(&cli->options, AF_OPTION_HELP) && asks_for_overview(cli, argc, argv))
        status = af_cmd_help(cli, exit_out, err);
    else if (af_option_given(&cli->options, AF_OPTION_HELP))
        af_options_help(cli->options.command, &cli->out);
    else
        status = command_functions[cli->options.command](cli, exit_out, err);
    if (status == ANYFLASH_OK)
        status = write_out(&cli->out, err);
    return status;
}

int af_cli_main(int argc, char **argv)
{
    struct af_cli cli = {0};
    struct anyflash_error err = {0};
    enum af_exit code = AF_EXIT_YES;
    af_json_start();
    af_arena_init(&cli.arena);
    enum anyflash_status status = run(&cli, argc, argv, &code, &err);
    if (status != ANYFLASH_OK) {
        code = af_interrupted() ? AF_EXIT_INTERRUPTED : exit_of(status);
        fprintf(stderr, "error: %s\n", err.message);
        if (cli.hint != NULL)
            fprintf(stderr, "hint: %s\n", cli.hint);
    }
    af_text_release(&cli.out);
    af_arena_release(&cli.arena);
    return (int)code;
}
