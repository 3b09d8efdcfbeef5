/*
 * roof_neon.c: the roofline loop for AArch64: 4 floats per multiply-add.
 */
#include "engine/base/instructions.h"

#ifdef AF_HAVE_NEON

#include "engine/base/cpu.h"

#define ROOF_LOOP af_roof_f32__neon
#define ROOF_NAME "neon"
#define ROOF_NEEDS AF_CPU_NEON
#define ROOF_KIND AF_ROOF_F32
#define ROOF_BYTES 16
#define ROOF_CHAINS 24
#define ROOF_VECTOR float32x4_t
#define ROOF_OPERAND float32x4_t
#define ROOF_OPERAND_MAKE(x) vdupq_n_f32(x)
#define ROOF_START(x) vdupq_n_f32(x)
#define ROOF_STEP(c, a, b) vfmaq_f32(b, c, a)
#define ROOF_FLOPS 8
#include "bench/roof/loop.inc"

#endif
