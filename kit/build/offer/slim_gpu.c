/*
 * slim_gpu.c: targets of a source build, and what the GPUs that they serve have
 * in common.
 */
#include "kit/build/offer/slim.h"

#include <string.h>

#define KIB 1024

/*
 * Compute capability of GPUs, their target in setup.py, and shared memory: what
 * a block may ask for, and what a multiprocessor has. 8.7 has the memory of 8.0,
 * but is_sm8x holds; so 80 stands for all of 8.x, 86 for 8.6 and 8.9 alone.
 */
static const struct {
    int arch, target;
    struct af_slim_gpu gpu;
} targets[] = {
    {80, 80, {0, 0, AF_UNKNOWN}},
    {86, 80, {99 * KIB, 100 * KIB, AF_YES}},
    {90, 90, {227 * KIB, 228 * KIB, AF_NO}},
    {100, 100, {227 * KIB, 228 * KIB, AF_NO}},
    {120, 120, {99 * KIB, 100 * KIB, AF_NO}},
};

static size_t row_of(int arch)
{
    size_t row = 0;
    while (targets[row].arch != arch)
        row++;
    return row;
}

int af_slim_target(int arch)
{
    return targets[row_of(arch)].target;
}

static int arch_of(int sm)
{
    switch (sm / 10) {
    case 8:
        return sm == 86 || sm == 89 ? 86 : 80;
    case 9:
        return 90;
    case 10:
        return 100;
    case 12:
        return 120;
    default:
        return 0;
    }
}

bool af_slim_add_arch(struct af_slim *slim, int sm)
{
    int arch = arch_of(sm);
    size_t at = 0;
    if (arch == 0)
        return false;
    while (at < slim->arch_count && slim->archs[at] < arch)
        at++;
    if (at < slim->arch_count && slim->archs[at] == arch)
        return true;
    if (at > 0 && arch == 86 && slim->archs[at - 1] == 80)
        return true;
    if (at < slim->arch_count && arch == 80 && slim->archs[at] == 86) {
        slim->archs[at] = arch;
        return true;
    }
    memmove(&slim->archs[at + 1], &slim->archs[at],
            (slim->arch_count - at) * sizeof slim->archs[0]);
    slim->archs[at] = arch;
    slim->arch_count++;
    return true;
}

/*
 * Backward of head size 256 with dropout: the launcher has no kernel for little
 * memory, and launches none without a word. A wheel for 8.6 that runs on 8.0 must
 * have the other.
 */
static bool needs_much_memory(const struct af_slim *slim)
{
    return slim->backward && (slim->features & AF_FLASH_DROPOUT) != 0 &&
           (slim->head_dims & 1u << (AF_SLIM_HEAD_DIMS - 1)) != 0;
}

void af_slim_gpu(const struct af_slim *slim, struct af_slim_gpu *gpu_out)
{
    struct af_slim_gpu all = {0, 0, AF_UNKNOWN};
    for (size_t i = 0; i < slim->arch_count; i++) {
        const struct af_slim_gpu *one = &targets[row_of(slim->archs[i])].gpu;
        if (i == 0)
            all = *one;
        if (one->smem_per_block != all.smem_per_block ||
            (slim->archs[i] == 86 && needs_much_memory(slim)))
            all.smem_per_block = all.smem_per_sm = 0;
        if (one->is_sm8x != all.is_sm8x)
            all.is_sm8x = AF_UNKNOWN;
    }
    *gpu_out = all;
}
