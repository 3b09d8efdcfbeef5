/*
 * next_command.c: which options of this run another command repeats: those that `plan`
 * takes as well, without those that only choose what plan prints.
 */
#include "kit/cli/next_command.h"

#include "kit/answer/plan_answer.h"

struct line {
    const char **words;
    size_t count;
};

static void add(struct line *line, const char *word)
{
    line->words[line->count++] = word;
}

static bool decides(size_t id, enum af_command_id command)
{
    const struct af_option_row *row = &af_option_rows[id];
    bool only_prints = row->group == AF_CLI_GROUP_OUTPUT || id == AF_OPTION_WHEEL ||
                       id == AF_OPTION_ALL || id == AF_OPTION_LIMIT;
    return !only_prints && (row->commands & AF_ON_PLAN) != 0 &&
           (row->commands & (1u << command)) != 0;
}

static void add_option(struct line *line, struct af_arena *arena, size_t id,
                       const char *const *values, size_t count)
{
    const char *name = af_arena_format(arena, "--%s", af_option_rows[id].name);
    for (size_t i = 0; i < count; i++) {
        add(line, name != NULL ? name : "");
        if (af_option_rows[id].argument != NULL)
            add(line, values[i]);
    }
}

/* Those of `build` name what it compiles for, perhaps several. */
static bool is_target(const struct af_options *options, size_t id)
{
    return options->command == AF_COMMAND_BUILD && id == AF_OPTION_ARCH;
}

static void add_options(struct line *line, struct af_cli *cli, enum af_command_id command)
{
    const struct af_options *options = &cli->options;
    for (size_t id = 0; id < AF_OPTION_COUNT; id++) {
        if (options->values[id] == NULL || is_target(options, id) || !decides(id, command))
            continue;
        if (id == AF_OPTION_MACHINE)
            add_option(line, &cli->arena, id, options->machines.items, options->machines.count);
        else if (id == AF_OPTION_GIVEN)
            add_option(line, &cli->arena, id, options->givens.items, options->givens.count);
        else
            add_option(line, &cli->arena, id, &options->values[id], 1);
    }
}

const char *const *af_cli_repeated_options(struct af_cli *cli, enum af_command_id command)
{
    const struct af_options *options = &cli->options;
    size_t max = 2 * (AF_OPTION_COUNT + options->machines.count + options->givens.count);
    struct line line = {af_arena_array(&cli->arena, max + 1, sizeof *line.words), 0};
    if (line.words == NULL)
        return NULL;
    add_options(&line, cli, command);
    line.words[line.count] = NULL;
    return line.words;
}

const char *af_cli_next_command(struct af_cli *cli, enum af_command_id command,
                                const char *const *words)
{
    const char *text = af_plan_command_line(af_command_rows[command].name, words,
                                            af_cli_repeated_options(cli, command), &cli->arena);
    return text != NULL ? text : "";
}
