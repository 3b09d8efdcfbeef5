/*
 * kernels.c: the list of the CPU kernels of this build, from kernels.inc.
 */
#include "engine/cpu/kernels.h"

#define AF_KERNEL(operation, type, level, tile) &AF_NAME(operation, type, level, tile),
static const struct af_kernel *const kernels[] = {
#include "engine/cpu/kernels.inc"
};
#undef AF_KERNEL

const struct af_kernel *const *af_kernels(size_t *count_out)
{
    *count_out = AF_COUNT(kernels);
    return kernels;
}
