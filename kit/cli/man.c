/*
 * man.c: the man page's source out of the tables.
 */
#include "kit/cli/manual.h"

#include <string.h>

/* Text with what troff would take for commands defused. */
static void add_text(struct af_text *out, const char *text)
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
        if (!row->listed)
            continue;
        af_text_format(out, ".SS \"%s %s\"\n", row->name, row->arguments);
        add_text(out, row->doc);
    }
}

static void add_option_commands(struct af_text *out, const struct af_option_row *option)
{
    if (option->commands == AF_ON_ALL)
        return;
    const char *separator = "Commands: ";
    for (size_t i = 0; i < AF_COMMAND_COUNT; i++) {
        if ((option->commands & (1u << i)) == 0 || !af_command_rows[i].listed)
            continue;
        af_text_format(out, "%s%s", separator, af_command_rows[i].name);
        separator = ", ";
    }
    af_text_add(out, ".\n");
}

static void add_option(struct af_text *out, const struct af_option_row *option)
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
    add_text(out, option->help);
    af_text_add(out, ".br\n");
    add_option_commands(out, option);
}

void af_manual_page(struct af_text *out)
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
                "fits, what does not and why, and the steps to take. Nothing is installed or "
                "changed, torch is never imported, and no network is used unless asked.\n"
                "Without a command it is \\fBanyflash doctor\\fR.\n"
                ".SH COMMANDS\n");
    add_commands(out);
    af_text_add(out, ".SH OPTIONS\n");
    for (size_t id = 0; id < AF_OPTION_COUNT; id++)
        if (af_option_rows[id].group != AF_CLI_GROUP_HIDDEN)
            add_option(out, &af_option_rows[id]);
    af_text_add(out, ".SH EXIT STATUS\n"
                     ".TP\n0\nyes, or done\n.TP\n1\nthe answer is no\n"
                     ".TP\n2\nthe command line is wrong\n"
                     ".TP\n3\na file, the system or the network failed\n"
                     ".TP\n4\na bug of this program\n.TP\n130\ninterrupted\n"
                     ".SH ENVIRONMENT\n"
                     ".TP\n.B ANYFLASH_CATALOG\na catalog file to read in place of the "
                     "embedded one\n"
                     ".TP\n.B NO_COLOR\nwhen set, no colour is used\n");
}
