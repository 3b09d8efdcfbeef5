/*
 * cmd_version.c: `anyflash version`.
 */
#include "cli/commands.h"

enum anyflash_status af_cmd_version(struct af_cli *cli, enum af_exit *exit_out,
                                    struct anyflash_error *err)
{
    (void)exit_out;
    if (!af_option_given(&cli->options, AF_OPTION_JSON)) {
        af_text_format(&cli->out, "anyflash %s\n", anyflash_version_text());
        return af_cli_finish(cli, err);
    }
    json_t *json = json_pack("{s:s, s:s}", "schema", "anyflash-version/1", "version",
                             anyflash_version_text());
    return af_cli_json_take(cli, json, err);
}
