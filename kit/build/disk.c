/*
 * disk.c: what a build still needs on its disk, and the words of one that ended
 * because a disk is full.
 */
#include "kit/build/parts.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "kit/base/text.h"
#include "kit/build/offer/build_cost.h"
#include "kit/build/offer/offer.h"
#include "kit/system/file.h"

#define FULL_BYTES (UINT64_C(1) << 20) /* with less nothing can go on */
#define FILES_MAX 1024
#define SIZE_BYTES 32
#define GIB 1073741824.0
#define MIB 1048576.0

/* What programs say of it. */
static const char *const words[] = {"No space left", "Disk quota exceeded", "disk is full"};

uint64_t af_build_disk_free(const struct af_build_place *place)
{
    struct statvfs disk;
    if (statvfs(place->folder, &disk) != 0)
        return UINT64_MAX;
    return (uint64_t)(geteuid() == 0 ? disk.f_bfree : disk.f_bavail) * disk.f_frsize;
}

bool af_build_disk_is_full(const struct af_build_place *place)
{
    return af_build_disk_free(place) < FULL_BYTES;
}

static int64_t object_bytes(struct af_arena *arena, const char *folder)
{
    const char **names;
    size_t count;
    struct stat info;
    int64_t bytes = 0;
    if (folder == NULL ||
        af_folder_list(arena, folder, FILES_MAX, &names, &count, NULL, NULL) != ANYFLASH_OK)
        return 0;
    for (size_t i = 0; i < count; i++) {
        const char *path =
            af_ends_with(names[i], ".o") ? af_path_join(arena, folder, names[i]) : NULL;
        if (path != NULL && lstat(path, &info) == 0 && S_ISREG(info.st_mode))
            bytes += (int64_t)info.st_blocks * 512;
    }
    return bytes;
}

int64_t af_build_kept_bytes(struct af_build *build, const struct af_build_place *place)
{
    static const char *const below[] = {"", "/generated"};
    struct af_arena *arena = build->arena;
    const char *setup = af_path_join(arena, place->sources, "setup.py");
    const char *complete = af_path_join(arena, place->environment, "complete");
    const char *objects = af_build_object_folder(build, place);
    int64_t bytes = 0;
    if (setup != NULL && af_file_is_regular(setup))
        bytes += AF_OFFER_BUILD_SOURCES_DISK;
    if (complete != NULL && af_file_is_regular(complete))
        bytes += AF_OFFER_BUILD_TOOLS_DISK +
                 (place->cuda_from_index ? AF_OFFER_BUILD_TOOLKIT_DISK : 0);
    for (size_t i = 0; objects != NULL && i < AF_COUNT(below); i++)
        bytes += object_bytes(arena, af_arena_format(arena, "%s%s", objects, below[i]));
    return bytes;
}

/* What is left of it, about. */
static uint64_t need_of(struct af_build *build, const struct af_build_place *place)
{
    int64_t cores = af_fact_int_or(&build->machine->resources.cores, 1);
    struct af_offer_build_needs needs =
        af_offer_build_needs_of(&build->slim, build->slots > 0 ? (int64_t)build->slots : cores,
                                0, place->cuda_from_index);
    int64_t left = (int64_t)needs.disk_bytes - af_build_kept_bytes(build, place);
    return (uint64_t)(left > AF_OFFER_BUILD_COMPILER_DISK ? left
                                                          : AF_OFFER_BUILD_COMPILER_DISK);
}

static const char *size_text(uint64_t bytes, char text[SIZE_BYTES])
{
    if ((double)bytes < GIB)
        snprintf(text, SIZE_BYTES, "%.0f MiB", (double)bytes / MIB);
    else
        snprintf(text, SIZE_BYTES, "%.1f GiB", (double)bytes / GIB);
    return text;
}

static bool tells_of_it(const char *said)
{
    for (size_t i = 0; i < AF_COUNT(words); i++) {
        if (strstr(said, words[i]) != NULL)
            return true;
    }
    return false;
}

/* `said` with paths in `folder` from there on, which is named already. */
static const char *shortened(struct af_arena *arena, const char *said, const char *folder)
{
    char *text = af_arena_text(arena, said);
    size_t len = strlen(folder);
    for (char *at = text; at != NULL && (at = strstr(at, folder)) != NULL;) {
        if (at[len] == '/')
            memmove(at, at + len + 1, strlen(at + len + 1) + 1);
        else
            at += len;
    }
    return text == NULL ? said : text;
}

const char *af_build_disk_reason(struct af_build *build, const struct af_build_place *place,
                                 bool was_full, const char *said)
{
    char free_text[SIZE_BYTES];
    char need_text[SIZE_BYTES];
    char folder[200];
    if (!was_full && !tells_of_it(said) && !af_build_disk_is_full(place))
        return NULL;
    uint64_t need = need_of(build, place);
    uint64_t free_bytes = af_build_disk_free(place);
    af_text_quote(folder, sizeof folder, place->folder, strlen(place->folder));
    size_text(free_bytes, free_text);
    said = shortened(build->arena, said, place->folder);
    if (free_bytes >= need)
        return af_arena_format(build->arena,
                               "a disk was full, though '%s' has %s free now. What was built "
                               "is kept: give the same command again (%s)",
                               folder, free_text, said);
    return af_arena_format(build->arena,
                           "no space left on the disk of '%s': needs about %s more, free now "
                           "%s. What was built is kept: make room, and the same command goes "
                           "on (%s)",
                           folder, size_text(need, need_text), free_text, said);
}
