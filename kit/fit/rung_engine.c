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

void af_rung_engine(struct af_climb *climb)
{
    af_climb_start(climb, AF_RUNG_ENGINE);
    for (size_t i = 0; i < climb->judge->view_count; i++) {
        const struct af_view *view = &climb->judge->views[i];
        if (view->os == NULL || view->arch == NULL)
            af_climb_reason(climb, AF_REASON_UNKNOWN_PLATFORM, NULL);
        else if (!served(view))
            af_climb_reason(climb, AF_REASON_ENGINE_PLATFORM, "here: %s %s", view->os,
                            view->arch);
    }
    if (af_climb_takes_package(climb))
        af_climb_reason(climb, AF_REASON_ENGINE_BY_PACKAGE, NULL);
    af_climb_end(climb);
    climb->rung->price = (struct af_price){0, 0, 0, 0};
    climb->rung->summary = climb->rung->answer == AF_NO
                               ? "no attention without a GPU is planned for this platform"
                               : "exact attention without flash-attn, for CPU tensors and old "
                                 "GPUs, through scaled_dot_product_attention";
}
