/*
 * build.c: the steps of a build in order, with its compilers under the governor, and
 * the result, or why it failed: the first error that a compiler printed, or a full disk.
 */
#include "kit/compile/build_steps.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "kit/base/text.h"
#include "kit/compile/offer/offer.h"
#include "kit/system/file.h"
#include "kit/system/output.h"

#define LOG_RESERVE (1 << 20) /* so that a full disk can still be logged */
#define FULL_SECONDS 5.0      /* a full disk also explains failures this long after it */
#define FILES_MAX 4096
#define OUTPUT_BYTES_MAX (32u * 1024u * 1024u)
#define LINE_BYTES 400
#define FULL_BYTES (UINT64_C(1) << 20) /* with less free space nothing can continue */
#define SIZE_BYTES 32
#define GIB 1073741824.0
#define MIB 1048576.0

/* Texts that mark an error line of compilers and the programs that they start. */
static const char *const marks[] = {
    "error:", "error :", "error   :", "fatal   :", "No space left", "Disk quota exceeded",
    "Error:", "Killed"};

/* What programs print when the disk is full. */
static const char *const full_texts[] = {"No space left", "Disk quota exceeded",
                                         "disk is full"};

static bool has_any(struct af_span text, const char *const *parts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (memmem(text.data, text.len, parts[i], strlen(parts[i])) != NULL)
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
        found = has_any(line, marks, AF_COUNT(marks));
        if (found || af_text_trim(line).len > 0)
            last = line;
    }
    last.len = last.len < LINE_BYTES ? last.len : LINE_BYTES;
    return last.len == 0
               ? NULL
               : af_text_scrub(arena, af_arena_text_n(arena, last.data, last.len), LINE_BYTES);
}

/* Bytes free on the disk of the place; UINT64_MAX if unknown. */
static uint64_t disk_free(const struct af_build_place *place)
{
    struct statvfs disk;
    if (statvfs(place->folder, &disk) != 0)
        return UINT64_MAX;
    return (uint64_t)(geteuid() == 0 ? disk.f_bfree : disk.f_bavail) * disk.f_frsize;
}

static bool disk_is_full(const struct af_build_place *place)
{
    return disk_free(place) < FULL_BYTES;
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

/*
 * If a build failed because a disk is full (`was_full`: observed; else judged
 * by the error text `said`), a sentence that says how much is needed and how
 * much is free. NULL: that was not the cause, or memory ran out.
 */
static const char *disk_reason(struct af_build *build, const struct af_build_place *place,
                               bool was_full, const char *said)
{
    char free_text[SIZE_BYTES];
    char need_text[SIZE_BYTES];
    char folder[200];
    if (!was_full &&
        !has_any((struct af_span){said, strlen(said)}, full_texts, AF_COUNT(full_texts)) &&
        !disk_is_full(place))
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

/* ---- steps ---- */

/* Only one build works in a folder at a time; the lock ends with the process. */
static enum anyflash_status lock_folder(const struct af_build *build,
                                        const struct af_build_place *place, int *fd_out,
                                        struct anyflash_error *err)
{
    const char *path = af_path_join(build->arena, place->folder, "lock");
    if (path == NULL)
        return af_fail_memory(err);
    if (!af_build_try_lock(path, fd_out))
        return af_fail(err, ANYFLASH_E_IO,
                       "another build is running in '%s': wait until it finishes",
                       place->folder);
    return *fd_out >= 0 ? ANYFLASH_OK : af_file_fail("write", path, err);
}

/* Why the first compiler that failed did so. */
static const char *reason_of(struct af_build *build, const struct af_build_place *place,
                             const struct af_govern_result *result, bool was_full)
{
    struct af_arena *arena = build->arena;
    const char *output = af_arena_format(arena, "%s" AF_GOVERN_OUTPUT, result->failed->object);
    const char *line = result->reason[0] != '\0' ? af_arena_text(arena, result->reason)
                       : output == NULL          ? NULL
                                                 : af_build_first_error(arena, output);
    if (line == NULL)
        line = af_arena_format(arena, "the compiler of %s failed without an error message",
                               result->failed->prediction.file);
    const char *full = line == NULL ? NULL : disk_reason(build, place, was_full, line);
    return full == NULL ? line : full;
}

/* Listens to the governor's events before the caller does. */
struct watch {
    const struct af_build *build;
    const struct af_build_place *place;
    double full_at; /* when the disk was last full; 0: never */
    bool was_full;  /* a compiler failed then or soon after, and removed its files */
};

static void watch_event(void *context, const struct af_govern_event *event)
{
    struct watch *watch = context;
    double now = af_govern_now();
    if (disk_is_full(watch->place))
        watch->full_at = now;
    if (event->kind == AF_GOVERN_FAILED || event->kind == AF_GOVERN_CRASHED)
        watch->was_full |= watch->full_at > 0 && now - watch->full_at < FULL_SECONDS;
    if (watch->build->event != NULL)
        watch->build->event(watch->build->context, event);
}

static unsigned cores_of(const struct af_build *build)
{
    return (unsigned)af_fact_int_or(&build->machine->resources.cores, 0);
}

/* Opens the log, with space reserved for messages about a full disk. */
static int open_log(const char *path, struct anyflash_error *err)
{
    int log = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);
    if (log < 0)
        af_file_fail("write", path, err);
    else
        fallocate(log, FALLOC_FL_KEEP_SIZE, 0, LOG_RESERVE); /* a failure does not matter */
    return log;
}

static void close_log(int log)
{
    struct stat info;
    if (fstat(log, &info) == 0 && ftruncate(log, info.st_size) != 0)
        info.st_size = 0; /* the space stays reserved until the next build */
    close(log);
}

/* Removes what a killed build left behind, and the folders that compilers need. */
static enum anyflash_status clear_place(struct af_build *build,
                                        const struct af_build_place *place,
                                        struct anyflash_error *err)
{
    struct af_arena *arena = build->arena;
    const char **names;
    size_t count = 0;
    enum anyflash_status status = af_folder_remove(place->temporary, err);
    if (status == ANYFLASH_OK)
        status = af_folder_make(place->temporary, 0755, err);
    if (status == ANYFLASH_OK)
        status = af_folder_make(place->objects, 0755, err);
    if (status == ANYFLASH_OK)
        status = af_folder_list(arena, place->objects, FILES_MAX, &names, &count, NULL, err);
    for (size_t i = 0; status == ANYFLASH_OK && i < count; i++) {
        bool is_left =
            af_ends_with(names[i], AF_GOVERN_NEW) || af_ends_with(names[i], AF_GOVERN_OUTPUT);
        const char *path = is_left ? af_path_join(arena, place->objects, names[i]) : NULL;
        if (path != NULL)
            unlink(path);
    }
    return status;
}

/* Removes the jobs whose objects an earlier build finished. */
static struct af_build_jobs unfinished(const struct af_build *build,
                                       const struct af_build_jobs *all)
{
    struct af_build_jobs left = {
        .rows = af_arena_array(build->arena, all->count + 1, sizeof *left.rows)};
    for (size_t i = 0; left.rows != NULL && i < all->count; i++) {
        if (!af_file_is_regular(all->rows[i].object))
            left.rows[left.count++] = all->rows[i];
    }
    return left;
}

static enum anyflash_status govern(struct af_build *build, const struct af_build_place *place,
                                   const struct af_build_jobs *jobs, int log,
                                   struct af_build_result *result, struct anyflash_error *err)
{
    struct watch watch = {.build = build, .place = place};
    const char *temporary = af_arena_format(build->arena, "TMPDIR=%s", place->temporary);
    const char *const environment[] = {"NVCC_APPEND_FLAGS=", "NVCC_PREPEND_FLAGS=", temporary,
                                       NULL};
    const struct af_govern_options options = {.jobs = jobs->rows,
                                              .job_count = jobs->count,
                                              .environment = environment,
                                              .output = log,
                                              .memory_bytes = build->memory_bytes,
                                              .slots = build->slots,
                                              .cores = cores_of(build),
                                              .event = watch_event,
                                              .event_context = &watch};
    if (temporary == NULL)
        return af_fail_memory(err);
    enum anyflash_status status = af_govern_run(&options, &result->governed, err);
    if (status == ANYFLASH_OK && result->governed.interrupted != 0) {
        raise(result->governed.interrupted); /* the governor handled this signal itself */
        return af_fail(err, ANYFLASH_E_TIMEOUT,
                       "interrupted: run the same command again to continue");
    }
    if (status == ANYFLASH_OK && result->governed.failed != NULL)
        result->reason = reason_of(build, place, &result->governed, watch.was_full);
    return build->arena->failed ? af_fail_memory(err) : status;
}

/* Compiles what an earlier build has not finished, and links all of it. */
static enum anyflash_status compile(struct af_build *build, const struct af_build_place *place,
                                    struct af_build_result *result, int *glibc_out,
                                    struct anyflash_error *err)
{
    struct af_build_jobs all;
    enum anyflash_status status = af_build_list_jobs(build, place, &all, err);
    if (status == ANYFLASH_OK)
        status = clear_place(build, place, err);
    struct af_build_jobs left = {.rows = NULL};
    if (status == ANYFLASH_OK)
        left = unfinished(build, &all);
    if (status == ANYFLASH_OK && left.rows == NULL)
        status = af_fail_memory(err);
    int log = status == ANYFLASH_OK ? open_log(place->log, err) : -1;
    if (log < 0)
        return status != ANYFLASH_OK ? status : ANYFLASH_E_IO;
    if (left.count > 0)
        status = govern(build, place, &left, log, result, err);
    close_log(log);
    if (status == ANYFLASH_OK && result->reason == NULL)
        status = af_build_link(build, place, &all, glibc_out, err);
    af_folder_remove(place->temporary, NULL);
    return status;
}

/* Writes a title for `anyflash build --clean`. */
static enum anyflash_status write_about(struct af_build *build,
                                        const struct af_build_place *place,
                                        struct anyflash_error *err)
{
    const char *path = af_path_join(build->arena, place->folder, "about");
    const char *text = af_arena_format(build->arena, "flash-attn %s, CUDA %s", build->version,
                                       place->cuda_version);
    for (size_t i = 0; i < build->selection.arch_count && text != NULL; i++)
        text = af_arena_format(build->arena, "%s, SM %d.%d", text,
                               build->selection.archs[i] / 10, build->selection.archs[i] % 10);
    text = text == NULL ? NULL : af_arena_format(build->arena, "%s\n", text);
    return path == NULL || text == NULL
               ? af_fail_memory(err)
               : af_build_write_file(build->arena, path, text, 0644, err);
}

/* Runs all steps, in a folder that exists and is locked. */
static enum anyflash_status make(struct af_build *build, const struct af_build_place *place,
                                 struct af_build_result *result, struct anyflash_error *err)
{
    int tools = -1;
    int glibc = 0;
    enum anyflash_status status = af_build_prepare_toolkit(build, place, &tools, err);
    if (status == ANYFLASH_OK)
        status = af_build_prepare_sources(build, place, err);
    if (status == ANYFLASH_OK)
        status = af_build_write_sources(build, place, err);
    if (status == ANYFLASH_OK)
        status = compile(build, place, result, &glibc, err);
    if (status == ANYFLASH_OK && result->reason == NULL)
        status = af_build_pack(build, place, glibc, &result->wheel, err);
    if (tools >= 0)
        close(tools);
    return status;
}

/* Explains the failure if the disk was full. */
static enum anyflash_status fail_of_disk(struct af_build *build,
                                         const struct af_build_place *place,
                                         enum anyflash_status status,
                                         struct anyflash_error *err)
{
    const char *full =
        status == ANYFLASH_E_IO ? disk_reason(build, place, false, err->message) : NULL;
    return full == NULL ? status : af_fail(err, status, "%s", full);
}

enum anyflash_status af_build_run(struct af_build *build, const struct af_build_place *place,
                                  struct af_build_result *result_out,
                                  struct anyflash_error *err)
{
    struct af_build_result result = {0};
    struct anyflash_error own = {0};
    int lock = -1;
    double start = af_govern_now();
    err = err == NULL ? &own : err;
    enum anyflash_status status = af_folder_make(place->folder, 0755, err);
    if (status == ANYFLASH_OK)
        status = write_about(build, place, err);
    if (status == ANYFLASH_OK)
        status = lock_folder(build, place, &lock, err);
    if (status == ANYFLASH_OK)
        status = make(build, place, &result, err);
    if (lock >= 0)
        close(lock);
    result.seconds = af_govern_now() - start;
    if (status != ANYFLASH_OK)
        return fail_of_disk(build, place, status, err);
    *result_out = result;
    return ANYFLASH_OK;
}
