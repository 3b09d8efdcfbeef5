/*
 * roof_avx2.c: the roofline loop for AVX2: 8 floats per multiply-add.
 */
#include "engine/base/instructions.h"

#ifdef AF_HAVE_AVX2
AF_INSTRUCTIONS_AVX2

#include "engine/base/cpu.h"

#define ROOF_LOOP af_roof_f32__avx2
#define ROOF_NAME "avx2"
#define ROOF_NEEDS AF_CPU_AVX2
#define ROOF_KIND AF_ROOF_F32
#define ROOF_BYTES 32
#define ROOF_CHAINS 12
#define ROOF_VECTOR __m256
#define ROOF_OPERAND __m256
#define ROOF_OPERAND_MAKE(x) _mm256_set1_ps(x)
#define ROOF_START(x) _mm256_set1_ps(x)
#define ROOF_STEP(c, a, b) _mm256_fmadd_ps(c, a, b)
#define ROOF_FLOPS 16
#include "bench/roof/loop.inc"

AF_INSTRUCTIONS_END
#endif
