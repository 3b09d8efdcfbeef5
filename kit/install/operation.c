/*
 * operation.c: the order of journal entries, renames and cleaning up. Renames stay inside one
 * file system, and each is restartable. An entry with an old and a new file goes through three
 * states:
 *     site old, aside -,   fresh new     before
 *     site -,   aside old, fresh new
 *     site new, aside old, fresh -       after
 * so the places of its files show the next move in either direction. Also the digest of the
 * files that an installation moved, by which undo sees later changes, and the size of those
 * that it keeps.
 */
#include "kit/install/operation.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kit/base/sha256.h"
#include "kit/base/text.h"
#include "kit/system/file.h"
#include "kit/system/output.h"

#define PATH_BYTES 8192

/* SITE/.anyflash-<word>-<random>: a folder of ours, not created. NULL: no memory. */
static const char *own_name(struct af_arena *arena, const char *site, const char *word)
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

/* Creates the folders above `path`. */
static enum anyflash_status make_parents(char path[PATH_BYTES], struct anyflash_error *err)
{
    for (char *at = path + 1; *at != '\0'; at++) {
        if (*at != '/')
            continue;
        *at = '\0';
        bool good = mkdir(path, 0777) == 0 || errno == EEXIST;
        int number = errno;
        good = good || is_there(path);
        errno = number;
        enum anyflash_status status =
            good ? ANYFLASH_OK : af_file_fail("make the folder", path, err);
        *at = '/';
        if (status != ANYFLASH_OK)
            return status;
    }
    return ANYFLASH_OK;
}

/* Creates the folders that entries need in `aside`. */
static enum anyflash_status prepare(const struct af_operation *operation,
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
        return af_file_fail("move", from, err);
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

/* Moves old entries aside and new ones into place. */
static enum anyflash_status move_forward(const struct af_operation *operation,
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

/* Moves everything back, as if move_forward() had never been called. */
static enum anyflash_status move_back(const struct af_operation *operation,
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

/* Flushes the file system of `folder` to disk. */
static void flush(const char *folder)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return;
    syncfs(fd);
    close(fd);
}

/* Paths that are still to be visited: a stack instead of recursion. */
struct walk {
    struct af_arena *arena;
    struct af_file_names paths;
};

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
        if (strcmp(names[i], "__pycache__") != 0)
            af_file_names_add(&walk->paths, af_path_join(walk->arena, shown, names[i]));
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

enum anyflash_status af_operation_fingerprint(const struct af_operation *operation,
                                              struct af_arena *arena, const char **hex_out,
                                              struct anyflash_error *err)
{
    struct walk walk = {.arena = arena};
    struct af_sha256 hash;
    char hex[AF_SHA256_HEX_BYTES];
    enum anyflash_status status = ANYFLASH_OK;
    af_sha256_init(&hash);
    for (size_t i = 0; i < operation->entry_count && status == ANYFLASH_OK; i++) {
        af_file_names_add(&walk.paths, operation->entries[i].path);
        while (status == ANYFLASH_OK && walk.paths.count > 0)
            status = digest_one(&walk, operation->site, walk.paths.items[--walk.paths.count],
                                &hash, err);
    }
    af_memory_free(walk.paths.items);
    af_sha256_finish(&hash, hex);
    if (status == ANYFLASH_OK)
        *hex_out = af_arena_text(arena, hex);
    return status;
}

uint64_t af_undo_bytes(const struct af_operation *operation, struct af_arena *arena)
{
    struct walk walk = {.arena = arena};
    uint64_t bytes = 0;
    af_file_names_add(&walk.paths, operation->aside_root);
    while (walk.paths.count > 0) {
        const char *path = walk.paths.items[--walk.paths.count];
        const char **names;
        size_t count = 0;
        struct stat facts;
        if (lstat(path, &facts) != 0)
            continue;
        bytes += (uint64_t)facts.st_blocks * 512;
        if (!S_ISDIR(facts.st_mode) || af_folder_list(arena, path, AF_ENTRIES_MAX, &names,
                                                      &count, NULL, NULL) != ANYFLASH_OK)
            continue;
        for (size_t i = 0; i < count; i++)
            af_file_names_add(&walk.paths, af_path_join(arena, path, names[i]));
    }
    af_memory_free(walk.paths.items);
    return bytes;
}

static enum anyflash_status make_root(const char *root, mode_t mode, struct anyflash_error *err)
{
    if (mkdir(root, mode) != 0)
        return af_file_fail("create the folder", root, err);
    af_install_step_hook();
    return ANYFLASH_OK;
}

enum anyflash_status af_operation_begin(struct af_run *run, struct af_operation *operation,
                                        struct anyflash_error *err)
{
    operation->site = run->site;
    operation->aside_root = own_name(run->arena, run->site,
                                     operation->kind == AF_OPERATION_UNDO ? "dropped" : "old");
    if (operation->kind != AF_OPERATION_UNDO)
        operation->fresh_root = own_name(run->arena, run->site, "new");
    enum anyflash_status status = af_journal_begin(run->state, operation, run->arena, err);
    if (status == ANYFLASH_OK)
        status = make_root(operation->aside_root, 0755, err);
    if (status == ANYFLASH_OK && operation->kind != AF_OPERATION_UNDO)
        status = make_root(operation->fresh_root, 0700, err);
    return status;
}

enum anyflash_status af_operation_move(struct af_run *run, struct af_operation *operation,
                                       enum anyflash_status (*look)(void *context,
                                                                    struct anyflash_error *err),
                                       void *context, struct anyflash_error *err)
{
    enum anyflash_status status = prepare(operation, err);
    if (status != ANYFLASH_OK)
        return status;
    flush(run->site); /* all files must be on disk before they are moved into place */
    status = af_journal_write(run->state, operation, AF_PHASE_MOVING, err);
    if (status != ANYFLASH_OK)
        return status;
    status = move_forward(operation, err);
    if (status == ANYFLASH_OK && look != NULL)
        status = look(context, err);
    if (status == ANYFLASH_OK)
        status = af_operation_fingerprint(operation, run->arena, &operation->fingerprint, err);
    if (status != ANYFLASH_OK)
        return status;
    flush(run->site);
    return af_journal_phase(run->state, operation, AF_PHASE_COMMITTED, err);
}

/* Removes a folder of ours and everything in it. */
static enum anyflash_status remove_root(const char *root, struct anyflash_error *err)
{
    bool gone = root == NULL || !is_there(root) ||
                (af_starts_with(af_path_name(root), AF_OWN_PREFIX) &&
                 af_folder_remove(root, NULL) == ANYFLASH_OK);
    af_install_step_hook();
    return gone ? ANYFLASH_OK : af_fail(err, ANYFLASH_E_IO, "cannot remove all of '%s'", root);
}

/* Rolls back. An abandoned undo keeps the files that it was to restore. */
static enum anyflash_status abandon(struct af_state *state, struct af_operation *operation,
                                    struct anyflash_error *err)
{
    enum anyflash_status status = ANYFLASH_OK;
    if (operation->phase == AF_PHASE_MOVING) {
        status = move_back(operation, err);
        flush(operation->site);
    }
    if (status == ANYFLASH_OK && operation->kind != AF_OPERATION_UNDO)
        status = remove_root(operation->fresh_root, err);
    if (status == ANYFLASH_OK)
        status = remove_root(operation->aside_root, err);
    if (status == ANYFLASH_OK)
        status = af_journal_phase(state, operation, AF_PHASE_GONE, err);
    return status;
}

/*
 * Completes a committed operation: an installation keeps the files that it moved aside, an undo
 * removes them.
 */
static enum anyflash_status complete(struct af_state *state, struct af_operation *operation,
                                     struct anyflash_error *err)
{
    bool undo = operation->kind == AF_OPERATION_UNDO;
    enum anyflash_status status = remove_root(operation->fresh_root, err);
    if (status == ANYFLASH_OK && undo)
        status = remove_root(operation->aside_root, err);
    if (status == ANYFLASH_OK)
        status = af_journal_phase(state, operation, undo ? AF_PHASE_GONE : AF_PHASE_DONE, err);
    return status;
}

enum anyflash_status af_operation_end(struct af_state *state, struct af_operation *operation,
                                      struct anyflash_error *err)
{
    if (operation->phase < AF_PHASE_COMMITTED)
        return abandon(state, operation, err);
    if (operation->phase == AF_PHASE_COMMITTED)
        return complete(state, operation, err);
    return ANYFLASH_OK;
}

void af_operation_finish(struct af_run *run, struct af_operation *operation)
{
    struct anyflash_error err;
    if (operation->id != 0 && af_operation_end(run->state, operation, &err) != ANYFLASH_OK)
        af_progress_message(&run->progress, "the next run will finish the cleanup: %s",
                            err.message);
}
