/*
 * help.c: one command's help out of the tables, within 80 columns.
 */
#include "kit/cli/options.h"
#include "kit/cli/page.h"

#include <stdio.h>
#include <string.h>

#define HELP_INDENT 26

static void add_option(struct af_page *page, const struct af_option_row *option)
{
    char lead[HELP_INDENT + 64];
    char letter[8] = "    ";
    if (option->letter != 0)
        snprintf(letter, sizeof letter, "-%c, ", option->letter);
    snprintf(lead, sizeof lead, "  %s--%s%s%s", letter, option->name,
             option->argument != NULL ? " " : "",
             option->argument != NULL ? option->argument : "");
    if (strlen(lead) + 2 > HELP_INDENT) {
        af_text_format(page->out, "%s\n", lead);
        lead[0] = '\0';
    }
    af_page_add(page, HELP_INDENT, lead, AF_TONE_PLAIN, option->help);
}

static void add_group(struct af_page *page, enum af_command_id command,
                      enum af_option_group group, const char *heading)
{
    bool is_first = true;
    for (size_t id = 0; id < AF_OPTION_COUNT; id++) {
        const struct af_option_row *option = &af_option_rows[id];
        if (option->group != group || (option->commands & (1u << command)) == 0)
            continue;
        if (is_first)
            af_text_format(page->out, "\n%s:\n", heading);
        is_first = false;
        add_option(page, option);
    }
}

enum anyflash_status af_options_help(enum af_command_id command, struct af_text *out,
                                     struct anyflash_error *err)
{
    struct af_page page = {out, AF_HELP_COLUMNS, false};
    const struct af_command_row *row = &af_command_rows[command];
    af_text_format(out, "usage: anyflash %s [OPTION...]%s%s\n\n", row->name,
                   row->arguments[0] != '\0' ? " " : "", row->arguments);
    af_page_add(&page, 0, "", AF_TONE_PLAIN, row->doc);
    add_group(&page, command, AF_CLI_GROUP_OWN, "Options");
    add_group(&page, command, AF_CLI_GROUP_MACHINE, "The machine and the catalog");
    add_group(&page, command, AF_CLI_GROUP_OUTPUT, "Output");
    return out->failed ? af_fail_memory(err) : ANYFLASH_OK;
}
