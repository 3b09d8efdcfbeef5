/*
 * kernel_steps.c: the steps without flash-attn: attention by torch's own kernels,
 * or by the engine of this project. First what needs no installation, torch's
 * scaled_dot_product_attention; then, where anyflash's Python package runs, its stand-in
 * for programs that import flash_attn.
 */
#include <string.h>

#include "kit/answer/builder.h"
#include "kit/base/text.h"
#include "kit/fit/amd_target.h"
#include "kit/fit/view.h"

#define PYTHON_MINOR_MIN 9 /* requires-python in pyproject.toml */

static const struct af_package *package_in(const struct af_machine *machine)
{
    return af_machine_package(machine, "anyflash");
}

static bool has_vendor(const struct af_machine *machine, const char *vendor)
{
    for (size_t i = 0; i < machine->gpus.count; i++)
        if (af_fact_is(&machine->gpus.rows[i].vendor, vendor))
            return true;
    return false;
}

bool af_plan_package_is_there(const struct af_machine *machine)
{
    const struct af_package *package = package_in(machine);
    return package == NULL ? af_machine_shim_is_complete(machine)
                           : af_fact_is(&package->version, anyflash_version_text());
}

bool af_plan_stand_in_is_there(const struct af_machine *machine)
{
    return af_machine_shim(machine) != NULL && af_plan_package_is_there(machine);
}

const char *af_plan_package_refusal(const struct af_machine *machine, bool stand_in,
                                    struct af_arena *arena)
{
    const struct af_package *other = stand_in ? af_machine_flash_attn(machine) : NULL;
    const char *os = af_fact_text_or(&machine->platform.os,
                                     has_vendor(machine, "apple") ? "macos" : "linux");
    const char *python = af_fact_text_or(&machine->python.version, NULL);
    const struct af_package *there = package_in(machine);
    struct af_dotted version;
    if (!af_equal(os, "linux"))
        return af_arena_format(arena,
                               "anyflash's Python package runs on Linux only, and this "
                               "is %s",
                               os);
    if (af_dotted_parse(python, &version) &&
        (version.part[0] < 3 ||
         (version.part[0] == 3 && version.count > 1 && version.part[1] < PYTHON_MINOR_MIN)))
        return af_arena_format(arena,
                               "anyflash's Python package needs Python 3.%d or newer, "
                               "and this is %s",
                               PYTHON_MINOR_MIN, python);
    if (there != NULL && !af_plan_package_is_there(machine))
        return af_arena_format(arena,
                               "anyflash %s is already in this environment, and this program "
                               "is %s: remove it first with pip or uv",
                               af_fact_text_or(&there->version, "of an unknown version"),
                               anyflash_version_text());
    if (other != NULL)
        return af_arena_format(arena,
                               "flash-attn %s is in this environment: anyflash's stand-in can "
                               "be installed once it is uninstalled",
                               af_fact_text_or(&other->version, "of an unknown version"));
    return NULL;
}

void af_plan_package(struct af_builder *builder, bool stand_in)
{
    const struct af_target *target = &builder->target;
    af_builder_start(builder, AF_STEP_WORDS("anyflash", "package", "install"));
    if (stand_in)
        af_builder_words(builder, AF_STEP_WORDS("--stand-in"));
    af_builder_words(
        builder,
        AF_STEP_WORDS("--python", target->prefix != NULL ? target->prefix : target->python));
    af_builder_end(builder, AF_STEP_OWN,
                   stand_in
                       ? "for programs that import flash_attn: install anyflash's stand-in "
                         "for it, which uses these kernels; `anyflash undo` removes it"
                       : "put anyflash's Python package into this environment; its files "
                         "come with this program, and nothing else changes");
    builder->last->stand_in = stand_in;
}

/* No torch is published for musl. */
static bool lacks_torch(const struct af_machine *machine)
{
    return machine->torch.version.state == AF_FACT_ABSENT &&
           !af_fact_is(&machine->platform.libc, "musl");
}

static void install_torch(struct af_builder *builder)
{
    bool uv = builder->target.uv;
    af_builder_install(builder, uv ? AF_STEP_WORDS("--torch-backend", "auto", "torch")
                                   : AF_STEP_WORDS("torch"));
    af_builder_end(builder, AF_STEP_TORCH, "install torch");
    af_builder_require(builder, "torch");
    builder->last->torch_backend = uv ? "auto" : NULL;
}

/* Whether the target, or all machines, gave the reason. */
static const struct af_reason *reason_of(const struct af_builder *builder, enum af_reason_id id)
{
    for (size_t i = 0; i < builder->rung->reason_count; i++) {
        const struct af_reason *reason = &builder->rung->reasons[i];
        if (reason->id == id &&
            (reason->machine == NULL || reason->machine == builder->target.machine))
            return reason;
    }
    return NULL;
}

static bool has_reason(const struct af_builder *builder, enum af_reason_id id)
{
    return reason_of(builder, id) != NULL;
}

/* torch's own interface, for machines that the Python package does not serve. */
static void try_torch(struct af_builder *builder)
{
    bool is_efficient = has_reason(builder, AF_REASON_KERNELS_EFFICIENT);
    const char *code = af_arena_format(
        builder->arena,
        "import torch; from torch.nn.attention import sdpa_kernel, SDPBackend as B; q = "
        "torch.ones(1, 1, 64, 64, device=0, dtype=torch.half); c = "
        "sdpa_kernel(B.%s_ATTENTION); "
        "c.__enter__(); print(torch.nn.functional.scaled_dot_product_attention(q, q, q).shape)",
        is_efficient ? "EFFICIENT" : "FLASH");
    af_builder_start(builder, AF_STEP_WORDS(builder->target.python, "-c", code));
    af_builder_end(builder, AF_STEP_TRY,
                   is_efficient
                       ? "check that torch's memory-efficient kernel runs here (prints a shape)"
                       : "check that torch's FlashAttention kernels run here (prints a shape)");
    if (has_reason(builder, AF_REASON_KERNELS_RDNA))
        af_builder_set(builder, "TORCH_ROCM_AOTRITON_ENABLE_EXPERIMENTAL", "1");
}

/* What serves GPUs for which there is no flash-attn. */
static void tell_vendor(struct af_builder *builder)
{
    if (has_vendor(builder->target.machine, "intel"))
        af_builder_advice(
            builder, "with torch's XPU build, scaled_dot_product_attention runs on the Intel "
                     "GPU, torch's device xpu (as FlashAttention from torch 2.11 on Linux); "
                     "flash-attn has no build for it, Hugging Face's "
                     "kernels-community/flash-attn2 has");
    else if (has_vendor(builder->target.machine, "apple"))
        af_builder_advice(
            builder, "scaled_dot_product_attention runs on the Apple GPU, torch's device mps, "
                     "with torch's own Metal kernels; flash-attn has none");
}

/* What an image of NVIDIA brings comes first. */
static void tell_image(struct af_builder *builder)
{
    const struct af_reason *brings = reason_of(builder, AF_REASON_VENDOR_BRINGS);
    if (brings != NULL)
        af_builder_advice(builder,
                          "use the flash-attn%s%s that this image brings: it was built for "
                          "the image's torch, and nothing needs to be installed",
                          brings->detail == NULL ? "" : " ",
                          brings->detail == NULL ? "" : brings->detail);
    if (has_reason(builder, AF_REASON_VENDOR_LACKS))
        af_builder_advice(builder, "%s", af_reasons[AF_REASON_VENDOR_LACKS].message);
}

/* What works without any installation. */
static void use_torch(struct af_builder *builder)
{
    const struct af_rung *rung = builder->rung;
    bool by_torch = rung->kind == AF_RUNG_TORCH_KERNELS;
    af_builder_advice(
        builder,
        "with transformers, set attn_implementation=\"sdpa\"; in your own code, call "
        "torch.nn.functional.scaled_dot_product_attention%s%s",
        by_torch ? ". It uses " : "", by_torch ? rung->summary : "");
    if (has_reason(builder, AF_REASON_KERNELS_RDNA))
        af_builder_advice(builder, "set TORCH_ROCM_AOTRITON_ENABLE_EXPERIMENTAL=1: without it, "
                                   "torch does not use these kernels");
}

/* The LLVM target of the first AMD GPU, as "gfx942"; NULL: there is none, or it is unknown. */
static const char *amd_target(const struct af_machine *machine)
{
    for (size_t i = 0; i < machine->gpus.count; i++)
        if (af_fact_is(&machine->gpus.rows[i].vendor, "amd"))
            return af_fact_text_or(&machine->gpus.rows[i].sm, NULL);
    return NULL;
}

/*
 * PyTorch's own index has no ROCm build for Windows, so uv would choose one without GPU
 * support; AMD publishes its builds elsewhere.
 */
static bool needs_torch_of_amd(const struct af_machine *machine)
{
    return amd_target(machine) != NULL && af_fact_is(&machine->platform.os, "windows");
}

static void advise_torch_of_amd(struct af_builder *builder)
{
    af_builder_advice(builder,
                      "first, torch's build for ROCm on Windows: AMD publishes it, not "
                      "PyTorch; AMD's installation guide for PyTorch on Windows names "
                      "the command and the GPUs that it serves");
}

/* The package, for programs that import flash_attn and for CPU tensors. */
static void use_package(struct af_builder *builder)
{
    const struct af_machine *machine = builder->target.machine;
    bool by_cpu = builder->rung->kind == AF_RUNG_ENGINE && amd_target(machine) == NULL &&
                  !has_vendor(machine, "intel");
    bool has_other = af_machine_flash_attn(machine) != NULL;
    if (has_other)
        af_builder_advice(builder, "%s",
                          af_plan_package_refusal(machine, true, builder->arena));
    if (has_other ? !af_plan_package_is_there(machine) : !af_plan_stand_in_is_there(machine))
        af_plan_package(builder, !has_other);
    if (by_cpu)
        af_builder_advice(builder, "for CPU tensors: `import anyflash.torch; "
                                   "anyflash.torch.enable()` makes "
                                   "scaled_dot_product_attention use anyflash's kernels");
    af_builder_start(builder,
                     AF_STEP_WORDS(builder->target.python, "-m", "anyflash", "providers"));
    af_builder_end(builder, AF_STEP_TRY, "check which kernel computes here, and why");
}

/*
 * flash-attn's own backends for AMD GPUs, for programs that must have the real package.
 * Source: README.md and setup.py of the two revisions; the Composable Kernel backend is the
 * release's.
 */
#define FLASH_ATTN_CK "git+https://github.com/Dao-AILab/flash-attention@v2.8.3.post1"
#define FLASH_ATTN_TRITON                                                                      \
    "git+https://github.com/Dao-AILab/"                                                        \
    "flash-attention@0251105a2fb19d2957484b7f023cd8c115286ced"

static void add_rocm_builds(struct af_builder *builder, const char *target)
{
    const enum af_amd_backend backend = af_amd_target_of(target).backend;
    const bool is_cdna = backend == AF_AMD_BACKEND_CK;
    if (backend == AF_AMD_BACKEND_NONE)
        return;
    af_builder_install(builder, AF_STEP_WORDS("--no-build-isolation",
                                              is_cdna ? FLASH_ATTN_CK : FLASH_ATTN_TRITON));
    af_builder_end(builder, AF_STEP_ADVICE,
                   is_cdna ? "if a program needs flash-attn itself: its Composable Kernel "
                             "backend; compiling takes git, hipcc and, in the environment, "
                             "ninja, packaging, psutil, setuptools and wheel"
                           : "if a program needs flash-attn itself: its Triton backend; set "
                             "FLASH_ATTENTION_TRITON_AMD_ENABLE=TRUE for the program, too");
    if (is_cdna) {
        af_builder_set(builder, "GPU_ARCHS", target);
    } else {
        af_builder_set(builder, "FLASH_ATTENTION_TRITON_AMD_ENABLE", "TRUE");
        af_builder_set(builder, "AITER_USE_SYSTEM_TRITON", "1"); /* keeps torch's Triton */
    }
}

/*
 * Names AITER, AMD's library of kernels, for the GPUs that it supports in full. On an MI300X it
 * is 18 to 62 % faster than AOTriton, which torch uses (midiareshadi.github.io). Sources: its
 * README.md and aiter/ops/mha.py.
 */
static void tell_aiter(struct af_builder *builder, const char *target)
{
    if (af_amd_target_of(target).has_aiter)
        af_builder_advice(builder,
                          "where attention takes most of the time: AMD's AITER has faster "
                          "kernels for this GPU; its aiter.flash_attn_func is called "
                          "like flash_attn_func (https://github.com/ROCm/aiter)");
}

/* Adds a step by which uv replaces torch; `backend` chooses the index ("cu126", "auto"). */
static void replace_torch(struct af_builder *builder, const char *backend,
                          const char *requirement, const char *title)
{
    af_builder_start(builder, AF_STEP_WORDS("uv", "pip", "install", "--python",
                                            builder->target.python, "--torch-backend", backend,
                                            "--reinstall-package", "torch", requirement));
    af_builder_end(builder, AF_STEP_ADVICE, title);
}

/* An AMD GPU under a torch that is not for ROCm: nothing below uses the GPU. */
static void replace_cuda_torch(struct af_builder *builder)
{
    const struct af_machine *machine = builder->target.machine;
    const char *version = af_fact_text_or(&machine->torch.version, "");
    const struct af_fact *cuda = &machine->torch.cuda;
    bool is_other = strstr(version, "+cu") != NULL || strstr(version, "+cpu") != NULL ||
                    (cuda->state != AF_FACT_UNKNOWN && !af_fact_is_assumed(cuda));
    if (amd_target(machine) == NULL || machine->torch.version.state != AF_FACT_KNOWN ||
        strstr(version, "rocm") != NULL || machine->torch.hip.state == AF_FACT_KNOWN)
        return;
    if (needs_torch_of_amd(machine)) {
        advise_torch_of_amd(builder);
        return;
    }
    if (!is_other)
        return;
    replace_torch(builder, "auto", "torch",
                  "first, on the machine with the GPU: torch's build for ROCm, which uv "
                  "chooses; the installed torch cannot use an AMD GPU");
}

/* If the installed torch has no code for the GPU, no program can use that GPU. */
static void replace_torch_without_gpu_code(struct af_builder *builder)
{
    const struct af_rung *rung = builder->rung;
    if (rung->torch_version != NULL)
        replace_torch(builder, rung->torch_cuda,
                      af_arena_format(builder->arena, "torch==%s+%s", rung->torch_version,
                                      rung->torch_cuda),
                      "first, a torch that has code for this GPU: with the installed one no "
                      "program can use it; then run `anyflash plan` again");
}

void af_plan_kernels(struct af_builder *builder)
{
    const struct af_machine *machine = builder->target.machine;
    const char *refusal = af_plan_package_refusal(machine, false, builder->arena);
    bool serves = has_reason(builder, AF_REASON_KERNELS_BY_PACKAGE) ||
                  has_reason(builder, AF_REASON_ENGINE_BY_PACKAGE);
    tell_image(builder);
    if (has_reason(builder, AF_REASON_VENDOR_BRINGS))
        return;
    replace_cuda_torch(builder);
    replace_torch_without_gpu_code(builder);
    if ((serves && refusal == NULL) || lacks_torch(machine))
        af_plan_prepare(builder);
    if (lacks_torch(machine) && needs_torch_of_amd(machine))
        advise_torch_of_amd(builder);
    else if (lacks_torch(machine))
        install_torch(builder);
    use_torch(builder);
    tell_vendor(builder);
    if (serves && refusal != NULL)
        af_builder_advice(builder, "%s", refusal);
    if (serves && refusal == NULL)
        use_package(builder);
    else if (builder->rung->kind == AF_RUNG_TORCH_KERNELS)
        try_torch(builder);
    if (amd_target(machine) != NULL &&
        af_equal(af_fact_text_or(&machine->platform.os, "linux"), "linux")) {
        tell_aiter(builder, amd_target(machine));
        add_rocm_builds(builder, amd_target(machine));
    }
}
