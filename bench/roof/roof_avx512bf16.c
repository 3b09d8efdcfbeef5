/*
 * roof_avx512bf16.c: the roofline loop for AVX-512 bf16: 16 pairs per dot
 * product.
 */
#include "engine/base/instructions.h"

#ifdef AF_HAVE_AVX512BF16
AF_INSTRUCTIONS_AVX512BF16

#include "engine/base/cpu.h"

#define ROOF_LOOP af_roof_bf16__avx512bf16
#define ROOF_NAME "avx512bf16"
#define ROOF_NEEDS AF_CPU_AVX512BF16
#define ROOF_KIND AF_ROOF_BF16
#define ROOF_BYTES 64
#define ROOF_CHAINS 24
#define ROOF_VECTOR __m512
#define ROOF_OPERAND __m512bh
#define ROOF_OPERAND_MAKE(x) _mm512_cvtne2ps_pbh(_mm512_set1_ps(x), _mm512_set1_ps(x))
#define ROOF_START(x) _mm512_set1_ps(x)
#define ROOF_STEP(c, a, b) _mm512_dpbf16_ps(c, a, b)
#define ROOF_FLOPS 64
#include "bench/roof/loop.inc"

AF_INSTRUCTIONS_END
#endif
