/*
 * unpacked.c: compares the files of a tree with a list of keys. A key is the place of a file in
 * the layout of an environment: "site:torch/__init__.py" below any folder of packages,
 * "bin:torchrun", "include:a.h" (the folders above headers differ between installers), and
 * "root:share/man/x.1" for every other file.
 */
#include "kit/install/unpacked.h"

#include <stdlib.h>
#include <string.h>

#include "kit/base/text.h"
#include "kit/formats/wheel_archive.h"
#include "kit/system/file.h"

#define ENTRY_POINTS_BYTES_MAX (1u << 20)
#define FOLDER_NAMES_MAX 200000u

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

/* The names in [console_scripts] and [gui_scripts], for which installers write scripts. */
static bool allow_scripts(struct af_file_names *allowed, struct af_span text,
                          struct af_arena *arena)
{
    struct af_span line;
    bool is_scripts = false;
    bool good = true;
    while (good && af_text_line(&text, &line)) {
        line = af_text_trim(line);
        const char *equals = line.len == 0 ? NULL : memchr(line.data, '=', line.len);
        if (line.len > 0 && line.data[0] == '[')
            is_scripts = af_text_span_equal(line, "[console_scripts]") ||
                         af_text_span_equal(line, "[gui_scripts]");
        if (!is_scripts || equals == NULL)
            continue;
        struct af_span name =
            af_text_trim((struct af_span){line.data, (size_t)(equals - line.data)});
        good = af_file_names_add(allowed,
                                 af_arena_format(arena, "bin:%.*s", (int)name.len, name.data));
    }
    return good;
}

/* Files in the dist-info folder that installers write (PEP 376, PEP 610, uv). */
static bool allow_records(struct af_file_names *allowed, const char *info,
                          struct af_arena *arena)
{
    static const char *const names[] = {"INSTALLER", "RECORD", "REQUESTED", "direct_url.json",
                                        "uv_cache.json"};
    bool good = true;
    for (size_t i = 0; good && i < AF_COUNT(names); i++)
        good = af_file_names_add(allowed, af_arena_format(arena, "site:%s%s", info, names[i]));
    return good;
}

static enum anyflash_status allow_archive(struct af_file_names *allowed,
                                          const struct af_wheel_archive *archive,
                                          struct af_arena *arena, struct anyflash_error *err)
{
    struct af_span text = {0};
    bool good = af_file_names_add(allowed, "root:.lock"); /* uv locks the folder of --prefix */
    for (size_t i = 0; good && i < archive->zip.member_count; i++)
        good = af_file_names_add(allowed, member_key(arena, archive->zip.members[i].name));
    if (good && archive->info != NULL)
        good = allow_records(allowed, af_arena_text(arena, archive->info), arena);
    if (!good)
        return af_fail_memory(err);
    if (af_wheel_archive_info(archive, "entry_points.txt") == NULL)
        return ANYFLASH_OK;
    enum anyflash_status status = af_wheel_archive_read_info(
        archive, "entry_points.txt", arena, ENTRY_POINTS_BYTES_MAX, &text, err);
    if (status == ANYFLASH_OK && !allow_scripts(allowed, text, arena))
        status = af_fail_memory(err);
    return status;
}

enum anyflash_status af_unpacked_allow(struct af_file_names *allowed, const char *path,
                                       struct af_arena *arena, struct anyflash_error *err)
{
    struct af_mapping mapping = {0};
    struct af_wheel_archive archive = {.info = NULL};
    enum anyflash_status status = af_file_map(path, &mapping, err);
    if (status != ANYFLASH_OK)
        return status;
    status = af_wheel_archive_open(af_mapping_bytes(&mapping), path, &archive, err);
    if (status == ANYFLASH_OK)
        status = allow_archive(allowed, &archive, arena, err);
    af_wheel_archive_close(&archive);
    af_file_unmap(&mapping);
    return status;
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool is_allowed(const struct af_file_names *allowed, const char *kind, const char *path,
                       struct af_arena *arena)
{
    const char *key = af_arena_format(arena, "%s:%s", kind, path);
    return key != NULL && bsearch(&key, allowed->items, allowed->count, sizeof *allowed->items,
                                  compare) != NULL;
}

/* Whether one of the folders that headers may be in makes `path` that of an allowed header. */
static bool is_header(const struct af_file_names *allowed, const char *path,
                      struct af_arena *arena)
{
    for (const char *at = strchr(path, '/'); at != NULL; at = strchr(at + 1, '/'))
        if (is_allowed(allowed, "include", at + 1, arena))
            return true;
    return false;
}

/* Whether the file at `path` may be in the tree. Debian's pip writes below "local/". */
static bool is_known(const struct af_file_names *allowed, const char *path,
                     struct af_arena *arena)
{
    static const char packages[] = "-packages/"; /* site-packages, dist-packages */
    if (is_allowed(allowed, "root", path, arena))
        return true;
    if (af_starts_with(path, "local/"))
        path += strlen("local/");
    const char *site = af_starts_with(path, "lib") ? strstr(path, packages) : NULL;
    if (site != NULL)
        return is_allowed(allowed, "site", site + strlen(packages), arena);
    if (af_starts_with(path, "bin/"))
        return is_allowed(allowed, "bin", path + strlen("bin/"), arena);
    return (af_starts_with(path, "include/") && is_header(allowed, path, arena)) ||
           is_allowed(allowed, "root", path, arena);
}

/* Folders that are still to be visited, relative to the tree: a stack instead of recursion. */
struct visit {
    struct af_file_names folders;
    const struct af_file_names *allowed;
    const char *tree;
    struct af_arena *arena;
};

static enum anyflash_status visit_one(struct visit *visit, const char *path,
                                      struct anyflash_error *err)
{
    char shown[300];
    const char *full = af_path_join(visit->arena, visit->tree, path);
    if (full == NULL)
        return af_fail_memory(err);
    if (af_file_is_folder(full) && !af_file_is_link(full))
        return af_file_names_add(&visit->folders, path) ? ANYFLASH_OK : af_fail_memory(err);
    if (is_known(visit->allowed, path, visit->arena))
        return ANYFLASH_OK;
    return visit->arena->failed
               ? af_fail_memory(err)
               : af_fail(err, ANYFLASH_E_DATA,
                         "the installer unpacked '%s', which is not in the wheel's file list",
                         af_text_quote(shown, sizeof shown, path, strlen(path)));
}

static enum anyflash_status visit_folder(struct visit *visit, const char *folder,
                                         struct anyflash_error *err)
{
    const char **names;
    size_t count;
    bool is_cut = false;
    const char *full = af_path_join(visit->arena, visit->tree, folder);
    if (full == NULL)
        return af_fail_memory(err);
    enum anyflash_status status =
        af_folder_list(visit->arena, full, FOLDER_NAMES_MAX, &names, &count, &is_cut, err);
    if (status == ANYFLASH_OK && is_cut)
        status = af_fail(err, ANYFLASH_E_LIMIT, "the wheel has too many files");
    for (size_t i = 0; status == ANYFLASH_OK && i < count; i++) {
        const char *path = folder[0] == '\0' ? af_arena_text(visit->arena, names[i])
                                             : af_path_join(visit->arena, folder, names[i]);
        status = path == NULL ? af_fail_memory(err) : visit_one(visit, path, err);
    }
    return status;
}

enum anyflash_status af_unpacked_check(struct af_file_names *allowed, const char *tree,
                                       struct af_arena *arena, struct anyflash_error *err)
{
    struct visit visit = {.allowed = allowed, .tree = tree, .arena = arena};
    qsort(allowed->items, allowed->count, sizeof *allowed->items, compare);
    enum anyflash_status status = visit_folder(&visit, "", err);
    while (status == ANYFLASH_OK && visit.folders.count > 0)
        status = visit_folder(&visit, visit.folders.items[--visit.folders.count], err);
    af_mem_free(visit.folders.items);
    return status;
}
