/*
 * forward_neon.c: the forward kernels for AArch64.
 *
 * Tile: 12 rows (3 vectors) by 8 keys, 24 accumulators of 32 registers.
 */
#include "engine/cpu/vec_neon.h"

#define AF_LEVEL neon
#define AF_TILE q12k8
#define AF_NEEDS AF_CPU_NEON
#define TILE_VECS 3
#define TILE_ROWS 8
#include "engine/cpu/forward_types.inc"
