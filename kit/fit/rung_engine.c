/*
 * rung_engine.c: the last rung: exact attention for what no CUDA kernel serves:
 * CPU tensors, old GPUs, machines without one: torch's scaled_dot_product_attention
 * everywhere, which the engine of this project can compute on CPUs.
 */
#include "kit/base/text.h"
#include "kit/fit/rung.h"

static bool served(const struct af_view *view)
{
    bool arch = view->arch != NULL &&
                (af_equal(view->arch, "x86_64") || af_equal(view->arch, "aarch64"));
    return arch && (af_equal(view->os, "linux") || af_equal(view->os, "macos") ||
                    af_equal(view->os, "windows"));
}

void af_rung_engine(struct af_rung_context *context)
{
    af_rung_start(context, AF_RUNG_ENGINE);
    for (size_t i = 0; i < context->fit->view_count; i++) {
        const struct af_view *view = &context->fit->views[i];
        if (view->os == NULL || view->arch == NULL)
            af_rung_add_reason(context, AF_REASON_UNKNOWN_PLATFORM, NULL);
        else if (!served(view))
            af_rung_add_reason(context, AF_REASON_ENGINE_PLATFORM, "here: %s %s", view->os,
                               view->arch);
    }
    if (af_rung_python_package_fits(context))
        af_rung_add_reason(context, AF_REASON_ENGINE_BY_PACKAGE, NULL);
    af_rung_finish(context);
    context->rung->price = (struct af_rung_cost){0, 0, 0, 0};
    context->rung->summary =
        context->rung->answer == AF_NO
            ? "this platform is not supported"
            : "exact attention for CPU tensors and older GPUs, without flash-attn";
}
