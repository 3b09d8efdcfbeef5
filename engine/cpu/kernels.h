/*
 * kernels.h: the CPU kernels by name, and how a kernel file defines its rows in
 * the manifest.
 *
 * A kernel file defines AF_LEVEL, the instruction set in its name; AF_NEEDS, the
 * bits of the instruction sets; AF_TILE, except for decode; and TILE_VECS.
 */
#ifndef AF_ENGINE_CPU_KERNELS_H
#define AF_ENGINE_CPU_KERNELS_H

#include "engine/attn/kernel.h"
#include "engine/base/instructions.h"

#define AF_FEATURES_ALL UINT32_MAX

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

/*
 * `f8`: keys and values are fp8; `lacks`: features that the kernel does not support;
 * `positive`: it declines a negative scale; `rows`: rows_preferred.
 */
#define AF_FORWARD_ROW_OF(type, element, f8, lacks, positive, rows)                            \
    const struct af_kernel AF_NAME(fwd, type, AF_LEVEL, AF_TILE) = {                           \
        .name = AF_TEXT(AF_NAME(fwd, type, AF_LEVEL, AF_TILE)),                                \
        .operation = AF_FORWARD,                                                               \
        .dtype = element,                                                                      \
        .reads_f8 = f8,                                                                        \
        .needs = AF_NEEDS,                                                                     \
        .features = AF_FEATURES_ALL & ~(uint32_t)(lacks),                                      \
        .positive_scale = positive,                                                            \
        .rows_max = AF_TILES_MAX * TILE_VECS * AF_LANES,                                       \
        .rows_granule = TILE_VECS * AF_LANES,                                                  \
        .rows_preferred = rows,                                                                \
        .scratch_bytes = scratch_bytes_##type,                                                 \
        .run_forward = run_##type,                                                             \
    }

#define AF_FORWARD_ROW(type, element) AF_FORWARD_ROW_OF(type, element, false, 0, false, 192)
#define AF_FORWARD_ROW_F8(type, element, positive, rows)                                       \
    AF_FORWARD_ROW_OF(type, element, true, AF_FEATURE_DROPOUT, positive, rows)

#define AF_DECODE_ROW(type, element) AF_DECODE_ROW_OF(type, element, false, type)
#define AF_DECODE_ROW_F8(type, element) AF_DECODE_ROW_OF(type, element, true, type)

/* `suffix`: that of the functions' names. */
#define AF_DECODE_ROW_OF(type, element, f8, suffix)                                            \
    const struct af_kernel AF_NAME(dec, type, AF_LEVEL, r16) = {                               \
        .name = AF_TEXT(AF_NAME(dec, type, AF_LEVEL, r16)),                                    \
        .operation = AF_DECODE,                                                                \
        .dtype = element,                                                                      \
        .reads_f8 = f8,                                                                        \
        .needs = AF_NEEDS,                                                                     \
        .features = AF_FEATURES_ALL & ~(uint32_t)AF_FEATURE_DROPOUT,                           \
        .rows_max = AF_DECODE_ROWS_MAX,                                                        \
        .rows_granule = 1,                                                                     \
        .rows_preferred = AF_DECODE_ROWS_MAX,                                                  \
        .scratch_bytes = scratch_bytes_##suffix,                                               \
        .run_forward = run_##suffix,                                                           \
    }

#define AF_BACKWARD_ROW(type, element)                                                         \
    const struct af_kernel AF_NAME(bwd, type, AF_LEVEL, AF_TILE) = {                           \
        .name = AF_TEXT(AF_NAME(bwd, type, AF_LEVEL, AF_TILE)),                                \
        .operation = AF_BACKWARD,                                                              \
        .dtype = element,                                                                      \
        .needs = AF_NEEDS,                                                                     \
        .features = AF_FEATURES_ALL,                                                           \
        .scratch_bytes = scratch_bytes_##type,                                                 \
        .run_backward = run_##type,                                                            \
    }

#endif
