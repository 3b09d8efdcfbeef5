/*
 * build_environment.c: makes the environment of the build, with setup.py's
 * tools and, if the system has no suitable toolkit, the CUDA compiler of the
 * package index. torch stays in the user's environment: a .pth file appends its
 * folder to the path, and nothing is written there.
 */
#include "kit/compile/build_steps.h"

#include <string.h>

#include "kit/base/text.h"
#include "kit/system/file.h"
#include "kit/system/output.h"

#define WORDS_MAX 24
#define STAMP_BYTES_MAX 4096u

const char *af_build_uv(const struct af_build *build, const struct af_build_place *place)
{
    const struct af_tool_rows *tools = &build->machine->tools;
    for (size_t i = 0; i < tools->count; i++) {
        if (af_fact_is(&tools->rows[i].name, "uv") &&
            tools->rows[i].path.state == AF_FACT_KNOWN)
            return tools->rows[i].path.value.text;
    }
    const char *own = af_arena_format(build->arena, "%s/bin/uv", place->environment);
    return own != NULL && af_file_is_executable(own) ? own : NULL;
}

static enum anyflash_status make_environment(struct af_build *build,
                                             const struct af_build_place *place,
                                             struct anyflash_error *err)
{
    const char *uv = af_build_uv(build, place);
    const char *python = af_fact_text_or(&build->machine->python.executable, "python3");
    const char *const by_uv[] = {uv,     "venv",         "--quiet",          "--python",
                                 python, "--no-project", place->environment, NULL};
    const char *const by_venv[] = {python, "-I", "-m", "venv", place->environment, NULL};
    enum anyflash_status status = af_folder_remove(place->environment, err);
    if (status != ANYFLASH_OK)
        return status;
    return af_build_call(build, place->log, "making the build's environment",
                         uv != NULL ? by_uv : by_venv, NULL, NULL, err);
}

/* For an error message: where the tools come from, and how to name another index. */
static const char *what_of(const struct af_build *build, const char *uv)
{
    return build->offline ? "taking the build's tools from the installer's cache"
           : uv != NULL   ? "getting the build's tools from PyPI (for another index: "
                            "UV_DEFAULT_INDEX=URL)"
                          : "getting the build's tools from PyPI (for another index: "
                            "PIP_INDEX_URL=URL)";
}

/* Installs setup.py's tools; also uv, which finds the sources, if there is only pip. */
static enum anyflash_status install_tools(struct af_build *build,
                                          const struct af_build_place *place,
                                          struct anyflash_error *err)
{
    static const char *const tools[] = {"setuptools", "wheel", "packaging", "psutil", "ninja"};
    const char *words[WORDS_MAX];
    size_t count = 0;
    const char *uv = af_build_uv(build, place);
    if (uv != NULL) {
        const char *const start[] = {uv,        "pip",      "install",
                                     "--quiet", "--python", place->python};
        memcpy(words, start, sizeof start);
        count = AF_COUNT(start);
    } else {
        const char *const start[] = {place->python, "-I",      "-m", "pip",
                                     "install",     "--quiet", "uv"};
        memcpy(words, start, sizeof start);
        count = AF_COUNT(start);
    }
    if (build->offline)
        words[count++] = uv != NULL ? "--offline" : "--no-index";
    memcpy(words + count, tools, sizeof tools);
    count += AF_COUNT(tools);
    if (place->cuda_from_index)
        words[count++] = af_arena_format(
            build->arena, "cuda-toolkit[nvcc,nvvm,crt,cccl,cudart]==%s", place->cuda_version);
    words[count] = NULL;
    return build->arena->failed
               ? af_fail_memory(err)
               : af_build_call(build, place->log, what_of(build, uv), words, NULL, NULL, err);
}

/* The site-packages folder of the environment, from its interpreter. */
static const char *site_of(struct af_build *build, const struct af_build_place *place,
                           struct anyflash_error *err)
{
    const char *const argv[] = {place->python, "-I", "-c",
                                "import sysconfig; print(sysconfig.get_path('purelib'))", NULL};
    struct af_span output;
    if (af_build_call(build, place->log, "asking the build's environment for its site-packages",
                      argv, NULL, &output, err) != ANYFLASH_OK)
        return NULL;
    output = af_text_trim(output);
    return af_arena_text_n(build->arena, output.data, output.len);
}

static enum anyflash_status join_toolkit(struct af_build *build,
                                         const struct af_build_place *place, const char *site,
                                         struct anyflash_error *err)
{
    struct af_arena *arena = build->arena;
    const char *runtime = af_fact_text_or(&build->machine->torch.cudart_path, NULL);
    const char *script = af_path_join(arena, place->environment, "cuda_home.py");
    int major = (int)strcspn(place->cuda_version, ".");
    const char *own =
        af_arena_format(arena, "%s/nvidia/cu%.*s", site, major, place->cuda_version);
    if (runtime == NULL)
        return af_fail(err, ANYFLASH_E_UNSUPPORTED,
                       "cannot find the CUDA runtime that this torch uses");
    const char *beside = af_path_folder(arena, af_path_folder(arena, runtime));
    const char *const argv[] = {place->python, "-I",   script, place->cuda_home,
                                own,           beside, NULL};
    if (arena->failed)
        return af_fail_memory(err);
    enum anyflash_status status =
        af_build_write_file(arena, script, af_build_cuda_home_py, 0644, err);
    return status == ANYFLASH_OK
               ? af_build_call(build, place->log, "setting up the CUDA toolkit", argv, NULL,
                               NULL, err)
               : status;
}

static enum anyflash_status fill(struct af_build *build, const struct af_build_place *place,
                                 struct anyflash_error *err)
{
    enum anyflash_status status = make_environment(build, place, err);
    if (status == ANYFLASH_OK)
        status = install_tools(build, place, err);
    const char *site = status == ANYFLASH_OK ? site_of(build, place, err) : NULL;
    if (site == NULL)
        return status != ANYFLASH_OK ? status : err->status;
    const char *torch = af_fact_text_or(&build->machine->torch.path, NULL);
    const char *path = af_path_join(build->arena, site, "anyflash-torch.pth");
    const char *text = torch == NULL ? NULL
                                     : af_arena_format(build->arena, "%s\n",
                                                       af_path_folder(build->arena, torch));
    if (path == NULL || text == NULL)
        return torch == NULL
                   ? af_fail(err, ANYFLASH_E_UNSUPPORTED, "cannot find torch's folder")
                   : af_fail_memory(err);
    status = af_build_write_file(build->arena, path, text, 0644, err);
    if (status == ANYFLASH_OK && place->cuda_from_index)
        status = join_toolkit(build, place, site, err);
    return status;
}

/* The line that marks the environment as complete. */
static const char *stamp_of(const struct af_build *build, const struct af_build_place *place)
{
    return af_arena_format(build->arena, "tools of flash-attn builds, torch %s, %s CUDA %s\n",
                           af_fact_text_or(&build->machine->torch.version, "?"),
                           place->cuda_from_index ? "the index's" : "the system's",
                           place->cuda_version);
}

static bool is_complete(const struct af_build *build, const struct af_build_place *place,
                        const char *path, const char *stamp)
{
    struct af_span found;
    return af_file_read(build->arena, path, STAMP_BYTES_MAX, &found, NULL) == ANYFLASH_OK &&
           af_text_span_equal(found, stamp) && af_file_is_executable(place->python);
}

enum anyflash_status af_build_prepare_environment(struct af_build *build,
                                                  const struct af_build_place *place, int *lock,
                                                  struct anyflash_error *err)
{
    const char *path = af_path_join(build->arena, place->environment, "complete");
    const char *stamp = stamp_of(build, place);
    enum anyflash_status status =
        path == NULL || stamp == NULL ? af_fail_memory(err) : ANYFLASH_OK;
    while (status == ANYFLASH_OK) {
        status = af_build_lock(build, place->environment, AF_BUILD_SHARED, lock, err);
        if (status != ANYFLASH_OK || is_complete(build, place, path, stamp))
            return status;
        status = af_build_lock(build, place->environment, AF_BUILD_ALONE, lock, err);
        if (status != ANYFLASH_OK || is_complete(build, place, path, stamp))
            continue; /* another build completed it meanwhile: share it */
        af_progress_message(&build->progress,
                            place->cuda_from_index
                                ? "downloading the build tools and the CUDA compiler"
                                : "downloading the build tools");
        status = fill(build, place, err);
        if (status == ANYFLASH_OK)
            status = af_build_write_file(build->arena, path, stamp, 0644, err);
    }
    return status;
}
