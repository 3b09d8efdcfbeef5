/*
 * build.c: the steps of a build in order: scripts, sources, kernels, wheel.
 */
#include "kit/compile/build_steps.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "anyflash/anyflash.h"
#include "kit/base/text.h"
#include "kit/formats/binary.h"
#include "kit/system/file.h"
#include "kit/system/output.h"
#include "kit/system/process.h"

#define FULL_BYTES (UINT64_C(1) << 20) /* with less free space nothing can continue */
#define GLIBC "GLIBC_2."
#define GLIBC_LEAST 17 /* manylinux2014, the oldest of these tags */
#define WORDS_MAX 40
#define LIBRARY "libanyflash_cuda.so"
#define LACKS_CCCL 3 /* exit code of `nvrtc.py find` */

static double now_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* A command in the making. */
struct command {
    const char *words[WORDS_MAX + 1];
    size_t count;
};

static void add(struct command *command, const char *word)
{
    if (command->count < WORDS_MAX)
        command->words[command->count++] = word;
}

static void add_option(struct command *command, const char *option, const char *value)
{
    add(command, option);
    add(command, value);
}

/*
 * Starts a command with a script in the environment's Python: without the user's settings of
 * Python, and without writing compiled modules.
 */
static void start(struct command *command, const struct af_build *build,
                  const struct af_build_place *place, const char *script)
{
    command->count = 0;
    add(command, af_fact_text_or(&build->machine->python.executable, "python3"));
    add(command, "-E");
    add(command, "-s");
    add(command, "-B");
    add(command, af_path_join(build->arena, place->scripts, script));
}

/* ---- steps ---- */

/* Only one build works in a folder at a time; the lock ends with the process. */
static enum anyflash_status lock_folder(const struct af_build *build,
                                        const struct af_build_place *place, int *fd_out,
                                        struct anyflash_error *err)
{
    const char *path = af_path_join(build->arena, place->folder, "lock");
    if (!af_build_try_lock(path, fd_out))
        return af_fail(err, ANYFLASH_E_IO,
                       "another build is running in '%s': wait until it finishes",
                       place->folder);
    return *fd_out >= 0 ? ANYFLASH_OK : af_file_fail("write", path, err);
}

/* Writes one file of `files` below the scripts' folder. */
static enum anyflash_status write_one(struct af_build *build, const char *folder,
                                      const char *name, struct af_span bytes,
                                      struct anyflash_error *err)
{
    struct af_arena *arena = build->arena;
    const char *path = af_path_join(arena, folder, name);
    enum anyflash_status status = af_folder_make(af_path_folder(arena, path), 0755, err);
    return status == ANYFLASH_OK ? af_build_write_file(arena, path, bytes, err) : status;
}

static enum anyflash_status write_scripts(struct af_build *build,
                                          const struct af_build_place *place,
                                          struct anyflash_error *err)
{
    const char *title = af_arena_format(build->arena, "flash-attn %s\n", build->version);
    enum anyflash_status status =
        write_one(build, place->folder, "about", (struct af_span){title, strlen(title)}, err);
    for (const struct af_build_file *file = af_build_files;
         file->name != NULL && status == ANYFLASH_OK; file++)
        status = write_one(build, place->scripts, file->name,
                           (struct af_span){file->bytes, file->size}, err);
    return status == ANYFLASH_OK
               ? write_one(build, place->scripts, LIBRARY,
                           (struct af_span){af_build_library.bytes, af_build_library.size}, err)
               : status;
}

/*
 * Finds NVRTC in this Python's packages or in the CUDA toolkit in use; if neither has it, gets
 * it from the package index, as it gets headers that torch lacks. folders_out: one or two.
 */
static enum anyflash_status find_nvrtc(struct af_build *build,
                                       const struct af_build_place *place, int *lock,
                                       const char *folders_out[2], struct anyflash_error *err)
{
    const struct af_toolkit *toolkit = af_machine_toolkit(build->machine);
    struct command command;
    struct af_program_result result;
    start(&command, build, place, "packaging/kernels/nvrtc.py");
    add(&command, "find");
    if (toolkit != NULL)
        add(&command, af_fact_text_or(&toolkit->root, NULL));
    add(&command, NULL);
    const struct af_program program = {.argv = command.words};
    enum anyflash_status status = af_program_run(&program, build->arena, &result, err);
    if (status != ANYFLASH_OK)
        return status;
    struct af_span line;
    bool found = (result.exit_code == 0 || result.exit_code == LACKS_CCCL) &&
                 af_text_line(&result.output, &line) && line.len > 0;
    if (!found)
        return af_build_prepare_nvrtc(build, place, false, lock, &folders_out[0], err);
    folders_out[0] = af_arena_text_n(build->arena, line.data, line.len);
    return result.exit_code == 0
               ? ANYFLASH_OK
               : af_build_prepare_nvrtc(build, place, true, lock, &folders_out[1], err);
}

/* The one pack in the folder of packs, which was empty before. */
static enum anyflash_status made_pack(struct af_build *build,
                                      const struct af_build_place *place, const char **pack_out,
                                      struct anyflash_error *err)
{
    struct af_build named = *build;
    named.pack = place->packs;
    return af_build_prepare_pack(&named, place, pack_out, err);
}

/* Compiles the kernels; *reason_out if they do not compile. */
static enum anyflash_status make_pack(struct af_build *build,
                                      const struct af_build_place *place,
                                      const char *const nvrtc[2], const char **pack_out,
                                      const char **reason_out, struct anyflash_error *err)
{
    struct af_arena *arena = build->arena;
    const struct af_selection *selection = &build->selection;
    const char *jobs = build->jobs == 0 ? NULL : af_arena_format(arena, "%u", build->jobs);
    struct command command;
    int exit_code;
    start(&command, build, place, "packaging/kernels/make_pack.py");
    add(&command, "--quiet");
    for (size_t i = 0; i < 2 && nvrtc[i] != NULL; i++)
        add_option(&command, "--nvrtc", nvrtc[i]);
    add_option(&command, "--sources", place->sources);
    add_option(&command, "--work", place->work);
    add_option(&command, "--output", place->packs);
    add_option(&command, "--head-dim", af_selection_sizes(selection, arena));
    add_option(&command, "--dtype", af_selection_dtypes(selection));
    add_option(&command, "--features", af_selection_features(selection, arena));
    if (!selection->backward)
        add_option(&command, "--pass", "forward,split");
    if (jobs != NULL)
        add_option(&command, "--jobs", jobs);
    add(&command, NULL);
    const struct af_program program = {.argv = command.words};
    enum anyflash_status status = af_folder_remove(place->packs, err);
    if (status == ANYFLASH_OK)
        status = af_program_run_foreground(&program, arena, &exit_code, err);
    if (status != ANYFLASH_OK)
        return status;
    if (exit_code > 128 && !af_interrupted())
        raise(exit_code - 128); /* it was in the foreground, and we were not sent the signal */
    if (exit_code > 128)
        return af_fail(err, ANYFLASH_E_TIMEOUT,
                       "interrupted: run the same command again to continue");
    if (exit_code == 127)
        return af_fail(err, ANYFLASH_E_NOT_FOUND, "Python was not found: '%s'",
                       command.words[0]);
    if (exit_code != 0) {
        *reason_out = "not all kernels were compiled; the lines above say why. Those that "
                      "were are kept: run the same command again";
        return ANYFLASH_OK;
    }
    return made_pack(build, place, pack_out, err);
}

/* The glibc 2.x that our library needs. */
static enum anyflash_status read_glibc(struct af_build *build, int *glibc_out,
                                       struct anyflash_error *err)
{
    const struct af_span bytes = {af_build_library.bytes, af_build_library.size};
    struct af_binary binary;
    enum anyflash_status status = af_binary_read(build->arena, bytes, LIBRARY, &binary, err);
    *glibc_out = GLIBC_LEAST;
    for (size_t i = 0; status == ANYFLASH_OK && i < binary.version_need_count; i++) {
        const char *version = binary.version_needs[i].version;
        if (!af_starts_with(version, GLIBC))
            continue;
        int minor = (int)strtol(version + strlen(GLIBC), NULL, 10);
        *glibc_out = minor > *glibc_out ? minor : *glibc_out;
    }
    return status;
}

/* Packs the wheel, whose path the script prints first. */
static enum anyflash_status make_wheel(struct af_build *build,
                                       const struct af_build_place *place, const char *pack,
                                       const char **wheel_out, struct anyflash_error *err)
{
    struct af_arena *arena = build->arena;
    struct command command;
    struct af_span said;
    int glibc;
    enum anyflash_status status = read_glibc(build, &glibc, err);
    if (status != ANYFLASH_OK)
        return status;
    start(&command, build, place, "packaging/flash_attn_wheel.py");
    add(&command, pack);
    add(&command, af_path_join(arena, place->scripts, LIBRARY));
    add(&command, af_arena_format(arena, "manylinux_2_%d_%s", glibc,
                                  af_fact_text_or(&build->machine->platform.arch, "x86_64")));
    add(&command, place->output);
    add_option(&command, "--sources", place->sources);
    add(&command, NULL);
    af_progress_message(&build->progress, "packing the wheel");
    status = af_build_call(build, place->log, "packing the wheel", command.words, &said, err);
    if (status != ANYFLASH_OK)
        return status;
    const char *end = NULL;
    for (size_t i = 0; i + 6 <= said.len; i++)
        end = memcmp(said.data + i, ".whl: ", 6) == 0 ? said.data + i : end;
    if (end == NULL)
        return af_fail(err, ANYFLASH_E_INTERNAL, "packing the wheel printed no path");
    *wheel_out = af_arena_text_n(arena, said.data, (size_t)(end - said.data) + 4);
    return ANYFLASH_OK;
}

static enum anyflash_status make(struct af_build *build, const struct af_build_place *place,
                                 struct af_build_result *result, struct anyflash_error *err)
{
    const char *pack = NULL;
    const char *nvrtc[2] = {NULL, NULL};
    int tools = -1;
    enum anyflash_status status = write_scripts(build, place, err);
    if (status == ANYFLASH_OK)
        status = af_build_prepare_sources(build, place, err);
    if (status == ANYFLASH_OK && build->pack != NULL) {
        status = af_build_prepare_pack(build, place, &pack, err);
    } else if (status == ANYFLASH_OK) {
        status = find_nvrtc(build, place, &tools, nvrtc, err);
        if (status == ANYFLASH_OK)
            status = make_pack(build, place, nvrtc, &pack, &result->reason, err);
    }
    if (tools >= 0)
        close(tools);
    return status == ANYFLASH_OK && result->reason == NULL
               ? make_wheel(build, place, pack, &result->wheel, err)
               : status;
}

/* Adds to a failure that the disk is full, if it is. */
static enum anyflash_status fail_of_disk(const struct af_build_place *place,
                                         enum anyflash_status status,
                                         struct anyflash_error *err)
{
    struct statvfs disk;
    const struct anyflash_error said = *err;
    char folder[200];
    if (statvfs(place->folder, &disk) != 0 ||
        (uint64_t)disk.f_bavail * disk.f_frsize >= FULL_BYTES)
        return status;
    return af_fail(err, ANYFLASH_E_IO,
                   "no space left on the disk of '%s'. What was compiled is kept: free some "
                   "space and run the same command again (%s)",
                   af_text_quote(folder, sizeof folder, place->folder, strlen(place->folder)),
                   said.message);
}

enum anyflash_status af_build_run(struct af_build *build, const struct af_build_place *place,
                                  struct af_build_result *result_out,
                                  struct anyflash_error *err)
{
    struct af_build_result result = {0};
    struct anyflash_error own = {0};
    int lock = -1;
    double start_seconds = now_seconds();
    err = err == NULL ? &own : err;
    if (af_build_library.size == 0)
        return af_fail(err, ANYFLASH_E_UNSUPPORTED, "this program was built without " LIBRARY);
    /* Later builds run what this one leaves in the cache: nobody else may write it. */
    const mode_t mask = umask(022);
    umask(mask | 022);
    enum anyflash_status status = af_folder_make(place->folder, 0755, err);
    if (status == ANYFLASH_OK)
        status = lock_folder(build, place, &lock, err);
    if (status == ANYFLASH_OK)
        status = make(build, place, &result, err);
    if (lock >= 0)
        close(lock);
    umask(mask);
    result.seconds = now_seconds() - start_seconds;
    if (status != ANYFLASH_OK)
        return fail_of_disk(place, status, err);
    *result_out = result;
    return ANYFLASH_OK;
}
