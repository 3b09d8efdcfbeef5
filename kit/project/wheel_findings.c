/*
 * wheel_findings.c: wheels that are named by their URL, names of wheels in place of a
 * requirement, platforms without a wheel, and an index that has wheels for several torches.
 */
#include "kit/project/checker.h"

#include <stdio.h>
#include <string.h>

#include "kit/base/url.h"
#include "kit/fit/fit.h"
#include "kit/fit/rung.h"
#include "kit/formats/wheel_name.h"
#include "kit/project/requirements.h"

#define LINUX "sys_platform == 'linux' and platform_machine == 'x86_64'"

/* The advice, with the publishers of wheels that are not flash-attn's own. */
static const char *name_publishers(struct af_project_checker *checker, const char *publishers)
{
    static const char advice[] = "Name the wheels that fit the pinned torch";
    return publishers[0] == '\0'
               ? af_arena_format(checker->arena, "%s.", advice)
               : af_arena_format(checker->arena, "%s. Those of %s are community builds.",
                                 advice, publishers);
}

/* A line for each Python that has a wheel of a version that is asked for. */
static void add_wheels(struct af_project_checker *checker, const struct af_project_ask *ask,
                       const struct af_project_pins *pins, struct af_span prefix,
                       struct af_text *lines, struct af_text *publishers)
{
    struct af_arena *arena = checker->arena;
    struct af_project_pythons pythons;
    af_project_pythons_of(pins->torch, af_project_stated_for(&checker->asks, ask).python_range,
                          &pythons);
    for (size_t i = 0; i < pythons.count; i++) {
        const struct af_catalog_wheel *wheel =
            af_project_wheel(checker->wheels, pins, pythons.minors[i]);
        if (wheel == NULL || wheel->url == NULL ||
            (ask->url[0] == '\0' &&
             af_project_allows(ask->specifier, wheel->version) != AF_YES))
            continue;
        const char *url = af_url_with_sha256(arena, af_url_encode_plus(arena, wheel->url),
                                             af_catalog_sha256(arena, wheel));
        const char *publisher = wheel->official ? NULL : af_fit_publisher(arena, wheel);
        af_text_format(lines, "%.*s%s @ %s ; python_version == '3.%d' and " LINUX "\n",
                       (int)prefix.len, prefix.data, ask->name, url, pythons.minors[i]);
        if (publisher != NULL && strstr(af_text_get(publishers), publisher) == NULL)
            af_text_format(publishers, "%s%s", publishers->len > 0 ? ", " : "", publisher);
    }
}

bool af_project_edit_wheels(struct af_project_checker *checker,
                            struct af_project_finding *finding,
                            const struct af_project_ask *ask,
                            const struct af_project_pins *pins)
{
    struct af_arena *arena = checker->arena;
    struct af_text lines = {0}, publishers = {0};
    enum af_project_kind kind = ask->source->kind;
    if ((kind != AF_PROJECT_REQUIREMENTS && kind != AF_PROJECT_CONDA) || ask->start == ask->end)
        return false;
    const char *start = ask->source->text.data + ask->start;
    size_t prefix = 0; /* of an item: "      - " */
    while (kind == AF_PROJECT_CONDA && (start[prefix] == ' ' || start[prefix] == '-'))
        prefix++;
    add_wheels(checker, ask, pins, (struct af_span){start, prefix}, &lines, &publishers);
    const char *text = af_text_take(&lines, arena);
    const char *advice = name_publishers(checker, af_text_take(&publishers, arena));
    struct af_span line = af_text_trim((struct af_span){start, ask->end - ask->start});
    const char *remark = memmem(line.data, line.len, " #", 2);
    if (text[0] != '\0' && remark != NULL) /* what was said of the line stays above it */
        text = af_arena_format(arena, "%.*s%.*s\n%s", (int)strspn(start, " "), start,
                               (int)(line.data + line.len - remark - 1), remark + 1, text);
    if (text[0] != '\0') {
        af_project_finding_edit(checker, finding, ask->start, ask->end, text);
        finding->advice = advice;
    }
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

bool af_project_is_private(const char *url)
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
        return af_fit_are_neighbours(built_for, torch->pinned)
                   ? NULL
                   : af_arena_format(checker->arena,
                                     "the wheel is for torch %s, the project pins %s",
                                     built_for, torch->pinned);
    enum af_answer wheel = wheel_abi(checker->wheels->catalog, file),
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
         (ask->pinned != NULL && !af_project_pins_are_known(checker->wheels->catalog, &pins))))
        return true; /* or unknown */
    af_project_pythons_with_wheel(checker->wheels, &pins, &pythons);
    return pythons.count > 0;
}

/* Puts LINUX behind the requirement, or before the marker that it has. */
static void edit_marker(struct af_project_checker *checker, struct af_project_finding *finding,
                        const struct af_project_ask *ask)
{
    bool is_line = ask->source->kind == AF_PROJECT_REQUIREMENTS;
    bool is_string = ask->table != NULL && af_starts_with(ask->table, "project.");
    const char *text = af_project_copy_ask(checker, ask);
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

void af_project_check_platforms(struct af_project_checker *checker,
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

/* Whether a Dockerfile, a script or a page says which Python it is for. */
static bool states_python(const struct af_project_source *source, int minor)
{
    char text[16];
    const int len = snprintf(text, sizeof text, "3.%d", minor);
    return source->kind == AF_PROJECT_DOCKERFILE ||
           memmem(source->text.data, source->text.len, text, (size_t)len) != NULL;
}

void af_project_check_wheel(struct af_project_checker *checker,
                            const struct af_project_source *source, size_t at, const char *url,
                            const struct af_project_ask *ask,
                            const struct af_project_ask *torch)
{
    struct af_wheel_name wheel;
    struct af_wheel_local local;
    const char *file = af_url_file_name(checker->arena, url);
    if (strchr(url, '$') != NULL || strchr(url, '{') != NULL ||
        af_wheel_name_parse(file, strlen(file), &wheel) != AF_WHEEL_NAME_VALID)
        return;
    af_wheel_local_parse(wheel.version.local, AF_FORMATS_TORCH_DIGITS_NONE, &local);
    bool is_pinned = torch != NULL && torch->pinned != NULL;
    const char *for_torch = is_pinned ? torch->pinned : local.torch;
    const char *detail = NULL;
    enum af_project_finding_id id = AF_PROJECT_FINDING_COUNT;
    int only = only_python(&wheel);
    if (ask != NULL && af_project_is_private(url)) {
        id = AF_PROJECT_FINDING_PRIVATE_URL;
    } else if (is_pinned && (detail = difference(checker, file, local.torch, torch)) != NULL) {
        id = AF_PROJECT_FINDING_OTHER_TORCH;
    } else if ((ask != NULL || !states_python(source, only)) &&
               is_for_one(checker, only, local.torch, ask)) {
        id = AF_PROJECT_FINDING_ONE_PYTHON;
        detail = af_arena_format(checker->arena, "it is for Python 3.%d", only);
    } else if (ask != NULL) {
        af_project_check_platforms(checker, ask, for_torch, &wheel);
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
    af_project_edit_wheels(checker, finding, ask, &pins);
}

/* Astral's index: "2.8.3.post1+cu.13.0.torch.2.9". */
#define LOCAL_INDEX "wheels.astral.sh"
#define LOCAL_SOURCE "astral-sh-build/"

/* "2.8.3.post1+cu.13.0.torch.2.9" for the torch that is pinned; "" if it is not known. */
static const char *find_local(struct af_project_checker *checker,
                              const struct af_project_ask *ask,
                              const struct af_project_ask *torch)
{
    const struct af_catalog_torch_variant *build = af_project_usual_build(torch->pinned);
    const struct af_catalog *catalog = checker->wheels->catalog;
    char wanted[40];
    if (build == NULL)
        return "";
    const char *dot = strchr(torch->pinned, '.');
    const size_t len = dot == NULL ? 0 : (size_t)(dot - torch->pinned) + 1;
    snprintf(wanted, sizeof wanted, "+cu.%d.%d.torch.%.*s", build->cuda_major,
             build->cuda_minor, (int)(len + strspn(torch->pinned + len, "0123456789")),
             torch->pinned);
    for (size_t i = 0; i < catalog->count; i++) {
        const struct af_catalog_wheel *wheel = &catalog->wheels[i];
        if (af_starts_with(wheel->source, LOCAL_SOURCE) &&
            strcmp(wheel->version, ask->pinned) == 0 && strstr(wheel->filename, wanted) != NULL)
            return af_arena_format(checker->arena, "%s%s", ask->pinned, wanted);
    }
    return "";
}

bool af_project_check_local(struct af_project_checker *checker,
                            const struct af_project_ask *ask,
                            const struct af_project_ask *torch)
{
    struct af_span text = ask->source->text;
    if (memmem(text.data, text.len, LOCAL_INDEX, strlen(LOCAL_INDEX)) == NULL ||
        ask->url[0] != '\0' || strchr(ask->specifier, '+') != NULL)
        return false;
    struct af_project_finding *finding =
        af_project_finding_add(checker, AF_PROJECT_FINDING_OPEN_LOCAL, ask->source, ask->at);
    const char *local = torch == NULL || torch->pinned == NULL || ask->pinned == NULL
                            ? ""
                            : find_local(checker, ask, torch);
    if (local[0] != '\0' && af_project_edit_pin(checker, finding, ask, local))
        finding->advice = af_arena_format(checker->arena, "Pin flash-attn==%s.", local);
    else if (torch == NULL || torch->pinned == NULL)
        finding->advice = "Pin torch, and flash-attn with the local version for that torch.";
    return true;
}
