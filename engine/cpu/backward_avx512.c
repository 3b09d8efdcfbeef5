/*
 * backward_avx512.c: the backward kernels for AVX-512.
 *
 * Tile: 48 rows (3 vectors) by 8 keys; gradients of 6 keys by 64 columns: 24
 * accumulators of 32 registers each.
 */
#include "engine/cpu/vec_avx512.h"

#define AF_LEVEL avx512
#define AF_TILE q48k8
#define AF_NEEDS AF_CPU_AVX512
#define TILE_VECS 3
#define TILE_ROWS 8
#define GRADIENT_ROWS 6
#define GRADIENT_VECS 4
#include "engine/cpu/backward_types.inc"
