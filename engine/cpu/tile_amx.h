/*
 * tile_amx.h: the eight tile registers of AMX, each 16 rows of 64 bytes. A tile
 * is 16 x 16 floats, or 16 rows of 16 pairs of bf16.
 *
 *     AF_TILES_CONFIGURE()         gives this thread its tiles
 *     AF_TILES_RELEASE()           takes them away again
 *     AF_TILE_ZERO(t)              t = 0
 *     AF_TILE_LOAD(t, p, stride)   t = 16 rows of 64 bytes, `stride` bytes apart, at p
 *     AF_TILE_STORE(t, p, stride)  the reverse
 *     AF_TILE_DOT(c, a, b)         c[m][n] += sum over k of a[m][k] . b[k][n]
 *
 * A tile number is a literal from 0 to 7; c, a and b are different ones. Tiles
 * belong to a thread and are undefined until they are configured. A kernel
 * configures them when a task begins and releases them when it ends: the
 * system has 8 KiB more to save at each switch of a thread whose tiles are in
 * use, and other libraries configure the same registers for themselves.
 *
 * struct af_tile and its functions compute the same bits in plain C. Tests use them
 * to run the kernels on processors without AMX (tests/kernels/amx_emulator.c).
 *
 * Order of the sums (Intel SDM volume 2, TDPBF16PS): products with even and with
 * odd elements of the pairs are summed separately from 0 in the order of k, each
 * step a fused multiply-add; then c += even + odd. All of it in f32, rounded to
 * nearest even. Denormal inputs count as 0 and denormal results become 0; a
 * result is denormal if it is below 2^-126 after rounding it as if exponents had
 * no bounds. Neither rounding mode nor exception flags matter, nothing traps.
 * Which of several NaNs results is not specified.
 */
#ifndef AF_ENGINE_CPU_TILE_AMX_H
#define AF_ENGINE_CPU_TILE_AMX_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#define AF_TILE_ROWS 16
#define AF_TILE_BYTES 64 /* of a row */

struct af_tile {
    uint32_t rows[AF_TILE_ROWS][AF_TILE_BYTES / 4];
};

static inline void af_tile_load(struct af_tile *tile, const void *from, int64_t stride)
{
    for (int i = 0; i < AF_TILE_ROWS; i++)
        memcpy(tile->rows[i], (const char *)from + i * stride, AF_TILE_BYTES);
}

static inline void af_tile_store(const struct af_tile *tile, void *to, int64_t stride)
{
    for (int i = 0; i < AF_TILE_ROWS; i++)
        memcpy((char *)to + i * stride, tile->rows[i], AF_TILE_BYTES);
}

/* x, or 0 with its sign if it is denormal. */
static inline float af_tile_flush(float x)
{
    return fabsf(x) < 0x1p-126f ? copysignf(0.0f, x) : x;
}

/*
 * a * b + c of normal numbers and zeros, 0 if that is denormal. The same result
 * times 2^24 decides, because it is rounded to all its bits. Where that
 * overflows, the result is far from denormal.
 */
static inline float af_tile_fma(float a, float b, float c)
{
    const float r = fmaf(a, b, c), wide = fmaf(a * 0x1p24f, b, c * 0x1p24f);
    return fabsf(wide) < 0x1p-102f ? copysignf(0.0f, r) : r;
}

/* The bf16 in the upper half of `bits` as a float. */
static inline float af_tile_element(uint32_t bits)
{
    float x;
    bits &= 0xFFFF0000u;
    memcpy(&x, &bits, sizeof x);
    return af_tile_flush(x);
}

static inline void af_tile_dot(struct af_tile *c, const struct af_tile *a,
                               const struct af_tile *b)
{
    float even_b[AF_TILE_ROWS][16], odd_b[AF_TILE_ROWS][16];
    for (int k = 0; k < AF_TILE_ROWS; k++) {
        for (int n = 0; n < 16; n++) {
            even_b[k][n] = af_tile_element(b->rows[k][n] << 16);
            odd_b[k][n] = af_tile_element(b->rows[k][n]);
        }
    }
    for (int m = 0; m < AF_TILE_ROWS; m++) {
        float even[16] = {0}, odd[16] = {0}, sum[16];
        for (int k = 0; k < AF_TILE_ROWS; k++) {
            const float even_a = af_tile_element(a->rows[m][k] << 16);
            const float odd_a = af_tile_element(a->rows[m][k]);
            for (int n = 0; n < 16; n++) {
                even[n] = af_tile_fma(even_a, even_b[k][n], even[n]);
                odd[n] = af_tile_fma(odd_a, odd_b[k][n], odd[n]);
            }
        }
        memcpy(sum, c->rows[m], sizeof sum);
        for (int n = 0; n < 16; n++)
            sum[n] = af_tile_flush(af_tile_flush(sum[n]) + af_tile_flush(even[n] + odd[n]));
        memcpy(c->rows[m], sum, sizeof sum);
    }
}

/* The operand of LDTILECFG (Intel SDM volume 2): palette 1, all eight tiles of full size. */
static const struct {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} af_tile_palette __attribute__((aligned(64))) = {
    1, 0, {0}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};

#define AF_TILES_CONFIGURE() _tile_loadconfig(&af_tile_palette)
#define AF_TILES_RELEASE() _tile_release()
#define AF_TILE_ZERO(t) _tile_zero(t)
/* gcc's intrinsic does not tell the compiler that it reads memory: the barrier does. */
#define AF_TILE_LOAD(t, p, stride)                                                             \
    do {                                                                                       \
        __asm__ volatile("" ::: "memory");                                                     \
        _tile_loadd(t, p, stride);                                                             \
    } while (0)
#define AF_TILE_STORE(t, p, stride) _tile_stored(t, p, stride)
#define AF_TILE_DOT(c, a, b) _tile_dpbf16ps(c, a, b)

#endif
