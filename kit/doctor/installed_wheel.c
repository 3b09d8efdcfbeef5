/*
 * installed_wheel.c: which published wheel the installed flash-attn is, and
 * what fit says about that wheel on this machine. The rules of fit are not
 * repeated here: a reason becomes the cause of the same id.
 */
#include <stdio.h>
#include <string.h>

#include "kit/base/url.h"
#include "kit/doctor/rules.h"
#include "kit/formats/version.h"

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

/* What tells the wheels of one version apart; -1 and UNKNOWN are not known. */
struct sought {
    struct af_version version; /* installed; its local part names the variant */
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
 * Whether `wheel` is the one that setup.py of this version fetches for this
 * torch. Up to 2.8.3 it takes every CUDA from 12 on for 12 (get_wheel_url()).
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

/* The wheel that a version with a variant names, or that setup.py fetched; or NULL. */
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
 * The cause of a reason that is about the file and not about driver or device:
 * a node without a GPU does not make an installed wheel wrong.
 */
static bool cause_of(enum af_reason_id reason, enum af_cause_id *cause_out)
{
    if (af_reason_effect(reason) != AF_REASON_BLOCKS)
        return false;
    const char *text_id = af_reason_text_id(reason);
    if (af_equal(text_id, "wheel-tag-wrong-platform")) {
        *cause_out = AF_CAUSE_MISFIT;
        return true;
    }
    return af_cause_parse(text_id, cause_out) && *cause_out < AF_CAUSE_MISFIT;
}

/* The first such reason against `wheel` becomes a finding. */
static void fit(struct af_examination *examination, const struct af_catalog_wheel *wheel)
{
    const struct af_fit_options options = {0};
    const struct af_reason *reasons = NULL;
    size_t count = 0;
    examination->status =
        af_fit_explain(examination->catalog, examination->machine, &options, wheel,
                       examination->arena, &reasons, &count, examination->err);
    for (size_t i = 0; examination->status == ANYFLASH_OK && i < count; i++) {
        enum af_cause_id cause;
        if (!cause_of(reasons[i].id, &cause))
            continue;
        af_examination_add(examination, cause, "%s: %s", wheel->filename,
                           reasons[i].detail != NULL ? reasons[i].detail
                                                     : af_reason_message(reasons[i].id));
        return;
    }
}

/* The bits of all reasons that are about the file. */
static uint64_t file_bits(void)
{
    uint64_t bits = 0;
    for (int id = 0; id < AF_REASON_COUNT && id < 64; id++) {
        enum af_cause_id cause;
        if (cause_of((enum af_reason_id)id, &cause))
            bits |= UINT64_C(1) << id;
    }
    return bits;
}

/* The number at `place` of a known version's release, or -1. */
static int release_part(const struct af_fact *fact, int place)
{
    struct af_version version;
    const char *text = af_fact_text_or(fact, NULL);
    if (text == NULL || !af_version_parse(text, strlen(text), &version) ||
        version.release_count <= place)
        return -1;
    return (int)version.release[place];
}

/* False when the versions of flash-attn and torch are not known. */
static bool seek(const struct af_machine *machine, const struct af_package *package,
                 struct sought *sought)
{
    const char *text = af_fact_text_or(&package->version, NULL);
    const char *torch = af_fact_text_or(&machine->torch.version, NULL);
    sought->python_minor = release_part(&machine->python.version, 1);
    sought->cuda_major = release_part(&machine->torch.cuda, 0);
    sought->cxx11abi = machine->torch.cxx11abi.state == AF_FACT_KNOWN
                           ? af_fact_truth(&machine->torch.cxx11abi)
                           : AF_UNKNOWN;
    sought->arch = af_fact_text_or(&machine->platform.arch, NULL);
    return text != NULL && torch != NULL &&
           af_version_parse(text, strlen(text), &sought->version) &&
           af_version_parse(torch, strlen(torch), &sought->torch) &&
           sought->torch.release_count >= 2;
}

/*
 * No wheel can be named: does any published one of this version fit here? A
 * torch that is no release brings the flash-attn that was built with it.
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
        af_examination_add(examination, AF_CAUSE_NO_WHEEL, "flash-attn %s, torch %s", text,
                           torch);
    else if (!may_fit)
        af_examination_add(examination, AF_CAUSE_ORIGIN_UNKNOWN,
                           "none of the %zu wheels of flash-attn %s for this Python is for "
                           "torch %s",
                           alike_count, text, torch);
}

void af_examine_installed_wheel(struct af_examination *examination)
{
    const struct af_catalog *catalog = examination->catalog;
    const struct af_machine *machine = examination->machine;
    const struct af_package *package = af_machine_flash_attn(machine);
    struct sought sought;
    if (package == NULL || machine->torch.version.state != AF_FACT_KNOWN)
        return;
    const struct af_catalog_wheel *wheel = wheel_by_origin(catalog, package);
    if (wheel == NULL &&
        (package->built_for_torch.state == AF_FACT_KNOWN || !seek(machine, package, &sought)))
        return;
    if (wheel == NULL)
        wheel = wheel_by_version(catalog, &sought);
    if (wheel != NULL)
        fit(examination, wheel);
    else
        check_all(examination, package, &sought);
}
