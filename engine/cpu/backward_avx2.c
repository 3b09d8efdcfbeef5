/*
 * backward_avx2.c: the backward kernels for AVX2.
 *
 * Tile: 24 rows (3 vectors) by 4 keys; gradients of 6 keys by 16 columns. Each
 * uses 12 of the 16 registers as accumulators.
 */
#include "engine/base/instructions.h"

#ifdef AF_HAVE_AVX2
AF_INSTRUCTIONS_AVX2

#include "engine/attn/rows.h"

#include "engine/cpu/vec_avx2.h"

#include "engine/cpu/tanh.h"

#include "engine/cpu/kernels.h"

#define AF_LEVEL avx2
#define AF_TILE q24k4
#define AF_NEEDS AF_CPU_AVX2
#define TILE_VECS 3
#define TILE_ROWS 4
#define GRADIENT_ROWS 6
#define GRADIENT_VECS 2
#define AF_TEMPLATE "engine/cpu/backward_template.h"
#define AF_ROW AF_BACKWARD_ROW
#include "engine/cpu/element_types.h"

AF_INSTRUCTIONS_END
#endif
