/*
 * build_failure.c: finds out why a build failed: the first error that a compiler
 * printed, or a full disk.
 */
#include "kit/compile/build_steps.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "kit/base/text.h"
#include "kit/compile/offer/offer.h"
#include "kit/system/file.h"

#define OUTPUT_BYTES_MAX (32u * 1024u * 1024u)
#define LINE_BYTES 400
#define FULL_BYTES (UINT64_C(1) << 20) /* with less free space nothing can continue */
#define FILES_MAX 1024
#define SIZE_BYTES 32
#define GIB 1073741824.0
#define MIB 1048576.0

/* Texts that mark an error line of compilers and the programs that they start. */
static const char *const marks[] = {
    "error:", "error :", "error   :", "fatal   :", "No space left", "Disk quota exceeded",
    "Error:", "Killed"};

static bool is_error(struct af_span line)
{
    for (size_t i = 0; i < AF_COUNT(marks); i++) {
        if (memmem(line.data, line.len, marks[i], strlen(marks[i])) != NULL)
            return true;
    }
    return false;
}

const char *af_build_first_error(struct af_arena *arena, const char *output)
{
    struct af_span rest;
    struct af_span line;
    struct af_span last = {NULL, 0}; /* the last line that says anything, without an error */
    bool found = false;
    if (af_file_read_start(arena, output, OUTPUT_BYTES_MAX, &rest, NULL) != ANYFLASH_OK)
        return NULL;
    while (!found && af_text_line(&rest, &line)) {
        found = is_error(line);
        if (found || af_text_trim(line).len > 0)
            last = line;
    }
    last.len = last.len < LINE_BYTES ? last.len : LINE_BYTES;
    return last.len == 0
               ? NULL
               : af_text_scrub(arena, af_arena_text_n(arena, last.data, last.len), LINE_BYTES);
}

/* What programs print when the disk is full. */
static const char *const full_texts[] = {"No space left", "Disk quota exceeded",
                                         "disk is full"};

/* Bytes free on the disk of the place; UINT64_MAX if unknown. */
static uint64_t disk_free(const struct af_build_place *place)
{
    struct statvfs disk;
    if (statvfs(place->folder, &disk) != 0)
        return UINT64_MAX;
    return (uint64_t)(geteuid() == 0 ? disk.f_bfree : disk.f_bavail) * disk.f_frsize;
}

bool af_build_disk_is_full(const struct af_build_place *place)
{
    return disk_free(place) < FULL_BYTES;
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
    int64_t bytes = object_bytes(build->arena, place->objects);
    if (af_file_is_folder(place->sources))
        bytes += AF_OFFER_BUILD_SOURCES_DISK;
    if (place->cuda_from_index && af_file_is_executable(place->nvcc))
        bytes += AF_OFFER_BUILD_TOOLKIT_DISK;
    return bytes;
}

/* Bytes that the build still needs, approximately. */
static uint64_t need_of(struct af_build *build, const struct af_build_place *place)
{
    int64_t cores = af_fact_int_or(&build->machine->resources.cores, 1);
    struct af_offer_build_needs needs = af_offer_build_needs_of(
        &build->selection, build->slots > 0 ? (int64_t)build->slots : cores, 0,
        place->cuda_from_index);
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

static bool says_full(const char *said)
{
    for (size_t i = 0; i < AF_COUNT(full_texts); i++) {
        if (strstr(said, full_texts[i]) != NULL)
            return true;
    }
    return false;
}

/* `said` with paths relative to `folder`, which the sentence already names. */
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
    if (!was_full && !says_full(said) && !af_build_disk_is_full(place))
        return NULL;
    uint64_t need = need_of(build, place);
    uint64_t free_bytes = disk_free(place);
    af_text_quote(folder, sizeof folder, place->folder, strlen(place->folder));
    size_text(free_bytes, free_text);
    said = shortened(build->arena, said, place->folder);
    if (free_bytes >= need)
        return af_arena_format(build->arena,
                               "a disk was full, although '%s' has %s free now. What was "
                               "built is kept: run the same command again (%s)",
                               folder, free_text, said);
    return af_arena_format(build->arena,
                           "no space left on the disk of '%s': about %s more needed, %s free. "
                           "What was built is kept: free some space and run the same command "
                           "again (%s)",
                           folder, size_text(need, need_text), free_text, said);
}
