/*
 * installed.c: rules about the installed flash-attn, from its own files and
 * from the published wheel that it came from.
 */
#include <stdio.h>
#include <string.h>

#include "kit/base/url.h"
#include "kit/doctor/doctor.h"

/*
 * Rules about the installed flash-attn and torch that need only their own files: whether
 * Python imports it, and whether it is complete, compiled, for this Python and
 * for this torch.
 */

#define EXTENSION "flash_attn_2_cuda."

/* The library of a wheel of `anyflash build`: it fits every torch and every Python. */
#define LIBRARY "flash_attn_2_cuda/libanyflash_cuda.so"

static const struct af_package *installed(const struct af_examination *examination)
{
    return af_machine_flash_attn(examination->machine);
}

void af_examine_source_tree(struct af_examination *examination)
{
    const struct af_fact *shadow = &examination->machine->python.shadowed_by;
    if (shadow->state == AF_FACT_KNOWN)
        af_examination_add(examination, AF_REASON_SOURCE_TREE, "%s%s", shadow->value.text,
                           af_ends_with(shadow->value.text, ".py") ? ""
                                                                   : " has no compiled module");
}

static size_t count_of(const struct af_fact *list)
{
    return list->state == AF_FACT_KNOWN ? list->value.list.count : 0;
}

/* Reports the first files of a list that is known and not empty. */
static void report_files(struct af_examination *examination, enum af_reason_id cause,
                         const struct af_fact *list, const char *state, const char *more)
{
    size_t count = count_of(list);
    if (count == 1)
        af_examination_add(examination, cause, "%s: '%s' (%s)%s", state,
                           list->value.list.items[0], list->source, more);
    else if (count > 1)
        af_examination_add(examination, cause, "%s: '%s', '%s'%s (%s)%s", state,
                           list->value.list.items[0], list->value.list.items[1],
                           count > 2 ? " and more" : "", list->source, more);
}

/* `import torch` fails. */
static bool is_damaged(const struct af_torch *torch)
{
    return count_of(&torch->missing_files) + count_of(&torch->broken_files) +
               count_of(&torch->missing_libraries) >
           0;
}

void af_examine_damaged_torch(struct af_examination *examination)
{
    const struct af_torch *torch = &examination->machine->torch;
    if (count_of(&torch->missing_files) == 0 && count_of(&torch->missing_libraries) > 0) {
        report_files(examination, AF_REASON_TORCH_DAMAGED, &torch->missing_libraries,
                     "not found", "; packages of torch's dependencies have them");
        af_examination_hint(examination,
                            af_fit_reinstall_torch(examination->machine, examination->arena));
    }
    if (count_of(&torch->broken_files) == 0)
        report_files(examination, AF_REASON_FILES_CHANGED, &torch->changed_files,
                     "not of the recorded size", "");
}

/* The compiled file in RECORD whose path contains `name`, or NULL. */
static const char *compiled_file(const struct af_package *package, const char *name)
{
    const struct af_fact *list = &package->extensions;
    for (size_t i = 0; list->state == AF_FACT_KNOWN && i < list->value.list.count; i++)
        if (strstr(list->value.list.items[i], name) != NULL)
            return list->value.list.items[i];
    return NULL;
}

bool af_doctor_fits_every_torch(const struct af_package *package)
{
    return compiled_file(package, LIBRARY) != NULL;
}

/*
 * FlashAttention 2 for CUDA has this module; version 1 and ROCm's Triton builds
 * have another or none.
 */
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
    const struct af_machine *machine = examination->machine;
    const struct af_package *shim = af_machine_shim(machine);
    bool is_alone = machine->packages.state == AF_FACT_KNOWN &&
                    af_machine_package(machine, "anyflash") == NULL &&
                    !af_machine_shim_is_complete(machine);
    if (shim != NULL)
        af_examination_add(examination, is_alone ? AF_REASON_SHIM_ALONE : AF_REASON_SHIM,
                           "flash-attn %s in %s",
                           af_fact_text_or(&shim->version, "of unknown version"),
                           af_fact_text_or(&shim->folder, "the environment"));
}

/* The packages that flash-attn needs and Python does not find. */
static void report_requirements(struct af_examination *examination, const struct af_fact *list)
{
    for (size_t i = 0; i < count_of(list); i++) {
        const char *name = list->value.list.items[i];
        af_examination_add(examination, AF_REASON_REQUIREMENT_MISSING, "%s (%s)", name,
                           list->source);
        af_examination_hint(examination, af_fit_reinstall_command(examination->machine, name,
                                                                  examination->arena));
    }
}

void af_examine_installed_files(struct af_examination *examination)
{
    const struct af_package *package = installed(examination);
    if (package == NULL)
        return;
    report_files(examination, AF_REASON_DAMAGED, &package->missing_files, "missing",
                 package->installer.state == AF_FACT_ABSENT
                     ? "; a killed installation leaves it like this"
                     : "");
    report_files(examination, AF_REASON_DAMAGED, &package->broken_files, "incomplete", "");
    if (count_of(&package->broken_files) == 0)
        report_files(examination, AF_REASON_FILES_CHANGED, &package->changed_files,
                     "not of the recorded size", "");
    if (!is_damaged(&examination->machine->torch))
        report_files(examination, AF_REASON_LIBRARY_MISSING, &package->missing_libraries,
                     "not found", "");
    report_requirements(examination, &package->missing_requirements);
    const char *extension = compiled_file(package, EXTENSION);
    if (extension != NULL)
        check_python(examination, extension);
    else if (needs_extension(examination, package) && !af_doctor_fits_every_torch(package) &&
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
    const struct af_fact *torch_fact = &examination->machine->torch.version;
    struct af_version torch;
    struct af_version built;
    if (package == NULL || !af_examination_version(torch_fact, &torch))
        return;
    const char *torch_text = torch_fact->value.text;
    const char *needs = af_fact_text_or(&package->needs_torch, NULL);
    if (needs != NULL && af_specifier_contains(needs, &torch) == AF_NO)
        af_examination_add(examination, AF_REASON_TORCH_MINOR,
                           "it needs torch %s (%s), but torch %s is installed", needs,
                           package->needs_torch.source, torch_text);
    else if (pinned_version(af_fact_text_or(&package->built_for_torch, NULL), &built) &&
             (built.release[0] != torch.release[0] || built.release[1] != torch.release[1]))
        af_examination_add(
            examination, AF_REASON_STALE, "built with torch %s (%s), but torch %s is installed",
            package->built_for_torch.value.text, package->built_for_torch.source, torch_text);
}

/* Versions 1 and 3.0.0b1 are also called flash-attn, but have another interface. */
static void check_generation(struct af_examination *examination,
                             const struct af_package *package)
{
    int generation = af_examination_number(&package->version, 0);
    if (generation >= 0 && generation != 2 && generation <= 3)
        af_examination_add(examination,
                           generation < 2 ? AF_REASON_FLASH_ATTN_OLD : AF_REASON_ONLY_FA3,
                           "flash-attn %s", package->version.value.text);
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

/*
 * Finds the published wheel of the installed flash-attn, and what the rules of
 * fit say about it on this machine. Those rules are not repeated here: a reason
 * becomes the cause with the same id.
 */

#define NAME_BYTES 512

/* The wheel that direct_url.json names, or NULL. */
static const struct af_catalog_wheel *wheel_by_origin(const struct af_catalog *catalog,
                                                      const struct af_package *package)
{
    const char *origin = af_fact_text_or(&package->origin, NULL);
    if (origin == NULL)
        return NULL;
    for (size_t i = 0; i < catalog->count; i++)
        if (af_url_names_file(origin, catalog->wheels[i].filename))
            return &catalog->wheels[i];
    return NULL;
}

/* What distinguishes wheels of one version from each other. Unknown: -1, UNKNOWN. */
struct sought {
    struct af_version version; /* the installed version; its local part names the variant */
    struct af_version torch;
    int python_minor;
    int cuda_major;
    enum af_answer cxx11abi;
    const char *arch;
};

/* Whether the installed version may have come from `wheel`. */
static bool may_be(const struct af_catalog_wheel *wheel, const struct sought *sought)
{
    char text[NAME_BYTES];
    struct af_version version;
    bool named = sought->version.local[0] != '\0' && wheel->local != NULL;
    if (!af_equal(wheel->package, "flash_attn") ||
        (sought->python_minor >= 0 && wheel->python_minor != sought->python_minor) ||
        (sought->arch != NULL && strstr(wheel->platform, sought->arch) == NULL))
        return false;
    snprintf(text, sizeof text, "%s%s%s", wheel->version, named ? "+" : "",
             named ? wheel->local : "");
    return af_version_parse(text, strlen(text), &version) &&
           af_version_compare(&version, &sought->version) == 0;
}

static bool for_this_torch(const struct af_catalog_wheel *wheel, const struct sought *sought)
{
    return wheel->torch_major == sought->torch.release[0] &&
           wheel->torch_minor == sought->torch.release[1];
}

/*
 * Whether `wheel` is the one that setup.py of this version downloads for this
 * torch. Up to 2.8.3 it treats every CUDA from 12 on as 12 (get_wheel_url()).
 */
static bool setup_fetches(const struct af_catalog_wheel *wheel, const struct sought *sought)
{
    static const char first_with_13[] = "2.8.3.post1";
    struct af_version first;
    int major = sought->cuda_major;
    if (major > 12 && af_version_parse(first_with_13, strlen(first_with_13), &first) &&
        af_version_compare_public(&sought->version, &first) < 0)
        major = 12;
    return wheel->official && for_this_torch(wheel, sought) &&
           (major < 0 || wheel->cuda_major == major) &&
           (sought->cxx11abi == AF_UNKNOWN || wheel->cxx11abi == sought->cxx11abi);
}

/* The wheel that is named by a version with a variant, or that setup.py downloaded; or NULL. */
static const struct af_catalog_wheel *wheel_by_version(const struct af_catalog *catalog,
                                                       const struct sought *sought)
{
    bool named = sought->version.local[0] != '\0';
    for (size_t i = 0; i < catalog->count; i++) {
        const struct af_catalog_wheel *wheel = &catalog->wheels[i];
        if (may_be(wheel, sought) && (named || setup_fetches(wheel, sought)))
            return wheel;
    }
    return NULL;
}

/*
 * The cause for a reason against a wheel that is installed. False if the reason
 * is about the driver or a device, because a wheel is not wrong just because
 * the node has no GPU.
 */
static bool cause_of(enum af_reason_id reason, enum af_reason_id *cause_out)
{
    *cause_out = reason == AF_REASON_PLATFORM_TAG ? AF_REASON_MISFIT : reason;
    return af_reasons[reason].effect == AF_REASON_BLOCKS && reason != AF_REASON_DRIVER &&
           af_reasons[*cause_out].severity == AF_SEVERITY_BROKEN;
}

/* Reports the first such reason against `wheel` as a finding. */
static void fit(struct af_examination *examination, const struct af_machine *machine,
                const struct af_catalog_wheel *wheel)
{
    const struct af_fit_options options = {0};
    const struct af_reason *reasons = NULL;
    size_t count = 0;
    examination->status =
        af_fit_explain(examination->catalog, machine, &options, wheel, examination->arena,
                       &reasons, &count, examination->err);
    for (size_t i = 0; examination->status == ANYFLASH_OK && i < count; i++) {
        enum af_reason_id cause;
        if (!cause_of(reasons[i].id, &cause))
            continue;
        af_examination_add(examination, cause, "%s: %s", wheel->filename,
                           reasons[i].detail != NULL ? reasons[i].detail
                                                     : af_reasons[reasons[i].id].message);
        return;
    }
}

/* The bits of all reasons that are about the file. */
static uint64_t file_bits(void)
{
    uint64_t bits = 0;
    for (int id = 0; id < AF_REASON_BITS; id++) {
        enum af_reason_id cause;
        if (cause_of((enum af_reason_id)id, &cause))
            bits |= UINT64_C(1) << id;
    }
    return bits;
}

/* False if the version of flash-attn or torch is unknown. */
static bool seek(const struct af_machine *machine, const struct af_package *package,
                 struct sought *sought)
{
    sought->python_minor = af_examination_number(&machine->python.version, 1);
    sought->cuda_major = af_examination_number(&machine->torch.cuda, 0);
    sought->cxx11abi = machine->torch.cxx11abi.state == AF_FACT_KNOWN
                           ? af_fact_truth(&machine->torch.cxx11abi)
                           : AF_UNKNOWN;
    sought->arch = af_fact_text_or(&machine->platform.arch, NULL);
    return af_examination_version(&package->version, &sought->version) &&
           af_examination_version(&machine->torch.version, &sought->torch) &&
           sought->torch.release_count >= 2;
}

/*
 * If the wheel cannot be identified: whether any published wheel of this
 * version fits here. A torch that is not a release comes with a flash-attn that
 * was built with it.
 */
static void check_all(struct af_examination *examination, const struct af_package *package,
                      const struct sought *sought)
{
    const struct af_decision *decision = examination->decision;
    const char *text = package->version.value.text;
    const char *torch = examination->machine->torch.version.value.text;
    uint64_t bits = file_bits();
    size_t alike_count = 0;
    bool torch_served = false;
    bool may_fit = false;
    const struct af_fact *build = &examination->machine->torch.build;
    if (build->state == AF_FACT_KNOWN && !af_fact_is(build, "release"))
        return;
    for (size_t i = 0; i < decision->candidate_count; i++) {
        const struct af_candidate *candidate = &decision->candidates[i];
        if (!may_be(candidate->wheel, sought))
            continue;
        alike_count++;
        may_fit = may_fit || (candidate->reason_bits & bits) == 0;
        torch_served = torch_served ||
                       (candidate->wheel->official && for_this_torch(candidate->wheel, sought));
    }
    if (!torch_served)
        af_examination_add(examination, AF_REASON_NO_WHEEL_TORCH, "flash-attn %s, torch %s",
                           text, torch);
    else if (!may_fit && sought->python_minor >= 0)
        af_examination_add(examination, AF_REASON_ORIGIN_UNKNOWN,
                           "none of the %zu wheels of flash-attn %s for this Python is for "
                           "torch %s",
                           alike_count, text, torch);
}

void af_examine_installed_wheel(struct af_examination *examination)
{
    const struct af_catalog *catalog = examination->catalog;
    struct af_machine machine = *examination->machine;
    const struct af_package *package = af_machine_flash_attn(&machine);
    struct sought sought;
    if (package == NULL || machine.torch.version.state != AF_FACT_KNOWN ||
        af_doctor_fits_every_torch(package))
        return;
    af_fit_forget_assumed(&machine);
    const struct af_catalog_wheel *wheel = wheel_by_origin(catalog, package);
    if (wheel == NULL &&
        (package->built_for_torch.state == AF_FACT_KNOWN || !seek(&machine, package, &sought)))
        return;
    if (wheel == NULL)
        wheel = wheel_by_version(catalog, &sought);
    if (wheel != NULL)
        fit(examination, &machine, wheel);
    else
        check_all(examination, package, &sought);
}
