/*
 * build_tools.c: gets what a build needs from the package index: uv, which finds the
 * sources, unless it is installed; and the CUDA compiler, unless the system has a
 * suitable one. Nothing is written to the user's environment.
 */
#include "kit/compile/build_steps.h"

#include <string.h>

#include "kit/base/text.h"
#include "kit/fit/rung_build.h"
#include "kit/system/file.h"
#include "kit/system/output.h"

const char *af_build_uv(const struct af_build *build, const struct af_build_place *place)
{
    const struct af_tool_rows *tools = &build->machine->tools;
    for (size_t i = 0; i < tools->count; i++) {
        if (af_fact_is(&tools->rows[i].name, "uv") &&
            tools->rows[i].path.state == AF_FACT_KNOWN)
            return tools->rows[i].path.value.text;
    }
    const char *own = af_arena_format(build->arena, "%s/uv/bin/uv", place->tools);
    return own != NULL && af_file_is_executable(own) ? own : NULL;
}

/* For an error message: where the tools come from, and how to name another index. */
static const char *what_of(const struct af_build *build, bool by_uv)
{
    return build->offline ? "taking the build's tools from the installer's cache"
           : by_uv        ? "getting the CUDA compiler from PyPI (for another index: "
                            "UV_DEFAULT_INDEX=URL)"
                          : "getting uv from PyPI (for another index: PIP_INDEX_URL=URL)";
}

/* uv in an environment of its own, by Python's venv and pip. */
static enum anyflash_status install_uv(struct af_build *build,
                                       const struct af_build_place *place,
                                       struct anyflash_error *err)
{
    struct af_arena *arena = build->arena;
    const char *folder = af_path_join(arena, place->tools, "uv");
    const char *own = af_arena_format(arena, "%s/uv/bin/python", place->tools);
    const char *python = af_fact_text_or(&build->machine->python.executable, "python3");
    const char *const make[] = {python, "-I", "-m", "venv", folder, NULL};
    const char *const install[] = {
        own,       "-I",      "-m", "pip",
        "install", "--quiet", "uv", build->offline ? "--no-index" : NULL,
        NULL};
    if (arena->failed)
        return af_fail_memory(err);
    enum anyflash_status status =
        af_build_call(build, place->log, "making an environment for uv", make, NULL, err);
    return status == ANYFLASH_OK
               ? af_build_call(build, place->log, what_of(build, false), install, NULL, err)
               : status;
}

/*
 * The toolkit with the static runtime, in one folder. Its wheels are for any Python, so the
 * version named here only tells uv not to look for one.
 */
static enum anyflash_status install_toolkit(struct af_build *build,
                                            const struct af_build_place *place,
                                            struct anyflash_error *err)
{
    const char *uv = af_build_uv(build, place);
    const char *folder = af_path_join(build->arena, place->tools, "toolkit");
    const char *const argv[] = {uv,
                                "pip",
                                "install",
                                "--quiet",
                                "--target",
                                folder,
                                "--python-version",
                                "3.12",
                                "cuda-toolkit[nvcc,nvvm,crt,cccl,cudart]"
                                "==" AF_TOOLKIT_INDEX_VERSION,
                                build->offline ? "--offline" : NULL,
                                NULL};
    return folder == NULL
               ? af_fail_memory(err)
               : af_build_call(build, place->log, what_of(build, true), argv, NULL, err);
}

static enum anyflash_status fill(struct af_build *build, const struct af_build_place *place,
                                 struct anyflash_error *err)
{
    enum anyflash_status status = af_folder_remove(place->tools, err);
    if (status == ANYFLASH_OK)
        status = af_folder_make(place->tools, 0755, err);
    if (status == ANYFLASH_OK && af_build_uv(build, place) == NULL)
        status = install_uv(build, place, err);
    return status == ANYFLASH_OK && place->cuda_from_index ? install_toolkit(build, place, err)
                                                           : status;
}

/* Whether all that is needed is there; `path` marks the folder as complete. */
static bool is_complete(const struct af_build *build, const struct af_build_place *place,
                        const char *path)
{
    return (af_file_is_regular(path) || !place->cuda_from_index) &&
           af_build_uv(build, place) != NULL &&
           (!place->cuda_from_index || af_file_is_executable(place->nvcc));
}

enum anyflash_status af_build_prepare_tools(struct af_build *build,
                                            const struct af_build_place *place, int *lock,
                                            struct anyflash_error *err)
{
    const char *path = af_path_join(build->arena, place->tools, "complete");
    const char *stamp = af_arena_format(build->arena, "tools of flash-attn builds, CUDA %s\n",
                                        place->cuda_version);
    enum anyflash_status status =
        path == NULL || stamp == NULL ? af_fail_memory(err) : ANYFLASH_OK;
    while (status == ANYFLASH_OK) {
        status = af_build_lock(build, place->tools, AF_BUILD_SHARED, lock, err);
        if (status != ANYFLASH_OK || is_complete(build, place, path))
            return status;
        status = af_build_lock(build, place->tools, AF_BUILD_ALONE, lock, err);
        if (status != ANYFLASH_OK || is_complete(build, place, path))
            continue; /* another build completed it meanwhile: share it */
        af_progress_message(&build->progress, place->cuda_from_index
                                                  ? "downloading the CUDA compiler"
                                                  : "downloading uv");
        status = fill(build, place, err);
        if (status == ANYFLASH_OK)
            status = af_build_write_file(build->arena, path, stamp, 0644, err);
    }
    return status;
}
