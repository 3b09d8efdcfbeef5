/*
 * backward_avx512.c: the backward kernels for AVX-512.
 *
 * Tile: 48 rows (3 vectors) by 8 keys; gradients of 6 keys by 64 columns. Each
 * uses 24 of the 32 registers as accumulators.
 */
#include "engine/base/instructions.h"

#ifdef AF_HAVE_AVX512
AF_INSTRUCTIONS_AVX512

#include "engine/attn/rows.h"

#include "engine/cpu/vec_avx512.h"

#include "engine/cpu/tanh.h"

#include "engine/cpu/kernels.h"

#define AF_LEVEL avx512
#define AF_TILE q48k8
#define AF_NEEDS AF_CPU_AVX512
#define TILE_VECS 3
#define TILE_ROWS 8
#define GRADIENT_ROWS 6
#define GRADIENT_VECS 4
#define AF_TEMPLATE "engine/cpu/backward_template.h"
#define AF_ROW AF_BACKWARD_ROW
#include "engine/cpu/element_types.h"

AF_INSTRUCTIONS_END
#endif
