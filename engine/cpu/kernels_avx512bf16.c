/*
 * kernels_avx512bf16.c: kernels for bf16 by VDPBF16PS: two products per element.
 *
 * Forward: words are pairs of bf16 along the head size for scores, and along the keys for
 * values, whose pairs adjacent tasks share. Probabilities are rounded to bf16, sums are not.
 *
 * Decode: probabilities are rounded to bf16, too, but their sums are f32.
 *
 * Backward: pairs lie along the head size for scores and dP, along the keys for dQ, along
 * the rows for dV and dK. P and dS are rounded to bf16, sums are not. Gradients below 2^-126
 * become 0.
 *
 * fp8 keys and values are widened to bf16 by VPERMI2B, block by block. Tiles are those of
 * kernels_avx512.c.
 */
#include "engine/base/instructions.h"

#ifdef AF_HAVE_AVX512BF16
AF_INSTRUCTIONS_AVX512BF16

#include "engine/cpu/vec_avx512bf16.h"

/* Order of the first 16 pairs of two rows of 32 elements; the others are 16 further. */
static const uint16_t pair_order[32] __attribute__((aligned(64))) = {
    0, 32, 1, 33, 2,  34, 3,  35, 4,  36, 5,  37, 6,  38, 7,  39,
    8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47};

/* Stores pairs of 32 columns as 4 panels of 8 columns, or the first `panels` of them. */
AF_INLINE void pair_columns(__m512i even, __m512i odd, int panels, float *to, int64_t panel)
{
    const __m512i low = _mm512_load_si512(pair_order);
    const __m512i high = _mm512_add_epi16(low, _mm512_set1_epi16(16));
    const __m512i pairs[2] = {_mm512_permutex2var_epi16(even, low, odd),
                              _mm512_permutex2var_epi16(even, high, odd)};
    AF_UNROLL
    for (int i = 0; i < 4; i++) {
        if (i < panels)
            _mm256_store_si256((void *)(to + i * panel),
                               i % 2 == 0 ? _mm512_castsi512_si256(pairs[i / 2])
                                          : _mm512_extracti64x4_epi64(pairs[i / 2], 1));
    }
}

/*
 * Interleaves two rows of values, in panels of 8 columns `panel` floats apart; 0
 * without an odd row.
 */
static void pair_rows(const uint16_t *even, const uint16_t *odd, int64_t count, float *to,
                      int64_t panel)
{
    int64_t d = 0;
    for (; odd != NULL && d + 32 <= count; d += 32)
        pair_columns(_mm512_loadu_si512(even + d), _mm512_loadu_si512(odd + d), 4,
                     to + d / 8 * panel, panel);
    for (; d < count; d += 32) {
        const int left = count - d < 32 ? (int)(count - d) : 32;
        const __mmask32 some = (__mmask32)((1ull << left) - 1u);
        pair_columns(_mm512_maskz_loadu_epi16(some, even + d),
                     odd == NULL ? _mm512_setzero_si512()
                                 : _mm512_maskz_loadu_epi16(some, odd + d),
                     (left + 7) / 8, to + d / 8 * panel, panel);
    }
}

#define AF_LEVEL avx512bf16
#define AF_TILE q48k8
#define AF_DTYPE ANYFLASH_BF16
#define TILE_VECS 3
#define TILE_ROWS 8
#define GRADIENT_ROWS 6
#define GRADIENT_VECS 4
#define DECODE_SUMS 16
#define DECODE_TILE_ROWS 20
#define DECODE_ROW_KEYS 43
#define AF_PAIRS 1
#define AF_ELEMENT uint16_t
#define AF_DIRECT 1
#define AF_LOAD vec_load_bf16
#define AF_LOAD_SOME vec_load_some_bf16
#define AF_STORE vec_store_some_rounded

#define AF_NEEDS AF_CPU_AVX512BF16
#define AF_TYPE bf16
#define AF_F8 0
#define AF_STORED AF_ELEMENT
#include "engine/cpu/type_kernels.h"
#undef AF_TYPE
#undef AF_F8
#undef AF_STORED
#undef AF_NEEDS

AF_INSTRUCTIONS_END
AF_INSTRUCTIONS_AVX512VBMI_BF16

#include "engine/cpu/widen_f8.h"

#define AF_NEEDS (AF_CPU_AVX512BF16 | AF_CPU_AVX512VBMI)
#define AF_TYPE bf16_f8
#define AF_F8 1
#define AF_STORED uint8_t
#define AF_WIDEN af_widen_apart
#define AF_WIDE_UNIT(dtype) 1
#define AF_WIDE_DTYPE ANYFLASH_BF16
#include "engine/cpu/type_kernels.h"

AF_INSTRUCTIONS_END
#endif
