/*
 * roof_scalar.c: the roofline loop in plain C, on vectors of 4 floats, which
 * every compiler turns into vector instructions.
 */

#include "engine/base/cpu.h"

typedef float roof_floats __attribute__((vector_size(16)));

#define ROOF_LOOP af_roof_f32__scalar
#define ROOF_NAME "scalar"
#define ROOF_NEEDS AF_CPU_BASE
#define ROOF_KIND AF_ROOF_F32
#define ROOF_BYTES 16
#define ROOF_CHAINS 12
#define ROOF_VECTOR roof_floats
#define ROOF_OPERAND roof_floats
#define ROOF_OPERAND_MAKE(x) ((roof_floats){x, x, x, x})
#define ROOF_START(x) ((roof_floats){x, x, x, x})
#define ROOF_STEP(c, a, b) ((c) * (a) + (b))
#define ROOF_FLOPS 8
#include "bench/roof/loop.inc"
