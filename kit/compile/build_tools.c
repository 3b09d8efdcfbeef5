/*
 * build_tools.c: the tools that a build gets from the package index: NVRTC and NVIDIA's
 * headers, unless torch brought them along, by uv; and uv, unless it is installed. Nothing is
 * written to the user's environment.
 */
#include "kit/compile/build_steps.h"

#include <string.h>
#include <unistd.h>

#include "kit/base/text.h"
#include "kit/system/file.h"
#include "kit/system/output.h"
#include "kit/system/progress.h"

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
           : by_uv        ? "getting NVRTC from PyPI (for another index: "
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
    enum anyflash_status status = af_build_lock(build, folder, AF_BUILD_ALONE, &lock, err);
    if (status == ANYFLASH_OK && (*uv_out = af_build_uv(build)) == NULL)
        status = install_uv(build, place, folder, err);
    if (lock >= 0)
        close(lock);
    if (status == ANYFLASH_OK && (*uv_out = af_build_uv(build)) == NULL)
        status = af_fail(err, ANYFLASH_E_NOT_FOUND, "'%s' contains no uv", folder);
    return status;
}

/* What is got, and where to. */
struct tools {
    const char *folder;   /* of all of it */
    const char *packages; /* in it */
    const char *mark;     /* in it, written last, so that a folder with it is complete */
    bool only_cccl;
};

/* Its wheels are for any Python. */
static enum anyflash_status install_nvrtc(struct af_build *build,
                                          const struct af_build_place *place,
                                          const struct tools *tools, struct anyflash_error *err)
{
    const char *uv = NULL;
    const char *argv[16];
    size_t count = 0;
    const char *python = af_fact_text_or(&build->machine->python.executable, NULL);
    enum anyflash_status status = af_build_prepare_uv(build, place, &uv, err);
    if (status != ANYFLASH_OK)
        return status;
    const char *const first[] = {uv,          "pip",      "install",       "--quiet",
                                 "--no-deps", "--target", tools->packages, AF_BUILD_CCCL};
    for (size_t i = 0; i < AF_COUNT(first); i++)
        argv[count++] = first[i];
    if (!tools->only_cccl) {
        argv[count++] = AF_BUILD_NVRTC;
        argv[count++] = AF_BUILD_RUNTIME;
    }
    if (build->offline)
        argv[count++] = "--offline";
    if (python != NULL) {
        argv[count++] = "--python";
        argv[count++] = python;
    }
    argv[count] = NULL;
    return af_build_call(build, place->log, what_of(build, true), argv, NULL, err);
}

static enum anyflash_status fill(struct af_build *build, const struct af_build_place *place,
                                 const struct tools *tools, struct anyflash_error *err)
{
    const char *title = tools->only_cccl ? "headers of CCCL from the package index\n"
                                         : "NVRTC from the package index\n";
    af_progress_message(&build->progress, "downloading %s",
                        tools->only_cccl ? "NVIDIA's headers (CCCL)" : "NVRTC");
    enum anyflash_status status = af_folder_remove(tools->folder, err);
    if (status == ANYFLASH_OK)
        status = af_folder_make(tools->folder, 0755, err);
    if (status == ANYFLASH_OK)
        status = install_nvrtc(build, place, tools, err);
    return status == ANYFLASH_OK
               ? af_build_write_file(build->arena, tools->mark,
                                     (struct af_span){title, strlen(title)}, err)
               : status;
}

enum anyflash_status af_build_prepare_nvrtc(struct af_build *build,
                                            const struct af_build_place *place, bool only_cccl,
                                            int *lock, const char **folder_out,
                                            struct anyflash_error *err)
{
    struct af_arena *arena = build->arena;
    const char *folder = only_cccl ? place->cccl : place->tools;
    const struct tools tools = {folder, af_path_join(arena, folder, "packages"),
                                af_path_join(arena, folder, "complete"), only_cccl};
    enum anyflash_status status = ANYFLASH_OK;
    *folder_out = tools.packages;
    while (status == ANYFLASH_OK) {
        status = af_build_lock(build, folder, AF_BUILD_SHARED, lock, err);
        if (status != ANYFLASH_OK || af_file_is_regular(tools.mark))
            return status;
        status = af_build_lock(build, folder, AF_BUILD_ALONE, lock, err);
        if (status == ANYFLASH_OK && !af_file_is_regular(tools.mark)) /* not by another build */
            status = fill(build, place, &tools, err);
    }
    return status;
}
