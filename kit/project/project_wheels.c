/*
 * project_wheels.c: kit/fit decides for machines that are described by pins.
 */
#include "kit/project/project_wheels.h"

#include <stdio.h>
#include <string.h>

#include "kit/base/text.h"
#include "kit/fit/fit.h"
#include "kit/formats/metadata.h"
#include "kit/formats/version.h"
#include "kit/machine/machine.h"

#define WORD_BYTES 160

/* The words are those of af_machine_given(); NULL: there are no wheels, or it needs none. */
#define PLATFORM(name, os, arch, libc, pixi, classifier, tag, family, kernel, title, machine)  \
    {                                                                                          \
        name, {os, arch, libc}, pixi, classifier, tag,                                         \
        {                                                                                      \
            .os_name = family, .sys_platform = kernel, .platform_system = title,               \
            .platform_machine = machine                                                        \
        }                                                                                      \
    }

static const struct {
    const char *name;
    const char *words[3];
    const char *pixi;       /* its names, with a blank on either side */
    const char *classifier; /* part of "Operating System :: ..." */
    const char *tag;        /* end of a wheel's platform tag */
    struct af_marker_environment markers;
} platforms[AF_PROJECT_PLATFORM_COUNT] = {
    PLATFORM("Linux on x86_64", "os=linux", "arch=x86_64", "libc=glibc 2.35", " linux-64 ",
             "Linux", "x86_64", "posix", "linux", "Linux", "x86_64"),
    PLATFORM("Linux on aarch64", "os=linux", "arch=aarch64", "libc=glibc 2.35",
             " linux-aarch64 ", NULL, "aarch64", "posix", "linux", "Linux", "aarch64"),
    PLATFORM("Windows", "os=windows", "arch=x86_64", NULL, " win-64 ", "Windows", "win_amd64",
             "nt", "win32", "Windows", "AMD64"),
    PLATFORM("macOS", NULL, NULL, NULL, " osx-64 osx-arm64 ", "MacOS", "", "posix", "darwin",
             "Darwin", "arm64"),
};

const char *af_project_platform_name(enum af_project_platform platform)
{
    return platforms[platform].name;
}

bool af_project_platform_admits(enum af_project_platform platform, const char *marker)
{
    return af_marker_holds((struct af_span){marker, strlen(marker)},
                           &platforms[platform].markers) != AF_NO;
}

bool af_project_platform_is_pixi(enum af_project_platform platform, const char *text)
{
    const char *found = strstr(platforms[platform].pixi, text);
    size_t len = strlen(text);
    return found != NULL && len > 0 && found[-1] == ' ' && found[len] == ' ';
}

bool af_project_platform_is_classified(enum af_project_platform platform, const char *text)
{
    return af_starts_with(text, "Operating System") && platforms[platform].classifier != NULL &&
           strstr(text, platforms[platform].classifier) != NULL;
}

bool af_project_platform_takes(enum af_project_platform platform, const char *tag)
{
    bool is_linux = platforms[platform].markers.sys_platform[0] == 'l';
    bool is_macos = platform == AF_PROJECT_MACOS;
    return strcmp(tag, "any") == 0 || (is_linux == (strstr(tag, "linux") != NULL) &&
                                       is_macos == af_starts_with(tag, "macosx") &&
                                       af_ends_with(tag, platforms[platform].tag));
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

const struct af_catalog_torch_variant *af_project_usual_build(const char *torch)
{
    const struct af_catalog_torch_release *release = release_of(torch);
    const char *local = torch == NULL ? NULL : strchr(torch, '+');
    const struct af_catalog_torch_variant *named =
        release == NULL || local == NULL
            ? NULL
            : af_tables_variant(release, "linux_x86_64", local + 1);
    return release == NULL || named != NULL ? named
                                            : af_tables_default(release, "linux_x86_64");
}

/* A machine with these versions. */
static enum anyflash_status describe(struct af_machine *machine,
                                     const struct af_project_pins *pins, int python_minor,
                                     enum af_project_platform platform,
                                     struct anyflash_error *err)
{
    char python[WORD_BYTES], torch[WORD_BYTES], cuda[WORD_BYTES] = "";
    const struct af_catalog_torch_variant *variant = af_project_usual_build(pins->torch);
    snprintf(python, sizeof python, "python=3.%d", python_minor);
    snprintf(torch, sizeof torch, "torch=%s", pins->torch);
    /* Elsewhere pip gets a torch without CUDA, but whoever wants flash-attn has one with it. */
    if (platform != AF_PROJECT_LINUX_X86_64 && variant != NULL &&
        strchr(pins->torch, '+') == NULL)
        snprintf(cuda, sizeof cuda, "torch_cuda=%s", variant->cuda);
    const char *const *given = platforms[platform].words;
    const char *last = cuda[0] == '\0' ? NULL : cuda;
    const char *const words[] = {given[0],     given[1], given[2], "gpu=A100",
                                 "driver=590", python,   torch,    last};
    const char *unused;
    enum anyflash_status status = ANYFLASH_OK;
    af_machine_init(machine, "project", "not stated");
    for (size_t i = 0; status == ANYFLASH_OK && i < AF_COUNT(words); i++)
        if (words[i] != NULL)
            status = af_machine_given(machine, words[i], &unused, err);
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
    enum anyflash_status status =
        describe(&machine, pins, python_minor, AF_PROJECT_LINUX_X86_64, err);
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

/* Sets *has_out to whether there is a wheel for these pins, this Python and this platform. */
static enum anyflash_status has_wheel(const struct af_catalog *catalog,
                                      const struct af_project_pins *pins, int python_minor,
                                      enum af_project_platform platform, bool *has_out,
                                      struct anyflash_error *err)
{
    const struct af_fit_options options = {.version = pins->flash};
    struct af_machine machine;
    const struct af_machine *machines[] = {&machine};
    *has_out = false;
    if (platforms[platform].words[0] == NULL)
        return ANYFLASH_OK;
    enum anyflash_status status = describe(&machine, pins, python_minor, platform, err);
    if (status == ANYFLASH_OK)
        status = af_fit_has_wheel(catalog, machines, 1, &options, has_out, err);
    af_machine_release(&machine);
    return status;
}

enum anyflash_status af_project_pythons_with_wheel(const struct af_catalog *catalog,
                                                   const struct af_project_pins *pins,
                                                   struct af_project_pythons *pythons,
                                                   struct anyflash_error *err)
{
    enum anyflash_status status = ANYFLASH_OK;
    size_t kept = 0;
    for (size_t i = 0; status == ANYFLASH_OK && i < pythons->count; i++) {
        bool has = true;
        for (int at = 0; has && at < AF_PROJECT_PLATFORM_COUNT; at++)
            if ((pins->platforms & AF_PROJECT_ON(at)) != 0)
                status = has_wheel(catalog, pins, pythons->minors[i],
                                   (enum af_project_platform)at, &has, err);
        if (has)
            pythons->minors[kept++] = pythons->minors[i];
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
