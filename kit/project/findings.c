/*
 * findings.c: the checks. Each looks at one requirement, import or command and adds at most one
 * finding; what a change has to be is decided here, how it is shown by the caller.
 */
#include "kit/project/findings_checker.h"

#include <string.h>

#include "kit/formats/toml.h"

#define AF_PROJECT_FINDING(id, name, title, why, fix) {name, title, why, fix},
const struct af_project_finding_row af_project_finding_rows[] = {
#include "kit/project/findings.inc"
};
#undef AF_PROJECT_FINDING

#define EDITS_MAX 32

const char *af_project_copy_ask(struct af_project_checker *checker,
                                const struct af_project_ask *ask)
{
    return af_project_text(checker->arena, (struct af_span){ask->source->text.data + ask->start,
                                                            ask->end - ask->start});
}

struct af_project_finding *af_project_finding_add(struct af_project_checker *checker,
                                                  enum af_project_finding_id id,
                                                  const struct af_project_source *source,
                                                  size_t line)
{
    struct af_project_finding *finding = af_arena_alloc(checker->arena, sizeof *finding);
    if (finding == NULL)
        finding = &checker->spare;
    *finding = (struct af_project_finding){
        .id = id,
        .source = source,
        .line = line,
        .subject =
            af_project_text(checker->arena, af_text_trim(af_project_line(source->text, line)))};
    *checker->end = finding;
    checker->end = &finding->next;
    checker->findings->count++;
    return finding;
}

void af_project_finding_edit(struct af_project_checker *checker,
                             struct af_project_finding *finding, size_t start, size_t end,
                             const char *text)
{
    if (finding->edits == NULL)
        finding->edits = af_arena_array(checker->arena, EDITS_MAX, sizeof *finding->edits);
    if (finding->edits != NULL && text != NULL && finding->edit_count < EDITS_MAX)
        finding->edits[finding->edit_count++] = (struct af_project_edit){start, end, text};
}

const char *af_project_take(struct af_project_checker *checker, struct af_text *text)
{
    const char *taken = af_arena_text(checker->arena, af_text_get(text));
    af_text_release(text);
    return taken == NULL ? "" : taken;
}

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
    return af_project_take(checker, &text);
}

/* ---- requirements ---- */

/* The line with `version` in place of its pinned version. */
static void edit_pin(struct af_project_checker *checker, struct af_project_finding *finding,
                     const struct af_project_ask *ask, const char *version)
{
    if (ask->source != finding->source || ask->start == ask->end || ask->url[0] != '\0')
        return;
    const char *text = af_project_copy_ask(checker, ask);
    const char *name = strstr(text, ask->name);
    if (name == NULL)
        return;
    size_t start = (size_t)(name - text) + strlen(ask->name);
    const char *old = ask->specifier[0] == '\0' ? NULL : strstr(text + start, ask->specifier);
    if (old == NULL && (ask->specifier[0] != '\0' || ask->source->kind == AF_PROJECT_CONDA))
        return; /* it is written in another form, as Poetry's "^2.5" */
    size_t at = old == NULL ? start : (size_t)(old - text);
    af_project_finding_edit(checker, finding, ask->start + at,
                            ask->start + at + strlen(ask->specifier),
                            af_arena_format(checker->arena, "==%s", version));
}

/* Adds a line to the table, which may be missing. */
static void edit_table(struct af_project_checker *checker, struct af_project_finding *finding,
                       const char *header, const char *line)
{
    struct af_span text = finding->source->text;
    const char *all = af_project_text(checker->arena, text);
    const char *found = strstr(all, header);
    if (found != NULL) {
        size_t at = (size_t)(found - all) + strlen(header);
        af_project_finding_edit(checker, finding, at, at, line);
        return;
    }
    bool ends = text.len > 0 && text.data[text.len - 1] == '\n';
    af_project_finding_edit(
        checker, finding, text.len, text.len,
        af_arena_format(checker->arena, "%s%s%s", ends ? "" : "\n", header, line));
}

/* Makes a requirement of pyproject.toml an extra, as PEP 621 or Poetry has it. */
static void edit_extra(struct af_project_checker *checker, struct af_project_finding *finding,
                       const struct af_project_ask *ask)
{
    struct af_arena *arena = checker->arena;
    const char *text = af_project_copy_ask(checker, ask);
    if (text[0] == '\0' ||
        strstr(af_project_text(checker->arena, ask->source->text), "\nflash = ") != NULL)
        return;
    if (af_equal(ask->table, "project.dependencies")) {
        const char *element = af_arena_format(arena, "%s%s%s%s", ask->name, ask->specifier,
                                              ask->marker[0] == '\0' ? "" : "; ", ask->marker);
        element = element == NULL ? NULL : af_toml_quote(arena, element);
        af_project_finding_edit(checker, finding, ask->start, ask->end, "");
        edit_table(checker, finding, "\n[project.optional-dependencies]\n",
                   af_arena_format(arena, "flash = [%s]\n", element == NULL ? "" : element));
    } else if (af_equal(ask->table, "tool.poetry.dependencies") && ask->url[0] == '\0' &&
               strchr(text, '{') == NULL && strchr(text, '"') != NULL) {
        size_t start = strcspn(text, "\""), len = strcspn(text + start + 1, "\"") + 2;
        af_project_finding_edit(checker, finding, ask->start + start, ask->start + start + len,
                                af_arena_format(arena, "{ version = %.*s, optional = true }",
                                                (int)len, text + start));
        edit_table(checker, finding, "\n[tool.poetry.extras]\n",
                   af_arena_format(arena, "flash = [\"%s\"]\n", ask->name));
    }
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

/* flash-attn is required by name: names its wheels, or makes it optional. */
static void repair_build(struct af_project_checker *checker, struct af_project_finding *finding,
                         const struct af_project_ask *ask, const struct af_project_ask *torch)
{
    struct af_project_pins pins = {.flash = ask->pinned};
    if (torch != NULL && torch->pinned != NULL && ask->url[0] == '\0') {
        pins.torch = torch->pinned;
        if (af_project_edit_wheels(checker, finding, ask, &pins)) {
            finding->advice = "Name the wheels that fit the pinned torch.";
            return;
        }
    }
    checker->needs_build = true;
    if (ask->source->kind == AF_PROJECT_REQUIREMENTS && ask->start < ask->end)
        af_project_finding_edit(
            checker, finding, ask->start, ask->end,
            "# flash-attn is optional: `anyflash install` finds the wheel for the installed "
            "torch\n");
    else if (ask->source->kind == AF_PROJECT_PYPROJECT)
        edit_extra(checker, finding, ask);
    const char *tool = config_of(ask);
    finding->advice =
        tool == NULL
            ? "Make flash-attn optional: take it out of what everybody installs."
            : af_arena_format(checker->arena,
                              "Make flash-attn optional: take it out of what everybody "
                              "installs. `anyflash config %s` names a wheel.",
                              tool);
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
        ask->source, ask->line);
    pins.platforms = AF_PROJECT_ON(AF_PROJECT_LINUX_X86_64);
    for (int i = 0; i < AF_PROJECT_MACOS; i++) /* macOS has no wheels at all */
        if (af_project_platform_admits((enum af_project_platform)i, ask->marker))
            pins.platforms |= stated.platforms & AF_PROJECT_ON(i);
    finding->detail = af_arena_format(
        checker->arena, "there is no wheel of flash-attn %s for torch %s and Python %s",
        ask->pinned, torch_version, pythons_text(checker, lacking));
    if (!af_project_nearest_pins(checker->catalog, is_open ? torch->specifier : NULL,
                                 stated.python_range, &pins)) {
        checker->needs_build = true;
        finding->advice =
            "No other version of either has wheels for all of these Pythons: make "
            "flash-attn optional.";
        return;
    }
    bool is_flash = strcmp(pins.torch, torch_version) == 0;
    edit_pin(checker, finding, is_flash ? ask : torch, is_flash ? pins.flash : pins.torch);
    finding->advice = af_arena_format(
        checker->arena,
        "Pin flash-attn %s with torch %s: they have wheels. Then name these, or "
        "make flash-attn optional.",
        pins.flash, pins.torch);
}

/* Whether the pinned flash-attn lacks wheels; then adds a finding. */
static bool check_pins(struct af_project_checker *checker, const struct af_project_ask *ask,
                       const struct af_project_ask *torch)
{
    struct af_project_pythons all, with, lacking = {.count = 0};
    if (torch->pinned == NULL && torch->is_decided)
        return false;
    const char *version = torch->pinned != NULL
                              ? torch->pinned
                              : af_project_newest_torch(checker->catalog, torch->specifier);
    struct af_project_pins pins = {.flash = ask->pinned,
                                   .torch = version,
                                   .platforms = AF_PROJECT_ON(AF_PROJECT_LINUX_X86_64)};
    const char *range = af_project_stated_for(&checker->asks, ask).python_range;
    af_project_pythons_of(version, range, &all);
    with = all;
    if (all.count == 0 || !af_project_pins_are_known(checker->catalog, &pins))
        return false;
    af_project_pythons_with_wheel(checker->catalog, &pins, &with);
    for (size_t i = 0, at = 0; i < all.count; i++) {
        if (at < with.count && with.minors[at] == all.minors[i])
            at++;
        else
            lacking.minors[lacking.count++] = all.minors[i];
    }
    /* A torch that is for more Pythons than the project says something about is fine. */
    if (lacking.count == 0 || (with.count > 0 && range[0] == '\0'))
        return false;
    add_no_wheel(checker, ask, torch, version, &lacking);
    return true;
}

static void check_requirement(struct af_project_checker *checker,
                              const struct af_project_ask *ask)
{
    const struct af_project_ask *torch = af_project_torch_for(&checker->asks, ask);
    if (ask->url[0] != '\0' && strstr(ask->url, ".whl") != NULL) {
        af_project_check_wheel(checker, ask->source, ask->line, ask->url, ask, torch);
        return;
    }
    if (af_project_url_is_private(ask->url)) {
        af_project_finding_add(checker, AF_PROJECT_FINDING_PRIVATE_URL, ask->source, ask->line);
        return;
    }
    if (!ask->is_optional && checker->has_python && !checker->is_mentioned) {
        struct af_project_finding *finding = af_project_finding_add(
            checker, AF_PROJECT_FINDING_NEVER_IMPORTED, ask->source, ask->line);
        if (ask->start < ask->end)
            af_project_finding_edit(checker, finding, ask->start, ask->end, "");
        return;
    }
    if (ask->pinned != NULL && torch != NULL && check_pins(checker, ask, torch))
        return;
    if (ask->is_optional || ask->is_arranged) {
        if (torch != NULL && (ask->pinned != NULL || !ask->is_optional))
            af_project_check_platforms(checker, ask, torch->pinned, NULL);
        return;
    }
    repair_build(checker,
                 af_project_finding_add(checker, AF_PROJECT_FINDING_SOURCE_BUILD, ask->source,
                                        ask->line),
                 ask, torch);
}

/* ---- all ---- */

static void note_mentions(struct af_project_checker *checker)
{
    for (size_t i = 0; i < checker->count; i++) {
        bool is_python = checker->sources[i].kind == AF_PROJECT_PYTHON;
        checker->has_python |= is_python;
        checker->is_mentioned |= is_python && checker->asks.stated[i].python.mentions;
        struct af_span text = checker->sources[i].text;
        bool names = memmem(text.data, text.len, "flash_attn", 10) != NULL ||
                     memmem(text.data, text.len, "flash-attn", 10) != NULL;
        checker->findings->mention_count += names;
    }
}

static void check_source(struct af_project_checker *checker, size_t i)
{
    const struct af_project_source *source = &checker->sources[i];
    for (const struct af_project_ask *ask = checker->asks.first; ask != NULL; ask = ask->next)
        if (ask->source == source && !ask->is_torch)
            check_requirement(checker, ask);
    if (source->kind == AF_PROJECT_PYTHON)
        af_project_check_imports(checker, source, &checker->asks.stated[i].python);
    if (source->kind == AF_PROJECT_DOCKERFILE || source->kind == AF_PROJECT_SCRIPT ||
        source->kind == AF_PROJECT_README)
        af_project_check_commands(checker, source);
}

enum anyflash_status af_project_findings_make(struct af_arena *arena,
                                              const struct af_project_source *sources,
                                              size_t count, const struct af_catalog *catalog,
                                              enum af_fallback fallback,
                                              struct af_project_findings *findings_out,
                                              struct anyflash_error *err)
{
    struct af_project_checker checker = {.arena = arena,
                                         .sources = sources,
                                         .count = count,
                                         .catalog = catalog,
                                         .fallback = fallback,
                                         .findings = findings_out,
                                         .end = &findings_out->first};
    size_t failures = af_mem_failure_count();
    *findings_out = (struct af_project_findings){0};
    enum anyflash_status status =
        af_project_asks_read(arena, sources, count, &checker.asks, err);
    if (status != ANYFLASH_OK)
        return status;
    note_mentions(&checker);
    for (size_t i = 0; i < count && !arena->failed; i++)
        check_source(&checker, i);
    if (checker.needs_build && checker.explained == NULL)
        af_project_explain_build(&checker);
    /* A file or a wheel that was not looked at for lack of memory is no answer. */
    return arena->failed || af_mem_failure_count() != failures ? af_fail_memory(err)
                                                               : ANYFLASH_OK;
}

size_t af_project_findings_edits(const struct af_project_findings *findings,
                                 const struct af_project_source *source, struct af_arena *arena,
                                 const struct af_project_edit **edits_out)
{
    size_t count = 0;
    const struct af_project_finding *at = findings->first;
    for (; at != NULL; at = at->next)
        count += at->source == source ? at->edit_count : 0;
    struct af_project_edit *edits = af_arena_array(arena, count + 1, sizeof *edits);
    *edits_out = edits;
    count = 0;
    for (at = findings->first; edits != NULL && at != NULL; at = at->next)
        for (size_t i = 0; at->source == source && i < at->edit_count; i++)
            edits[count++] = at->edits[i];
    if (edits != NULL && source == findings->page)
        edits[count++] = findings->section;
    return af_project_edits_order(edits, count);
}
