/*
 * cmd_package.c: `anyflash package`, which puts anyflash's Python package into an
 * environment; and `anyflash shim` and `anyflash providers`, which that package
 * implements (it starts this program for all other commands). Here these two exist
 * only for the help, and explain how to call them.
 */
#include "kit/base/text.h"
#include "kit/cli/environment_change.h"

enum anyflash_status af_cmd_package(struct af_cli *cli, enum af_exit *exit_out,
                                    struct anyflash_error *err)
{
    const struct af_word_list *words = &cli->options.words;
    if (words->count == 1 && af_equal(words->items[0], "install"))
        return af_cli_install(cli, exit_out, err);
    cli->hint = "write `anyflash package install --python ENV`; `anyflash undo` removes the "
                "package again";
    if (words->count == 0)
        return af_fail(err, ANYFLASH_E_ARGUMENT, "missing action of 'package'");
    return af_fail(err, ANYFLASH_E_ARGUMENT, "'package' takes one action, install");
}

static enum anyflash_status refuse(struct af_cli *cli, const char *name,
                                   struct anyflash_error *err)
{
    cli->hint =
        af_arena_format(&cli->arena,
                        "`anyflash package install --python ENV` puts it into an environment; "
                        "then run `python -m anyflash %s` there",
                        name);
    return af_fail(err, ANYFLASH_E_UNSUPPORTED,
                   "'%s' is a command of anyflash's Python package, which is not part of this "
                   "program",
                   name);
}

enum anyflash_status af_cmd_shim(struct af_cli *cli, enum af_exit *exit_out,
                                 struct anyflash_error *err)
{
    (void)exit_out;
    return refuse(cli, "shim", err);
}

enum anyflash_status af_cmd_providers(struct af_cli *cli, enum af_exit *exit_out,
                                      struct anyflash_error *err)
{
    (void)exit_out;
    return refuse(cli, "providers", err);
}
