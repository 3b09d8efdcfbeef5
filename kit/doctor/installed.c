/*
 * installed.c: rules about the installed flash-attn that its own files
 * answer: is it what Python imports, complete, compiled, for this Python, for
 * this torch. Which published wheel it is: installed_wheel.c.
 */
#include <string.h>

#include "kit/doctor/rules.h"
#include "kit/formats/version.h"

#define EXTENSION "flash_attn_2_cuda."

static const struct af_package *installed(const struct af_examination *examination)
{
    return af_machine_flash_attn(examination->machine);
}

void af_examine_source_tree(struct af_examination *examination)
{
    const struct af_fact *shadow = &examination->machine->python.shadowed_by;
    if (shadow->state == AF_FACT_KNOWN)
        af_examination_add(examination, AF_REASON_SOURCE_TREE, "%s has no compiled module",
                           shadow->value.text);
}

/* The compiled module of FlashAttention 2 in RECORD, or NULL. */
static const char *extension_of(const struct af_package *package)
{
    const struct af_fact *list = &package->extensions;
    for (size_t i = 0; list->state == AF_FACT_KNOWN && i < list->value.list.count; i++)
        if (strstr(list->value.list.items[i], EXTENSION) != NULL)
            return list->value.list.items[i];
    return NULL;
}

/* FlashAttention 2 for CUDA has one; version 1 and ROCm's Triton builds have other or none. */
static bool needs_extension(const struct af_examination *examination,
                            const struct af_package *package)
{
    return af_starts_with(af_fact_text_or(&package->version, ""), "2.") &&
           examination->machine->torch.hip.state != AF_FACT_KNOWN;
}

static void check_python(struct af_examination *examination, const char *extension)
{
    const char *suffix = af_fact_text_or(&examination->machine->python.ext_suffix, NULL);
    const char *ending = strstr(extension, EXTENSION) + strlen(EXTENSION) - 1;
    if (suffix == NULL || strcmp(ending, suffix) == 0 || strcmp(ending, ".abi3.so") == 0 ||
        strcmp(ending, ".so") == 0 || strcmp(ending, ".pyd") == 0)
        return;
    af_examination_add(examination, AF_REASON_PYTHON_TAG,
                       "'%s', but this Python loads modules that end in '%s' (%s)", extension,
                       suffix, examination->machine->python.ext_suffix.source);
}

void af_examine_shim(struct af_examination *examination)
{
    const struct af_package *shim = af_machine_shim(examination->machine);
    if (shim != NULL)
        af_examination_add(examination, AF_REASON_SHIM, "flash-attn %s in %s",
                           af_fact_text_or(&shim->version, "of unknown version"),
                           af_fact_text_or(&shim->folder, "the environment"));
}

void af_examine_installed_files(struct af_examination *examination)
{
    const struct af_package *package = installed(examination);
    if (package == NULL)
        return;
    const struct af_fact *missing = &package->missing_files;
    if (missing->state == AF_FACT_KNOWN && missing->value.list.count > 0)
        af_examination_add(examination, AF_REASON_DAMAGED, "'%s' and perhaps more (%s)%s",
                           missing->value.list.items[0], missing->source,
                           package->installer.state == AF_FACT_ABSENT
                               ? "; an install that was killed leaves it so"
                               : "");
    const char *extension = extension_of(package);
    if (extension != NULL)
        check_python(examination, extension);
    else if (needs_extension(examination, package) &&
             (af_fact_truth(&package->purelib) == AF_YES ||
              package->extensions.state == AF_FACT_KNOWN ||
              package->extensions.state == AF_FACT_ABSENT))
        af_examination_add(examination, AF_REASON_EXTENSION_MISSING,
                           "flash-attn %s in %s lists no flash_attn_2_cuda",
                           af_fact_text_or(&package->version, "of unknown version"),
                           af_fact_text_or(&package->folder, "the environment"));
}

/* The version after "==" in a requirement as "torch==2.8.0", or false. */
static bool pinned_version(const char *requirement, struct af_version *version_out)
{
    const char *pin = requirement != NULL ? strstr(requirement, "==") : NULL;
    if (pin == NULL)
        return false;
    pin += strspn(pin, "= ");
    return af_version_parse(pin, strcspn(pin, " ,;"), version_out);
}

void af_examine_installed_torch(struct af_examination *examination)
{
    const struct af_package *package = installed(examination);
    const char *torch_text = af_fact_text_or(&examination->machine->torch.version, NULL);
    struct af_version torch;
    struct af_version built;
    if (package == NULL || torch_text == NULL ||
        !af_version_parse(torch_text, strlen(torch_text), &torch))
        return;
    const char *needs = af_fact_text_or(&package->needs_torch, NULL);
    if (needs != NULL && af_specifier_contains(needs, &torch) == AF_NO)
        af_examination_add(examination, AF_REASON_TORCH_MINOR,
                           "it needs torch %s (%s), here is torch %s", needs,
                           package->needs_torch.source, torch_text);
    else if (pinned_version(af_fact_text_or(&package->built_for_torch, NULL), &built) &&
             (built.release[0] != torch.release[0] || built.release[1] != torch.release[1]))
        af_examination_add(
            examination, AF_REASON_STALE, "built with torch %s (%s), here is torch %s",
            package->built_for_torch.value.text, package->built_for_torch.source, torch_text);
}

/* Versions 1 and 3.0.0b1 carry the name flash-attn, and another interface. */
static void check_generation(struct af_examination *examination,
                             const struct af_package *package)
{
    const char *text = af_fact_text_or(&package->version, "");
    struct af_version version;
    if (!af_version_parse(text, strlen(text), &version))
        return;
    if (version.release[0] < 2)
        af_examination_add(examination, AF_REASON_FLASH_ATTN_OLD, "flash-attn %s", text);
    else if (version.release[0] == 3)
        af_examination_add(examination, AF_REASON_ONLY_FA3, "flash-attn %s", text);
}

void af_examine_other_generations(struct af_examination *examination)
{
    const struct af_machine *machine = examination->machine;
    if (installed(examination) != NULL) {
        check_generation(examination, installed(examination));
        return;
    }
    if (machine->packages.state != AF_FACT_KNOWN)
        return;
    static const struct {
        const char *name;
        enum af_reason_id cause;
    } others[] = {
        {"flash-attn-3", AF_REASON_ONLY_FA3},
        {"flash-attn-4", AF_REASON_FA4_NAMESPACE},
    };
    for (size_t i = 0; i < AF_COUNT(others); i++) {
        const struct af_package *package = af_machine_package(machine, others[i].name);
        if (package != NULL)
            af_examination_add(examination, others[i].cause, "%s %s in %s", others[i].name,
                               af_fact_text_or(&package->version, "of unknown version"),
                               af_fact_text_or(&package->folder, "the environment"));
    }
}
