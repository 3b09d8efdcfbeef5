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
#include "kit/project/published.h"
#include "kit/project/requirements.h"

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

/* A machine with these versions; false if it cannot be described. */
static bool describe(struct af_machine *machine, const struct af_project_pins *pins,
                     int python_minor, enum af_project_platform platform)
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
    const char *const words[] = {given[0],     given[1], given[2], "gpu=A100",
                                 "driver=590", python,   torch,    cuda};
    const char *unused;
    bool is_done = true;
    af_machine_init(machine, "project", "not stated");
    for (size_t i = 0; is_done && i < AF_COUNT(words); i++)
        if (words[i] != NULL && words[i][0] != '\0')
            is_done = af_machine_given(machine, words[i], &unused, NULL) == ANYFLASH_OK;
    return is_done && af_fit_assume(machine, NULL) == ANYFLASH_OK;
}

/* What was looked up for these versions, this Python and this platform. */
struct af_project_wheel_answer {
    const char *flash; /* "": any */
    const char *torch;
    int python_minor;
    enum af_project_platform platform;
    bool is_built;
    bool is_decided;                      /* `wheel` is the answer */
    const struct af_catalog_wheel *wheel; /* the best one, or NULL */
    enum af_answer has_wheel;             /* UNKNOWN: it was not looked up */
    struct af_project_wheel_answer *next;
};

static size_t hash(size_t sum, const char *text)
{
    for (; *text != '\0'; text++)
        sum = sum * 31 + (unsigned char)*text;
    return sum;
}

/* The place of the answer, which may be new. */
static struct af_project_wheel_answer *answer_for(struct af_project_wheels *wheels,
                                                  const struct af_project_pins *pins,
                                                  int python_minor,
                                                  enum af_project_platform platform)
{
    const char *flash = pins->flash == NULL ? "" : pins->flash;
    size_t sum = hash(hash((size_t)python_minor * 7 + (size_t)platform, flash), pins->torch);
    struct af_project_wheel_answer **bucket = &wheels->buckets[sum % AF_PROJECT_BUCKETS];
    for (struct af_project_wheel_answer *at = *bucket; at != NULL; at = at->next)
        if (at->python_minor == python_minor && at->platform == platform &&
            at->is_built == pins->is_built && strcmp(at->flash, flash) == 0 &&
            strcmp(at->torch, pins->torch) == 0)
            return at;
    struct af_project_wheel_answer *made = af_arena_alloc(wheels->arena, sizeof *made);
    *made = (struct af_project_wheel_answer){.flash = af_arena_text(wheels->arena, flash),
                                             .torch = af_arena_text(wheels->arena, pins->torch),
                                             .python_minor = python_minor,
                                             .platform = platform,
                                             .is_built = pins->is_built,
                                             .has_wheel = AF_UNKNOWN,
                                             .next = *bucket};
    *bucket = made;
    return made;
}

/* Whether one more may be looked up. */
static bool may_look_up(struct af_project_wheels *wheels)
{
    wheels->is_full |= wheels->lookup_count >= AF_PROJECT_LOOKUPS_MAX;
    wheels->lookup_count += !wheels->is_full;
    return !wheels->is_full;
}

static const struct af_catalog_wheel *look_up(const struct af_catalog *catalog,
                                              const struct af_project_pins *pins,
                                              int python_minor)
{
    struct af_machine machine;
    const struct af_machine *machines[] = {&machine};
    const struct af_fit_options options = {.version = pins->flash,
                                           .official_only = pins->is_built};
    const struct af_catalog_wheel *wheel = NULL;
    struct af_decision decision;
    if (describe(&machine, pins, python_minor, AF_PROJECT_LINUX_X86_64) &&
        af_fit_decide(catalog, machines, 1, &options, &decision, NULL) == ANYFLASH_OK) {
        const struct af_rung *rung = &decision.rungs[AF_RUNG_WHEEL];
        wheel = rung->answer == AF_YES ? rung->wheel : NULL;
        af_decision_release(&decision);
    }
    af_machine_release(&machine);
    return wheel;
}

const struct af_catalog_wheel *af_project_wheel(struct af_project_wheels *wheels,
                                                const struct af_project_pins *pins,
                                                int python_minor)
{
    struct af_project_wheel_answer *answer =
        answer_for(wheels, pins, python_minor, AF_PROJECT_LINUX_X86_64);
    if (!answer->is_decided && !may_look_up(wheels))
        return NULL;
    if (!answer->is_decided)
        answer->wheel = look_up(wheels->catalog, pins, python_minor);
    answer->is_decided = true;
    return answer->wheel;
}

void af_project_pythons_of(const char *torch, const char *range,
                           struct af_project_pythons *pythons_out)
{
    const struct af_catalog_torch_release *release = release_of(torch);
    pythons_out->count = 0;
    for (size_t i = 0; release != NULL && i < release->python.count; i++) {
        int minor;
        char late[WORD_BYTES]; /* an update */
        snprintf(late, sizeof late, "%s.20", release->python.items[i]);
        if (sscanf(late, "3.%d", &minor) == 1 && pythons_out->count < AF_PROJECT_PYTHONS_MAX &&
            af_project_allows(range, late) != AF_NO)
            pythons_out->minors[pythons_out->count++] = minor;
    }
}

const char *af_project_newest_torch(const struct af_catalog *catalog, const char *specifier)
{
    for (size_t i = af_tables.torch_count; i-- > 0;) {
        const struct af_catalog_torch_release *release = &af_tables.torch[i];
        if (!af_catalog_predates_torch(catalog, release->torch_major, release->torch_minor) &&
            af_project_allows(specifier, release->latest) == AF_YES)
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

static bool look_up_on(const struct af_catalog *catalog, const struct af_project_pins *pins,
                       int python_minor, enum af_project_platform platform)
{
    const struct af_fit_options options = {.version = pins->flash,
                                           .official_only = pins->is_built};
    struct af_machine machine;
    const struct af_machine *machines[] = {&machine};
    bool has = true;
    if (describe(&machine, pins, python_minor, platform))
        (void)af_fit_has_wheel(catalog, machines, 1, &options, &has, NULL);
    af_machine_release(&machine);
    return has;
}

/* Whether there is a wheel for these pins, this Python and this platform, or nobody knows. */
static bool has_wheel(struct af_project_wheels *wheels, const struct af_project_pins *pins,
                      int python_minor, enum af_project_platform platform)
{
    if (platforms[platform].words[0] == NULL)
        return false;
    struct af_project_wheel_answer *answer = answer_for(wheels, pins, python_minor, platform);
    if (answer == NULL || (answer->has_wheel == AF_UNKNOWN && !may_look_up(wheels)))
        return true;
    if (answer->has_wheel == AF_UNKNOWN)
        answer->has_wheel =
            look_up_on(wheels->catalog, pins, python_minor, platform) ? AF_YES : AF_NO;
    return answer->has_wheel == AF_YES;
}

void af_project_pythons_with_wheel(struct af_project_wheels *wheels,
                                   const struct af_project_pins *pins,
                                   struct af_project_pythons *pythons)
{
    size_t kept = 0;
    for (size_t i = 0; i < pythons->count; i++) {
        bool has = true;
        for (int at = 0; has && at < AF_PROJECT_PLATFORM_COUNT; at++)
            has = (pins->platforms & AF_PROJECT_ON(at)) == 0 ||
                  has_wheel(wheels, pins, pythons->minors[i], (enum af_project_platform)at);
        if (has)
            pythons->minors[kept++] = pythons->minors[i];
    }
    pythons->count = kept;
}

bool af_project_have_wheels(struct af_project_wheels *wheels,
                            const struct af_project_pins *pins, const char *range)
{
    struct af_project_pythons all, with;
    af_project_pythons_of(pins->torch, range, &all);
    with = all;
    af_project_pythons_with_wheel(wheels, pins, &with);
    return with.count > 0 && (range[0] == '\0' || with.count == all.count);
}

/* The index in the table of flash-attn's releases; its end if it is not there. */
static size_t flash_index(const char *version)
{
    size_t i = 0;
    while (i < af_tables.flash_count && !af_equal(af_tables.flash[i].version, version))
        i++;
    return i;
}

/*
 * Changes one of the pins to the nearest release that has wheels; false if there is none. Newer
 * releases of flash-attn are tried before older ones. Releases of torch must be in
 * `torch_range`; if two are equally near, the older one is tried first.
 */
static bool find_nearest(struct af_project_wheels *wheels, struct af_project_pins *pins,
                         bool is_flash, const char *torch_range, const char *range)
{
    const struct af_catalog_torch_release *release = release_of(pins->torch);
    size_t count = is_flash ? af_tables.flash_count : af_tables.torch_count;
    size_t start = is_flash          ? flash_index(pins->flash)
                   : release == NULL ? 0
                                     : (size_t)(release - af_tables.torch);
    for (size_t step = 1; step < 2 * count; step++) {
        bool is_older = is_flash ? step >= count : step % 2 != 0;
        size_t far = !is_flash ? (step + 1) / 2 : is_older ? step - count + 1 : step;
        size_t i = is_older ? start - far : start + far;
        if (i >= count ||
            (!is_flash && af_project_allows(torch_range, af_tables.torch[i].latest) != AF_YES))
            continue;
        const char *version = is_flash ? af_tables.flash[i].version : af_tables.torch[i].latest;
        if (af_published_has(is_flash ? "flash-attn" : "torch", version) == AF_NO)
            continue;
        if (is_flash)
            pins->flash = version;
        else
            pins->torch = version;
        if (af_project_have_wheels(wheels, pins, range))
            return true;
    }
    return false;
}

bool af_project_nearest_pins(struct af_project_wheels *wheels, const char *torch_range,
                             const char *range, struct af_project_pins *pins)
{
    struct af_project_pins tried = *pins;
    bool found = torch_range == NULL && find_nearest(wheels, &tried, true, "", range);
    if (!found) {
        tried = *pins;
        found =
            find_nearest(wheels, &tried, false, torch_range == NULL ? "" : torch_range, range);
    }
    *pins = tried;
    return found;
}
