/*
 * expected_files.c: the list of files has keys. A key is the place of a file in the layout of
 * an environment: "site:torch/__init__.py" below any folder of packages, "bin:torchrun",
 * "include:a.h" (the folders above headers differ between installers), and
 * "root:share/man/x.1" for every other file.
 */
#include "kit/install/expected_files.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "kit/base/text.h"
#include "kit/formats/wheel_archive.h"
#include "kit/system/file.h"

#define ENTRY_POINTS_BYTES_MAX (1u << 20)
#define SCRIPT_BYTES_MAX (4u << 20)
#define FOLDER_NAMES_MAX 200000u

struct af_expected_file {
    const char *key;
    uint64_t size_bytes;
    uint32_t crc32;
    enum {
        AS_IN_WHEEL, /* size and CRC-32 are those of the member */
        AT_ITS_END,  /* a script: installers write their own lines for its first line */
        ANY_CONTENT  /* the installer writes it */
    } content;
};

static void add(struct af_expected_files *files, struct af_expected_file file)
{
    if (files->count == files->capacity) {
        files->capacity = files->capacity == 0 ? 64 : files->capacity * 2;
        files->items = af_memory_resize(files->items, files->capacity * sizeof *files->items);
    }
    files->items[files->count++] = file;
}

static void add_any(struct af_expected_files *files, const char *key)
{
    add(files, (struct af_expected_file){.key = key, .content = ANY_CONTENT});
}

/* The key of a member: those of NAME.data/KIND/ go to the folder of their kind (PEP 427). */
static const char *member_key(struct af_arena *arena, const char *name)
{
    static const struct {
        const char *folder;
        const char *key;
    } kinds[] = {{"purelib/", "site"},
                 {"platlib/", "site"},
                 {"scripts/", "bin"},
                 {"headers/", "include"},
                 {"data/", "root"}};
    size_t top = strcspn(name, "/");
    const char *below = name + top + (name[top] == '/');
    bool is_data = top >= 5 && memcmp(name + top - 5, ".data", 5) == 0;
    for (size_t i = 0; is_data && i < AF_COUNT(kinds); i++)
        if (af_starts_with(below, kinds[i].folder))
            return af_arena_format(arena, "%s:%s", kinds[i].key,
                                   below + strlen(kinds[i].folder));
    return af_arena_format(arena, "site:%s", name);
}

/* Of a script whose first line installers replace, only the rest counts. */
static enum anyflash_status skip_first_line(const struct af_zip *zip,
                                            const struct af_zip_member *member,
                                            struct af_arena *arena,
                                            struct af_expected_file *file,
                                            struct anyflash_error *err)
{
    static const char mark[] = "#!python";
    struct af_span text;
    enum anyflash_status status = af_zip_read(zip, member, arena, SCRIPT_BYTES_MAX, &text, err);
    const char *end = status != ANYFLASH_OK || !af_starts_with(text.data, mark)
                          ? NULL
                          : memchr(text.data, '\n', text.len);
    if (end == NULL)
        return status;
    file->content = AT_ITS_END;
    file->size_bytes = text.len - (size_t)(end + 1 - text.data);
    file->crc32 = (uint32_t)crc32_z(0, (const Bytef *)end + 1, (size_t)file->size_bytes);
    return ANYFLASH_OK;
}

static enum anyflash_status add_member(struct af_expected_files *files,
                                       const struct af_zip *zip,
                                       const struct af_zip_member *member,
                                       struct af_arena *arena, struct anyflash_error *err)
{
    struct af_expected_file file = {member_key(arena, member->name), member->size_bytes,
                                    member->crc32, AS_IN_WHEEL};
    enum anyflash_status status = ANYFLASH_OK;
    if (member->is_folder)
        return ANYFLASH_OK;
    if (af_starts_with(file.key, "bin:"))
        status = skip_first_line(zip, member, arena, &file, err);
    if (status == ANYFLASH_OK)
        add(files, file);
    return status;
}

/* The names in [console_scripts] and [gui_scripts], for which installers write scripts. */
static void add_scripts(struct af_expected_files *files, struct af_span text,
                        struct af_arena *arena)
{
    struct af_span line;
    bool is_scripts = false;
    while (af_text_line(&text, &line)) {
        line = af_text_trim(line);
        const char *equals = line.len == 0 ? NULL : memchr(line.data, '=', line.len);
        if (line.len > 0 && line.data[0] == '[')
            is_scripts = af_text_span_equal(line, "[console_scripts]") ||
                         af_text_span_equal(line, "[gui_scripts]");
        if (!is_scripts || equals == NULL)
            continue;
        struct af_span name =
            af_text_trim((struct af_span){line.data, (size_t)(equals - line.data)});
        add_any(files, af_arena_format(arena, "bin:%.*s", (int)name.len, name.data));
    }
}

/* Files in the dist-info folder that installers write (PEP 376, PEP 610, uv). */
static const char *const written[] = {"INSTALLER", "RECORD", "REQUESTED", "direct_url.json",
                                      "uv_cache.json"};

static void add_written(struct af_expected_files *files, const char *info,
                        struct af_arena *arena)
{
    add_any(files, "root:.lock"); /* uv locks the folder of --prefix */
    for (size_t i = 0; info != NULL && i < AF_COUNT(written); i++)
        add_any(files, af_arena_format(arena, "site:%s%s", info, written[i]));
}

static bool is_written(const struct af_wheel_archive *archive, const char *name)
{
    const size_t len = archive->info == NULL ? 0 : strlen(archive->info);
    return len > 0 && strncmp(name, archive->info, len) == 0 &&
           af_is_one_of(name + len, written, AF_COUNT(written));
}

static enum anyflash_status add_archive(struct af_expected_files *files,
                                        const struct af_wheel_archive *archive,
                                        struct af_arena *arena, struct anyflash_error *err)
{
    struct af_span text = {0};
    enum anyflash_status status = ANYFLASH_OK;
    add_written(files, archive->info, arena);
    for (size_t i = 0; status == ANYFLASH_OK && i < archive->zip.member_count; i++)
        if (!is_written(archive, archive->zip.members[i].name))
            status = add_member(files, &archive->zip, &archive->zip.members[i], arena, err);
    if (status != ANYFLASH_OK || af_wheel_archive_info(archive, "entry_points.txt") == NULL)
        return status;
    status = af_wheel_archive_read_info(archive, "entry_points.txt", arena,
                                        ENTRY_POINTS_BYTES_MAX, &text, err);
    if (status == ANYFLASH_OK)
        add_scripts(files, text, arena);
    return status;
}

enum anyflash_status af_expected_files_add(struct af_expected_files *files, const char *path,
                                           struct af_arena *arena, struct anyflash_error *err)
{
    struct af_mapping mapping = {0};
    struct af_wheel_archive archive = {.info = NULL};
    enum anyflash_status status = af_file_map(path, &mapping, err);
    if (status != ANYFLASH_OK)
        return status;
    status = af_wheel_archive_open(af_mapping_bytes(&mapping), path, &archive, err);
    if (status == ANYFLASH_OK)
        status = add_archive(files, &archive, arena, err);
    af_wheel_archive_close(&archive);
    af_file_unmap(&mapping);
    return status;
}

static int compare_keys(const void *a, const void *b)
{
    return strcmp(((const struct af_expected_file *)a)->key,
                  ((const struct af_expected_file *)b)->key);
}

static const struct af_expected_file *find_key(const struct af_expected_files *files,
                                               const char *kind, const char *path,
                                               struct af_arena *arena)
{
    const struct af_expected_file key = {.key = af_arena_format(arena, "%s:%s", kind, path)};
    return bsearch(&key, files->items, files->count, sizeof *files->items, compare_keys);
}

/* The header that `path` is in one of the folders that headers may be in; or NULL. */
static const struct af_expected_file *find_header(const struct af_expected_files *files,
                                                  const char *path, struct af_arena *arena)
{
    const struct af_expected_file *found = NULL;
    for (const char *at = strchr(path, '/'); at != NULL && found == NULL;
         at = strchr(at + 1, '/'))
        found = find_key(files, "include", at + 1, arena);
    return found;
}

/* The file that may be at `path` in an environment; or NULL. Debian's pip uses "local/". */
static const struct af_expected_file *find_file(const struct af_expected_files *files,
                                                const char *path, struct af_arena *arena)
{
    static const char packages[] = "-packages/"; /* site-packages, dist-packages */
    const struct af_expected_file *found = find_key(files, "root", path, arena);
    if (found != NULL)
        return found;
    if (af_starts_with(path, "local/"))
        path += strlen("local/");
    const char *site = af_starts_with(path, "lib") ? strstr(path, packages) : NULL;
    if (site != NULL)
        return find_key(files, "site", site + strlen(packages), arena);
    if (af_starts_with(path, "bin/"))
        return find_key(files, "bin", path + strlen("bin/"), arena);
    if (af_starts_with(path, "include/"))
        found = find_header(files, path, arena);
    return found != NULL ? found : find_key(files, "root", path, arena);
}

struct summing {
    uint64_t size_bytes;
    uint32_t crc32;
};

static void sum_piece(void *context, const char *bytes, size_t len)
{
    struct summing *summing = context;
    summing->size_bytes += len;
    summing->crc32 = (uint32_t)crc32_z(summing->crc32, (const Bytef *)bytes, len);
}

/* Whether the file at `full` has the content. */
static enum anyflash_status compare_content(const struct af_expected_file *file,
                                            const char *full, struct af_arena *arena,
                                            bool *same_out, struct anyflash_error *err)
{
    struct summing sum = {0};
    struct af_span text;
    enum anyflash_status status = ANYFLASH_OK;
    *same_out = true;
    if (file->content == ANY_CONTENT)
        return ANYFLASH_OK;
    if (file->content == AS_IN_WHEEL) {
        status = af_file_read_pieces(full, sum_piece, &sum, err);
    } else {
        status = af_file_read(arena, full, 2 * SCRIPT_BYTES_MAX, &text, err);
        if (status == ANYFLASH_OK && text.len >= file->size_bytes)
            sum_piece(&sum, text.data + (text.len - (size_t)file->size_bytes),
                      (size_t)file->size_bytes);
    }
    *same_out = sum.size_bytes == file->size_bytes && sum.crc32 == file->crc32;
    return status;
}

/* Folders that are still to be visited, relative to the tree: a stack instead of recursion. */
struct visit {
    struct af_file_names folders;
    const struct af_expected_files *files;
    const char *tree;
    struct af_arena *arena;
};

static enum anyflash_status visit_one(struct visit *visit, const char *path,
                                      struct anyflash_error *err)
{
    char shown[300];
    bool same = false;
    const char *full = af_path_join(visit->arena, visit->tree, path);
    if (af_file_is_folder(full) && !af_file_is_link(full)) {
        af_file_names_add(&visit->folders, path);
        return ANYFLASH_OK;
    }
    const struct af_expected_file *file = find_file(visit->files, path, visit->arena);
    af_text_quote(shown, sizeof shown, path, strlen(path));
    if (file == NULL || af_file_is_link(full))
        return af_fail(err, ANYFLASH_E_DATA,
                       "the installer unpacked '%s', which is not in the wheel's file list",
                       shown);
    enum anyflash_status status = compare_content(file, full, visit->arena, &same, err);
    if (status == ANYFLASH_OK && !same)
        status = af_fail(err, ANYFLASH_E_DATA,
                         "the installer unpacked '%s' with another content than the wheel has",
                         shown);
    return status;
}

static enum anyflash_status visit_folder(struct visit *visit, const char *folder,
                                         struct anyflash_error *err)
{
    const char **names;
    size_t count;
    bool is_cut = false;
    const char *full = af_path_join(visit->arena, visit->tree, folder);
    enum anyflash_status status =
        af_folder_list(visit->arena, full, FOLDER_NAMES_MAX, &names, &count, &is_cut, err);
    if (status == ANYFLASH_OK && is_cut)
        status = af_fail(err, ANYFLASH_E_LIMIT, "the wheel has too many files");
    for (size_t i = 0; status == ANYFLASH_OK && i < count; i++) {
        const char *path = folder[0] == '\0' ? af_arena_text(visit->arena, names[i])
                                             : af_path_join(visit->arena, folder, names[i]);
        status = visit_one(visit, path, err);
    }
    return status;
}

static void sort(struct af_expected_files *files)
{
    if (files->count > 0)
        qsort(files->items, files->count, sizeof *files->items, compare_keys);
}

enum anyflash_status af_expected_files_check_tree(struct af_expected_files *files,
                                                  const char *tree, struct af_arena *arena,
                                                  struct anyflash_error *err)
{
    struct visit visit = {.files = files, .tree = tree, .arena = arena};
    sort(files);
    enum anyflash_status status = visit_folder(&visit, "", err);
    while (status == ANYFLASH_OK && visit.folders.count > 0)
        status = visit_folder(&visit, visit.folders.items[--visit.folders.count], err);
    af_memory_free(visit.folders.items);
    return status;
}

/* What is wrong with the file at `path`, relative to the site folder; NULL: nothing. */
static enum anyflash_status compare_installed(const struct af_expected_files *files,
                                              const char *site, const char *path,
                                              struct af_arena *arena,
                                              const char **difference_out,
                                              struct anyflash_error *err)
{
    const char *outer = path;
    bool same = false;
    while (af_starts_with(outer, "../"))
        outer += strlen("../");
    const struct af_expected_file *file =
        outer == path ? find_key(files, "site", path, arena) : find_file(files, outer, arena);
    const char *full = af_path_join(arena, site, path);
    if (file == NULL && af_ends_with(path, ".pyc") && strstr(path, "__pycache__/") != NULL)
        return ANYFLASH_OK; /* pip compiles what it installs */
    *difference_out = af_arena_format(arena, "%s: %s", path,
                                      file == NULL                ? "not in the wheel"
                                      : af_file_is_link(full)     ? "a link"
                                      : !af_file_is_regular(full) ? "missing"
                                                                  : "another content");
    if (file == NULL || af_file_is_link(full) || !af_file_is_regular(full))
        return ANYFLASH_OK;
    enum anyflash_status status = compare_content(file, full, arena, &same, err);
    if (status == ANYFLASH_OK && same)
        *difference_out = NULL;
    return status;
}

enum anyflash_status af_expected_files_compare(struct af_expected_files *files,
                                               const char *site,
                                               const struct af_distribution *distribution,
                                               struct af_arena *arena,
                                               const char **difference_out,
                                               struct anyflash_error *err)
{
    static const char of_site[] = "site:";
    const char **paths;
    size_t count;
    *difference_out = NULL;
    sort(files);
    enum anyflash_status status =
        af_distribution_files(arena, site, distribution, &paths, &count, difference_out, err);
    for (size_t i = 0; status == ANYFLASH_OK && *difference_out == NULL && i < count; i++)
        status = compare_installed(files, site, paths[i], arena, difference_out, err);
    for (size_t i = 0; status == ANYFLASH_OK && *difference_out == NULL && i < files->count;
         i++)
        if (files->items[i].content == AS_IN_WHEEL &&
            af_starts_with(files->items[i].key, of_site))
            status = compare_installed(files, site, files->items[i].key + strlen(of_site),
                                       arena, difference_out, err);
    return status;
}
