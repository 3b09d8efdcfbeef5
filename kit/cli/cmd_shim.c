/*
 * cmd_shim.c: `anyflash shim` and `anyflash providers`, which anyflash's Python package
 * implements: they replace this process by the environment's Python.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "kit/answer/plan.h"
#include "kit/base/text.h"
#include "kit/cli/machine_inputs.h"

static enum anyflash_status refuse(struct af_cli *cli, const struct af_machine *machine,
                                   struct anyflash_error *err)
{
    const char *prefix = af_fact_text_or(&machine->python.prefix, NULL);
    if (prefix == NULL)
        return af_fail(err, ANYFLASH_E_NOT_FOUND, "no Python environment was found");
    const char *words[] = {"uv", "pip", "install", "--python", prefix, "anyflash"};
    cli->hint = af_arena_format(
        &cli->arena, "`%s` or its pip puts it there",
        af_shell_command(AF_SHELL_POSIX, NULL, 0, words, AF_COUNT(words), &cli->arena));
    return af_fail(err, ANYFLASH_E_NOT_FOUND,
                   "'%s' is a command of anyflash's Python package, which is not in '%s'",
                   af_command_rows[cli->options.command].name,
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
