/*
 * options.c: the tables of options, and argp driven by them. Only checks which
 * options are present; the commands that use an option check its value.
 */
#include "kit/cli/options.h"

#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit/cli/nearest.h"

#define AF_COMMAND(id, name, listed, arguments, line, doc)                                     \
    {#name, listed, arguments, line, doc},
const struct af_command_row af_command_rows[] = {
#include "kit/cli/commands.inc"
};
#undef AF_COMMAND

#define AF_OPTION(id, name, letter, argument, commands, group, help)                           \
    {name, letter, argument, commands, group, help},
const struct af_option_row af_option_rows[] = {
#include "kit/cli/options.inc"
};
#undef AF_OPTION

struct help_row {
    enum af_option_id id;
    enum af_command_id command;
    const char *help;
};

#define AF_OPTION(id, name, letter, argument, commands, group, help)
#define AF_OPTION_HELP(id, command, help) {AF_OPTION_##id, AF_COMMAND_##command, help},
static const struct help_row help_rows[] = {
#include "kit/cli/options.inc"
};
#undef AF_OPTION

/* argp's keys: the letter, or a number above every letter. */
#define KEY_FIRST 1000
/* argp rows: every option, the end. */
#define ARGP_ROWS (AF_OPTION_COUNT + 1)

struct parse {
    struct af_options *options;
    struct af_arena *arena;
    struct anyflash_error *err;
    const char *hint;
    bool has_command;
    int stopped_at; /* argv index after the word that argp rejected */
    enum anyflash_status status;
};

const char *af_option_help(enum af_option_id id, enum af_command_id command)
{
    for (size_t i = 0; i < AF_COUNT(help_rows); i++)
        if (help_rows[i].id == id && help_rows[i].command == command)
            return help_rows[i].help;
    return af_option_rows[id].help;
}

bool af_option_given(const struct af_options *options, enum af_option_id id)
{
    return options->values[id] != NULL;
}

static int option_key(size_t id)
{
    return af_option_rows[id].letter != 0 ? af_option_rows[id].letter : KEY_FIRST + (int)id;
}

static void argp_row(struct argp_option *row, size_t id)
{
    const struct af_option_row *option = &af_option_rows[id];
    row->name = option->name;
    row->key = option_key(id);
    row->arg = option->argument;
    row->flags = option->group == AF_CLI_GROUP_HIDDEN ? OPTION_HIDDEN : 0;
    row->doc = option->help;
    row->group = (int)option->group;
}

static const char *quoted(struct parse *parse, const char *word)
{
    const char *text = af_text_scrub(parse->arena, word, 120);
    return text != NULL ? text : "?";
}

static bool take_command(struct parse *parse, const char *word)
{
    const char *names[AF_COMMAND_COUNT];
    for (size_t i = 0; i < AF_COMMAND_COUNT; i++) {
        names[i] = af_command_rows[i].name;
        if (strcmp(word, names[i]) == 0) {
            parse->options->command = (enum af_command_id)i;
            parse->has_command = true;
            return true;
        }
    }
    parse->status =
        af_fail(parse->err, ANYFLASH_E_ARGUMENT, "unknown command '%s'", quoted(parse, word));
    const char *near = af_nearest(word, names, AF_COMMAND_COUNT);
    parse->hint = near != NULL
                      ? af_arena_format(parse->arena, "did you mean `anyflash %s`?", near)
                      : "`anyflash help` lists the commands";
    return false;
}

static void take_option(struct parse *parse, size_t id, const char *argument)
{
    struct af_options *options = parse->options;
    options->values[id] = argument != NULL ? argument : "";
    struct af_word_list *list = id == AF_OPTION_MACHINE         ? &options->machines
                                : id == AF_OPTION_GIVEN         ? &options->givens
                                : id == AF_OPTION_ALLOW_CONTENT ? &options->allowed
                                                                : NULL;
    if (list != NULL)
        list->items[list->count++] = argument;
}

static error_t take(int key, char *argument, struct argp_state *state)
{
    struct parse *parse = state->input;
    if (key == ARGP_KEY_ARG) {
        if (!parse->has_command)
            return take_command(parse, argument) ? 0 : EINVAL;
        parse->options->words.items[parse->options->words.count++] = argument;
        return 0;
    }
    if (key == ARGP_KEY_ERROR)
        parse->stopped_at = state->next;
    for (size_t id = 0; id < AF_OPTION_COUNT; id++) {
        if (key == option_key(id)) {
            take_option(parse, id, argument);
            return 0;
        }
    }
    return ARGP_ERR_UNKNOWN;
}

/*
 * Counts the options that start with the first `len` bytes of `word`; an exact
 * match is the only one.
 */
static size_t named_options(const char *word, size_t len, size_t *last_out)
{
    size_t count = 0;
    for (size_t id = 0; id < AF_OPTION_COUNT; id++) {
        const char *name = af_option_rows[id].name;
        if (strncmp(name, word, len) != 0)
            continue;
        *last_out = id;
        if (name[len] == '\0')
            return 1;
        count++;
    }
    return count;
}

static enum anyflash_status unknown_option(struct parse *parse, const char *option)
{
    const struct af_command_row *command = &af_command_rows[parse->options->command];
    if (parse->hint == NULL)
        parse->hint =
            parse->has_command
                ? af_arena_format(parse->arena, "`anyflash help %s` lists its options",
                                  command->name)
                : "`anyflash help COMMAND` lists the options of a command";
    return af_fail(parse->err, ANYFLASH_E_ARGUMENT, "unknown option '%s'",
                   quoted(parse, option));
}

/* `word`: what follows "--". */
static enum anyflash_status unknown_long(struct parse *parse, const char *word, size_t len)
{
    const char *names[AF_OPTION_COUNT];
    char typed[32];
    for (size_t id = 0; id < AF_OPTION_COUNT; id++)
        names[id] = af_option_rows[id].name;
    snprintf(typed, sizeof typed, "%.*s", (int)(len < sizeof typed ? len : sizeof typed - 1),
             word);
    const char *near = af_nearest(typed, names, AF_OPTION_COUNT);
    if (near != NULL)
        parse->hint = af_arena_format(parse->arena, "did you mean '--%s'?", near);
    return unknown_option(parse, word - strlen("--"));
}

/* "did you mean '--official' or '--offline'?" */
static const char *candidates(const struct parse *parse, const char *word, size_t len)
{
    struct af_text text = {0};
    size_t count = 0;
    for (size_t id = 0; id < AF_OPTION_COUNT; id++) {
        const struct af_option_row *option = &af_option_rows[id];
        if (strncmp(option->name, word, len) != 0 || option->group == AF_CLI_GROUP_HIDDEN)
            continue;
        if (parse->has_command && (option->commands & (1u << parse->options->command)) == 0)
            continue;
        af_text_format(&text, "%s'--%s'", count++ == 0 ? "did you mean " : " or ",
                       option->name);
    }
    const char *hint = text.failed || count == 0
                           ? NULL
                           : af_arena_format(parse->arena, "%s?", af_text_get(&text));
    af_text_release(&text);
    return hint;
}

/* Explains what is wrong with "--word", or returns OK. `is_last`: nothing follows it. */
static enum anyflash_status explain_long(struct parse *parse, const char *word, bool is_last)
{
    size_t len = strcspn(word, "=");
    size_t id = 0;
    size_t count = named_options(word, len, &id);
    if (count == 0)
        return unknown_long(parse, word, len);
    const struct af_option_row *option = &af_option_rows[id];
    if (count > 1) {
        parse->hint = candidates(parse, word, len);
        return af_fail(parse->err, ANYFLASH_E_ARGUMENT, "'--%s' is ambiguous",
                       quoted(parse, word));
    }
    if (option->argument == NULL && word[len] == '=')
        return af_fail(parse->err, ANYFLASH_E_ARGUMENT, "option '--%s' takes no value",
                       option->name);
    if (option->argument != NULL && word[len] != '=' && is_last)
        return af_fail(parse->err, ANYFLASH_E_ARGUMENT, "option '--%s' needs a value: %s",
                       option->name, option->argument);
    return ANYFLASH_OK;
}

/* Explains what is wrong with the letters of "-word", or returns OK. */
static enum anyflash_status explain_letters(struct parse *parse, const char *letters,
                                            bool is_last)
{
    for (const char *at = letters; *at != '\0'; at++) {
        const struct af_option_row *option = NULL;
        for (size_t id = 0; id < AF_OPTION_COUNT; id++)
            if (af_option_rows[id].letter == *at)
                option = &af_option_rows[id];
        if (option == NULL)
            return unknown_option(parse, (const char[]){'-', *at, '\0'});
        if (option->argument == NULL)
            continue;
        if (at[1] == '\0' && is_last)
            return af_fail(parse->err, ANYFLASH_E_ARGUMENT, "option '-%c' needs a value: %s",
                           option->letter, option->argument);
        break;
    }
    return ANYFLASH_OK;
}

static enum anyflash_status explain_word(struct parse *parse, const char *word, bool is_last)
{
    if (af_starts_with(word, "--"))
        return explain_long(parse, word + 2, is_last);
    if (word[0] == '-')
        return explain_letters(parse, word + 1, is_last);
    return ANYFLASH_OK;
}

/* argp only says where it stopped: the bad word is at that place or just before it. */
static enum anyflash_status explain(struct parse *parse, int argc, char **argv)
{
    int at = parse->stopped_at;
    enum anyflash_status status = ANYFLASH_OK;
    if (at > 1 && at <= argc)
        status = explain_word(parse, argv[at - 1], at == argc);
    if (status == ANYFLASH_OK && at < argc)
        status = explain_word(parse, argv[at], at + 1 == argc);
    if (status == ANYFLASH_OK)
        status = af_fail(parse->err, ANYFLASH_E_ARGUMENT, "cannot parse the options");
    return status;
}

/* Every option must belong to the command, and words are allowed only if it takes some. */
static enum anyflash_status check_command(struct parse *parse)
{
    const struct af_options *options = parse->options;
    const struct af_command_row *command = &af_command_rows[options->command];
    for (size_t id = 0; id < AF_OPTION_COUNT; id++) {
        if (options->values[id] == NULL ||
            (af_option_rows[id].commands & (1u << options->command)) != 0)
            continue;
        parse->hint = af_arena_format(parse->arena, "`anyflash help %s` lists its options",
                                      command->name);
        return af_fail(parse->err, ANYFLASH_E_ARGUMENT, "unknown option '--%s' for '%s'",
                       af_option_rows[id].name, command->name);
    }
    if (command->arguments[0] == '\0' && options->words.count > 0)
        return af_fail(parse->err, ANYFLASH_E_ARGUMENT, "'%s' takes no arguments, but got '%s'",
                       command->name, quoted(parse, options->words.items[0]));
    return ANYFLASH_OK;
}

static bool make_lists(struct af_options *options, int argc, struct af_arena *arena)
{
    size_t count = argc > 0 ? (size_t)argc : 1;
    options->machines.items = af_arena_array(arena, count, sizeof(char *));
    options->givens.items = af_arena_array(arena, count, sizeof(char *));
    options->allowed.items = af_arena_array(arena, count, sizeof(char *));
    options->words.items = af_arena_array(arena, count, sizeof(char *));
    return !arena->failed;
}

enum anyflash_status af_options_parse(int argc, char **argv, struct af_arena *arena,
                                      struct af_options *options_out, const char **hint_out,
                                      struct anyflash_error *err)
{
    struct argp_option rows[ARGP_ROWS] = {{0}};
    struct af_options options = {.command = AF_COMMAND_DOCTOR};
    struct parse parse = {.options = &options, .arena = arena, .err = err};
    for (size_t id = 0; id < AF_OPTION_COUNT; id++)
        argp_row(&rows[id], id);
    const struct argp argp = {.options = rows, .parser = take};
    if (!make_lists(&options, argc, arena))
        return af_fail_memory(err);
    /* `--version` without a value is a command; with a value it is an option of plan. */
    if (argc > 1 && strcmp(argv[1], "--version") == 0 && (argc == 2 || argv[2][0] == '-')) {
        options.command = AF_COMMAND_VERSION;
        parse.has_command = true;
        argc--;
        argv++;
    }
    error_t failed = 0;
    if (argc > 1)
        failed = argp_parse(&argp, argc, argv,
                            ARGP_NO_ERRS | ARGP_NO_EXIT | ARGP_NO_HELP | ARGP_IN_ORDER, NULL,
                            &parse);
    if (failed == ENOMEM || arena->failed)
        parse.status = af_fail_memory(err);
    else if (failed != 0 && parse.status == ANYFLASH_OK)
        parse.status = explain(&parse, argc, argv);
    if (parse.status == ANYFLASH_OK)
        parse.status = check_command(&parse);
    if (hint_out != NULL)
        *hint_out = parse.hint;
    if (parse.status == ANYFLASH_OK)
        *options_out = options;
    return parse.status;
}
