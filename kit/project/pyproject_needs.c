/*
 * pyproject_needs.c: a local project: the dependencies, extras and dependency groups of its
 * pyproject.toml, and the files that setuptools takes them from.
 */
#include "kit/project/requirement_parts.h"

#include "kit/base/text.h"
#include "kit/base/url.h"
#include "kit/formats/metadata.h"
#include "kit/formats/toml.h"
#include "kit/formats/wheel_name.h"

#include <string.h>

#define NAME_BYTES 256

static struct af_span span_of(const char *text)
{
    return (struct af_span){text, strlen(text)};
}

/* Whether the comma-separated list has `name`, comparing normalised names. */
static bool list_has(const char *list, const char *name)
{
    char wanted[NAME_BYTES];
    if (!af_name_normalise(span_of(name), wanted, sizeof wanted))
        return false;
    while (*list != '\0') {
        size_t len = strcspn(list, ",");
        if (af_name_is(af_text_trim((struct af_span){list, len}), wanted))
            return true;
        list += len + (list[len] == ',');
    }
    return false;
}

/* The extras that "NAME[a,b]" in a project called NAME names; NULL if `text` is not that. */
static const char *own_extras(struct af_project *project, const char *own_name,
                              const char *text)
{
    struct af_requirement requirement;
    char own[NAME_BYTES];
    if (own_name == NULL || !af_requirement_parse(span_of(text), &requirement) ||
        requirement.extras.len == 0 || !af_name_normalise(span_of(own_name), own, sizeof own) ||
        !af_name_is(requirement.name, own))
        return NULL;
    return af_project_text(project->arena, requirement.extras);
}

static enum anyflash_status add_tables(struct af_project *project, const struct af_toml *toml,
                                       bool is_group, const char *names,
                                       struct af_project_at at, struct anyflash_error *err);

/* Adds extras or a group that an array names. Extras may name each other in a circle. */
static enum anyflash_status add_nested(struct af_project *project, const struct af_toml *toml,
                                       bool is_group, const char *names,
                                       struct af_project_at at, struct anyflash_error *err)
{
    if (at.depth++ < AF_PROJECT_DEPTH_MAX)
        return add_tables(project, toml, is_group, names, at, err);
    return is_group
               ? af_fail(err, ANYFLASH_E_LIMIT,
                         "dependency groups are nested more than %u deep", AF_PROJECT_DEPTH_MAX)
               : ANYFLASH_OK;
}

/*
 * Adds the strings of an array, then the groups that it includes. A project that names itself
 * with extras means its own.
 */
static enum anyflash_status add_array(struct af_project *project, const struct af_toml *toml,
                                      const struct af_toml_item *array, struct af_project_at at,
                                      struct anyflash_error *err)
{
    const char *own_name = af_toml_text(toml, AF_TOML_PATH("project", "name"));
    enum anyflash_status status = ANYFLASH_OK;
    const struct af_toml_item *first = array == NULL ? NULL : array->first, *item = first;
    for (; item != NULL && status == ANYFLASH_OK; item = item->next) {
        if (item->text == NULL)
            continue;
        const char *extras = own_extras(project, own_name, item->text);
        status = extras != NULL ? add_nested(project, toml, false, extras, at, err)
                                : af_project_add_requirement(project, span_of(item->text), "",
                                                             false, at, err);
    }
    for (item = first; item != NULL && status == ANYFLASH_OK; item = item->next) {
        const struct af_toml_item *group = af_toml_get(item, "include-group");
        if (group != NULL && group->text != NULL)
            status = add_nested(project, toml, true, group->text, at, err);
    }
    return status;
}

/* Adds the extras, or the dependency groups, with these names. */
static enum anyflash_status add_tables(struct af_project *project, const struct af_toml *toml,
                                       bool is_group, const char *names,
                                       struct af_project_at at, struct anyflash_error *err)
{
    const struct af_toml_item *table =
        is_group ? af_toml_find(toml, AF_TOML_PATH("dependency-groups"))
                 : af_toml_find(toml, AF_TOML_PATH("project", "optional-dependencies"));
    enum anyflash_status status =
        af_project_count_item(project, &at, err); /* each may repeat others */
    const struct af_toml_item *item = table == NULL ? NULL : table->first;
    for (; item != NULL && status == ANYFLASH_OK; item = item->next)
        if (item->key != NULL && list_has(names, item->key))
            status = add_array(project, toml, item, at, err);
    return status;
}

/*
 * Reads and parses the pyproject.toml `path`. *toml_out has no root if the folder has none.
 */
static enum anyflash_status read_toml(struct af_project *project, const char *path,
                                      struct af_toml *toml_out, struct anyflash_error *err)
{
    struct af_span text;
    *toml_out = (struct af_toml){.arena = project->arena};
    enum anyflash_status status =
        project->read(project->context, project->arena, path, &text, err);
    if (status != ANYFLASH_OK)
        return status;
    const char *shown = af_text_scrub(project->arena, path, AF_URL_SHOWN_BYTES);
    return af_toml_parse(toml_out, project->arena, text, shown, err);
}

/* Adds the files of "file = 'a.txt'" or "file = ['a.txt', 'b.txt']"; false if it is neither. */
static bool add_named_files(struct af_project *project, const struct af_toml_item *file,
                            struct af_project_at at)
{
    const struct af_toml_item *item = file;
    if (file == NULL)
        return false;
    if (file->text != NULL)
        return af_project_include_file(project, file->text, false, at, NULL) == ANYFLASH_OK;
    for (item = file->first; item != NULL; item = item->next)
        if (item->text == NULL ||
            af_project_include_file(project, item->text, false, at, NULL) != ANYFLASH_OK)
            return false;
    return file->first != NULL;
}

/*
 * Whether what the project leaves open at `key` was read: setuptools takes it from files that
 * [tool.setuptools.dynamic] names. Any other build program computes it.
 */
static bool add_dynamic(struct af_project *project, const struct af_toml *toml, const char *key,
                        const char *extras, struct af_project_at at)
{
    const struct af_toml_item *table =
        af_toml_get(af_toml_find(toml, AF_TOML_PATH("tool", "setuptools", "dynamic")), key);
    bool done = true;
    if (table == NULL || strcmp(key, "dependencies") == 0)
        return add_named_files(project, af_toml_get(table, "file"), at);
    for (const struct af_toml_item *item = table->first; item != NULL; item = item->next)
        if (item->key != NULL && list_has(extras, item->key) &&
            !add_named_files(project, af_toml_get(item, "file"), at))
            done = false;
    return done;
}

/* Adds what [project] leaves to the build program; false if that alone can tell. */
static bool add_open(struct af_project *project, const struct af_toml *toml, const char *extras,
                     struct af_project_at at)
{
    const struct af_toml_item *table = af_toml_find(toml, AF_TOML_PATH("project"));
    const struct af_toml_item *dynamic = af_toml_get(table, "dynamic");
    bool done = table != NULL;
    for (const struct af_toml_item *item = dynamic == NULL ? NULL : dynamic->first;
         item != NULL; item = item->next) {
        bool optional = item->text != NULL && strcmp(item->text, "optional-dependencies") == 0;
        if (item->text != NULL &&
            (strcmp(item->text, "dependencies") == 0 || (optional && extras[0] != '\0')) &&
            !add_dynamic(project, toml, item->text, extras, at))
            done = false;
    }
    return done;
}

enum anyflash_status af_project_add_local(struct af_project *project, const char *folder,
                                          const char *extras, struct af_project_at at,
                                          struct anyflash_error *err)
{
    const char *path = af_path_join(project->arena, folder, "pyproject.toml");
    const char *asked = af_arena_format(project->arena, "%s[%s]", path, extras);
    struct af_project_file *file;
    struct af_toml toml;
    enum anyflash_status status = af_project_open_file(project, asked, &at, &file, err);
    if (status != ANYFLASH_OK || file == NULL)
        return status;
    at = (struct af_project_at){{path, 0, 0}, false, at.depth + 1};
    status = read_toml(project, path, &toml, err);
    if (status == ANYFLASH_OK)
        status =
            add_array(project, &toml,
                      af_toml_find(&toml, AF_TOML_PATH("project", "dependencies")), at, err);
    else if (status == ANYFLASH_E_NOT_FOUND)
        status = ANYFLASH_OK; /* an archive, or a project of setup.py alone */
    bool done = toml.root != NULL && add_open(project, &toml, extras, at);
    if (status == ANYFLASH_OK && !done)
        af_project_note_unread(project, folder);
    if (status == ANYFLASH_OK && toml.root != NULL)
        status = add_tables(project, &toml, false, extras, at, err);
    file->open = false;
    return status;
}

enum anyflash_status af_project_add_folder(struct af_project *project, const char *folder,
                                           const char *extras, struct anyflash_error *err)
{
    return af_project_add_local(project, folder, extras, (struct af_project_at){0}, err);
}

enum anyflash_status af_project_add_group(struct af_project *project, const char *path,
                                          const char *group, struct anyflash_error *err)
{
    struct af_toml toml;
    enum anyflash_status status = read_toml(project, path, &toml, err);
    return status != ANYFLASH_OK
               ? status
               : add_nested(project, &toml, true, group,
                            (struct af_project_at){{path, 0, 0}, false, 0}, err);
}
