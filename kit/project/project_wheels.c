/*
 * project_wheels.c: kit/fit decides for machines that are described by pins.
 */
#include "kit/project/project_wheels.h"

#include <stdio.h>
#include <string.h>

#include "kit/base/text.h"
#include "kit/fit/fit.h"
#include "kit/formats/version.h"
#include "kit/machine/machine.h"

#define WORD_BYTES 160

/* A machine with this torch and Python. */
static enum anyflash_status describe(struct af_machine *machine, const char *torch,
                                     int python_minor, struct anyflash_error *err)
{
    static const char *const usual[] = {"os=linux", "arch=x86_64", "libc=glibc 2.35",
                                        "gpu=A100", "driver=590"};
    const char *unused;
    char word[WORD_BYTES];
    enum anyflash_status status = ANYFLASH_OK;
    af_machine_init(machine, "project", "not stated");
    for (size_t i = 0; status == ANYFLASH_OK && i < AF_COUNT(usual); i++)
        status = af_machine_given(machine, usual[i], &unused, err);
    snprintf(word, sizeof word, "python=3.%d", python_minor);
    if (status == ANYFLASH_OK)
        status = af_machine_given(machine, word, &unused, err);
    snprintf(word, sizeof word, "torch=%s", torch);
    if (status == ANYFLASH_OK)
        status = af_machine_given(machine, word, &unused, err);
    return status == ANYFLASH_OK ? af_fit_assume(machine, err) : status;
}

enum anyflash_status af_project_wheel(const struct af_catalog *catalog,
                                      const struct af_project_pins *pins, int python_minor,
                                      const struct af_catalog_wheel **wheel_out,
                                      struct anyflash_error *err)
{
    struct af_machine machine;
    const struct af_machine *machines[] = {&machine};
    const struct af_fit_options options = {.version = pins->flash};
    struct af_decision decision;
    *wheel_out = NULL;
    enum anyflash_status status = describe(&machine, pins->torch, python_minor, err);
    if (status == ANYFLASH_OK)
        status = af_fit_decide(catalog, machines, 1, &options, &decision, err);
    if (status == ANYFLASH_OK) {
        const struct af_rung *rung = &decision.rungs[AF_RUNG_WHEEL];
        *wheel_out = rung->answer == AF_YES ? rung->wheel : NULL;
        af_decision_release(&decision);
    }
    af_machine_release(&machine);
    return status;
}

/* The release of the tables that `torch` belongs to, or NULL. */
static const struct af_catalog_torch_release *release_of(const char *torch)
{
    struct af_version version;
    if (torch == NULL || !af_version_parse(torch, strlen(torch), &version) ||
        version.release_count < 2)
        return NULL;
    return af_tables_torch((int)version.release[0], (int)version.release[1]);
}

/* Whether a late update of Python 3.minor satisfies the range. */
static bool range_allows(const char *range, int minor)
{
    struct af_version version;
    char text[32];
    snprintf(text, sizeof text, "3.%d.20", minor);
    return af_version_parse(text, strlen(text), &version) &&
           af_specifier_contains(range, &version) != AF_NO;
}

void af_project_pythons_of(const char *torch, const char *range,
                           struct af_project_pythons *pythons_out)
{
    const struct af_catalog_torch_release *release = release_of(torch);
    pythons_out->count = 0;
    for (size_t i = 0; release != NULL && i < release->python.count; i++) {
        int minor;
        if (sscanf(release->python.items[i], "3.%d", &minor) == 1 &&
            pythons_out->count < AF_PROJECT_PYTHONS_MAX && range_allows(range, minor))
            pythons_out->minors[pythons_out->count++] = minor;
    }
}

static bool satisfies(const char *version_text, const char *specifier)
{
    struct af_version version;
    return af_version_parse(version_text, strlen(version_text), &version) &&
           af_specifier_contains(specifier, &version) == AF_YES;
}

const char *af_project_newest_torch(const struct af_catalog *catalog, const char *specifier)
{
    for (size_t i = af_tables.torch_count; i-- > 0;) {
        const struct af_catalog_torch_release *release = &af_tables.torch[i];
        if (!af_catalog_predates_torch(catalog, release->torch_major, release->torch_minor) &&
            satisfies(release->latest, specifier))
            return release->latest;
    }
    return NULL;
}

bool af_project_pins_are_known(const struct af_catalog *catalog,
                               const struct af_project_pins *pins)
{
    const struct af_catalog_torch_release *release = release_of(pins->torch);
    struct af_version stated, newest;
    const char *last = af_tables.flash[af_tables.flash_count - 1].version;
    return release != NULL &&
           !af_catalog_predates_torch(catalog, release->torch_major, release->torch_minor) &&
           af_version_parse(pins->flash, strlen(pins->flash), &stated) &&
           af_version_parse(last, strlen(last), &newest) &&
           af_version_compare_public(&stated, &newest) <= 0;
}

enum anyflash_status af_project_pythons_with_wheel(const struct af_catalog *catalog,
                                                   const struct af_project_pins *pins,
                                                   struct af_project_pythons *pythons,
                                                   struct anyflash_error *err)
{
    const struct af_fit_options options = {.version = pins->flash};
    enum anyflash_status status = ANYFLASH_OK;
    size_t kept = 0;
    for (size_t i = 0; status == ANYFLASH_OK && i < pythons->count; i++) {
        struct af_machine machine;
        const struct af_machine *machines[] = {&machine};
        bool has = false;
        status = describe(&machine, pins->torch, pythons->minors[i], err);
        if (status == ANYFLASH_OK)
            status = af_fit_has_wheel(catalog, machines, 1, &options, &has, err);
        if (has)
            pythons->minors[kept++] = pythons->minors[i];
        af_machine_release(&machine);
    }
    pythons->count = kept;
    return status;
}

/*
 * Sets *nearest_out to `tried` if there are wheels for all Pythons of the range; for any, if it
 * allows all.
 */
static enum anyflash_status try_pins(const struct af_catalog *catalog,
                                     struct af_project_pins tried, const char *range,
                                     struct af_project_pins *nearest_out,
                                     struct anyflash_error *err)
{
    struct af_project_pythons all, with;
    af_project_pythons_of(tried.torch, range, &all);
    with = all;
    enum anyflash_status status = af_project_pythons_with_wheel(catalog, &tried, &with, err);
    if (with.count > 0 && (range[0] == '\0' || with.count == all.count))
        *nearest_out = tried;
    return status;
}

/* The index in the table of flash-attn's releases; its end if it is not there. */
static size_t flash_index(const char *version)
{
    size_t i = 0;
    while (i < af_tables.flash_count && !af_equal(af_tables.flash[i].version, version))
        i++;
    return i;
}

/* Newer releases of flash-attn, then older ones, each the nearest first. */
static enum anyflash_status nearest_flash(const struct af_catalog *catalog,
                                          struct af_project_pins pins, const char *range,
                                          struct af_project_pins *nearest_out,
                                          struct anyflash_error *err)
{
    size_t start = flash_index(pins.flash), count = af_tables.flash_count;
    enum anyflash_status status = ANYFLASH_OK;
    for (size_t step = 1;
         status == ANYFLASH_OK && nearest_out->torch == NULL && step <= 2 * count; step++) {
        size_t i = step < count ? start + step : start - (step - count + 1);
        if (i >= count)
            continue;
        pins.flash = af_tables.flash[i].version;
        status = try_pins(catalog, pins, range, nearest_out, err);
    }
    return status;
}

/* Releases of torch within `torch_range`, the nearest first, of two the older one. */
static enum anyflash_status nearest_torch(const struct af_catalog *catalog,
                                          struct af_project_pins pins, const char *torch_range,
                                          const char *range,
                                          struct af_project_pins *nearest_out,
                                          struct anyflash_error *err)
{
    const struct af_catalog_torch_release *stated = release_of(pins.torch);
    size_t start = stated == NULL ? 0 : (size_t)(stated - af_tables.torch);
    enum anyflash_status status = ANYFLASH_OK;
    for (size_t step = 2; status == ANYFLASH_OK && nearest_out->torch == NULL &&
                          step < 2 * af_tables.torch_count;
         step++) {
        size_t i = step % 2 == 0 ? start - step / 2 : start + step / 2;
        if (i >= af_tables.torch_count || !satisfies(af_tables.torch[i].latest, torch_range))
            continue;
        pins.torch = af_tables.torch[i].latest;
        status = try_pins(catalog, pins, range, nearest_out, err);
    }
    return status;
}

enum anyflash_status af_project_nearest_pins(const struct af_catalog *catalog,
                                             const struct af_project_pins *pins,
                                             const char *torch_range, const char *range,
                                             struct af_project_pins *nearest_out,
                                             struct anyflash_error *err)
{
    enum anyflash_status status = ANYFLASH_OK;
    *nearest_out = (struct af_project_pins){0};
    if (torch_range == NULL)
        status = nearest_flash(catalog, *pins, range, nearest_out, err);
    return status != ANYFLASH_OK
               ? status
               : nearest_torch(catalog, *pins, torch_range == NULL ? "" : torch_range, range,
                               nearest_out, err);
}
