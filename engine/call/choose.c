/*
 * choose.c: chooses a kernel from the manifest for forward_plan.c, backward.c and explain.c.
 */
#include "engine/call/choose.h"

#include "engine/cpu/kernels.h"

const char *af_decline_text(enum af_decline decline)
{
    static const char *const texts[] = {
        [AF_DECLINE_NOT] = "accepts the problem",
        [AF_DECLINE_DTYPE] = "is for a different element type",
        [AF_DECLINE_CPU] = "needs instructions that this processor or system does not support",
        [AF_DECLINE_DROPOUT] = "has no dropout",
        [AF_DECLINE_SCALE] = "needs a positive scale",
    };
    return texts[decline];
}

enum af_decline af_kernel_declines(const struct af_kernel *kernel,
                                   const struct af_problem *problem, uint32_t cpu_features)
{
    if (kernel->dtype != 0 && kernel->dtype != (enum anyflash_dtype)problem->a.q.dtype)
        return AF_DECLINE_DTYPE;
    if (kernel->reads_f8 != af_dtype_is_f8(problem->a.k.dtype))
        return AF_DECLINE_DTYPE;
    if ((kernel->needs & ~cpu_features) != 0)
        return AF_DECLINE_CPU;
    if (kernel->lacks_dropout && problem->a.dropout > 0)
        return AF_DECLINE_DROPOUT;
    if (kernel->positive_scale && !(problem->a.scale > 0))
        return AF_DECLINE_SCALE;
    return AF_DECLINE_NOT;
}

const struct af_kernel *af_kernel_choose(const struct af_problem *problem,
                                         enum af_kernel_operation operation,
                                         uint32_t cpu_features)
{
    size_t count;
    const struct af_kernel *const *kernels = af_kernels(&count);
    while (count-- > 0) {
        if (kernels[count]->operation == operation &&
            af_kernel_declines(kernels[count], problem, cpu_features) == AF_DECLINE_NOT)
            return kernels[count];
    }
    return NULL;
}
