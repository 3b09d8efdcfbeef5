/*
 * rung_torch_kernels.c: the FlashAttention-2 kernels inside torch's own wheel.
 * CUDA builds have them from 2.4 on, for SM 8.0 and newer if torch was compiled
 * for the GPU. This also holds for pre-releases and vendor builds, because
 * nothing has to match them.
 *
 * The step is to call torch's scaled_dot_product_attention, which selects these
 * kernels itself.
 */
#include "kit/base/text.h"
#include "kit/fit/gpu_targets.h"
#include "kit/fit/rung.h"

#include <stdio.h>
#include <string.h>

#define FIRST_MINOR 4
#define PAGED_MINOR 11
#define SM_MIN 80

static enum af_answer torch_covers(const struct af_view *view, int sm)
{
    const struct af_fact *targets = &view->machine->torch.gpu_targets;
    const struct af_catalog_torch_variant *variant = view->torch.variant;
    if (targets->state == AF_FACT_KNOWN && targets->value.list.count > 0)
        return af_sm_list_covers(targets->value.list.items, targets->value.list.count, sm);
    if (variant != NULL && variant->sm.count > 0)
        return af_sm_list_covers(variant->sm.items, variant->sm.count, sm);
    return AF_UNKNOWN;
}

static void check_gpu(struct af_rung_context *context, const struct af_view *view,
                      const struct af_view_gpu *gpu)
{
    const char *sm = gpu->sm < 0 ? "?" : af_sm_text(context->arena, gpu->sm);
    if (sm == NULL)
        return;
    if (gpu->sm < 0)
        af_rung_add_reason(context, AF_REASON_UNKNOWN_GPU, "compute capability of %s",
                           gpu->name);
    else if (gpu->sm < SM_MIN)
        af_rung_add_reason(context, AF_REASON_SM_UNSUPPORTED, "%s (sm %s)", gpu->name, sm);
    else if (torch_covers(view, gpu->sm) == AF_NO)
        af_rung_add_reason(context, AF_REASON_TORCH_SM, "%s (sm %s)", gpu->name, sm);
    else if (torch_covers(view, gpu->sm) == AF_UNKNOWN && gpu->sm > 90)
        af_rung_add_reason(context, AF_REASON_UNKNOWN_TORCH_SM, "%s (sm %s)", gpu->name, sm);
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
    if (torch->rocm)
        af_rung_add_reason(context, AF_REASON_MACHINE_ROCM, "torch %s is a ROCm build",
                           torch->text);
    else if (torch->cuda == AF_FACT_ABSENT)
        af_rung_add_reason(context, AF_REASON_TORCH_WITHOUT_CUDA, "torch %s", torch->text);
    else if (torch->cuda == AF_FACT_UNKNOWN)
        af_rung_add_reason(context, AF_REASON_UNKNOWN_TORCH_CUDA, "torch %s", torch->text);
    if (torch->major < 2 || (torch->major == 2 && torch->minor < FIRST_MINOR))
        af_rung_add_reason(context, AF_REASON_KERNELS_MISSING, "torch %s", torch->text);
    else if (af_equal(view->os, "windows"))
        af_rung_add_reason(context, AF_REASON_KERNELS_UNKNOWN, "torch for Windows");
}

/* The driver must support torch's CUDA, as for a wheel. */
static void check_driver(struct af_rung_context *context, const struct af_view *view)
{
    int major = view->torch.cuda_major;
    const char *need;
    if (af_driver_serves(view, context->fit->tables, major, &need) == AF_NO)
        af_rung_add_reason(context, AF_REASON_DRIVER,
                           "CUDA %d needs driver %s or newer, installed is %s", major, need,
                           view->driver_text == NULL ? "one for another CUDA"
                                                     : view->driver_text);
}

static void check_view(struct af_rung_context *context, const struct af_view *view)
{
    check_torch(context, view);
    if (af_equal(view->os, "macos"))
        af_rung_add_reason(context, AF_REASON_NO_GPU_PLATFORM, "macos");
    if (view->gpu == AF_FACT_ABSENT)
        af_rung_add_reason(context, AF_REASON_NO_GPU, "%s",
                           view->gpu_source == NULL ? "" : view->gpu_source);
    else if (view->gpu == AF_FACT_UNKNOWN)
        af_rung_add_reason(context, AF_REASON_UNKNOWN_GPU, NULL);
    bool any = false;
    for (size_t i = 0; i < view->gpu_count; i++)
        any = any || view->gpus[i].sm >= SM_MIN;
    for (size_t i = 0; i < view->gpu_count; i++) {
        if (!any || view->gpus[i].sm < 0 || view->gpus[i].sm >= SM_MIN)
            check_gpu(context, view, &view->gpus[i]);
        else
            af_rung_add_reason(context, AF_REASON_GPU_PARTLY, "%s is below sm 8.0",
                               view->gpus[i].name);
    }
    check_driver(context, view);
}

void af_rung_torch_kernels(struct af_rung_context *context)
{
    af_rung_start(context, AF_RUNG_TORCH_KERNELS);
    for (size_t i = 0; i < context->fit->view_count; i++)
        check_view(context, &context->fit->views[i]);
    if (context->fit->options->needs_softcap)
        af_rung_add_reason(context, AF_REASON_KERNELS_SOFTCAP, NULL);
    af_rung_finish(context);
    if (context->rung->answer == AF_NO) {
        context->rung->summary = "torch's own FlashAttention kernels cannot be used here";
        return;
    }
    bool paged = context->fit->views[0].torch.minor >= PAGED_MINOR;
    af_rung_add_reason(context, AF_REASON_KERNELS_LACK, "%s",
                       paged ? "this torch has them" : "this torch does not have them");
    if (af_rung_python_package_fits(context))
        af_rung_add_reason(context, AF_REASON_KERNELS_BY_PACKAGE, NULL);
    context->rung->reason_count = context->reason_count;
    context->rung->price = (struct af_rung_cost){0, 0, 0, 0};
    context->rung->summary = "FlashAttention-2 through scaled_dot_product_attention";
}
