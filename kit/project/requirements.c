/*
 * requirements.c: requirement lines, option lines and pyproject.toml.
 *
 * Lines are joined, cut and split as pip and uv do it (pip._internal.req.req_file).
 */
#include "kit/project/requirements.h"

#include "kit/base/text.h"
#include "kit/base/url.h"
#include "kit/formats/metadata.h"
#include "kit/formats/toml.h"
#include "kit/formats/version.h"
#include "kit/formats/wheel_name.h"

#include <string.h>

#define NAME_BYTES 256

/* A file that was read, or is being read. */
struct af_project_file {
    const char *path;
    bool constraint;
    bool open; /* being read: a file that includes it is circular */
    struct af_project_file *next;
};

/* Where the reader is. */
struct at {
    struct af_project_place place;
    bool constraint;
    unsigned depth;
};

static struct af_span span_of(const char *text)
{
    return (struct af_span){text, strlen(text)};
}

static struct af_span part(struct af_span span, size_t start, size_t end)
{
    return (struct af_span){span.data + start, end - start};
}

static bool is_blank(char letter)
{
    return letter == ' ' || letter == '\t' || letter == '\r' || letter == '\f';
}

static const char *copy(struct af_project *project, struct af_span span)
{
    return af_project_text(project->arena, span);
}

static enum anyflash_status check_count(struct af_project *project, const struct at *at,
                                        struct anyflash_error *err)
{
    char shown[AF_URL_SHOWN_BYTES];
    const char *file = at->place.file == NULL ? "the command" : at->place.file;
    if (project->item_count++ < AF_PROJECT_ITEMS_MAX)
        return ANYFLASH_OK;
    return af_fail(err, ANYFLASH_E_LIMIT, "'%s' asks for more than %u things",
                   af_text_quote(shown, sizeof shown, file, strlen(file)),
                   AF_PROJECT_ITEMS_MAX);
}

/* ---- requirements ---- */

static void append_requirement(struct af_project *project, struct af_project_requirement *made)
{
    if (project->last_requirement == NULL)
        project->requirements = made;
    else
        project->last_requirement->next = made;
    project->last_requirement = made;
}

/* Only a program can tell what `place` needs. */
static void note_unread(struct af_project *project, const char *place)
{
    if (project->unread == NULL)
        project->unread = place;
}

/* Takes name, extras, specifier, URL and marker of a PEP 508 text; false if it is none. */
static bool take_named(struct af_project *project, struct af_span text,
                       struct af_project_requirement *made)
{
    struct af_requirement requirement;
    char name[NAME_BYTES];
    if (!af_requirement_parse(text, &requirement) ||
        !af_name_normalise(requirement.name, name, sizeof name))
        return false;
    made->name = copy(project, span_of(name));
    made->extras = copy(project, requirement.extras);
    made->specifier = copy(project, requirement.specifier);
    made->marker = copy(project, requirement.marker);
    made->url = requirement.url.len == 0 ? NULL : copy(project, requirement.url);
    return true;
}

/* Removes " ; marker" from the end. A ';' without a blank may belong to a URL or a path. */
static struct af_span cut_marker(struct af_project *project, struct af_span text,
                                 struct af_project_requirement *made)
{
    for (size_t i = 1; i < text.len; i++) {
        if (text.data[i] != ';' || !is_blank(text.data[i - 1]))
            continue;
        made->marker = copy(project, af_text_trim(part(text, i + 1, text.len)));
        return af_text_trim(part(text, 0, i));
    }
    return text;
}

/* The name in "#egg=NAME" or in the wheel's file name at the end of `place`; NULL: unknown. */
static const char *name_in_place(struct af_project *project, const char *place)
{
    static struct af_wheel_name wheel;
    char name[NAME_BYTES];
    const char *egg = strstr(place, "#egg=");
    if (egg != NULL) {
        struct af_span written = {egg + 5, strcspn(egg + 5, "&[")};
        return af_name_normalise(written, name, sizeof name) ? copy(project, span_of(name))
                                                             : NULL;
    }
    const char *file = af_url_file_name(project->arena, place);
    if (af_wheel_name_parse(file, strlen(file), &wheel) != AF_WHEEL_NAME_VALID ||
        !af_name_normalise(span_of(wheel.package), name, sizeof name))
        return NULL;
    return copy(project, span_of(name));
}

static bool is_archive(const char *path)
{
    return af_ends_with(path, ".whl") || af_ends_with(path, ".tar.gz") ||
           af_ends_with(path, ".zip");
}

/* Takes a URL or a path with extras; leaves both NULL for a line that is neither. */
static void take_place(struct af_project *project, struct af_span text,
                       struct af_project_requirement *made)
{
    text = cut_marker(project, text, made);
    const char *place = copy(project, text);
    if (strstr(place, "://") != NULL && !af_starts_with(place, "file:")) {
        made->url = place;
        made->name = name_in_place(project, place);
        return;
    }
    size_t bracket = strcspn(place, "[");
    if (place[bracket] == '[' && af_ends_with(place, "]")) { /* a NUL may end `place` */
        made->extras = copy(project, part(text, bracket + 1, text.len - 1));
        text.len = bracket;
        place = copy(project, text);
    }
    const char *path = af_url_file_path(project->arena, place);
    bool is_path = path != NULL || strchr(place, '/') != NULL || place[0] == '.' ||
                   is_archive(place) || made->editable;
    if (is_path) {
        made->path = path == NULL ? place : path;
        made->name = name_in_place(project, place);
    }
}

static enum anyflash_status add_project(struct af_project *project, const char *folder,
                                        const char *extras, struct at at,
                                        struct anyflash_error *err);

/* Adds the requirement `text`; `hashes` are those of its --hash options. */
static enum anyflash_status add_requirement(struct af_project *project, struct af_span text,
                                            const char *hashes, bool editable, struct at at,
                                            struct anyflash_error *err)
{
    struct af_project_requirement *made = af_arena_alloc(project->arena, sizeof *made);
    enum anyflash_status status = check_count(project, &at, err);
    if (status != ANYFLASH_OK)
        return status;
    *made = (struct af_project_requirement){.place = at.place,
                                            .text = copy(project, text),
                                            .extras = "",
                                            .specifier = "",
                                            .marker = "",
                                            .hashes = hashes,
                                            .constraint = at.constraint,
                                            .editable = editable};
    if (editable || !take_named(project, text, made))
        take_place(project, text, made);
    append_requirement(project, made);
    if (made->name == NULL && !at.constraint &&
        (made->url != NULL || (made->path != NULL && is_archive(made->path))))
        note_unread(project, made->url != NULL ? made->url : made->path);
    if (made->path == NULL || at.constraint || is_archive(made->path))
        return ANYFLASH_OK;
    const char *before = project->unread;
    project->unread = NULL;
    status = add_project(project, made->path, made->extras, at, err);
    made->is_read = status == ANYFLASH_OK && project->unread == NULL;
    project->unread = before != NULL ? before : project->unread;
    return status;
}

/* ---- pyproject.toml ---- */

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
    return copy(project, requirement.extras);
}

static enum anyflash_status add_tables(struct af_project *project, const struct af_toml *toml,
                                       bool is_group, const char *names, struct at at,
                                       struct anyflash_error *err);

/* Adds extras or a group that an array names. Extras may name each other in a circle. */
static enum anyflash_status add_nested(struct af_project *project, const struct af_toml *toml,
                                       bool is_group, const char *names, struct at at,
                                       struct anyflash_error *err)
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
                                      const struct af_toml_item *array, struct at at,
                                      struct anyflash_error *err)
{
    const char *own_name = af_toml_text(toml, AF_TOML_PATH("project", "name"));
    enum anyflash_status status = ANYFLASH_OK;
    const struct af_toml_item *first = array == NULL ? NULL : array->first, *item = first;
    for (; item != NULL && status == ANYFLASH_OK; item = item->next) {
        if (item->text == NULL)
            continue;
        const char *extras = own_extras(project, own_name, item->text);
        status = extras != NULL
                     ? add_nested(project, toml, false, extras, at, err)
                     : add_requirement(project, span_of(item->text), "", false, at, err);
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
                                       bool is_group, const char *names, struct at at,
                                       struct anyflash_error *err)
{
    const struct af_toml_item *table =
        is_group ? af_toml_find(toml, AF_TOML_PATH("dependency-groups"))
                 : af_toml_find(toml, AF_TOML_PATH("project", "optional-dependencies"));
    enum anyflash_status status = check_count(project, &at, err); /* each may repeat others */
    const struct af_toml_item *item = table == NULL ? NULL : table->first;
    for (; item != NULL && status == ANYFLASH_OK; item = item->next)
        if (item->key != NULL && list_has(names, item->key))
            status = add_array(project, toml, item, at, err);
    return status;
}

/*
 * Notes that the file is being read. *file_out is NULL if it was read before with the same
 * meaning. Fails with DATA if it is still being read, and with LIMIT.
 */
static enum anyflash_status open_file(struct af_project *project, const char *path,
                                      const struct at *at, struct af_project_file **file_out,
                                      struct anyflash_error *err)
{
    char shown[AF_URL_SHOWN_BYTES];
    struct af_project_file *file = project->files;
    *file_out = NULL;
    af_text_quote(shown, sizeof shown, path, strlen(path));
    while (file != NULL &&
           (strcmp(file->path, path) != 0 || file->constraint != at->constraint))
        file = file->next;
    if (file != NULL && file->open)
        return af_fail(err, ANYFLASH_E_DATA, "'%s' includes itself", shown);
    if (file != NULL)
        return ANYFLASH_OK;
    if (at->depth >= AF_PROJECT_DEPTH_MAX)
        return af_fail(err, ANYFLASH_E_LIMIT, "'%s' is included more than %u files deep", shown,
                       AF_PROJECT_DEPTH_MAX);
    if (project->file_count++ >= AF_PROJECT_FILES_MAX)
        return af_fail(err, ANYFLASH_E_LIMIT, "'%s' is one of more than %u files", shown,
                       AF_PROJECT_FILES_MAX);
    file = af_arena_alloc(project->arena, sizeof *file);
    *file = (struct af_project_file){path, at->constraint, true, project->files};
    project->files = *file_out = file;
    return ANYFLASH_OK;
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

/* ---- lines ---- */

static enum anyflash_status add_option(struct af_project *project,
                                       enum af_project_meaning meaning, const char *value,
                                       const struct at *at, struct anyflash_error *err)
{
    struct af_project_option *made = af_arena_alloc(project->arena, sizeof *made);
    enum anyflash_status status = check_count(project, at, err);
    if (status != ANYFLASH_OK)
        return status;
    *made = (struct af_project_option){meaning, value, NULL};
    if (project->last_option == NULL)
        project->options = made;
    else
        project->last_option->next = made;
    project->last_option = made;
    return ANYFLASH_OK;
}

static enum anyflash_status add_file(struct af_project *project, const char *path, struct at at,
                                     struct anyflash_error *err);

/* -r or -c: the path is relative to the folder of the file that names it. */
static enum anyflash_status include_file(struct af_project *project, const char *path,
                                         bool constraint, struct at at,
                                         struct anyflash_error *err)
{
    if (strstr(path, "://") != NULL && !af_starts_with(path, "file:"))
        return add_option(project,
                          constraint ? AF_PROJECT_MEANS_CONSTRAINT : AF_PROJECT_MEANS_FILE,
                          path, &at, err);
    const char *local = af_url_file_path(project->arena, path);
    if (local == NULL)
        local = path;
    if (local[0] != '/' && at.place.file != NULL && strchr(at.place.file, '/') != NULL)
        local =
            af_path_join(project->arena, af_path_folder(project->arena, at.place.file), local);
    at.constraint = at.constraint || constraint;
    return add_file(project, local, at, err);
}

/* What one option adds. */
static enum anyflash_status take_option(struct af_project *project,
                                        const struct af_project_option_word *option,
                                        const struct at *at, struct anyflash_error *err)
{
    switch (option->meaning) {
    case AF_PROJECT_MEANS_FILE:
    case AF_PROJECT_MEANS_CONSTRAINT:
        return include_file(project, option->value,
                            option->meaning == AF_PROJECT_MEANS_CONSTRAINT, *at, err);
    case AF_PROJECT_MEANS_EDITABLE:
        return add_requirement(project, span_of(option->value), "", true, *at, err);
    case AF_PROJECT_MEANS_INDEX:
    case AF_PROJECT_MEANS_NO_BINARY:
        return add_option(project, option->meaning, option->value, at, err);
    default:
        return ANYFLASH_OK;
    }
}

/* A line of options, such as "-r base.txt" or "-i https://... --pre". */
static enum anyflash_status add_option_line(struct af_project *project, struct af_span line,
                                            const struct at *at, struct anyflash_error *err)
{
    enum anyflash_status status = ANYFLASH_OK;
    const char *word;
    while (status == ANYFLASH_OK &&
           (word = af_project_next_word(project->arena, &line, "")) != NULL) {
        struct af_project_option_word option;
        if (af_project_option_parse(word, &option) &&
            (option.value = af_project_next_word(project->arena, &line, "")) == NULL)
            break;
        status = take_option(project, &option, at, err);
    }
    return status;
}

/* "sha256:... sha256:..." of the options behind a requirement. */
static const char *hashes_of(struct af_project *project, struct af_span options)
{
    struct af_text hashes = {0};
    const char *word;
    while ((word = af_project_next_word(project->arena, &options, "")) != NULL) {
        struct af_project_option_word option;
        if (af_project_option_parse(word, &option))
            option.value = af_project_next_word(project->arena, &options, "");
        if (option.meaning != AF_PROJECT_MEANS_HASH || option.value == NULL)
            continue;
        af_text_add(&hashes, hashes.len == 0 ? "" : " ");
        af_text_add(&hashes, option.value);
    }
    return af_text_take(&hashes, project->arena);
}

/* One joined line, without its comment: options, or a requirement with options behind it. */
static enum anyflash_status add_line(struct af_project *project, struct af_span line,
                                     const struct at *at, struct anyflash_error *err)
{
    size_t end = 0;
    while (end < line.len &&
           !(line.data[end] == '#' && (end == 0 || is_blank(line.data[end - 1]))))
        end++;
    line = af_text_trim(part(line, 0, end));
    if (line.len == 0)
        return ANYFLASH_OK;
    if (line.data[0] == '-')
        return add_option_line(project, line, at, err);
    for (end = 1; end < line.len; end++)
        if (line.data[end] == '-' && is_blank(line.data[end - 1]))
            break;
    const char *hashes = hashes_of(project, part(line, end, line.len));
    return add_requirement(project, af_text_trim(part(line, 0, end)), hashes, false, *at, err);
}

static bool is_comment(struct af_span line)
{
    line = af_text_trim(line);
    return line.len > 0 && line.data[0] == '#';
}

/*
 * Reads the lines of a file, joining those that end in a backslash. A comment line ends such a
 * joined line.
 */
static enum anyflash_status add_lines(struct af_project *project, struct af_span file,
                                      struct at at, struct anyflash_error *err)
{
    bool has_mark = file.len >= 3 && memcmp(file.data, "\xef\xbb\xbf", 3) == 0;
    struct af_span text = part(file, has_mark ? 3 : 0, file.len);
    enum anyflash_status status = ANYFLASH_OK;
    struct af_text joined = {0};
    struct af_span line;
    int64_t number = 0;
    bool more = true;
    while (more && status == ANYFLASH_OK) {
        more = af_text_line(&text, &line);
        number += more;
        if (more && line.len > 0 && line.data[line.len - 1] == '\r')
            line.len--;
        if (joined.len == 0 && more)
            at.place = (struct af_project_place){at.place.file, number,
                                                 (size_t)(line.data - file.data)};
        bool open =
            more && !is_comment(line) && line.len > 0 && line.data[line.len - 1] == '\\';
        if (more) {
            af_text_add(&joined, is_comment(line) ? " " : "");
            af_text_add_n(&joined, line.data, line.len - open);
        }
        if (open || joined.len == 0)
            continue;
        status = add_line(project, (struct af_span){joined.data, joined.len}, &at, err);
        joined.len = 0;
    }
    af_text_release(&joined);
    return status;
}

static enum anyflash_status add_file(struct af_project *project, const char *path, struct at at,
                                     struct anyflash_error *err)
{
    struct af_project_file *file;
    struct af_span text;
    const char *kept = af_arena_text(project->arena, path);
    enum anyflash_status status = open_file(project, kept, &at, &file, err);
    if (status != ANYFLASH_OK || file == NULL)
        return status;
    status = project->read(project->context, project->arena, kept, &text, err);
    at = (struct at){{kept, 0, 0}, at.constraint, at.depth + 1};
    bool wide =
        status == ANYFLASH_OK && text.len >= 2 &&
        (memcmp(text.data, "\xff\xfe", 2) == 0 || memcmp(text.data, "\xfe\xff", 2) == 0);
    if (wide)
        status = af_fail(err, ANYFLASH_E_DATA, "'%s' is UTF-16: save it as UTF-8",
                         af_text_scrub(project->arena, kept, AF_URL_SHOWN_BYTES));
    if (status == ANYFLASH_OK)
        status = add_lines(project, text, at, err);
    file->open = false;
    return status;
}

/* ---- local projects ---- */

/* Adds the files of "file = 'a.txt'" or "file = ['a.txt', 'b.txt']"; false if it is neither. */
static bool add_named_files(struct af_project *project, const struct af_toml_item *file,
                            struct at at)
{
    const struct af_toml_item *item = file;
    if (file == NULL)
        return false;
    if (file->text != NULL)
        return include_file(project, file->text, false, at, NULL) == ANYFLASH_OK;
    for (item = file->first; item != NULL; item = item->next)
        if (item->text == NULL ||
            include_file(project, item->text, false, at, NULL) != ANYFLASH_OK)
            return false;
    return file->first != NULL;
}

/*
 * Whether what the project leaves open at `key` was read: setuptools takes it from files that
 * [tool.setuptools.dynamic] names. Any other build program computes it.
 */
static bool add_dynamic(struct af_project *project, const struct af_toml *toml, const char *key,
                        const char *extras, struct at at)
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
                     struct at at)
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

static enum anyflash_status add_project(struct af_project *project, const char *folder,
                                        const char *extras, struct at at,
                                        struct anyflash_error *err)
{
    const char *path = af_path_join(project->arena, folder, "pyproject.toml");
    const char *asked = af_arena_format(project->arena, "%s[%s]", path, extras);
    struct af_project_file *file;
    struct af_toml toml;
    enum anyflash_status status = open_file(project, asked, &at, &file, err);
    if (status != ANYFLASH_OK || file == NULL)
        return status;
    at = (struct at){{path, 0, 0}, false, at.depth + 1};
    status = read_toml(project, path, &toml, err);
    if (status == ANYFLASH_OK)
        status =
            add_array(project, &toml,
                      af_toml_find(&toml, AF_TOML_PATH("project", "dependencies")), at, err);
    else if (status == ANYFLASH_E_NOT_FOUND)
        status = ANYFLASH_OK; /* an archive, or a project of setup.py alone */
    bool done = toml.root != NULL && add_open(project, &toml, extras, at);
    if (status == ANYFLASH_OK && !done)
        note_unread(project, folder);
    if (status == ANYFLASH_OK && toml.root != NULL)
        status = add_tables(project, &toml, false, extras, at, err);
    file->open = false;
    return status;
}

/* ---- for others ---- */

enum anyflash_status af_project_add_file(struct af_project *project, const char *path,
                                         bool constraint, struct anyflash_error *err)
{
    return include_file(project, path, constraint, (struct at){0}, err);
}

enum anyflash_status af_project_add_word(struct af_project *project, const char *word,
                                         bool editable, struct anyflash_error *err)
{
    return add_requirement(project, af_text_trim(span_of(word)), "", editable, (struct at){0},
                           err);
}

enum anyflash_status af_project_add_option(struct af_project *project,
                                           const struct af_project_option_word *option,
                                           struct anyflash_error *err)
{
    return take_option(project, option, &(struct at){0}, err);
}

enum anyflash_status af_project_add_folder(struct af_project *project, const char *folder,
                                           const char *extras, struct anyflash_error *err)
{
    return add_project(project, folder, extras, (struct at){0}, err);
}

enum anyflash_status af_project_add_group(struct af_project *project, const char *path,
                                          const char *group, struct anyflash_error *err)
{
    struct af_toml toml;
    enum anyflash_status status = read_toml(project, path, &toml, err);
    return status != ANYFLASH_OK ? status
                                 : add_nested(project, &toml, true, group,
                                              (struct at){{path, 0, 0}, false, 0}, err);
}

const struct af_project_requirement *af_project_next(
    const struct af_project *project, const struct af_project_requirement *after,
    const char *name, const struct af_marker_environment *environment)
{
    const struct af_project_requirement *at =
        after == NULL ? project->requirements : after->next;
    for (; at != NULL; at = at->next)
        if (at->name != NULL && strcmp(at->name, name) == 0 &&
            af_marker_holds(span_of(at->marker), environment) != AF_NO)
            return at;
    return NULL;
}

const struct af_project_option *af_project_next_option(const struct af_project *project,
                                                       const struct af_project_option *after,
                                                       enum af_project_meaning meaning)
{
    const struct af_project_option *at = after == NULL ? project->options : after->next;
    while (at != NULL && at->meaning != meaning)
        at = at->next;
    return at;
}

const char *af_project_pinned_version(struct af_arena *arena, const char *specifier)
{
    struct af_span text = af_text_trim(span_of(specifier));
    struct af_version version;
    if (text.len < 3 || text.data[0] != '=' || text.data[1] != '=')
        return NULL;
    text = af_text_trim(part(text, text.data[2] == '=' ? 3 : 2, text.len));
    return af_version_parse(text.data, text.len, &version)
               ? af_arena_text_n(arena, text.data, text.len)
               : NULL;
}

enum af_answer af_project_allows(const char *specifier, const char *version)
{
    struct af_version parsed;
    return af_version_parse(version, strlen(version), &parsed)
               ? af_specifier_contains(specifier, &parsed)
               : AF_UNKNOWN;
}
