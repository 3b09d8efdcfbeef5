/*
 * cmd_completion.c: `anyflash completion SHELL`.
 */
#include "kit/cli/commands.h"
#include "kit/cli/manual.h"

enum anyflash_status af_cmd_completion(struct af_cli *cli, enum af_exit *exit_out,
                                       struct anyflash_error *err)
{
    (void)exit_out;
    const struct af_word_list *words = &cli->options.words;
    if (words->count != 1 || !af_manual_completion(&cli->out, words->items[0]))
        return af_fail(err, ANYFLASH_E_ARGUMENT, "completion takes bash, zsh or fish");
    return af_cli_finish(cli, err);
}
