/*
 * cmd_help.c: what the program says about itself. `anyflash help [COMMAND]`: the
 * overview, one command's help, or the source of the man page, generated from the
 * tables of commands and options. `anyflash version`: also that of the catalog.
 */
#include <stdio.h>
#include <string.h>

#include "kit/cli/command_inputs.h"
#include "kit/cli/screen.h"
#include "kit/fit/fit.h"

#define HELP_INDENT 26
#define EXAMPLE_COLUMN 42

/* A line of help: a command, a file or an environment variable, and what it is for. */
struct entry {
    const char *name;
    const char *meaning;
};

/* A command may have more than one line; the others are indented for the overview. */
static const struct entry examples[] = {
    {"anyflash", "check this machine"},
    {"anyflash plan", "the exact steps"},
    {"anyflash doctor build.log", "why an installation failed"},
    {"anyflash find torch=2.9 python=3.12", "wheels for this torch and Python"},
    {"anyflash plan --given torch=2.8.0+cu128 --given python=3.12 \\\n"
     "                --given gpu=rtx4090",
     "for another machine"},
};

static const struct entry files[] = {
    {"~/.config/anyflash/config.toml", "the publishers whose wheels are considered"},
    {"pyproject.toml", "the same for one project, in [tool.anyflash]"},
    {"~/.local/state/anyflash/",
     "state.db: what was installed and how to undo it, and what proofs found; and the catalog "
     "of \"anyflash update\""},
    {"~/.cache/anyflash/",
     "downloaded wheels, source builds, and the known answers of the Python package"},
    {"SITE-PACKAGES/.anyflash-*", "the files that \"anyflash undo\" puts back"},
};

static const struct entry variables[] = {
    {"ANYFLASH_CACHE", "the folder to use in place of ~/.cache/anyflash"},
    {"ANYFLASH_CATALOG", "a catalog file to use in place of the embedded one"},
    {"ANYFLASH_LIBRARY", "the libanyflash that the Python package loads"},
    {"ANYFLASH_PROVIDER", "the provider that computes every call of the Python package (see "
                          "\"anyflash providers\")"},
    {"ANYFLASH_STATE", "the folder to use in place of ~/.local/state/anyflash"},
    {"ANYFLASH_VLLM", "1: vLLM on a CPU uses anyflash, as if VLLM_PLUGINS named it"},
    {"CUDA_HOME, CUDA_PATH", "the CUDA toolkit, if there are several"},
    {"HTTPS_PROXY, NO_PROXY", "the proxy, and the hosts that are asked without it"},
    {"NO_COLOR", "if it is not empty, no colour is used"},
    {"TMPDIR", "the folder for temporary files, in place of /tmp"},
    {"VIRTUAL_ENV, CONDA_PREFIX", "the Python environment, unless --python names one; without "
                                  "either it is ./.venv, then the "
                                  "python of PATH"},
    {"XDG_CACHE_HOME, XDG_CONFIG_HOME, XDG_STATE_HOME",
     "the folders to use in place of ~/.cache, ~/.config and ~/.local/state"},
};

static void add_option(struct af_screen *screen, enum af_command_id command,
                       enum af_option_id id)
{
    const struct af_option_row *option = &af_option_rows[id];
    char lead[HELP_INDENT + 64];
    char letter[8] = "    ";
    if (option->letter != 0)
        snprintf(letter, sizeof letter, "-%c, ", option->letter);
    snprintf(lead, sizeof lead, "  %s--%s%s%s", letter, option->name,
             option->argument != NULL ? " " : "",
             option->argument != NULL ? option->argument : "");
    if (strlen(lead) + 2 > HELP_INDENT) {
        af_text_format(screen->out, "%s\n", lead);
        lead[0] = '\0';
    }
    af_screen_add(screen, HELP_INDENT, lead, AF_TONE_PLAIN, af_option_help(id, command));
}

static void add_group(struct af_screen *screen, enum af_command_id command,
                      enum af_option_group group, const char *heading)
{
    bool is_first = true;
    /* every command accepts --offline; help lists it where it makes a difference */
    if (group == AF_CLI_GROUP_NETWORK && (AF_ON_NETWORK & (1u << command)) == 0)
        return;
    for (size_t id = 0; id < AF_OPTION_COUNT; id++) {
        const struct af_option_row *option = &af_option_rows[id];
        if (option->group != group || (option->commands & (1u << command)) == 0)
            continue;
        if (is_first)
            af_text_format(screen->out, "\n%s:\n", heading);
        is_first = false;
        add_option(screen, command, (enum af_option_id)id);
    }
}

void af_options_help(enum af_command_id command, struct af_text *out)
{
    struct af_screen screen = {out, AF_HELP_COLUMNS, false};
    const struct af_command_row *row = &af_command_rows[command];
    af_text_format(out, "usage: anyflash %s [OPTION...]%s%s\n\n", row->name,
                   row->arguments[0] != '\0' ? " " : "", row->arguments);
    af_screen_add(&screen, 0, "", AF_TONE_PLAIN, row->doc);
    add_group(&screen, command, AF_CLI_GROUP_OWN, "Options");
    add_group(&screen, command, AF_CLI_GROUP_MACHINE, "The machine and the catalog");
    add_group(&screen, command, AF_CLI_GROUP_NETWORK, "Network");
    add_group(&screen, command, AF_CLI_GROUP_OUTPUT, "Output");
    af_text_format(out, "\nExample:\n  %s\n", row->example);
}

/* Appends text with the characters escaped that troff would read as commands. */
static void add_troff(struct af_text *out, const char *text)
{
    bool at_start = true;
    for (const char *at = text; *at != '\0'; at++) {
        if (at_start && (*at == '.' || *at == '\''))
            af_text_add(out, "\\&");
        at_start = *at == '\n';
        if (*at == '\\')
            af_text_add(out, "\\e");
        else if (*at == '-')
            af_text_add(out, "\\-");
        else if (*at == '~')
            af_text_add(out, "\\(ti");
        else if (at[0] == '\n' && at[1] == '\n')
            af_text_add(out, "\n.PP");
        else
            af_text_add_n(out, at, 1);
    }
    af_text_add(out, "\n");
}

static void add_commands(struct af_text *out)
{
    for (size_t i = 0; i < AF_COMMAND_COUNT; i++) {
        const struct af_command_row *row = &af_command_rows[i];
        af_text_format(out, ".SS \"%s %s\"\n", row->name, row->arguments);
        add_troff(out, row->doc);
        af_text_add(out, ".PP\nExample:\n");
        add_troff(out, row->example);
    }
}

static void add_option_commands(struct af_text *out, const struct af_option_row *option)
{
    if (option->commands == AF_ON_ALL)
        return;
    const char *separator = "Commands: ";
    for (size_t i = 0; i < AF_COMMAND_COUNT; i++) {
        if ((option->commands & (1u << i)) == 0)
            continue;
        af_text_format(out, "%s%s", separator, af_command_rows[i].name);
        separator = ", ";
    }
    af_text_add(out, ".\n");
}

static void add_manual_option(struct af_text *out, const struct af_option_row *option)
{
    af_text_add(out, ".TP\n");
    if (option->letter != 0)
        af_text_format(out, "\\fB\\-%c\\fR, ", option->letter);
    af_text_add(out, "\\fB\\-\\-");
    for (const char *at = option->name; *at != '\0'; at++)
        af_text_add(out, *at == '-' ? "\\-" : (const char[]){*at, '\0'});
    af_text_add(out, "\\fR");
    if (option->argument != NULL)
        af_text_format(out, "=\\fI%s\\fR", option->argument);
    af_text_add(out, "\n");
    add_troff(out, option->help);
    af_text_add(out, ".br\n");
    add_option_commands(out, option);
}

static void add_entries(struct af_text *out, const struct entry *entries, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        af_text_add(out, ".TP\n.B ");
        add_troff(out, entries[i].name);
        add_troff(out, entries[i].meaning);
    }
}

static void add_examples(struct af_text *out)
{
    for (size_t i = 0; i < AF_COUNT(examples); i++) {
        af_text_add(out, ".PP\n");
        add_troff(out, examples[i].meaning);
        af_text_add(out, ".PP\n.RS\n.nf\n");
        add_troff(out, examples[i].name);
        af_text_add(out, ".fi\n.RE\n");
    }
}

static void add_manual(struct af_text *out)
{
    af_text_format(out, ".TH ANYFLASH 1 \"\" \"anyflash %s\" \"User Commands\"\n",
                   anyflash_version_text());
    af_text_add(out,
                ".SH NAME\nanyflash \\- the flash\\-attn that fits this machine, and why\n"
                ".SH SYNOPSIS\n.B anyflash\n[\\fICOMMAND\\fR] [\\fIOPTION\\fR...] "
                "[\\fIWORD\\fR...]\n"
                ".SH DESCRIPTION\n"
                "Reads the facts of this machine and its Python environment from files, "
                "compares them with every published wheel of flash\\-attn, and prints what "
                "fits, what does not and why, and the steps to take. The commands that decide "
                "change nothing, do not import torch, and use no network unless asked.\n"
                "\\fBanyflash\\fR without a command runs \\fBanyflash doctor\\fR.\n"
                ".SH COMMANDS\n");
    add_commands(out);
    af_text_add(out, ".SH OPTIONS\n");
    for (size_t id = 0; id < AF_OPTION_COUNT; id++)
        if (af_option_rows[id].group != AF_CLI_GROUP_HIDDEN)
            add_manual_option(out, &af_option_rows[id]);
    af_text_add(out, ".SH EXIT STATUS\n"
                     ".TP\n0\nyes, or done\n.TP\n1\nthe answer is no\n"
                     ".TP\n2\nthe command line is wrong\n"
                     ".TP\n3\na file, the system or the network failed\n"
                     ".TP\n4\na bug in anyflash\n.TP\n130\ninterrupted\n");
    af_text_add(out, ".SH ENVIRONMENT\n");
    add_entries(out, variables, AF_COUNT(variables));
    af_text_add(out, ".SH FILES\n");
    add_entries(out, files, AF_COUNT(files));
    af_text_add(out, ".SH EXAMPLES\n");
    add_examples(out);
}

static void add_example_line(struct af_text *out, const struct entry *example)
{
    const char *newline = strrchr(example->name, '\n');
    const char *last = newline != NULL ? newline + 1 : example->name;
    int width = EXAMPLE_COLUMN - (newline != NULL ? 0 : 2);
    af_text_format(out, "  %.*s%-*s%s\n", (int)(last - example->name), example->name, width,
                   last, example->meaning);
}

static void add_overview(struct af_text *out)
{
    af_text_add(out, "usage: anyflash [COMMAND] [OPTION...] [WORD...]\n\n"
                     "Finds the flash-attn that fits this machine, and says why.\n\n"
                     "Commands:\n");
    for (size_t i = 0; i < AF_COMMAND_COUNT; i++)
        af_text_format(out, "  %-10s %s\n", af_command_rows[i].name, af_command_rows[i].line);
    af_text_add(out, "\nExamples:\n");
    for (size_t i = 0; i < AF_COUNT(examples); i++)
        add_example_line(out, &examples[i]);
    af_text_add(out,
                "\n"
                "`anyflash help COMMAND` shows the options of a command.\n"
                "Exit codes: 0 success, 1 negative answer, 2 wrong usage, 3 file or system\n"
                "error, 4 a bug in anyflash, 130 interrupted.\n");
}

enum anyflash_status af_cmd_help(struct af_cli *cli, enum af_exit *exit_out,
                                 struct anyflash_error *err)
{
    (void)exit_out;
    const struct af_word_list *words = &cli->options.words;
    if (af_option_given(&cli->options, AF_OPTION_MAN)) {
        add_manual(&cli->out);
        return ANYFLASH_OK;
    }
    if (words->count > 1)
        return af_fail(err, ANYFLASH_E_ARGUMENT, "'help' takes one command, but got '%s'",
                       af_text_scrub(&cli->arena, words->items[1], 120));
    if (words->count == 0) {
        add_overview(&cli->out);
        return ANYFLASH_OK;
    }
    for (size_t i = 0; i < AF_COMMAND_COUNT; i++)
        if (strcmp(words->items[0], af_command_rows[i].name) == 0) {
            af_options_help((enum af_command_id)i, &cli->out);
            return ANYFLASH_OK;
        }
    cli->hint = "`anyflash help` lists the commands";
    return af_fail(err, ANYFLASH_E_ARGUMENT, "unknown command '%s'",
                   af_text_scrub(&cli->arena, words->items[0], 120));
}

enum anyflash_status af_cmd_version(struct af_cli *cli, enum af_exit *exit_out,
                                    struct anyflash_error *err)
{
    (void)exit_out;
    struct af_catalog catalog;
    enum anyflash_status status = af_cli_catalog_load(cli, &catalog, err);
    if (status != ANYFLASH_OK)
        return status;
    if (af_option_given(&cli->options, AF_OPTION_JSON)) {
        json_t *json =
            json_pack("{s:s, s:s, s:o}", "schema", "anyflash-version/1", "version",
                      anyflash_version_text(), "catalog", af_fit_json_catalog(&catalog));
        status = af_cli_json_take(cli, json, err);
    } else if (af_option_given(&cli->options, AF_OPTION_QUIET)) {
        af_text_format(&cli->out, "%s\n", anyflash_version_text());
    } else {
        af_text_format(&cli->out, "anyflash %s\ncatalog %s: %zu wheels, as of %s\n",
                       anyflash_version_text(), catalog.name, catalog.count,
                       catalog.date != NULL ? catalog.date : "an unknown date");
    }
    af_catalog_release(&catalog);
    return status;
}
