/*
 * forward_avx512.c: the forward kernels for AVX-512 and AVX-512 bf16.
 *
 * Tile: 48 rows (3 vectors) by 8 keys, 24 accumulators of 32 registers. f16,
 * and bf16 without its dot product, are converted to f32 once per block of keys.
 */
#include "attn/rows.h"
#include "cpu/vec_avx512.h"

#include "cpu/tanh.h"

#include "cpu/kernels.h"

#define TILE_VECS 3
#define TILE_ROWS 8

/* f32 */
#define AF_FN(name) name##_f32
#define AF_ELEMENT float
#define AF_DIRECT 1
#define AF_PAIRS 0
#include "cpu/tile.inc"

#include "cpu/forward.inc"

const struct af_kernel af_fwd_f32__avx512_q48k8 = {
    .name = "af_fwd_f32__avx512_q48k8",
    .operation = AF_FORWARD,
    .dtype = ANYFLASH_F32,
    .needs = AF_CPU_AVX512,
    .features = AF_FEATURES_ALL,
    .rows_granule = 48,
    .rows_preferred = 192,
    .scratch_bytes = scratch_bytes_f32,
    .run_forward = run_f32,
};

#undef AF_FN
#undef AF_ELEMENT
#undef AF_DIRECT
#undef AF_PAIRS

/* f16, converted */
static void load_row(const uint16_t *from, float *to, int64_t count)
{
    int64_t i = 0;
    for (; i + 16 <= count; i += 16)
        _mm512_storeu_ps(to + i, _mm512_cvtph_ps(_mm256_loadu_si256((const void *)(from + i))));
    for (; i < count; i++)
        to[i] = af_f32_of_f16(from[i]);
}
#define AF_FN(name) name##_f16
#define AF_ELEMENT uint16_t
#define AF_DIRECT 0
#define AF_PAIRS 0
#include "cpu/tile.inc"

#include "cpu/forward.inc"

const struct af_kernel af_fwd_f16__avx512_q48k8 = {
    .name = "af_fwd_f16__avx512_q48k8",
    .operation = AF_FORWARD,
    .dtype = ANYFLASH_F16,
    .needs = AF_CPU_AVX512,
    .features = AF_FEATURES_ALL,
    .rows_granule = 48,
    .rows_preferred = 192,
    .scratch_bytes = scratch_bytes_f16,
    .run_forward = run_f16,
};

#undef AF_FN
#undef AF_ELEMENT
#undef AF_DIRECT
#undef AF_PAIRS
