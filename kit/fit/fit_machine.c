/*
 * fit_machine.c: what is settled about a machine before any rule: the usual system, processor,
 * Python and build of torch are assumed of a described machine; and why nothing can be
 * installed into its Python environment, which the doctor and the plan report first.
 */
#include "kit/fit/fit.h"

#include <stdio.h>
#include <string.h>

#include "kit/base/text.h"
#include "kit/formats/tags.h"
#include "kit/formats/version.h"
#include "kit/machine/machine.h"

/* Whether torch is older than 2.2. */
static bool is_old(const struct af_machine *machine)
{
    static const char first[] = "2.2";
    struct af_version have, need;
    const char *text = af_fact_text_or(&machine->torch.version, NULL);
    return text != NULL && af_version_parse(text, strlen(text), &have) &&
           af_version_parse(first, strlen(first), &need) &&
           af_version_compare(&have, &need) < 0;
}

/*
 * Gives `fact` by a word of --given if it is unknown, with the source "assumed", and adds the
 * word to *what, arena text or NULL.
 */
static enum anyflash_status assume_fact(struct af_machine *machine, struct af_fact *fact,
                                        const char *word, const char **what,
                                        struct anyflash_error *err)
{
    const char *unused;
    if (fact->state != AF_FACT_UNKNOWN)
        return ANYFLASH_OK;
    enum anyflash_status status = af_machine_given(machine, word, &unused, err);
    if (status != ANYFLASH_OK)
        return status;
    fact->source = "assumed";
    fact->origin = (struct af_origin){.kind = AF_ORIGIN_ASSUMED};
    *what = *what == NULL ? word : af_arena_format(&machine->arena, "%s, %s", *what, word);
    return ANYFLASH_OK;
}

/*
 * Whether enough is known to assume the rest: which GPU there is, or that there is none; or
 * torch with a system or a Python where nothing is said of GPUs.
 */
static bool is_described(const struct af_machine *machine)
{
    bool torch = machine->torch.version.state == AF_FACT_KNOWN &&
                 (machine->platform.os.state == AF_FACT_KNOWN ||
                  machine->python.version.state == AF_FACT_KNOWN);
    return machine->gpus.count > 0 || machine->gpus.state != AF_FACT_UNKNOWN || torch;
}

/* DGX Spark, whose system, DGX OS 7, is Ubuntu 24.04. Not the GB100 and GB102. */
static bool is_spark(const struct af_machine *machine)
{
    for (size_t i = 0; i < machine->gpus.count; i++) {
        const char *name = strstr(af_fact_text_or(&machine->gpus.rows[i].name, ""), "GB10");
        if (name != NULL && (name[4] < '0' || name[4] > '9'))
            return af_fact_is(&machine->platform.os, "linux") &&
                   af_fact_is(&machine->platform.arch, "aarch64") &&
                   machine->platform.libc.state == AF_FACT_UNKNOWN;
    }
    return false;
}

/* Assumes the usual system, processor and Python. */
static enum anyflash_status assume_usual(struct af_machine *machine, const char **what,
                                         struct anyflash_error *err)
{
    enum anyflash_status status =
        assume_fact(machine, &machine->platform.os, "os=linux", what, err);
    const char *arch =
        af_fact_is(&machine->platform.os, "macos") ? "arch=aarch64" : "arch=x86_64";
    if (status == ANYFLASH_OK)
        status = assume_fact(machine, &machine->platform.arch, arch, what, err);
    const char *python = is_old(machine) ? "python=3.11" : "python=3.12";
    if (status == ANYFLASH_OK)
        status = assume_fact(machine, &machine->python.version, python, what, err);
    if (status == ANYFLASH_OK && is_spark(machine))
        status = assume_fact(machine, &machine->platform.libc_version, "glibc=2.39", what, err);
    return status;
}

/* The build for the CUDA that a text names without saying what has it; NULL: none. */
static const struct af_catalog_torch_variant *named_variant(
    const struct af_catalog_torch_release *release, const char *platform, const char *named)
{
    char cuda[16];
    int major, minor;
    if (!af_platform_libc_parse(named, &major, &minor))
        return NULL;
    snprintf(cuda, sizeof cuda, "cu%d%d", major, minor);
    return af_tables_variant(release, platform, cuda);
}

/* The build of a release of torch, usually from PyPI; NULL: unknown, or without CUDA. */
static const char *usual_cuda(const struct af_machine *machine)
{
    struct af_version version;
    const char *text = af_fact_text_or(&machine->torch.version, NULL);
    const char *arch = af_fact_text_or(&machine->platform.arch, NULL);
    af_platform_arch_at(arch, &arch); /* in the records of Windows it is amd64 */
    const char *platform =
        af_tables_platform(af_fact_text_or(&machine->platform.os, NULL), arch);
    if (text == NULL || !af_version_parse(text, strlen(text), &version) ||
        version.local[0] != '\0' || !af_fact_is(&machine->torch.build, "release"))
        return NULL;
    const struct af_catalog_torch_release *release = af_tables_torch(
        (int)version.release[0], version.release_count > 1 ? (int)version.release[1] : 0);
    const struct af_catalog_torch_variant *variant =
        release == NULL ? NULL : named_variant(release, platform, machine->cuda_named);
    if (release != NULL && variant == NULL)
        variant = af_tables_default(release, platform);
    return variant != NULL && variant->cuda_major > 0 ? variant->cuda : NULL;
}

static bool has_nvidia_gpu_or_none(const struct af_machine *machine)
{
    const struct af_gpu *gpus = machine->gpus.rows;
    for (size_t i = 0; i < machine->gpus.count; i++) {
        if (af_equal(af_fact_text_or(&gpus[i].vendor, "nvidia"), "nvidia"))
            return true;
    }
    return machine->gpus.count == 0;
}

/* Assumes the build of a torch that is known but for that. */
static enum anyflash_status assume_build(struct af_machine *machine, const char **what,
                                         struct anyflash_error *err)
{
    if (machine->torch.version.state != AF_FACT_KNOWN ||
        machine->torch.cuda.state != AF_FACT_UNKNOWN || !has_nvidia_gpu_or_none(machine))
        return ANYFLASH_OK;
    const char *cuda = usual_cuda(machine);
    if (cuda == NULL)
        return ANYFLASH_OK;
    return assume_fact(machine, &machine->torch.cuda,
                       af_arena_format(&machine->arena, "torch_cuda=%s", cuda), what, err);
}

enum anyflash_status af_fit_assume(struct af_machine *machine, struct anyflash_error *err)
{
    const char *what = NULL;
    if (!is_described(machine))
        return ANYFLASH_OK;
    enum anyflash_status status = assume_usual(machine, &what, err);
    if (status == ANYFLASH_OK)
        status = assume_build(machine, &what, err);
    if (status != ANYFLASH_OK)
        return status;
    if (what != NULL)
        machine->name =
            af_arena_format(&machine->arena, "%s, assuming %s", machine->name, what);
    return ANYFLASH_OK;
}

void af_fit_forget_assumed(struct af_machine *copy)
{
    struct af_fact *facts[] = {&copy->python.version, &copy->torch.cuda};
    for (size_t i = 0; i < AF_COUNT(facts); i++) {
        if (af_fact_is_assumed(facts[i]))
            facts[i]->state = AF_FACT_UNKNOWN;
    }
}

const char *af_fit_reinstall_command(const struct af_machine *machine, const char *words,
                                     struct af_arena *arena)
{
    const char *python = af_fact_text_or(&machine->python.executable, NULL);
    if (python == NULL)
        python = af_fact_text_or(&machine->python.prefix, "python");
    if (af_machine_uses_uv(machine))
        return af_arena_format(arena, "`uv pip install --python %s --reinstall %s`", python,
                               words);
    return af_arena_format(arena, "%s%s%s`%s -m pip install --force-reinstall %s`",
                           af_machine_lacks_installer(machine) ? "`" : "",
                           af_machine_lacks_installer(machine) ? python : "",
                           af_machine_lacks_installer(machine) ? " -m ensurepip`, then " : "",
                           python, words);
}

static const struct af_reason *reason(struct af_arena *arena, enum af_reason_id id,
                                      const char *detail, const char *hint)
{
    struct af_reason *made = af_arena_alloc(arena, sizeof *made);
    *made = (struct af_reason){.id = id, .detail = af_arena_text(arena, detail), .hint = hint};
    return made;
}

const char *af_fit_reinstall_torch(const struct af_machine *machine, struct af_arena *arena)
{
    const char *version = af_fact_text_or(&machine->torch.version, NULL);
    if (version == NULL)
        return NULL;
    const char *local = strchr(version, '+');
    const char *words =
        af_arena_format(arena, "torch==%.*s", (int)strcspn(version, "+"), version);
    if (local != NULL && af_machine_uses_uv(machine))
        words = af_arena_format(arena, "--torch-backend %s torch==%s", local + 1, version);
    return af_arena_format(arena, "reinstall torch in the same version: %s",
                           af_fit_reinstall_command(machine, words, arena));
}

/* "missing: 'torch/lib/libtorch_cpu.so' (its RECORD)"; NULL if the list has none. */
static const char *files_text(struct af_arena *arena, const char *state,
                              const struct af_fact *list)
{
    if (list->state != AF_FACT_KNOWN || list->value.list.count == 0)
        return NULL;
    return af_arena_format(arena, "%s: '%s'%s (%s)", state, list->value.list.items[0],
                           list->value.list.count > 1 ? " and more" : "", list->source);
}

/* The files of torch itself that are missing or cut short; NULL: none. */
static const struct af_reason *damaged_torch(const struct af_machine *machine,
                                             struct af_arena *arena)
{
    const struct af_torch *torch = &machine->torch;
    const char *text = files_text(arena, "missing", &torch->missing_files);
    if (text == NULL)
        text = files_text(arena, "incomplete", &torch->broken_files);
    return text == NULL ? NULL
                        : reason(arena, AF_REASON_TORCH_DAMAGED, text,
                                 af_fit_reinstall_torch(machine, arena));
}

/* VIRTUAL_ENV names a removed environment: uv fails, and pip installs into another one. */
static bool virtual_env_is_gone(const struct af_machine *machine, const char *folder)
{
    const struct af_fact *chosen_by = &machine->python.chosen_by;
    return folder != NULL && folder[0] != '\0' && chosen_by->state == AF_FACT_KNOWN &&
           !af_fact_is(chosen_by, "VIRTUAL_ENV") && !af_fact_is(chosen_by, "--python");
}

/* Without a `python3`; NULL: the row's hint. */
static const char *python_hint(const struct af_machine *machine)
{
    const char *distribution = af_fact_text_or(&machine->platform.distribution, "");
    if (af_machine_has_tool(machine, "uv"))
        return "make one with `uv venv`, which also downloads a Python, or name one with "
               "--python";
    if (af_starts_with(distribution, "debian") || af_starts_with(distribution, "ubuntu"))
        return "`apt install python3-venv` (as root or with sudo), then "
               "`python3 -m venv .venv`; or name an environment with --python";
    return NULL;
}

const struct af_reason *af_fit_environment_problem(const struct af_machine *machine,
                                                   struct af_arena *arena)
{
    const struct af_python *python = &machine->python;
    const char *folder = af_machine_variable(machine, "VIRTUAL_ENV");
    if (virtual_env_is_gone(machine, folder))
        return reason(arena, AF_REASON_VIRTUAL_ENV_GONE,
                      af_arena_format(arena, "VIRTUAL_ENV=%s; the Python of %s was found by %s",
                                      folder, af_fact_text_or(&python->prefix, "another"),
                                      python->chosen_by.value.text),
                      NULL);
    if (python->prefix.state == AF_FACT_ABSENT)
        return reason(arena, AF_REASON_PYTHON_NOT_FOUND, python->prefix.source,
                      python_hint(machine));
    if (python->problem.state == AF_FACT_KNOWN)
        return reason(arena, AF_REASON_ENVIRONMENT_BROKEN, python->problem.value.text, NULL);
    return damaged_torch(machine, arena);
}
