/* undo.c: undoes an installation, and cleans up after killed processes. */
#include <string.h>

#include "kit/base/text.h"
#include "kit/install/install.h"
#include "kit/install/operation.h"
#include "kit/system/file.h"
#include "kit/system/lock.h"

#define WHEEL_BYTES_MAX 4096

/* Finds the installation `id` among those that are DONE, newest first; 0: the first. */
static struct af_operation *find_id(struct af_operation *list, size_t count, int64_t id)
{
    for (size_t i = 0; i < count; i++)
        if (id == 0 || list[i].id == id)
            return &list[i];
    return NULL;
}

/* A path that both `entry` and an entry of `later` change, or NULL. */
static bool overlap(const struct af_entry *entry, const struct af_operation *later)
{
    for (size_t i = 0; i < later->entry_count; i++) {
        const char *a = entry->path;
        const char *b = later->entries[i].path;
        size_t shorter = strlen(a) < strlen(b) ? strlen(a) : strlen(b);
        if (strncmp(a, b, shorter) == 0 && (a[shorter] == '\0' || a[shorter] == '/') &&
            (b[shorter] == '\0' || b[shorter] == '/'))
            return true;
    }
    return false;
}

/* Refuses if a later installation changed the same files: it must be undone first. */
static enum anyflash_status check_later(struct af_run *run, struct af_operation *list,
                                        const struct af_operation *chosen,
                                        struct af_install_result *done,
                                        struct anyflash_error *err)
{
    for (struct af_operation *later = list; later < chosen; later++) {
        enum anyflash_status status = af_journal_entries(run->state, later, run->arena, err);
        if (status != ANYFLASH_OK)
            return status;
        for (size_t i = 0; i < chosen->entry_count; i++) {
            if (!overlap(&chosen->entries[i], later))
                continue;
            done->answer = AF_NO;
            done->reason = af_arena_format(
                run->arena, "the later installation %jd (%s) changed the same files",
                (intmax_t)later->id, later->title);
            const char *id = af_arena_format(run->arena, "%jd", (intmax_t)later->id);
            done->hint = af_arena_format(run->arena, "undo the later installation first: `%s`",
                                         af_run_command(run, "undo", id));
            return ANYFLASH_OK;
        }
    }
    return ANYFLASH_OK;
}

/* The installed files must be unchanged, and the old files still there. */
static enum anyflash_status check_files(struct af_run *run, const struct af_operation *chosen,
                                        bool force, struct af_install_result *done,
                                        struct anyflash_error *err)
{
    const char *now;
    enum anyflash_status status = af_operation_fingerprint(chosen, run->arena, &now, err);
    if (status != ANYFLASH_OK)
        return status;
    for (size_t i = 0; i < chosen->entry_count; i++) {
        const char *old =
            af_arena_format(run->arena, "%s/%s", chosen->aside, chosen->entries[i].path);
        if (chosen->entries[i].has_old && af_file_is_absent(old))
            return af_fail(err, ANYFLASH_E_NOT_FOUND,
                           "the files kept for undo are missing: '%s'", old);
    }
    if (force || af_equal(now, chosen->fingerprint))
        return ANYFLASH_OK;
    done->answer = AF_NO;
    done->reason = af_arena_format(
        run->arena, "files of '%s' changed since they were installed", chosen->title);
    done->hint = "--force undoes it anyway and deletes the current files";
    return ANYFLASH_OK;
}

/* The folder that will have `path` after the undo, or has it kept for that; NULL: none. */
static const char *root_after(const struct af_run *run, const struct af_operation *chosen,
                              const char *path)
{
    const char *root = run->site;
    for (size_t i = 0; i < chosen->entry_count; i++) {
        const struct af_entry *entry = &chosen->entries[i];
        size_t len = strlen(entry->path);
        if (strncmp(path, entry->path, len) == 0 && (path[len] == '\0' || path[len] == '/'))
            root = entry->has_old ? chosen->aside : NULL;
    }
    if (root != NULL && af_file_is_absent(af_path_join(run->arena, root, path)))
        return NULL;
    return root;
}

/* Whether `root` has, as `flash_attn`, a stand-in of ours; after the undo, or now. */
static bool has_stand_in(const struct af_run *run, const struct af_operation *undone,
                         const char *root)
{
    struct af_distribution *list;
    size_t count = 0;
    if (af_distributions_list(run->arena, root, &list, &count, NULL) != ANYFLASH_OK)
        return false;
    for (size_t i = 0; i < count; i++) {
        struct af_span text;
        const char *wheel = af_path_join(run->arena, list[i].folder, "WHEEL");
        const char *path = af_path_join(run->arena, root, wheel);
        if (af_equal(list[i].name, "flash-attn") &&
            (undone == NULL || af_equal(root_after(run, undone, wheel), root)) &&
            af_file_read(run->arena, path, WHEEL_BYTES_MAX, &text, NULL) == ANYFLASH_OK &&
            strstr(text.data, "Generator: anyflash ") != NULL)
            return true;
    }
    return false;
}

/* A stand-in for flash-attn must not stay, or come back, without anyflash's package. */
static void check_stand_in(const struct af_run *run, const struct af_operation *chosen,
                           struct af_install_result *done)
{
    static const char package[] = "anyflash/__init__.py";
    bool has_package = !af_file_is_absent(af_path_join(run->arena, run->site, package));
    if (root_after(run, chosen, package) != NULL ||
        (!has_stand_in(run, chosen, run->site) && !has_stand_in(run, chosen, chosen->aside)) ||
        (!has_package && has_stand_in(run, NULL, run->site)))
        return;
    done->answer = AF_NO;
    done->reason = has_package
                       ? "anyflash's stand-in for flash-attn is installed here and needs "
                         "the package anyflash"
                       : "anyflash's stand-in for flash-attn would come back, and the "
                         "package anyflash that it needs is gone";
    done->hint = has_package ? af_arena_format(run->arena, "remove the stand-in first: `%s`",
                                               af_run_command(run, "shim", "remove"))
                             : af_arena_format(run->arena, "install the package first: `%s`",
                                               af_run_command(run, "package", "install"));
}

/*
 * Makes the same entries in the other direction: the files that were moved aside are the new
 * ones now.
 */
static void make_entries(struct af_run *run, const struct af_operation *chosen,
                         struct af_operation *operation)
{
    struct af_entry *entries =
        af_arena_array(run->arena, chosen->entry_count + 1, sizeof *entries);
    for (size_t i = 0; i < chosen->entry_count; i++) {
        const struct af_entry *entry = &chosen->entries[i];
        const char *path = af_arena_format(run->arena, "%s/%s", run->site, entry->path);
        entries[i] = (struct af_entry){entry->path, !af_file_is_absent(path), entry->has_old};
    }
    operation->fresh_root = chosen->aside_root;
    operation->fresh = chosen->aside;
    operation->entries = entries;
    operation->entry_count = chosen->entry_count;
}

static enum anyflash_status take_back(struct af_run *run, const struct af_operation *chosen,
                                      struct af_install_result *done,
                                      struct anyflash_error *err)
{
    struct af_operation operation = {
        .kind = AF_OPERATION_UNDO,
        .undoes = chosen->id,
        .title = af_arena_format(run->arena, "undo of %s", chosen->title),
    };
    make_entries(run, chosen, &operation);
    enum anyflash_status status = af_operation_begin(run, &operation, err);
    if (status == ANYFLASH_OK) {
        operation.aside = af_arena_format(run->arena, "%s%s", operation.aside_root,
                                          chosen->aside + strlen(chosen->aside_root));
        status = af_operation_move(run, &operation, NULL, NULL, err);
    }
    af_operation_finish(run, &operation);
    if (status == ANYFLASH_OK)
        *done = (struct af_install_result){
            .answer = AF_YES, .title = chosen->title, .changed = true, .id = chosen->id};
    return status;
}

enum anyflash_status af_undo(struct af_run *run, int64_t id, bool force,
                             struct af_install_result *done, struct anyflash_error *err)
{
    struct af_operation *list;
    size_t count;
    *done = (struct af_install_result){.answer = AF_YES};
    enum anyflash_status status = af_journal_list(run->state, AF_PHASE_DONE, AF_PHASE_DONE,
                                                  run->site, run->arena, &list, &count, err);
    if (status != ANYFLASH_OK)
        return status;
    struct af_operation *chosen = find_id(list, count, id);
    if (chosen == NULL) {
        done->answer = AF_NO;
        done->reason = id == 0 ? "no installation in this environment can be undone"
                               : "no installation of this environment has that number";
        done->hint = id == 0 ? "what `anyflash config --write` changed is not an installation: "
                               "`git restore -p pyproject.toml` takes it back"
                             : NULL;
        return ANYFLASH_OK;
    }
    status = af_journal_entries(run->state, chosen, run->arena, err);
    if (status == ANYFLASH_OK)
        status = check_later(run, list, chosen, done, err);
    if (status == ANYFLASH_OK && done->answer == AF_YES)
        status = check_files(run, chosen, force, done, err);
    if (status == ANYFLASH_OK && done->answer == AF_YES)
        check_stand_in(run, chosen, done);
    if (status == ANYFLASH_OK && done->answer == AF_YES)
        status = take_back(run, chosen, done, err);
    return status;
}

/*
 * Runs an undo that moves nothing. From its first record in the journal on it owns the old
 * files; once it is committed they are removed, even if this process is killed.
 */
static enum anyflash_status forget_one(struct af_run *run, const struct af_operation *chosen,
                                       struct anyflash_error *err)
{
    struct af_operation operation = {
        .kind = AF_OPERATION_UNDO,
        .undoes = chosen->id,
        .title = af_arena_format(run->arena, "discarding the old files of %s", chosen->title),
        .fresh_root = chosen->aside_root,
    };
    enum anyflash_status status = af_operation_begin(run, &operation, err);
    if (status == ANYFLASH_OK)
        status = af_journal_phase(run->state, &operation, AF_PHASE_COMMITTED, err);
    af_operation_finish(run, &operation);
    return status;
}

enum anyflash_status af_forget(struct af_run *run, int64_t id, struct af_install_result *done,
                               struct anyflash_error *err)
{
    struct af_operation *list;
    size_t count;
    int64_t forgotten = 0;
    *done = (struct af_install_result){.answer = AF_YES};
    enum anyflash_status status = af_journal_list(run->state, AF_PHASE_DONE, AF_PHASE_DONE,
                                                  run->site, run->arena, &list, &count, err);
    for (size_t i = 0; status == ANYFLASH_OK && i < count; i++) {
        if (id != 0 && list[i].id != id)
            continue;
        status = forget_one(run, &list[i], err);
        forgotten++;
        done->title = list[i].title;
    }
    done->id = forgotten;
    done->changed = forgotten > 0;
    if (status == ANYFLASH_OK && forgotten == 0) {
        done->answer = AF_NO;
        done->reason = id == 0 ? "this environment has no backup files"
                               : "no installation of this environment has that number";
    }
    return status;
}

enum anyflash_status af_recover_list(struct af_state *state, struct af_arena *arena,
                                     struct af_operation **list_out, size_t *count_out,
                                     struct anyflash_error *err)
{
    struct af_operation *list = NULL;
    size_t count = 0;
    *count_out = 0;
    *list_out = NULL;
    if (state == NULL)
        return ANYFLASH_OK;
    enum anyflash_status status = af_journal_list(state, AF_PHASE_PREPARING, AF_PHASE_COMMITTED,
                                                  NULL, arena, &list, &count, err);
    if (status != ANYFLASH_OK)
        return status;
    for (size_t i = 0; i < count; i++)
        if (!af_lock_is_held(list[i].site, arena))
            list[(*count_out)++] = list[i];
    *list_out = list;
    return ANYFLASH_OK;
}

/* Cleans up one operation of a process that no longer runs: its lock was free. */
static enum anyflash_status recover_one(struct af_state *state, struct af_operation *operation,
                                        struct af_arena *arena,
                                        const struct af_progress *progress,
                                        struct anyflash_error *err)
{
    bool back = operation->phase < AF_PHASE_COMMITTED;
    if (!af_file_is_folder(operation->site)) {
        af_progress_message(
            progress,
            "an unfinished '%s' cannot be repaired: its environment '%s' no longer exists",
            operation->title, operation->site);
        return af_journal_phase(state, operation, AF_PHASE_GONE, err);
    }
    if (back && operation->kind == AF_OPERATION_OBSERVED)
        return af_observed_recover(state, operation, arena, progress, err);
    enum anyflash_status status = ANYFLASH_OK;
    if (operation->phase == AF_PHASE_MOVING)
        status = af_journal_entries(state, operation, arena, err);
    if (status == ANYFLASH_OK)
        status = af_operation_end(state, operation, err);
    if (status == ANYFLASH_OK)
        af_progress_message(
            progress,
            back ? "'%s' was interrupted: its changes were rolled back"
                 : "'%s' was interrupted after it had finished: leftovers were removed",
            operation->title);
    return status;
}

enum anyflash_status af_recover_held(struct af_state *state, const char *site,
                                     const struct af_progress *progress,
                                     struct anyflash_error *err)
{
    struct af_arena arena;
    struct af_operation *list;
    size_t count = 0;
    af_arena_init(&arena);
    enum anyflash_status status = af_journal_list(state, AF_PHASE_PREPARING, AF_PHASE_COMMITTED,
                                                  site, &arena, &list, &count, err);
    for (size_t i = 0; status == ANYFLASH_OK && i < count; i++)
        status = recover_one(state, &list[i], &arena, progress, err);
    af_arena_release(&arena);
    return status;
}

/* Recovers an environment that has unfinished operations, unless a process is changing it. */
static void recover_site(struct af_state *state, const char *site, struct af_arena *arena,
                         const struct af_progress *progress)
{
    struct af_lock lock = {0};
    struct anyflash_error err;
    enum anyflash_status status = ANYFLASH_OK;
    if (af_file_is_folder(site))
        status = af_lock_take(&lock, site, "recovery", AF_LOCK_TRY, NULL, arena, &err);
    if (status == ANYFLASH_E_TIMEOUT)
        return;
    if (status == ANYFLASH_OK)
        status = af_recover_held(state, site, progress, &err);
    if (status != ANYFLASH_OK)
        af_progress_message(
            progress, "an unfinished installation cannot be rolled back now: %s", err.message);
    af_lock_release(&lock);
}

enum anyflash_status af_recover(struct af_state *state, const struct af_progress *progress,
                                struct anyflash_error *err)
{
    struct af_arena arena;
    struct af_operation *list;
    size_t count = 0;
    if (state == NULL)
        return ANYFLASH_OK;
    af_arena_init(&arena);
    enum anyflash_status status = af_journal_list(state, AF_PHASE_PREPARING, AF_PHASE_COMMITTED,
                                                  NULL, &arena, &list, &count, err);
    for (size_t i = 0; status == ANYFLASH_OK && i < count; i++) {
        bool seen = false;
        for (size_t j = 0; j < i; j++)
            seen = seen || strcmp(list[j].site, list[i].site) == 0;
        if (!seen)
            recover_site(state, list[i].site, &arena, progress);
    }
    af_arena_release(&arena);
    return status;
}
