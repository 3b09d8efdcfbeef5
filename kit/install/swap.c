/*
 * swap.c: renames inside one file system, each restartable.
 *
 * An entry with an old and a new file goes through three states:
 *     site old, aside -,   fresh new     before
 *     site -,   aside old, fresh new
 *     site new, aside old, fresh -       after
 * so the places of its files show the next move in either direction.
 */
#include "kit/install/swap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kit/base/sha256.h"
#include "kit/base/text.h"
#include "kit/install/journal.h"
#include "kit/system/file.h"
#include "kit/system/output.h"

#define PATH_BYTES 8192

const char *af_swap_name(struct af_arena *arena, const char *site, const char *word)
{
    uint32_t number = 0;
    if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number)
        number = (uint32_t)getpid();
    return af_arena_format(arena, "%s/" AF_OWN_PREFIX "%s-%08x", site, word, number);
}

static bool join(char path[PATH_BYTES], const char *folder, const char *name)
{
    int len = snprintf(path, PATH_BYTES, "%s/%s", folder, name);
    return len > 0 && len < PATH_BYTES;
}

static bool is_there(const char *path)
{
    struct stat facts;
    return lstat(path, &facts) == 0;
}

static enum anyflash_status fail_entry(const char *what, const char *path,
                                       struct anyflash_error *err)
{
    char shown[240];
    int number = errno;
    return af_fail(err, ANYFLASH_E_IO, "cannot %s '%s': %s", what,
                   af_text_quote(shown, sizeof shown, path, strlen(path)), strerror(number));
}

/* Creates the folders above `path`. */
static enum anyflash_status make_parents(char path[PATH_BYTES], struct anyflash_error *err)
{
    for (char *at = path + 1; *at != '\0'; at++) {
        if (*at != '/')
            continue;
        *at = '\0';
        bool good = mkdir(path, 0777) == 0 || errno == EEXIST || is_there(path);
        enum anyflash_status status =
            good ? ANYFLASH_OK : fail_entry("make the folder", path, err);
        *at = '/';
        if (status != ANYFLASH_OK)
            return status;
    }
    return ANYFLASH_OK;
}

enum anyflash_status af_swap_prepare(const struct af_operation *operation,
                                     struct anyflash_error *err)
{
    char path[PATH_BYTES];
    for (size_t i = 0; i < operation->entry_count; i++) {
        const struct af_entry *entry = &operation->entries[i];
        enum anyflash_status status = ANYFLASH_OK;
        if (!join(path, operation->aside, entry->path))
            return af_fail(err, ANYFLASH_E_LIMIT, "a path is too long");
        if (entry->has_old)
            status = make_parents(path, err);
        if (status != ANYFLASH_OK)
            return status;
    }
    return ANYFLASH_OK;
}

static enum anyflash_status move(const char *from, const char *to, struct anyflash_error *err)
{
    if (rename(from, to) != 0) {
        if (errno == EXDEV)
            return af_fail(err, ANYFLASH_E_IO,
                           "'%s' and '%s' are on different file systems, so files cannot be "
                           "replaced atomically",
                           from, to);
        return fail_entry("move", from, err);
    }
    af_install_step_hook();
    return ANYFLASH_OK;
}

/* The three paths of an entry. */
struct places {
    char site[PATH_BYTES];
    char aside[PATH_BYTES];
    char fresh[PATH_BYTES];
};

static enum anyflash_status find_places(const struct af_operation *operation,
                                        const struct af_entry *entry, struct places *places,
                                        struct anyflash_error *err)
{
    if (!join(places->site, operation->site, entry->path) ||
        !join(places->aside, operation->aside, entry->path) ||
        !join(places->fresh, operation->fresh, entry->path))
        return af_fail(err, ANYFLASH_E_LIMIT, "a path is too long");
    return ANYFLASH_OK;
}

enum anyflash_status af_swap_forward(const struct af_operation *operation,
                                     struct anyflash_error *err)
{
    struct places places;
    for (size_t i = 0; i < operation->entry_count; i++) {
        const struct af_entry *entry = &operation->entries[i];
        enum anyflash_status status = find_places(operation, entry, &places, err);
        if (status == ANYFLASH_OK && entry->has_old && !is_there(places.aside))
            status = move(places.site, places.aside, err);
        if (status == ANYFLASH_OK && entry->has_new && is_there(places.fresh))
            status = move(places.fresh, places.site, err);
        if (status != ANYFLASH_OK)
            return status;
    }
    return ANYFLASH_OK;
}

enum anyflash_status af_swap_back(const struct af_operation *operation,
                                  struct anyflash_error *err)
{
    struct places places;
    for (size_t i = operation->entry_count; i-- > 0;) {
        const struct af_entry *entry = &operation->entries[i];
        enum anyflash_status status = find_places(operation, entry, &places, err);
        bool moved = status == ANYFLASH_OK && (!entry->has_old || is_there(places.aside));
        if (moved && entry->has_new && !is_there(places.fresh) && is_there(places.site))
            status = move(places.site, places.fresh, err);
        if (moved && status == ANYFLASH_OK && entry->has_old)
            status = move(places.aside, places.site, err);
        if (status != ANYFLASH_OK)
            return status;
    }
    return ANYFLASH_OK;
}

void af_swap_flush(const char *folder)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return;
    syncfs(fd);
    close(fd);
}

bool af_swap_remove(const char *root)
{
    if (root == NULL || !is_there(root))
        return true;
    return af_starts_with(af_path_name(root), AF_OWN_PREFIX) &&
           af_folder_remove(root, NULL) == ANYFLASH_OK;
}

/* Names of one level that are still to be visited: a stack instead of recursion. */
struct walk {
    struct af_arena *arena;
    const char **paths;
    size_t count;
    size_t capacity;
};

static bool push(struct walk *walk, const char *path)
{
    if (walk->count == walk->capacity) {
        size_t capacity = walk->capacity == 0 ? 256 : walk->capacity * 2;
        const char **larger = af_mem_resize(walk->paths, capacity * sizeof *larger);
        if (larger == NULL)
            return false;
        walk->paths = larger;
        walk->capacity = capacity;
    }
    walk->paths[walk->count++] = path;
    return path != NULL;
}

/*
 * Pushes all names in a folder except Python's caches, the last name first, so that the first
 * one is visited next.
 */
static enum anyflash_status push_folder(struct walk *walk, const char *folder,
                                        const char *shown, struct anyflash_error *err)
{
    const char **names;
    size_t count;
    enum anyflash_status status =
        af_folder_list(walk->arena, folder, AF_ENTRIES_MAX, &names, &count, NULL, err);
    if (status != ANYFLASH_OK)
        return status;
    for (size_t i = count; i-- > 0;) {
        if (strcmp(names[i], "__pycache__") == 0)
            continue;
        if (!push(walk, af_path_join(walk->arena, shown, names[i])))
            return af_fail_memory(err);
    }
    return ANYFLASH_OK;
}

static enum anyflash_status digest_one(struct walk *walk, const char *site, const char *path,
                                       struct af_sha256 *hash, struct anyflash_error *err)
{
    char full[PATH_BYTES];
    char line[256];
    struct stat facts;
    if (!join(full, site, path))
        return af_fail(err, ANYFLASH_E_LIMIT, "a path is too long");
    af_sha256_add(hash, path, strlen(path) + 1);
    if (lstat(full, &facts) != 0) {
        af_sha256_add(hash, "absent", 7);
        return ANYFLASH_OK;
    }
    bool folder = S_ISDIR(facts.st_mode);
    int len = folder ? snprintf(line, sizeof line, "folder %o", (unsigned)facts.st_mode)
                     : snprintf(line, sizeof line, "file %o %jd %jd.%ld",
                                (unsigned)facts.st_mode, (intmax_t)facts.st_size,
                                (intmax_t)facts.st_mtim.tv_sec, facts.st_mtim.tv_nsec);
    af_sha256_add(hash, line, (size_t)len + 1);
    if (S_ISLNK(facts.st_mode)) {
        const char *text = af_file_link_text(walk->arena, full);
        af_sha256_add(hash, text == NULL ? "" : text, text == NULL ? 0 : strlen(text));
    }
    return folder ? push_folder(walk, full, path, err) : ANYFLASH_OK;
}

enum anyflash_status af_swap_fingerprint(const struct af_operation *operation,
                                         struct af_arena *arena, const char **hex_out,
                                         struct anyflash_error *err)
{
    struct walk walk = {.arena = arena};
    struct af_sha256 hash;
    char hex[AF_SHA256_HEX_BYTES];
    enum anyflash_status status = ANYFLASH_OK;
    af_sha256_init(&hash);
    for (size_t i = 0; i < operation->entry_count && status == ANYFLASH_OK; i++) {
        if (!push(&walk, operation->entries[i].path))
            status = af_fail_memory(err);
        while (status == ANYFLASH_OK && walk.count > 0)
            status = digest_one(&walk, operation->site, walk.paths[--walk.count], &hash, err);
    }
    af_mem_free(walk.paths);
    af_sha256_finish(&hash, hex);
    if (status == ANYFLASH_OK) {
        *hex_out = af_arena_text(arena, hex);
        if (*hex_out == NULL)
            status = af_fail_memory(err);
    }
    return status;
}

uint64_t af_swap_bytes(const char *root, struct af_arena *arena)
{
    struct walk walk = {.arena = arena};
    uint64_t bytes = 0;
    bool good = push(&walk, root);
    while (good && walk.count > 0) {
        const char *path = walk.paths[--walk.count];
        const char **names;
        size_t count = 0;
        struct stat facts;
        if (lstat(path, &facts) != 0)
            continue;
        bytes += (uint64_t)facts.st_blocks * 512;
        if (!S_ISDIR(facts.st_mode) || af_folder_list(arena, path, AF_ENTRIES_MAX, &names,
                                                      &count, NULL, NULL) != ANYFLASH_OK)
            continue;
        for (size_t i = 0; good && i < count; i++)
            good = push(&walk, af_path_join(arena, path, names[i]));
    }
    af_mem_free(walk.paths);
    return bytes;
}
