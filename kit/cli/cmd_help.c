/*
 * cmd_help.c: `anyflash help [COMMAND]`: the overview, or one command's help.
 */
#include <string.h>

#include "kit/cli/commands.h"
#include "kit/cli/manual.h"

static void add_overview(struct af_text *out)
{
    af_text_add(out, "usage: anyflash [COMMAND] [OPTION...] [WORD...]\n\n"
                     "Finds the flash-attn that fits this machine, and says why.\n\n"
                     "Commands:\n");
    for (size_t i = 0; i < AF_COMMAND_COUNT; i++)
        if (af_command_rows[i].listed)
            af_text_format(out, "  %-9s %s\n", af_command_rows[i].name,
                           af_command_rows[i].line);
    af_text_add(out, "\nExamples:\n"
                     "  anyflash                                what is here, and what to do\n"
                     "  anyflash plan                           the exact steps\n"
                     "  anyflash find torch=2.9 python=3.12     wheels for them\n"
                     "  anyflash plan --given torch=2.8.0+cu128 --given python=3.12 \\\n"
                     "                --given gpu=rtx4090       for another machine\n\n"
                     "`anyflash help COMMAND` shows the options of a command.\n"
                     "Exit codes: 0 yes, 1 no, 2 usage, 3 a file or the system failed, "
                     "4 our bug,\n130 interrupted.\n");
}

enum anyflash_status af_cmd_help(struct af_cli *cli, enum af_exit *exit_out,
                                 struct anyflash_error *err)
{
    (void)exit_out;
    const struct af_word_list *words = &cli->options.words;
    if (af_option_given(&cli->options, AF_OPTION_MAN)) {
        af_manual_page(&cli->out);
        return af_cli_finish(cli, err);
    }
    if (words->count == 0) {
        add_overview(&cli->out);
        return af_cli_finish(cli, err);
    }
    for (size_t i = 0; i < AF_COMMAND_COUNT; i++)
        if (strcmp(words->items[0], af_command_rows[i].name) == 0)
            return af_options_help((enum af_command_id)i, &cli->out, err);
    cli->hint = "`anyflash help` lists the commands";
    return af_fail(err, ANYFLASH_E_ARGUMENT, "no command is called '%s'",
                   af_text_scrub(&cli->arena, words->items[0], 120));
}
