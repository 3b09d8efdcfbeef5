/*
 * place.c: chooses the toolkit of a build, and the paths of its folders in the cache; lists and
 * removes what builds keep there.
 */
#include "kit/compile/build_steps.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kit/base/sha256.h"
#include "kit/base/text.h"
#include "kit/compile/offer/offer.h"
#include "kit/fit/rung.h"
#include "kit/system/file.h"
#include "kit/system/output.h"
#include "kit/system/state.h"

#define KEY_DIGITS 16
#define KEPT_MAX 256
#define TITLE_BYTES_MAX 4096u
#define PATH_BYTES 4096
#define VARIABLE "ANYFLASH_CACHE"
#define NO_CACHE "no place for the cache: HOME is not set (set ANYFLASH_CACHE to a folder)"

const char *af_build_root(struct af_arena *arena)
{
    const char *cache = af_cache_folder(arena);
    return cache == NULL ? NULL : af_path_join(arena, cache, "build");
}

/*
 * Chooses the toolkit as the plan does (kit/fit/prerequisites.c): by the driver and the
 * targets. torch's CUDA does not matter: the runtime is linked into the library, and the
 * driver serves several runtimes in one process.
 */
static enum anyflash_status choose_toolkit(const struct af_build *build,
                                           struct af_build_place *place,
                                           struct anyflash_error *err)
{
    const struct af_fit_options options = {.build_targets = build->selection.archs,
                                           .build_target_count = build->selection.arch_count,
                                           .build_toolkit = build->toolkit};
    struct af_rung rung;
    enum anyflash_status status =
        af_rung_build_alone(build->machine, &options, build->arena, &rung, err);
    if (status != ANYFLASH_OK)
        return status;
    place->cuda_from_index = rung.build.toolkit_from_index;
    if (place->cuda_from_index) {
        place->cuda_version = AF_TOOLKIT_INDEX_VERSION;
        return ANYFLASH_OK;
    }
    if (rung.build.toolkit == NULL)
        return af_fail(err, ANYFLASH_E_UNSUPPORTED,
                       "no CUDA toolkit can be used: `anyflash build --check` says why");
    place->cuda_version = af_fact_text_or(&rung.build.toolkit->version, NULL);
    place->cuda_home = af_fact_text_or(&rung.build.toolkit->root, NULL);
    return ANYFLASH_OK;
}

/* nvcc starts its programs through a shell, with paths unquoted. */
static enum anyflash_status check_root(const char *root, struct anyflash_error *err)
{
    char shown[200];
    size_t len = strcspn(root, " \t\r\n:;,$&|<>()[]{}*?#!'\"`\\");
    if (root[len] == '\0')
        return ANYFLASH_OK;
    return af_fail(err, ANYFLASH_E_UNSUPPORTED,
                   "nvcc cannot compile in '%s', because the path contains '%c': set "
                   "ANYFLASH_CACHE to another folder",
                   af_text_quote(shown, sizeof shown, root, strlen(root)),
                   root[len] >= ' ' ? root[len] : ' ');
}

/* A build runs the programs of the cache, and compiles and links what is in it. */
static enum anyflash_status check_owners(struct af_arena *arena, const char *root,
                                         struct anyflash_error *err)
{
    static const char *const kept[] = {"", "sources", "tools-uv"};
    enum anyflash_status status =
        af_file_check_owners(arena, af_path_folder(arena, root), VARIABLE, err);
    for (size_t i = 0; i < AF_COUNT(kept) && status == ANYFLASH_OK; i++) {
        const char *path = af_path_join(arena, root, kept[i]);
        status = path == NULL ? af_fail_memory(err) : af_file_check_owner(path, VARIABLE, err);
    }
    return status;
}

static const struct af_compiler *compiler_of(const struct af_build *build)
{
    const struct af_compiler_rows *rows = &build->machine->compilers;
    return rows->count == 0 ? NULL : &rows->rows[0];
}

/* A hash of the glue, which is part of this program. */
static const char *glue_hash(struct af_arena *arena)
{
    char hex[AF_SHA256_HEX_BYTES];
    struct af_sha256 hash;
    af_sha256_init(&hash);
    for (const struct af_build_glue *file = af_build_glue; file->name != NULL; file++) {
        af_sha256_add(&hash, file->name, strlen(file->name) + 1);
        af_sha256_add(&hash, file->text, strlen(file->text) + 1);
    }
    af_sha256_finish(&hash, hex);
    return af_arena_text(arena, hex);
}

static const char *key_of(const struct af_build *build, const char *inputs)
{
    char hex[AF_SHA256_HEX_BYTES];
    af_sha256_bytes((struct af_span){inputs, strlen(inputs)}, hex);
    return af_arena_text_n(build->arena, hex, KEY_DIGITS);
}

/* Everything that objects depend on, one line each. */
static const char *inputs_of(const struct af_build *build, const struct af_build_place *place)
{
    const struct af_compiler *compiler = compiler_of(build);
    const char *macros[AF_SELECTION_MACROS_MAX + 1];
    const char *text = af_arena_format(
        build->arena, "flash-attn %s\nglue %s\noptions%s\ncuda %s %s\nhost %s %s\ntarget",
        build->version, glue_hash(build->arena), af_build_flags(build->arena),
        place->cuda_version, place->cuda_from_index ? "index" : place->cuda_home, place->host,
        compiler == NULL ? "?" : af_fact_text_or(&compiler->version, "?"));
    for (size_t i = 0; i < build->selection.arch_count; i++)
        text = af_arena_format(build->arena, "%s %d", text, build->selection.archs[i]);
    af_selection_macros(&build->selection, macros);
    for (size_t i = 0; macros[i] != NULL; i++)
        text = af_arena_format(build->arena, "%s\nmacro %s", text, macros[i]);
    return text;
}

static void name_paths(const struct af_build *build, const char *root,
                       struct af_build_place *place)
{
    struct af_arena *arena = build->arena;
    const char *inputs = inputs_of(build, place);
    if (inputs == NULL)
        return;
    place->folder = af_arena_format(arena, "%s/%s", root, key_of(build, inputs));
    place->sources = af_arena_format(arena, "%s/flash-attn", place->folder);
    place->glue = af_arena_format(arena, "%s/glue", place->folder);
    place->objects = af_arena_format(arena, "%s/objects", place->folder);
    place->library = af_arena_format(arena, "%s/libanyflash_cuda.so", place->folder);
    place->temporary = af_arena_format(arena, "%s/temporary", place->folder);
    place->log = af_arena_format(arena, "%s/log", place->folder);
    place->output = af_arena_format(arena, "%s/wheels", place->folder);
    if (place->cuda_from_index) {
        place->tools = af_arena_format(arena, "%s/tools-cuda-%s", root, place->cuda_version);
        place->cuda_home =
            af_arena_format(arena, "%s/toolkit/nvidia/cu%.*s", place->tools,
                            (int)strcspn(place->cuda_version, "."), place->cuda_version);
    }
    place->nvcc = af_arena_format(arena, "%s/bin/nvcc", place->cuda_home);
}

enum anyflash_status af_build_find_place(const struct af_build *build,
                                         struct af_build_place *place_out,
                                         struct anyflash_error *err)
{
    struct af_build_place place = {0};
    struct af_arena *arena = build->arena;
    const char *root = af_build_root(arena);
    const struct af_compiler *compiler = compiler_of(build);
    enum anyflash_status status = choose_toolkit(build, &place, err);
    if (status != ANYFLASH_OK)
        return status;
    if (arena->failed)
        return af_fail_memory(err);
    if (root == NULL)
        return af_fail(err, ANYFLASH_E_UNSUPPORTED, NO_CACHE);
    status = check_root(root, err);
    if (status == ANYFLASH_OK)
        status = check_owners(arena, root, err);
    if (status != ANYFLASH_OK)
        return status;
    place.host =
        compiler == NULL ? "/usr/bin/c++" : af_fact_text_or(&compiler->path, "/usr/bin/c++");
    name_paths(build, root, &place);
    if (arena->failed)
        return af_fail_memory(err);
    const char *const kept[] = {place.tools, place.sources, place.objects};
    for (size_t i = 0; i < AF_COUNT(kept) && status == ANYFLASH_OK; i++)
        if (kept[i] != NULL) /* tools: NULL with the machine's own */
            status = af_file_check_owner(kept[i], VARIABLE, err);
    if (status == ANYFLASH_OK)
        *place_out = place;
    return status;
}

/* ---- what is kept ---- */

/* Bytes on disk below a folder. */
static uint64_t bytes_below(struct af_arena *arena, const char *folder)
{
    DIR *opened = opendir(folder);
    struct dirent *entry;
    uint64_t bytes = 0;
    while (opened != NULL && (entry = readdir(opened)) != NULL) {
        struct stat info;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
            fstatat(dirfd(opened), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        const char *inner =
            S_ISDIR(info.st_mode) ? af_path_join(arena, folder, entry->d_name) : NULL;
        bytes += (uint64_t)info.st_blocks * 512;
        bytes += inner == NULL ? 0 : bytes_below(arena, inner);
    }
    if (opened != NULL)
        closedir(opened);
    return bytes;
}

int64_t af_build_kept_bytes(struct af_build *build, const struct af_build_place *place)
{
    int64_t bytes = (int64_t)bytes_below(build->arena, place->objects);
    if (af_file_is_folder(place->sources))
        bytes += AF_OFFER_BUILD_SOURCES_DISK;
    if (place->cuda_from_index && af_file_is_executable(place->nvcc))
        bytes += AF_OFFER_BUILD_TOOLKIT_DISK;
    return bytes;
}

/* The title that was written when the folder was made. */
static const char *title_of(struct af_arena *arena, const char *path, const char *name)
{
    static const char *const files[] = {"about", "complete"};
    struct af_span text, line;
    for (size_t i = 0; i < AF_COUNT(files); i++) {
        const char *file = af_path_join(arena, path, files[i]);
        if (file != NULL &&
            af_file_read(arena, file, TITLE_BYTES_MAX, &text, NULL) == ANYFLASH_OK &&
            af_text_line(&text, &line))
            return af_text_scrub(arena, af_arena_text_n(arena, line.data, line.len), 200);
    }
    return strcmp(name, "sources") == 0 ? "sources of flash-attn" : "unfinished";
}

enum anyflash_status af_build_list(struct af_arena *arena, struct af_build_kept **rows_out,
                                   size_t *count_out, struct anyflash_error *err)
{
    const char *root = af_build_root(arena);
    struct af_build_kept *rows = af_arena_array(arena, KEPT_MAX, sizeof *rows);
    struct dirent *entry;
    size_t count = 0;
    if (arena->failed)
        return af_fail_memory(err);
    if (root == NULL)
        return af_fail(err, ANYFLASH_E_NOT_FOUND, NO_CACHE);
    DIR *opened = opendir(root);
    while (opened != NULL && count < KEPT_MAX && (entry = readdir(opened)) != NULL) {
        const char *path = af_path_join(arena, root, entry->d_name);
        if (entry->d_name[0] == '.' || path == NULL || !af_file_is_folder(path))
            continue;
        rows[count++] = (struct af_build_kept){path, title_of(arena, path, entry->d_name),
                                               bytes_below(arena, path)};
    }
    if (opened != NULL)
        closedir(opened);
    if (arena->failed)
        return af_fail_memory(err);
    *rows_out = rows;
    *count_out = count;
    return ANYFLASH_OK;
}

/* Takes FOLDER.lock and, for a build, FOLDER/lock; fds are -1 if there is no lock to take. */
static bool lock_all(const char *folder, char path[PATH_BYTES], int fds[2])
{
    size_t len = strlen(folder);
    fds[1] = -1;
    memcpy(path, folder, len);
    memcpy(path + len, "/lock", sizeof "/lock");
    if (access(path, F_OK) == 0 && !af_build_try_lock(path, &fds[1]))
        return false;
    memcpy(path + len, ".lock", sizeof ".lock");
    return af_build_try_lock(path, &fds[0]);
}

enum anyflash_status af_build_remove(const struct af_build_kept *kept,
                                     struct anyflash_error *err)
{
    char path[PATH_BYTES];
    int fds[2] = {-1, -1};
    if (strlen(kept->path) + sizeof ".lock" > sizeof path)
        return af_fail(err, ANYFLASH_E_LIMIT, "a path in the cache is too long");
    bool alone = lock_all(kept->path, path, fds);
    enum anyflash_status status =
        alone ? af_folder_remove(kept->path, err)
              : af_fail(err, ANYFLASH_E_IO, "a build is using '%s'", kept->path);
    if (alone && fds[0] >= 0)
        unlink(path); /* while it is held: waiting processes check that it exists */
    for (size_t i = 0; i < 2; i++) {
        if (fds[i] >= 0)
            close(fds[i]);
    }
    return status;
}
