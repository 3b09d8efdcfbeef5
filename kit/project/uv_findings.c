/*
 * uv_findings.c: a pyproject.toml that tells uv how flash-attn is built: with which torch, with
 * which variables, and with which metadata. uv then runs flash-attn's setup program, which
 * downloads flash-attn's own wheel if there is one for the torch that it finds.
 *
 * Sources: uv's manual, "Build isolation" and "Settings" (extra-build-dependencies,
 * extra-build-variables, dependency-metadata, no-build-isolation-package); setup.py of
 * flash-attn 2.8.3, CachedWheelsCommand.
 */
#include <string.h>

#include "kit/formats/toml.h"
#include "kit/formats/version.h"
#include "kit/project/checker.h"
#include "kit/project/published.h"
#include "kit/project/requirements.h"
#include "kit/project/uv_settings.h"

#define FLASH "flash-attn"
#define FIRST_STATIC "2.8.0" /* the first release whose sdist has static metadata */
#define TRIED_MAX 12         /* releases of each, from the newest on */

struct uv {
    struct af_project_checker *checker;
    const struct af_project_ask *ask, *torch;
    const struct af_toml_item *build; /* torch in extra-build-dependencies of flash-attn */
    const char *build_torch;          /* "torch==2.7.0" */
    bool matches;                     /* match-runtime */
    bool skips;                       /* FLASH_ATTENTION_SKIP_CUDA_BUILD */
    bool has_metadata;                /* of the version that is pinned */
    bool is_unisolated;               /* built with the packages that are installed */
};

static const char *text_at(const struct af_toml_item *table, const char *key)
{
    const struct af_toml_item *item = af_toml_get(table, key);
    return item == NULL || item->text == NULL ? "" : item->text;
}

static bool is_torch(const char *requirement)
{
    const size_t len = strcspn(requirement, "=<>!~[ ;@");
    return af_name_is((struct af_span){requirement, len}, "torch");
}

static bool is_true(const struct af_toml *toml, const struct af_toml_item *item)
{
    return item != NULL && item->kind == AF_TOML_BOOL && toml->text.data[item->start] == 't';
}

/* extra-build-dependencies: flash-attn = ["torch", { requirement = "torch", ... }] */
static void read_build(struct uv *uv, const struct af_toml *toml,
                       const struct af_toml_item *settings)
{
    const struct af_toml_item *list =
        af_project_uv_child(af_toml_get(settings, "extra-build-dependencies"), FLASH);
    for (const struct af_toml_item *at = list == NULL ? NULL : list->first; at != NULL;
         at = at->next) {
        const char *requirement = at->text != NULL ? at->text : text_at(at, "requirement");
        if (!is_torch(requirement))
            continue;
        uv->build = at;
        uv->build_torch = requirement;
        uv->matches = is_true(toml, af_toml_get(at, "match-runtime"));
    }
}

static void read_settings(struct uv *uv, const struct af_toml *toml)
{
    const struct af_toml_item *settings = af_toml_find(toml, AF_TOML_PATH("tool", "uv"));
    const struct af_toml_item *variables =
        af_project_uv_child(af_toml_get(settings, "extra-build-variables"), FLASH);
    read_build(uv, toml, settings);
    uv->skips = strcmp(text_at(variables, "FLASH_ATTENTION_SKIP_CUDA_BUILD"), "TRUE") == 0;
    uv->is_unisolated =
        is_true(toml, af_toml_get(settings, "no-build-isolation")) ||
        af_project_uv_child(af_toml_get(settings, "no-build-isolation-package"), FLASH) != NULL;
    uv->has_metadata =
        uv->ask->pinned != NULL && af_project_uv_metadata(toml, FLASH, uv->ask->pinned) != NULL;
}

/*
 * Finds the newest torch and flash-attn for which the authors of flash-attn published a wheel
 * for every Python of the project.
 */
static bool find_pair(struct uv *uv, const char *torch, const char *flash, const char *range,
                      struct af_project_pins *pins)
{
    for (size_t i = 0; i < TRIED_MAX; i++) {
        pins->torch = af_published_nth("torch", torch, i);
        for (size_t j = 0; pins->torch != NULL && j < TRIED_MAX; j++) {
            pins->flash = af_published_nth(FLASH, flash, j);
            if (pins->flash == NULL)
                break;
            if (af_project_pins_are_known(uv->checker->wheels->catalog, pins) &&
                af_project_have_wheels(uv->checker->wheels, pins, range))
                return true;
        }
    }
    return false;
}

static bool is_old(const char *version)
{
    struct af_version given, first;
    return af_version_parse(version, strlen(version), &given) &&
           af_version_parse(FIRST_STATIC, strlen(FIRST_STATIC), &first) &&
           af_version_compare_public(&given, &first) < 0;
}

/* A requirement on torch behind flash-attn's in its array. */
static void add_torch(struct uv *uv, struct af_project_finding *finding, const char *version)
{
    const struct af_project_ask *ask = uv->ask;
    const char *text = af_project_copy_ask(uv->checker, ask);
    const char *name = strstr(text, ask->name);
    if (name == NULL || name == text || strchr("\"'", name[-1]) == NULL)
        return;
    size_t at = (size_t)(name - text);
    at += strcspn(name, name[-1] == '"' ? "\"" : "'") + 1;
    af_project_finding_edit(uv->checker, finding, ask->start + at, ask->start + at,
                            af_arena_format(uv->checker->arena, ", \"torch==%s\"", version));
}

/* Whether the specifier excludes newer versions. */
static bool limits(struct af_span specifier)
{
    return memmem(specifier.data, specifier.len, "==", 2) != NULL ||
           memmem(specifier.data, specifier.len, "~=", 2) != NULL ||
           memmem(specifier.data, specifier.len, "<", 1) != NULL;
}

/* How many strings of the file are requirements on `name` that exclude newer versions. */
static size_t count_limits(struct af_span text, const char *name)
{
    const size_t len = strlen(name);
    size_t count = 0;
    for (size_t at = 1; at + len < text.len; at++) {
        const char *found = memmem(text.data + at, text.len - at, name, len);
        if (found == NULL)
            break;
        at = (size_t)(found - text.data) + len;
        const char *end = memchr(found, found[-1], text.len - (size_t)(found - text.data));
        if (strchr("\"'", found[-1]) == NULL || end == NULL || at >= text.len ||
            strchr(" =<>~![", text.data[at]) == NULL)
            continue;
        count += limits((struct af_span){text.data + at, (size_t)(end - text.data) - at});
    }
    return count;
}

/*
 * Whether nothing else in the file limits torch: another requirement on it, a constraint, or a
 * version of a package whose releases need one torch each.
 */
static bool is_free(const struct uv *uv)
{
    static const char *const lists[] = {"constraint-dependencies", "override-dependencies"};
    struct af_span text = uv->ask->source->text;
    for (size_t i = 0; i < AF_COUNT(lists); i++)
        if (memmem(text.data, text.len, lists[i], strlen(lists[i])) != NULL)
            return false;
    for (const char *const *other = af_project_torch_neighbours; *other != NULL; other++)
        if (count_limits(text, *other) > 0)
            return false;
    const char *asked = uv->torch == NULL ? "" : uv->torch->specifier;
    const char *built = uv->build == NULL ? "" : uv->build_torch;
    const size_t own = limits((struct af_span){asked, strlen(asked)}) +
                       limits((struct af_span){built, strlen(built)});
    return count_limits(text, "torch") <= own;
}

static void pin_torch(struct uv *uv, struct af_project_finding *finding, const char *version)
{
    if (uv->torch == NULL)
        add_torch(uv, finding, version);
    else if (uv->torch->pinned == NULL)
        af_project_edit_pin(uv->checker, finding, uv->torch, version);
}

/* What the writer of uv's settings changed in the manifest, as one edit of it. */
static void add_difference(struct uv *uv, struct af_project_finding *finding,
                           struct af_span new)
{
    struct af_span old = uv->ask->source->text;
    struct af_text added = {0};
    size_t start = 0, same = 0;
    while (start < old.len && start < new.len &&old.data[start] == new.data[start])
        start++;
    while (same < old.len - start && same < new.len - start &&old.data[old.len - same - 1] ==
                                         new.data[new.len - same - 1])
        same++;
    for (size_t at = start; at < new.len - same; at++)
        if (new.data[at] != '\r') /* an edit has the file's line ends anyway */
            af_text_add_n(&added, new.data + at, 1);
    af_project_finding_edit(uv->checker, finding, start, old.len - same,
                            af_text_take(&added, uv->checker->arena));
}

static void add_metadata(struct uv *uv, struct af_project_finding *finding)
{
    const char *list[1 + AF_PROJECT_UV_REQUIREMENTS] = {"torch"};
    const size_t count = 1 + af_project_uv_flash_requirements(uv->ask->pinned, list + 1);
    struct af_toml changed = uv->checker->toml;
    if (af_project_uv_set_metadata(&changed, FLASH, uv->ask->pinned, list, count, NULL) ==
        ANYFLASH_OK)
        add_difference(uv, finding, changed.text);
}

static struct af_project_finding *add(struct uv *uv, enum af_project_finding_id id, size_t at)
{
    return af_project_finding_add(uv->checker, id, uv->ask->source, at);
}

/* Whether the build can only get the torch that the project has. */
static bool is_same(const struct uv *uv, const char *here)
{
    const char *specifier = uv->build_torch + strcspn(uv->build_torch, "=<>!~;");
    const bool is_bounded = strpbrk(specifier, "<~") != NULL || strstr(specifier, "==") != NULL;
    return is_bounded && strchr(specifier, ';') == NULL &&
           af_equal(af_published_nth("torch", specifier, 0), here);
}

/*
 * The torch of the build is chosen apart from the torch at run time. The change ties them, and
 * keeps the version that the build asked for: torch is pinned to it. False if the project does
 * not want that finding: then the change is not made.
 */
static bool check_build(struct uv *uv, const char *wanted, const char *here, bool is_known)
{
    struct af_arena *arena = uv->checker->arena;
    if (uv->build == NULL || uv->matches || is_same(uv, here))
        return true;
    struct af_project_finding *finding =
        add(uv, AF_PROJECT_FINDING_BUILD_TORCH, uv->build->start);
    finding->detail =
        is_known ? af_arena_format(arena, "it is built with %s, and the project gets torch %s",
                                   uv->build_torch, here)
                 : af_arena_format(arena, "it is built with %s", uv->build_torch);
    af_project_finding_edit(uv->checker, finding, uv->build->start, uv->build->end,
                            "{ requirement = \"torch\", match-runtime = true }");
    if (wanted[0] != '\0')
        pin_torch(uv, finding, wanted);
    if (uv->ask->pinned != NULL && is_old(uv->ask->pinned) && !uv->has_metadata)
        add_metadata(uv, finding);
    finding->advice =
        wanted[0] == '\0'
            ? "Tie the two with match-runtime."
            : af_arena_format(arena,
                              "Tie the two with match-runtime, and pin torch %s in the "
                              "project.",
                              wanted);
    return finding != &uv->checker->spare;
}

static void check_metadata(struct uv *uv)
{
    if (!uv->matches || uv->has_metadata || uv->ask->pinned == NULL || !is_old(uv->ask->pinned))
        return;
    struct af_project_finding *finding = add(uv, AF_PROJECT_FINDING_NO_METADATA, uv->ask->at);
    finding->detail =
        af_arena_format(uv->checker->arena, "flash-attn %s, of %s", uv->ask->pinned,
                        af_published_day(FLASH, uv->ask->pinned));
    add_metadata(uv, finding);
}

/* Whether any Python of the project has one: it need not be the newest. */
static bool has_wheel(struct af_project_checker *checker, const struct af_project_pins *pins,
                      const char *range)
{
    struct af_project_pythons pythons;
    af_project_pythons_of(pins->torch, range, &pythons);
    af_project_pythons_with_wheel(checker->wheels, pins, &pythons);
    return pythons.count > 0;
}

/* What is installed has no wheel of flash-attn's own; `wanted`: torch, if the build pins it. */
static void check_wheel(struct uv *uv, const char *wanted, const char *torch, const char *flash)
{
    struct af_project_checker *checker = uv->checker;
    const char *range = af_project_stated_for(&checker->asks, uv->ask).python_range;
    struct af_project_pins pins = {.flash = flash,
                                   .torch = torch,
                                   .platforms = AF_PROJECT_ON(AF_PROJECT_LINUX_X86_64),
                                   .is_built = true};
    const bool is_known = af_project_pins_are_known(checker->wheels->catalog, &pins);
    if (is_known && has_wheel(checker, &pins, range))
        return;
    const bool pins_flash = uv->ask->pinned != NULL;
    const bool pins_torch = wanted[0] != '\0';
    struct af_project_pins others = pins; /* who pins both may compile, or name a wheel */
    others.is_built = false;
    if (pins_flash && pins_torch && !uv->skips && is_known &&
        has_wheel(checker, &others, range))
        return;
    struct af_project_finding *finding = add(uv,
                                             uv->skips     ? AF_PROJECT_FINDING_SKIP_BUILD
                                             : !pins_flash ? AF_PROJECT_FINDING_OPEN_FLASH_ATTN
                                             : !pins_torch ? AF_PROJECT_FINDING_OPEN_TORCH
                                                           : AF_PROJECT_FINDING_NO_WHEEL,
                                             uv->ask->at);
    finding->detail = af_arena_format(
        checker->arena,
        "it resolves to flash-attn %s%s%s%s and torch %s, for which flash-attn "
        "published no wheel",
        flash, pins_flash ? "" : " (", pins_flash ? "" : af_published_day(FLASH, flash),
        pins_flash ? "" : ")", torch);
    const char *exact_torch = af_arena_format(checker->arena, "==%s", torch);
    const char *exact_flash = af_arena_format(checker->arena, "==%s", flash);
    const char *torch_range = pins_torch          ? exact_torch
                              : uv->torch == NULL ? ""
                                                  : uv->torch->specifier;
    if (!find_pair(uv, torch_range, pins_flash ? exact_flash : uv->ask->specifier, range,
                   &pins)) {
        struct af_project_pins near = {
            .flash = flash, .torch = torch, .platforms = pins.platforms, .is_built = true};
        finding->advice =
            af_project_nearest_pins(checker->wheels, NULL, range, &near)
                ? af_arena_format(checker->arena,
                                  "flash-attn %s with torch %s has a wheel. As it is, it is "
                                  "compiled, unless you name a wheel by [tool.uv.sources].",
                                  near.flash, near.torch)
                : "It is compiled, unless you name a wheel by [tool.uv.sources].";
        return;
    }
    if (!pins_flash)
        af_project_edit_pin(checker, finding, uv->ask, pins.flash);
    if (!pins_torch)
        pin_torch(uv, finding, pins.torch);
    finding->advice =
        af_arena_format(checker->arena, "Pin flash-attn %s and torch %s: they have a wheel.",
                        pins.flash, pins.torch);
}

/* Parses the manifest, which has many requirements, once. */
static bool parse(struct af_project_checker *checker, const struct af_project_source *source)
{
    if (checker->parsed != source)
        checker->is_toml = memmem(source->text.data, source->text.len, "uv", 2) != NULL &&
                           af_toml_parse(&checker->toml, checker->arena, source->text,
                                         "project", NULL) == ANYFLASH_OK;
    checker->parsed = source;
    return checker->is_toml;
}

bool af_project_check_uv(struct af_project_checker *checker, const struct af_project_ask *ask,
                         const struct af_project_ask *torch)
{
    struct uv uv = {.checker = checker, .ask = ask, .torch = torch};
    struct af_arena *arena = checker->arena;
    if (ask->source->kind != AF_PROJECT_PYPROJECT || ask->url[0] != '\0' ||
        !parse(checker, ask->source))
        return false;
    read_settings(&uv, &checker->toml);
    if ((uv.build == NULL && !uv.is_unisolated) ||
        (torch != NULL && torch->pinned == NULL && torch->is_decided))
        return false;
    const bool is_known = (torch != NULL && torch->pinned != NULL) || is_free(&uv);
    /* What the build asks for is what the project wants, unless it says so itself. */
    const char *pin = torch != NULL ? torch->pinned
                      : uv.build == NULL || uv.matches
                          ? NULL
                          : af_project_pinned_version(
                                arena, uv.build_torch + strcspn(uv.build_torch, "=<>!~"));
    const char *here =
        torch != NULL && torch->pinned != NULL
            ? torch->pinned
            : af_published_nth("torch", torch == NULL ? "" : torch->specifier, 0);
    const char *flash =
        ask->pinned != NULL ? ask->pinned : af_published_nth(FLASH, ask->specifier, 0);
    if (here == NULL || flash == NULL)
        return false;
    if (!is_known)
        pin = NULL;
    /* Without that change the wheel is chosen by the torch of the build, whatever is pinned. */
    const bool is_tied = check_build(&uv, pin == NULL ? "" : pin, here, is_known);
    check_metadata(&uv);
    if (is_known && is_tied)
        check_wheel(&uv, pin == NULL ? "" : pin, pin == NULL ? here : pin, flash);
    return true;
}
