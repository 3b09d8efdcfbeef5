/*
 * forward_avx512bf16.c: bf16 forward by VDPBF16PS: two products an element.
 *
 * Words are pairs of bf16 along the head size for scores, and along the keys
 * for values, whose pairs are made once per block of keys. Probabilities are
 * rounded to bf16, sums are not.
 */
#include "attn/rows.h"
#include "cpu/vec_avx512bf16.h"

#include "cpu/tanh.h"

#include "cpu/row.h"

/* Lane i: even[i] in the lower half, odd[i] in the upper, rounded to bf16. */
AF_INLINE vec vec_pair(vec even, vec odd)
{
    return vec_interleave((__m512i)_mm512_cvtne2ps_pbh(odd, even));
}

/* Two rows of values side by side, in panels of 8 columns `panel` floats apart. */
static void pair_rows(const uint16_t *even, const uint16_t *odd, int64_t count, float *to,
                      int64_t panel)
{
    for (int64_t d = 0; d < count; d += 16) {
        __mmask16 some = (__mmask16)(count - d < 16 ? (1u << (count - d)) - 1u : 0xFFFFu);
        __m512i low = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(some, even + d));
        __m512i high = odd == NULL
                           ? _mm512_setzero_si512()
                           : _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(some, odd + d));
        __m512i pairs = _mm512_or_si512(low, _mm512_slli_epi32(high, 16));
        _mm256_store_si256((void *)(to + d / 8 * panel), _mm512_castsi512_si256(pairs));
        if (count - d > 8)
            _mm256_store_si256((void *)(to + (d / 8 + 1) * panel),
                               _mm512_extracti64x4_epi64(pairs, 1));
    }
}

#define AF_LEVEL avx512bf16
#define AF_TILE q48k8
#define AF_NEEDS AF_CPU_AVX512BF16
#define TILE_VECS 3
#define TILE_ROWS 8
#define AF_FN(name) name##_bf16
#define AF_ELEMENT uint16_t
#define AF_DIRECT 1
#define AF_LOAD vec_load_bf16
#define AF_LOAD_SOME vec_load_some_bf16
#define AF_PAIRS 1
#include "cpu/finite.inc"

#include "cpu/tile.inc"

#include "cpu/forward.inc"

AF_FORWARD_ROW(bf16, ANYFLASH_BF16, AF_FEATURES_ALL & ~(uint32_t)AF_FEATURE_DROPOUT, true, 384);
