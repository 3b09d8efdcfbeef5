/*
 * roof_avx512.c: the roofline loop for AVX-512: 16 floats per multiply-add.
 */
#include "engine/base/instructions.h"

#ifdef AF_HAVE_AVX512
AF_INSTRUCTIONS_AVX512

#include "engine/base/cpu.h"

#define ROOF_LOOP af_roof_f32__avx512
#define ROOF_NAME "avx512"
#define ROOF_NEEDS AF_CPU_AVX512
#define ROOF_KIND AF_ROOF_F32
#define ROOF_BYTES 64
#define ROOF_CHAINS 24
#define ROOF_VECTOR __m512
#define ROOF_OPERAND __m512
#define ROOF_OPERAND_MAKE(x) _mm512_set1_ps(x)
#define ROOF_START(x) _mm512_set1_ps(x)
#define ROOF_STEP(c, a, b) _mm512_fmadd_ps(c, a, b)
#define ROOF_FLOPS 32
#include "bench/roof/loop.inc"

AF_INSTRUCTIONS_END
#endif
