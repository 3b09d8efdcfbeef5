/*
 * kernels.h: the list of the CPU kernels, and what type_kernels.h needs to define them.
 *
 * kernels_LEVEL.c defines AF_LEVEL, the instruction set in the names; AF_NEEDS, the bits of
 * the instruction sets; and AF_TILE.
 */
#ifndef AF_ENGINE_CPU_KERNELS_H
#define AF_ENGINE_CPU_KERNELS_H

#include "engine/attn/kernel.h"
#include "engine/base/instructions.h"

/* All kernels of this build, slowest first. Static storage. */
const struct af_kernel *const *af_kernels(size_t *count_out);

/* The decode kernels accept tasks of at most this many rows. */
#define AF_DECODE_ROWS_MAX 16

/* Forward tasks have at most this many tiles; rows_max is the rows of these. */
#define AF_TILES_MAX 64

#define AF_NAME_OF(operation, type, level, tile) af_##operation##_##type##__##level##_##tile
#define AF_TEXT_OF(name) #name
#define AF_NAME(operation, type, level, tile) AF_NAME_OF(operation, type, level, tile)
#define AF_TEXT(name) AF_TEXT_OF(name)

#define AF_KERNEL(operation, type, level, tile)                                                \
    extern const struct af_kernel AF_NAME(operation, type, level, tile);
#include "engine/cpu/kernels.inc"
#undef AF_KERNEL

/* A function of a template, for one operation and element type. */
#define AF_FUNCTION_OF(name, operation, type) name##_##operation##_##type
#define AF_FUNCTION(name, operation, type) AF_FUNCTION_OF(name, operation, type)

/*
 * One part of a kernel's scratch, `used` bytes of which are taken before it: sets `pointer`
 * unless `memory` is NULL.
 */
#define AF_PART(pointer, type, count)                                                          \
    do {                                                                                       \
        if (memory != NULL)                                                                    \
            (pointer) = (type *)(void *)(memory + used);                                       \
        used += ((size_t)(count) * sizeof(type) + 255) & ~(size_t)63;                          \
    } while (0)

/* The row of a decode kernel. `f8`: keys and values are fp8. */
#define AF_DECODE_ROW(type, element, f8)                                                       \
    const struct af_kernel AF_NAME(dec, type, AF_LEVEL, r16) = {                               \
        .name = AF_TEXT(AF_NAME(dec, type, AF_LEVEL, r16)),                                    \
        .operation = AF_DECODE,                                                                \
        .dtype = element,                                                                      \
        .reads_f8 = f8,                                                                        \
        .needs = AF_NEEDS,                                                                     \
        .lacks_dropout = true,                                                                 \
        .rows_max = AF_DECODE_ROWS_MAX,                                                        \
        .rows_granule = 1,                                                                     \
        .rows_preferred = AF_DECODE_ROWS_MAX,                                                  \
        .suits = AF_FN(suits),                                                                 \
        .scratch_bytes = AF_FN(scratch_bytes),                                                 \
        .run_forward = AF_FN(run),                                                             \
    }

#endif
