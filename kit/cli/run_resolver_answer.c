/*
 * run_resolver_answer.c: reads an answer: pip's report (JSON), or uv's lines
 * " + NAME==VERSION"; and compares two.
 */
#include "kit/cli/run_resolver_answer.h"

#include <string.h>

#include "kit/base/json.h"
#include "kit/system/file.h"

#define PACKAGE AF_CLI_RUN_PACKAGE
#define REPORT_BYTES_MAX (64u << 20)
#define NAME_BYTES 256
#define FAILURE_BYTES 300

/*
 * uv's explanation has several lines; it begins with "cause:", or before 0.12 with a
 * box-drawing character.
 */
const char *af_cli_resolved_last_error(struct af_arena *arena, struct af_span text)
{
    static const char *const starts[] = {"cause:", "╰─▶", "ERROR:", "error:"};
    struct af_text joined = {0};
    struct af_span line;
    while (af_text_line(&text, &line)) {
        struct af_span bare = af_text_trim(line);
        for (size_t i = 0; i < AF_COUNT(starts); i++) {
            const size_t len = strlen(starts[i]);
            if (bare.len < len || memcmp(bare.data, starts[i], len) != 0)
                continue;
            joined.len = 0;
            bare = af_text_trim((struct af_span){bare.data + len, bare.len - len});
        }
        if (bare.len > 0 && joined.len < FAILURE_BYTES) {
            af_text_add(&joined, joined.len > 0 ? " " : "");
            af_text_add_n(&joined, bare.data, bare.len);
        }
    }
    const char *shown = af_text_scrub(arena, af_text_get(&joined), FAILURE_BYTES);
    af_text_release(&joined);
    return shown[0] == '\0' ? "it does not say why" : shown;
}

static void add_package(struct af_cli_resolved *resolved, struct af_arena *arena,
                        struct af_span name, struct af_span version)
{
    char normal[NAME_BYTES];
    struct af_version parsed;
    if (resolved->count >= AF_CLI_RESOLVED_PACKAGES_MAX ||
        !af_name_normalise(name, normal, sizeof normal) ||
        !af_version_parse(version.data, version.len, &parsed))
        return;
    resolved->packages[resolved->count++] = (struct af_cli_resolved_package){
        af_arena_text(arena, normal), af_arena_text_n(arena, version.data, version.len)};
}

/* " + torch==2.6.0" or " ~ torch==2.6.0", perhaps with a remark behind it. */
static void read_uv_line(struct af_cli_resolved *resolved, struct af_arena *arena,
                         struct af_span line)
{
    if (line.len < 4 || line.data[0] != ' ' || strchr("+~", line.data[1]) == NULL ||
        line.data[2] != ' ')
        return;
    struct af_span rest = {line.data + 3, line.len - 3};
    const char *equal = memmem(rest.data, rest.len, "==", 2);
    if (equal == NULL)
        return;
    struct af_span name = {rest.data, (size_t)(equal - rest.data)};
    struct af_span version = {equal + 2, rest.len - name.len - 2};
    const char *blank = memchr(version.data, ' ', version.len);
    if (blank != NULL)
        version.len = (size_t)(blank - version.data);
    add_package(resolved, arena, name, version);
}

/* An answer says at least that nothing would change: a silent uv has not answered. */
void af_cli_resolved_read_uv(struct af_cli_resolved *resolved, struct af_arena *arena,
                             struct af_span text)
{
    bool answers = false;
    struct af_span line;
    while (af_text_line(&text, &line)) {
        answers = answers || (line.len > 6 && memcmp(line.data, "Would ", 6) == 0);
        read_uv_line(resolved, arena, line);
    }
    if (!answers)
        resolved->failure = "it does not say what it would install";
}

/* Whether the package of pip's report needs exactly this torch. */
static bool needs_exactly(const struct af_cli_wanted *wanted, const json_t *metadata,
                          const char *torch)
{
    const json_t *list = json_object_get(metadata, "requires_dist"), *item;
    size_t i;
    json_array_foreach(list, i, item)
    {
        struct af_requirement need;
        const char *text = json_string_value(item);
        if (text == NULL ||
            !af_requirement_parse((struct af_span){text, strlen(text)}, &need) ||
            !af_name_is(need.name, "torch") ||
            af_marker_holds(need.marker, &wanted->here) == AF_NO)
            continue;
        const char *specifier =
            af_arena_text_n(wanted->project.arena, need.specifier.data, need.specifier.len);
        if (af_project_pinned_version(wanted->project.arena, specifier) != NULL &&
            af_project_allows(specifier, torch) == AF_YES)
            return true;
    }
    return false;
}

/* "install": [{"metadata": {"name": ..., "version": ..., "requires_dist": [...]}}] */
static void read_report(const struct af_cli_wanted *wanted, struct af_cli_resolved *resolved,
                        const json_t *report)
{
    struct af_arena *arena = &wanted->cli->arena;
    const json_t *list = json_object_get(report, "install"), *item;
    size_t i;
    if (!json_is_array(list))
        resolved->failure = "its report has no list of packages";
    json_array_foreach(list, i, item)
    {
        const json_t *metadata = json_object_get(item, "metadata");
        const char *name = json_string_value(json_object_get(metadata, "name"));
        const char *version = json_string_value(json_object_get(metadata, "version"));
        if (name != NULL && version != NULL)
            add_package(resolved, arena, (struct af_span){name, strlen(name)},
                        (struct af_span){version, strlen(version)});
    }
    const char *torch = af_cli_resolved_version(resolved, "torch");
    json_array_foreach(list, i, item)
    {
        const json_t *metadata = json_object_get(item, "metadata");
        const char *name = json_string_value(json_object_get(metadata, "name"));
        const char *version = json_string_value(json_object_get(metadata, "version"));
        if (torch == NULL || name == NULL || version == NULL ||
            !needs_exactly(wanted, metadata, torch))
            continue;
        resolved->needs_torch = af_text_scrub(
            arena, af_arena_format(arena, "%.60s %.40s", name, version), FAILURE_BYTES);
        return;
    }
}

void af_cli_resolved_read_pip(struct af_cli_wanted *wanted, const char *path,
                              struct af_cli_resolved *resolved)
{
    struct af_span text;
    json_t *report = NULL;
    if (af_file_read(&wanted->cli->arena, path, REPORT_BYTES_MAX, &text, NULL) == ANYFLASH_OK &&
        af_json_parse(text, REPORT_BYTES_MAX, "the report", &report, NULL) == ANYFLASH_OK)
        read_report(wanted, resolved, report);
    else
        resolved->failure = "it wrote no report that can be read";
    json_decref(report);
}

const char *af_cli_resolved_version(const struct af_cli_resolved *resolved, const char *name)
{
    for (size_t i = 0; i < resolved->count; i++)
        if (strcmp(resolved->packages[i].name, name) == 0)
            return resolved->packages[i].version;
    return NULL;
}

/* Packages that torch pins or that are released for one torch each. */
static bool goes_with_torch(const char *name)
{
    static const char *const starts[] = {"torch", "nvidia-",    "cuda-", "triton",
                                         "sympy", "setuptools", PACKAGE};
    for (size_t i = 0; i < AF_COUNT(starts); i++)
        if (af_starts_with(name, starts[i]))
            return true;
    return false;
}

bool af_cli_resolved_agree(const struct af_cli_resolved *a, const struct af_cli_resolved *b)
{
    for (size_t i = 0; i < a->count; i++) {
        const char *name = a->packages[i].name;
        const char *version = af_cli_resolved_version(b, name);
        if (!goes_with_torch(name) && version != NULL &&
            strcmp(version, a->packages[i].version) != 0)
            return false;
    }
    return true;
}
