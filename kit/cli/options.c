/*
 * options.c: the tables of options, and parsing the command line by them: "--name=value",
 * "--name value", "-nvalue", unambiguous starts of names, and "--", after which every word is
 * an argument. Only checks which options are present; the commands that use an option check its
 * value.
 */
#include "kit/cli/options.h"

#include <stdio.h>
#include <string.h>

#include "kit/base/text.h"

#define AF_COMMAND(id, name, arguments, line, doc, example)                                    \
    {#name, arguments, line, doc, example},
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

struct parse {
    struct af_options *options;
    struct af_arena *arena;
    struct anyflash_error *err;
    const char *hint;
    bool has_command;
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

static const char *quoted(struct parse *parse, const char *word)
{
    return af_text_scrub(parse->arena, word, 120);
}

/* Words of other programs for what a command here does. */
static const char *other_word(const char *word)
{
    static const struct {
        const char *word;
        const char *hint;
    } rows[] = {
        {"search", "`anyflash find WORD...` searches the wheels"},
        {"list", "`anyflash find` lists the wheels; `anyflash doctor` says what is installed"},
        {"explain", "`anyflash doctor --explain CAUSE` explains a cause"},
        {"upgrade", "`anyflash install` installs the wheel that fits; `anyflash update` "
                    "downloads a newer catalog"},
        {"uninstall", "did you mean `anyflash undo`?"},
        {"remove", "did you mean `anyflash undo`?"},
    };
    for (size_t i = 0; i < AF_COUNT(rows); i++)
        if (strcmp(rows[i].word, word) == 0)
            return rows[i].hint;
    return NULL;
}

static enum anyflash_status take_command(struct parse *parse, const char *word)
{
    const char *names[AF_COMMAND_COUNT];
    for (size_t i = 0; i < AF_COMMAND_COUNT; i++) {
        names[i] = af_command_rows[i].name;
        if (strcmp(word, names[i]) == 0) {
            parse->options->command = (enum af_command_id)i;
            parse->has_command = true;
            return ANYFLASH_OK;
        }
    }
    const char *near = af_nearest(word, names, AF_COMMAND_COUNT);
    parse->hint = other_word(word);
    if (parse->hint == NULL)
        parse->hint = near != NULL
                          ? af_arena_format(parse->arena, "did you mean `anyflash %s`?", near)
                          : "`anyflash help` lists the commands";
    return af_fail(parse->err, ANYFLASH_E_ARGUMENT, "unknown command '%s'",
                   quoted(parse, word));
}

static enum anyflash_status take_word(struct parse *parse, const char *word)
{
    if (!parse->has_command)
        return take_command(parse, word);
    parse->options->words.items[parse->options->words.count++] = word;
    return ANYFLASH_OK;
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
    if (parse->has_command && parse->options->command == AF_COMMAND_RUN &&
        parse->options->words.count > 0)
        parse->hint = "write `--` before the installer: anyflash run -- pip install ...";
    else if (parse->hint == NULL)
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
    const char *hint =
        count == 0 ? NULL : af_arena_format(parse->arena, "%s?", af_text_get(&text));
    af_text_release(&text);
    return hint;
}

/* "--name", "--name=value", or "--name" with its value in `next` (NULL: no word follows). */
static enum anyflash_status take_long(struct parse *parse, const char *name, const char *next,
                                      bool *took_next_out)
{
    size_t len = strcspn(name, "=");
    const char *value = name[len] == '=' ? name + len + 1 : NULL;
    size_t id = 0;
    size_t count = named_options(name, len, &id);
    if (count == 0)
        return unknown_long(parse, name, len);
    const struct af_option_row *option = &af_option_rows[id];
    if (count > 1) {
        parse->hint = candidates(parse, name, len);
        return af_fail(parse->err, ANYFLASH_E_ARGUMENT, "'--%s' is ambiguous",
                       quoted(parse, name));
    }
    if (option->argument == NULL && value != NULL)
        return af_fail(parse->err, ANYFLASH_E_ARGUMENT, "option '--%s' takes no value",
                       option->name);
    *took_next_out = option->argument != NULL && value == NULL;
    if (*took_next_out)
        value = next;
    if (option->argument != NULL && value == NULL)
        return af_fail(parse->err, ANYFLASH_E_ARGUMENT, "option '--%s' needs a value: %s",
                       option->name, option->argument);
    take_option(parse, id, value);
    return ANYFLASH_OK;
}

/* The letters of "-vv" or "-ovalue"; or of "-o" with its value in `next`, as in take_long(). */
static enum anyflash_status take_letters(struct parse *parse, const char *letters,
                                         const char *next, bool *took_next_out)
{
    for (const char *at = letters; *at != '\0'; at++) {
        size_t id = 0;
        while (id < AF_OPTION_COUNT && af_option_rows[id].letter != *at)
            id++;
        if (id == AF_OPTION_COUNT)
            return unknown_option(parse, (const char[]){'-', *at, '\0'});
        const struct af_option_row *option = &af_option_rows[id];
        if (option->argument == NULL) {
            take_option(parse, id, NULL);
            continue;
        }
        *took_next_out = at[1] == '\0';
        const char *value = *took_next_out ? next : at + 1;
        if (value == NULL)
            return af_fail(parse->err, ANYFLASH_E_ARGUMENT, "option '-%c' needs a value: %s",
                           option->letter, option->argument);
        take_option(parse, id, value);
        break;
    }
    return ANYFLASH_OK;
}

static enum anyflash_status take_all(struct parse *parse, int argc, char **argv)
{
    bool words_only = false;
    enum anyflash_status status = ANYFLASH_OK;
    for (int i = 1; i < argc && status == ANYFLASH_OK; i++) {
        const char *word = argv[i];
        const char *next = i + 1 < argc ? argv[i + 1] : NULL;
        bool took_next = false;
        if (words_only || word[0] != '-' || word[1] == '\0')
            status = take_word(parse, word);
        else if (strcmp(word, "--") == 0)
            words_only = true;
        else if (word[1] == '-')
            status = take_long(parse, word + 2, next, &took_next);
        else
            status = take_letters(parse, word + 1, next, &took_next);
        i += took_next;
    }
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
    if (command->arguments[0] == '\0' && options->words.count > 0) {
        const char *word = options->words.items[0];
        bool fact = (af_option_rows[AF_OPTION_GIVEN].commands & (1u << options->command)) != 0;
        if (fact && strchr(word, '=') != NULL)
            parse->hint = af_arena_format(parse->arena, "to state a fact: `--given %s`",
                                          quoted(parse, word));
        return af_fail(parse->err, ANYFLASH_E_ARGUMENT, "'%s' takes no arguments, but got '%s'",
                       command->name, quoted(parse, word));
    }
    return ANYFLASH_OK;
}

static void make_lists(struct af_options *options, int argc, struct af_arena *arena)
{
    size_t count = argc > 0 ? (size_t)argc : 1;
    options->machines.items = af_arena_array(arena, count, sizeof(char *));
    options->givens.items = af_arena_array(arena, count, sizeof(char *));
    options->allowed.items = af_arena_array(arena, count, sizeof(char *));
    options->words.items = af_arena_array(arena, count, sizeof(char *));
}

enum anyflash_status af_options_parse(int argc, char **argv, struct af_arena *arena,
                                      struct af_options *options_out, const char **hint_out,
                                      struct anyflash_error *err)
{
    struct af_options options = {.command = AF_COMMAND_DOCTOR};
    struct parse parse = {.options = &options, .arena = arena, .err = err};
    make_lists(&options, argc, arena);
    /* `--version` or -V without a value is a command; with one it is an option of plan. */
    if (argc > 1 && (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) &&
        (argc == 2 || argv[2][0] == '-')) {
        options.command = AF_COMMAND_VERSION;
        parse.has_command = true;
        argc--;
        argv++;
    }
    enum anyflash_status status = take_all(&parse, argc, argv);
    if (status == ANYFLASH_OK)
        status = check_command(&parse);
    if (hint_out != NULL)
        *hint_out = parse.hint;
    if (status == ANYFLASH_OK)
        *options_out = options;
    return status;
}
