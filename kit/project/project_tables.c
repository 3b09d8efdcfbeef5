/*
 * project_tables.c: the requirements of pyproject.toml and pixi.toml: strings of PEP 621, PEP
 * 735, uv and PDM, and the tables "name = value" of Poetry and pixi.
 *
 * Sources: the manuals of Poetry 2 ("Dependency specification"), pixi 0.60 ("Pixi manifest"),
 * uv ("Settings") and PDM ("Manage dependencies").
 */
#include "kit/project/project_asks.h"

#include <string.h>

#include "kit/base/text.h"
#include "kit/formats/toml.h"
#include "kit/formats/wheel_name.h"
#include "kit/project/uv_settings.h"

#define FLASH "flash-attn"

enum shape {
    STRINGS, /* an array of PEP 508 */
    NAMES,   /* "name = value" of packages of PyPI */
    CONDA,   /* "name = value" of conda: its flash-attn is compiled for its pytorch */
};

/* When a usual installation takes what is stated there. */
enum when {
    ALWAYS,
    NAMED,      /* only if the user names it */
    BY_DEFAULT, /* unless the group is optional */
    UV_DEFAULT, /* with uv, if it is one of the default groups */
    LIMITS      /* never: it limits what others ask for */
};

/* Keys of a table, with '.' between; '*' stands for each. */
struct table_row {
    const char *path;
    enum shape shape;
    enum when when;
};

static const struct table_row rows[] = {
    {"project.dependencies", STRINGS, ALWAYS},
    {"project.optional-dependencies.*", STRINGS, NAMED},
    {"dependency-groups.*", STRINGS, UV_DEFAULT},
    {"tool.uv.dev-dependencies", STRINGS, ALWAYS},
    {"tool.uv.constraint-dependencies", STRINGS, LIMITS},
    {"tool.uv.override-dependencies", STRINGS, LIMITS},
    {"tool.pdm.dev-dependencies.*", STRINGS, ALWAYS},
    {"tool.poetry.dependencies", NAMES, ALWAYS},
    {"tool.poetry.dev-dependencies", NAMES, ALWAYS},
    {"tool.poetry.group.*.dependencies", NAMES, BY_DEFAULT},
};

/* In the block of a script. */
static const struct table_row script_rows[] = {
    {"dependencies", STRINGS, ALWAYS},
};

/* Below tool.pixi, or in pixi.toml. */
static const struct table_row pixi_rows[] = {
    {"dependencies", CONDA, ALWAYS},
    {"pypi-dependencies", NAMES, ALWAYS},
    {"target.*.dependencies", CONDA, ALWAYS},
    {"target.*.pypi-dependencies", NAMES, ALWAYS},
    {"feature.*.dependencies", CONDA, NAMED},
    {"feature.*.pypi-dependencies", NAMES, NAMED},
    {"feature.*.target.*.pypi-dependencies", NAMES, NAMED},
};

struct table_reader {
    struct af_project_asks *asks;
    const struct af_project_source *source;
    struct af_project_stated *stated;
    struct af_toml toml;
    const struct table_row *row;
    const struct af_toml_item *group; /* the item of the last '*' of the path */
    const struct af_toml_item *uv;    /* [tool.uv], or NULL */
    const struct af_toml_item *from;  /* flash-attn in [tool.uv.sources], or NULL */
    bool is_arranged;
};

static bool is_true(const struct table_reader *reader, const struct af_toml_item *item)
{
    return item != NULL && item->kind == AF_TOML_BOOL &&
           reader->toml.text.data[item->start] == 't';
}

static const char *text_at(const struct af_toml_item *table, const char *key)
{
    const struct af_toml_item *item = af_toml_get(table, key);
    return item == NULL ? NULL : item->text;
}

/* Whether flash-attn is built with the torch that is installed. */
static bool builds_with_torch(const struct table_reader *reader,
                              const struct af_toml_item *pixi)
{
    const struct af_toml_item *uv = reader->uv, *options = af_toml_get(pixi, "pypi-options");
    const struct af_toml_item *lists[] = {af_toml_get(uv, "no-build-isolation-package"),
                                          af_toml_get(options, "no-build-isolation")};
    if (is_true(reader, af_toml_get(uv, "no-build-isolation")) || is_true(reader, lists[1]))
        return true;
    for (size_t i = 0; i < AF_COUNT(lists); i++)
        if (af_project_uv_child(lists[i], FLASH) != NULL)
            return true;
    const struct af_toml_item *added =
        af_project_uv_child(af_toml_get(uv, "extra-build-dependencies"), FLASH);
    for (added = added == NULL ? NULL : added->first; added != NULL; added = added->next)
        if (af_equal(text_at(added, "requirement"), "torch") &&
            is_true(reader, af_toml_get(added, "match-runtime")))
            return true;
    return false;
}

static bool is_optional(const struct table_reader *reader)
{
    const struct af_toml_item *group = reader->group;
    const struct af_toml_item *defaults = af_toml_get(reader->uv, "default-groups");
    switch (reader->row->when) {
    case ALWAYS:
        return false;
    case BY_DEFAULT:
        return is_true(reader, af_toml_get(group, "optional"));
    case UV_DEFAULT:
        return defaults != NULL ? af_project_uv_child(defaults, group->key) == NULL
                                : reader->uv == NULL || strcmp(group->key, "dev") != 0;
    default:
        return true;
    }
}

/*
 * The bytes from `start` to `end` and, behind them, a comma; the whole lines if nothing else is
 * in them.
 */
static void find_place(struct af_span text, size_t start, size_t end,
                       struct af_project_ask *ask)
{
    struct af_span line = af_project_line(text, start);
    struct af_span last = af_project_line(text, end);
    size_t line_start = (size_t)(line.data - text.data);
    size_t line_end = (size_t)(last.data - text.data) + last.len;
    while (end < text.len && (text.data[end] == ' ' || text.data[end] == ','))
        if (text.data[end++] == ',')
            break;
    struct af_span before = {line.data, start - line_start};
    struct af_span after = {text.data + end, line_end > end ? line_end - end : 0};
    after = af_text_trim(after);
    bool is_alone = af_text_trim(before).len == 0 && (after.len == 0 || after.data[0] == '#');
    ask->at = start;
    ask->start = is_alone ? line_start : start;
    ask->end = is_alone ? line_end : end;
}

/* The marker of Poetry's and uv's tables, or of pixi's target; "" without one. */
static const char *marker_of(const struct table_reader *reader,
                             const struct af_toml_item *value)
{
    struct af_arena *arena = reader->toml.arena;
    const char *written = text_at(value, "markers"), *python = text_at(value, "python");
    const char *platform = text_at(value, "platform");
    const struct af_toml_item *group = reader->group;
    if (strstr(reader->row->path, "target.") != NULL && group != NULL && group->key != NULL)
        platform = af_starts_with(group->key, "win")   ? "win32"
                   : af_starts_with(group->key, "osx") ? "darwin"
                                                       : "linux";
    if (written == NULL)
        written = text_at(value, "marker");
    const char *marker = written == NULL ? "" : written;
    if (platform != NULL)
        marker = af_arena_format(arena, "%s%ssys_platform == '%s'", marker,
                                 marker[0] == '\0' ? "" : " and ", platform);
    /* Its range is not looked at: it says that there is one for each Python. */
    if (python != NULL)
        marker = af_arena_format(arena, "%s%spython_full_version >= '%s'", marker,
                                 marker[0] == '\0' ? "" : " and ", python);
    return marker;
}

/* Where a table takes the package from: a URL, or a path; "" for a registry. */
static const char *url_of(struct af_arena *arena, const struct af_toml_item *table)
{
    const char *git = text_at(table, "git"), *path = text_at(table, "path");
    const char *url = text_at(table, "url");
    if (git != NULL)
        url = af_arena_format(arena, "git+%s", git);
    return url != NULL ? url : path != NULL ? path : "";
}

/* "name = value"; a value of several tables is several requirements. */
static void add_value(struct table_reader *reader, const struct af_toml_item *named,
                      const struct af_toml_item *value)
{
    struct af_arena *arena = reader->toml.arena;
    bool is_conda = reader->row->shape == CONDA;
    const char *name = is_conda ? af_project_asks_conda_name(named->key) : named->key;
    bool is_python = strcmp(named->key, "python") == 0;
    if (!is_python && !af_project_asks_wanted(reader->asks, name))
        return;
    const char *version = value->text != NULL ? value->text : text_at(value, "version");
    const char *from = text_at(value, "source");
    if (is_python && version != NULL)
        af_project_asks_state_python(reader->asks,
                                     (size_t)(reader->source - reader->asks->sources),
                                     af_project_asks_specifier(arena, version, is_conda));
    if (is_python || af_project_asks_are_full(reader->asks))
        return;
    struct af_project_ask ask = {
        .root = reader->source,
        .source = reader->source,
        .table = reader->row->path,
        .group = reader->group == NULL ? "" : reader->group->key,
        .name = name,
        .specifier = version == NULL ? "" : af_project_asks_specifier(arena, version, is_conda),
        .marker = marker_of(reader, value),
        .url = url_of(arena, value),
        .is_optional = is_optional(reader) || is_true(reader, af_toml_get(value, "optional")),
        .is_arranged = reader->is_arranged || text_at(value, "index") != NULL ||
                       (from != NULL && !af_equal_fold(from, "pypi"))};
    find_place(reader->source->text, named->key_start, named->end, &ask);
    if (named != value)
        ask.start = ask.end; /* one of several */
    af_project_asks_add(reader->asks, ask);
}

static void add_named(struct table_reader *reader, const struct af_toml_item *table)
{
    for (const struct af_toml_item *item = table->first; item != NULL; item = item->next) {
        if (item->key == NULL)
            continue;
        if (item->kind != AF_TOML_ARRAY)
            add_value(reader, item, item);
        for (const struct af_toml_item *each = item->kind == AF_TOML_ARRAY ? item->first : NULL;
             each != NULL; each = each->next)
            add_value(reader, item, each);
    }
}

/* [tool.uv.sources] says where uv gets flash-attn, whatever the requirement says. */
static void add_source(struct table_reader *reader, struct af_project_ask ask,
                       const struct af_toml_item *source)
{
    bool is_index = text_at(source, "index") != NULL;
    const char *marker = text_at(source, "marker");
    ask.url = url_of(reader->toml.arena, source);
    ask.is_arranged |= is_index;
    if (marker != NULL && ask.marker[0] == '\0')
        ask.marker = marker;
    if (ask.url[0] != '\0') {
        find_place(reader->source->text, source->key_start, source->end, &ask);
        ask.start = ask.end;
    }
    af_project_asks_add(reader->asks, ask);
}

static void add_string(struct table_reader *reader, const struct af_toml_item *item)
{
    struct af_project_ask ask = {.root = reader->source,
                                 .source = reader->source,
                                 .is_arranged = reader->is_arranged,
                                 .text = item->text,
                                 .table = reader->row->path,
                                 .group = reader->group == NULL ? "" : reader->group->key};
    if (!af_project_asks_parse(reader->toml.arena,
                               (struct af_span){item->text, strlen(item->text)}, &ask))
        return;
    ask.is_optional = is_optional(reader);
    find_place(reader->source->text, item->start, item->end, &ask);
    bool is_flash = af_name_is((struct af_span){ask.name, strlen(ask.name)}, FLASH);
    const struct af_toml_item *source = is_flash ? reader->from : NULL;
    if (source == NULL)
        af_project_asks_add(reader->asks, ask);
    else if (source->kind != AF_TOML_ARRAY)
        add_source(reader, ask, source);
    else
        for (source = source->first; source != NULL && !af_project_asks_are_full(reader->asks);
             source = source->next)
            add_source(reader, ask, source);
}

/* Follows the path from `item`, and adds what is at its end. */
static void follow(struct table_reader *reader, const struct af_toml_item *item,
                   const char *path)
{
    if (path[0] == '\0' && reader->row->shape != STRINGS) {
        add_named(reader, item);
        return;
    }
    if (path[0] == '\0') {
        for (item = item->first; item != NULL && !af_project_asks_are_full(reader->asks);
             item = item->next)
            if (item->text != NULL)
                add_string(reader, item);
        return;
    }
    size_t len = strcspn(path, ".");
    const char *rest = path + len + (path[len] == '.');
    for (const struct af_toml_item *child = item->first; child != NULL; child = child->next) {
        bool is_any = path[0] == '*';
        if (child->key == NULL ||
            (!is_any && (strlen(child->key) != len || strncmp(child->key, path, len) != 0)))
            continue;
        if (is_any)
            reader->group = child;
        follow(reader, child, rest);
    }
}

static void follow_rows(struct table_reader *reader, const struct af_toml_item *root,
                        const struct table_row *table, size_t count)
{
    for (size_t i = 0; i < count && root != NULL; i++) {
        reader->row = &table[i];
        reader->group = NULL;
        if (table[i].when == LIMITS && reader->asks->wanted == NULL)
            continue;
        follow(reader, root, table[i].path);
    }
}

/* The platforms for which any string of the array says so. */
static unsigned platforms_of(const struct af_toml_item *array,
                             bool (*says)(enum af_project_platform, const char *))
{
    unsigned platforms = 0;
    for (const struct af_toml_item *item = array == NULL ? NULL : array->first; item != NULL;
         item = item->next)
        for (int i = 0; item->text != NULL && i < AF_PROJECT_PLATFORM_COUNT; i++)
            if (says((enum af_project_platform)i, item->text))
                platforms |= AF_PROJECT_ON(i);
    return platforms;
}

static void note_stated(struct table_reader *reader, const struct af_toml_item *pixi)
{
    struct af_project_stated *stated = reader->stated;
    const struct af_toml_item *project = reader->source->kind == AF_PROJECT_PYTHON
                                             ? reader->toml.root
                                             : af_toml_get(reader->toml.root, "project");
    const struct af_toml_item *workspace = af_toml_get(pixi, "workspace");
    if (workspace == NULL)
        workspace = af_toml_get(pixi, "project");
    af_project_asks_state_python(reader->asks, (size_t)(reader->source - reader->asks->sources),
                                 text_at(project, "requires-python"));
    stated->platforms =
        platforms_of(af_toml_get(reader->uv, "environments"), af_project_platform_admits) |
        platforms_of(af_toml_get(workspace, "platforms"), af_project_platform_is_pixi);
    if (stated->platforms == 0)
        stated->platforms = platforms_of(af_toml_get(project, "classifiers"),
                                         af_project_platform_is_classified);
}

static void read_tables(struct table_reader *reader)
{
    const struct af_toml_item *root = reader->toml.root;
    const struct af_toml_item *pixi = af_toml_find(&reader->toml, AF_TOML_PATH("tool", "pixi"));
    if (reader->source->kind == AF_PROJECT_PIXI)
        pixi = root;
    reader->uv = af_toml_find(&reader->toml, AF_TOML_PATH("tool", "uv"));
    reader->from = af_project_uv_child(af_toml_get(reader->uv, "sources"), FLASH);
    reader->is_arranged = builds_with_torch(reader, pixi);
    note_stated(reader, pixi);
    if (reader->source->kind == AF_PROJECT_PYTHON) {
        follow_rows(reader, root, script_rows, AF_COUNT(script_rows));
        return;
    }
    follow_rows(reader, root, rows, AF_COUNT(rows));
    follow_rows(reader, pixi, pixi_rows, AF_COUNT(pixi_rows));
}

void af_project_asks_read_tables(struct af_project_asks *asks, size_t source,
                                 struct af_span text)
{
    struct table_reader reader = {
        .asks = asks, .source = &asks->sources[source], .stated = &asks->stated[source]};
    struct af_arena arena;
    af_arena_init(&arena);
    if (af_toml_parse(&reader.toml, &arena, text, "project", NULL) == ANYFLASH_OK)
        read_tables(&reader);
    af_arena_release(&arena);
}

void af_project_asks_read_toml(struct af_project_asks *asks, size_t source)
{
    af_project_asks_read_tables(asks, source, asks->sources[source].text);
}
