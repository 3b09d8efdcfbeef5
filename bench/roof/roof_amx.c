/*
 * roof_amx.c: the roofline loop for AMX: four sums of 16 x 16 floats from two tiles of A
 * and two of B, which fill the eight tile registers.
 */
#include "engine/base/instructions.h"

#ifdef AF_HAVE_AMX
AF_INSTRUCTIONS_AMX

#include <immintrin.h>

#include "engine/base/cpu.h"

#include "bench/roof/loop.h"

#define DOTS 4
#define FLOPS (16.0 * 16 * 32 * 2) /* of one product of tiles */

/* The operand of LDTILECFG: palette 1, eight tiles of 16 rows of 64 bytes. */
static const struct {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} palette __attribute__((aligned(64))) = {
    1, 0, {0}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};

static double compute(int64_t rounds)
{
    _tile_loadconfig(&palette); /* clears the tiles */
    for (int64_t round = 0; round < rounds; round++) {
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_release();
    return DOTS * FLOPS * (double)rounds;
}

static uint64_t read_bytes(const void *data, size_t bytes)
{
    return af_roof_f32__avx512.read(data, bytes);
}

const struct af_roof_loop af_roof_bf16__amx = {"amx", AF_CPU_AMX, AF_ROOF_BF16, compute,
                                               read_bytes};

AF_INSTRUCTIONS_END
#endif
