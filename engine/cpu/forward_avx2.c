/*
 * forward_avx2.c: the forward kernels for AVX2.
 *
 * Tile: 24 rows (3 vectors) by 4 keys, 12 accumulators of 16 registers.
 */
#include "engine/cpu/vec_avx2.h"

#define AF_LEVEL avx2
#define AF_TILE q24k4
#define AF_NEEDS AF_CPU_AVX2
#define TILE_VECS 3
#define TILE_ROWS 4
#include "engine/cpu/forward_types.inc"
