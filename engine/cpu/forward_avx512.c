/*
 * forward_avx512.c: the forward kernels for AVX-512.
 *
 * Tile: 48 rows (3 vectors) by 8 keys, 24 accumulators of 32 registers.
 */
#include "engine/cpu/vec_avx512.h"

#define AF_LEVEL avx512
#define AF_TILE q48k8
#define AF_NEEDS AF_CPU_AVX512
#define TILE_VECS 3
#define TILE_ROWS 8
#include "engine/cpu/forward_types.inc"
