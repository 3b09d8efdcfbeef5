/*
 * backward_neon.c: the backward kernels for AArch64.
 *
 * Tile: 12 rows (3 vectors) by 8 keys; gradients of 6 keys by 16 columns: 24
 * accumulators of 32 registers each.
 */
#include "engine/cpu/vec_neon.h"

#define AF_LEVEL neon
#define AF_TILE q12k8
#define AF_NEEDS AF_CPU_NEON
#define TILE_VECS 3
#define TILE_ROWS 8
#define GRADIENT_ROWS 6
#define GRADIENT_VECS 4
#include "engine/cpu/backward_types.inc"
