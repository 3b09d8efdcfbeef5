/*
 * config_project.c: takes what the files of a project require of torch, of the packages that
 * decide which torch there is, and of flash-attn. config_decide.c draws the conclusions.
 */
#include "kit/config/config_project.h"

#include <string.h>

#include "kit/base/text.h"
#include "kit/base/url.h"
#include "kit/formats/wheel_name.h"
#include "kit/project/project_asks.h"

#define SHOWN_BYTES 160

/* Each release of the others needs one release of torch. */
static const char *const torch_names[] = {"torch", "torchvision", "torchaudio", "vllm",
                                          "xformers"};

static bool is_about_torch(struct af_span name)
{
    for (size_t i = 0; i < AF_COUNT(torch_names); i++)
        if (af_name_is(name, torch_names[i]))
            return true;
    return false;
}

struct reader {
    struct af_config_project *project;
    struct af_config_file *file;
    struct af_toml toml;
    struct anyflash_error *err;
};

static struct af_config_file *new_file(struct af_config_project *project, const char *name,
                                       af_project_read_file_fn *read, void *context)
{
    struct af_config_file *file = &project->files[project->file_count];
    if (project->file_count == AF_CONFIG_FILES_MAX)
        return NULL;
    project->file_count++;
    *file = (struct af_config_file){
        .name = name, .project = {.arena = project->arena, .read = read, .context = context}};
    return file;
}

/* "torch==2.7.1+cu126 ; MARKER" for the URL of a wheel; NULL: it names no version. */
static const char *pin_of_url(struct af_arena *arena, const char *name, const char *url,
                              const char *marker)
{
    struct af_wheel_name wheel;
    const char *file = url == NULL ? NULL : af_url_file_name(arena, url);
    if (file == NULL || af_wheel_name_parse(file, strlen(file), &wheel) != AF_WHEEL_NAME_VALID)
        return NULL;
    return af_arena_format(arena, "%s==%s%s%s", name, wheel.version_text,
                           marker[0] == '\0' ? "" : " ; ", marker);
}

/* Adds the requirement if it is about torch or the package. An address is no specifier. */
static enum anyflash_status add_text(struct reader *reader, struct af_project *project,
                                     const char *text)
{
    struct af_requirement parsed;
    struct af_arena *arena = reader->project->arena;
    if (text == NULL || !af_requirement_parse((struct af_span){text, strlen(text)}, &parsed) ||
        (!is_about_torch(parsed.name) && !af_name_is(parsed.name, reader->project->package)))
        return ANYFLASH_OK;
    if (parsed.url.len > 0)
        text = !is_about_torch(parsed.name)
                   ? NULL
                   : pin_of_url(arena, af_project_text(arena, parsed.name),
                                af_project_text(arena, parsed.url),
                                af_project_text(arena, parsed.marker));
    return text == NULL ? ANYFLASH_OK : af_project_add_word(project, text, false, reader->err);
}

/* "cu126" of an index whose path ends in "/cu126"; NULL: it does not say it. */
static const char *index_cuda(struct af_arena *arena, const char *url)
{
    const char *found = url == NULL ? NULL : strstr(url, "/cu");
    size_t digits = found == NULL ? 0 : strspn(found + 3, "0123456789");
    return digits < 2 || (found[3 + digits] != '\0' && found[3 + digits] != '/')
               ? NULL
               : af_arena_text_n(arena, found + 1, 2 + digits);
}

static const char *text_of(const struct af_toml_item *table, const char *key)
{
    const struct af_toml_item *item = af_toml_get(table, key);
    return item == NULL ? NULL : item->text;
}

/* One source of uv for torch: a wheel pins its version, an index may say which CUDA. */
static enum anyflash_status add_source(struct reader *reader, const struct af_toml_item *source)
{
    struct af_arena *arena = reader->project->arena;
    const char *index = text_of(source, "index");
    const char *url = text_of(source, "url"), *marker = text_of(source, "marker");
    const struct af_toml_item *list =
        af_toml_find(&reader->toml, AF_TOML_PATH("tool", "uv", "index"));
    const struct af_toml_item *row = list == NULL || index == NULL ? NULL : list->first;
    for (; row != NULL; row = row->next)
        if (af_equal(text_of(row, "name"), index) && reader->project->torch_cuda == NULL)
            reader->project->torch_cuda = index_cuda(arena, text_of(row, "url"));
    return add_text(reader, &reader->file->project,
                    pin_of_url(arena, "torch", url != NULL ? url : text_of(source, "path"),
                               marker == NULL ? "" : marker));
}

static enum anyflash_status add_sources(struct reader *reader)
{
    enum anyflash_status status = ANYFLASH_OK;
    const struct af_toml_item *source =
        af_toml_find(&reader->toml, AF_TOML_PATH("tool", "uv", "sources", "torch"));
    if (source == NULL || source->kind != AF_TOML_ARRAY)
        return source == NULL ? ANYFLASH_OK : add_source(reader, source);
    for (source = source->first; source != NULL && status == ANYFLASH_OK; source = source->next)
        status = add_source(reader, source);
    return status;
}

/* Reads from a pyproject.toml where uv takes torch from. */
static enum anyflash_status add_pyproject(struct reader *reader, struct af_span text)
{
    struct af_project empty = {.arena = reader->project->arena,
                               .read = af_project_read_nothing};
    reader->project->overrides = reader->project->dependencies = empty;
    enum anyflash_status status = af_toml_parse(&reader->toml, reader->project->arena, text,
                                                reader->file->name, reader->err);
    return status == ANYFLASH_OK ? add_sources(reader) : status;
}

/* A requirement of the file, and of the list that is looked at alone, if there is one. */
static enum anyflash_status add_ask(struct reader *reader, const struct af_project_ask *ask)
{
    struct af_config_project *project = reader->project;
    struct af_project *alone =
        af_equal(ask->table, "project.dependencies")            ? &project->dependencies
        : af_equal(ask->table, "tool.uv.override-dependencies") ? &project->overrides
                                                                : NULL;
    const char *text = ask->text;
    if (text == NULL && ask->url[0] != '\0')
        return ANYFLASH_OK;
    if (text == NULL)
        text = af_arena_format(project->arena, "%s%s%s%s", ask->name, ask->specifier,
                               ask->marker[0] == '\0' ? "" : " ; ", ask->marker);
    enum anyflash_status status = add_text(reader, &reader->file->project, text);
    return status == ANYFLASH_OK && alone != NULL ? add_text(reader, alone, text) : status;
}

static enum anyflash_status add_asks(struct reader *reader,
                                     const struct af_project_source *source)
{
    struct af_project_asks asks;
    const char *wanted[AF_COUNT(torch_names) + 2] = {reader->project->package};
    memcpy(wanted + 1, torch_names, sizeof torch_names);
    af_project_asks_read_all(reader->project->arena, source, wanted, &asks);
    if (reader->project->requires_python == NULL)
        reader->project->requires_python = asks.stated[0].python_range;
    enum anyflash_status status = ANYFLASH_OK;
    const struct af_project_ask *ask = asks.first;
    for (; ask != NULL && status == ANYFLASH_OK; ask = ask->next)
        status = add_ask(reader, ask);
    return status;
}

enum anyflash_status af_config_project_add(struct af_config_project *project,
                                           const struct af_project_source *source,
                                           struct anyflash_error *err)
{
    struct reader reader = {.project = project, .err = err};
    reader.file = new_file(project, af_path_name(source->path), af_project_read_nothing, NULL);
    if (reader.file == NULL)
        return ANYFLASH_OK;
    enum anyflash_status status = source->kind == AF_PROJECT_PYPROJECT
                                      ? add_pyproject(&reader, source->text)
                                      : ANYFLASH_OK;
    return status == ANYFLASH_OK ? add_asks(&reader, source) : status;
}

void af_config_project_add_lines(struct af_config_project *project, const char *path,
                                 af_project_read_file_fn *read, void *context)
{
    struct af_config_file *file = new_file(project, af_path_name(path), read, context);
    if (file != NULL)
        af_project_add_file(&file->project, path, false, NULL);
}

/* Whether the file requires `name`, or for torch something that decides it. */
static bool is_stated(const struct af_config_file *file, const char *name,
                      const struct af_marker_environment *environment)
{
    if (!is_about_torch((struct af_span){name, strlen(name)}))
        return af_project_next(&file->project, NULL, name, environment) != NULL;
    for (size_t i = 0; i < AF_COUNT(torch_names); i++)
        if (af_project_next(&file->project, NULL, torch_names[i], environment) != NULL)
            return true;
    return false;
}

const struct af_project_requirement *af_config_project_next(
    const struct af_config_project *project, const struct af_project_requirement *after,
    const char *name, const struct af_marker_environment *environment)
{
    for (size_t i = 0; i < project->file_count; i++)
        if (is_stated(&project->files[i], name, environment))
            return af_project_next(&project->files[i].project, after, name, environment);
    return NULL;
}

const char *af_config_project_place(const struct af_config_project *project,
                                    const struct af_project_requirement *requirement)
{
    const char *name = requirement->place.file;
    for (size_t i = 0; i < project->file_count && name == NULL; i++)
        for (const struct af_project_requirement *at = project->files[i].project.requirements;
             at != NULL; at = at->next)
            if (at == requirement)
                name = project->files[i].name;
    return af_arena_format(
        project->arena, "'%s' in %s",
        af_text_scrub(project->arena, requirement->text, SHOWN_BYTES),
        af_text_scrub(project->arena, name == NULL ? "" : af_path_name(name), SHOWN_BYTES));
}
