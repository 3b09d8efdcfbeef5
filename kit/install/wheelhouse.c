/*
 * wheelhouse.c: the index: links or copies the wheels into it, writes the pages, and removes
 * leftovers of an earlier one. wheelhouse_wheel.c checks each wheel.
 */
#include "kit/install/wheelhouse.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kit/base/json.h"
#include "kit/base/text.h"
#include "kit/base/url.h"
#include "kit/system/file.h"
#include "kit/system/output.h"

#define REPOSITORY_VERSION "1.0" /* PEP 629 */
#define FILES_MAX 20000u
#define PAGE_START_BYTES 4096
#define SHOWN_BYTES 160

/* Every page that we write has this mark; we do not change a page without it. */
#define GENERATOR "anyflash wheelhouse"
#define MARK_HTML "<meta name=\"generator\" content=\"" GENERATOR "\">"
#define MARK_JSON "\"_generator\": \"" GENERATOR "\""

struct maker {
    const struct af_wheelhouse_question *question;
    struct af_arena *arena;
    const char *index;
    struct af_wheelhouse_wheel *wheels;
    size_t wheel_count, listed_count, project_count;
};

static enum anyflash_status fail_path(const char *what, const char *path,
                                      struct anyflash_error *err)
{
    char shown[SHOWN_BYTES];
    return af_fail(err, ANYFLASH_E_IO, "cannot %s '%s': %s", what,
                   af_text_quote(shown, sizeof shown, path, strlen(path)), strerror(errno));
}

/* Creates a folder; fails if the path is a link to a folder. */
static enum anyflash_status make_folder(const char *path, struct anyflash_error *err)
{
    if (mkdir(path, 0777) == 0)
        return ANYFLASH_OK;
    if (errno == EEXIST && af_file_is_link(path))
        errno = ENOTDIR;
    else if (errno == EEXIST && af_file_is_folder(path))
        return ANYFLASH_OK;
    return fail_path("make the folder", path, err);
}

/* Whether we wrote the page; also false if memory runs out. */
static bool is_ours(struct af_arena *arena, const char *path, const char *mark)
{
    struct af_span start;
    return af_file_read_start(arena, path, PAGE_START_BYTES, &start, NULL) == ANYFLASH_OK &&
           strstr(start.data, mark) != NULL;
}

/* Fails if the folder has a page that we did not write. */
static enum anyflash_status check_pages(struct maker *maker, const char *folder,
                                        struct anyflash_error *err)
{
    static const char *const pages[][2] = {{"index.html", MARK_HTML},
                                           {"index.json", MARK_JSON}};
    for (size_t i = 0; i < AF_COUNT(pages); i++) {
        char shown[SHOWN_BYTES];
        const char *path = af_path_join(maker->arena, folder, pages[i][0]);
        if (path != NULL && !af_file_is_absent(path) &&
            !is_ours(maker->arena, path, pages[i][1]) && !maker->arena->failed)
            return af_fail(err, ANYFLASH_E_IO,
                           "'%s' was not written by `anyflash wheelhouse` and will not be "
                           "overwritten: choose another --output",
                           af_text_quote(shown, sizeof shown, path, strlen(path)));
    }
    return maker->arena->failed ? af_fail_memory(err) : ANYFLASH_OK;
}

/* Puts the wheel and its metadata file into the index. */
static enum anyflash_status place(struct maker *maker, const struct af_wheelhouse_wheel *wheel,
                                  struct af_span metadata, const char *from,
                                  struct anyflash_error *err)
{
    const char *folder = af_path_join(maker->arena, maker->index, wheel->project);
    const char *to =
        folder == NULL ? NULL : af_path_join(maker->arena, folder, wheel->filename);
    const char *beside = to == NULL ? NULL : af_arena_format(maker->arena, "%s.metadata", to);
    if (beside == NULL)
        return af_fail_memory(err);
    enum anyflash_status status = make_folder(maker->index, err);
    if (status == ANYFLASH_OK)
        status = make_folder(folder, err);
    if (status == ANYFLASH_OK)
        status = check_pages(maker, folder, err);
    if (status == ANYFLASH_OK)
        status = af_file_place(maker->arena, from, to, err);
    return status == ANYFLASH_OK ? af_file_write(maker->arena, beside, &metadata, 1, err)
                                 : status;
}

static enum anyflash_status take_wheel(struct maker *maker, const char *path, const char *name,
                                       struct anyflash_error *err)
{
    struct af_wheelhouse_wheel *wheel = &maker->wheels[maker->wheel_count++];
    struct af_span metadata = {0};
    wheel->file = af_text_scrub(maker->arena, name, 300);
    enum anyflash_status status = af_wheelhouse_read(path, name, maker->question->inconsistent,
                                                     maker->arena, wheel, &metadata, err);
    if (status != ANYFLASH_OK || wheel->reason != NULL)
        return status;
    maker->listed_count++;
    return place(maker, wheel, metadata, path, err);
}

static enum anyflash_status take_folder(struct maker *maker, struct anyflash_error *err)
{
    const char **names;
    size_t count;
    bool cut;
    struct af_arena *arena = maker->arena;
    enum anyflash_status status =
        af_folder_list(arena, maker->question->folder, FILES_MAX, &names, &count, &cut, err);
    if (status != ANYFLASH_OK)
        return status;
    if (cut)
        return af_fail(err, ANYFLASH_E_LIMIT, "more than %u files", FILES_MAX);
    maker->wheels = af_arena_array(arena, count + 1, sizeof *maker->wheels);
    for (size_t i = 0; i < count && status == ANYFLASH_OK && !arena->failed; i++) {
        const char *path = af_path_join(arena, maker->question->folder, names[i]);
        if (path != NULL && af_ends_with(names[i], ".whl") && !af_file_is_folder(path))
            status = take_wheel(maker, path, names[i], err);
    }
    return status == ANYFLASH_OK && arena->failed ? af_fail_memory(err) : status;
}

/* Order: listed wheels first, by project; then by name. */
static int order(const void *a, const void *b)
{
    const struct af_wheelhouse_wheel *first = a;
    const struct af_wheelhouse_wheel *second = b;
    if ((first->reason == NULL) != (second->reason == NULL))
        return first->reason == NULL ? -1 : 1;
    int by_project = first->reason == NULL ? strcmp(first->project, second->project) : 0;
    return by_project != 0 ? by_project : strcmp(first->file, second->file);
}

/* How many wheels of the sorted list belong to the project of the first one. */
static size_t project_wheels(const struct af_wheelhouse_wheel *wheels, size_t count)
{
    size_t n = 0;
    while (n < count && strcmp(wheels[n].project, wheels[0].project) == 0)
        n++;
    return n;
}

/* Adds a specifier to an HTML attribute. The other texts of a page need no escapes. */
static void add_escaped(struct af_text *text, const char *value)
{
    for (const char *c = value; *c != '\0'; c++) {
        const char *name = *c == '&' ? "amp" : *c == '<' ? "lt" : *c == '>' ? "gt" : "quot";
        if (strchr("&<>\"", *c) != NULL)
            af_text_format(text, "&%s;", name);
        else
            af_text_add_n(text, c, 1);
    }
}

static void add_html_link(struct af_text *text, struct af_arena *arena,
                          const struct af_wheelhouse_wheel *wheel)
{
    af_text_format(text, "<a href=\"%s#sha256=%s\"", af_url_encode_path(arena, wheel->filename),
                   wheel->sha256);
    if (wheel->requires_python != NULL) {
        af_text_add(text, " data-requires-python=\"");
        add_escaped(text, wheel->requires_python);
        af_text_add(text, "\"");
    }
    af_text_format(text, " data-core-metadata=\"sha256=%s\">%s</a><br>\n",
                   wheel->metadata_sha256, wheel->filename);
}

/* Adds the page of one project with these wheels, or (`is_root`) the page of all projects. */
static void add_html(struct af_text *text, struct af_arena *arena,
                     const struct af_wheelhouse_wheel *wheels, size_t count, bool is_root)
{
    af_text_format(text,
                   "<!DOCTYPE html>\n<html>\n<head>\n<meta charset=\"utf-8\">\n"
                   "<meta name=\"pypi:repository-version\" content=\"" REPOSITORY_VERSION
                   "\">\n"
                   "%s\n<title>%s</title>\n</head>\n<body>\n",
                   MARK_HTML, is_root ? "Simple index" : wheels[0].project);
    for (size_t i = 0; is_root && i < count; i += project_wheels(&wheels[i], count - i))
        af_text_format(text, "<a href=\"%s/\">%s</a><br>\n", wheels[i].project,
                       wheels[i].project);
    for (size_t i = 0; !is_root && i < count; i++)
        add_html_link(text, arena, &wheels[i]);
    af_text_add(text, "</body>\n</html>\n");
}

/* The page as JSON; NULL if memory runs out. */
static json_t *page_json(struct af_arena *arena, const struct af_wheelhouse_wheel *wheels,
                         size_t count, bool is_root)
{
    json_t *rows = json_array();
    for (size_t i = 0; is_root && i < count; i += project_wheels(&wheels[i], count - i))
        rows = af_json_append(rows, json_pack("{s:s}", "name", wheels[i].project));
    for (size_t i = 0; !is_root && i < count; i++)
        rows = af_json_append(
            rows,
            json_pack("{s:s, s:s, s:{s:s}, s:s*, s:{s:s}}", "filename", wheels[i].filename,
                      "url", af_url_encode_path(arena, wheels[i].filename), "hashes", "sha256",
                      wheels[i].sha256, "requires-python", wheels[i].requires_python,
                      "core-metadata", "sha256", wheels[i].metadata_sha256));
    return json_pack("{s:{s:s, s:s}, s:s*, s:o}", "meta", "api-version", REPOSITORY_VERSION,
                     "_generator", GENERATOR, "name", is_root ? NULL : wheels[0].project,
                     is_root ? "projects" : "files", rows);
}

static enum anyflash_status write_pages_of(struct maker *maker, const char *folder,
                                           const struct af_wheelhouse_wheel *wheels,
                                           size_t count, bool is_root,
                                           struct anyflash_error *err)
{
    struct af_text html = {0};
    const char *json_path = af_path_join(maker->arena, folder, "index.json");
    const char *html_path = af_path_join(maker->arena, folder, "index.html");
    json_t *page = page_json(maker->arena, wheels, count, is_root);
    char *json = page == NULL ? NULL : json_dumps(page, JSON_INDENT(1));
    add_html(&html, maker->arena, wheels, count, is_root);
    enum anyflash_status status = json == NULL || html.failed || maker->arena->failed
                                      ? af_fail_memory(err)
                                      : af_file_write_text(maker->arena, json_path, json, err);
    if (status == ANYFLASH_OK)
        status = af_file_write_text(maker->arena, html_path, af_text_get(&html), err);
    af_mem_free(json);
    json_decref(page);
    af_text_release(&html);
    return status;
}

static enum anyflash_status write_pages(struct maker *maker, struct anyflash_error *err)
{
    size_t count;
    enum anyflash_status status = ANYFLASH_OK;
    for (size_t i = 0; i < maker->listed_count && status == ANYFLASH_OK; i += count) {
        const struct af_wheelhouse_wheel *wheels = &maker->wheels[i];
        const char *folder = af_path_join(maker->arena, maker->index, wheels->project);
        count = project_wheels(wheels, maker->listed_count - i);
        maker->project_count++;
        if (folder == NULL)
            return af_fail_memory(err);
        status = write_pages_of(maker, folder, wheels, count, false, err);
    }
    return status == ANYFLASH_OK ? write_pages_of(maker, maker->index, maker->wheels,
                                                  maker->listed_count, true, err)
                                 : status;
}

/*
 * Whether the new index has this file, as wheel or metadata; `name` NULL: any file of the
 * project.
 */
static bool is_listed(const struct maker *maker, const char *project, const char *name)
{
    for (size_t i = 0; i < maker->listed_count; i++) {
        const struct af_wheelhouse_wheel *wheel = &maker->wheels[i];
        size_t len = strlen(wheel->filename);
        if (strcmp(wheel->project, project) == 0 &&
            (name == NULL || (strncmp(name, wheel->filename, len) == 0 &&
                              (name[len] == '\0' || strcmp(name + len, ".metadata") == 0))))
            return true;
    }
    return false;
}

static enum anyflash_status remove_file(struct maker *maker, const char *folder,
                                        const char *name, struct anyflash_error *err)
{
    const char *path = af_path_join(maker->arena, folder, name);
    if (path == NULL)
        return af_fail_memory(err);
    return unlink(path) == 0 ? ANYFLASH_OK : fail_path("remove", path, err);
}

/*
 * Removes those of our files that the project's page does not list; all of them if there is no
 * page.
 */
static enum anyflash_status clean_project(struct maker *maker, const char *project,
                                          struct anyflash_error *err)
{
    const char **names;
    size_t count;
    const char *folder = af_path_join(maker->arena, maker->index, project);
    const char *page = folder == NULL ? NULL : af_path_join(maker->arena, folder, "index.json");
    if (page == NULL)
        return af_fail_memory(err);
    if (af_file_is_link(folder) || !is_ours(maker->arena, page, MARK_JSON))
        return maker->arena->failed ? af_fail_memory(err) : ANYFLASH_OK;
    bool has_page = is_listed(maker, project, NULL);
    enum anyflash_status status =
        af_folder_list(maker->arena, folder, 2 * FILES_MAX, &names, &count, NULL, err);
    for (size_t i = 0; status == ANYFLASH_OK && i < count; i++) {
        bool is_page = af_equal(names[i], "index.html") || af_equal(names[i], "index.json");
        bool is_file = af_ends_with(names[i], ".whl") ||
                       af_ends_with(names[i], ".whl.metadata") ||
                       af_ends_with(names[i], ".part");
        if (is_page ? !has_page : is_file && !is_listed(maker, project, names[i]))
            status = remove_file(maker, folder, names[i], err);
    }
    if (status == ANYFLASH_OK && !has_page)
        rmdir(folder); /* fails harmlessly if the folder has other files */
    return status;
}

static enum anyflash_status clean(struct maker *maker, struct anyflash_error *err)
{
    const char **names;
    size_t count;
    enum anyflash_status status =
        af_folder_list(maker->arena, maker->index, FILES_MAX, &names, &count, NULL, err);
    for (size_t i = 0; status == ANYFLASH_OK && i < count; i++) {
        if (af_starts_with(names[i], "index.") && af_ends_with(names[i], ".part"))
            status = remove_file(maker, maker->index, names[i], err);
        else
            status = clean_project(maker, names[i], err);
    }
    return status;
}

/* "file:///srv/my%20wheels/simple/"; NULL if the folder does not exist. */
static const char *url_of(struct af_arena *arena, const char *index)
{
    const char *folder = af_file_real_path(arena, index);
    const char *path = folder == NULL ? NULL : af_url_encode_path(arena, folder);
    return path == NULL ? NULL : af_arena_format(arena, "file://%s/", path);
}

enum anyflash_status af_wheelhouse_make(const struct af_wheelhouse_question *question,
                                        struct af_arena *arena, struct af_wheelhouse *house_out,
                                        struct anyflash_error *err)
{
    struct maker maker = {.question = question, .arena = arena};
    maker.index = question->index != NULL ? question->index
                                          : af_path_join(arena, question->folder, "simple");
    const char *page =
        maker.index == NULL ? NULL : af_path_join(arena, maker.index, "index.json");
    if (page == NULL)
        return af_fail_memory(err);
    enum anyflash_status status = check_pages(&maker, maker.index, err);
    if (status == ANYFLASH_OK)
        status = take_folder(&maker, err);
    if (status != ANYFLASH_OK)
        return status;
    /* an index without wheels is emptied */
    bool works = maker.listed_count > 0 || af_file_is_regular(page);
    qsort(maker.wheels, maker.wheel_count, sizeof *maker.wheels, order);
    if (works)
        status = write_pages(&maker, err);
    if (works && status == ANYFLASH_OK)
        status = clean(&maker, err);
    const char *url = works && status == ANYFLASH_OK ? url_of(arena, maker.index) : NULL;
    if (status == ANYFLASH_OK && arena->failed)
        status = af_fail_memory(err);
    if (status != ANYFLASH_OK)
        return status;
    *house_out = (struct af_wheelhouse){.index = maker.index,
                                        .index_url = url,
                                        .wheels = maker.wheels,
                                        .wheel_count = maker.wheel_count,
                                        .listed_count = maker.listed_count,
                                        .project_count = maker.project_count};
    return ANYFLASH_OK;
}
