/*
 * requirement_findings.c: what is wrong with one requirement on flash-attn in the files of a
 * project.
 */
#include "kit/project/checker.h"

#include <string.h>
#include <strings.h>

#include "kit/formats/toml.h"
#include "kit/formats/wheel_name.h"
#include "kit/project/published.h"
#include "kit/project/requirements.h"

/* "3.10", "3.9 to 3.12" or "3.9, 3.11", in the arena. */
static const char *pythons_text(struct af_project_checker *checker,
                                const struct af_project_pythons *list)
{
    struct af_text text = {0};
    size_t last = list->count - 1;
    bool is_range =
        list->count > 2 && list->minors[last] - list->minors[0] == (int)list->count - 1;
    for (size_t i = 0; i < list->count; i++)
        if (!is_range || i == 0 || i == last)
            af_text_format(&text, "%s3.%d",
                           i == 0     ? ""
                           : is_range ? " to "
                                      : ", ",
                           list->minors[i]);
    return af_text_take(&text, checker->arena);
}

const char *af_project_copy_ask(struct af_project_checker *checker,
                                const struct af_project_ask *ask)
{
    return af_project_text(checker->arena, (struct af_span){ask->source->text.data + ask->start,
                                                            ask->end - ask->start});
}

bool af_project_edit_pin(struct af_project_checker *checker, struct af_project_finding *finding,
                         const struct af_project_ask *ask, const char *version)
{
    if (ask->source != finding->source || ask->start == ask->end || ask->url[0] != '\0')
        return false;
    const char *text = af_project_copy_ask(checker, ask);
    const char *name = strstr(text, ask->name);
    if (name == NULL)
        return false;
    size_t start = (size_t)(name - text) + strlen(ask->name);
    const size_t extras = strspn(text + start, " ");
    if (text[start + extras] == '[') /* torch[opt-einsum] */
        start += strcspn(text + start, "]") + (strchr(text + start, ']') != NULL);
    const char *old = ask->specifier[0] == '\0' ? NULL : strstr(text + start, ask->specifier);
    if (old == NULL && (ask->specifier[0] != '\0' || ask->source->kind == AF_PROJECT_CONDA))
        return false; /* it is written in another form, as Poetry's "^2.5" */
    size_t at = old == NULL ? start : (size_t)(old - text);
    af_project_finding_edit(checker, finding, ask->start + at,
                            ask->start + at + strlen(ask->specifier),
                            af_arena_format(checker->arena, "==%s", version));
    return true;
}

/* ---- flash-attn becomes optional ---- */

/* Whether the build program makes up the extras: then a table of them is an error. */
static bool is_dynamic(const struct af_toml *toml)
{
    const struct af_toml_item *item =
        af_toml_get(af_toml_find(toml, AF_TOML_PATH("project")), "dynamic");
    for (item = item == NULL ? NULL : item->first; item != NULL; item = item->next)
        if (af_equal(item->text, "optional-dependencies"))
            return true;
    return false;
}

static bool has_flash(const struct af_toml_item *array)
{
    for (const struct af_toml_item *item = array->first; item != NULL; item = item->next)
        if (item->text != NULL &&
            af_name_is((struct af_span){item->text, strcspn(item->text, "=<>!~[ ;@")},
                       "flash-attn"))
            return true;
    return false;
}

/* Adds the element to the array `flash` of the table, one of which may be missing. */
static void edit_table(struct af_project_checker *checker, struct af_project_finding *finding,
                       struct af_toml_path path, const char *element)
{
    struct af_arena *arena = checker->arena;
    struct af_span text = finding->source->text;
    struct af_toml toml;
    if (af_toml_parse(&toml, arena, text, "project", NULL) != ANYFLASH_OK)
        return;
    const struct af_toml_item *table = af_toml_find(&toml, path);
    const struct af_toml_item *array = table == NULL ? NULL : table->first;
    while (array != NULL &&
           !(array->key != NULL &&
             af_name_is((struct af_span){array->key, strlen(array->key)}, "flash")))
        array = array->next;
    if (is_dynamic(&toml))
        return;
    if (array != NULL && array->kind == AF_TOML_ARRAY && !has_flash(array)) {
        af_project_finding_edit(
            checker, finding, array->start + 1, array->start + 1,
            af_arena_format(arena, "%s%s", element, array->first == NULL ? "" : ", "));
    } else if (table != NULL && array == NULL) {
        if (table->origin == AF_TOML_HEADER)
            af_project_finding_edit(checker, finding, table->start, table->start,
                                    af_arena_format(arena, "flash = [%s]\n", element));
    } else if (table == NULL) {
        bool ends = text.len > 0 && text.data[text.len - 1] == '\n';
        af_project_finding_edit(checker, finding, text.len, text.len,
                                af_arena_format(arena, "%s\n[%s.%s%s%s]\nflash = [%s]\n",
                                                ends ? "" : "\n", path.keys[0], path.keys[1],
                                                path.count > 2 ? "." : "",
                                                path.count > 2 ? path.keys[2] : "", element));
    }
}

/* Makes a requirement of pyproject.toml an extra, as PEP 621 or Poetry has it. */
static void edit_extra(struct af_project_checker *checker, struct af_project_finding *finding,
                       const struct af_project_ask *ask)
{
    struct af_arena *arena = checker->arena;
    const char *text = af_project_copy_ask(checker, ask);
    if (text[0] == '\0' || checker->extended == ask->source)
        return;
    checker->extended = ask->source;
    if (af_equal(ask->table, "project.dependencies") && strchr(text, '#') == NULL) {
        const char *element = af_arena_format(arena, "%s%s%s%s", ask->name, ask->specifier,
                                              ask->marker[0] == '\0' ? "" : "; ", ask->marker);
        af_project_finding_edit(checker, finding, ask->start, ask->end, "");
        edit_table(checker, finding, AF_TOML_PATH("project", "optional-dependencies"),
                   af_toml_quote(arena, element));
    } else if (af_equal(ask->table, "tool.poetry.dependencies") && ask->url[0] == '\0' &&
               strchr(text, '{') == NULL && strchr(text, '"') != NULL) {
        size_t start = strcspn(text, "\""), len = strcspn(text + start + 1, "\"") + 2;
        af_project_finding_edit(checker, finding, ask->start + start, ask->start + start + len,
                                af_arena_format(arena, "{ version = %.*s, optional = true }",
                                                (int)len, text + start));
        edit_table(checker, finding, AF_TOML_PATH("tool", "poetry", "extras"),
                   af_arena_format(arena, "\"%s\"", ask->name));
    }
    if (finding->edit_count < 2)
        finding->edit_count = 0; /* half of it would lose the requirement */
}

/* Whether the name of the file says that everybody installs what is in it. */
static bool is_for_all(const struct af_project_source *source)
{
    const char *path = source->path;
    if (source->kind == AF_PROJECT_PYPROJECT)
        return strcmp(af_path_name(path), "pyproject.toml") == 0;
    if (source->kind != AF_PROJECT_REQUIREMENTS)
        return true;
    static const char *const plain[] = {"",    "base", "core", "common", "main",
                                        "all", "prod", "run",  "runtime"};
    const char *name = af_path_name(path);
    char rest[40] = "";
    size_t len = 0;
    for (const char *at = name; *at != '\0' && *at != '.'; at++) {
        if (strncasecmp(at, "requirements", 12) == 0)
            at += 11;
        else if (strchr("-_ 0123456789", *at) == NULL && len + 1 < sizeof rest)
            rest[len++] = *at;
    }
    for (size_t i = 0; i < AF_COUNT(plain); i++)
        if (strcasecmp(rest, plain[i]) == 0)
            return true;
    return false;
}

/* What `anyflash config` calls the installer of the table or file; NULL: pip. */
static const char *config_of(const struct af_project_ask *ask)
{
    const char *table = ask->table == NULL ? "" : ask->table;
    return ask->source->kind == AF_PROJECT_CONDA   ? "conda"
           : ask->source->kind == AF_PROJECT_PIXI  ? "pixi"
           : af_starts_with(table, "tool.poetry.") ? "poetry"
           : af_starts_with(table, "tool.uv.")     ? "uv"
                                                   : NULL;
}

/* Comments the line out, and keeps it. */
static void edit_comment(struct af_project_checker *checker, struct af_project_finding *finding,
                         const struct af_project_ask *ask)
{
    static const char remark[] =
        "# Optional: install it after torch, with --no-build-isolation\n# ";
    if (ask->start < ask->end)
        af_project_finding_edit(checker, finding, ask->start, ask->start, remark);
}

/* flash-attn is required by name: names its wheels, or makes it optional. */
static void repair_build(struct af_project_checker *checker, struct af_project_finding *finding,
                         const struct af_project_ask *ask, const struct af_project_ask *torch)
{
    struct af_project_pins pins = {.flash = ask->pinned};
    if (torch != NULL && torch->pinned != NULL && ask->url[0] == '\0' && !ask->is_constrained) {
        pins.torch = torch->pinned;
        if (af_project_edit_wheels(checker, finding, ask, &pins))
            return;
    }
    const char *tool = config_of(ask);
    if (ask->source->kind == AF_PROJECT_PYTHON) { /* it has no extra and no second command */
        finding->advice = "Name its wheel in the block, \"flash-attn @ URL\": `anyflash config "
                          "pip` finds one.";
        return;
    }
    if (checker->is_needed) {
        finding->advice = af_arena_format(
            checker->arena,
            "The code needs flash-attn. Install torch first, then flash-attn with "
            "--no-build-isolation, or name its wheel: `anyflash config %s` finds one.",
            tool == NULL ? "pip" : tool);
        return;
    }
    /* If nothing else asks for torch, it is there because flash-attn needs it. */
    if (checker->has_torch && ask->source->kind == AF_PROJECT_REQUIREMENTS)
        edit_comment(checker, finding, ask);
    else if (checker->has_torch && ask->source->kind == AF_PROJECT_PYPROJECT)
        edit_extra(checker, finding, ask);
    finding->advice = af_arena_format(
        checker->arena,
        "Make flash-attn optional: take it out of what everybody installs. `anyflash config "
        "%s` names a wheel.",
        tool == NULL ? "pip" : tool);
}

static void add_no_wheel(struct af_project_checker *checker, const struct af_project_ask *ask,
                         const struct af_project_ask *torch, const char *torch_version,
                         const struct af_project_pythons *lacking)
{
    struct af_project_pins pins = {.flash = ask->pinned, .torch = torch_version};
    struct af_project_stated stated = af_project_stated_for(&checker->asks, ask);
    bool is_open = torch->pinned == NULL;
    struct af_project_finding *finding = af_project_finding_add(
        checker, is_open ? AF_PROJECT_FINDING_OPEN_TORCH : AF_PROJECT_FINDING_NO_WHEEL,
        ask->source, ask->at);
    pins.platforms = AF_PROJECT_ON(AF_PROJECT_LINUX_X86_64);
    for (int i = 0; i < AF_PROJECT_MACOS; i++) /* macOS has no wheels at all */
        if (af_project_platform_admits((enum af_project_platform)i, ask->marker))
            pins.platforms |= stated.platforms & AF_PROJECT_ON(i);
    finding->detail = af_arena_format(
        checker->arena, "there is no wheel of flash-attn %s for torch %s and Python %s",
        ask->pinned, torch_version, pythons_text(checker, lacking));
    if (!af_project_nearest_pins(checker->wheels, is_open ? torch->specifier : NULL,
                                 stated.python_range, &pins)) {
        finding->advice =
            "No other version of either has wheels for all of these Pythons: make flash-attn "
            "optional, or name the wheel for every torch that `anyflash build` makes.";
        return;
    }
    bool is_flash = strcmp(pins.torch, torch_version) == 0;
    af_project_edit_pin(checker, finding, is_flash ? ask : torch,
                        is_flash ? pins.flash : pins.torch);
    finding->advice = af_arena_format(
        checker->arena,
        "Pin flash-attn %s with torch %s: they have wheels. Then name these, or "
        "make flash-attn optional.",
        pins.flash, pins.torch);
}

bool af_project_check_pins(struct af_project_checker *checker, const struct af_project_ask *ask,
                           const struct af_project_ask *torch)
{
    struct af_project_pythons all, with, lacking = {.count = 0};
    if (torch->pinned == NULL && torch->is_decided)
        return false;
    const char *version =
        torch->pinned != NULL
            ? torch->pinned
            : af_project_newest_torch(checker->wheels->catalog, torch->specifier);
    struct af_project_pins pins = {.flash = ask->pinned,
                                   .torch = version,
                                   .platforms = AF_PROJECT_ON(AF_PROJECT_LINUX_X86_64)};
    const char *range = af_project_stated_for(&checker->asks, ask).python_range;
    af_project_pythons_of(version, range, &all);
    with = all;
    if (all.count == 0 || !af_project_pins_are_known(checker->wheels->catalog, &pins))
        return false;
    af_project_pythons_with_wheel(checker->wheels, &pins, &with);
    for (size_t i = 0, at = 0; i < all.count; i++) {
        if (at < with.count && with.minors[at] == all.minors[i])
            at++;
        else
            lacking.minors[lacking.count++] = all.minors[i];
    }
    /* A torch that is for more Pythons than the project says something about is fine; one that
       says ">=3.9" says nothing of the newest. */
    const bool is_open = strpbrk(range, "<~") == NULL && strstr(range, "==") == NULL;
    if (lacking.count == 0 || (with.count > 0 && is_open))
        return false;
    add_no_wheel(checker, ask, torch, version, &lacking);
    return true;
}

void af_project_check_requirement(struct af_project_checker *checker,
                                  const struct af_project_ask *ask)
{
    const struct af_project_ask *torch = af_project_torch_for(&checker->asks, ask);
    if (ask->url[0] != '\0' && strstr(ask->url, ".whl") != NULL) {
        af_project_check_wheel(checker, ask->source, ask->at, ask->url, ask, torch);
        return;
    }
    if (af_project_is_private(ask->url)) {
        af_project_finding_add(checker, AF_PROJECT_FINDING_PRIVATE_URL, ask->source, ask->at);
        return;
    }
    if (strchr(ask->specifier, '+') != NULL || af_project_check_local(checker, ask, torch) ||
        af_project_check_uv(checker, ask, torch))
        return; /* a local version is one of an index of its own */
    if (!ask->is_optional && checker->has_python && !checker->is_mentioned &&
        !checker->options->is_partial) {
        af_project_finding_add(checker, AF_PROJECT_FINDING_NEVER_IMPORTED, ask->source,
                               ask->at);
    }
    if (ask->pinned != NULL && torch != NULL && af_project_check_pins(checker, ask, torch))
        return;
    if (ask->is_optional || ask->is_arranged) {
        if (torch != NULL && (ask->pinned != NULL || !ask->is_optional))
            af_project_check_platforms(checker, ask, torch->pinned, NULL);
        return;
    }
    if (!is_for_all(ask->source) && !ask->is_included)
        return; /* who installs it wants flash-attn */
    repair_build(
        checker,
        af_project_finding_add(checker, AF_PROJECT_FINDING_SOURCE_BUILD, ask->source, ask->at),
        ask, torch);
}
