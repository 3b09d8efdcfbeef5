/*
 * build_failure.c: finds out why a build failed: the first error in its log, or
 * a full disk.
 *
 * ninja prints a block when a command ends: "[3/8] COMMAND", then, if it
 * failed, "FAILED: OBJECT" and the command, then all of its output. A compiler
 * wrapper prints a line when its compiler is started again and when that
 * succeeded (governor/compiler_wrapper.h). Output before these lines, and
 * output of commands that succeeded, is not the cause.
 */
#include "kit/compile/build_steps.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "kit/base/text.h"
#include "kit/compile/governor/compiler_wrapper.h"
#include "kit/compile/offer/offer.h"
#include "kit/system/file.h"

#define LOG_BYTES_MAX (32u * 1024u * 1024u)
#define LINE_BYTES 400
#define GAVE_UP "anyflash: error: " /* the governor's message about a file */
#define FAILED "FAILED: "
#define NO_RANK 9
#define FULL_BYTES (UINT64_C(1) << 20) /* with less free space nothing can continue */
#define FILES_MAX 1024
#define SIZE_BYTES 32
#define GIB 1073741824.0
#define MIB 1048576.0

/* Texts that mark an error line. A line of lower rank explains more; callers only repeat it. */
static const struct {
    const char *text;
    int rank;
} marks[] = {
    {"error:", 1},
    {"error :", 1},
    {"error   :", 1},
    {"fatal   :", 1}, /* nvcc's programs */
    {"No space left", 1},
    {"Disk quota exceeded", 1},
    {"undefined reference", 1},
    {FAILED, 2},
    {"Killed", 2}, /* ninja's line, with the exit code and the file */
    {"Error:", 3}, /* Python's */
};

struct search {
    struct af_span found; /* the best line so far */
    int rank;
    struct af_span failed; /* ninja's line of the first command that failed */
    bool over;             /* the block of that command has ended */
};

static bool contains(struct af_span line, const char *text)
{
    return memmem(line.data, line.len, text, strlen(text)) != NULL;
}

static bool begins(struct af_span line, const char *text)
{
    return line.len >= strlen(text) && memcmp(line.data, text, strlen(text)) == 0;
}

/* "[3/8] ...", or ninja's last line. */
static bool ends_block(struct af_span line)
{
    return (line.len > 1 && line.data[0] == '[' && line.data[1] >= '0' &&
            line.data[1] <= '9') ||
           begins(line, "ninja: build stopped");
}

static void take(struct search *search, struct af_span line)
{
    for (size_t i = 0; i < AF_COUNT(marks); i++) {
        if (marks[i].rank < search->rank && contains(line, marks[i].text)) {
            search->rank = marks[i].rank;
            search->found = line;
        }
    }
}

/* Forgets the lines so far, except that the command failed. */
static void forget(struct search *search)
{
    search->rank = NO_RANK;
    search->found = (struct af_span){NULL, 0};
    if (search->failed.data != NULL)
        take(search, search->failed);
}

static void read_line(struct search *search, struct af_span line)
{
    bool fails = begins(line, FAILED);
    bool ends = ends_block(line);
    if (search->failed.data != NULL && (fails || ends)) {
        search->over = true;
        return;
    }
    if (fails)
        search->failed = line;
    if (fails || ends || contains(line, AF_WRAPPER_RESTARTED) ||
        contains(line, AF_WRAPPER_SUCCEEDED))
        forget(search);
    else if (!begins(line, GAVE_UP))
        take(search, line);
}

/* "flash_bwd_hdim64" of "FAILED: [code=1] /a/b/flash_bwd_hdim64.o". */
static struct af_span stem_of(struct af_span failed)
{
    struct af_span stem = {failed.data + strlen(FAILED), failed.len - strlen(FAILED)};
    const char *close =
        stem.len > 0 && stem.data[0] == '[' ? memchr(stem.data, ']', stem.len) : NULL;
    size_t skip = close == NULL ? 0 : (size_t)(close + 1 - stem.data);
    stem = af_text_trim((struct af_span){stem.data + skip, stem.len - skip});
    const char *space = memchr(stem.data, ' ', stem.len);
    stem.len = space == NULL ? stem.len : (size_t)(space - stem.data);
    const char *slash = memrchr(stem.data, '/', stem.len);
    skip = slash == NULL ? 0 : (size_t)(slash + 1 - stem.data);
    stem = (struct af_span){stem.data + skip, stem.len - skip};
    const char *dot = memchr(stem.data, '.', stem.len);
    stem.len = dot == NULL ? stem.len : (size_t)(dot - stem.data);
    return stem;
}

/* The governor's message about the failed file (NULL: any file); empty if there is none. */
static struct af_span gave_up(struct af_span rest, struct af_span failed)
{
    const size_t head = strlen(GAVE_UP);
    struct af_span stem = failed.data == NULL ? failed : stem_of(failed);
    struct af_span line;
    while (af_text_line(&rest, &line)) {
        if (begins(line, GAVE_UP) && line.len > head + stem.len &&
            (stem.len == 0 || (memcmp(line.data + head, stem.data, stem.len) == 0 &&
                               line.data[head + stem.len] == '.')))
            return line;
    }
    return (struct af_span){NULL, 0};
}

const char *af_build_first_error(struct af_arena *arena, const char *log)
{
    struct search search = {.rank = NO_RANK};
    struct af_span all;
    struct af_span line;
    if (af_file_read_start(arena, log, LOG_BYTES_MAX, &all, NULL) != ANYFLASH_OK)
        return NULL;
    struct af_span rest = all;
    while (!search.over && af_text_line(&rest, &line))
        read_line(&search, line);
    line = gave_up(all, search.failed);
    line = line.data == NULL ? search.found : line;
    if (line.data == NULL)
        return NULL;
    line.len = line.len < LINE_BYTES ? line.len : LINE_BYTES;
    return af_text_scrub(arena, af_arena_text_n(arena, line.data, line.len), LINE_BYTES);
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
