/*
 * observed.c: the operation of a change that another program makes. The old files are linked
 * into the folder that an installation would move them to, and the new ones into the folder
 * that they would come from; replaced_paths.c then finds the entries.
 */
#include <string.h>
#include <sys/stat.h>

#include "kit/base/text.h"
#include "kit/install/operation.h"
#include "kit/system/file.h"
#include "kit/system/output.h"

#define PACKAGE "flash-attn"

/* The distribution of the package in the folder of packages; folder NULL: there is none. */
static enum anyflash_status find(struct af_arena *arena, const char *site,
                                 struct af_distribution *found_out, struct anyflash_error *err)
{
    struct af_distribution *list;
    size_t count;
    *found_out = (struct af_distribution){0};
    enum anyflash_status status = af_distributions_list(arena, site, &list, &count, err);
    for (size_t i = 0; status == ANYFLASH_OK && i < count; i++)
        if (af_equal(list[i].name, PACKAGE))
            *found_out = list[i];
    return status;
}

/* Gives the folders above `path` in `folder` the permissions that they have in the site. */
static void copy_modes(struct af_run *run, const char *folder, const char *path)
{
    struct stat facts;
    for (const char *slash = path; (slash = strchr(slash, '/')) != NULL; slash++) {
        const char *above = af_arena_text_n(run->arena, path, (size_t)(slash - path));
        const char *from = af_path_join(run->arena, run->site, above);
        const char *to = af_path_join(run->arena, folder, above);
        if (!af_starts_with(path, "../") && stat(from, &facts) == 0)
            chmod(to, facts.st_mode & 07777);
    }
}

static enum anyflash_status keep_file(struct af_run *run, const char *path, const char *folder,
                                      struct anyflash_error *err)
{
    const char *from = af_path_join(run->arena, run->site, path);
    const char *to = af_path_join(run->arena, folder, path);
    if (!af_file_is_regular(from) || af_file_exists(to))
        return ANYFLASH_OK;
    enum anyflash_status status = af_folder_make(af_path_folder(run->arena, to), 0755, err);
    if (status == ANYFLASH_OK)
        status = af_file_link_or_copy(run->arena, from, to, err);
    if (status == ANYFLASH_OK)
        copy_modes(run, folder, path);
    return status;
}

/*
 * Links or copies the files of the distribution to `folder`, and those that others have put
 * beside its RECORD; missing ones are left out.
 */
static enum anyflash_status keep(struct af_run *run, const struct af_distribution *distribution,
                                 const char *folder, struct anyflash_error *err)
{
    const char **paths, **names;
    size_t count, name_count = 0;
    if (distribution->folder == NULL || distribution->egg)
        return ANYFLASH_OK;
    const char *info = af_path_join(run->arena, run->site, distribution->folder);
    enum anyflash_status status =
        af_distribution_files(run->arena, run->site, distribution, &paths, &count, NULL, err);
    for (size_t i = 0; status == ANYFLASH_OK && i < count; i++)
        status = keep_file(run, paths[i], folder, err);
    if (status == ANYFLASH_OK)
        status =
            af_folder_list(run->arena, info, AF_ENTRIES_MAX, &names, &name_count, NULL, err);
    for (size_t i = 0; status == ANYFLASH_OK && i < name_count; i++)
        status = keep_file(run, af_path_join(run->arena, distribution->folder, names[i]),
                           folder, err);
    return status;
}

/* A folder in `root` that is as deep as the site folder in its environment, for "../" paths. */
static const char *inner(struct af_run *run, const char *root)
{
    return af_arena_format(run->arena, "%s/lib/python/site-packages", root);
}

static void set_folders(struct af_run *run, struct af_operation *operation)
{
    operation->fresh = inner(run, operation->fresh_root);
    operation->aside = inner(run, operation->aside_root);
}

enum anyflash_status af_observed_begin(struct af_run *run, const char *title,
                                       struct af_observed *observed, struct anyflash_error *err)
{
    struct af_operation *operation = &observed->operation;
    *observed = (struct af_observed){.changed = false};
    operation->kind = AF_OPERATION_OBSERVED;
    operation->title = title;
    enum anyflash_status status = find(run->arena, run->site, &observed->before, err);
    if (status == ANYFLASH_OK)
        status = af_operation_begin(run, operation, err);
    if (status == ANYFLASH_OK) {
        set_folders(run, operation);
        status = keep(run, &observed->before, operation->aside, err);
    }
    if (status == ANYFLASH_OK)
        status = af_journal_write(run->state, operation, AF_PHASE_PREPARING, err);
    if (status != ANYFLASH_OK)
        af_operation_finish(run, operation);
    return status;
}

/* Whether a file of the folder of packages has the bytes of the kept one. */
static bool is_same_file(struct af_run *run, const struct af_observed *observed,
                         const char *path)
{
    const char *kept = af_path_join(run->arena, observed->operation.aside, path);
    const char *now = af_path_join(run->arena, run->site, path);
    struct af_mapping maps[2] = {0};
    if (af_ends_with(path, ".pyc") || !af_file_is_regular(kept))
        return true; /* Python writes the caches, and of what was not kept nothing is known */
    bool same = af_file_map(kept, &maps[0], NULL) == ANYFLASH_OK &&
                af_file_map(now, &maps[1], NULL) == ANYFLASH_OK && maps[0].len == maps[1].len &&
                (maps[0].len == 0 || memcmp(maps[0].data, maps[1].data, maps[0].len) == 0);
    af_file_unmap(&maps[0]);
    af_file_unmap(&maps[1]);
    return same;
}

/* Whether all that was kept is still there, under the same RECORD. */
static bool is_same(struct af_run *run, const struct af_observed *observed)
{
    const struct af_distribution *before = &observed->before;
    const struct af_distribution *after = &observed->after;
    const char **paths;
    size_t count;
    if (before->folder == NULL || after->folder == NULL)
        return before->folder == after->folder;
    bool same = strcmp(before->folder, after->folder) == 0 &&
                af_distribution_files(run->arena, observed->operation.aside, before, &paths,
                                      &count, NULL, NULL) == ANYFLASH_OK;
    for (size_t i = 0; same && i < count; i++)
        same = is_same_file(run, observed, paths[i]);
    return same;
}

enum anyflash_status af_observed_look(struct af_run *run, struct af_observed *observed,
                                      struct anyflash_error *err)
{
    af_install_step_hook();
    enum anyflash_status status = find(run->arena, run->site, &observed->after, err);
    observed->changed = status == ANYFLASH_OK && !is_same(run, observed);
    return status;
}

/*
 * The entries: what an installation of the kept files would replace, seen from the other side.
 * Without kept files, what the new files are.
 */
static enum anyflash_status find_entries(struct af_run *run, struct af_observed *observed,
                                         struct anyflash_error *err)
{
    struct af_operation *operation = &observed->operation;
    bool back = observed->before.folder != NULL;
    struct af_entry *entries;
    enum anyflash_status status =
        back ? ANYFLASH_OK : keep(run, &observed->after, operation->fresh, err);
    if (status == ANYFLASH_OK)
        status = af_replaced_paths_find(run->arena, run->site,
                                        back ? operation->aside : operation->fresh, NULL,
                                        &entries, &operation->entry_count, err);
    if (status != ANYFLASH_OK)
        return status;
    for (size_t i = 0; i < operation->entry_count; i++) {
        bool is_here = entries[i].has_old;
        entries[i].has_old = back && entries[i].has_new;
        entries[i].has_new = is_here;
    }
    operation->entries = entries;
    return ANYFLASH_OK;
}

static enum anyflash_status record(struct af_run *run, struct af_observed *observed,
                                   struct anyflash_error *err)
{
    struct af_operation *operation = &observed->operation;
    enum anyflash_status status = find_entries(run, observed, err);
    if (status == ANYFLASH_OK)
        status = af_operation_fingerprint(operation, run->arena, &operation->fingerprint, err);
    if (status == ANYFLASH_OK)
        status = af_journal_write(run->state, operation, AF_PHASE_COMMITTED, err);
    return status;
}

enum anyflash_status af_observed_end(struct af_run *run, struct af_observed *observed,
                                     struct anyflash_error *err)
{
    enum anyflash_status status = ANYFLASH_OK;
    if (observed->operation.id == 0)
        return status;
    if (observed->changed)
        status = record(run, observed, err);
    af_operation_finish(run, &observed->operation);
    return status;
}

/* What became of the operation, for recovery's report. */
static const char *outcome(const struct af_operation *operation, bool began, bool changed)
{
    if (!began)
        return "before its command began: nothing was changed";
    if (!changed)
        return "and left flash-attn as it was before";
    return operation->phase == AF_PHASE_DONE
               ? "after it had changed flash-attn: `anyflash undo` takes that back"
               : "while it changed flash-attn, which cannot be taken back: install it again";
}

enum anyflash_status af_observed_recover(struct af_state *state, struct af_operation *operation,
                                         struct af_arena *arena,
                                         const struct af_progress *progress,
                                         struct anyflash_error *err)
{
    struct af_run run = {
        .arena = arena, .state = state, .site = operation->site, .progress = *progress};
    struct af_observed observed = {.operation = *operation};
    bool began = operation->aside != NULL;
    enum anyflash_status status = ANYFLASH_OK;
    if (began)
        status = find(arena, operation->aside, &observed.before, err);
    if (began && status == ANYFLASH_OK)
        status = af_observed_look(&run, &observed, err);
    if (status == ANYFLASH_OK && observed.changed)
        record(&run, &observed, NULL); /* half-installed files may have no RECORD */
    if (status == ANYFLASH_OK)
        status = af_operation_end(state, &observed.operation, err);
    if (status == ANYFLASH_OK)
        af_progress_message(progress, "`anyflash run` was interrupted in '%s' %s",
                            af_text_scrub(arena, operation->site, 300),
                            outcome(&observed.operation, began, observed.changed));
    return status;
}
