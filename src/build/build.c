/*
 * build.c: the steps in order, setup.py under the governor, and what came of it.
 */
#include "build/parts.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/file.h"
#include "base/output.h"
#include "base/text.h"

#define LOG_BYTES_MAX (32u * 1024u * 1024u)
#define LINE_BYTES 400
#define WORDS_MAX 24

/* One build works in a folder at a time; the lock goes with the process. */
static enum anyflash_status lock_folder(const struct af_build *build,
                                        const struct af_build_place *place, int *fd_out,
                                        struct anyflash_error *err)
{
    const char *path = af_path_join(build->arena, place->folder, "lock");
    int fd = path == NULL ? -1 : open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0) {
        *fd_out = fd;
        return ANYFLASH_OK;
    }
    if (fd >= 0)
        close(fd);
    return af_fail(err, ANYFLASH_E_IO, "another build works in '%s': wait for its end",
                   place->folder);
}

/* This program's own file, for the gates. */
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
    for (size_t i = 0; i < build->slim.arch_count && text != NULL; i++)
        text = af_arena_format(build->arena, "%s%s%d", text, i > 0 ? ";" : "",
                               af_slim_target(build->slim.archs[i]));
    return text;
}

/* What setup.py, torch and nvcc are told by the environment. */
static enum anyflash_status variables(struct af_build *build,
                                      const struct af_build_place *place,
                                      const char *words[WORDS_MAX], struct anyflash_error *err)
{
    struct af_arena *arena = build->arena;
    const char *path = getenv("PATH");
    size_t count = 0;
    words[count++] = "FLASH_ATTENTION_FORCE_BUILD=TRUE";
    words[count++] = "NVCC_THREADS=1";
    words[count++] = "NVCC_APPEND_FLAGS="; /* ninja does not see them: objects would be stale */
    words[count++] = "NVCC_PREPEND_FLAGS=";
    words[count++] = "TORCH_NO_COMPILER_WRAPPER=1";
    words[count++] = "CFLAGS=-g0"; /* Python's own flags ask for debug information */
    words[count++] = "CXXFLAGS=";
    words[count++] = af_arena_format(arena, "MAX_JOBS=%d", AF_SLIM_FILES_MAX + 8);
    words[count++] = af_arena_format(arena, "FLASH_ATTN_CUDA_ARCHS=%s", arch_list(build));
    words[count++] =
        af_arena_format(arena, "FLASH_ATTN_LOCAL_VERSION=%s", af_build_local_version(build));
    words[count++] = af_arena_format(arena, "CUDA_HOME=%s", place->cuda_home);
    words[count++] = af_arena_format(arena, "LIBRARY_PATH=%s/lib", place->cuda_home);
    words[count++] = af_arena_format(arena, "PATH=%s/bin:%s", place->environment,
                                     path == NULL ? "/usr/bin:/bin" : path);
    words[count++] = af_arena_format(arena, "PYTORCH_NVCC=%s/gate/nvcc", place->folder);
    words[count++] = af_arena_format(arena, "CXX=%s/gate/c++", place->folder);
    words[count++] = af_arena_format(arena, "TMPDIR=%s", place->temporary);
    words[count++] = af_arena_format(arena, "ANYFLASH_PROGRAM=%s", program_path(arena));
    words[count] = NULL;
    return arena->failed ? af_fail_memory(err) : ANYFLASH_OK;
}

/* Marks of lines that tell of an error; a lower rank says more: who called only repeats it. */
static const struct {
    const char *text;
    int rank;
} marks[] = {
    {"error:", 1},  {"error :", 1}, {"No space left", 1}, {"undefined reference", 1},
    {"FAILED:", 2}, {"Killed", 2}, /* ninja's line, with the exit code and the file */
    {"Error:", 3},                 /* Python's */
};

/* The first line of the log of the best rank, scrubbed; NULL without one. */
static const char *first_error(struct af_build *build, const struct af_build_place *place)
{
    struct af_span rest;
    struct af_span line;
    struct af_span found = {NULL, 0};
    int best = 9;
    if (af_file_read_start(build->arena, place->log, LOG_BYTES_MAX, &rest, NULL) != ANYFLASH_OK)
        return NULL;
    while (best > 1 && af_span_line(&rest, &line)) {
        for (size_t i = 0; i < AF_COUNT(marks); i++) {
            size_t len = strlen(marks[i].text);
            if (marks[i].rank < best && line.len >= len &&
                memmem(line.data, line.len, marks[i].text, len) != NULL) {
                best = marks[i].rank;
                found = line;
            }
        }
    }
    return found.data == NULL
               ? NULL
               : af_text_scrub(build->arena,
                               af_arena_text_n(build->arena, found.data,
                                               found.len < LINE_BYTES ? found.len : LINE_BYTES),
                               LINE_BYTES);
}

static const char *reason_of(struct af_build *build, const struct af_build_place *place,
                             const struct af_govern_result *result)
{
    const char *line = first_error(build, place);
    if (line != NULL)
        return line;
    return af_arena_format(build->arena, "setup.py ended with exit code %d", result->exit_code);
}

static unsigned cores_of(const struct af_build *build)
{
    return (unsigned)af_fact_int_or(&build->machine->resources.cores, 0);
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
    if (status == ANYFLASH_OK)
        status = af_build_remove_folder(made, err);
    if (status == ANYFLASH_OK)
        status = af_folder_make(place->temporary, 0755, err);
    if (status != ANYFLASH_OK)
        return status;
    int log = open(place->log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (log < 0)
        return af_fail(err, ANYFLASH_E_IO, "cannot write '%s'", place->log);
    const struct af_govern_options options = {.argv = argv,
                                              .folder = place->sources,
                                              .environment = words,
                                              .output = log,
                                              .memory_bytes = build->memory_bytes,
                                              .slots = build->slots,
                                              .cores = cores_of(build),
                                              .predict = af_build_predict,
                                              .event = build->event,
                                              .event_context = build->context,
                                              .context = build};
    status = af_govern_run(&options, build->state, &result->governed, err);
    close(log);
    if (status == ANYFLASH_OK && result->governed.interrupted != 0)
        raise(result->governed.interrupted); /* the governor took it from the program */
    af_build_remove_folder(place->temporary, NULL);
    return status;
}

/* A line for `anyflash build --clean`. */
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

enum anyflash_status af_build_run(struct af_build *build, const struct af_build_place *place,
                                  struct af_build_result *result_out,
                                  struct anyflash_error *err)
{
    struct af_build_result result = {0};
    int lock = -1;
    double start = af_govern_now();
    enum anyflash_status status = af_folder_make(place->folder, 0755, err);
    if (status == ANYFLASH_OK)
        status = write_about(build, place, err);
    if (status == ANYFLASH_OK)
        status = lock_folder(build, place, &lock, err);
    if (status != ANYFLASH_OK)
        return status;
    status = af_build_prepare_environment(build, place, err);
    if (status == ANYFLASH_OK)
        status = af_build_prepare_sources(build, place, err);
    if (status == ANYFLASH_OK)
        status = af_build_write_selection(build, place, err);
    if (status == ANYFLASH_OK)
        status = compile(build, place, &result, err);
    if (status == ANYFLASH_OK && result.governed.interrupted != 0)
        status = af_fail(err, ANYFLASH_E_TIMEOUT,
                         "interrupted: the same command goes on where this one stopped");
    else if (status == ANYFLASH_OK && result.governed.exit_code != 0)
        result.reason = reason_of(build, place, &result.governed);
    else if (status == ANYFLASH_OK)
        status = af_build_take_wheel(build, place, &result.wheel, err);
    close(lock);
    result.seconds = af_govern_now() - start;
    if (status == ANYFLASH_OK)
        *result_out = result;
    return status;
}
