/*
 * own_package.c: finds the files of anyflash's Python package and writes them as an
 * installed distribution. pyproject.toml describes the wheel of the same package.
 */
#include "kit/install/own_package.h"

#include <string.h>
#include <sys/stat.h>

#include "kit/base/text.h"
#include "kit/install/record.h"
#include "kit/system/file.h"
#include "kit/system/output.h"

#define FOLDERS_MAX 64
#define NAMES_MAX 1024
#define VERSION_BYTES_MAX 4096

/* Where the files are, seen from the folder of the program. */
struct place {
    const char *python;
    const char *libraries; /* NULL: among the Python files, like the program */
};
static const struct place places[] = {
    {"..", NULL},
    {"python/anyflash", "."},
    {"../" AF_PACKAGE_FOLDER "/anyflash", "../" AF_LIBRARY_FOLDER},
};
static const char *const libraries[] = {"libanyflash.so", "libanyflash_python.so"};

struct writing {
    struct af_arena *arena;
    const char *site;    /* the site folder in the stage */
    struct af_text rows; /* of RECORD */
    struct anyflash_error *err;
};

/* Whether the folder holds the package of this version. */
static bool is_package(struct af_arena *arena, const char *folder)
{
    struct af_span text;
    const char *path = folder == NULL ? NULL : af_path_join(arena, folder, "_version.py");
    const char *quoted = af_arena_format(arena, "\"%s\"", anyflash_version_text());
    return path != NULL && quoted != NULL &&
           af_file_read(arena, path, VERSION_BYTES_MAX, &text, NULL) == ANYFLASH_OK &&
           strstr(text.data, quoted) != NULL;
}

/* Adds the row of a file that is in place. */
static enum anyflash_status add_row(struct writing *writing, const char *path)
{
    char hex[AF_SHA256_HEX_BYTES];
    char hash[AF_RECORD_HASH_BYTES];
    uint64_t size_bytes;
    const char *full = af_path_join(writing->arena, writing->site, path);
    if (full == NULL)
        return af_fail_memory(writing->err);
    enum anyflash_status status = af_file_sha256(full, hex, &size_bytes, writing->err);
    if (status != ANYFLASH_OK)
        return status;
    af_record_hash(hex, hash);
    af_text_format(&writing->rows, "%s,sha256=%s,%ju\n", path, hash, (uintmax_t)size_bytes);
    return ANYFLASH_OK;
}

/* Copies a file to `path`, below the site folder. */
static enum anyflash_status add_file(struct writing *writing, const char *from,
                                     const char *path)
{
    const char *full = af_path_join(writing->arena, writing->site, path);
    const char *folder = full == NULL ? NULL : af_path_folder(writing->arena, full);
    if (folder == NULL || from == NULL)
        return af_fail_memory(writing->err);
    enum anyflash_status status = af_folder_make(folder, 0755, writing->err);
    if (status == ANYFLASH_OK)
        status = af_file_copy(writing->arena, from, full, writing->err);
    if (status == ANYFLASH_OK && af_file_is_executable(from) && chmod(full, 0755) != 0)
        status = af_fail(writing->err, ANYFLASH_E_IO, "cannot make '%s' executable", full);
    return status == ANYFLASH_OK ? add_row(writing, path) : status;
}

static enum anyflash_status add_text(struct writing *writing, const char *info,
                                     const char *name, const char *text)
{
    const char *path = af_path_join(writing->arena, info, name);
    const char *full = path == NULL ? NULL : af_path_join(writing->arena, writing->site, path);
    if (full == NULL || text == NULL)
        return af_fail_memory(writing->err);
    enum anyflash_status status = af_file_write_text(writing->arena, full, text, writing->err);
    return status == ANYFLASH_OK ? add_row(writing, path) : status;
}

/* Copies the files below `from` to the folder anyflash, without Python's caches. */
static enum anyflash_status add_tree(struct writing *writing, const char *from)
{
    struct af_arena *arena = writing->arena;
    const char *folders[FOLDERS_MAX] = {"anyflash"};
    size_t last = 1;
    for (size_t at = 0; at < last; at++) {
        const char **names;
        size_t count;
        const char *below = folders[at] + strlen("anyflash");
        const char *folder = af_arena_format(arena, "%s%s", from, below);
        if (folder == NULL)
            return af_fail_memory(writing->err);
        enum anyflash_status status =
            af_folder_list(arena, folder, NAMES_MAX, &names, &count, NULL, writing->err);
        for (size_t i = 0; status == ANYFLASH_OK && i < count; i++) {
            const char *path = af_path_join(arena, folder, names[i]);
            const char *target = af_path_join(arena, folders[at], names[i]);
            if (path == NULL || target == NULL)
                return af_fail_memory(writing->err);
            if (!af_file_is_folder(path))
                status = add_file(writing, path, target);
            else if (strcmp(names[i], "__pycache__") != 0 && last == FOLDERS_MAX)
                status =
                    af_fail(writing->err, ANYFLASH_E_LIMIT, "too many folders in '%s'", from);
            else if (strcmp(names[i], "__pycache__") != 0)
                folders[last++] = target;
        }
        if (status != ANYFLASH_OK)
            return status;
    }
    return ANYFLASH_OK;
}

/*
 * The libraries and the program, where they are not among the Python files. Distributions put
 * the libraries, or links to them, there.
 */
static enum anyflash_status add_binaries(struct writing *writing, const char *program,
                                         const char *python, const char *folder)
{
    enum anyflash_status status = ANYFLASH_OK;
    for (size_t i = 0; status == ANYFLASH_OK && i < AF_COUNT(libraries); i++) {
        const char *added = af_path_join(writing->arena, python, libraries[i]);
        if (added == NULL)
            return af_fail_memory(writing->err);
        if (af_file_is_absent(added))
            status = add_file(writing, af_path_join(writing->arena, folder, libraries[i]),
                              af_path_join(writing->arena, "anyflash", libraries[i]));
    }
    return status == ANYFLASH_OK ? add_file(writing, program, "anyflash/bin/anyflash") : status;
}

static enum anyflash_status add_metadata(struct writing *writing)
{
    struct af_arena *arena = writing->arena;
    const char *version = anyflash_version_text();
    const char *info = af_arena_format(arena, "anyflash-%s.dist-info", version);
    const char *folder = info == NULL ? NULL : af_path_join(arena, writing->site, info);
    if (folder == NULL)
        return af_fail_memory(writing->err);
    enum anyflash_status status = af_folder_make(folder, 0755, writing->err);
    if (status == ANYFLASH_OK)
        status = add_text(writing, info, "METADATA",
                          af_arena_format(arena,
                                          "Metadata-Version: 2.1\nName: anyflash\nVersion: "
                                          "%s\nSummary: FlashAttention on any machine\n"
                                          "License: BSD-3-Clause\nRequires-Python: >=3.9\n",
                                          version));
    if (status == ANYFLASH_OK)
        status = add_text(writing, info, "WHEEL",
                          af_arena_format(arena,
                                          "Wheel-Version: 1.0\nGenerator: anyflash %s\n"
                                          "Root-Is-Purelib: false\nTag: py3-none-any\n",
                                          version));
    if (status == ANYFLASH_OK)
        status = add_text(writing, info, "entry_points.txt",
                          "[vllm.general_plugins]\nanyflash = anyflash.vllm:register\n");
    if (status == ANYFLASH_OK)
        status = add_text(writing, info, "INSTALLER", "anyflash\n");
    if (status != ANYFLASH_OK)
        return status;
    af_text_format(&writing->rows, "%s/RECORD,,\n", info);
    const char *record = af_path_join(arena, folder, "RECORD");
    if (record == NULL || writing->rows.failed)
        return af_fail_memory(writing->err);
    return af_file_write_text(arena, record, af_text_get(&writing->rows), writing->err);
}

/* The site folder in the stage, where an installer's --prefix would put it. */
static const char *site_in_stage(const struct af_stage *stage)
{
    struct af_arena *arena = stage->run->arena;
    const char *prefix = af_fact_text_or(&stage->run->machine->python.prefix, NULL);
    prefix = prefix == NULL ? NULL : af_file_real_path(arena, prefix);
    if (prefix == NULL || !af_starts_with(stage->run->site, prefix))
        return stage->root;
    return af_arena_format(arena, "%s%s", stage->root, stage->run->site + strlen(prefix));
}

/* Finds the files beside the running program. */
static const struct place *find_place(struct af_arena *arena, const char *folder,
                                      const char **python_out)
{
    for (size_t i = 0; i < AF_COUNT(places); i++) {
        *python_out = af_path_join(arena, folder, places[i].python);
        if (is_package(arena, *python_out))
            return &places[i];
    }
    return NULL;
}

enum anyflash_status af_own_package_stage(struct af_stage *stage, struct anyflash_error *err)
{
    struct af_arena *arena = stage->run->arena;
    const char *program = af_file_real_path(arena, "/proc/self/exe");
    const char *folder = program == NULL ? NULL : af_path_folder(arena, program);
    const char *python = NULL;
    const struct place *place = folder == NULL ? NULL : find_place(arena, folder, &python);
    struct writing writing = {.arena = arena, .site = site_in_stage(stage), .err = err};
    if (arena->failed)
        return af_fail_memory(err);
    if (place == NULL)
        return af_fail(err, ANYFLASH_E_NOT_FOUND,
                       "the Python package of anyflash %s is not beside this program; `make "
                       "install` and the Python wheel both bring it",
                       anyflash_version_text());
    enum anyflash_status status = add_tree(&writing, python);
    if (status == ANYFLASH_OK && place->libraries != NULL)
        status = add_binaries(&writing, program, python,
                              af_path_join(arena, folder, place->libraries));
    if (status == ANYFLASH_OK)
        status = add_metadata(&writing);
    af_text_release(&writing.rows);
    return status;
}
