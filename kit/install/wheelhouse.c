/*
 * wheelhouse.c: checks each wheel of the folder, links or copies it into the index, writes the
 * pages, and removes leftovers of an earlier index.
 */
#include "kit/install/wheelhouse.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kit/base/json.h"
#include "kit/base/sha256.h"
#include "kit/base/text.h"
#include "kit/base/url.h"
#include "kit/formats/metadata.h"
#include "kit/formats/wheel_archive.h"
#include "kit/formats/wheel_name.h"
#include "kit/system/file.h"
#include "kit/system/file_source.h"
#include "kit/system/output.h"

#define REPOSITORY_VERSION "1.0" /* PEP 629 */
#define FILES_MAX 20000u
#define METADATA_BYTES_MAX (1u << 20)
#define NAME_BYTES 256
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

/* The wheel while it is read. */
struct opened {
    struct af_arena *arena;
    struct af_source source;
    struct af_wheel_archive archive;
    struct af_wheel_name name;
    struct af_wheelhouse_wheel *wheel;
    struct af_span metadata;
};

static void leave_out(struct opened *opened, const char *reason)
{
    opened->wheel->reason = af_arena_text(opened->arena, reason);
}

/* Reads file name in the index, project and version from the name of the file. */
static void read_name(struct opened *opened, const char *file)
{
    char project[NAME_BYTES];
    char version[NAME_BYTES];
    struct af_wheelhouse_wheel *wheel = opened->wheel;
    struct af_wheel_name *name = &opened->name;
    char *filename = af_arena_text(opened->arena, file);
    enum af_wheel_name_problem problem = af_wheel_name_parse(file, strlen(file), name);
    bool valid = problem == AF_WHEEL_NAME_VALID;
    const struct af_span package = {name->package, valid ? strlen(name->package) : 0};
    if (!valid)
        wheel->reason =
            af_arena_format(opened->arena, "its name %s", af_wheel_name_problem_text(problem));
    else if (name->variant[0] != '\0')
        leave_out(opened, "it is a wheel variant, which installers do not support yet");
    else if (!af_name_normalise(package, project, sizeof project))
        leave_out(opened, "its name is too long");
    if (wheel->reason != NULL || opened->arena->failed)
        return;
    for (char *at = filename; (at = strchr(at, '%')) != NULL; at++) {
        *at = '+'; /* "%2B" is the only escape in a valid name */
        memmove(at + 1, at + 3, strlen(at + 3) + 1);
    }
    wheel->filename = filename;
    wheel->project = af_arena_text(opened->arena, project);
    wheel->version = af_arena_text(
        opened->arena, af_version_format(&name->version, true, version, sizeof version));
}

/* The value of the first header of that name; empty if there is none. */
static struct af_span header_value(struct af_span metadata, const char *name)
{
    struct af_header header;
    while (af_header_next(&metadata, &header)) {
        if (af_header_is(&header, name))
            return header.value;
    }
    return (struct af_span){"", 0};
}

/* Compares Name and Version with the file name, and reads Requires-Python. */
static void check_metadata(struct opened *opened, bool inconsistent)
{
    char shown[96];
    struct af_version version;
    struct af_wheelhouse_wheel *wheel = opened->wheel;
    struct af_span name = header_value(opened->metadata, "Name");
    struct af_span stated = header_value(opened->metadata, "Version");
    struct af_span python = header_value(opened->metadata, "Requires-Python");
    bool is_version = af_version_parse(stated.data, stated.len, &version);
    bool is_same = is_version && af_version_compare(&version, &opened->name.version) == 0;
    const char *specifier = af_arena_text_n(opened->arena, python.data, python.len);
    if (!af_text_is_utf8(opened->metadata.data, opened->metadata.len))
        leave_out(opened, "its METADATA is not UTF-8");
    else if (!af_name_is(name, wheel->project))
        wheel->reason = af_arena_format(
            opened->arena, "its METADATA is that of '%s', not of %s",
            af_text_quote(shown, sizeof shown, name.data, name.len), wheel->project);
    else if (!is_same && !(is_version && inconsistent))
        wheel->reason = af_arena_format(
            opened->arena,
            "its METADATA states version '%s', its name %s: pip refuses it from an index",
            af_text_quote(shown, sizeof shown, stated.data, stated.len), wheel->version);
    else if (python.len > 0 && specifier != NULL && af_version_parse("3.12", 4, &version) &&
             af_specifier_contains(specifier, &version) == AF_UNKNOWN)
        leave_out(opened, "its METADATA has a Requires-Python that is not a specifier");
    else if (python.len > 0)
        wheel->requires_python = specifier;
}

static enum anyflash_status read_inside(struct opened *opened, bool inconsistent,
                                        struct anyflash_error *err)
{
    static const char *const needed[] = {"METADATA", "WHEEL", "RECORD"};
    if (opened->archive.info_count != 1)
        leave_out(opened, "it has no dist-info folder, or several");
    for (size_t i = 0; i < AF_COUNT(needed) && opened->wheel->reason == NULL; i++) {
        if (af_wheel_archive_info(&opened->archive, needed[i]) == NULL)
            opened->wheel->reason =
                af_arena_format(opened->arena, "its dist-info has no %s", needed[i]);
    }
    if (opened->arena->failed || opened->wheel->reason != NULL)
        return opened->arena->failed ? af_fail_memory(err) : ANYFLASH_OK;
    enum anyflash_status status = af_wheel_archive_read_info(
        &opened->archive, needed[0], opened->arena, METADATA_BYTES_MAX, &opened->metadata, err);
    if (status == ANYFLASH_OK)
        check_metadata(opened, inconsistent);
    return status;
}

/*
 * Fills all of `wheel` except wheel->file, and *metadata_out. If the wheel is left out, also
 * because it cannot be read, sets wheel->reason instead. Fails with NO_MEMORY only.
 */
static enum anyflash_status read_wheel(const char *path, const char *file, bool inconsistent,
                                       struct af_arena *arena,
                                       struct af_wheelhouse_wheel *wheel,
                                       struct af_span *metadata_out, struct anyflash_error *err)
{
    char hex[AF_SHA256_HEX_BYTES];
    struct anyflash_error own = {0};
    struct opened *opened = af_arena_alloc(arena, sizeof *opened);
    if (opened == NULL)
        return af_fail_memory(err);
    opened->arena = arena;
    opened->wheel = wheel;
    read_name(opened, file);
    if (wheel->reason != NULL || arena->failed)
        return arena->failed ? af_fail_memory(err) : ANYFLASH_OK;
    enum anyflash_status status = af_file_source_open(path, &opened->source, &own);
    if (status == ANYFLASH_OK)
        status = af_wheel_archive_open(&opened->source, &opened->archive, &own);
    if (status == ANYFLASH_OK)
        status = read_inside(opened, inconsistent, &own);
    if (status == ANYFLASH_OK && wheel->reason == NULL)
        status = af_file_sha256(path, hex, &wheel->size_bytes, &own);
    if (status == ANYFLASH_OK && wheel->reason == NULL) {
        wheel->sha256 = af_arena_text(arena, hex);
        af_sha256_bytes(opened->metadata, hex);
        wheel->metadata_sha256 = af_arena_text(arena, hex);
        *metadata_out = opened->metadata;
    }
    af_wheel_archive_close(&opened->archive);
    af_source_close(&opened->source);
    if (status != ANYFLASH_OK && status != ANYFLASH_E_NO_MEMORY)
        leave_out(opened, own.message);
    return arena->failed || status == ANYFLASH_E_NO_MEMORY ? af_fail_memory(err) : ANYFLASH_OK;
}

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
    enum anyflash_status status = read_wheel(path, name, maker->question->inconsistent,
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
