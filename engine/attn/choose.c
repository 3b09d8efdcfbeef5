/*
 * choose.c: walks the manifest. Called by attend.c and explain.
 */
#include "engine/attn/choose.h"

const char *af_decline_text(enum af_decline decline)
{
#define AF_DECLINE(id, text) text,
    static const char *const texts[] = {
        "takes it",
#include "engine/attn/declines.inc"
    };
#undef AF_DECLINE
    return texts[decline];
}

enum af_decline af_kernel_declines(const struct af_kernel *kernel,
                                   const struct af_problem *problem, uint32_t cpu_features)
{
    if (kernel->dtype != (enum anyflash_dtype)problem->a.q.dtype)
        return AF_DECLINE_DTYPE;
    if ((kernel->needs & ~cpu_features) != 0)
        return AF_DECLINE_CPU;
    if ((problem->features & ~kernel->features) != 0)
        return AF_DECLINE_FEATURE;
    if (kernel->positive_scale && !(problem->a.scale > 0))
        return AF_DECLINE_SCALE;
    return AF_TAKES_IT;
}

const struct af_kernel *af_choose(const struct af_problem *problem,
                                  enum af_kernel_operation operation, uint32_t cpu_features)
{
    size_t count;
    const struct af_kernel *const *kernels = af_kernels(&count);
    for (size_t k = count; k > 0; k--) {
        const struct af_kernel *kernel = kernels[k - 1];
        if (kernel->operation == operation &&
            af_kernel_declines(kernel, problem, cpu_features) == AF_TAKES_IT)
            return kernel;
    }
    return NULL;
}
