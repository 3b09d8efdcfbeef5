/*
 * wheelhouse.c: checks that the earlier index has no foreign files, writes the new index into
 * a folder inside it, and exchanges their parts. wheelhouse_wheel.c checks each wheel.
 */
#include "kit/install/wheelhouse.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kit/base/json.h"
#include "kit/base/text.h"
#include "kit/base/url.h"
#include "kit/proof/content_refusal.h"
#include "kit/system/file.h"
#include "kit/system/lock.h"
#include "kit/system/output.h"

#define REPOSITORY_VERSION "1.0" /* PEP 629 */
#define FILES_MAX 20000u
#define INDEX_FILES_MAX (2 * FILES_MAX + 2) /* a project: wheels, metadata, two pages */
#define PAGE_BYTES_MAX (64u << 20)
#define SHOWN_BYTES 160

/* Our names in the index start with this: the lock and the new index. */
#define OWN_PREFIX ".anyflash"
#define FRESH_NAME OWN_PREFIX "-new"

/* Every page that we write has this text. */
#define MARK "\"anyflash wheelhouse\""

struct maker {
    const struct af_wheelhouse_question *question;
    struct af_arena *arena;
    struct af_wheelhouse house;
    const char *fresh; /* the new index: INDEX/.anyflash-new */
};

/* The page if we wrote it, else an empty text. */
static const char *our_page(struct maker *maker, const char *path)
{
    struct af_span page;
    bool good = path != NULL && af_file_read_start(maker->arena, path, PAGE_BYTES_MAX, &page,
                                                   NULL) == ANYFLASH_OK;
    return good && strstr(page.data, MARK) != NULL ? page.data : "";
}

/*
 * Whether the file `path` is one of our pages, or is listed on `project_page`, the page of the
 * project whose folder it is in (NULL: in none).
 */
static bool is_ours(struct maker *maker, const char *path, const char *name,
                    const char *project_page)
{
    size_t len = strlen(name) - (af_ends_with(name, ".whl.metadata") ? strlen(".metadata") : 0);
    const char *link = af_arena_format(maker->arena, ">%.*s</a>", (int)len, name);
    if (link == NULL || af_file_is_link(path) || !af_file_is_regular(path))
        return false;
    if (af_equal(name, "index.html") || af_equal(name, "index.json"))
        return our_page(maker, path)[0] != '\0';
    return project_page != NULL && strstr(project_page, link) != NULL;
}

/*
 * Looks for a file that we did not write: in the index, or with `project_page` in the folder of
 * a project. *foreign_out becomes its path, else stays NULL.
 */
static enum anyflash_status find_foreign(struct maker *maker, const char *folder,
                                         const char *project_page, const char **foreign_out,
                                         struct anyflash_error *err)
{
    const char **names = NULL;
    size_t count = 0;
    bool cut = false;
    enum anyflash_status status =
        af_folder_list(maker->arena, folder, INDEX_FILES_MAX, &names, &count, &cut, err);
    if (status == ANYFLASH_OK && cut)
        return af_fail(err, ANYFLASH_E_LIMIT, "the index has more than %u files",
                       INDEX_FILES_MAX);
    for (size_t i = 0; status == ANYFLASH_OK && i < count && *foreign_out == NULL; i++) {
        const char *path = af_path_join(maker->arena, folder, names[i]);
        if (path == NULL)
            return af_fail_memory(err);
        if (project_page == NULL && af_starts_with(names[i], OWN_PREFIX))
            continue;
        if (project_page == NULL && af_file_is_folder(path) && !af_file_is_link(path))
            status = find_foreign(
                maker, path, our_page(maker, af_path_join(maker->arena, path, "index.html")),
                foreign_out, err);
        else if (!is_ours(maker, path, names[i], project_page))
            *foreign_out = path;
    }
    return status == ANYFLASH_OK && maker->arena->failed ? af_fail_memory(err) : status;
}

/* Fails if the index has a file that we did not write. */
static enum anyflash_status check_index(struct maker *maker, struct anyflash_error *err)
{
    char shown[SHOWN_BYTES];
    const char *foreign = NULL;
    enum anyflash_status status = find_foreign(maker, maker->house.index, NULL, &foreign, err);
    if (status == ANYFLASH_OK && foreign != NULL)
        status = af_fail(
            err, ANYFLASH_E_IO,
            "'%s' was not written by `anyflash wheelhouse`: move it away, or choose another "
            "--output",
            af_text_quote(shown, sizeof shown, foreign, strlen(foreign)));
    return status;
}

static int order(const void *a, const void *b)
{
    const struct af_wheelhouse_wheel *first = a;
    const struct af_wheelhouse_wheel *second = b;
    int by_project = strcmp(first->project, second->project);
    return by_project != 0 ? by_project : strcmp(first->filename, second->filename);
}

/* Keeps the first of wheels with one name in the index: "%2B" and "+" are the same there. */
static void leave_out_twins(struct maker *maker)
{
    struct af_wheelhouse *house = &maker->house;
    size_t kept = 0;
    for (size_t i = 0; i < house->wheel_count; i++) {
        const struct af_wheelhouse_wheel *wheel = &house->wheels[i];
        if (kept > 0 && order(&house->wheels[kept - 1], wheel) == 0)
            house->left_out[house->left_out_count++] = (struct af_wheelhouse_left_out){
                af_text_scrub(maker->arena, af_path_name(wheel->path), 300),
                "another file in the folder has the same name in the index"};
        else
            house->wheels[kept++] = *wheel;
    }
    for (size_t i = kept; i < house->wheel_count; i++)
        house->wheels[i] = (struct af_wheelhouse_wheel){0};
    house->wheel_count = kept;
}

/* Why the wheel at `path` is left out for what else it contains; NULL: it is not. */
static enum anyflash_status check_content(struct maker *maker, const char *path,
                                          const char **reason_out, struct anyflash_error *err)
{
    struct af_arena scratch; /* the facts of each wheel are large */
    struct af_content_refusal refusal = {NULL, NULL};
    af_arena_init(&scratch);
    enum anyflash_status status = af_content_refuse_file(path, &maker->question->allow_content,
                                                         NULL, &scratch, &refusal, err);
    *reason_out = refusal.reason == NULL
                      ? NULL
                      : af_arena_format(maker->arena, "%s; %s", refusal.reason, refusal.hint);
    af_arena_release(&scratch);
    return status;
}

static enum anyflash_status read_wheels(struct maker *maker, struct anyflash_error *err)
{
    const char **names;
    size_t count;
    bool cut;
    struct af_arena *arena = maker->arena;
    struct af_wheelhouse *house = &maker->house;
    enum anyflash_status status =
        af_folder_list(arena, maker->question->folder, FILES_MAX, &names, &count, &cut, err);
    if (status != ANYFLASH_OK)
        return status;
    if (cut)
        return af_fail(err, ANYFLASH_E_LIMIT, "more than %u files", FILES_MAX);
    house->wheels = af_arena_array(arena, count + 1, sizeof *house->wheels);
    house->left_out = af_arena_array(arena, count + 1, sizeof *house->left_out);
    for (size_t i = 0; i < count && !arena->failed; i++) {
        struct anyflash_error why = {0};
        const char *reason = NULL;
        struct af_wheelhouse_wheel wheel = {
            .path = af_path_join(arena, maker->question->folder, names[i])};
        if (wheel.path == NULL || !af_ends_with(names[i], ".whl") ||
            af_file_is_folder(wheel.path))
            continue;
        status = af_wheelhouse_read(&wheel, maker->question->inconsistent, arena, &why);
        if (status == ANYFLASH_OK)
            status = check_content(maker, wheel.path, &reason, &why);
        if (status == ANYFLASH_E_NO_MEMORY)
            return af_fail_memory(err);
        if (status != ANYFLASH_OK)
            reason = af_arena_text(arena, why.message);
        if (status == ANYFLASH_OK && reason == NULL)
            house->wheels[house->wheel_count++] = wheel;
        else
            house->left_out[house->left_out_count++] =
                (struct af_wheelhouse_left_out){af_text_scrub(arena, names[i], 300), reason};
    }
    if (arena->failed)
        return af_fail_memory(err);
    qsort(house->wheels, house->wheel_count, sizeof *house->wheels, order);
    leave_out_twins(maker);
    return arena->failed ? af_fail_memory(err) : ANYFLASH_OK;
}

/* Puts the wheel and its metadata file into the new index. */
static enum anyflash_status place(struct maker *maker, const struct af_wheelhouse_wheel *wheel,
                                  struct anyflash_error *err)
{
    const char *to = af_arena_format(maker->arena, "%s/%s/%s", maker->fresh, wheel->project,
                                     wheel->filename);
    const char *beside = to == NULL ? NULL : af_arena_format(maker->arena, "%s.metadata", to);
    if (beside == NULL)
        return af_fail_memory(err);
    enum anyflash_status status = af_file_place(maker->arena, wheel->path, to, err);
    return status == ANYFLASH_OK ? af_file_write(maker->arena, beside, &wheel->metadata, 1, err)
                                 : status;
}

/* A page in both forms while it grows. */
struct page {
    struct af_text links; /* HTML */
    json_t *rows;         /* NULL: memory ran out */
};

static void add_wheel(struct page *page, struct af_arena *arena,
                      const struct af_wheelhouse_wheel *wheel)
{
    const char *python = wheel->requires_python == NULL ? "" : wheel->requires_python;
    const char *url = af_url_encode_path(arena, wheel->filename);
    af_text_format(&page->links, "<a href=\"%s#sha256=%s\" data-core-metadata=\"sha256=%s\"",
                   url, wheel->sha256, wheel->metadata_sha256);
    if (python[0] != '\0')
        af_text_add(&page->links, " data-requires-python=\"");
    for (const char *at = python; *at != '\0'; at++) {
        const char *name = *at == '&' ? "amp" : *at == '<' ? "lt" : *at == '>' ? "gt" : "quot";
        if (strchr("&<>\"", *at) != NULL)
            af_text_format(&page->links, "&%s;", name);
        else
            af_text_add_n(&page->links, at, 1);
    }
    af_text_format(&page->links, "%s>%s</a><br>\n", python[0] != '\0' ? "\"" : "",
                   wheel->filename);
    page->rows = af_json_append(
        page->rows,
        json_pack("{s:s, s:s, s:{s:s}, s:s*, s:{s:s}}", "filename", wheel->filename, "url", url,
                  "hashes", "sha256", wheel->sha256, "requires-python", wheel->requires_python,
                  "core-metadata", "sha256", wheel->metadata_sha256));
}

static void add_project(struct page *page, const char *project)
{
    af_text_format(&page->links, "<a href=\"%s/\">%s</a><br>\n", project, project);
    page->rows = af_json_append(page->rows, json_pack("{s:s}", "name", project));
}

/* Writes the page of a project, or (NULL) of all projects, and empties it. */
static enum anyflash_status write_page(struct maker *maker, const char *project,
                                       struct page *page, struct anyflash_error *err)
{
    struct af_arena *arena = maker->arena;
    const char *folder = project == NULL ? "" : project;
    const char *html_path = af_arena_format(arena, "%s/%s/index.html", maker->fresh, folder);
    const char *json_path = af_arena_format(arena, "%s/%s/index.json", maker->fresh, folder);
    const char *html = af_arena_format(
        arena,
        "<!DOCTYPE html>\n<html>\n<head>\n<meta charset=\"utf-8\">\n"
        "<meta name=\"pypi:repository-version\" content=\"" REPOSITORY_VERSION "\">\n"
        "<meta name=\"generator\" content=" MARK ">\n<title>%s</title>\n</head>\n<body>\n%s"
        "</body>\n</html>\n",
        project == NULL ? "Simple index" : project, af_text_get(&page->links));
    json_t *document =
        json_pack("{s:{s:s, s:s}, s:s*, s:O}", "meta", "api-version", REPOSITORY_VERSION,
                  "_generator", "anyflash wheelhouse", "name", project,
                  project == NULL ? "projects" : "files", page->rows);
    char *json = document == NULL ? NULL : json_dumps(document, JSON_INDENT(1));
    enum anyflash_status status = json == NULL || page->links.failed || arena->failed
                                      ? af_fail_memory(err)
                                      : af_file_write_text(arena, json_path, json, err);
    if (status == ANYFLASH_OK)
        status = af_file_write_text(arena, html_path, html, err);
    af_mem_free(json);
    json_decref(document);
    json_decref(page->rows);
    af_text_release(&page->links);
    *page = (struct page){.rows = json_array()};
    return status;
}

static enum anyflash_status write_index(struct maker *maker, struct anyflash_error *err)
{
    struct page one = {.rows = json_array()};
    struct page all = {.rows = json_array()};
    enum anyflash_status status = af_folder_make(maker->fresh, 0777, err);
    for (size_t i = 0; i < maker->house.wheel_count && status == ANYFLASH_OK; i++) {
        const struct af_wheelhouse_wheel *wheel = &maker->house.wheels[i];
        bool is_last = !af_equal(wheel[1].project, wheel->project); /* [wheel_count] is empty */
        status = place(maker, wheel, err);
        add_wheel(&one, maker->arena, wheel);
        if (status == ANYFLASH_OK && is_last) {
            status = write_page(maker, wheel->project, &one, err);
            add_project(&all, wheel->project);
            maker->house.project_count++;
        }
    }
    if (status == ANYFLASH_OK)
        status = write_page(maker, NULL, &all, err);
    json_decref(one.rows);
    json_decref(all.rows);
    af_text_release(&one.links);
    af_text_release(&all.links);
    return status;
}

/* Exchanges the pages and projects; projects that are gone are moved into the fresh folder. */
static enum anyflash_status publish(struct maker *maker, struct anyflash_error *err)
{
    const char **names;
    const char **old_names;
    size_t count;
    size_t old_count;
    const char *index = maker->house.index;
    enum anyflash_status status =
        af_folder_list(maker->arena, maker->fresh, FILES_MAX + 2, &names, &count, NULL, err);
    if (status == ANYFLASH_OK)
        status =
            af_folder_list(maker->arena, index, UINT32_MAX, &old_names, &old_count, NULL, err);
    for (size_t i = 0; status == ANYFLASH_OK && i < old_count; i++) {
        const char *from = af_path_join(maker->arena, index, old_names[i]);
        const char *to = af_path_join(maker->arena, maker->fresh, old_names[i]);
        if (from == NULL || to == NULL)
            return af_fail_memory(err);
        if (!af_starts_with(old_names[i], OWN_PREFIX) && af_file_is_absent(to) &&
            rename(from, to) != 0)
            status = af_folder_remove(from, err);
    }
    for (size_t i = 0; status == ANYFLASH_OK && i < count; i++) {
        const char *from = af_path_join(maker->arena, maker->fresh, names[i]);
        const char *to = af_path_join(maker->arena, index, names[i]);
        if (from == NULL || to == NULL)
            return af_fail_memory(err);
        status = af_file_exchange(from, to, err);
    }
    return status;
}

/* Replaces the index, whose folder exists and is locked. */
static enum anyflash_status replace(struct maker *maker, struct anyflash_error *err)
{
    const char *page = af_path_join(maker->arena, maker->house.index, "index.json");
    if (page == NULL)
        return af_fail_memory(err);
    enum anyflash_status status = af_folder_remove(maker->fresh, err);
    if (status == ANYFLASH_OK)
        status = check_index(maker, err);
    maker->house.is_written = maker->house.wheel_count > 0 || af_file_is_regular(page);
    if (status != ANYFLASH_OK || !maker->house.is_written)
        return status;
    status = write_index(maker, err);
    if (status == ANYFLASH_OK)
        status = publish(maker, err);
    af_folder_remove(maker->fresh, NULL);
    return status;
}

enum anyflash_status af_wheelhouse_make(const struct af_wheelhouse_question *question,
                                        struct af_arena *arena, struct af_wheelhouse *house_out,
                                        struct anyflash_error *err)
{
    char shown[SHOWN_BYTES];
    struct maker maker = {.question = question, .arena = arena};
    struct af_lock lock = {0};
    const char *index = question->index != NULL
                            ? question->index
                            : af_path_join(arena, question->folder, "simple");
    maker.fresh = index == NULL ? NULL : af_path_join(arena, index, FRESH_NAME);
    maker.house.index = index;
    if (maker.fresh == NULL)
        return af_fail_memory(err);
    enum anyflash_status status = read_wheels(&maker, err);
    if (status != ANYFLASH_OK)
        return status;
    bool is_new = mkdir(index, 0777) == 0;
    if (!is_new && errno != EEXIST)
        return af_fail(err, ANYFLASH_E_IO, "cannot make the folder '%s': %s",
                       af_text_quote(shown, sizeof shown, index, strlen(index)),
                       strerror(errno));
    status = af_lock_take(&lock, index, "wheelhouse", AF_LOCK_WAIT, NULL, arena, err);
    if (status == ANYFLASH_OK)
        status = replace(&maker, err);
    af_lock_release(&lock);
    if (is_new)
        rmdir(index); /* unless something was written */
    if (status == ANYFLASH_OK)
        *house_out = maker.house;
    return status;
}
