/*
 * findings.c: the checks. Each looks at one requirement, import or command and adds at most one
 * finding; what a change has to be is decided here, how it is shown by the caller.
 */
#include "kit/project/findings_checker.h"

#include <string.h>

#include "kit/base/url.h"
#include "kit/formats/toml.h"
#include "kit/formats/wheel_name.h"
#include "kit/project/project_wheels.h"

#define AF_PROJECT_FINDING(id, name, title, why, fix) {name, title, why, fix},
const struct af_project_finding_row af_project_finding_rows[] = {
#include "kit/project/findings.inc"
};
#undef AF_PROJECT_FINDING

#define EDITS_MAX 32
#define LINUX "sys_platform == 'linux' and platform_machine == 'x86_64'"

const char *af_project_copy(struct af_project_checker *checker, struct af_span span)
{
    return af_arena_text_n(checker->arena, span.data, span.len);
}

struct af_project_finding *af_project_finding_add(struct af_project_checker *checker,
                                                  enum af_project_finding_id id,
                                                  const struct af_project_source *source,
                                                  size_t line)
{
    struct af_project_finding *finding = af_arena_alloc(checker->arena, sizeof *finding);
    if (finding == NULL)
        return NULL;
    finding->id = id;
    finding->source = source;
    finding->line = line;
    finding->subject =
        af_project_copy(checker, af_text_trim(af_project_line(source->text, line)));
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

/* The text in the arena; releases it. */
static const char *take_text(struct af_project_checker *checker, struct af_text *text)
{
    const char *taken = af_arena_text(checker->arena, af_text_get(text));
    af_text_release(text);
    return taken;
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
    return take_text(checker, &text);
}

/* ---- requirements ---- */

/* The line with `version` in place of its pinned version. */
static void edit_pin(struct af_project_checker *checker, struct af_project_finding *finding,
                     const struct af_project_ask *ask, const char *version)
{
    if (ask->source != finding->source || ask->start == ask->end || ask->url[0] != '\0')
        return;
    const char *text = af_project_copy(
        checker, (struct af_span){ask->source->text.data + ask->start, ask->end - ask->start});
    const char *name = text == NULL ? NULL : strstr(text, ask->name);
    if (name == NULL)
        return;
    size_t start = (size_t)(name - text) + strlen(ask->name);
    const char *old = ask->specifier[0] == '\0' ? NULL : strstr(text + start, ask->specifier);
    size_t at = old == NULL ? start : (size_t)(old - text);
    af_project_finding_edit(checker, finding, ask->start + at,
                            ask->start + at + strlen(ask->specifier),
                            af_arena_format(checker->arena, "==%s", version));
}

/* Whether the requirement allows the version of the wheel. */
static bool allows(const struct af_project_ask *ask, const struct af_catalog_wheel *wheel)
{
    struct af_version version;
    return ask->url[0] != '\0' ||
           (af_version_parse(wheel->version, strlen(wheel->version), &version) &&
            af_specifier_contains(ask->specifier, &version) == AF_YES);
}

/*
 * Replaces the line by one for each wheel. Only for requirements files: PyPI refuses packages
 * whose dependencies are URLs.
 */
static bool edit_urls(struct af_project_checker *checker, struct af_project_finding *finding,
                      const struct af_project_ask *ask, const struct af_project_pins *pins)
{
    struct af_project_pythons pythons;
    struct af_text lines = {0};
    if (ask->source->kind != AF_PROJECT_REQUIREMENTS || ask->start == ask->end)
        return false;
    af_project_pythons_of(pins->torch, checker->asks.python_range, &pythons);
    for (size_t i = 0; i < pythons.count; i++) {
        const struct af_catalog_wheel *wheel;
        if (af_project_wheel(checker->catalog, pins, pythons.minors[i], &wheel, checker->err) !=
                ANYFLASH_OK ||
            wheel == NULL || wheel->url == NULL || !allows(ask, wheel))
            continue;
        const char *url =
            af_url_with_sha256(checker->arena, af_url_encode_plus(checker->arena, wheel->url),
                               af_catalog_sha256(checker->arena, wheel));
        af_text_format(&lines, "%s @ %s ; python_version == '3.%d' and " LINUX "\n", ask->name,
                       url == NULL ? "" : url, pythons.minors[i]);
    }
    bool is_empty = lines.len == 0;
    const char *text = take_text(checker, &lines);
    if (!is_empty)
        af_project_finding_edit(checker, finding, ask->start, ask->end, text);
    return finding->edit_count > 0;
}

/* Moves an element of `dependencies` into an extra; the first extra if there are some. */
static void edit_extra(struct af_project_checker *checker, struct af_project_finding *finding,
                       const struct af_project_ask *ask)
{
    static const char table[] = "\n[project.optional-dependencies]\n";
    struct af_span text = ask->source->text;
    const char *all = af_project_copy(checker, text);
    if (all == NULL || ask->start == ask->end || strstr(all, "\nflash = ") != NULL)
        return;
    const char *element = af_arena_format(checker->arena, "%s%s%s%s", ask->name, ask->specifier,
                                          ask->marker[0] == '\0' ? "" : "; ", ask->marker);
    element = element == NULL ? NULL : af_toml_quote(checker->arena, element);
    const char *line =
        af_arena_format(checker->arena, "flash = [%s]\n", element == NULL ? "" : element);
    const char *found = strstr(all, table);
    af_project_finding_edit(checker, finding, ask->start, ask->end, "");
    if (found != NULL) {
        size_t at = (size_t)(found - all) + sizeof table - 1;
        af_project_finding_edit(checker, finding, at, at, line);
        return;
    }
    bool ends = text.len > 0 && text.data[text.len - 1] == '\n';
    af_project_finding_edit(
        checker, finding, text.len, text.len,
        af_arena_format(checker->arena, "%s%s%s", ends ? "" : "\n", table, line));
}

/* flash-attn is required by name: names its wheels, or makes it optional. */
static void repair_build(struct af_project_checker *checker, struct af_project_finding *finding,
                         const struct af_project_ask *ask, const struct af_project_ask *torch)
{
    struct af_project_pins pins = {.flash = ask->pinned};
    if (torch != NULL && torch->pinned != NULL) {
        pins.torch = torch->pinned;
        if (edit_urls(checker, finding, ask, &pins)) {
            finding->advice = "Name the wheels that fit the pinned torch.";
            return;
        }
    }
    if (ask->source->kind == AF_PROJECT_REQUIREMENTS && ask->start < ask->end)
        af_project_finding_edit(
            checker, finding, ask->start, ask->end,
            "# flash-attn is optional: `anyflash install` finds the wheel for the installed "
            "torch\n");
    else if (ask->source->kind == AF_PROJECT_PYPROJECT)
        edit_extra(checker, finding, ask);
    finding->advice = "Make flash-attn optional: take it out of what everybody installs.";
}

static void add_no_wheel(struct af_project_checker *checker, const struct af_project_ask *ask,
                         const struct af_project_ask *torch, const char *torch_version,
                         const struct af_project_pythons *lacking)
{
    struct af_project_pins nearest, pins = {ask->pinned, torch_version};
    bool is_open = torch->pinned == NULL;
    struct af_project_finding *finding = af_project_finding_add(
        checker, is_open ? AF_PROJECT_FINDING_OPEN_TORCH : AF_PROJECT_FINDING_NO_WHEEL,
        ask->source, ask->line);
    if (finding == NULL ||
        af_project_nearest_pins(checker->catalog, &pins, is_open ? torch->specifier : NULL,
                                checker->asks.python_range, &nearest,
                                checker->err) != ANYFLASH_OK)
        return;
    finding->detail = af_arena_format(
        checker->arena, "there is no wheel of flash-attn %s for torch %s and Python %s",
        ask->pinned, torch_version, pythons_text(checker, lacking));
    if (nearest.torch == NULL) {
        finding->advice =
            "No other version of either has wheels for all of these Pythons: make "
            "flash-attn optional.";
        return;
    }
    bool is_flash = strcmp(nearest.torch, torch_version) == 0;
    edit_pin(checker, finding, is_flash ? ask : torch,
             is_flash ? nearest.flash : nearest.torch);
    finding->advice = af_arena_format(
        checker->arena,
        "Pin flash-attn %s with torch %s: they have wheels. Then name these, or "
        "make flash-attn optional.",
        nearest.flash, nearest.torch);
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
    struct af_project_pins pins = {ask->pinned, version};
    af_project_pythons_of(version, checker->asks.python_range, &all);
    with = all;
    if (all.count == 0 || !af_project_pins_are_known(checker->catalog, &pins) ||
        af_project_pythons_with_wheel(checker->catalog, &pins, &with, checker->err) !=
            ANYFLASH_OK)
        return false;
    for (size_t i = 0, at = 0; i < all.count; i++) {
        if (at < with.count && with.minors[at] == all.minors[i])
            at++;
        else
            lacking.minors[lacking.count++] = all.minors[i];
    }
    /* A torch that is for more Pythons than the project says something about is fine. */
    if (lacking.count == 0 || (with.count > 0 && checker->asks.python_range[0] == '\0'))
        return false;
    add_no_wheel(checker, ask, torch, version, &lacking);
    return true;
}

/* The one Python minor of a wheel "cp310-cp310"; -1: it is for several. */
static int only_python(const struct af_wheel_name *wheel)
{
    int64_t minor;
    bool is_one = af_starts_with(wheel->python, "cp3") && strcmp(wheel->abi, "abi3") != 0 &&
                  af_parse_i64(wheel->python + 3, 0, 99, &minor);
    return is_one ? (int)minor : -1;
}

void af_project_check_wheel(struct af_project_checker *checker,
                            const struct af_project_source *source, size_t line,
                            const char *url, const struct af_project_ask *ask,
                            const struct af_project_ask *torch)
{
    struct af_wheel_name wheel;
    struct af_wheel_local local;
    struct af_project_pythons pythons;
    const char *file = af_url_file_name(checker->arena, url);
    if (file == NULL || strchr(url, '$') != NULL || strchr(url, '{') != NULL ||
        af_wheel_name_parse(file, strlen(file), &wheel) != AF_WHEEL_NAME_VALID)
        return;
    af_wheel_local_parse(wheel.version.local, AF_FORMATS_TORCH_DIGITS_NONE, &local);
    const char *for_torch =
        torch != NULL && torch->pinned != NULL ? torch->pinned : local.torch;
    size_t len = strlen(local.torch);
    struct af_project_finding *finding = NULL;
    af_project_pythons_of(local.torch[0] != '\0' ? local.torch : "2.6",
                          checker->asks.python_range, &pythons);
    if (len > 0 &&
        (strncmp(for_torch, local.torch, len) != 0 || strchr(".+", for_torch[len]) == NULL)) {
        finding = af_project_finding_add(checker, AF_PROJECT_FINDING_OTHER_TORCH, source, line);
        if (finding != NULL)
            finding->detail = af_arena_format(checker->arena,
                                              "the wheel is for torch %s, the project pins %s",
                                              local.torch, for_torch);
    } else if (only_python(&wheel) >= 0 &&
               (ask == NULL || strstr(ask->marker, "python_") == NULL) &&
               (pythons.count > 1 ||
                (pythons.count == 1 && pythons.minors[0] != only_python(&wheel)))) {
        finding = af_project_finding_add(checker, AF_PROJECT_FINDING_ONE_PYTHON, source, line);
        if (finding != NULL)
            finding->detail =
                af_arena_format(checker->arena, "it is for Python 3.%d", only_python(&wheel));
    }
    if (finding == NULL || ask == NULL || for_torch[0] == '\0')
        return;
    char version[AF_WHEEL_NAME_BYTES];
    struct af_project_pins pins = {
        af_version_format(&wheel.version, false, version, sizeof version), for_torch};
    edit_urls(checker, finding, ask, &pins);
}

static void check_requirement(struct af_project_checker *checker,
                              const struct af_project_ask *ask)
{
    const struct af_project_ask *torch = af_project_torch_for(&checker->asks, ask);
    if (ask->url[0] != '\0') {
        af_project_check_wheel(checker, ask->source, ask->line, ask->url, ask, torch);
        return;
    }
    if (!ask->is_optional && checker->has_python && !checker->is_mentioned) {
        struct af_project_finding *finding = af_project_finding_add(
            checker, AF_PROJECT_FINDING_NEVER_IMPORTED, ask->source, ask->line);
        if (finding != NULL && ask->start < ask->end)
            af_project_finding_edit(checker, finding, ask->start, ask->end, "");
        return;
    }
    if (ask->pinned != NULL && torch != NULL && check_pins(checker, ask, torch))
        return;
    struct af_project_finding *finding =
        ask->is_optional ? NULL
                         : af_project_finding_add(checker, AF_PROJECT_FINDING_SOURCE_BUILD,
                                                  ask->source, ask->line);
    if (finding != NULL)
        repair_build(checker, finding, ask, torch);
}

/* ---- all ---- */

static void note_mentions(struct af_project_checker *checker)
{
    for (size_t i = 0; i < checker->count; i++) {
        bool is_python = checker->sources[i].kind == AF_PROJECT_PYTHON;
        checker->has_python |= is_python;
        checker->is_mentioned |= is_python && checker->asks.python[i].mentions;
        struct af_span text = checker->sources[i].text;
        bool names = false;
        for (size_t at = 0; !names && at + 10 <= text.len; at++)
            names = memcmp(text.data + at, "flash", 5) == 0 &&
                    (text.data[at + 5] == '_' || text.data[at + 5] == '-') &&
                    memcmp(text.data + at + 6, "attn", 4) == 0;
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
        af_project_check_imports(checker, source, &checker->asks.python[i]);
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
                                         .end = &findings_out->first,
                                         .err = err};
    size_t failures = af_mem_failure_count();
    *findings_out = (struct af_project_findings){0};
    enum anyflash_status status =
        af_project_asks_read(arena, sources, count, &checker.asks, err);
    if (status != ANYFLASH_OK)
        return status;
    note_mentions(&checker);
    for (size_t i = 0; i < count && !arena->failed; i++)
        check_source(&checker, i);
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
    return af_project_edits_order(edits, count);
}
