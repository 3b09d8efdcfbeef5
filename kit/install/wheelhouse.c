/*
 * wheelhouse.c: the folder read, its wheels put into the index, pages written,
 * what is left of an earlier index removed: in this order.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kit/install/wheelhouse_parts.h"
#include "kit/system/file.h"
#include "kit/system/output.h"

#define SHOWN_BYTES 160
#define PAGE_START_BYTES 4096
#define VARIANTS_END "-variants.json"

struct maker {
    const struct af_wheelhouse_question *question;
    struct af_arena *arena;
    const char *index;
    struct af_wheelhouse_wheel *wheels;
    size_t wheel_count;
    size_t listed_count;
    size_t table_count;
    size_t project_count;
    const char **others;
    size_t other_count;
};

static enum anyflash_status fail_path(const char *what, const char *path,
                                      struct anyflash_error *err)
{
    char shown[SHOWN_BYTES];
    return af_fail(err, ANYFLASH_E_IO, "cannot %s '%s': %s", what,
                   af_text_quote(shown, sizeof shown, path, strlen(path)), strerror(errno));
}

/* A folder of its own, no link to another one. */
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

/* Whether the page is one that we wrote; false also without memory. */
static bool is_ours(struct af_arena *arena, const char *path, const char *mark)
{
    struct af_span start;
    return af_file_read_start(arena, path, PAGE_START_BYTES, &start, NULL) == ANYFLASH_OK &&
           strstr(start.data, mark) != NULL;
}

/* Neither page of the folder is somebody else's. */
static enum anyflash_status check_folder(struct maker *maker, const char *folder,
                                         struct anyflash_error *err)
{
    static const struct {
        const char *name, *mark;
    } pages[] = {{"index.html", AF_WHEELHOUSE_MARK_HTML},
                 {"index.json", AF_WHEELHOUSE_MARK_JSON}};
    for (size_t i = 0; i < AF_COUNT(pages); i++) {
        char shown[SHOWN_BYTES];
        const char *path = af_path_join(maker->arena, folder, pages[i].name);
        if (path != NULL && !af_file_is_absent(path) &&
            !is_ours(maker->arena, path, pages[i].mark) && !maker->arena->failed)
            return af_fail(err, ANYFLASH_E_IO,
                           "'%s' is no page of this command: it stays, choose another --output",
                           af_text_quote(shown, sizeof shown, path, strlen(path)));
    }
    return maker->arena->failed ? af_fail_memory(err) : ANYFLASH_OK;
}

/* "index/flash-attn/file". */
static const char *place_of(struct maker *maker, const struct af_wheelhouse_wheel *wheel,
                            const char *end)
{
    return af_arena_format(maker->arena, "%s/%s/%s%s", maker->index, wheel->project,
                           wheel->filename, end);
}

/* Whether the file at `to` already has the bytes of `from`. Fails with NO_MEMORY. */
static enum anyflash_status look(const struct af_wheelhouse_wheel *wheel, const char *from,
                                 const char *to, bool *placed_out, struct anyflash_error *err)
{
    char hex[AF_SHA256_HEX_BYTES];
    struct stat source;
    struct stat there;
    *placed_out = false;
    if (stat(from, &source) != 0 || lstat(to, &there) != 0 || !S_ISREG(there.st_mode) ||
        (uint64_t)there.st_size != wheel->size_bytes)
        return ANYFLASH_OK;
    *placed_out = source.st_dev == there.st_dev && source.st_ino == there.st_ino;
    if (*placed_out)
        return ANYFLASH_OK;
    enum anyflash_status status = af_file_sha256(to, hex, NULL, NULL);
    if (status == ANYFLASH_E_NO_MEMORY)
        return af_fail_memory(err);
    *placed_out = status == ANYFLASH_OK && af_sha256_equal(hex, wheel->sha256);
    return ANYFLASH_OK;
}

static enum anyflash_status place(struct maker *maker, const struct af_wheelhouse_wheel *wheel,
                                  const char *from, struct af_span metadata,
                                  struct anyflash_error *err)
{
    bool is_placed;
    const char *folder = af_path_join(maker->arena, maker->index, wheel->project);
    const char *to = place_of(maker, wheel, "");
    const char *beside = place_of(maker, wheel, ".metadata");
    if (folder == NULL || to == NULL || beside == NULL)
        return af_fail_memory(err);
    enum anyflash_status status = make_folder(maker->index, err);
    if (status == ANYFLASH_OK)
        status = make_folder(folder, err);
    if (status == ANYFLASH_OK)
        status = check_folder(maker, folder, err);
    if (status == ANYFLASH_OK)
        status = look(wheel, from, to, &is_placed, err);
    if (status == ANYFLASH_OK && !is_placed)
        status = af_file_place(maker->arena, from, to, err);
    if (status == ANYFLASH_OK)
        status = af_file_write(maker->arena, beside, &metadata, 1, err);
    return status;
}

/* The wheel's texts, so that what was read for it can go. */
static void keep(struct maker *maker, struct af_wheelhouse_wheel wheel)
{
    struct af_arena *arena = maker->arena;
    struct af_wheelhouse_wheel *to = &maker->wheels[maker->wheel_count++];
    *to = (struct af_wheelhouse_wheel){
        .file = af_arena_text(arena, wheel.file),
        .reason = wheel.reason == NULL ? NULL : af_text_scrub(arena, wheel.reason, 400),
        .filename = af_arena_text(arena, wheel.filename),
        .project = af_arena_text(arena, wheel.project),
        .version = af_arena_text(arena, wheel.version),
        .sha256 = af_arena_text(arena, wheel.sha256),
        .metadata_sha256 = af_arena_text(arena, wheel.metadata_sha256),
        .requires_python = af_arena_text(arena, wheel.requires_python),
        .size_bytes = wheel.size_bytes,
        .variant_json = af_arena_text(arena, wheel.variant_json)};
    maker->listed_count += wheel.reason == NULL;
}

static enum anyflash_status take_wheel(struct maker *maker, const char *name,
                                       struct anyflash_error *err)
{
    struct af_arena scratch;
    struct af_span metadata = {0};
    struct af_wheelhouse_wheel wheel = {.file = af_text_scrub(maker->arena, name, 300)};
    const char *path = af_path_join(maker->arena, maker->question->folder, name);
    if (path == NULL || wheel.file == NULL)
        return af_fail_memory(err);
    af_arena_init(&scratch);
    enum anyflash_status status =
        af_wheelhouse_read(path, name, maker->question, &scratch, &wheel, &metadata, err);
    if (status == ANYFLASH_OK && wheel.reason == NULL)
        status = place(maker, &wheel, path, metadata, err);
    if (status == ANYFLASH_OK)
        keep(maker, wheel);
    af_arena_release(&scratch);
    return status == ANYFLASH_OK && maker->arena->failed ? af_fail_memory(err) : status;
}

static void take_other(struct maker *maker, const char *path, const char *name)
{
    const char *shown = af_text_scrub(maker->arena, name, 300);
    if (shown != NULL && af_file_is_folder(path))
        shown = af_arena_format(maker->arena, "%s/", shown);
    maker->others[maker->other_count++] = shown;
}

static enum anyflash_status take_folder(struct maker *maker, struct anyflash_error *err)
{
    const char **names;
    size_t count;
    bool cut;
    const char *index = af_file_real_path(maker->arena, maker->index);
    enum anyflash_status status =
        af_folder_list(maker->arena, maker->question->folder, AF_WHEELHOUSE_FILES_MAX, &names,
                       &count, &cut, err);
    if (status != ANYFLASH_OK)
        return status;
    if (cut)
        return af_fail(err, ANYFLASH_E_LIMIT, "more than %u files", AF_WHEELHOUSE_FILES_MAX);
    maker->wheels = af_arena_array(maker->arena, 2 * count + 1, sizeof *maker->wheels);
    maker->others = af_arena_array(maker->arena, count + 1, sizeof *maker->others);
    for (size_t i = 0; i < count && status == ANYFLASH_OK && !maker->arena->failed; i++) {
        const char *path = af_path_join(maker->arena, maker->question->folder, names[i]);
        if (path == NULL)
            break;
        if (af_ends_with(names[i], ".whl") && !af_file_is_folder(path))
            status = take_wheel(maker, names[i], err);
        else if (index == NULL || !af_equal(af_file_real_path(maker->arena, path), index))
            take_other(maker, path, names[i]);
    }
    return status == ANYFLASH_OK && maker->arena->failed ? af_fail_memory(err) : status;
}

/* Listed before left out; by project, then by name. */
static int order(const void *a, const void *b)
{
    const struct af_wheelhouse_wheel *first = a;
    const struct af_wheelhouse_wheel *second = b;
    if ((first->reason == NULL) != (second->reason == NULL))
        return first->reason == NULL ? -1 : 1;
    int by_project = first->reason == NULL ? strcmp(first->project, second->project) : 0;
    return by_project != 0 ? by_project : strcmp(first->file, second->file);
}

/* "flash_attn-2.8.3-variants.json" of a wheel's name. */
static const char *table_name(struct maker *maker, const struct af_wheelhouse_wheel *wheel)
{
    size_t package = strcspn(wheel->filename, "-") + 1;
    size_t version = strcspn(wheel->filename + package, "-");
    return af_arena_format(maker->arena, "%.*s%s", (int)(package + version), wheel->filename,
                           VARIANTS_END);
}

/* The table of the variants of one version, written and as a row for the pages. */
static enum anyflash_status write_table(struct maker *maker, struct af_wheelhouse_wheel *wheels,
                                        size_t count, struct anyflash_error *err)
{
    char hex[AF_SHA256_HEX_BYTES];
    struct af_text text = {0};
    struct af_wheelhouse_wheel row = {.file = table_name(maker, wheels),
                                      .project = wheels->project,
                                      .version = wheels->version,
                                      .is_table = true};
    row.filename = row.file;
    enum anyflash_status status = af_wheelhouse_variants(wheels, count, &text, err);
    const struct af_span piece = {text.data, text.len};
    const char *path = row.file == NULL ? NULL : place_of(maker, &row, "");
    if (status == ANYFLASH_OK && path == NULL)
        status = af_fail_memory(err);
    if (status == ANYFLASH_OK)
        status = af_file_write(maker->arena, path, &piece, 1, err);
    if (status == ANYFLASH_OK) {
        af_sha256_bytes(piece, hex);
        row.sha256 = af_arena_text(maker->arena, hex);
        row.size_bytes = text.len;
        maker->wheels[maker->wheel_count++] = row;
        maker->table_count++;
    }
    af_text_release(&text);
    return status == ANYFLASH_OK && maker->arena->failed ? af_fail_memory(err) : status;
}

/* Of the wheels, which are in order, those before `at` have none of its version. */
static bool is_first_variant(const struct maker *maker, size_t at)
{
    const struct af_wheelhouse_wheel *wheel = &maker->wheels[at];
    for (size_t i = 0; i < at; i++) {
        if (maker->wheels[i].variant_json != NULL &&
            af_equal(maker->wheels[i].project, wheel->project) &&
            af_equal(maker->wheels[i].version, wheel->version))
            return false;
    }
    return wheel->variant_json != NULL;
}

static void sort(struct maker *maker)
{
    maker->listed_count = 0;
    qsort(maker->wheels, maker->wheel_count, sizeof *maker->wheels, order);
    while (maker->listed_count < maker->wheel_count &&
           maker->wheels[maker->listed_count].reason == NULL)
        maker->listed_count++;
}

static enum anyflash_status write_tables(struct maker *maker, struct anyflash_error *err)
{
    enum anyflash_status status = ANYFLASH_OK;
    for (size_t i = 0, count = maker->listed_count; i < count && status == ANYFLASH_OK; i++) {
        if (is_first_variant(maker, i))
            status = write_table(maker, &maker->wheels[i], count - i, err);
    }
    sort(maker);
    return status;
}

typedef void page_writer(const struct af_wheelhouse_wheel *wheels, size_t count,
                         struct af_text *text);

static enum anyflash_status write_page(struct maker *maker, const char *folder,
                                       const char *name, page_writer *writer,
                                       const struct af_wheelhouse_wheel *wheels, size_t count,
                                       struct anyflash_error *err)
{
    struct af_text text = {0};
    const char *path = af_path_join(maker->arena, folder, name);
    writer(wheels, count, &text);
    const struct af_span piece = {text.data, text.len};
    enum anyflash_status status = path == NULL || text.failed
                                      ? af_fail_memory(err)
                                      : af_file_write(maker->arena, path, &piece, 1, err);
    af_text_release(&text);
    return status;
}

static enum anyflash_status write_pages(struct maker *maker, struct anyflash_error *err)
{
    enum anyflash_status status = ANYFLASH_OK;
    size_t count;
    for (size_t i = 0; i < maker->listed_count && status == ANYFLASH_OK; i += count) {
        const struct af_wheelhouse_wheel *wheels = &maker->wheels[i];
        const char *folder = af_path_join(maker->arena, maker->index, wheels->project);
        count = af_wheelhouse_project_wheels(wheels, maker->listed_count - i);
        maker->project_count++;
        if (folder == NULL)
            return af_fail_memory(err);
        status = write_page(maker, folder, "index.json", af_wheelhouse_project_json, wheels,
                            count, err);
        if (status == ANYFLASH_OK)
            status = write_page(maker, folder, "index.html", af_wheelhouse_project_html, wheels,
                                count, err);
    }
    if (status == ANYFLASH_OK)
        status = write_page(maker, maker->index, "index.json", af_wheelhouse_root_json,
                            maker->wheels, maker->listed_count, err);
    if (status == ANYFLASH_OK)
        status = write_page(maker, maker->index, "index.html", af_wheelhouse_root_html,
                            maker->wheels, maker->listed_count, err);
    return status;
}

/* Whether a page of now names the file, as wheel, metadata or page; NULL: any file. */
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

/* Of a kind that we write. */
static bool is_of_index(const char *name)
{
    return af_ends_with(name, ".whl") || af_ends_with(name, ".whl.metadata") ||
           af_ends_with(name, VARIANTS_END) || af_ends_with(name, ".part");
}

static enum anyflash_status remove_file(struct maker *maker, const char *folder,
                                        const char *name, struct anyflash_error *err)
{
    const char *path = af_path_join(maker->arena, folder, name);
    if (path == NULL)
        return af_fail_memory(err);
    return unlink(path) == 0 ? ANYFLASH_OK : fail_path("remove", path, err);
}

/* What a project's folder of ours holds beyond its page; all of it when it has none. */
static enum anyflash_status sweep_project(struct maker *maker, const char *project,
                                          struct anyflash_error *err)
{
    const char **names;
    size_t count;
    const char *folder = af_path_join(maker->arena, maker->index, project);
    const char *page = folder == NULL ? NULL : af_path_join(maker->arena, folder, "index.json");
    if (page == NULL)
        return af_fail_memory(err);
    if (af_file_is_link(folder) || !is_ours(maker->arena, page, AF_WHEELHOUSE_MARK_JSON))
        return maker->arena->failed ? af_fail_memory(err) : ANYFLASH_OK;
    bool is_kept = is_listed(maker, project, NULL);
    enum anyflash_status status = af_folder_list(
        maker->arena, folder, 2 * AF_WHEELHOUSE_FILES_MAX, &names, &count, NULL, err);
    for (size_t i = 0; status == ANYFLASH_OK && i < count; i++) {
        bool is_page = af_equal(names[i], "index.html") || af_equal(names[i], "index.json");
        bool goes =
            is_page ? !is_kept : is_of_index(names[i]) && !is_listed(maker, project, names[i]);
        if (goes)
            status = remove_file(maker, folder, names[i], err);
    }
    if (status == ANYFLASH_OK && !is_kept)
        rmdir(folder); /* it stays where others have put something there */
    return status;
}

static enum anyflash_status sweep(struct maker *maker, struct anyflash_error *err)
{
    const char **names;
    size_t count;
    enum anyflash_status status = af_folder_list(
        maker->arena, maker->index, AF_WHEELHOUSE_FILES_MAX, &names, &count, NULL, err);
    for (size_t i = 0; status == ANYFLASH_OK && i < count; i++) {
        if (af_starts_with(names[i], "index.") && af_ends_with(names[i], ".part"))
            status = remove_file(maker, maker->index, names[i], err);
        else
            status = sweep_project(maker, names[i], err);
    }
    return status;
}

/* An index that stands there is emptied with the folder; none is begun for nothing. */
static bool has_work(const struct maker *maker)
{
    const char *page = af_path_join(maker->arena, maker->index, "index.json");
    return maker->listed_count > 0 || (page != NULL && af_file_is_regular(page));
}

enum anyflash_status af_wheelhouse_make(const struct af_wheelhouse_question *question,
                                        struct af_arena *arena, struct af_wheelhouse *house_out,
                                        struct anyflash_error *err)
{
    struct maker maker = {.question = question, .arena = arena};
    maker.index = question->index != NULL ? question->index
                                          : af_path_join(arena, question->folder, "simple");
    if (maker.index == NULL)
        return af_fail_memory(err);
    enum anyflash_status status = check_folder(&maker, maker.index, err);
    if (status == ANYFLASH_OK)
        status = take_folder(&maker, err);
    bool works = status == ANYFLASH_OK && has_work(&maker);
    if (works) {
        sort(&maker);
        status = write_tables(&maker, err);
        if (status == ANYFLASH_OK)
            status = write_pages(&maker, err);
        if (status == ANYFLASH_OK)
            status = sweep(&maker, err);
    }
    if (status != ANYFLASH_OK)
        return status;
    *house_out = (struct af_wheelhouse){.index = maker.index,
                                        .wheels = maker.wheels,
                                        .wheel_count = maker.wheel_count,
                                        .listed_count = maker.listed_count,
                                        .emptied = maker.listed_count == 0 && works,
                                        .table_count = maker.table_count,
                                        .project_count = maker.project_count,
                                        .others = maker.others,
                                        .other_count = maker.other_count};
    return ANYFLASH_OK;
}
