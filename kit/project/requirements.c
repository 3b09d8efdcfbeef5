/*
 * requirements.c: the lines of requirements files and the words of a command; pyproject_needs.c
 * reads pyproject.toml, requirement_text.c the text of one requirement.
 *
 * Lines are joined, cut and split as pip and uv do it (pip._internal.req.req_file).
 */
#include "kit/project/requirement_parts.h"

#include "kit/base/text.h"
#include "kit/base/url.h"

#include <string.h>

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

enum anyflash_status af_project_count_item(struct af_project *project,
                                           const struct af_project_at *at,
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

static void append_requirement(struct af_project *project, struct af_project_requirement *made)
{
    if (project->last_requirement == NULL)
        project->requirements = made;
    else
        project->last_requirement->next = made;
    project->last_requirement = made;
}

void af_project_note_unread(struct af_project *project, const char *place)
{
    if (project->unread == NULL)
        project->unread = place;
}

/* Adds the requirement `text`; `hashes` are those of its --hash options. */
enum anyflash_status af_project_add_requirement(struct af_project *project, struct af_span text,
                                                const char *hashes, bool editable,
                                                struct af_project_at at,
                                                struct anyflash_error *err)
{
    struct af_project_requirement *made = af_arena_alloc(project->arena, sizeof *made);
    enum anyflash_status status = af_project_count_item(project, &at, err);
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
    af_project_requirement_parse(project, text, made);
    append_requirement(project, made);
    if (made->name == NULL && !at.constraint &&
        (made->url != NULL || (made->path != NULL && af_project_is_archive(made->path))))
        af_project_note_unread(project, made->url != NULL ? made->url : made->path);
    if (made->path == NULL || at.constraint || af_project_is_archive(made->path))
        return ANYFLASH_OK;
    const char *before = project->unread;
    project->unread = NULL;
    status = af_project_add_local(project, made->path, made->extras, at, err);
    made->is_read = status == ANYFLASH_OK && project->unread == NULL;
    project->unread = before != NULL ? before : project->unread;
    return status;
}

/*
 * Notes that the file is being read. *file_out is NULL if it was read before with the same
 * meaning. Fails with DATA if it is still being read, and with LIMIT.
 */
enum anyflash_status af_project_open_file(struct af_project *project, const char *path,
                                          const struct af_project_at *at,
                                          struct af_project_file **file_out,
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

static enum anyflash_status add_option(struct af_project *project,
                                       enum af_project_meaning meaning, const char *value,
                                       const struct af_project_at *at,
                                       struct anyflash_error *err)
{
    struct af_project_option *made = af_arena_alloc(project->arena, sizeof *made);
    enum anyflash_status status = af_project_count_item(project, at, err);
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

static enum anyflash_status add_file(struct af_project *project, const char *path,
                                     struct af_project_at at, struct anyflash_error *err);

/* -r or -c: the path is relative to the folder of the file that names it. */
enum anyflash_status af_project_include_file(struct af_project *project, const char *path,
                                             bool constraint, struct af_project_at at,
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
                                        const struct af_project_at *at,
                                        struct anyflash_error *err)
{
    switch (option->meaning) {
    case AF_PROJECT_MEANS_FILE:
    case AF_PROJECT_MEANS_CONSTRAINT:
        return af_project_include_file(
            project, option->value, option->meaning == AF_PROJECT_MEANS_CONSTRAINT, *at, err);
    case AF_PROJECT_MEANS_EDITABLE:
        return af_project_add_requirement(project, span_of(option->value), "", true, *at, err);
    case AF_PROJECT_MEANS_INDEX:
    case AF_PROJECT_MEANS_NO_BINARY:
        return add_option(project, option->meaning, option->value, at, err);
    default:
        return ANYFLASH_OK;
    }
}

/* A line of options, such as "-r base.txt" or "-i https://... --pre". */
static enum anyflash_status add_option_line(struct af_project *project, struct af_span line,
                                            const struct af_project_at *at,
                                            struct anyflash_error *err)
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
                                     const struct af_project_at *at, struct anyflash_error *err)
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
    return af_project_add_requirement(project, af_text_trim(part(line, 0, end)), hashes, false,
                                      *at, err);
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
                                      struct af_project_at at, struct anyflash_error *err)
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

static enum anyflash_status add_file(struct af_project *project, const char *path,
                                     struct af_project_at at, struct anyflash_error *err)
{
    struct af_project_file *file;
    struct af_span text;
    const char *kept = af_arena_text(project->arena, path);
    enum anyflash_status status = af_project_open_file(project, kept, &at, &file, err);
    if (status != ANYFLASH_OK || file == NULL)
        return status;
    status = project->read(project->context, project->arena, kept, &text, err);
    at = (struct af_project_at){{kept, 0, 0}, at.constraint, at.depth + 1};
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

enum anyflash_status af_project_add_file(struct af_project *project, const char *path,
                                         bool constraint, struct anyflash_error *err)
{
    return af_project_include_file(project, path, constraint, (struct af_project_at){0}, err);
}

enum anyflash_status af_project_add_word(struct af_project *project, const char *word,
                                         bool editable, struct anyflash_error *err)
{
    return af_project_add_requirement(project, af_text_trim(span_of(word)), "", editable,
                                      (struct af_project_at){0}, err);
}

enum anyflash_status af_project_add_option(struct af_project *project,
                                           const struct af_project_option_word *option,
                                           struct anyflash_error *err)
{
    return take_option(project, option, &(struct af_project_at){0}, err);
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
