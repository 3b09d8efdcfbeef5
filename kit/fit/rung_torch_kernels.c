/*
 * rung_torch_kernels.c: the attention kernels inside torch's own wheel. Nothing
 * has to match them, so this also holds for pre-releases and vendor builds.
 *
 * CUDA builds have FlashAttention-2 from 2.4 on for SM 8.0 and newer, and the
 * memory-efficient kernel for SM 5.0 to 7.5; on SM 9.0 and 10.x cuDNN's kernels
 * are available, too. ROCm builds have FlashAttention by AOTriton: for CDNA 2 and
 * newer, and as an experiment for some RDNA GPUs. All of them only if torch was
 * compiled for the GPU. PyTorch's builds for Windows lack FlashAttention.
 *
 * anyflash's Python package gives these kernels flash_attn's interface; torch's
 * scaled_dot_product_attention also selects them itself.
 */
#include "kit/base/text.h"
#include "kit/fit/amd_target.h"
#include "kit/fit/gpu_generation.h"
#include "kit/fit/gpu_targets.h"
#include "kit/fit/rung.h"

#include <ctype.h>

#define FIRST_MINOR 4
#define PAGED_MINOR 12
#define SM_EFFICIENT_MIN 50

/* Every CUDA build of torch from 2.4 on is compiled for these. */
#define SM_IN_EVERY_BUILD_MIN 75
#define SM_IN_EVERY_BUILD_MAX 90

static enum af_answer is_covered(const struct af_view_gpu *gpu)
{
    bool everywhere = gpu->sm >= SM_IN_EVERY_BUILD_MIN && gpu->sm <= SM_IN_EVERY_BUILD_MAX &&
                      !af_sm_is_jetson(gpu->sm);
    return gpu->in_torch == AF_UNKNOWN && everywhere ? AF_YES : gpu->in_torch;
}

/* Whether FlashAttention surely works on one of them, whatever the others are. */
static bool surely_serves_one(const struct af_view *view)
{
    for (size_t i = 0; i < view->gpu_count; i++)
        if (view->gpus[i].sm >= AF_SM_FLASH_MIN && is_covered(&view->gpus[i]) == AF_YES)
            return true;
    return false;
}

static void check_gpu(struct af_rung_context *context, const struct af_view_gpu *gpu,
                      bool another)
{
    enum af_answer covered = is_covered(gpu);
    if (covered == AF_UNKNOWN && another)
        return;
    if (gpu->sm < 0) {
        af_rung_add_reason(context, AF_REASON_UNKNOWN_GPU, "compute capability of %s",
                           gpu->name);
        return;
    }
    if (gpu->sm < SM_EFFICIENT_MIN)
        af_rung_add_reason(context, AF_REASON_SM_UNSUPPORTED, "%s", gpu->text);
    else if (covered == AF_NO)
        af_rung_add_reason(context, AF_REASON_TORCH_SM, "%s", gpu->text);
    else if (covered == AF_UNKNOWN && af_sm_is_jetson(gpu->sm))
        af_rung_add_reason(context, AF_REASON_UNKNOWN_JETSON_TORCH, "%s", gpu->text);
    else if (covered == AF_UNKNOWN)
        af_rung_add_reason(context, AF_REASON_UNKNOWN_TORCH_SM, "%s", gpu->text);
    if (gpu->sm >= SM_EFFICIENT_MIN && gpu->sm < AF_SM_FLASH_MIN)
        af_rung_add_reason(context, AF_REASON_KERNELS_EFFICIENT, "%s", gpu->text);
    else if (af_sm_generation_of(gpu->sm).prefers_cudnn)
        af_rung_add_reason(context, AF_REASON_KERNELS_CUDNN, "%s", gpu->text);
}

/* "gfx942" for "AMD Instinct MI300X"; NULL: no such product is known. */
static const char *target_by_name(struct af_arena *arena, const char *name)
{
    const char *vendor, *target;
    char *lower = af_arena_text(arena, name);
    for (char *at = lower; *at != '\0'; at++)
        *at = (char)tolower((unsigned char)*at);
    return af_machine_gpu_name_find(lower, &vendor, &target) ? target : NULL;
}

/* The GPUs of an AMD machine; their targets are not numbers. */
static void check_amd_gpu(struct af_rung_context *context, const struct af_gpu *gpu)
{
    static const enum af_reason_id reasons[] = {
        AF_REASON_ROCM_TARGET_UNKNOWN, AF_REASON_KERNELS_NOT_ROCM, AF_REASON_KERNELS_RDNA,
        AF_REASON_KERNELS_ROCM}; /* by enum af_amd_kernels */
    const char *name = af_fact_text_or(&gpu->name, "the GPU");
    const char *target = af_fact_text_or(&gpu->sm, NULL);
    if (target == NULL)
        target = target_by_name(context->arena, name);
    if (target == NULL) {
        af_rung_add_reason(context, AF_REASON_UNKNOWN_GPU, "LLVM target of %s", name);
        return;
    }
    af_rung_add_reason(context, reasons[af_amd_target_of(target).kernels], "%s (%s)", name,
                       target);
}

static void check_amd(struct af_rung_context *context, const struct af_view *view)
{
    const struct af_gpu_rows *gpus = &view->machine->gpus;
    if (view->torch.state == AF_FACT_KNOWN && !view->torch.rocm)
        af_rung_add_reason(context, AF_REASON_MACHINE_ROCM, "torch %s is not a ROCm build",
                           view->torch.text);
    if (!view->amd)
        af_rung_add_reason(context, AF_REASON_UNKNOWN_GPU, NULL);
    for (size_t i = 0; i < gpus->count; i++)
        if (af_fact_is(&gpus->rows[i].vendor, "amd"))
            check_amd_gpu(context, &gpus->rows[i]);
}

/* Whether every GPU is served by the memory-efficient kernel and by no other. */
static bool only_efficient(const struct af_view *view)
{
    for (size_t i = 0; i < view->gpu_count; i++)
        if (view->gpus[i].sm < SM_EFFICIENT_MIN || view->gpus[i].sm >= AF_SM_FLASH_MIN)
            return false;
    return view->gpu_count > 0;
}

/* PyTorch's own builds for Windows have the memory-efficient kernel, but not FlashAttention. */
static void check_windows(struct af_rung_context *context, const struct af_view *view)
{
    const struct af_view_torch *torch = &view->torch;
    bool lacks = torch->build == AF_FIT_TORCH_RELEASE && !torch->rocm &&
                 torch->release != NULL && torch->release->flash_kernels_windows == AF_NO;
    if (!torch->rocm && (view->gpu == AF_FACT_UNKNOWN || view->amd || only_efficient(view)))
        return;
    af_rung_add_reason(context, lacks ? AF_REASON_KERNELS_WINDOWS : AF_REASON_KERNELS_UNKNOWN,
                       "torch %s for Windows", torch->text);
}

static void check_torch(struct af_rung_context *context, const struct af_view *view)
{
    const struct af_view_torch *torch = &view->torch;
    if (torch->state == AF_FACT_ABSENT)
        af_rung_add_reason(context, AF_REASON_TORCH_MISSING, NULL);
    else if (torch->state == AF_FACT_UNKNOWN)
        af_rung_add_reason(context, AF_REASON_UNKNOWN_TORCH, NULL);
    if (torch->state != AF_FACT_KNOWN)
        return;
    if (af_view_uses_rocm(view) || view->other != NULL)
        ; /* see check_view() */
    else if (torch->cuda == AF_FACT_ABSENT)
        af_rung_add_reason(context, AF_REASON_TORCH_WITHOUT_CUDA, "torch %s", torch->text);
    else if (torch->cuda == AF_FACT_UNKNOWN)
        af_rung_add_reason(context, AF_REASON_UNKNOWN_TORCH_CUDA, "torch %s", torch->text);
    if (torch->major < 2 || (torch->major == 2 && torch->minor < FIRST_MINOR))
        af_rung_add_reason(context, AF_REASON_KERNELS_MISSING, "torch %s", torch->text);
    else if (af_equal(view->os, "windows"))
        check_windows(context, view);
}

/* The driver must support torch's CUDA, as for a wheel. */
static void check_driver(struct af_rung_context *context, const struct af_view *view)
{
    int major = view->torch.cuda_major;
    const char *need;
    if (af_driver_serves(view, major, &need) == AF_NO)
        af_rung_add_reason(context, AF_REASON_DRIVER,
                           "CUDA %d needs driver %s or newer, but %s is installed", major, need,
                           view->driver_text == NULL ? "one for another CUDA"
                                                     : view->driver_text);
}

static void check_nvidia(struct af_rung_context *context, const struct af_view *view)
{
    bool any = false, partly = false;
    bool left_out[AF_VIEW_GPUS_MAX];
    if (view->gpu == AF_FACT_ABSENT)
        af_rung_add_reason(context, AF_REASON_NO_GPU, "%s", view->gpu_source);
    else if (view->gpu == AF_FACT_UNKNOWN)
        af_rung_add_reason(context, AF_REASON_UNKNOWN_GPU, NULL);
    for (size_t i = 0; i < view->gpu_count; i++)
        any = any || view->gpus[i].sm >= AF_SM_FLASH_MIN;
    for (size_t i = 0; i < view->gpu_count; i++) {
        const struct af_view_gpu *gpu = &view->gpus[i];
        left_out[i] = (any && gpu->sm >= 0 && gpu->sm < AF_SM_FLASH_MIN) ||
                      af_view_torch_leaves_out(view, gpu);
        partly = partly || left_out[i];
        if (!left_out[i])
            check_gpu(context, gpu, surely_serves_one(view));
    }
    if (partly)
        af_rung_add_reason(context, AF_REASON_GPU_PARTLY, "%s",
                           af_view_gpus_text(view, left_out, context->arena));
    check_driver(context, view);
}

static void check_view(struct af_rung_context *context, const struct af_view *view)
{
    context->view = view;
    check_torch(context, view);
    if (view->os == NULL || view->arch == NULL)
        af_rung_add_reason(context, af_view_unknown_platform(view), NULL);
    if (af_equal(view->os, "macos") && view->other == NULL)
        af_rung_add_reason(context, AF_REASON_NO_GPU_PLATFORM, "macos");
    if (af_view_uses_rocm(view))
        check_amd(context, view);
    else if (view->other != NULL)
        af_rung_add_reason(context,
                           af_fact_is(&view->other->vendor, "apple") ? AF_REASON_KERNELS_MPS
                                                                     : AF_REASON_KERNELS_XPU,
                           NULL);
    else
        check_nvidia(context, view);
}

/* Those of several machines that only the memory-efficient kernel serves; "" if all are. */
static const char *efficient_machines(const struct af_rung_context *context)
{
    struct af_text text = {0};
    size_t count = 0;
    for (size_t i = 0; i < context->fit->view_count; i++) {
        if (only_efficient(&context->fit->views[i]))
            af_text_format(&text, "%s%s", count++ > 0 ? ", " : "",
                           context->fit->views[i].machine->name);
    }
    const char *names = af_text_take(&text, context->arena);
    return count < context->fit->view_count ? names : "";
}

static const char *summary(const struct af_rung_context *context)
{
    const struct af_view *view = &context->fit->views[0];
    const char *some = efficient_machines(context);
    if (some[0] != '\0')
        return af_arena_format(context->arena,
                               "FlashAttention-2 inside torch, and its memory-efficient kernel "
                               "on %s",
                               some);
    if (af_rung_has_reason(context, AF_REASON_KERNELS_EFFICIENT))
        return "the memory-efficient kernel inside torch";
    if (af_view_uses_rocm(view))
        return "FlashAttention for ROCm inside torch";
    return "FlashAttention-2 inside torch";
}

/* What an image of NVIDIA has for its own torch. */
static void say_image(struct af_rung_context *context, const struct af_view *view)
{
    const struct af_package *own = af_machine_package(view->machine, "flash-attn");
    if (view->torch.build != AF_FIT_TORCH_VENDOR)
        return;
    context->view = view;
    af_rung_add_reason(context, own != NULL ? AF_REASON_VENDOR_BRINGS : AF_REASON_VENDOR_LACKS,
                       "%s", own == NULL ? "" : af_fact_text_or(&own->version, ""));
}

void af_rung_torch_kernels(struct af_rung_context *context)
{
    af_rung_start(context, AF_RUNG_TORCH_KERNELS);
    for (size_t i = 0; i < context->fit->view_count; i++) {
        check_view(context, &context->fit->views[i]);
        say_image(context, &context->fit->views[i]);
    }
    context->view = NULL;
    if (context->fit->options->needs_softcap)
        af_rung_add_reason(context, AF_REASON_KERNELS_SOFTCAP, NULL);
    af_rung_finish(context);
    if (context->rung->answer == AF_NO) {
        context->rung->summary = "torch's own FlashAttention kernels cannot be used here";
        return;
    }
    const struct af_view_torch *torch = &context->fit->views[0].torch;
    bool paged = torch->major > 2 || (torch->major == 2 && torch->minor >= PAGED_MINOR);
    const char *here = torch->state != AF_FACT_KNOWN ? ""
                       : paged                       ? "this torch has them"
                                                     : "this torch does not have them";
    if (!af_rung_has_reason(context, AF_REASON_KERNELS_EFFICIENT) &&
        !context->fit->views[0].amd)
        af_rung_add_reason(context, AF_REASON_KERNELS_LACK, "%s", here);
    if (af_rung_python_package_fits(context))
        af_rung_add_reason(context, AF_REASON_KERNELS_BY_PACKAGE, NULL);
    context->rung->reason_count = context->reason_count;
    context->rung->price = (struct af_rung_cost){0, 0, 0, 0};
    context->rung->summary = summary(context);
}
