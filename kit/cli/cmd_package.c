/*
 * cmd_package.c: `anyflash shim` and `anyflash providers`. The Python package
 * implements both and starts this program for all other commands. Here they
 * exist only for the help, and explain how to call them.
 */
#include "kit/cli/commands.h"

static enum anyflash_status refuse(struct af_cli *cli, const char *name,
                                   struct anyflash_error *err)
{
    cli->hint =
        af_arena_format(&cli->arena,
                        "install it with `pip install .` in the anyflash source folder, "
                        "then run `python -m anyflash %s`",
                        name);
    return af_fail(err, ANYFLASH_E_UNSUPPORTED,
                   "'%s' is a command of anyflash's Python package, which is not installed "
                   "with this program",
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
