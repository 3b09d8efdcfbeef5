/*
 * build.c: the steps of a build in order, with its compilers under the governor, and
 * the result.
 */
#include "kit/compile/build_steps.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kit/base/text.h"
#include "kit/system/file.h"
#include "kit/system/output.h"

#define LOG_RESERVE (1 << 20) /* so that a full disk can still be logged */
#define FULL_SECONDS 5.0      /* a full disk also explains failures this long after it */
#define FILES_MAX 4096

/* Only one build works in a folder at a time; the lock ends with the process. */
static enum anyflash_status lock_folder(const struct af_build *build,
                                        const struct af_build_place *place, int *fd_out,
                                        struct anyflash_error *err)
{
    const char *path = af_path_join(build->arena, place->folder, "lock");
    int fd = path == NULL ? -1 : open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0)
        return path == NULL ? af_fail_memory(err)
                            : af_fail(err, ANYFLASH_E_IO, "cannot write '%s': %s", path,
                                      strerror(errno));
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
        *fd_out = fd;
        return ANYFLASH_OK;
    }
    close(fd);
    return af_fail(err, ANYFLASH_E_IO,
                   "another build is running in '%s': wait until it finishes", place->folder);
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
    const char *full = line == NULL ? NULL : af_build_disk_reason(build, place, was_full, line);
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
    if (af_build_disk_is_full(watch->place))
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
        af_fail(err, ANYFLASH_E_IO, "cannot write '%s': %s", path, strerror(errno));
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
    const char *full = status == ANYFLASH_E_IO
                           ? af_build_disk_reason(build, place, false, err->message)
                           : NULL;
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
