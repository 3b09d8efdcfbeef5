/*
 * options.h: the command line as data: which command, which options, which
 * words. The tables are commands.inc and options.inc.
 */
#ifndef AF_KIT_CLI_OPTIONS_H
#define AF_KIT_CLI_OPTIONS_H

#include "engine/base/base.h"
#include "kit/base/memory.h"
#include "kit/base/text.h"

#define AF_COMMAND(id, name, arguments, line, doc, example) AF_COMMAND_##id,
enum af_command_id {
#include "kit/cli/commands.inc"
    AF_COMMAND_COUNT
};
#undef AF_COMMAND

#define AF_COMMAND(id, name, arguments, line, doc, example) AF_ON_##id = 1u << AF_COMMAND_##id,
enum af_command_bit {
#include "kit/cli/commands.inc"
    AF_ON_ALL = (1u << AF_COMMAND_COUNT) - 1,
    AF_ON_DECIDING = AF_ON_DOCTOR | AF_ON_PLAN | AF_ON_CONFIG | AF_ON_FIND | AF_ON_MACHINE,
    AF_ON_NETWORK = AF_ON_DECIDING | AF_ON_INSPECT | AF_ON_INSTALL | AF_ON_BUILD | AF_ON_UPDATE
};
#undef AF_COMMAND

#define AF_OPTION(id, name, letter, argument, commands, group, help) AF_OPTION_##id,
enum af_option_id {
#include "kit/cli/options.inc"
    AF_OPTION_COUNT
};
#undef AF_OPTION

enum af_option_group {
    AF_CLI_GROUP_OWN = 1,
    AF_CLI_GROUP_MACHINE,
    AF_CLI_GROUP_NETWORK,
    AF_CLI_GROUP_OUTPUT,
    AF_CLI_GROUP_HIDDEN
};

struct af_command_row {
    const char *name;
    const char *arguments; /* "[WORD...]", or "" */
    const char *line;
    const char *doc;
    const char *example; /* a command line */
};

struct af_option_row {
    const char *name;
    char letter;          /* 0: none */
    const char *argument; /* NULL: takes none */
    unsigned commands;
    enum af_option_group group;
    const char *help; /* for all commands together; see af_option_help() */
};

/* Static tables, AF_COMMAND_COUNT and AF_OPTION_COUNT rows by id. */
extern const struct af_command_row af_command_rows[];
extern const struct af_option_row af_option_rows[];

/* The values of a repeatable option, or the words that are not options. */
struct af_word_list {
    const char **items;
    size_t count;
};

/* The parsed command line. Texts belong to argv. */
struct af_options {
    enum af_command_id command;
    const char
        *values[AF_OPTION_COUNT]; /* the last value given; "" for a flag; NULL: not given */
    struct af_word_list machines;
    struct af_word_list givens;
    struct af_word_list allowed; /* --allow-content */
    struct af_word_list words;   /* words after the command */
};

/* What the option means for `command`. Static text. */
const char *af_option_help(enum af_option_id id, enum af_command_id command);

/* Whether the option was given. */
bool af_option_given(const struct af_options *options, enum af_option_id id);

/*
 * Parses argv; arrays are allocated in `arena`. Fails with ARGUMENT; then
 * *hint_out (arena text or NULL; hint_out may be NULL) says what the user may
 * have meant.
 */
enum anyflash_status af_options_parse(int argc, char **argv, struct af_arena *arena,
                                      struct af_options *options_out, const char **hint_out,
                                      struct anyflash_error *err);

/*
 * Appends the help of `command` to `out`: usage, what it does, and its options
 * in groups; at most 80 columns.
 */
void af_options_help(enum af_command_id command, struct af_text *out);

#endif
