/*
 * findings.c: the checks of requirements, of wheels that are named by their URL, and of
 * platforms without a wheel. Each check looks at one requirement and adds at most one
 * finding; import_findings.c and command_findings.c have the other checks. What has to change
 * is decided here; the caller shows it.
 */
#include "kit/project/findings.h"

#include <string.h>

#include "kit/base/url.h"
#include "kit/formats/toml.h"
#include "kit/formats/wheel_name.h"
#include "kit/project/requirements.h"

#define AF_PROJECT_FINDING(id, name, title, why, fix) {name, title, why, fix},
const struct af_project_finding_row af_project_finding_rows[] = {
#include "kit/project/findings.inc"
};
#undef AF_PROJECT_FINDING

#define SUBJECT_BYTES_MAX 512
#define LINUX "sys_platform == 'linux' and platform_machine == 'x86_64'"

/* The requirement as it is written, copied. */
static const char *copy_ask(struct af_project_checker *checker,
                            const struct af_project_ask *ask)
{
    return af_project_text(checker->arena, (struct af_span){ask->source->text.data + ask->start,
                                                            ask->end - ask->start});
}

/* The number of the line with byte `at`. Counts from the last finding on, if it can. */
static size_t number_line(struct af_project_checker *checker,
                          const struct af_project_source *source, size_t at)
{
    if (checker->counted != source || at < checker->counted_at) {
        checker->counted = source;
        checker->counted_at = 0;
        checker->counted_line = 1;
    }
    checker->counted_line += af_project_lines_between(source->text, checker->counted_at, at);
    checker->counted_at = at;
    return checker->counted_line;
}

bool af_project_is_stopped(const struct af_project_checker *checker)
{
    return checker->findings->limit != AF_PROJECT_LIMIT_NONE || checker->wheels.is_full ||
           checker->arena->failed;
}

struct af_project_finding *af_project_finding_add(struct af_project_checker *checker,
                                                  enum af_project_finding_id id,
                                                  const struct af_project_source *source,
                                                  size_t at)
{
    struct af_project_finding *finding = NULL;
    if (checker->findings->count >= AF_PROJECT_FINDINGS_MAX)
        checker->findings->limit = AF_PROJECT_LIMIT_FINDINGS;
    else
        finding = af_arena_alloc(checker->arena, sizeof *finding);
    if (finding == NULL) {
        checker->spare = (struct af_project_finding){.id = id, .source = source};
        return &checker->spare;
    }
    struct af_span line = af_text_trim(af_project_line(source->text, at));
    line.len = line.len < SUBJECT_BYTES_MAX ? line.len : SUBJECT_BYTES_MAX;
    *finding = (struct af_project_finding){.id = id,
                                           .source = source,
                                           .line = number_line(checker, source, at),
                                           .subject = af_project_text(checker->arena, line)};
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
        finding->edits = af_arena_array(checker->arena, AF_PROJECT_FINDING_EDITS_MAX,
                                        sizeof *finding->edits);
    if (finding->edits != NULL && text != NULL &&
        finding->edit_count < AF_PROJECT_FINDING_EDITS_MAX)
        finding->edits[finding->edit_count++] = (struct af_project_edit){start, end, text};
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
    return af_text_take(&text, checker->arena);
}

/* ---- wheels ---- */

/*
 * Replaces a requirement by one for each wheel with these pins. Only in files for installers:
 * PyPI refuses packages whose dependencies are URLs. False if there are none.
 */
static bool edit_wheels(struct af_project_checker *checker, struct af_project_finding *finding,
                        const struct af_project_ask *ask, const struct af_project_pins *pins)
{
    struct af_project_pythons pythons;
    struct af_text lines = {0};
    enum af_project_kind kind = ask->source->kind;
    if ((kind != AF_PROJECT_REQUIREMENTS && kind != AF_PROJECT_CONDA) || ask->start == ask->end)
        return false;
    const char *start = ask->source->text.data + ask->start;
    size_t prefix = 0; /* of an item: "      - " */
    while (kind == AF_PROJECT_CONDA && (start[prefix] == ' ' || start[prefix] == '-'))
        prefix++;
    af_project_pythons_of(pins->torch, af_project_stated_for(&checker->asks, ask).python_range,
                          &pythons);
    for (size_t i = 0; i < pythons.count; i++) {
        const struct af_catalog_wheel *wheel =
            af_project_wheel(&checker->wheels, pins, pythons.minors[i]);
        if (wheel == NULL || wheel->url == NULL ||
            (ask->url[0] == '\0' &&
             af_project_allows(ask->specifier, wheel->version) != AF_YES))
            continue;
        const char *url =
            af_url_with_sha256(checker->arena, af_url_encode_plus(checker->arena, wheel->url),
                               af_catalog_sha256(checker->arena, wheel));
        af_text_format(&lines, "%.*s%s @ %s ; python_version == '3.%d' and " LINUX "\n",
                       (int)prefix, start, ask->name, url == NULL ? "" : url,
                       pythons.minors[i]);
    }
    const char *text = af_text_take(&lines, checker->arena);
    if (text[0] != '\0')
        af_project_finding_edit(checker, finding, ask->start, ask->end, text);
    return finding->edit_count > 0;
}

/* The one Python minor of a wheel "cp310-cp310"; -1: it is for several. */
static int only_python(const struct af_wheel_name *wheel)
{
    int64_t minor;
    bool is_one = af_starts_with(wheel->python, "cp3") && strcmp(wheel->abi, "abi3") != 0 &&
                  af_parse_i64(wheel->python + 3, 0, 99, &minor);
    return is_one ? (int)minor : -1;
}

/* Whether the host is a number, or a name of a local network: of one word, or below these. */
static bool is_private_host(struct af_span host)
{
    static const char *const ends[] = {".local", ".internal", ".lan", ".corp", ".intranet"};
    if (memchr(host.data, '.', host.len) == NULL ||
        (unsigned)host.data[host.len - 1] - '0' < 10)
        return true;
    for (size_t i = 0; i < AF_COUNT(ends); i++) {
        size_t len = strlen(ends[i]);
        if (host.len > len && memcmp(host.data + host.len - len, ends[i], len) == 0)
            return true;
    }
    return false;
}

/* Whether only the author may be able to reach the URL: it is local, or needs a password. */
static bool is_private(const char *url)
{
    const char *start = strstr(url, "://");
    if (start == NULL || af_starts_with(url, "file:"))
        return url[0] == '/' || url[0] == '~' || af_starts_with(url, "../") ||
               af_starts_with(url, "file:");
    start += 3;
    struct af_span host = {start, strcspn(start, "/?#")};
    const char *user = memchr(host.data, '@', host.len);
    host.len = user != NULL ? 0 : strcspn(start, ":/?#");
    return host.len == 0 || is_private_host(host);
}

/* The C++ ABI of the torch that is pinned; an index such as ".../whl/cu126" names its build. */
static enum af_answer torch_abi(struct af_project_checker *checker,
                                const struct af_project_ask *torch)
{
    const char *build = torch->pinned;
    struct af_span text = torch->source->text;
    const char *index = memmem(text.data, text.len, "/whl/cu", strlen("/whl/cu"));
    if (index != NULL && strchr(build, '+') == NULL)
        build = af_arena_format(checker->arena, "%s+cu%.*s", build,
                                (int)strspn(index + 7, "0123456789"), index + 7);
    const struct af_catalog_torch_variant *variant = af_project_usual_build(build);
    return variant == NULL ? AF_UNKNOWN : variant->cxx11abi;
}

/* The C++ ABI of a published wheel, which may differ from the one in its name. */
static enum af_answer wheel_abi(const struct af_catalog *catalog, const char *file)
{
    for (size_t i = 0; i < catalog->count; i++)
        if (strcmp(catalog->wheels[i].filename, file) == 0)
            return catalog->wheels[i].cxx11abi_effective;
    return AF_UNKNOWN;
}

/* How the wheel `file` differs from the pinned torch; NULL: in nothing that is known. */
static const char *difference(struct af_project_checker *checker, const char *file,
                              const char *built_for, const struct af_project_ask *torch)
{
    size_t len = strlen(built_for);
    if (len > 0 && (strncmp(torch->pinned, built_for, len) != 0 ||
                    strchr(".+", torch->pinned[len]) == NULL))
        return af_arena_format(checker->arena, "the wheel is for torch %s, the project pins %s",
                               built_for, torch->pinned);
    enum af_answer wheel = wheel_abi(checker->wheels.catalog, file),
                   abi = torch_abi(checker, torch);
    return wheel == AF_UNKNOWN || abi == AF_UNKNOWN || wheel == abi
               ? NULL
               : af_arena_format(checker->arena,
                                 "the wheel has the %s C++ ABI, torch %s has the %s one",
                                 wheel == AF_YES ? "new" : "old", torch->pinned,
                                 abi == AF_YES ? "new" : "old");
}

/* Whether the wheel is for one Python of several. */
static bool is_for_one(struct af_project_checker *checker, int only, const char *built_for,
                       const struct af_project_ask *ask)
{
    const char *range = af_project_stated_for(&checker->asks, ask).python_range;
    struct af_project_pythons pythons;
    af_project_pythons_of(built_for[0] != '\0' ? built_for : "2.6", range, &pythons);
    return only >= 0 && (ask == NULL || strstr(ask->marker, "python_") == NULL) &&
           (pythons.count > 1 || (pythons.count == 1 && pythons.minors[0] != only));
}

/* ---- platforms ---- */

/* Whether any Python of the project has a wheel there. */
static bool has_wheel(struct af_project_checker *checker, const struct af_project_ask *ask,
                      const char *torch, enum af_project_platform platform)
{
    struct af_project_pythons pythons;
    struct af_project_pins pins = {
        .flash = ask->pinned, .torch = torch, .platforms = AF_PROJECT_ON(platform)};
    af_project_pythons_of(torch, af_project_stated_for(&checker->asks, ask).python_range,
                          &pythons);
    if (platform != AF_PROJECT_MACOS &&
        (pythons.count == 0 ||
         (ask->pinned != NULL && !af_project_pins_are_known(checker->wheels.catalog, &pins))))
        return true; /* or unknown */
    af_project_pythons_with_wheel(&checker->wheels, &pins, &pythons);
    return pythons.count > 0;
}

/* Puts LINUX behind the requirement, or before the marker that it has. */
static void edit_marker(struct af_project_checker *checker, struct af_project_finding *finding,
                        const struct af_project_ask *ask)
{
    bool is_line = ask->source->kind == AF_PROJECT_REQUIREMENTS;
    bool is_string = ask->table != NULL && af_starts_with(ask->table, "project.");
    const char *text = copy_ask(checker, ask);
    const char *name = strstr(text, ask->name);
    if ((!is_line && !is_string) || name == NULL || ask->marker[0] != '\0')
        return;
    size_t at = (size_t)(name - text);
    at += strcspn(name, is_line ? "\n" : "\"'\n");
    const char *comment = is_line ? strstr(name, " #") : NULL;
    if (comment != NULL)
        at = (size_t)(comment - text);
    while (at > 0 && (text[at - 1] == ' ' || text[at - 1] == '\r'))
        at--;
    const char quote = is_line ? '"' : text[at];
    const char *marker = quote == '\''
                             ? " ; sys_platform == \"linux\" and platform_machine == \"x86_64\""
                             : " ; " LINUX;
    af_project_finding_edit(checker, finding, ask->start + at, ask->start + at, marker);
}

/*
 * Checks that flash-attn has a wheel for `torch` on each platform that the project supports and
 * that the requirement's marker allows. `wheel`: the wheel that the requirement names, or NULL.
 */
static void check_platforms(struct af_project_checker *checker,
                            const struct af_project_ask *ask, const char *torch,
                            const struct af_wheel_name *wheel)
{
    unsigned stated = af_project_stated_for(&checker->asks, ask).platforms;
    struct af_text lacking = {0};
    if (stated == 0)
        stated = AF_PROJECT_ON(AF_PROJECT_LINUX_X86_64);
    for (int i = 0; i < AF_PROJECT_PLATFORM_COUNT; i++) {
        enum af_project_platform platform = (enum af_project_platform)i;
        if ((stated & AF_PROJECT_ON(i)) == 0 ||
            !af_project_platform_admits(platform, ask->marker) ||
            (wheel != NULL ? af_project_platform_takes(platform, wheel->platform)
                           : has_wheel(checker, ask, torch, platform)))
            continue;
        af_text_format(&lacking, "%s%s", lacking.len == 0 ? "" : ", ",
                       af_project_platform_name(platform));
    }
    const char *names = af_text_take(&lacking, checker->arena);
    if (names[0] == '\0')
        return;
    struct af_project_finding *finding = af_project_finding_add(
        checker, AF_PROJECT_FINDING_OTHER_PLATFORM, ask->source, ask->at);
    finding->detail = wheel == NULL
                          ? af_arena_format(checker->arena, "there is none for %s", names)
                          : af_arena_format(checker->arena, "this wheel is for %s, not for %s",
                                            wheel->platform, names);
    edit_marker(checker, finding, ask);
}

void af_project_check_wheel(struct af_project_checker *checker,
                            const struct af_project_source *source, size_t at, const char *url,
                            const struct af_project_ask *ask,
                            const struct af_project_ask *torch)
{
    struct af_wheel_name wheel;
    struct af_wheel_local local;
    const char *file = af_url_file_name(checker->arena, url);
    if (file == NULL || strchr(url, '$') != NULL || strchr(url, '{') != NULL ||
        af_wheel_name_parse(file, strlen(file), &wheel) != AF_WHEEL_NAME_VALID)
        return;
    af_wheel_local_parse(wheel.version.local, AF_FORMATS_TORCH_DIGITS_NONE, &local);
    bool is_pinned = torch != NULL && torch->pinned != NULL;
    const char *for_torch = is_pinned ? torch->pinned : local.torch;
    const char *detail = NULL;
    enum af_project_finding_id id = AF_PROJECT_FINDING_COUNT;
    int only = only_python(&wheel);
    if (ask != NULL && is_private(url)) {
        id = AF_PROJECT_FINDING_PRIVATE_URL;
    } else if (is_pinned && (detail = difference(checker, file, local.torch, torch)) != NULL) {
        id = AF_PROJECT_FINDING_OTHER_TORCH;
    } else if (is_for_one(checker, only, local.torch, ask)) {
        id = AF_PROJECT_FINDING_ONE_PYTHON;
        detail = af_arena_format(checker->arena, "it is for Python 3.%d", only);
    } else if (ask != NULL) {
        check_platforms(checker, ask, for_torch, &wheel);
    }
    if (id == AF_PROJECT_FINDING_COUNT)
        return;
    struct af_project_finding *finding = af_project_finding_add(checker, id, source, at);
    finding->detail = detail;
    if (ask == NULL || for_torch[0] == '\0')
        return;
    char version[AF_WHEEL_NAME_BYTES];
    struct af_project_pins pins = {
        .flash = af_version_format(&wheel.version, false, version, sizeof version),
        .torch = for_torch};
    edit_wheels(checker, finding, ask, &pins);
}

/* ---- requirements ---- */

/* The line with `version` in place of its pinned version. */
static void edit_pin(struct af_project_checker *checker, struct af_project_finding *finding,
                     const struct af_project_ask *ask, const char *version)
{
    if (ask->source != finding->source || ask->start == ask->end || ask->url[0] != '\0')
        return;
    const char *text = copy_ask(checker, ask);
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
    const char *found = memmem(text.data, text.len, header, strlen(header));
    if (found != NULL) {
        size_t at = (size_t)(found - text.data) + strlen(header);
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
    static const char taken[] = "\nflash = ";
    const char *text = copy_ask(checker, ask);
    struct af_span all = ask->source->text;
    if (text[0] == '\0' || checker->extended == ask->source ||
        memmem(all.data, all.len, taken, strlen(taken)) != NULL)
        return;
    checker->extended = ask->source;
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
        if (edit_wheels(checker, finding, ask, &pins)) {
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
        ask->source, ask->at);
    pins.platforms = AF_PROJECT_ON(AF_PROJECT_LINUX_X86_64);
    for (int i = 0; i < AF_PROJECT_MACOS; i++) /* macOS has no wheels at all */
        if (af_project_platform_admits((enum af_project_platform)i, ask->marker))
            pins.platforms |= stated.platforms & AF_PROJECT_ON(i);
    finding->detail = af_arena_format(
        checker->arena, "there is no wheel of flash-attn %s for torch %s and Python %s",
        ask->pinned, torch_version, pythons_text(checker, lacking));
    if (!af_project_nearest_pins(&checker->wheels, is_open ? torch->specifier : NULL,
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
    const char *version =
        torch->pinned != NULL
            ? torch->pinned
            : af_project_newest_torch(checker->wheels.catalog, torch->specifier);
    struct af_project_pins pins = {.flash = ask->pinned,
                                   .torch = version,
                                   .platforms = AF_PROJECT_ON(AF_PROJECT_LINUX_X86_64)};
    const char *range = af_project_stated_for(&checker->asks, ask).python_range;
    af_project_pythons_of(version, range, &all);
    with = all;
    if (all.count == 0 || !af_project_pins_are_known(checker->wheels.catalog, &pins))
        return false;
    af_project_pythons_with_wheel(&checker->wheels, &pins, &with);
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
        af_project_check_wheel(checker, ask->source, ask->at, ask->url, ask, torch);
        return;
    }
    if (is_private(ask->url)) {
        af_project_finding_add(checker, AF_PROJECT_FINDING_PRIVATE_URL, ask->source, ask->at);
        return;
    }
    if (!ask->is_optional && checker->has_python && !checker->is_mentioned) {
        struct af_project_finding *finding = af_project_finding_add(
            checker, AF_PROJECT_FINDING_NEVER_IMPORTED, ask->source, ask->at);
        if (ask->start < ask->end)
            af_project_finding_edit(checker, finding, ask->start, ask->end, "");
        return;
    }
    if (ask->pinned != NULL && torch != NULL && check_pins(checker, ask, torch))
        return;
    if (ask->is_optional || ask->is_arranged) {
        if (torch != NULL && (ask->pinned != NULL || !ask->is_optional))
            check_platforms(checker, ask, torch->pinned, NULL);
        return;
    }
    repair_build(
        checker,
        af_project_finding_add(checker, AF_PROJECT_FINDING_SOURCE_BUILD, ask->source, ask->at),
        ask, torch);
}

/* ---- all ---- */

/* Whether the source is of a package flash_attn, as flash-attn's own are. */
static bool is_own(const char *path)
{
    static const char own[] = "flash_attn/__init__.py";
    size_t len = strlen(path);
    return af_ends_with(path, own) && (len == sizeof own - 1 || path[len - sizeof own] == '/');
}

static void note_mentions(struct af_project_checker *checker)
{
    for (size_t i = 0; i < checker->count; i++) {
        bool is_python = checker->sources[i].kind == AF_PROJECT_PYTHON;
        checker->has_python |= is_python;
        checker->is_flash_attn |= is_own(checker->sources[i].path);
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
    const struct af_project_ask *ask = checker->asks.first;
    for (; ask != NULL && !af_project_is_stopped(checker); ask = ask->next)
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
                                         .wheels = {.catalog = catalog, .arena = arena},
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
    for (size_t i = 0; i < count && !af_project_is_stopped(&checker); i++)
        check_source(&checker, i);
    if (findings_out->limit == AF_PROJECT_LIMIT_NONE)
        findings_out->limit =
            checker.wheels.is_full ? AF_PROJECT_LIMIT_LOOKUPS : checker.asks.limit;
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
