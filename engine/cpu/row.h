/*
 * row.h: the manifest rows that the files of an instruction set define, and
 * their names. AF_LEVEL is the instruction set, AF_NEEDS its bit, both defined
 * before a *_types.inc is included.
 */
#ifndef AF_ENGINE_CPU_ROW_H
#define AF_ENGINE_CPU_ROW_H

#include "engine/cpu/kernels.h"

#define AF_NAME_OF(operation, type, level, tile) af_##operation##_##type##__##level##_##tile
#define AF_TEXT_OF(name) #name
#define AF_NAME(operation, type, level, tile) AF_NAME_OF(operation, type, level, tile)
#define AF_TEXT(name) AF_TEXT_OF(name)

/* `taken` are the features it has; positive: only scales above 0; rows it prefers. */
#define AF_FORWARD_ROW(type, element, taken, positive, rows)                                   \
    const struct af_kernel AF_NAME(fwd, type, AF_LEVEL, AF_TILE) = {                           \
        .name = AF_TEXT(AF_NAME(fwd, type, AF_LEVEL, AF_TILE)),                                \
        .operation = AF_FORWARD,                                                               \
        .dtype = element,                                                                      \
        .needs = AF_NEEDS,                                                                     \
        .features = taken,                                                                     \
        .positive_scale = positive,                                                            \
        .rows_max = AF_TILES_MAX * TILE_VECS * AF_LANES,                                       \
        .rows_granule = TILE_VECS * AF_LANES,                                                  \
        .rows_preferred = rows,                                                                \
        .scratch_bytes = scratch_bytes_##type,                                                 \
        .run_forward = run_##type,                                                             \
    }

#define AF_DECODE_ROW(type, element)                                                           \
    const struct af_kernel AF_NAME(dec, type, AF_LEVEL, r16) = {                               \
        .name = AF_TEXT(AF_NAME(dec, type, AF_LEVEL, r16)),                                    \
        .operation = AF_DECODE,                                                                \
        .dtype = element,                                                                      \
        .needs = AF_NEEDS,                                                                     \
        .features = AF_FEATURES_ALL & ~(uint32_t)AF_FEATURE_DROPOUT,                           \
        .rows_max = AF_DECODE_ROWS_MAX,                                                        \
        .rows_granule = 1,                                                                     \
        .rows_preferred = AF_DECODE_ROWS_MAX,                                                  \
        .scratch_bytes = scratch_bytes_##type,                                                 \
        .run_forward = run_##type,                                                             \
    }

#define AF_BACKWARD_ROW(type, element)                                                         \
    const struct af_backward_kernel AF_NAME(bwd, type, AF_LEVEL, AF_TILE) = {                  \
        .name = AF_TEXT(AF_NAME(bwd, type, AF_LEVEL, AF_TILE)),                                \
        .dtype = element,                                                                      \
        .needs = AF_NEEDS,                                                                     \
        .features = AF_FEATURES_ALL,                                                           \
        .scratch_bytes = scratch_bytes_##type,                                                 \
        .run = run_##type,                                                                     \
    }

#endif
