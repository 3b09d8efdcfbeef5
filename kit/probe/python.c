/*
 * python.c: the probe of the Python environment. Chooses it (environment.c), reads its
 * interpreter (interpreter.c) and finds its package folders (site.c). This file
 * decides which kind of environment it is.
 */
#include <string.h>

#include "kit/base/text.h"
#include "kit/formats/tags.h"
#include "kit/probe/elf_file.h"
#include "kit/probe/probes.h"
#include "kit/system/file.h"

static const char *machine_of(const struct af_probe *probe, const char *program,
                              struct anyflash_error *err)
{
    struct af_probe_elf elf;
    if (af_probe_elf_open(probe, program, &elf, err) != ANYFLASH_OK)
        return NULL;
    const char *name = af_elf_machine_name(&elf.dynamic.elf);
    af_probe_elf_close(&elf);
    if (name == NULL)
        af_fail(err, ANYFLASH_E_UNSUPPORTED, "'%s' was built for another architecture",
                program);
    return name;
}

void af_probe_platform_tags_probe(const struct af_probe *probe, const char *program)
{
    struct af_fact *fact = &probe->machine->python.platform_tags;
    struct anyflash_error err = {0};
    struct af_libc libc;
    int major;
    int minor;
    const char *arch = machine_of(probe, program, &err);
    if (arch == NULL) {
        af_fact_unknown(probe->arena, fact, "%s", err.message);
        return;
    }
    af_libc_of_program(probe, program, &libc);
    if (!af_platform_libc_parse(libc.version, &major, &minor)) {
        af_fact_unknown(probe->arena, fact, "%s",
                        libc.problem == NULL ? "the C library's version cannot be parsed"
                                             : libc.problem);
        return;
    }
    size_t count;
    const char *const *tags =
        af_platform_tags_linux(probe->arena, arch, libc.kind, libc.version, &count);
    if (tags != NULL)
        af_fact_list(probe->arena, fact, tags, count, libc.source);
}

static const char *kind_of(const struct af_probe *probe,
                           const struct af_environment *environment)
{
    const char *conda = af_path_join(probe->arena, environment->prefix, "conda-meta");
    if (environment->is_venv)
        return "venv";
    if (conda != NULL && af_file_is_folder(conda))
        return strstr(environment->prefix, "/.pixi/envs/") != NULL ? "pixi" : "conda";
    return strstr(environment->prefix, "/.pyenv/versions/") != NULL ||
                   strcmp(environment->chosen_by, "pyenv") == 0
               ? "pyenv"
               : "system";
}

/*
 * If --python is another file than an interpreter, that is an error of the caller, so the call
 * fails. An environment that has lost its interpreter is a fact: python.problem.
 */
static enum anyflash_status check_named(const struct af_probe *probe,
                                        const struct af_environment *environment,
                                        const struct af_probe_interpreter_files *files,
                                        struct anyflash_error *err)
{
    const struct af_python *python = &probe->machine->python;
    char shown[200];
    if (probe->options->python == NULL || files->stdlib != NULL ||
        environment->executable == NULL || !af_file_exists(environment->executable) ||
        (python->implementation.state == AF_FACT_KNOWN &&
         !af_fact_is(&python->implementation, "cpython")))
        return ANYFLASH_OK;
    af_text_quote(shown, sizeof shown, environment->executable,
                  strlen(environment->executable));
    return af_fail(err, ANYFLASH_E_NOT_FOUND, "--python: '%s' is not a Python interpreter: %s",
                   shown, python->version.source);
}

/* The environment's own defect comes before its interpreter's. */
static void set_problem(const struct af_probe *probe, const struct af_environment *environment,
                        const struct af_probe_interpreter_files *files)
{
    struct af_python *python = &probe->machine->python;
    const char *problem = environment->problem != NULL ? environment->problem : files->problem;
    bool is_other = python->implementation.state == AF_FACT_KNOWN &&
                    !af_fact_is(&python->implementation, "cpython"); /* works, as PyPy does */
    if (problem != NULL && !is_other)
        af_fact_text(probe->arena, &python->problem, problem, environment->prefix);
    else
        af_fact_absent(probe->arena, &python->problem, environment->prefix);
}

enum anyflash_status af_probe_python(struct af_probe *probe, struct anyflash_error *err)
{
    struct af_python *python = &probe->machine->python;
    struct af_environment environment;
    struct af_probe_interpreter_files files;
    enum anyflash_status status = af_environment_choose(probe, &environment, err);
    if (status != ANYFLASH_OK)
        return status;
    if (environment.prefix == NULL) {
        af_machine_set_all(probe->arena, (struct af_fact *)python, sizeof *python,
                           AF_FACT_ABSENT,
                           "no VIRTUAL_ENV, CONDA_PREFIX or .venv, no python3 on PATH");
        return ANYFLASH_OK;
    }
    af_fact_text(probe->arena, &python->prefix, environment.prefix, environment.chosen_by);
    af_fact_text(probe->arena, &python->kind, kind_of(probe, &environment), environment.prefix);
    af_fact_text(probe->arena, &python->chosen_by, environment.chosen_by,
                 "the search order of uv and pip");
    af_fact_text(probe->arena, &python->executable, environment.executable, environment.prefix);
    af_probe_interpreter_probe(probe, &environment, &files);
    af_site_probe(probe, &environment, &files);
    set_problem(probe, &environment, &files);
    if (probe->arena->failed)
        return af_fail_memory(err);
    return check_named(probe, &environment, &files, err);
}
