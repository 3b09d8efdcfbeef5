/*
 * cmd_version.c: `anyflash version`: the program and its catalog.
 */
#include "kit/cli/command_inputs.h"
#include "kit/fit/fit.h"

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
    return status == ANYFLASH_OK ? af_cli_finish(cli, err) : status;
}
