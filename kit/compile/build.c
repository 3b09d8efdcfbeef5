/*
 * build.c: the steps of a build in order, with setup.py under the governor, and
 * the result.
 */
#include "kit/compile/build_steps.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kit/base/text.h"
#include "kit/formats/binary.h"
#include "kit/system/file.h"
#include "kit/system/output.h"

#define LOG_RESERVE (1 << 20) /* so that a full disk can still be logged */
#define FULL_SECONDS 5.0      /* a full disk also explains failures this long after it */
#define WORDS_MAX 32
#define GLIBC "GLIBC_2."

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

/* This program's own file, for the compiler wrappers. */
static const char *program_path(struct af_arena *arena)
{
    char path[4096];
    ssize_t len = readlink("/proc/self/exe", path, sizeof path - 1);
    return len <= 0 ? NULL : af_arena_text_n(arena, path, (size_t)len);
}

/* "80;90", as setup.py reads it. */
static const char *arch_list(const struct af_build *build)
{
    const char *text = "";
    for (size_t i = 0; i < build->selection.arch_count && text != NULL; i++)
        text = af_arena_format(build->arena, "%s%s%d", text, i > 0 ? ";" : "",
                               af_selection_target(build->selection.archs[i]));
    return text;
}

/* Environment variables for setup.py, torch and nvcc. */
static enum anyflash_status variables(struct af_build *build,
                                      const struct af_build_place *place,
                                      const char *words[WORDS_MAX], struct anyflash_error *err)
{
    struct af_arena *arena = build->arena;
    const char *path = getenv("PATH");
    size_t count = 0;
    words[count++] = "FLASH_ATTENTION_FORCE_BUILD=TRUE";
    words[count++] = "FLASH_ATTENTION_SKIP_CUDA_BUILD=FALSE"; /* users set it for pip install */
    words[count++] = "FLASH_ATTENTION_FORCE_CXX11_ABI=FALSE";
    words[count++] = "FLASH_ATTENTION_TRITON_AMD_ENABLE=FALSE";
    words[count++] = "BUILD_TARGET=cuda";
    words[count++] = "NVCC_THREADS=1";
    words[count++] = "NINJA_STATUS=[%f/%t] "; /* build_failure.c expects it */
    words[count++] = "NVCC_APPEND_FLAGS=";    /* ninja does not see changes of them */
    words[count++] = "NVCC_PREPEND_FLAGS=";
    words[count++] = "TORCH_NO_COMPILER_WRAPPER=1";
    words[count++] = "CFLAGS=-g0"; /* Python's own flags ask for debug information */
    words[count++] = "CXXFLAGS=";
    words[count++] = af_arena_format(arena, "MAX_JOBS=%d", AF_SELECTION_FILES_MAX + 8);
    words[count++] = af_arena_format(arena, "FLASH_ATTN_CUDA_ARCHS=%s", arch_list(build));
    words[count++] =
        af_arena_format(arena, "FLASH_ATTN_LOCAL_VERSION=%s", af_build_local_version(build));
    words[count++] = af_arena_format(arena, "CUDA_HOME=%s", place->cuda_home);
    words[count++] = af_arena_format(arena, "LIBRARY_PATH=%s/lib", place->cuda_home);
    words[count++] = af_arena_format(arena, "PATH=%s/bin:%s", place->environment,
                                     path == NULL ? "/usr/bin:/bin" : path);
    words[count++] = af_arena_format(arena, "PYTORCH_NVCC=%s/wrappers/nvcc", place->folder);
    words[count++] = af_arena_format(arena, "CXX=%s/wrappers/c++", place->folder);
    words[count++] = af_arena_format(arena, "TMPDIR=%s", place->temporary);
    words[count++] = af_arena_format(arena, "ANYFLASH_PROGRAM=%s", program_path(arena));
    words[count] = NULL;
    return arena->failed ? af_fail_memory(err) : ANYFLASH_OK;
}

static const char *reason_of(struct af_build *build, const struct af_build_place *place,
                             const struct af_govern_result *result, bool was_full)
{
    const char *line = af_build_first_error(build->arena, place->log);
    if (line == NULL)
        line = af_arena_format(build->arena, "setup.py ended with exit code %d",
                               result->exit_code);
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

/* Removes what a killed build left behind, and the wheel of the last build. */
static enum anyflash_status clear_place(struct af_build *build,
                                        const struct af_build_place *place, const char *made,
                                        struct anyflash_error *err)
{
    enum anyflash_status status = af_folder_remove(made, err);
    if (status == ANYFLASH_OK)
        status = af_folder_remove(place->temporary, err);
    if (status == ANYFLASH_OK)
        status = af_build_drop_copies(build, place, err);
    return status == ANYFLASH_OK ? af_folder_make(place->temporary, 0755, err) : status;
}

static enum anyflash_status compile(struct af_build *build, const struct af_build_place *place,
                                    struct af_build_result *result, struct anyflash_error *err)
{
    struct af_arena *arena = build->arena;
    const char *words[WORDS_MAX + 1];
    const char *driver = af_path_join(arena, place->folder, "driver.py");
    const char *selection = af_path_join(arena, place->folder, "selection.json");
    const char *base = af_path_join(arena, place->folder, "objects");
    const char *made = af_path_join(arena, place->folder, "made");
    const char *const argv[] = {place->python,  "-I",           driver, selection,
                                "build",        "--build-base", base,   "bdist_wheel",
                                "--skip-build", "--dist-dir",   made,   NULL};
    enum anyflash_status status = variables(build, place, words, err);
    struct watch watch = {.build = build, .place = place};
    if (status == ANYFLASH_OK)
        status = clear_place(build, place, made, err);
    int log = status == ANYFLASH_OK ? open_log(place->log, err) : -1;
    if (log < 0)
        return status != ANYFLASH_OK ? status : ANYFLASH_E_IO;
    const struct af_govern_options options = {.argv = argv,
                                              .folder = place->sources,
                                              .environment = words,
                                              .output = log,
                                              .memory_bytes = build->memory_bytes,
                                              .slots = build->slots,
                                              .cores = cores_of(build),
                                              .predict = af_build_predict,
                                              .event = watch_event,
                                              .event_context = &watch,
                                              .context = build};
    status = af_govern_run(&options, build->state, &result->governed, err);
    close_log(log);
    if (status == ANYFLASH_OK && result->governed.interrupted != 0)
        raise(result->governed.interrupted); /* the governor handled this signal itself */
    else if (status == ANYFLASH_OK && result->governed.exit_code != 0)
        result->reason = reason_of(build, place, &result->governed, watch.was_full);
    if (arena->failed)
        status = af_fail_memory(err);
    af_folder_remove(place->temporary, NULL);
    return status;
}

/* The first file of the folder whose name ends with `end`; NULL: none. */
static const char *find_file(struct af_build *build, const char *folder, const char *end)
{
    DIR *opened = opendir(folder);
    struct dirent *entry;
    const char *found = NULL;
    while (opened != NULL && found == NULL && (entry = readdir(opened)) != NULL) {
        if (entry->d_name[0] != '.' && af_ends_with(entry->d_name, end))
            found = af_path_join(build->arena, folder, entry->d_name);
    }
    if (opened != NULL)
        closedir(opened);
    return found;
}

/* The newest glibc 2.x that the extension needs, as x; -1 if it cannot be read. */
static int glibc_need(struct af_build *build, const char *library)
{
    struct af_mapping mapping;
    struct af_binary binary;
    int need = -1;
    if (library == NULL || af_file_map(library, &mapping, NULL) != ANYFLASH_OK)
        return -1;
    const struct af_span bytes = {(const char *)mapping.data, mapping.len};
    if (af_binary_read(build->arena, bytes, library, &binary, NULL) == ANYFLASH_OK) {
        need = 17; /* manylinux2014, the oldest of these tags */
        for (size_t i = 0; i < binary.version_need_count; i++) {
            const char *version = binary.version_needs[i].version;
            if (!af_starts_with(version, GLIBC))
                continue;
            int minor = (int)strtol(version + strlen(GLIBC), NULL, 10);
            need = minor > need ? minor : need;
        }
    }
    af_file_unmap(&mapping);
    return need;
}

static enum anyflash_status tag(struct af_build *build, const struct af_build_place *place,
                                const char *made, int glibc, struct anyflash_error *err)
{
    const char *platform =
        af_arena_format(build->arena, "manylinux_2_%d_%s", glibc,
                        af_fact_text_or(&build->machine->platform.arch, "x86_64"));
    const char *const argv[] = {place->python,    "-I",     "-m", "wheel", "tags", "--remove",
                                "--platform-tag", platform, made, NULL};
    return platform == NULL
               ? af_fail_memory(err)
               : af_build_call(build, place->log, "setting the wheel's platform tag", argv,
                               NULL, NULL, err);
}

/* Moves the wheel from setup.py's folder to the output folder, with its real platform tag. */
static enum anyflash_status take_wheel(struct af_build *build,
                                       const struct af_build_place *place,
                                       const char **wheel_out, struct anyflash_error *err)
{
    struct af_arena *arena = build->arena;
    const char *folder = af_path_join(arena, place->folder, "made");
    const char *made = folder == NULL ? NULL : find_file(build, folder, ".whl");
    const char *libraries = af_build_find_objects(build, place, "lib.");
    const char *library = libraries == NULL ? NULL : find_file(build, libraries, ".so");
    int glibc = glibc_need(build, library);
    if (made == NULL || glibc < 0)
        return arena->failed
                   ? af_fail_memory(err)
                   : af_fail(err, ANYFLASH_E_INTERNAL,
                             "setup.py succeeded but produced no wheel: see the log '%s'",
                             place->log);
    enum anyflash_status status = tag(build, place, made, glibc, err);
    if (status == ANYFLASH_OK)
        status = af_folder_make(place->output, 0755, err);
    if (status != ANYFLASH_OK)
        return status;
    made = find_file(build, folder, ".whl");
    const char *final =
        made == NULL ? NULL : af_path_join(arena, place->output, af_path_name(made));
    if (final == NULL)
        return af_fail_memory(err);
    if (rename(made, final) != 0)
        return af_fail(err, ANYFLASH_E_IO, "cannot move the wheel to '%s'", place->output);
    *wheel_out = final;
    return ANYFLASH_OK;
}

/* Writes a title for `anyflash build --clean`. */
static enum anyflash_status write_about(struct af_build *build,
                                        const struct af_build_place *place,
                                        struct anyflash_error *err)
{
    const struct af_machine *machine = build->machine;
    const char *path = af_path_join(build->arena, place->folder, "about");
    const char *text = af_arena_format(
        build->arena, "flash-attn %s, torch %s, Python %s, CUDA %s, SM %s\n", build->version,
        af_fact_text_or(&machine->torch.version, "?"),
        af_fact_text_or(&machine->python.version, "?"), place->cuda_version, arch_list(build));
    return path == NULL || text == NULL
               ? af_fail_memory(err)
               : af_build_write_file(build->arena, path, text, 0644, err);
}

/* Runs all steps, in a folder that exists and is locked. */
static enum anyflash_status make(struct af_build *build, const struct af_build_place *place,
                                 struct af_build_result *result, struct anyflash_error *err)
{
    int tools = -1;
    enum anyflash_status status = af_build_prepare_environment(build, place, &tools, err);
    if (status == ANYFLASH_OK)
        status = af_build_prepare_sources(build, place, err);
    if (status == ANYFLASH_OK)
        status = af_build_write_selection(build, place, err);
    if (status == ANYFLASH_OK)
        status = compile(build, place, result, err);
    if (status == ANYFLASH_OK && result->governed.interrupted != 0)
        status = af_fail(err, ANYFLASH_E_TIMEOUT,
                         "interrupted: run the same command again to continue");
    else if (status == ANYFLASH_OK && result->governed.exit_code == 0)
        status = take_wheel(build, place, &result->wheel, err);
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
