/*
 * clean.c: lists and removes what builds keep in the cache.
 */
#include "kit/compile/build_steps.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kit/base/text.h"
#include "kit/system/file.h"
#include "kit/system/output.h"

#define KEPT_MAX 256
#define TITLE_BYTES_MAX 4096u
#define FOLDERS_MAX 200000
#define PATH_BYTES 4096

/* Bytes on disk below a folder. `waiting` has space for FOLDERS_MAX folders to visit. */
static uint64_t bytes_below(struct af_arena *arena, const char *root, const char **waiting)
{
    size_t count = 0;
    uint64_t bytes = 0;
    waiting[count++] = root;
    while (count > 0 && !arena->failed) {
        const char *folder = waiting[--count];
        DIR *opened = opendir(folder);
        struct dirent *entry;
        while (opened != NULL && (entry = readdir(opened)) != NULL) {
            struct stat info;
            if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
                fstatat(dirfd(opened), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0)
                continue;
            bytes += (uint64_t)info.st_blocks * 512;
            const char *inner = S_ISDIR(info.st_mode) && count < FOLDERS_MAX
                                    ? af_path_join(arena, folder, entry->d_name)
                                    : NULL;
            if (inner != NULL)
                waiting[count++] = inner;
        }
        if (opened != NULL)
            closedir(opened);
    }
    return bytes;
}

/* The title that was written when the folder was made. */
static const char *title_of(struct af_arena *arena, const char *path, const char *name)
{
    struct af_span text;
    struct af_span line;
    const char *about = af_path_join(arena, path, "about");
    const char *complete = af_path_join(arena, path, "complete");
    if ((about != NULL &&
         af_file_read(arena, about, TITLE_BYTES_MAX, &text, NULL) == ANYFLASH_OK) ||
        (complete != NULL &&
         af_file_read(arena, complete, TITLE_BYTES_MAX, &text, NULL) == ANYFLASH_OK)) {
        if (af_text_line(&text, &line))
            return af_text_scrub(arena, af_arena_text_n(arena, line.data, line.len), 200);
    }
    return strcmp(name, "sources") == 0 ? "sources of flash-attn" : "unfinished";
}

enum anyflash_status af_build_list(struct af_arena *arena, struct af_build_kept **rows_out,
                                   size_t *count_out, struct anyflash_error *err)
{
    const char *root = af_build_root(arena);
    struct af_build_kept *rows = af_arena_array(arena, KEPT_MAX, sizeof *rows);
    const char **waiting = af_arena_array(arena, FOLDERS_MAX, sizeof *waiting);
    DIR *opened = root == NULL ? NULL : opendir(root);
    struct dirent *entry;
    size_t count = 0;
    if (root == NULL || arena->failed) {
        if (opened != NULL)
            closedir(opened);
        return arena->failed ? af_fail_memory(err)
                             : af_fail(err, ANYFLASH_E_NOT_FOUND,
                                       "no place for the cache: HOME is not set (set "
                                       "ANYFLASH_CACHE to a folder)");
    }
    while (opened != NULL && count < KEPT_MAX && (entry = readdir(opened)) != NULL) {
        const char *path = af_path_join(arena, root, entry->d_name);
        if (entry->d_name[0] == '.' || path == NULL || !af_file_is_folder(path))
            continue;
        rows[count++] = (struct af_build_kept){path, title_of(arena, path, entry->d_name),
                                               bytes_below(arena, path, waiting)};
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
