/*
 * product_amx.h: C += A B of up to 32 x 32 floats, as 2 x 2 tiles: four sums, two
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
 * With two parts (AF_PARTS of the templates) a number is the sum of two bf16: the rounded
 * number and the rest. Each step of the sum then has a tile of rounded numbers and, halfway to
 * the next step, a tile of rests, and multiplies three or four pairs of tiles:
 *
 *     AF_EXACT(parts)    all four, so that every bit of A and B counts
 *     AF_ROUNDED(parts)  all but rest times rest, which is at most 2^-16 of the product:
 *                        enough if A or B was rounded to 16 bits
 */
#ifndef AF_ENGINE_CPU_PRODUCT_AMX_H
#define AF_ENGINE_CPU_PRODUCT_AMX_H

#include "engine/cpu/tile_amx.h"
#include "engine/cpu/vec_avx512bf16.h"

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

#define AF_EXACT(parts) ((parts) * (parts))
#define AF_ROUNDED(parts) (2 * (parts)-1)

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

AF_INLINE void af_tiles_of_a(const int rows, const struct af_product *product, const char *a)
{
    AF_TILE_LOAD(4, a, product->a_stride);
    if (rows > 1)
        AF_TILE_LOAD(5, a + product->a_below, product->a_stride);
}

AF_INLINE void af_tiles_of_b(const int columns, const struct af_product *product, const char *b)
{
    AF_TILE_LOAD(6, b, product->b_stride);
    if (columns > 1)
        AF_TILE_LOAD(7, b + 64, product->b_stride);
}

AF_INLINE void af_tiles_dot(const int rows, const int columns)
{
    AF_TILE_DOT(0, 4, 6);
    if (columns > 1)
        AF_TILE_DOT(1, 4, 7);
    if (rows > 1)
        AF_TILE_DOT(2, 5, 6);
    if (rows > 1 && columns > 1)
        AF_TILE_DOT(3, 5, 7);
}

/* Adds the product to tiles 0 to 3. Each step multiplies `products` pairs: 1, 3 or 4. */
AF_INLINE void af_sums_add(const int products, const int rows, const int columns,
                           const struct af_product product)
{
    const char *a = (const char *)product.a, *b = (const char *)product.b;
    AF_ROLLED
    for (int64_t s = 0; s < product.steps; s++) {
        const char *a_rest = a + product.a_step / 2, *b_rest = b + product.b_step / 2;
        if (products > 1)
            af_tiles_of_b(columns, &product, b_rest);
        if (products == 4) {
            af_tiles_of_a(rows, &product, a_rest);
            af_tiles_dot(rows, columns);
        }
        af_tiles_of_a(rows, &product, a);
        if (products > 1)
            af_tiles_dot(rows, columns);
        af_tiles_of_b(columns, &product, b);
        af_tiles_dot(rows, columns);
        if (products > 1) {
            af_tiles_of_a(rows, &product, a_rest);
            af_tiles_dot(rows, columns);
        }
        a += product.a_step;
        b += product.b_step;
    }
}

/* The numbers at even or odd places of words of pairs, plus their rests, `rest` bytes on. */
AF_INLINE vec af_whole(const bool odd, const char *words, int64_t rest)
{
    const __m512i x = _mm512_loadu_si512(words), y = _mm512_loadu_si512(words + rest);
    const __m512i upper = _mm512_set1_epi32((int)0xFFFF0000u);
    return odd ? vec_add((vec)_mm512_and_si512(x, upper), (vec)_mm512_and_si512(y, upper))
               : vec_add((vec)_mm512_slli_epi32(x, 16), (vec)_mm512_slli_epi32(y, 16));
}

/* Row m and 16 columns of an exact product, in f32. */
static __attribute__((noinline)) vec af_product_row(const struct af_product *product, int m,
                                                    int columns_bytes)
{
    vec sum = vec_zero();
    const char *a = (const char *)product->a + m / 16 * product->a_below;
    const char *b = (const char *)product->b + columns_bytes;
    for (int64_t s = 0; s < product->steps; s++, a += product->a_step, b += product->b_step) {
        float even[AF_LANES] __attribute__((aligned(64)));
        float odd[AF_LANES] __attribute__((aligned(64)));
        vec_store(even, af_whole(false, a + m % 16 * product->a_stride, product->a_step / 2));
        vec_store(odd, af_whole(true, a + m % 16 * product->a_stride, product->a_step / 2));
        for (int k = 0; k < AF_LANES; k++) {
            const char *row = b + k * product->b_stride;
            sum = vec_fma(vec_set(even[k]), af_whole(false, row, product->b_step / 2), sum);
            sum = vec_fma(vec_set(odd[k]), af_whole(true, row, product->b_step / 2), sum);
        }
    }
    return sum;
}

/*
 * Computes again, in f32, which sums of an exact product of two parts are NaN: infinity times
 * a rest, which may be 0 or negative, is NaN where infinity times the whole number is not.
 */
AF_INLINE void af_sums_mend(const int rows, const int columns, const struct af_product product,
                            float *c, int64_t stride)
{
    for (int m = 0; m < 16 * rows; m++) {
        AF_UNROLL
        for (int n = 0; n < columns; n++) {
            float *at = (float *)(void *)((char *)c + m * stride + n * 64);
            const __mmask16 nan = _mm512_cmp_ps_mask(vec_load(at), vec_load(at), _CMP_UNORD_Q);
            if (nan != 0)
                _mm512_mask_store_ps(at, nan, af_product_row(&product, m, n * 64));
        }
    }
}

/* Stores elements [2 * AF_LANES) at `to` as AF_LANES words of each part, rounded and rest. */
AF_INLINE void af_parts_put(float *to, vec first, vec second)
{
    _mm512_storeu_si512(to, (__m512i)_mm512_cvtne2ps_pbh(second, first));
    _mm512_storeu_si512(to + AF_LANES,
                        (__m512i)_mm512_cvtne2ps_pbh(vec_rest(second), vec_rest(first)));
}

/* Elements [d, d + 16) of a row, those from `left` on 0: bf16, or a part of f16. */
AF_INLINE __m256i af_elements_of(const int parts, const int part, const uint16_t *row,
                                 int64_t d, int64_t left)
{
    const int count = left < 16 ? (int)left : 16;
    if (row == NULL)
        return _mm256_setzero_si256();
    if (parts == 1)
        return _mm256_maskz_loadu_epi16((__mmask16)((1u << count) - 1u), row + d);
    const vec x = vec_load_some_f16(row + d, count);
    return (__m256i)_mm512_cvtneps_pbh(part == 0 ? x : vec_rest(x));
}

/*
 * Writes columns [d, d + 16) of 32 rows of bf16, or one part of f16, as a tile of A: row n has
 * the pairs of column d + n. Rows that are NULL and columns from `left` on are 0.
 */
AF_INLINE void af_columns_put_part(const int parts, const int part, const uint16_t *const *rows,
                                   int64_t d, int64_t left, float *tile)
{
    vec r[AF_LANES];
    AF_UNROLL
    for (int i = 0; i < AF_LANES; i++) {
        const __m256i even = af_elements_of(parts, part, rows[2 * i], d, left);
        const __m256i odd = af_elements_of(parts, part, rows[2 * i + 1], d, left);
        r[i] = vec_interleave(_mm512_inserti64x4(_mm512_castsi256_si512(even), odd, 1));
    }
    vec_transpose(r);
    AF_UNROLL
    for (int i = 0; i < AF_LANES; i++)
        vec_store(tile + i * AF_LANES, r[i]);
}

/* Writes such a tile for each part, one after the other. */
AF_INLINE void af_columns_put(const int parts, const uint16_t *const *rows, int64_t d,
                              int64_t left, float *tile)
{
    af_columns_put_part(parts, 0, rows, d, left, tile);
    if (parts > 1)
        af_columns_put_part(parts, 1, rows, d, left, tile + 256);
}

#endif
