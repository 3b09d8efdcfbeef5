/*
 * prerequisite_fixes.c: the commands that fix what a build lacks, for the machine's
 * distribution.
 */
#include "kit/fit/rung.h"

#include "kit/base/text.h"
#include "kit/fit/gpu_targets.h"

#include <string.h>

enum family { UNKNOWN_FAMILY, DEBIAN, RED_HAT, SUSE, ARCH, ALPINE };

static const struct {
    const char *id; /* start of the id in os-release */
    enum family family;
} families[] = {
    {"debian", DEBIAN},   {"ubuntu", DEBIAN},     {"linuxmint", DEBIAN}, {"pop", DEBIAN},
    {"raspbian", DEBIAN}, {"fedora", RED_HAT},    {"rhel", RED_HAT},     {"centos", RED_HAT},
    {"rocky", RED_HAT},   {"almalinux", RED_HAT}, {"amzn", RED_HAT},     {"ol", RED_HAT},
    {"opensuse", SUSE},   {"sles", SUSE},         {"arch", ARCH},        {"manjaro", ARCH},
    {"alpine", ALPINE},
};

static enum family family_of(const struct af_machine *machine)
{
    const char *id = af_fact_text_or(&machine->platform.distribution, "");
    for (size_t i = 0; i < AF_COUNT(families); i++) {
        if (af_starts_with(id, families[i].id))
            return families[i].family;
    }
    return UNKNOWN_FAMILY;
}

const char *af_fix_compiler(const struct af_machine *machine)
{
    switch (family_of(machine)) {
    case DEBIAN:
        return "apt-get install g++";
    case RED_HAT:
        return "dnf install gcc-c++";
    case SUSE:
        return "zypper install gcc-c++";
    case ARCH:
        return "pacman -S gcc";
    case ALPINE:
        return "apk add g++";
    default:
        return "install g++";
    }
}

/* The command with a g++ of at most `major`. */
static const char *older_compiler(const struct af_rung_build_target *build, int major)
{
    struct af_arena *arena = build->context->arena;
    const struct af_compiler_rows *list = &build->view->machine->compilers;
    for (size_t i = 1; i < list->count; i++) {
        struct af_dotted version;
        const char *path = af_fact_text_or(&list->rows[i].path, NULL);
        if (path != NULL && af_fact_is(&list->rows[i].family, "gcc") &&
            af_dotted_parse(af_fact_text_or(&list->rows[i].version, NULL), &version) &&
            version.part[0] <= major)
            return af_arena_format(arena, "CXX=%s before the command that compiles", path);
    }
    return af_arena_format(arena, "%sCXX=g++-%d before the command that compiles",
                           family_of(build->view->machine) == DEBIAN
                               ? af_arena_format(arena, "apt-get install g++-%d, then ", major)
                               : "install an older g++, then ",
                           major);
}

/* How to install a toolkit that the driver serves. */
static const char *toolkit_fix(const struct af_rung_build_target *build)
{
    struct af_arena *arena = build->context->arena;
    const char *need = NULL;
    const char *kind = af_fact_text_or(&build->view->machine->python.kind, "");
    bool old = af_driver_serves(build->view, 13, &need) == AF_NO;
    int major = old ? 12 : 13;
    int minor = old ? 8 : 0; /* the first of each major with all targets */
    if (strcmp(kind, "conda") == 0 || strcmp(kind, "pixi") == 0)
        return af_arena_format(arena, "%s cuda-toolkit=%d.%d",
                               strcmp(kind, "pixi") == 0 ? "pixi add"
                                                         : "conda install -c conda-forge",
                               major, minor);
    switch (family_of(build->view->machine)) {
    case DEBIAN:
        return af_arena_format(arena,
                               "apt-get install cuda-toolkit-%d-%d (from NVIDIA's "
                               "package source)",
                               major, minor);
    case RED_HAT:
        return af_arena_format(arena,
                               "dnf install cuda-toolkit-%d-%d (from NVIDIA's package "
                               "source)",
                               major, minor);
    default:
        return af_arena_format(arena, "install the CUDA toolkit %d.%d", major, minor);
    }
}

/* The command that provides what `id` says is missing here; else its hint, or NULL. */
const char *af_rung_build_fix(const struct af_rung_build_target *build, enum af_reason_id id)
{
    struct af_arena *arena = build->context->arena;
    const char *python = af_fact_text_or(&build->view->machine->python.executable, "python");
    switch (id) {
    case AF_REASON_COMPILER_MISSING:
    case AF_REASON_GCC_OLD:
        return af_fix_compiler(build->view->machine);
    case AF_REASON_GCC_NEW:
        return older_compiler(build, (int)af_rung_build_gcc_limit(build));
    case AF_REASON_NVCC_MISSING:
    case AF_REASON_CUDA_HEADERS:
        return toolkit_fix(build);
    case AF_REASON_TORCH_MISSING:
        return build->context->fit->options->upstream_build
                   ? af_reasons[id].hint
                   : "install a torch for CUDA, 2.4 or newer: the wheel fits any";
    case AF_REASON_TORCH_WITHOUT_CUDA:
        return af_arena_format(arena,
                               "uv pip install --python %s --torch-backend auto "
                               "--reinstall-package torch torch",
                               python);
    case AF_REASON_NO_GPU:
        return "on a machine without a GPU, say which: anyflash build --check --arch 9.0";
    case AF_REASON_DISK:
        return "ANYFLASH_CACHE=FOLDER anyflash build, with a folder on a larger disk, or free "
               "space: anyflash build --clean";
    default:
        return af_reasons[id].hint;
    }
}
