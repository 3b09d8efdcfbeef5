/*
 * kernels_avx512.c: the kernels for AVX-512: 16 lanes, 32 registers.
 *
 * Tiles: 48 rows (3 vectors) by 8 keys, in 24 registers; gradients of 6 keys by 64 columns,
 * in as many. In decode 16 registers hold sums.
 */
#include "engine/base/instructions.h"

#ifdef AF_HAVE_AVX512
AF_INSTRUCTIONS_AVX512

#include "engine/cpu/vec_avx512.h"

#define AF_LEVEL avx512
#define AF_TILE q48k8
#define AF_NEEDS AF_CPU_AVX512
#define TILE_VECS 3
#define TILE_ROWS 8
#define GRADIENT_ROWS 6
#define GRADIENT_VECS 4
#define DECODE_SUMS 16
#define DECODE_TILE_ROWS (sizeof(AF_ELEMENT) == 4 ? 14 : 17)
#define DECODE_ROW_KEYS (sizeof(AF_ELEMENT) == 4 ? 19 : 24)
#include "engine/cpu/float_kernels.h"

AF_INSTRUCTIONS_END
#endif
