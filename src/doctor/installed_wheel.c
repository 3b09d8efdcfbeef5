/*
 * installed_wheel.c: which published wheel the installed flash-attn is, and
 * what fit says about that wheel on this machine. The rules of fit are not
 * repeated here: a reason becomes the cause of the same id.
 */
#include <stdio.h>
#include <string.h>

#include "doctor/rules.h"
#include "formats/version.h"

#define NAME_BYTES 512

static int hex_digit(char letter)
{
    if (letter >= '0' && letter <= '9')
        return letter - '0';
    if (letter >= 'a' && letter <= 'f')
        return letter - 'a' + 10;
    if (letter >= 'A' && letter <= 'F')
        return letter - 'A' + 10;
    return -1;
}

/* The file name at the end of a URL, without query and percent signs. */
static void url_file_name(const char *url, char name[NAME_BYTES])
{
    const char *slash = strrchr(url, '/');
    const char *at = slash != NULL ? slash + 1 : url;
    size_t len = 0;
    while (*at != '\0' && *at != '#' && *at != '?' && len + 1 < NAME_BYTES) {
        int high = at[0] == '%' ? hex_digit(at[1]) : -1;
        int low = high >= 0 ? hex_digit(at[2]) : -1;
        name[len++] = low >= 0 ? (char)(high * 16 + low) : *at;
        at += low >= 0 ? 3 : 1;
    }
    name[len] = '\0';
}

/* The wheel that direct_url.json names, or NULL. */
static const struct af_wheel *wheel_by_origin(const struct af_catalog *catalog,
                                              const struct af_package *package)
{
    char name[NAME_BYTES];
    const char *origin = af_fact_text_or(&package->origin, NULL);
    if (origin == NULL)
        return NULL;
    url_file_name(origin, name);
    for (size_t i = 0; i < catalog->count; i++)
        if (strcmp(catalog->wheels[i].filename, name) == 0)
            return &catalog->wheels[i];
    return NULL;
}

/* Whether the installed version may have come from `wheel`. */
static bool may_be(const struct af_wheel *wheel, const struct af_version *installed,
                   int python_minor)
{
    char text[NAME_BYTES];
    struct af_version version;
    if (!af_equal(wheel->package, "flash_attn") || wheel->python_minor != python_minor)
        return false;
    snprintf(text, sizeof text, "%s%s%s", wheel->version,
             installed->local[0] != '\0' && wheel->local != NULL ? "+" : "",
             installed->local[0] != '\0' && wheel->local != NULL ? wheel->local : "");
    return af_version_parse(text, strlen(text), &version) &&
           af_version_compare(&version, installed) == 0;
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
static void judge(struct af_examination *examination, const struct af_wheel *wheel)
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
        af_examination_add(examination, cause, "%s: %s%s%s", wheel->filename,
                           af_reason_message(reasons[i].id),
                           reasons[i].detail != NULL ? ": " : "",
                           reasons[i].detail != NULL ? reasons[i].detail : "");
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

/* Python's minor version, or -1. */
static int python_minor(const struct af_machine *machine)
{
    struct af_version version;
    const char *text = af_fact_text_or(&machine->python.version, NULL);
    if (text == NULL || !af_version_parse(text, strlen(text), &version) ||
        version.release_count < 2 || version.release[0] != 3)
        return -1;
    return (int)version.release[1];
}

/*
 * No origin is recorded: does any published wheel of this version fit here? A
 * torch that is no release brings the flash-attn that was built with it.
 */
static void judge_by_version(struct af_examination *examination,
                             const struct af_package *package)
{
    const struct af_decision *decision = examination->decision;
    const char *text = af_fact_text_or(&package->version, NULL);
    const char *torch = af_fact_text_or(&examination->machine->torch.version, NULL);
    struct af_version version;
    int minor = python_minor(examination->machine);
    uint64_t bits = file_bits();
    size_t alike_count = 0;
    const struct af_fact *build = &examination->machine->torch.build;
    if (text == NULL || torch == NULL || minor < 0 ||
        (build->state == AF_FACT_KNOWN && !af_fact_is(build, "release")) ||
        !af_version_parse(text, strlen(text), &version))
        return;
    for (size_t i = 0; i < decision->candidate_count; i++) {
        const struct af_candidate *candidate = &decision->candidates[i];
        if (!may_be(candidate->wheel, &version, minor))
            continue;
        if ((candidate->reason_bits & bits) == 0)
            return;
        alike_count++;
    }
    af_examination_add(
        examination, AF_CAUSE_ORIGIN_UNKNOWN,
        "none of the %zu wheels of flash-attn %s for Python 3.%d is for torch %s", alike_count,
        text, minor, torch);
}

void af_examine_installed_wheel(struct af_examination *examination)
{
    const struct af_package *package = af_machine_package(examination->machine, "flash-attn");
    if (package == NULL || examination->machine->torch.version.state != AF_FACT_KNOWN)
        return;
    const struct af_wheel *wheel = wheel_by_origin(examination->catalog, package);
    if (wheel != NULL)
        judge(examination, wheel);
    else if (package->built_for_torch.state != AF_FACT_KNOWN)
        judge_by_version(examination, package);
}
