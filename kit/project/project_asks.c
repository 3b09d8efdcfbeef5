/*
 * project_asks.c: the requirements on torch and flash-attn in requirements files,
 * pyproject.toml and setup.py, with their places.
 */
#include "kit/project/project_asks.h"

#include <string.h>

#include "kit/base/path.h"
#include "kit/base/text.h"
#include "kit/formats/metadata.h"
#include "kit/formats/toml.h"
#include "kit/formats/version.h"
#include "kit/formats/wheel_name.h"
#include "kit/project/requirements.h"

struct collector {
    struct af_arena *arena;
    const struct af_project_source *sources;
    size_t count;
    struct af_project_asks *asks;
    struct af_project_ask **end;
};

static const struct af_project_source *find_source(const struct collector *collector,
                                                   const char *path)
{
    while (af_starts_with(path, "./"))
        path += 2;
    for (size_t i = 0; i < collector->count; i++)
        if (strcmp(collector->sources[i].path, path) == 0)
            return &collector->sources[i];
    return NULL;
}

/*
 * The file reader of requirements.h, over the sources. Other files, such as those that a run
 * makes, are empty: what is stated elsewhere counts.
 */
static enum anyflash_status read_source(void *context, struct af_arena *arena, const char *path,
                                        struct af_span *text_out, struct anyflash_error *err)
{
    const struct af_project_source *source = find_source(context, path);
    (void)arena;
    (void)err;
    *text_out = source == NULL ? (struct af_span){"", 0} : source->text;
    return ANYFLASH_OK;
}

static const char *text_of(struct collector *collector, struct af_span span)
{
    return span.len == 0 ? "" : af_arena_text_n(collector->arena, span.data, span.len);
}

/* The version of "==2.8.3", or NULL. */
static const char *pinned_of(struct collector *collector, const char *specifier)
{
    struct af_version version;
    size_t len = strspn(specifier, "= ");
    bool is_equal = af_starts_with(specifier, "==") &&
                    af_version_parse(specifier + len, strlen(specifier + len), &version);
    return is_equal ? af_arena_text(collector->arena, specifier + len) : NULL;
}

static bool is_known(const struct collector *collector, const struct af_project_source *source,
                     size_t start, size_t line)
{
    const struct af_project_ask *ask = collector->asks->first;
    while (ask != NULL && (ask->source != source || ask->line != line || ask->start != start))
        ask = ask->next;
    return ask != NULL;
}

/* Whether the requirement can apply on Linux with an x86 processor. */
static bool is_for_linux(const char *marker)
{
    static const struct af_marker_environment linux_machine = {.os_name = "posix",
                                                               .sys_platform = "linux",
                                                               .platform_system = "Linux",
                                                               .platform_machine = "x86_64"};
    return af_marker_holds((struct af_span){marker, strlen(marker)}, &linux_machine) != AF_NO;
}

/* Adds what is about torch or flash-attn; texts are in the arena already. */
static void add(struct collector *collector, struct af_project_ask made)
{
    struct af_span name = {made.name, strlen(made.name)};
    made.is_torch = af_name_is(name, "torch");
    if (!made.is_torch && (!af_name_is(name, "flash-attn") ||
                           is_known(collector, made.source, made.start, made.line)))
        return;
    if (!is_for_linux(made.marker))
        return;
    struct af_project_ask *ask = af_arena_alloc(collector->arena, sizeof *ask);
    if (ask == NULL)
        return;
    made.pinned = pinned_of(collector, made.specifier);
    *ask = made;
    *collector->end = ask;
    collector->end = &ask->next;
}

/* Adds the requirement `text`, which is not from a requirements file. */
static void add_text(struct collector *collector, struct af_span text,
                     struct af_project_ask place)
{
    struct af_requirement parsed;
    if (!af_requirement_parse(text, &parsed))
        return;
    place.name = text_of(collector, parsed.name);
    place.specifier = text_of(collector, parsed.specifier);
    place.marker = text_of(collector, parsed.marker);
    place.url = text_of(collector, parsed.url);
    if (!collector->arena->failed)
        add(collector, place);
}

/* The name as written; of a line that is only a URL as it is normalised. */
static const char *name_of(struct collector *collector,
                           const struct af_project_requirement *requirement)
{
    size_t len = strcspn(requirement->text, "=<>!~[ \t;@(");
    bool is_named = requirement->name != NULL &&
                    af_name_is((struct af_span){requirement->text, len}, requirement->name);
    return is_named ? af_arena_text_n(collector->arena, requirement->text, len)
                    : requirement->name;
}

/* Whether the requirement pins a package of which each release needs one torch. */
static bool decides_torch(const struct af_project_requirement *requirement)
{
    static const char *const names[] = {"torchvision", "torchaudio", "vllm", "xformers"};
    for (size_t i = 0; requirement->name != NULL && i < AF_COUNT(names); i++)
        if (strcmp(requirement->name, names[i]) == 0)
            return af_starts_with(requirement->specifier, "==");
    return false;
}

static enum anyflash_status add_requirements(struct collector *collector,
                                             const struct af_project_source *root,
                                             struct anyflash_error *err)
{
    struct af_project project = {
        .arena = collector->arena, .read = read_source, .context = collector};
    /* What was read before a line that cannot be is kept. */
    if (af_project_add_file(&project, root->path, false, NULL) == ANYFLASH_E_NO_MEMORY)
        return af_fail_memory(err);
    bool is_decided = false;
    for (const struct af_project_requirement *at = project.requirements; at != NULL;
         at = at->next) {
        is_decided |= decides_torch(at);
        struct af_project_ask ask = {.root = root,
                                     .name = name_of(collector, at),
                                     .specifier = at->specifier,
                                     .marker = at->marker,
                                     .url = at->url == NULL ? "" : at->url};
        ask.source = at->place.file == NULL ? NULL : find_source(collector, at->place.file);
        if (at->constraint || ask.name == NULL || ask.source == NULL)
            continue;
        ask.line = (size_t)at->place.line;
        struct af_span line = af_project_line(ask.source->text, ask.line);
        ask.start = (size_t)(line.data - ask.source->text.data);
        ask.end = ask.start + line.len;
        if (line.len > 1 && memchr(line.data, '\\', line.len) != NULL)
            ask.end = ask.start; /* it has further lines */
        add(collector, ask);
    }
    for (struct af_project_ask *ask = collector->asks->first; ask != NULL; ask = ask->next)
        ask->is_decided |= ask->root == root && is_decided;
    return ANYFLASH_OK;
}

/* From the start of an array's element to behind its comma; the whole line if it is alone. */
static void find_element(struct af_span text, const struct af_toml_item *item,
                         struct af_project_ask *ask)
{
    size_t start = item->start, end = item->end;
    ask->line = af_project_line_of(text, start);
    struct af_span line = af_project_line(text, ask->line);
    size_t line_start = (size_t)(line.data - text.data);
    while (end < text.len && (text.data[end] == ' ' || text.data[end] == ','))
        if (text.data[end++] == ',')
            break;
    struct af_span before = {line.data, start - line_start};
    struct af_span after = {text.data + end,
                            line_start + line.len > end ? line_start + line.len - end : 0};
    after = af_text_trim(after);
    bool is_alone = af_text_trim(before).len == 0 && (after.len == 0 || after.data[0] == '#');
    ask->start = is_alone ? line_start : start;
    ask->end = is_alone ? line_start + line.len : end;
}

static void add_array(struct collector *collector, const struct af_project_source *source,
                      const struct af_toml_item *array, bool is_optional)
{
    for (const struct af_toml_item *item = array == NULL ? NULL : array->first; item != NULL;
         item = item->next) {
        struct af_project_ask ask = {
            .root = source, .source = source, .is_optional = is_optional};
        if (item->text == NULL)
            continue;
        find_element(source->text, item, &ask);
        add_text(collector, (struct af_span){item->text, strlen(item->text)}, ask);
    }
}

static void add_pyproject(struct collector *collector, const struct af_project_source *source)
{
    struct af_toml toml;
    if (af_toml_parse(&toml, collector->arena, source->text, "pyproject.toml", NULL) !=
        ANYFLASH_OK)
        return;
    add_array(collector, source, af_toml_find(&toml, AF_TOML_PATH("project", "dependencies")),
              false);
    const struct af_toml_item *extras =
        af_toml_find(&toml, AF_TOML_PATH("project", "optional-dependencies"));
    for (const struct af_toml_item *item = extras == NULL ? NULL : extras->first; item != NULL;
         item = item->next)
        add_array(collector, source, item, true);
    const char *range = af_toml_text(&toml, AF_TOML_PATH("project", "requires-python"));
    if (range != NULL && collector->asks->python_range[0] == '\0')
        collector->asks->python_range = range;
}

static void add_setup(struct collector *collector, const struct af_project_source *source,
                      const struct af_import_facts *facts)
{
    for (const struct af_import_string *string = facts->install_requires; string != NULL;
         string = string->next)
        add_text(
            collector, string->text,
            (struct af_project_ask){.root = source, .source = source, .line = string->line});
    if (facts->python_requires.len > 0 && collector->asks->python_range[0] == '\0')
        collector->asks->python_range = text_of(collector, facts->python_requires);
}

enum anyflash_status af_project_asks_read(struct af_arena *arena,
                                          const struct af_project_source *sources, size_t count,
                                          struct af_project_asks *asks_out,
                                          struct anyflash_error *err)
{
    struct collector collector = {arena, sources, count, asks_out, &asks_out->first};
    enum anyflash_status status = ANYFLASH_OK;
    *asks_out = (struct af_project_asks){.python_range = ""};
    asks_out->python = af_arena_array(arena, count + 1, sizeof *asks_out->python);
    for (size_t i = 0; i < count && status == ANYFLASH_OK && !arena->failed; i++) {
        enum af_project_kind kind = sources[i].kind;
        if (kind == AF_PROJECT_PYTHON || kind == AF_PROJECT_SETUP)
            status = af_imports_of_python(arena, sources[i].text, &asks_out->python[i], err);
        if (kind == AF_PROJECT_REQUIREMENTS)
            status = add_requirements(&collector, &sources[i], err);
        else if (kind == AF_PROJECT_PYPROJECT)
            add_pyproject(&collector, &sources[i]);
        else if (kind == AF_PROJECT_SETUP && status == ANYFLASH_OK)
            add_setup(&collector, &sources[i], &asks_out->python[i]);
    }
    return status == ANYFLASH_OK && arena->failed ? af_fail_memory(err) : status;
}

static bool in_same_folder(const struct af_project_source *a, const struct af_project_source *b)
{
    size_t a_len = (size_t)(af_path_name(a->path) - a->path);
    size_t b_len = (size_t)(af_path_name(b->path) - b->path);
    return a_len == b_len && memcmp(a->path, b->path, a_len) == 0;
}

const struct af_project_ask *af_project_torch_for(const struct af_project_asks *asks,
                                                  const struct af_project_ask *ask)
{
    const struct af_project_ask *near = NULL, *exact = NULL;
    for (const struct af_project_ask *at = asks->first; at != NULL; at = at->next) {
        if (!at->is_torch)
            continue;
        if (at->root == ask->root && (near == NULL || near->pinned == NULL))
            near = at;
        if (at->pinned != NULL && exact == NULL && in_same_folder(at->source, ask->source))
            exact = at;
    }
    return near != NULL ? near : exact;
}

bool af_project_brings_torch(const struct af_project_asks *asks, const char *path)
{
    for (const struct af_project_ask *at = asks->first; at != NULL; at = at->next)
        if (at->is_torch && (strcmp(at->root->path, path) == 0 ||
                             strcmp(af_path_name(at->root->path), af_path_name(path)) == 0))
            return true;
    return false;
}
