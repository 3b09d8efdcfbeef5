/*
 * fit_assume.c: assumes the usual system, processor, Python and build of torch of a described
 * machine.
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
 * word to *what, arena text or NULL. Fails with NO_MEMORY.
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
    return *what == NULL ? af_fail_memory(err) : ANYFLASH_OK;
}

/*
 * Whether enough is known to assume the rest: a GPU, or torch with a system or a Python where
 * nothing is said of GPUs.
 */
static bool is_described(const struct af_machine *machine)
{
    bool torch = machine->torch.version.state == AF_FACT_KNOWN &&
                 (machine->platform.os.state == AF_FACT_KNOWN ||
                  machine->python.version.state == AF_FACT_KNOWN);
    return machine->gpus.count > 0 || (machine->gpus.state == AF_FACT_UNKNOWN && torch);
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
    const char *word =
        cuda == NULL ? NULL : af_arena_format(&machine->arena, "torch_cuda=%s", cuda);
    return word == NULL ? ANYFLASH_OK
                        : assume_fact(machine, &machine->torch.cuda, word, what, err);
}

enum anyflash_status af_fit_assume(struct af_machine *machine, struct anyflash_error *err)
{
    const char *what = NULL;
    if (!is_described(machine))
        return machine->arena.failed ? af_fail_memory(err) : ANYFLASH_OK;
    enum anyflash_status status = assume_usual(machine, &what, err);
    if (status == ANYFLASH_OK)
        status = assume_build(machine, &what, err);
    if (status != ANYFLASH_OK)
        return status;
    if (what != NULL)
        machine->name =
            af_arena_format(&machine->arena, "%s, assuming %s", machine->name, what);
    return machine->arena.failed ? af_fail_memory(err) : ANYFLASH_OK;
}

void af_fit_forget_assumed(struct af_machine *copy)
{
    struct af_fact *facts[] = {&copy->python.version, &copy->torch.cuda};
    for (size_t i = 0; i < AF_COUNT(facts); i++) {
        if (facts[i]->origin.kind == AF_ORIGIN_ASSUMED)
            facts[i]->state = AF_FACT_UNKNOWN;
    }
}
