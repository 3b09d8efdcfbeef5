/*
 * backward_avx2.c: the backward kernels for AVX2.
 *
 * Tile: 24 rows (3 vectors) by 4 keys; gradients of 6 keys by 16 columns: 12
 * accumulators of 16 registers each.
 */
#include "engine/cpu/vec_avx2.h"

#define AF_LEVEL avx2
#define AF_TILE q24k4
#define AF_NEEDS AF_CPU_AVX2
#define TILE_VECS 3
#define TILE_ROWS 4
#define GRADIENT_ROWS 6
#define GRADIENT_VECS 2
#include "engine/cpu/backward_types.inc"
