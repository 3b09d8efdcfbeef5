/*
 * build_tools.c: gets what a build needs from the package index: uv, which finds the
 * sources, unless it is installed; and the CUDA compiler, unless the system has a
 * suitable one. Nothing is written to the user's environment.
 */
#include "kit/compile/build_steps.h"

#include <string.h>
#include <unistd.h>

#include "kit/base/text.h"
#include "kit/fit/rung.h"
#include "kit/system/file.h"
#include "kit/system/output.h"

/* The folder of the uv that we install, below that of all builds. */
static const char *own_uv_folder(struct af_arena *arena)
{
    const char *root = af_build_root(arena);
    return root == NULL ? NULL : af_path_join(arena, root, "tools-uv");
}

const char *af_build_uv(const struct af_build *build)
{
    const struct af_tool_rows *tools = &build->machine->tools;
    for (size_t i = 0; i < tools->count; i++) {
        if (af_fact_is(&tools->rows[i].name, "uv") &&
            tools->rows[i].path.state == AF_FACT_KNOWN)
            return tools->rows[i].path.value.text;
    }
    const char *folder = own_uv_folder(build->arena);
    const char *own = folder == NULL ? NULL : af_path_join(build->arena, folder, "bin/uv");
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

/* Makes an environment for uv by Python's venv and pip. */
static enum anyflash_status install_uv(struct af_build *build,
                                       const struct af_build_place *place, const char *folder,
                                       struct anyflash_error *err)
{
    struct af_arena *arena = build->arena;
    const char *own = af_path_join(arena, folder, "bin/python");
    const char *python = af_fact_text_or(&build->machine->python.executable, "python3");
    const char *const make[] = {python, "-I", "-m", "venv", "--clear", folder, NULL};
    const char *const install[] = {
        own,       "-I",      "-m", "pip",
        "install", "--quiet", "uv", build->offline ? "--no-index" : NULL,
        NULL};
    if (own == NULL)
        return af_fail_memory(err);
    af_progress_message(&build->progress, "downloading uv");
    enum anyflash_status status =
        af_build_call(build, place->log, "making an environment for uv", make, NULL, err);
    return status == ANYFLASH_OK
               ? af_build_call(build, place->log, what_of(build, false), install, NULL, err)
               : status;
}

enum anyflash_status af_build_prepare_uv(struct af_build *build,
                                         const struct af_build_place *place,
                                         const char **uv_out, struct anyflash_error *err)
{
    const char *folder = own_uv_folder(build->arena);
    int lock = -1;
    if ((*uv_out = af_build_uv(build)) != NULL)
        return ANYFLASH_OK;
    enum anyflash_status status =
        folder == NULL ? af_fail_memory(err)
                       : af_build_lock(build, folder, AF_BUILD_ALONE, &lock, err);
    if (status == ANYFLASH_OK && (*uv_out = af_build_uv(build)) == NULL)
        status = install_uv(build, place, folder, err);
    if (lock >= 0)
        close(lock);
    if (status == ANYFLASH_OK && (*uv_out = af_build_uv(build)) == NULL)
        status = build->arena->failed
                     ? af_fail_memory(err)
                     : af_fail(err, ANYFLASH_E_NOT_FOUND, "'%s' contains no uv", folder);
    return status;
}

/* The toolkit with the static runtime, in one folder; its wheels are for any Python. */
static enum anyflash_status install_toolkit(struct af_build *build,
                                            const struct af_build_place *place,
                                            struct anyflash_error *err)
{
    static const char wanted[] =
        "cuda-toolkit[nvcc,nvvm,crt,cccl,cudart]==" AF_TOOLKIT_INDEX_VERSION;
    const char *uv = NULL;
    const char *folder = af_path_join(build->arena, place->tools, "toolkit");
    const char *python = af_fact_text_or(&build->machine->python.executable, NULL);
    enum anyflash_status status = af_build_prepare_uv(build, place, &uv, err);
    if (status != ANYFLASH_OK)
        return status;
    const char *argv[] = {uv,     "pip", "install", "--quiet", "--target", folder,
                          wanted, NULL,  NULL,      NULL,      NULL};
    size_t count = 7;
    if (build->offline)
        argv[count++] = "--offline";
    if (python != NULL) {
        argv[count++] = "--python";
        argv[count++] = python;
    }
    return folder == NULL
               ? af_fail_memory(err)
               : af_build_call(build, place->log, what_of(build, true), argv, NULL, err);
}

static bool is_complete(const struct af_build_place *place, const char *mark)
{
    return af_file_is_regular(mark) && af_file_is_executable(place->nvcc);
}

/* Makes the folder; `mark` is written last, so that one with it is complete. */
static enum anyflash_status fill(struct af_build *build, const struct af_build_place *place,
                                 const char *mark, struct anyflash_error *err)
{
    const char *text =
        af_arena_format(build->arena, "CUDA %s from the package index\n", place->cuda_version);
    if (text == NULL)
        return af_fail_memory(err);
    af_progress_message(&build->progress, "downloading the CUDA compiler");
    enum anyflash_status status = af_folder_remove(place->tools, err);
    if (status == ANYFLASH_OK)
        status = af_folder_make(place->tools, 0755, err);
    if (status == ANYFLASH_OK)
        status = install_toolkit(build, place, err);
    return status == ANYFLASH_OK ? af_build_write_file(build->arena, mark, text, 0644, err)
                                 : status;
}

enum anyflash_status af_build_prepare_toolkit(struct af_build *build,
                                              const struct af_build_place *place, int *lock,
                                              struct anyflash_error *err)
{
    const char *mark =
        place->cuda_from_index ? af_path_join(build->arena, place->tools, "complete") : NULL;
    enum anyflash_status status = ANYFLASH_OK;
    if (!place->cuda_from_index)
        return ANYFLASH_OK;
    if (mark == NULL)
        return af_fail_memory(err);
    while (status == ANYFLASH_OK) {
        status = af_build_lock(build, place->tools, AF_BUILD_SHARED, lock, err);
        if (status != ANYFLASH_OK || is_complete(place, mark))
            return status;
        status = af_build_lock(build, place->tools, AF_BUILD_ALONE, lock, err);
        if (status == ANYFLASH_OK && !is_complete(place, mark)) /* else another build made it */
            status = fill(build, place, mark, err);
    }
    return status;
}
