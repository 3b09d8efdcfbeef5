/*
 * cmd_programs.c: the commands that other programs carry out, which replace this process:
 * `anyflash bench` by anyflash-bench, which is in the same folder as this program or in the
 * installation's folder for helper programs; `anyflash shim` and `anyflash providers` by the
 * environment's Python with anyflash's package.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kit/answer/plan.h"
#include "kit/cli/machine_inputs.h"
#include "kit/install/own_package.h"

#define PATH_BYTES 4096
/* The program's name, two words for each option, and the end. */
#define WORDS_MAX 16

/* Replaces this process. `words`: the program and its arguments, then NULL. */
static enum anyflash_status become(struct af_cli *cli, const char *const *words,
                                   struct anyflash_error *err)
{
    execv(words[0], (char *const *)(uintptr_t)words); /* it does not change them */
    return af_fail(err, ANYFLASH_E_IO, "cannot start '%s': %s",
                   af_text_scrub(&cli->arena, words[0], 300), strerror(errno));
}

/* "FOLDER/anyflash-bench", or NULL if it cannot be executed there. */
static const char *program_in(struct af_cli *cli, const char *folder, const char *below)
{
    const char *path = af_arena_format(&cli->arena, "%s/%s%s", folder, below, "anyflash-bench");
    return access(path, X_OK) == 0 ? path : NULL;
}

static const char *find_program(struct af_cli *cli)
{
    char self[PATH_BYTES];
    ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
    if (len <= 0)
        return NULL;
    self[len] = '\0';
    char *slash = strrchr(self, '/');
    if (slash == NULL)
        return NULL;
    *slash = '\0';
    const char *beside = program_in(cli, self, "");
    return beside != NULL ? beside : program_in(cli, self, "../" AF_BENCH_FOLDER "/");
}

/* The program's name and the given options as command-line words. */
static const char **bench_words(struct af_cli *cli, const char *program)
{
    static const struct {
        enum af_option_id id;
        const char *word;
        bool has_value;
    } known[] = {
        {AF_OPTION_QUICK, "--quick", false},    {AF_OPTION_FILTER, "--filter", true},
        {AF_OPTION_COMPARE, "--compare", true}, {AF_OPTION_THREADS, "--threads", true},
        {AF_OPTION_JSON, "--json", false},      {AF_OPTION_QUIET, "--quiet", false},
    };
    const char **words = af_arena_array(&cli->arena, WORDS_MAX, sizeof *words);
    size_t count = 0;
    words[count++] = program;
    for (size_t i = 0; i < AF_COUNT(known); i++) {
        if (!af_option_given(&cli->options, known[i].id))
            continue;
        words[count++] = known[i].word;
        if (known[i].has_value)
            words[count++] = cli->options.values[known[i].id];
    }
    words[count] = NULL;
    return words;
}

enum anyflash_status af_cmd_bench(struct af_cli *cli, enum af_exit *exit_out,
                                  struct anyflash_error *err)
{
    const char *program = find_program(cli);
    (void)exit_out;
    if (program == NULL) {
        cli->hint = "install anyflash again: the Python wheel and `make install` "
                    "both include anyflash-bench";
        return af_fail(err, ANYFLASH_E_NOT_FOUND,
                       "the program anyflash-bench is not installed next to this one");
    }
    return become(cli, bench_words(cli, program), err);
}

/* How to get the package; a program that does not have it beside it cannot install it. */
static const char *package_hint(struct af_cli *cli)
{
    static const char *const words[] = {"install", NULL};
    if (!af_own_package_is_here(&cli->arena))
        return "install anyflash's Python wheel there, or anyflash with `make install`: both "
               "bring the package, which is not beside this program";
    return af_arena_format(&cli->arena, "`%s` puts it there",
                           af_cli_next_command(cli, AF_COMMAND_PACKAGE, words));
}

static enum anyflash_status refuse(struct af_cli *cli, const struct af_machine *machine,
                                   struct anyflash_error *err)
{
    const char *prefix = af_fact_text_or(&machine->python.prefix, NULL);
    cli->hint =
        prefix == NULL ? af_reasons[AF_REASON_PYTHON_NOT_FOUND].hint : package_hint(cli);
    return prefix == NULL
               ? af_fail(err, ANYFLASH_E_NOT_FOUND, "no Python environment was found")
               : af_fail(err, ANYFLASH_E_NOT_FOUND,
                         "'%s' is a command of anyflash's Python package %s, which is not in "
                         "'%s'",
                         af_command_rows[cli->options.command].name, anyflash_version_text(),
                         af_text_scrub(&cli->arena, prefix, 300));
}

/* The command again, for `python -m anyflash`. --python is left out: it is this Python. */
static const char **python_words(struct af_cli *cli, const char *python)
{
    const struct af_options *options = &cli->options;
    const char **words = af_arena_array(&cli->arena, options->words.count + 8, sizeof *words);
    size_t count = 0;
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
    return become(cli, python_words(cli, python), err);
}

/* The package's command in the environment that the options name. */
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
