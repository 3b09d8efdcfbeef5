/*
 * observed.c: the operation of a change that another program makes. The old files are linked
 * into the folder that an installation would move them to, and the new ones into the folder
 * that they would come from; replaced_paths.c then finds the entries.
 */
#include <string.h>

#include "kit/base/text.h"
#include "kit/install/operation.h"
#include "kit/system/file.h"
#include "kit/system/output.h"

/* The distribution of the package in the site folder; folder NULL: there is none. */
static enum anyflash_status find(struct af_run *run, const char *package,
                                 struct af_distribution *found_out, struct anyflash_error *err)
{
    struct af_distribution *list;
    size_t count;
    *found_out = (struct af_distribution){0};
    enum anyflash_status status =
        af_distributions_list(run->arena, run->site, &list, &count, err);
    for (size_t i = 0; status == ANYFLASH_OK && i < count; i++)
        if (af_equal(list[i].name, package))
            *found_out = list[i];
    return status;
}

/* Links or copies the files of the distribution to `folder`; missing ones are left out. */
static enum anyflash_status keep(struct af_run *run, const struct af_distribution *distribution,
                                 const char *folder, struct anyflash_error *err)
{
    const char **paths;
    size_t count;
    if (distribution->folder == NULL || distribution->egg)
        return ANYFLASH_OK;
    enum anyflash_status status =
        af_distribution_files(run->arena, run->site, distribution, &paths, &count, NULL, err);
    for (size_t i = 0; status == ANYFLASH_OK && i < count; i++) {
        const char *from = af_path_join(run->arena, run->site, paths[i]);
        const char *to = af_path_join(run->arena, folder, paths[i]);
        if (from == NULL || to == NULL)
            return af_fail_memory(err);
        if (!af_file_is_regular(from))
            continue;
        status = af_folder_make(af_path_folder(run->arena, to), 0755, err);
        if (status == ANYFLASH_OK)
            status = af_file_link_or_copy(run->arena, from, to, err);
    }
    return status;
}

/* A folder in `root` that is as deep as the site folder in its environment, for "../" paths. */
static const char *inner(struct af_run *run, const char *root)
{
    return af_arena_format(run->arena, "%s/lib/python/site-packages", root);
}

enum anyflash_status af_observed_begin(struct af_run *run, const char *package,
                                       const char *title, struct af_observed *observed,
                                       struct anyflash_error *err)
{
    struct af_operation *operation = &observed->operation;
    *observed = (struct af_observed){.package = package};
    operation->kind = AF_OPERATION_INSTALL;
    operation->title = title;
    enum anyflash_status status = find(run, package, &observed->before, err);
    if (status == ANYFLASH_OK)
        status = af_operation_begin(run, operation, err);
    if (status == ANYFLASH_OK) {
        operation->fresh = inner(run, operation->fresh_root);
        operation->aside = inner(run, operation->aside_root);
        status = run->arena->failed ? af_fail_memory(err)
                                    : keep(run, &observed->before, operation->aside, err);
    }
    if (status != ANYFLASH_OK)
        af_operation_finish(run, operation);
    return status;
}

/* Whether RECORD and version are those of the kept copy. */
static bool is_same(struct af_run *run, const struct af_observed *observed)
{
    const struct af_distribution *before = &observed->before;
    const struct af_distribution *after = &observed->after;
    struct af_span texts[2];
    if (before->folder == NULL || after->folder == NULL)
        return before->folder == after->folder;
    if (strcmp(before->folder, after->folder) != 0)
        return false;
    const char *folders[] = {observed->operation.aside, run->site};
    for (size_t i = 0; i < AF_COUNT(folders); i++) {
        const char *info = af_path_join(run->arena, folders[i], after->folder);
        const char *path = info == NULL ? NULL : af_path_join(run->arena, info, "RECORD");
        if (path == NULL ||
            af_file_read(run->arena, path, AF_RECORD_BYTES_MAX, &texts[i], NULL) != ANYFLASH_OK)
            return false;
    }
    return texts[0].len == texts[1].len &&
           memcmp(texts[0].data, texts[1].data, texts[0].len) == 0;
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
                                        back ? operation->aside : operation->fresh,
                                        &run->progress, &entries, &operation->entry_count, err);
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
        status = af_journal_moving(run->state, operation, err);
    if (status != ANYFLASH_OK)
        return status;
    operation->phase = AF_PHASE_MOVING;
    status = af_operation_fingerprint(operation, run->arena, &operation->fingerprint, err);
    if (status == ANYFLASH_OK)
        status = af_journal_phase(run->state, operation, AF_PHASE_COMMITTED, err);
    return status;
}

enum anyflash_status af_observed_end(struct af_run *run, struct af_observed *observed,
                                     struct anyflash_error *err)
{
    struct af_operation *operation = &observed->operation;
    if (operation->id == 0)
        return ANYFLASH_OK;
    enum anyflash_status status = find(run, observed->package, &observed->after, err);
    observed->changed = status == ANYFLASH_OK && !is_same(run, observed);
    if (observed->changed)
        status = record(run, observed, err);
    af_operation_finish(run, operation);
    return status;
}
