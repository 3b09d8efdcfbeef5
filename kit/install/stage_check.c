/*
 * stage_check.c: finds what was unpacked into a stage, and compares it with its RECORD.
 */
#include "kit/base/text.h"
#include "kit/install/record.h"
#include "kit/install/stage.h"
#include "kit/system/file.h"

#define LAYOUT_DEPTH_MAX 6
#define LAYOUT_FOLDERS_MAX 256

static bool has_distribution(const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (af_ends_with(names[i], ".dist-info"))
            return true;
    return false;
}

/* Finds the folder below root that has dist-info folders, level by level. */
static enum anyflash_status find_fresh(struct af_stage *stage, struct anyflash_error *err)
{
    struct af_arena *arena = stage->run->arena;
    const char *folders[LAYOUT_FOLDERS_MAX] = {stage->root};
    size_t first = 0;
    size_t last = 1;
    for (int depth = 0; depth < LAYOUT_DEPTH_MAX && first < last; depth++) {
        size_t end = last;
        for (; first < end; first++) {
            const char **names;
            size_t count;
            enum anyflash_status status =
                af_folder_list(arena, folders[first], 4096, &names, &count, NULL, err);
            if (status != ANYFLASH_OK)
                return status;
            stage->fresh = folders[first];
            if (has_distribution(names, count))
                return ANYFLASH_OK;
            for (size_t i = 0; i < count && last < LAYOUT_FOLDERS_MAX; i++) {
                const char *path = af_path_join(arena, folders[first], names[i]);
                if (af_file_is_folder(path) && !af_file_is_link(path))
                    folders[last++] = path;
            }
        }
    }
    stage->fresh = NULL;
    return af_fail(err, ANYFLASH_E_DATA, "%s unpacked nothing", stage->uv ? "uv" : "pip");
}

/* Checks every line of RECORD, and that INSTALLER exists: installers write it near the end. */
static enum anyflash_status check_one(struct af_stage *stage,
                                      const struct af_distribution *distribution,
                                      struct anyflash_error *err)
{
    struct af_record_result result;
    const char *info = af_path_join(stage->run->arena, stage->fresh, distribution->folder);
    enum anyflash_status status =
        af_record_check(stage->fresh, info, stage->run->arena, &result, err);
    if (status == ANYFLASH_E_NOT_FOUND)
        return af_fail(err, ANYFLASH_E_DATA, "'%s' has no RECORD", distribution->folder);
    if (status == ANYFLASH_OK && result.fault_count > 0)
        return af_fail(err, ANYFLASH_E_DATA,
                       "the unpacked files do not match the RECORD of '%s': '%s': %s",
                       distribution->folder, result.faults[0].path,
                       af_record_fault_text(result.faults[0].kind));
    if (status == ANYFLASH_OK && !result.has_installer)
        return af_fail(err, ANYFLASH_E_DATA,
                       "'%s' has no INSTALLER file: it was not unpacked completely",
                       distribution->folder);
    return status;
}

enum anyflash_status af_stage_check(struct af_stage *stage, struct anyflash_error *err)
{
    struct af_distribution *list;
    size_t count;
    enum anyflash_status status = find_fresh(stage, err);
    if (status == ANYFLASH_OK)
        status = af_distributions_list(stage->run->arena, stage->fresh, &list, &count, err);
    for (size_t i = 0; status == ANYFLASH_OK && i < count; i++)
        status = check_one(stage, &list[i], err);
    return status;
}
