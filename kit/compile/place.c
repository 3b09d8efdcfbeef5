/*
 * place.c: the folders of a build in the cache; lists and removes what builds keep there.
 */
#include "kit/compile/build_steps.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kit/base/sha256.h"
#include "kit/base/text.h"
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

/* A build runs the programs of the cache, and compiles and links what is in it. */
static enum anyflash_status check_owners(struct af_arena *arena, const char *root,
                                         struct anyflash_error *err)
{
    static const char *const kept[] = {"", "sources", "tools-uv"};
    enum anyflash_status status =
        af_file_check_owners(arena, af_path_folder(arena, root), VARIABLE, err);
    for (size_t i = 0; i < AF_COUNT(kept) && status == ANYFLASH_OK; i++)
        status = af_file_check_owner(af_path_join(arena, root, kept[i]), VARIABLE, err);
    return status;
}

/* What is kept depends on the release and on the scripts, which are part of this program. */
static const char *key_of(const struct af_build *build)
{
    char hex[AF_SHA256_HEX_BYTES];
    struct af_sha256 hash;
    af_sha256_init(&hash);
    af_sha256_add(&hash, build->version, strlen(build->version) + 1);
    for (const struct af_build_file *file = af_build_files; file->name != NULL; file++) {
        af_sha256_add(&hash, file->name, strlen(file->name) + 1);
        af_sha256_add(&hash, file->bytes, file->size);
    }
    af_sha256_finish(&hash, hex);
    return af_arena_text_n(build->arena, hex, KEY_DIGITS);
}

enum anyflash_status af_build_find_place(const struct af_build *build,
                                         struct af_build_place *place_out,
                                         struct anyflash_error *err)
{
    struct af_build_place place = {0};
    struct af_arena *arena = build->arena;
    const char *root = af_build_root(arena);
    const char *key = key_of(build);
    if (root == NULL)
        return af_fail(err, ANYFLASH_E_UNSUPPORTED, NO_CACHE);
    enum anyflash_status status = check_owners(arena, root, err);
    if (status != ANYFLASH_OK)
        return status;
    place.folder = af_arena_format(arena, "%s/%s", root, key);
    place.scripts = af_arena_format(arena, "%s/scripts", place.folder);
    place.sources = af_arena_format(arena, "%s/flash-attn", place.folder);
    place.work = af_arena_format(arena, "%s/ptx", place.folder);
    place.packs = af_arena_format(arena, "%s/packs", place.folder);
    place.log = af_arena_format(arena, "%s/log", place.folder);
    place.output = af_arena_format(arena, "%s/wheels", place.folder);
    place.tools = af_arena_format(arena, "%s/tools-nvrtc", root);
    place.cccl = af_arena_format(arena, "%s/tools-cccl", root);
    const char *const kept[] = {place.tools,   place.cccl,    place.folder,
                                place.scripts, place.sources, place.work};
    for (size_t i = 0; i < AF_COUNT(kept) && status == ANYFLASH_OK; i++)
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
        bytes += (uint64_t)info.st_blocks * 512;
        if (S_ISDIR(info.st_mode))
            bytes += bytes_below(arena, af_path_join(arena, folder, entry->d_name));
    }
    if (opened != NULL)
        closedir(opened);
    return bytes;
}

/* The title that was written when the folder was made. */
static const char *title_of(struct af_arena *arena, const char *path, const char *name)
{
    static const char *const files[] = {"about", "complete"};
    struct af_span text, line;
    for (size_t i = 0; i < AF_COUNT(files); i++) {
        const char *file = af_path_join(arena, path, files[i]);
        if (af_file_read(arena, file, TITLE_BYTES_MAX, &text, NULL) == ANYFLASH_OK &&
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
    if (root == NULL)
        return af_fail(err, ANYFLASH_E_NOT_FOUND, NO_CACHE);
    DIR *opened = opendir(root);
    while (opened != NULL && count < KEPT_MAX && (entry = readdir(opened)) != NULL) {
        const char *path = af_path_join(arena, root, entry->d_name);
        if (entry->d_name[0] == '.' || !af_file_is_folder(path))
            continue;
        rows[count++] = (struct af_build_kept){path, title_of(arena, path, entry->d_name),
                                               bytes_below(arena, path)};
    }
    if (opened != NULL)
        closedir(opened);
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
