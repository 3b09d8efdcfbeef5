/*
 * cmd_inspect.c: `anyflash inspect WHAT`: proves each extension of it against
 * the libraries that a Python process would have there.
 */
#include "kit/cli/inspect_view.h"

static enum anyflash_status check_words(struct af_cli *cli, struct anyflash_error *err)
{
    struct af_options *options = &cli->options;
    if (options->words.count != 1) {
        cli->hint = "`anyflash inspect FILE` takes one file or folder";
        return af_fail(err, ANYFLASH_E_ARGUMENT, "'inspect' takes one word: what to inspect");
    }
    if (options->values[AF_OPTION_AGAINST] != NULL)
        options->values[AF_OPTION_PYTHON] = options->values[AF_OPTION_AGAINST];
    return ANYFLASH_OK;
}

static enum anyflash_status write_answer(struct af_cli *cli,
                                         const struct af_inspection *inspection,
                                         struct anyflash_error *err)
{
    if (af_option_given(&cli->options, AF_OPTION_JSON))
        return af_cli_inspect_json(cli, inspection, err);
    if (af_option_given(&cli->options, AF_OPTION_QUIET))
        af_text_format(&cli->out, "%s\n", af_answer_text(inspection->answer));
    else
        af_cli_inspect_view(cli, inspection);
    return af_cli_finish(cli, err);
}

enum anyflash_status af_cmd_inspect(struct af_cli *cli, enum af_exit *exit_out,
                                    struct anyflash_error *err)
{
    struct af_inspection inspection = {.state = NULL};
    enum anyflash_status status = check_words(cli, err);
    if (status == ANYFLASH_OK)
        status = af_inspection_load(&inspection, cli, err);
    if (status == ANYFLASH_OK)
        status = af_inspection_open(&inspection, cli, err);
    if (status == ANYFLASH_OK)
        status = af_inspection_prove(&inspection, cli, err);
    if (status == ANYFLASH_OK)
        status = write_answer(cli, &inspection, err);
    if (status == ANYFLASH_OK)
        af_inspect_target_store_facts(&inspection.target, &cli->arena);
    *exit_out = inspection.answer == AF_YES ? AF_EXIT_YES : AF_EXIT_NO;
    af_inspection_release(&inspection);
    return status;
}
