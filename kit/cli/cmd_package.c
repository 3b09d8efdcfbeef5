/*
 * cmd_package.c: `anyflash package`, which puts anyflash's Python package into an
 * environment; and `anyflash shim` and `anyflash providers`, which that package
 * implements: they replace this process by the environment's Python.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "kit/base/text.h"
#include "kit/cli/environment_change.h"
#include "kit/cli/machine_inputs.h"
#include "kit/cli/next_command.h"

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

static enum anyflash_status refuse(struct af_cli *cli, const struct af_machine *machine,
                                   struct anyflash_error *err)
{
    static const char *const words[] = {"install", NULL};
    const char *prefix = af_fact_text_or(&machine->python.prefix, NULL);
    cli->hint = af_arena_format(&cli->arena, "`%s` puts it there",
                                af_cli_next_command(cli, AF_COMMAND_PACKAGE, words));
    return prefix == NULL
               ? af_fail(err, ANYFLASH_E_NOT_FOUND, "no Python environment was found")
               : af_fail(err, ANYFLASH_E_NOT_FOUND,
                         "'%s' is a command of anyflash's Python package %s, which is not in "
                         "'%s'",
                         af_command_rows[cli->options.command].name, anyflash_version_text(),
                         af_text_scrub(&cli->arena, prefix, 300));
}

/*
 * The command again, for `python -m anyflash`. --python is left out: it is this Python.
 * NULL without memory.
 */
static const char **python_words(struct af_cli *cli, const char *python)
{
    const struct af_options *options = &cli->options;
    const char **words = af_arena_array(&cli->arena, options->words.count + 8, sizeof *words);
    size_t count = 0;
    if (words == NULL)
        return NULL;
    words[count++] = python;
    words[count++] = "-I"; /* no module of the current folder, of PYTHONPATH or of the user */
    words[count++] = "-m";
    words[count++] = "anyflash";
    words[count++] = af_command_rows[options->command].name;
    for (size_t i = 0; i < options->words.count; i++)
        words[count++] = options->words.items[i];
    if (af_option_given(options, AF_OPTION_FA3))
        words[count++] = "--fa3";
    if (af_option_given(options, AF_OPTION_JSON))
        words[count++] = "--json";
    words[count] = NULL;
    return words;
}

static enum anyflash_status start(struct af_cli *cli, const struct af_machine *machine,
                                  struct anyflash_error *err)
{
    const char *python = af_fact_text_or(&machine->python.executable, NULL);
    if (python == NULL || !af_plan_package_is_there(machine))
        return refuse(cli, machine, err);
    const char **words = python_words(cli, python);
    if (words == NULL)
        return af_fail_memory(err);
    execv(python, (char *const *)(uintptr_t)words); /* it does not change them */
    return af_fail(err, ANYFLASH_E_IO, "cannot start '%s': %s",
                   af_text_scrub(&cli->arena, python, 300), strerror(errno));
}

static enum anyflash_status run_python(struct af_cli *cli, struct anyflash_error *err)
{
    struct af_machines machines;
    enum anyflash_status status = af_machines_load(cli, &machines, err);
    if (status != ANYFLASH_OK)
        return status;
    status = start(cli, machines.pointers[0], err);
    af_machines_release(&machines);
    return status;
}

enum anyflash_status af_cmd_shim(struct af_cli *cli, enum af_exit *exit_out,
                                 struct anyflash_error *err)
{
    (void)exit_out;
    return run_python(cli, err);
}

enum anyflash_status af_cmd_providers(struct af_cli *cli, enum af_exit *exit_out,
                                      struct anyflash_error *err)
{
    (void)exit_out;
    return run_python(cli, err);
}
