/*
 * build_fix.c: what to type where a prerequisite of a build is missing, in the
 * words of the machine's distribution. Whether it is typed by root, a reader
 * knows.
 */
#include "kit/build/offer/build_fix.h"

#include "kit/base/text.h"
#include "kit/build/offer/rung_build.h"

#include <string.h>

enum family { UNKNOWN_FAMILY, DEBIAN, RED_HAT, SUSE, ARCH, ALPINE };

static const struct {
    const char *id; /* what os-release's id starts with */
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

/* "3.12" of "3.12.7"; "" when it is not known. */
static const char *python_minor(const struct af_machine *machine, struct af_arena *arena)
{
    const char *text = af_fact_text_or(&machine->python.version, "");
    size_t len = strcspn(text, ".");
    len += text[len] == '.' ? 1 + strcspn(text + len + 1, ".") : 0;
    const char *minor = af_arena_text_n(arena, text, len);
    return minor == NULL ? "" : minor;
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

const char *af_fix_python_headers(const struct af_machine *machine, struct af_arena *arena)
{
    const char *minor = python_minor(machine, arena);
    switch (family_of(machine)) {
    case DEBIAN:
        return af_arena_format(arena, "apt-get install python%s-dev", minor);
    case RED_HAT:
        return af_arena_format(arena, "dnf install python%s-devel", minor);
    case SUSE:
        return af_arena_format(arena, "zypper install python%.1s%s-devel", minor,
                               minor[0] == '\0' ? "" : minor + 2);
    case ARCH:
        return "pacman -S python";
    case ALPINE:
        return "apk add python3-dev";
    default:
        return "install the headers of this Python, or make the environment with uv, whose "
               "Pythons have them";
    }
}

/* A g++ of `major` by name, for a compiler that is too new. */
static const char *older_compiler(const struct af_offer_build_target *build, int major)
{
    struct af_arena *arena = build->context->arena;
    const struct af_compiler_rows *list = &build->view->machine->compilers;
    for (size_t i = 1; i < list->count; i++) {
        struct af_dotted version;
        const char *path = af_fact_text_or(&list->rows[i].path, NULL);
        if (path != NULL && af_fact_is(&list->rows[i].family, "gcc") &&
            af_dotted_parse(af_fact_text_or(&list->rows[i].version, NULL), &version) &&
            version.part[0] <= major)
            return af_arena_format(arena, "CXX=%s anyflash build", path);
    }
    return af_arena_format(arena, "%sCXX=g++-%d anyflash build",
                           family_of(build->view->machine) == DEBIAN
                               ? af_arena_format(arena, "apt-get install g++-%d, then ", major)
                               : "install an older g++, then ",
                           major);
}

/* The toolkit of torch's CUDA, where the package index has none. */
static const char *toolkit(const struct af_offer_build_target *build)
{
    const struct af_view_torch *torch = &build->view->torch;
    struct af_arena *arena = build->context->arena;
    const char *kind = af_fact_text_or(&build->view->machine->python.kind, "");
    if (torch->cuda_major < 0 || torch->cuda_minor < 0)
        return af_reason_hint(AF_REASON_NVCC_MISSING);
    if (strcmp(kind, "conda") == 0 || strcmp(kind, "pixi") == 0)
        return af_arena_format(arena, "%s cuda-toolkit=%d.%d",
                               strcmp(kind, "pixi") == 0 ? "pixi add"
                                                         : "conda install -c conda-forge",
                               torch->cuda_major, torch->cuda_minor);
    switch (family_of(build->view->machine)) {
    case DEBIAN:
        return af_arena_format(arena,
                               "apt-get install cuda-toolkit-%d-%d (from NVIDIA's "
                               "package source)",
                               torch->cuda_major, torch->cuda_minor);
    case RED_HAT:
        return af_arena_format(arena,
                               "dnf install cuda-toolkit-%d-%d (from NVIDIA's package "
                               "source)",
                               torch->cuda_major, torch->cuda_minor);
    default:
        return af_arena_format(arena, "install the CUDA toolkit %d.%d", torch->cuda_major,
                               torch->cuda_minor);
    }
}

const char *af_offer_build_fix(const struct af_offer_build_target *build, enum af_reason_id id)
{
    struct af_arena *arena = build->context->arena;
    const char *python = af_fact_text_or(&build->view->machine->python.executable, "python");
    switch (id) {
    case AF_REASON_COMPILER_MISSING:
    case AF_REASON_GCC_OLD:
        return af_fix_compiler(build->view->machine);
    case AF_REASON_GCC_NEW:
        return older_compiler(build, (int)af_offer_build_gcc_limit(build));
    case AF_REASON_NVCC_MISSING:
    case AF_REASON_NVCC_CUDA:
    case AF_REASON_CUDA_HEADERS:
        return toolkit(build);
    case AF_REASON_TORCH_MISSING:
        return af_arena_format(arena, "uv pip install --python %s torch", python);
    case AF_REASON_TORCH_WITHOUT_CUDA:
        return af_arena_format(arena,
                               "uv pip install --python %s --torch-backend auto "
                               "--reinstall-package torch torch",
                               python);
    case AF_REASON_NO_GPU:
        return "say for which GPU: anyflash build --arch 9.0";
    case AF_REASON_DISK:
        return "ANYFLASH_CACHE=FOLDER anyflash build, in a folder with more room; or make "
               "room: "
               "anyflash build --clean";
    default:
        return af_reason_hint(id);
    }
}
