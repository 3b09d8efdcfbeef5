/*
 * cmd_completion.c: `anyflash completion SHELL`: scripts for bash, zsh and
 * fish, generated from the tables of commands and options. They complete
 * commands first, then the options of the command on the line.
 */
#include <string.h>

#include "kit/cli/commands.h"

/* Values of options that have a closed set; NULL: any value; "FILE": a path. */
static const char *option_values(size_t id)
{
    switch (id) {
    case AF_OPTION_PREFER:
        return "wheel torch-kernels torch-change build engine";
    case AF_OPTION_COLOR:
        return "auto always never";
    case AF_OPTION_ALIGN:
        return "bottom-right top-left";
    case AF_OPTION_DTYPE:
        return "bf16 f16";
    case AF_OPTION_LAYOUT:
        return "bshd bhsd";
    case AF_OPTION_SOURCE:
        return "auto path url";
    case AF_OPTION_TOOLKIT:
        return "auto system index";
    case AF_OPTION_FORMAT:
        return "text json github slurm";
    case AF_OPTION_CHART:
    case AF_OPTION_FROM:
    case AF_OPTION_LSE:
    case AF_OPTION_MACHINE:
    case AF_OPTION_OUTPUT:
    case AF_OPTION_PEERS:
    case AF_OPTION_PROJECT:
    case AF_OPTION_CATALOG:
    case AF_OPTION_PYTHON:
        return "FILE";
    default:
        return NULL;
    }
}

static void add_command_names(struct af_text *out, const char *separator)
{
    for (size_t i = 0; i < AF_COMMAND_COUNT; i++)
        if (af_command_rows[i].listed)
            af_text_format(out, "%s%s", i > 0 ? separator : "", af_command_rows[i].name);
}

static bool option_belongs(size_t id, size_t command)
{
    const struct af_option_row *option = &af_option_rows[id];
    return option->group != AF_CLI_GROUP_HIDDEN && (option->commands & (1u << command)) != 0;
}

static void add_bash_values(struct af_text *out)
{
    for (size_t id = 0; id < AF_OPTION_COUNT; id++) {
        const char *values = option_values(id);
        if (values == NULL)
            continue;
        if (af_equal(values, "FILE"))
            af_text_format(out, "    --%s) compopt -o default; COMPREPLY=(); return ;;\n",
                           af_option_rows[id].name);
        else
            af_text_format(out,
                           "    --%s) COMPREPLY=($(compgen -W '%s' -- \"$word\")); return ;;\n",
                           af_option_rows[id].name, values);
    }
}

static void add_bash(struct af_text *out)
{
    af_text_add(out,
                "# bash completion for anyflash\n"
                "_anyflash() {\n"
                "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}\n"
                "  local command=doctor each\n"
                "  for each in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
                "    case $each in ");
    add_command_names(out, "|");
    af_text_add(out, ") command=$each; break ;; esac\n"
                     "  done\n"
                     "  if [[ $before == '=' ]]; then before=${COMP_WORDS[COMP_CWORD-2]}; fi\n"
                     "  if [[ $word == '=' ]]; then word=; fi\n"
                     "  case $before in\n");
    add_bash_values(out);
    af_text_add(out, "  esac\n  local options=\n  case $command in\n");
    for (size_t i = 0; i < AF_COMMAND_COUNT; i++) {
        if (!af_command_rows[i].listed)
            continue;
        af_text_format(out, "    %s) options='", af_command_rows[i].name);
        const char *separator = "";
        for (size_t id = 0; id < AF_OPTION_COUNT; id++) {
            if (!option_belongs(id, i))
                continue;
            af_text_format(out, "%s--%s", separator, af_option_rows[id].name);
            separator = " ";
        }
        af_text_add(out, "' ;;\n");
    }
    af_text_add(out, "  esac\n"
                     "  if [[ $word == -* ]]; then\n"
                     "    COMPREPLY=($(compgen -W \"$options\" -- \"$word\"))\n"
                     "  elif [[ $COMP_CWORD == 1 || $command == help ]]; then\n"
                     "    COMPREPLY=($(compgen -W '");
    add_command_names(out, " ");
    af_text_add(out, "' -- \"$word\"))\n  fi\n}\ncomplete -F _anyflash anyflash\n");
}

/* Escapes `text` for the single-quoted descriptions of zsh and fish. */
static void add_description(struct af_text *out, const char *text)
{
    for (const char *at = text; *at != '\0'; at++)
        if (strchr("'[]:\\$`", *at) == NULL)
            af_text_add_n(out, at, 1);
}

static void add_zsh_option(struct af_text *out, size_t command, size_t id)
{
    const struct af_option_row *option = &af_option_rows[id];
    const char *values = option_values(id);
    af_text_format(out, "      '--%s%s[", option->name, option->argument != NULL ? "=" : "");
    add_description(out, af_option_help((enum af_option_id)id, (enum af_command_id)command));
    af_text_add(out, "]");
    if (option->argument != NULL)
        af_text_format(out, ":%s:", option->argument);
    if (af_equal(values, "FILE"))
        af_text_add(out, "_files");
    else if (values != NULL)
        af_text_format(out, "(%s)", values);
    af_text_add(out, "'\n");
}

static void add_zsh(struct af_text *out)
{
    af_text_add(out, "#compdef anyflash\n"
                     "_anyflash() {\n"
                     "  local command=doctor each\n"
                     "  local -a commands options\n"
                     "  commands=(\n");
    for (size_t i = 0; i < AF_COMMAND_COUNT; i++) {
        if (!af_command_rows[i].listed)
            continue;
        af_text_format(out, "    '%s:", af_command_rows[i].name);
        add_description(out, af_command_rows[i].line);
        af_text_add(out, "'\n");
    }
    af_text_add(out, "  )\n  for each in ${words[2,CURRENT-1]}; do\n    case $each in (");
    add_command_names(out, "|");
    af_text_add(out, ") command=$each; break ;; esac\n  done\n  case $command in\n");
    for (size_t i = 0; i < AF_COMMAND_COUNT; i++) {
        if (!af_command_rows[i].listed)
            continue;
        af_text_format(out, "    %s) options=(\n", af_command_rows[i].name);
        for (size_t id = 0; id < AF_OPTION_COUNT; id++)
            if (option_belongs(id, i))
                add_zsh_option(out, i, id);
        af_text_add(out, "    ) ;;\n");
    }
    af_text_add(out,
                "  esac\n"
                "  if (( CURRENT == 2 )) && [[ $words[2] != -* ]] || [[ $command == help ]]; "
                "then\n"
                "    _describe command commands\n"
                "  else\n"
                "    _arguments \"${options[@]}\" '*::word:'\n"
                "  fi\n}\n"
                "if [[ $funcstack[1] == _anyflash ]]; then _anyflash \"$@\"; "
                "else compdef _anyflash anyflash; fi\n");
}

static void add_fish_option(struct af_text *out, size_t id)
{
    const struct af_option_row *option = &af_option_rows[id];
    const char *values = option_values(id);
    af_text_add(out, "complete -c anyflash");
    if (option->commands != AF_ON_ALL) {
        const char *no_command =
            (option->commands & AF_ON_DOCTOR) != 0 ? "__fish_use_subcommand; or " : "";
        af_text_format(out, " -n '%s__fish_seen_subcommand_from", no_command);
        for (size_t i = 0; i < AF_COMMAND_COUNT; i++)
            if (option_belongs(id, i))
                af_text_format(out, " %s", af_command_rows[i].name);
        af_text_add(out, "'");
    }
    af_text_format(out, " -l %s", option->name);
    if (option->letter != 0)
        af_text_format(out, " -s %c", option->letter);
    if (option->argument != NULL)
        af_text_add(out, af_equal(values, "FILE") ? " -r -F" : " -x");
    if (values != NULL && !af_equal(values, "FILE"))
        af_text_format(out, " -a '%s'", values);
    af_text_add(out, " -d '");
    add_description(out, option->help);
    af_text_add(out, "'\n");
}

static void add_fish(struct af_text *out)
{
    af_text_add(out, "# fish completion for anyflash\ncomplete -c anyflash -f\n");
    for (size_t i = 0; i < AF_COMMAND_COUNT; i++) {
        if (!af_command_rows[i].listed)
            continue;
        af_text_format(out,
                       "complete -c anyflash -n '__fish_use_subcommand; or "
                       "__fish_seen_subcommand_from help' -a %s -d '",
                       af_command_rows[i].name);
        add_description(out, af_command_rows[i].line);
        af_text_add(out, "'\n");
    }
    for (size_t id = 0; id < AF_OPTION_COUNT; id++)
        if (af_option_rows[id].group != AF_CLI_GROUP_HIDDEN)
            add_fish_option(out, id);
}

static bool add_script(struct af_text *out, const char *shell)
{
    if (af_equal(shell, "bash"))
        add_bash(out);
    else if (af_equal(shell, "zsh"))
        add_zsh(out);
    else if (af_equal(shell, "fish"))
        add_fish(out);
    else
        return false;
    return true;
}

enum anyflash_status af_cmd_completion(struct af_cli *cli, enum af_exit *exit_out,
                                       struct anyflash_error *err)
{
    (void)exit_out;
    const struct af_word_list *words = &cli->options.words;
    if (words->count != 1 || !add_script(&cli->out, words->items[0]))
        return af_fail(err, ANYFLASH_E_ARGUMENT, "completion takes bash, zsh or fish");
    return af_cli_finish(cli, err);
}
