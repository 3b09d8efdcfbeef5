/*
 * test_prepare.c: compares appended rows and rotated queries with the formulas,
 * for plain, indexed and paged caches, each pairing and each type.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sample.h"

#include "engine/attn/prepare.h"

enum { B = 2, H = 4, G = 2, SQ = 3, SK = 8, D = 6, DV = 5, NEW = 2, ROWS = 12 };

static const int32_t used[B] = {3, 6}, idx[B] = {2, 0};
static const int32_t table[B * 3] = {5, 1, 4, 0, 2, 3};

/* Element types vary, so storage is raw; 4 bytes an element suffice. */
static float raw_q[512], raw_k[1024], raw_v[1024], raw_k_new[512], raw_v_new[512], raw_o[512];
static float before_k[1024], before_v[1024], turned[512];
static float cosine[ROWS * D / 2], sine[ROWS * D / 2];
static struct sample numbers;

static struct anyflash_tensor filled(float *raw, size_t count, int32_t dtype, int64_t heads,
                                     int64_t rows, int64_t dim)
{
    for (size_t n = 0; n < count; n++)
        af_convert_store(dtype, raw, (int64_t)n, sample_number(&numbers));
    return anyflash_bshd(raw, dtype, heads, rows, dim);
}

enum layout { PLAIN, CHOSEN, PAGED };

static struct anyflash_attend_args start(int32_t dtype, enum layout layout, int64_t rotary_dim,
                                         bool interleaved, bool causal)
{
    struct anyflash_attend_args a = ANYFLASH_ATTEND_ARGS_INIT;
    a.batch = B;
    a.heads = H;
    a.kv_heads = G;
    a.q_len = SQ;
    a.k_len = SK;
    a.head_dim = D;
    a.value_dim = DV;
    a.causal = causal;
    int64_t rows = layout == PAGED ? 3 : SK; /* of a page: 6 pages of 3 rows */
    a.q = filled(raw_q, AF_COUNT(raw_q), dtype, H, SQ, D);
    a.k = filled(raw_k, AF_COUNT(raw_k), dtype, G, rows, D);
    a.v = filled(raw_v, AF_COUNT(raw_v), dtype, G, rows, DV);
    a.o = anyflash_bshd(raw_o, dtype, H, SQ, DV);
    a.k_new = filled(raw_k_new, AF_COUNT(raw_k_new), dtype, G, NEW, D);
    a.v_new = filled(raw_v_new, AF_COUNT(raw_v_new), dtype, G, NEW, DV);
    a.new_len = NEW;
    a.seqused_k = used;
    if (layout == CHOSEN) {
        a.cache_batch_idx = idx;
        a.cache_batch = 3;
    } else if (layout == PAGED) {
        a.block_table = table;
        a.block_table_stride = 3;
        a.page_size = 3;
        a.page_count = 6;
    }
    if (rotary_dim > 0) {
        for (int64_t row = 0; row < ROWS; row++) {
            for (int64_t n = 0; n < rotary_dim / 2; n++) {
                cosine[row * rotary_dim / 2 + n] = cosf((float)(row * (n + 1)));
                sine[row * rotary_dim / 2 + n] = sinf((float)(row * (n + 1)));
            }
        }
        a.rotary_cos = cosine;
        a.rotary_sin = sine;
        a.rotary_rows = ROWS;
        a.rotary_dim = rotary_dim;
        a.rotary_interleaved = interleaved;
    }
    memcpy(before_k, raw_k, sizeof raw_k);
    memcpy(before_v, raw_v, sizeof raw_v);
    return a;
}

/* Element d of a row rotated for `position`, by the formula in double. */
static double turned_element(const struct anyflash_attend_args *a, const void *row, int64_t d,
                             int64_t position)
{
    int64_t half = a->rotary_dim / 2;
    if (d >= a->rotary_dim)
        return (double)af_convert_load(a->q.dtype, row, d);
    int64_t n = a->rotary_interleaved ? d / 2 : d % half;
    bool second = a->rotary_interleaved ? d % 2 == 1 : d >= half;
    int64_t pair = a->rotary_interleaved ? d ^ 1 : second ? d - half : d + half;
    double x = (double)af_convert_load(a->q.dtype, row, d),
           y = (double)af_convert_load(a->q.dtype, row, pair);
    double c = cos((double)(position * (n + 1))), t = sin((double)(position * (n + 1)));
    return second ? x * c + y * t : x * c - y * t;
}

static double bound_of(int32_t dtype)
{
    return dtype == ANYFLASH_F32 ? 1e-5 : dtype == ANYFLASH_F16 ? 2e-3 : 1e-2;
}

/* Offset in elements of row j of a cache's head, written out for each layout. */
static int64_t cache_at(const struct anyflash_attend_args *a, enum layout layout, int64_t b,
                        int64_t g, int64_t j, int64_t dim)
{
    if (layout == PAGED)
        return ((table[b * 3 + j / 3] * 3 + j % 3) * G + g) * dim;
    int64_t batch = layout == CHOSEN ? idx[b] : b;
    return ((batch * a->k_len + j) * G + g) * dim;
}

static void expect_keys(const struct anyflash_attend_args *a, enum layout layout)
{
    static bool written_k[1024], written_v[1024];
    memset(written_k, 0, sizeof written_k);
    memset(written_v, 0, sizeof written_v);
    for (int64_t n = 0; n < B * NEW * G; n++) {
        int64_t b = n / (NEW * G), i = n / G % NEW, g = n % G, j = used[b] + i;
        int64_t at_k = cache_at(a, layout, b, g, j, D), at_v = cache_at(a, layout, b, g, j, DV);
        const char *new_k = af_row_of_tensor(&a->k_new, af_dtype_bytes(a->q.dtype), b, g, i);
        const char *new_v = af_row_of_tensor(&a->v_new, af_dtype_bytes(a->q.dtype), b, g, i);
        for (int64_t d = 0; d < D; d++) {
            double got = (double)af_convert_load(a->q.dtype, raw_k, at_k + d);
            double want = turned_element(a, new_k, d, j);
            assert_near(&got, &want, 1, bound_of(a->q.dtype));
            written_k[at_k + d] = true;
        }
        for (int64_t d = 0; d < DV; d++) {
            assert_true(af_convert_load(a->q.dtype, raw_v, at_v + d) ==
                        af_convert_load(a->q.dtype, new_v, d));
            written_v[at_v + d] = true;
        }
    }
    for (int64_t n = 0; n < 512; n++) {
        assert_true(written_k[n] || af_convert_load(a->q.dtype, raw_k, n) ==
                                        af_convert_load(a->q.dtype, before_k, n));
        assert_true(written_v[n] || af_convert_load(a->q.dtype, raw_v, n) ==
                                        af_convert_load(a->q.dtype, before_v, n));
    }
}

static void expect_queries(const struct anyflash_attend_args *a, const struct af_problem *ready)
{
    size_t bytes = af_dtype_bytes(a->q.dtype);
    for (int64_t n = 0; n < B * H * SQ; n++) {
        int64_t b = n / (H * SQ), h = n / SQ % H, i = n % SQ;
        const char *row = af_row_of_tensor(&ready->a.q, bytes, b, h, i);
        const char *was = af_row_of_tensor(&a->q, bytes, b, h, i);
        for (int64_t d = 0; d < D; d++) {
            double got = (double)af_convert_load(a->q.dtype, row, d);
            double want = turned_element(a, was, d, used[b] + (a->causal ? i : 0));
            assert_near(&got, &want, 1, bound_of(a->q.dtype));
        }
    }
}

static void test_prepare__appends_and_turns(void **state)
{
    (void)state;
    for (int n = 0; n < 3 * 3 * 3 * 2 * 2; n++) {
        int32_t dtype = ANYFLASH_F32 + n % 3;
        enum layout layout = (enum layout)(n / 3 % 3);
        int64_t rotary_dim = (const int64_t[]){0, 4, 6}[n / 9 % 3];
        bool interleaved = n / 27 % 2 == 1 && rotary_dim > 0, causal = n / 54 % 2 == 1;
        struct anyflash_attend_args a = start(dtype, layout, rotary_dim, interleaved, causal);
        struct af_problem problem = sample_problem(&a);
        assert_int_equal(af_prepare_bytes(&problem),
                         rotary_dim > 0 ? B * H * SQ * D * af_dtype_bytes(dtype) : 0);
        af_prepare(&problem, turned);
        expect_keys(&a, layout);
        expect_queries(&a, &problem);
        assert_ptr_equal(problem.a.q.data, rotary_dim > 0 ? (void *)turned : a.q.data);
        assert_int_equal(af_problem_sequence(&problem, 0).k_count, used[0] + NEW);
    }
}

/* Appended rows are rotated, divided by the scale of their page and rounded to fp8. */
static void test_prepare__rounds_new_keys_to_fp8(void **state)
{
    (void)state;
    static const int32_t f8s[] = {ANYFLASH_F8_E4M3, ANYFLASH_F8_E5M2};
    float k_scales[6 * G], v_scales[6 * G];
    for (int n = 0; n < 6 * G; n++) {
        k_scales[n] = 0.5f + (float)n / 8;
        v_scales[n] = 2.0f - (float)n / 16;
    }
    for (int n = 0; n < 3 * 2 * 2; n++) {
        struct anyflash_attend_args a = start(ANYFLASH_F32 + n % 3, PAGED, 4, false, true);
        a.k.dtype = a.v.dtype = f8s[n / 3 % 2];
        a.k_scales = k_scales;
        a.v_scales = v_scales;
        a.scale_per_page = n / 6;
        a.scale_stride = G;
        struct af_problem problem = sample_problem(&a);
        af_prepare(&problem, turned);
        for (int64_t m = 0; m < B * NEW * G; m++) {
            const int64_t b = m / (NEW * G), i = m / G % NEW, g = m % G, j = used[b] + i;
            const int64_t at = (a.scale_per_page ? table[b * 3 + j / 3] : b) * G + g;
            const size_t bytes = af_dtype_bytes(a.q.dtype);
            const char *new_k = af_row_of_tensor(&a.k_new, bytes, b, g, i);
            const char *new_v = af_row_of_tensor(&a.v_new, bytes, b, g, i);
            for (int64_t d = 0; d < D; d++) {
                const double want = turned_element(&a, new_k, d, j) / (double)k_scales[at];
                const double got = (double)af_convert_load(a.k.dtype, raw_k,
                                                           cache_at(&a, PAGED, b, g, j, D) + d);
                /* Half a unit in the last place, and of the smallest numbers. */
                assert_near(&got, &want, 1, fabs(want) * 0x1p-3 * 1.001 + 0x1p-10);
            }
            for (int64_t d = 0; d < DV; d++)
                assert_int_equal(((const uint8_t *)raw_v)[cache_at(&a, PAGED, b, g, j, DV) + d],
                                 af_f8_of_f32(a.v.dtype, af_convert_load(a.q.dtype, new_v, d) /
                                                             v_scales[at]));
        }
    }
}

static void test_prepare__turns_packed_queries(void **state)
{
    (void)state;
    static const int32_t cu_q[] = {0, 1, 4};
    struct anyflash_attend_args a = start(ANYFLASH_F32, PLAIN, 6, true, true);
    a.cu_seqlens_q = cu_q;
    a.total_q = 4;
    struct af_problem problem = sample_problem(&a);
    assert_int_equal(af_prepare_bytes(&problem), 4 * H * D * sizeof(float));
    af_prepare(&problem, turned);
    for (int64_t row = 0; row < 4; row++) {
        int64_t position = row < 1 ? used[0] + row : used[1] + row - 1;
        for (int64_t d = 0; d < D; d++) {
            double got = (double)turned[(row * H + 1) * D + d];
            double want = turned_element(&a, raw_q + (row * H + 1) * D, d, position);
            assert_near(&got, &want, 1, 1e-5);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prepare__appends_and_turns),
        cmocka_unit_test(test_prepare__rounds_new_keys_to_fp8),
        cmocka_unit_test(test_prepare__turns_packed_queries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
