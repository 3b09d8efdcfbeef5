/*
 * test_forward.c: compares every forward and decode kernel that this machine
 * can run with the oracle, on random problems with all features.
 *
 * ANYFLASH_TEST_CASES: random problems of each kind and type.
 * ANYFLASH_TEST_SEED: only the problem that a failure named.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "forward_check.h"
#include "visibility_case.h"

#define CASES 10

static const int32_t types[] = {ANYFLASH_F32, ANYFLASH_F16, ANYFLASH_BF16};

/* Lengths around tile edges as often as any; primes and 0 among them. */
static int64_t pick_length(struct forward_case *c, int64_t most)
{
    static const int64_t edges[] = {
        0,  1,  2,  3,  7,   8,   11,  12,  13,  16,  23,  24,  25,  31,  47,  48,  49,  63, 64,
        65, 95, 96, 97, 127, 128, 129, 143, 144, 145, 191, 192, 193, 211, 239, 240, 241, 257};
    int64_t length = case_one_in(c, 3) ? case_pick(c, 1, most)
                                       : edges[case_pick(c, 0, (int64_t)AF_COUNT(edges) - 1)];
    return length < most ? length : most;
}

static int64_t pick_dim(struct forward_case *c)
{
    static const int64_t dims[] = {1,  2,  7,  8,  15, 16, 17, 31, 32,
                                   33, 48, 63, 64, 65, 80, 96, 128};
    return case_one_in(c, 2) ? dims[case_pick(c, 0, (int64_t)AF_COUNT(dims) - 1)]
                             : case_pick(c, 1, 100);
}

static void pick_sizes(struct forward_case *c, int64_t q_most, int64_t k_most)
{
    int64_t dim = pick_dim(c);
    case_sizes(c, case_one_in(c, 12) ? 0 : case_pick(c, 1, 3), case_pick(c, 1, 2),
               case_pick(c, 1, 4), pick_length(c, q_most), pick_length(c, k_most), dim,
               case_one_in(c, 2) ? dim : pick_dim(c));
}

static void pick_visibility(struct forward_case *c)
{
    struct anyflash_attend_args *a = &c->a;
    visibility_any(a, case_indexes(c, a->batch), &c->state);
    if (case_one_in(c, 4))
        a->mask = case_plane(c, ANYFLASH_BOOL);
}

static void pick_scores(struct forward_case *c)
{
    static const float scales[] = {ANYFLASH_SCALE_DEFAULT, ANYFLASH_SCALE_DEFAULT, 0.0f, 0.5f,
                                   -0.125f};
    struct anyflash_attend_args *a = &c->a;
    a->scale = scales[case_pick(c, 0, (int64_t)AF_COUNT(scales) - 1)];
    if (case_one_in(c, 4))
        a->softcap = 3.0f;
    if (case_one_in(c, 4)) {
        bool of_batch = case_one_in(c, 2);
        float *slopes = case_floats(c, a->heads * (of_batch ? a->batch : 1));
        for (int64_t h = 0; h < a->heads * (of_batch ? a->batch : 1); h++)
            slopes[h] *= 0.05f;
        a->alibi_slopes = slopes;
        a->alibi_batch_stride = of_batch ? a->heads : 0;
    }
    if (case_one_in(c, 4))
        a->sinks = case_floats(c, a->heads);
    if (case_one_in(c, 3))
        a->bias = case_plane(c, types[case_pick(c, 0, 2)]);
    if (case_one_in(c, 5)) {
        a->dropout = 0.25f;
        a->dropout_seed = case_word(c);
        a->dropout_offset = case_word(c);
    }
}

/* Packed sequences of random lengths, empty ones among them. */
static void pick_packing(struct forward_case *c)
{
    struct anyflash_attend_args *a = &c->a;
    int32_t *cu_q = case_indexes(c, a->batch + 1), *cu_k = case_indexes(c, a->batch + 1);
    cu_q[0] = cu_k[0] = (int32_t)case_pick(c, 0, 3);
    for (int64_t b = 0; b < a->batch; b++) {
        cu_q[b + 1] = cu_q[b] + (int32_t)case_pick(c, 0, a->q_len);
        cu_k[b + 1] = cu_k[b] + (int32_t)case_pick(c, 0, a->k_len);
    }
    a->cu_seqlens_q = cu_q;
    a->cu_seqlens_k = cu_k;
    a->total_q = cu_q[a->batch] + case_pick(c, 0, 2);
    a->total_k = cu_k[a->batch] + case_pick(c, 0, 2);
}

/* Sequences shorter than the tensors, with padding on either side. */
static void pick_lengths(struct forward_case *c)
{
    struct anyflash_attend_args *a = &c->a;
    int32_t *used_q = case_indexes(c, a->batch), *used_k = case_indexes(c, a->batch);
    int32_t *leftpad = case_indexes(c, a->batch);
    for (int64_t b = 0; b < a->batch; b++) {
        used_q[b] = (int32_t)case_pick(c, 0, a->q_len);
        used_k[b] = (int32_t)case_pick(c, 0, a->k_len - a->new_len);
        leftpad[b] = case_one_in(c, 3) ? (int32_t)case_pick(c, 0, used_k[b]) : 0;
    }
    if (case_one_in(c, 2))
        a->seqused_q = used_q;
    a->seqused_k = used_k;
    a->leftpad_k = leftpad;
}

/* Pages in random order; no page is used twice, so that sequences may append. */
static void pick_pages(struct forward_case *c)
{
    struct anyflash_attend_args *a = &c->a;
    a->page_size = case_one_in(c, 2) ? case_pick(c, 1, 40) : 16;
    a->block_table_stride = (a->k_len + a->page_size - 1) / a->page_size + case_pick(c, 0, 2);
    a->page_count = a->batch * a->block_table_stride;
    a->block_table = case_permutation(c, a->page_count);
}

static void pick_append(struct forward_case *c)
{
    struct anyflash_attend_args *a = &c->a;
    if (a->k_len == 0 || !case_one_in(c, 2))
        return;
    a->new_len = case_pick(c, 1, a->k_len < 9 ? a->k_len : 9);
    if (a->head_dim < 2 || !case_one_in(c, 2))
        return;
    a->rotary_dim = case_pick(c, 1, a->head_dim / 2) * 2;
    a->rotary_rows = a->k_len + a->q_len;
    a->rotary_interleaved = case_one_in(c, 2);
    a->rotary_cos = case_floats(c, a->rotary_rows * a->rotary_dim / 2);
    a->rotary_sin = case_floats(c, a->rotary_rows * a->rotary_dim / 2);
}

/* A cache with more batches than the call has, each used once. */
static void pick_cache(struct forward_case *c)
{
    struct anyflash_attend_args *a = &c->a;
    int32_t *batches = case_indexes(c, a->batch);
    a->cache_batch = a->batch + case_pick(c, 0, 2);
    for (int64_t b = 0; b < a->batch; b++)
        batches[b] = (int32_t)(a->cache_batch - 1 - b);
    a->cache_batch_idx = batches;
}

/* Keys of a cache: of some lengths, in pages or chosen batches, perhaps appended to. */
static void pick_cached_keys(struct forward_case *c)
{
    pick_append(c);
    pick_lengths(c);
    if (case_one_in(c, 2))
        pick_pages(c);
    else if (case_one_in(c, 2))
        pick_cache(c);
}

static struct forward_case *plain_case(uint64_t seed, int32_t dtype)
{
    struct forward_case *c = case_new(seed, dtype);
    pick_sizes(c, 260, 300);
    pick_visibility(c);
    case_tensors(c);
    pick_scores(c);
    return c;
}

static struct forward_case *few_rows_case(uint64_t seed, int32_t dtype)
{
    struct forward_case *c = case_new(seed, dtype);
    pick_sizes(c, 4, 1300);
    pick_visibility(c);
    case_tensors(c);
    pick_scores(c);
    return c;
}

static struct forward_case *packed_case(uint64_t seed, int32_t dtype)
{
    struct forward_case *c = case_new(seed, dtype);
    pick_sizes(c, 150, 200);
    pick_visibility(c);
    pick_packing(c);
    if (case_one_in(c, 3)) {
        int32_t *used = case_indexes(c, c->a.batch);
        for (int64_t b = 0; b < c->a.batch; b++)
            used[b] = (int32_t)case_pick(c, 0, c->a.cu_seqlens_k[b + 1] - c->a.cu_seqlens_k[b]);
        c->a.seqused_k = used;
    }
    case_tensors(c);
    pick_scores(c);
    return c;
}

static struct forward_case *cache_case(uint64_t seed, int32_t dtype)
{
    struct forward_case *c = case_new(seed, dtype);
    pick_sizes(c, case_one_in(c, 2) ? 3 : 100, 400);
    pick_visibility(c);
    pick_cached_keys(c);
    case_tensors(c);
    pick_scores(c);
    return c;
}

/* fp8 keys and values, packed or of a cache, with scales. */
static struct forward_case *f8_case(uint64_t seed, int32_t dtype)
{
    struct forward_case *c = case_new(seed, dtype);
    c->key_dtype = case_one_in(c, 2) ? ANYFLASH_F8_E4M3 : ANYFLASH_F8_E5M2;
    pick_sizes(c, case_one_in(c, 2) ? 3 : 260, 500);
    pick_visibility(c);
    if (case_one_in(c, 4))
        pick_packing(c);
    else
        pick_cached_keys(c);
    case_tensors(c);
    pick_scores(c);
    c->a.dropout = 0;
    case_scales(c);
    return c;
}

/* Problems seed, seed + 1, ... of each type. */
static void random_cases(struct forward_case *make(uint64_t, int32_t), uint64_t seed)
{
    const char *only = getenv("ANYFLASH_TEST_SEED"), *count = getenv("ANYFLASH_TEST_CASES");
    uint64_t cases = count != NULL ? strtoull(count, NULL, 10) : CASES;
    if (only != NULL) {
        seed = strtoull(only, NULL, 10);
        cases = 1;
    }
    for (size_t t = 0; t < AF_COUNT(types); t++) {
        for (uint64_t n = 0; n < cases; n++)
            check_case(make(seed + n, types[t]));
    }
}

static void test_forward__random_problems_are_near_the_oracle(void **state)
{
    (void)state;
    random_cases(plain_case, 100000);
}

static void test_forward__few_rows_are_near_the_oracle(void **state)
{
    (void)state;
    random_cases(few_rows_case, 200000);
}

static void test_forward__packed_sequences_are_near_the_oracle(void **state)
{
    (void)state;
    random_cases(packed_case, 300000);
}

static void test_forward__caches_and_pages_are_near_the_oracle(void **state)
{
    (void)state;
    random_cases(cache_case, 400000);
}

static void test_forward__fp8_keys_are_near_the_oracle(void **state)
{
    (void)state;
    random_cases(f8_case, 500000);
}

static void test_manifest__preferred_rows_are_tiles_that_fit(void **state)
{
    (void)state;
    size_t count;
    const struct af_kernel *const *kernels = af_kernels(&count);
    for (size_t k = 0; k < count; k++) {
        const struct af_kernel *kernel = kernels[k];
        if (kernel->operation == AF_BACKWARD)
            continue;
        if (kernel->rows_preferred > kernel->rows_max || kernel->rows_granule < 1 ||
            kernel->rows_preferred % kernel->rows_granule != 0)
            fail_msg("%s prefers %lld rows, takes %lld, in tiles of %lld", kernel->name,
                     (long long)kernel->rows_preferred, (long long)kernel->rows_max,
                     (long long)kernel->rows_granule);
    }
}

static void test_manifest__every_kernel_that_can_run_here_ran(void **state)
{
    (void)state;
    size_t count;
    const struct af_kernel *const *kernels = af_kernels(&count);
    assert_true(count <= KERNELS_MAX);
    for (size_t k = 0; k < count; k++) {
        if ((kernels[k]->needs & ~af_cpu_features()) != 0)
            print_message("not tested, this machine cannot run it: %s\n", kernels[k]->name);
    }
    for (size_t k = 0; getenv("ANYFLASH_TEST_SEED") == NULL && k < count; k++) {
        if (kernels[k]->operation != AF_BACKWARD && machine_runs(kernels[k]) &&
            tasks_run[k] == 0)
            fail_msg("%s was in no test", kernels[k]->name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forward__random_problems_are_near_the_oracle),
        cmocka_unit_test(test_forward__few_rows_are_near_the_oracle),
        cmocka_unit_test(test_forward__packed_sequences_are_near_the_oracle),
        cmocka_unit_test(test_forward__caches_and_pages_are_near_the_oracle),
        cmocka_unit_test(test_forward__fp8_keys_are_near_the_oracle),
        cmocka_unit_test(test_manifest__preferred_rows_are_tiles_that_fit),
        cmocka_unit_test(test_manifest__every_kernel_that_can_run_here_ran),
    };
    return cmocka_run_group_tests(tests, make_contexts, free_contexts);
}
