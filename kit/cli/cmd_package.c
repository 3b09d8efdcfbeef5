/*
 * cmd_package.c: `anyflash shim` and `anyflash providers`. The Python package
 * implements both and starts this program for all other commands. Here they
 * exist only for the help, and explain how to call them.
 */
#include "kit/cli/commands.h"

static enum anyflash_status refuse(struct af_cli *cli, const char *name,
                                   struct anyflash_error *err)
{
    cli->hint = af_arena_format(&cli->arena,
                                "`python -m anyflash %s` in an environment that has it "
                                "(`pip install anyflash`)",
                                name);
    return af_fail(
        err, ANYFLASH_E_UNSUPPORTED,
        "'%s' is done by the Python package of anyflash, and this is the program alone", name);
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
