/*
 * test_tile_amx.c: the tiles in plain C compute what TDPBF16PS computes: in cases
 * worked out by hand, like the processor's f32 instructions under the same rules,
 * and, where there is AMX, like the instruction itself.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

#include "engine/base/cpu.h"
#include "engine/base/instructions.h"

#ifdef AF_HAVE_AMX
AF_INSTRUCTIONS_AMX

#include "engine/attn/convert.h"
#include "engine/cpu/product_amx.h"

#define CELLS 256 /* of a tile */

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* A pair of bf16; the numbers must be exact. */
static uint32_t pair(float even, float odd)
{
    assert_int_equal((bits_of(even) | bits_of(odd)) & 0xFFFF, 0);
    return bits_of(even) >> 16 | bits_of(odd);
}

/* The formula with the processor's f32 instructions: DAZ, FTZ, nothing traps. */
static __attribute__((noinline)) void dot_natively(struct af_tile *c, const struct af_tile *a,
                                                   const struct af_tile *b)
{
    const unsigned before = _mm_getcsr();
    _mm_setcsr(0x9FC0);
    for (int m = 0; m < AF_TILE_ROWS; m++) {
        volatile __m512 even = _mm512_setzero_ps(), odd = _mm512_setzero_ps();
        for (int k = 0; k < AF_TILE_ROWS; k++) {
            const __m512i row = _mm512_loadu_si512(b->rows[k]);
            const __m512i high = _mm512_set1_epi32((int)0xFFFF0000u);
            const __m512i word = _mm512_set1_epi32((int)a->rows[m][k]);
            even = _mm512_fmadd_ps((__m512)_mm512_slli_epi32(word, 16),
                                   (__m512)_mm512_slli_epi32(row, 16), even);
            odd = _mm512_fmadd_ps((__m512)_mm512_and_si512(word, high),
                                  (__m512)_mm512_and_si512(row, high), odd);
        }
        even = _mm512_add_ps(even, odd);
        even = _mm512_add_ps((__m512)_mm512_loadu_si512(c->rows[m]), even);
        _mm512_storeu_si512(c->rows[m], (__m512i)even);
    }
    _mm_setcsr(before);
}

/* c + the dot product of row 2 of A and column 3 of B, `count` pairs each. */
static float dot(float c, const uint32_t *a, const uint32_t *b, int count)
{
    struct af_tile sums, left, right, natively;
    memset(&sums, 0, sizeof sums);
    memset(&left, 0, sizeof left);
    memset(&right, 0, sizeof right);
    for (int k = 0; k < count; k++) {
        left.rows[2][k] = a[k];
        right.rows[k][3] = b[k];
    }
    sums.rows[2][3] = bits_of(c);
    natively = sums;
    af_tile_dot(&sums, &left, &right);
    dot_natively(&natively, &left, &right);
    const float got = float_of(sums.rows[2][3]), want = float_of(natively.rows[2][3]);
    if (bits_of(got) != bits_of(want) && !(isnan(got) && isnan(want)))
        fail_msg("%a, but %a by AVX-512", (double)got, (double)want);
    for (int m = 0; m < AF_TILE_ROWS; m++) {
        for (int n = 0; n < 16; n++)
            assert_true(sums.rows[m][n] == 0 || m == 2 || n == 3);
    }
    return float_of(sums.rows[2][3]);
}

static float dot_one(float c, uint32_t a, uint32_t b)
{
    return dot(c, &a, &b, 1);
}

static void assert_bits(float got, float want)
{
    if (bits_of(got) != bits_of(want))
        fail_msg("%a is not %a", (double)got, (double)want);
}

static void test_tile__sums_even_and_odd_products(void **state)
{
    (void)state;
    assert_bits(dot_one(0.5f, pair(2, 3), pair(5, 7)), 31.5f);
    const uint32_t a[] = {pair(1, 0), pair(0, 2), pair(-4, 8)};
    const uint32_t b[] = {pair(3, 9), pair(9, 5), pair(2, 0.25f)};
    assert_bits(dot(-1, a, b, 3), 3 + 10 - 8 + 2 - 1);
}

/* (2^24 + 1) loses the 1; a sum of even products alone keeps it. */
static void test_tile__even_and_odd_are_separate_until_the_end(void **state)
{
    (void)state;
    const uint32_t a[] = {pair(0x1p24f, 1), pair(-0x1p24f, 1)};
    const uint32_t b[] = {pair(1, 1), pair(1, 1)};
    assert_bits(dot(0, a, b, 2), 2);
    /* c comes last: 2^24 + (1 + 1), not (2^24 + 1) + 1 */
    const uint32_t ones[] = {pair(1, 1)};
    assert_bits(dot(0x1p24f, ones, ones, 1), 0x1p24f + 2);
    assert_bits(dot(0x1p24f, ones, &b[0], 1), 0x1.000002p24f);
}

static void test_tile__products_are_not_rounded(void **state)
{
    (void)state;
    /* (1 + 2^-7)^2 - 1 - 2^-6 = 2^-14, and 2^-14 2^-12 = 2^-26 is below an ulp of 1. */
    const uint32_t a[] = {pair(-1, 0), pair(-0x1p-6f, 0), pair(1.0078125f, 0)};
    const uint32_t b[] = {pair(1, 0), pair(1, 0), pair(1.0078125f, 0)};
    assert_bits(dot(0, a, b, 3), 0x1p-14f);
}

static void test_tile__ties_round_to_even(void **state)
{
    (void)state;
    assert_bits(dot_one(0x1p24f, pair(1, 0), pair(1, 0)), 0x1p24f);
    assert_bits(dot_one(0x1p24f + 2, pair(1, 0), pair(1, 0)), 0x1p24f + 4);
    const uint32_t a[] = {pair(0x1p24f, 0), pair(3, 0)}, b[] = {pair(1, 0), pair(1, 0)};
    assert_bits(dot(0, a, b, 2), 0x1p24f + 4);
}

static void test_tile__denormals_are_zero(void **state)
{
    (void)state;
    const float denormal = 0x1p-127f, smallest = 0x1p-126f;
    assert_bits(dot_one(0, pair(denormal, 0), pair(0x1p100f, 0)), 0);
    assert_bits(dot_one(0, pair(1, 0), pair(denormal, 0)), 0);
    assert_bits(dot_one(0x1p-140f, pair(0, 0), pair(0, 0)), 0);
    assert_bits(dot_one(0, pair(smallest, 0), pair(0.5f, 0)), 0);
    assert_bits(dot_one(smallest, pair(smallest, 0), pair(-0.5f, 0)), smallest);
    assert_bits(dot_one(0, pair(smallest, 0), pair(1, 0)), smallest);
    /* Denormal times infinity is 0 times infinity. */
    assert_true(isnan(dot_one(0, pair(denormal, 0), pair(INFINITY, 0))));
    /* Each half of 2^-126 is denormal by itself, so their sum is 0. */
    assert_bits(dot_one(0, pair(smallest, smallest), pair(0.5f, 0.5f)), 0);
    /* A sum of -2^-126 and 1.5 2^-126 is denormal. */
    assert_bits(dot_one(-smallest, pair(smallest, 0), pair(1.5f, 0)), 0);
}

/* Among denormal numbers 2^-126 - 2^-150 would be a tie and become 2^-126. */
static void test_tile__denormal_is_what_rounds_below_the_smallest_normal(void **state)
{
    (void)state;
    const uint32_t a[] = {pair(0x1p-63f, 0), pair(-0x1p-75f, 0)};
    uint32_t b[] = {pair(0x1p-63f, 0), pair(0x1p-75f, 0)};
    assert_bits(dot(0, a, b, 2), 0);
    b[1] = pair(0x1p-76f, 0);
    assert_bits(dot(0, a, b, 2), 0x1p-126f);
}

static void test_tile__overflows_to_infinity(void **state)
{
    (void)state;
    assert_bits(dot_one(0, pair(0x1p100f, 0), pair(0x1p100f, 0)), INFINITY);
    assert_bits(dot_one(0, pair(0x1p100f, 0), pair(-0x1p100f, 0)), -INFINITY);
    /* The product alone may be too large. */
    const uint32_t a[] = {pair(-0x1p127f, 0), pair(0x1p64f, 0)};
    const uint32_t b[] = {pair(1, 0), pair(0x1p64f, 0)};
    assert_bits(dot(0, a, b, 2), 0x1p127f);
    assert_true(isnan(dot_one(0, pair(0x1p100f, 0x1p100f), pair(0x1p100f, -0x1p100f))));
}

static void test_tile__nan_and_infinity_propagate(void **state)
{
    (void)state;
    assert_true(isnan(dot_one(0, pair(NAN, 0), pair(0, 0))));
    assert_true(isnan(dot_one(NAN, pair(0, 0), pair(0, 0))));
    assert_true(isnan(dot_one(0, pair(INFINITY, 0), pair(0, 0))));
    assert_bits(dot_one(1, pair(INFINITY, 0), pair(2, 0)), INFINITY);
    assert_true(isnan(dot_one(-INFINITY, pair(INFINITY, 0), pair(2, 0))));
}

static uint32_t next_number(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 32);
}

/* Random bf16 near 1, near the smallest normal number, or of any bits. */
static uint32_t random_pair(uint64_t *state, int kind)
{
    uint32_t bits = next_number(state);
    if (kind == 0)
        return (bits & 0x81FF81FFu) | 0x3E003E00u;
    if (kind == 1) /* products around 2^-126 */
        return (bits & 0x80FF80FFu) | 0x20002000u;
    return bits;
}

/* C += A B with the instructions themselves. */
static void dot_by_amx(struct af_tile *c, const struct af_tile *a, const struct af_tile *b)
{
    AF_TILES_CONFIGURE();
    AF_TILE_LOAD(0, c, AF_TILE_BYTES);
    AF_TILE_LOAD(4, a, AF_TILE_BYTES);
    AF_TILE_LOAD(6, b, AF_TILE_BYTES);
    AF_TILE_DOT(0, 4, 6);
    AF_TILE_STORE(0, c, AF_TILE_BYTES);
    AF_TILES_RELEASE();
}

typedef void multiply(struct af_tile *c, const struct af_tile *a, const struct af_tile *b);

static void compare_random_tiles(multiply *other, const char *name)
{
    uint64_t state = 1;
    for (int n = 0; n < 600; n++) {
        struct af_tile got, want, a, b;
        for (int cell = 0; cell < CELLS; cell++) {
            a.rows[cell / 16][cell % 16] = random_pair(&state, n % 3);
            b.rows[cell / 16][cell % 16] = random_pair(&state, n % 3);
            got.rows[cell / 16][cell % 16] = n % 3 == 2 ? next_number(&state) : 0;
        }
        want = got;
        other(&want, &a, &b);
        af_tile_dot(&got, &a, &b);
        for (int cell = 0; cell < CELLS; cell++) {
            const float x = float_of(got.rows[cell / 16][cell % 16]);
            const float y = float_of(want.rows[cell / 16][cell % 16]);
            if (bits_of(x) != bits_of(y) && !(isnan(x) && isnan(y)))
                fail_msg("tile %d, cell %d: %a, but %a by %s", n, cell, (double)x, (double)y,
                         name);
        }
    }
}

static void test_tile__agrees_with_the_processors_arithmetic(void **state)
{
    (void)state;
    compare_random_tiles(dot_natively, "AVX-512");
}

static void test_tile__agrees_with_amx(void **state)
{
    (void)state;
    if (!af_cpu_permit_amx()) {
        print_message("needs a processor with AMX\n");
        skip();
    }
    compare_random_tiles(dot_by_amx, "AMX");
}

/* An f16 is the exact sum of two bf16, neither of them denormal; infinity has no rest. */
static void test_parts__add_up_to_every_f16(void **state)
{
    (void)state;
    if ((af_cpu_features() & AF_CPU_AVX512BF16) == 0) {
        print_message("needs AVX-512 bf16\n");
        skip();
    }
    for (uint32_t first = 0; first < 0x10000; first += 32) {
        uint16_t from[32], parts[2][32];
        for (uint32_t i = 0; i < 32; i++)
            from[i] = (uint16_t)(first + i);
        af_parts_put((float *)(void *)parts, vec_load_f16(from), vec_load_f16(from + 16));
        for (uint32_t i = 0; i < 32; i++) {
            const float x = af_f32_of_f16(from[i]);
            const float rounded = af_f32_of_bf16(parts[0][i]);
            const float rest = af_f32_of_bf16(parts[1][i]);
            if (!isfinite(x)) {
                assert_true(isnan(x) ? isnan(rounded) : rounded == x);
                assert_true(rest == 0);
                continue;
            }
            /* Exactly: both are multiples of 2^-24 below 2^17. */
            assert_true((double)rounded + (double)rest == (double)x);
            assert_true(fabsf(rest) <= 0x1p-8f * fabsf(x));
            assert_true(rounded == 0 || fabsf(rounded) >= 0x1p-126f);
            assert_true(rest == 0 || fabsf(rest) >= 0x1p-126f);
        }
    }
}

AF_INSTRUCTIONS_END

int main(void)
{
    if ((af_cpu_features() & AF_CPU_AVX512) == 0) {
        puts("skipped: needs AVX-512");
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tile__sums_even_and_odd_products),
        cmocka_unit_test(test_tile__even_and_odd_are_separate_until_the_end),
        cmocka_unit_test(test_tile__products_are_not_rounded),
        cmocka_unit_test(test_tile__ties_round_to_even),
        cmocka_unit_test(test_tile__denormals_are_zero),
        cmocka_unit_test(test_tile__denormal_is_what_rounds_below_the_smallest_normal),
        cmocka_unit_test(test_tile__overflows_to_infinity),
        cmocka_unit_test(test_tile__nan_and_infinity_propagate),
        cmocka_unit_test(test_tile__agrees_with_the_processors_arithmetic),
        cmocka_unit_test(test_tile__agrees_with_amx),
        cmocka_unit_test(test_parts__add_up_to_every_f16),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else
int main(void)
{
    return 0;
}
#endif
