/*
 * kernels_amx.c: forward and backward for bf16 by AMX: a tile instruction multiplies 16 keys
 * by 16 rows over 32 elements. First the product that both templates use.
 *
 * As in kernels_avx512bf16.c words are pairs of bf16; P and dS are rounded to bf16 and sums
 * are not, so the error has the same bound. Only the layout of the values, and of the keys
 * for dQ, differs: columns of V and K are rows of a tile. fp8 keys and values are widened to
 * bf16, block by block, by VPERMI2B, which every processor with AMX has.
 */
#include "engine/base/instructions.h"

#ifdef AF_HAVE_AMX
AF_INSTRUCTIONS_AMX

#include "engine/cpu/vec_avx512bf16.h"

/*
 * C += A B of up to 32 x 32 floats, as 2 x 2 tiles: four sums, two
 * tiles of A and two of B fill the eight tile registers, so that each tile that
 * is loaded is used twice.
 *
 *     C  tiles 0 and 1 above 2 and 3     16 rows, 16 columns each
 *     A  tile 4 above 5                  rows of 16 pairs
 *     B  tiles 6 and 7 side by side      16 pairs of rows, in columns of pairs
 *
 * `rows` and `columns` count tiles and are constants, 1 or 2, at every call.
 * Strides are in bytes. Columns of tiles are 64 bytes apart.
 *
 * Tiles belong to a thread and are undefined until they are configured. A kernel configures
 * them when a task begins and releases them when it ends: the system has 8 KiB more to save
 * at each switch of a thread whose tiles are in use, and other libraries configure the same
 * registers for themselves.
 *
 * Order of the sums (Intel SDM volume 2, TDPBF16PS): products with even and with odd elements
 * of the pairs are summed separately in f32, in the order of k; then both are added to C.
 * Denormal numbers count as 0, as in VDPBF16PS.
 */

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

AF_INLINE void af_sums_clear(const int rows, const int columns)
{
    AF_TILE_ZERO(0);
    if (columns > 1)
        AF_TILE_ZERO(1);
    if (rows > 1)
        AF_TILE_ZERO(2);
    if (rows > 1 && columns > 1)
        AF_TILE_ZERO(3);
}

AF_INLINE void af_sums_load(const int rows, const int columns, const float *c, int64_t stride)
{
    const char *upper = (const char *)c, *lower = upper + 16 * stride;
    AF_TILE_LOAD(0, upper, stride);
    if (columns > 1)
        AF_TILE_LOAD(1, upper + 64, stride);
    if (rows > 1)
        AF_TILE_LOAD(2, lower, stride);
    if (rows > 1 && columns > 1)
        AF_TILE_LOAD(3, lower + 64, stride);
}

AF_INLINE void af_sums_store(const int rows, const int columns, float *c, int64_t stride)
{
    char *upper = (char *)c, *lower = upper + 16 * stride;
    AF_TILE_STORE(0, upper, stride);
    if (columns > 1)
        AF_TILE_STORE(1, upper + 64, stride);
    if (rows > 1)
        AF_TILE_STORE(2, lower, stride);
    if (rows > 1 && columns > 1)
        AF_TILE_STORE(3, lower + 64, stride);
}

/* Where the tiles of A and B lie: from row to row, from step to step of the sum. */
struct af_product {
    const float *a;
    int64_t a_stride; /* between rows of a tile */
    int64_t a_below;  /* from a tile to the one below */
    int64_t a_step;
    const float *b;
    int64_t b_stride;
    int64_t b_step;
    int64_t steps; /* of 16 pairs */
};

/* Adds the product to tiles 0 to 3. */
AF_INLINE void af_sums_add(const int rows, const int columns, const struct af_product product)
{
    const char *a = (const char *)product.a, *b = (const char *)product.b;
    AF_ROLLED
    for (int64_t s = 0; s < product.steps; s++, a += product.a_step, b += product.b_step) {
        AF_TILE_LOAD(4, a, product.a_stride);
        AF_TILE_LOAD(6, b, product.b_stride);
        AF_TILE_DOT(0, 4, 6);
        if (columns > 1) {
            AF_TILE_LOAD(7, b + 64, product.b_stride);
            AF_TILE_DOT(1, 4, 7);
        }
        if (rows > 1) {
            AF_TILE_LOAD(5, a + product.a_below, product.a_stride);
            AF_TILE_DOT(2, 5, 6);
        }
        if (rows > 1 && columns > 1)
            AF_TILE_DOT(3, 5, 7);
    }
}

/* C = A B. */
AF_INLINE void af_product_put(const int rows, const int columns,
                              const struct af_product product, float *c, int64_t stride)
{
    af_sums_clear(rows, columns);
    af_sums_add(rows, columns, product);
    af_sums_store(rows, columns, c, stride);
}

/* C += A B. */
AF_INLINE void af_product_add(const int rows, const int columns,
                              const struct af_product product, float *c, int64_t stride)
{
    af_sums_load(rows, columns, c, stride);
    af_sums_add(rows, columns, product);
    af_sums_store(rows, columns, c, stride);
}

/* Elements [d, d + 16) of a row, those from `left` on 0. */
AF_INLINE __m256i af_elements_of(const uint16_t *row, int64_t d, int64_t left)
{
    const int count = left < 16 ? (int)left : 16;
    if (row == NULL)
        return _mm256_setzero_si256();
    return _mm256_maskz_loadu_epi16((__mmask16)((1u << count) - 1u), row + d);
}

/*
 * Writes columns [d, d + 16) of 32 rows of bf16 as a tile of A: row n has the pairs of column
 * d + n. Rows that are NULL and columns from `left` on are 0.
 */
AF_INLINE void af_columns_put(const uint16_t *const *rows, int64_t d, int64_t left, float *tile)
{
    vec r[AF_LANES];
    AF_UNROLL
    for (int i = 0; i < AF_LANES; i++) {
        const __m256i even = af_elements_of(rows[2 * i], d, left);
        const __m256i odd = af_elements_of(rows[2 * i + 1], d, left);
        r[i] = vec_interleave(_mm512_inserti64x4(_mm512_castsi256_si512(even), odd, 1));
    }
    vec_transpose(r);
    AF_UNROLL
    for (int i = 0; i < AF_LANES; i++)
        vec_store(tile + i * AF_LANES, r[i]);
}

#define AF_LEVEL amx
#define AF_TILE q32k32
#define AF_DTYPE ANYFLASH_BF16
#define TILE_VECS 2
#define TILE_ROWS 32
#define GRADIENT_VECS 2
#define AF_PAIRS 1
#define AF_AMX 1
#define AF_ELEMENT uint16_t
#define AF_DIRECT 1
#define AF_LOAD vec_load_bf16
#define AF_LOAD_SOME vec_load_some_bf16
#define AF_STORE vec_store_some_rounded

#define AF_NEEDS AF_CPU_AMX
#define AF_TYPE bf16
#define AF_F8 0
#define AF_STORED AF_ELEMENT
#include "engine/cpu/type_kernels.h"
#undef AF_TYPE
#undef AF_F8
#undef AF_STORED
#undef AF_NEEDS

AF_INSTRUCTIONS_END
AF_INSTRUCTIONS_AMX_VBMI

#include "engine/cpu/widen_f8.h"

#define AF_NEEDS (AF_CPU_AMX | AF_CPU_AVX512VBMI)
#define AF_TYPE bf16_f8
#define AF_F8 1
#define AF_STORED uint8_t
#include "engine/cpu/type_kernels.h"

AF_INSTRUCTIONS_END
#endif
