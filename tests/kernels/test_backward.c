/*
 * test_backward.c: the backward against the oracle: every kernel of the
 * manifest that runs here, every feature, any number of threads.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/base/mem.h"

#include "backward_check.h"
#include "contexts.h"
#include "visibility_case.h"

#define CASES 60

/* Lengths around tile edges as often as any. */
static int64_t pick_length(struct backward_case *c)
{
    static const int64_t edges[] = {1,   2,   5,   6,   7,   23,  24,  25,  47,
                                    48,  49,  95,  96,  97,  143, 144, 145, 191,
                                    192, 193, 194, 197, 239, 240, 241, 383, 385};
    if (case_one_in(c, 2))
        return edges[case_pick(c, 0, (int64_t)AF_COUNT(edges) - 1)];
    return case_pick(c, 1, 260);
}

static int64_t pick_dim(struct backward_case *c)
{
    static const int64_t dims[] = {1,  7,  8,  15, 16, 17, 31, 33,
                                   40, 48, 64, 65, 72, 80, 96, 128};
    if (case_one_in(c, 2))
        return dims[case_pick(c, 0, (int64_t)AF_COUNT(dims) - 1)];
    return case_pick(c, 1, 130);
}

static void pick_visibility(struct backward_case *c)
{
    struct anyflash_attend_args *a = &c->a;
    visibility_any(a, c->offsets, &c->seed);
    if (case_one_in(c, 4)) {
        for (int b = 0; b < a->batch; b++)
            c->used_q[b] = (int32_t)case_pick(c, 0, a->q_len);
        a->seqused_q = c->used_q;
    }
    if (case_one_in(c, 4)) {
        for (int b = 0; b < a->batch; b++) {
            c->used_k[b] = (int32_t)case_pick(c, 0, a->k_len);
            c->leftpad[b] = (int32_t)case_pick(c, 0, c->used_k[b]);
        }
        a->seqused_k = c->used_k;
        a->leftpad_k = c->leftpad;
    }
}

/* Packed sequences of random lengths, empty ones among them. */
static void pick_packing(struct backward_case *c)
{
    struct anyflash_attend_args *a = &c->a;
    if (!case_one_in(c, 4) || a->seqused_q != NULL || a->seqused_k != NULL)
        return;
    for (int b = 0; b < a->batch; b++) {
        c->cu_q[b + 1] = c->cu_q[b] + (int32_t)case_pick(c, 0, a->q_len);
        c->cu_k[b + 1] = c->cu_k[b] + (int32_t)case_pick(c, 0, a->k_len);
    }
    a->cu_seqlens_q = c->cu_q;
    a->cu_seqlens_k = c->cu_k;
    a->total_q = c->cu_q[a->batch];
    a->total_k = c->cu_k[a->batch];
}

static void pick_scores(struct backward_case *c)
{
    struct anyflash_attend_args *a = &c->a;
    for (int h = 0; h < 64; h++) {
        c->slopes[h] = 0.01f * (float)h;
        c->sinks[h] = case_number(c);
    }
    a->scale = case_one_in(c, 5) ? 0.0f : ANYFLASH_SCALE_DEFAULT;
    a->softcap = case_one_in(c, 4) ? 5.0f : 0.0f;
    a->alibi_slopes = case_one_in(c, 4) ? c->slopes : NULL;
    a->sinks = case_one_in(c, 4) ? c->sinks : NULL;
    if (a->sinks != NULL && case_one_in(c, 2))
        c->args.dsinks = case_elements(c, ANYFLASH_F32, a->heads);
    if (case_one_in(c, 4))
        a->mask = case_plane(c, ANYFLASH_BOOL);
    if (case_one_in(c, 3)) {
        a->bias = case_plane(c, case_one_in(c, 2) ? ANYFLASH_F32 : c->dtype);
        if (case_one_in(c, 2)) {
            c->args.dbias = a->bias;
            c->args.dbias.dtype = ANYFLASH_F32;
            c->args.dbias.data =
                case_elements(c, ANYFLASH_F32, a->batch * a->heads * a->q_len * a->k_len);
        }
    }
    if (case_one_in(c, 5)) {
        a->dropout = 0.25f;
        a->dropout_seed = case_word(c);
    }
}

static struct backward_case *random_case(uint64_t seed, int32_t dtype)
{
    struct backward_case *c = case_new(seed, dtype);
    int64_t dim = pick_dim(c);
    case_sizes(c, case_pick(c, 1, 3), case_pick(c, 1, 2), case_pick(c, 1, 3), pick_length(c),
               pick_length(c), dim, case_one_in(c, 2) ? dim : pick_dim(c));
    pick_visibility(c);
    pick_packing(c);
    case_tensors(c);
    pick_scores(c);
    return c;
}

/* Runs one kernel on all pools, which must agree, and compares with the oracle. */
static void check_kernel(struct backward_case *c, const struct af_kernel *kernel, uint64_t seed)
{
    uint64_t first = 0;
    for (int n = 0; n < POOLS; n++) {
        case_attend(contexts[n], c, kernel->needs);
        first = n == 0 ? fingerprint(c) : first;
        if (fingerprint(c) != first)
            fail_msg("seed %llu: %s with %d threads gives other bits", (unsigned long long)seed,
                     kernel->name, n + 1);
    }
    check_outputs(c, kernel->name, seed);
}

/* Every kernel for the case's type that this machine can run. Frees the case. */
static void check_case(struct backward_case *c, uint64_t seed)
{
    size_t count;
    const struct af_kernel *const *kernels = af_kernels(&count);
    bool any = false;
    for (size_t n = 0; n < count; n++)
        any = any || case_is_for(kernels[n], c);
    if (!any) {
        case_free(c);
        return;
    }
    case_solve(c);
    for (size_t n = 0; n < count; n++) {
        if (case_is_for(kernels[n], c))
            check_kernel(c, kernels[n], seed);
    }
    case_free(c);
}

static const int32_t types[] = {ANYFLASH_F32, ANYFLASH_F16, ANYFLASH_BF16};

/* Problems 1000, 1001, ... of the first type, 2000, ... of the next. */
static void test_backward__random_features_are_near_the_oracle(void **state)
{
    (void)state;
    const char *only = getenv("ANYFLASH_TEST_SEED"), *count = getenv("ANYFLASH_TEST_CASES");
    const uint64_t cases = only != NULL ? 1 : count != NULL ? strtoull(count, NULL, 10) : CASES;
    for (size_t t = 0; t < AF_COUNT(types); t++) {
        const uint64_t seed = only != NULL ? strtoull(only, NULL, 10) : 1000 * (t + 1);
        for (uint64_t n = 0; n < cases; n++)
            check_case(random_case(seed + n, types[t]), seed + n);
    }
}

static void test_backward__chunks_of_keys_and_passes_of_rows(void **state)
{
    (void)state;
    for (size_t n = 0; n < AF_COUNT(types); n++) {
        struct backward_case *many_keys = case_new(7, types[n]);
        case_sizes(many_keys, 1, 1, 1, 50, 1601, 24, 8);
        many_keys->a.causal = 1;
        case_tensors(many_keys);
        check_case(many_keys, 7);
        struct backward_case *many_rows = case_new(8, types[n]);
        case_sizes(many_rows, 1, 1, 3, 1401, 200, 9, 17);
        many_rows->a.window_left = 700;
        many_rows->a.align = ANYFLASH_ALIGN_TOP_LEFT;
        case_tensors(many_rows);
        check_case(many_rows, 8);
    }
}

/* Two chunks of keys; a pass of rows sees none of one chunk, or no key at all. */
static void test_backward__rows_that_see_no_key_of_a_chunk(void **state)
{
    (void)state;
    for (size_t n = 0; n < 2 * AF_COUNT(types); n++) {
        struct backward_case *c = case_new(13, types[n / 2]);
        case_sizes(c, 1, 1, 1, 2900, 800, 8, 8);
        if (n % 2 == 0)
            c->a.causal = 1;
        else {
            c->a.window_left = 100;
            c->a.align = ANYFLASH_ALIGN_TOP_LEFT;
        }
        case_tensors(c);
        check_case(c, 13);
    }
}

/*
 * Scores so low that 2^-lse is infinite: what a tile computes beyond the last key,
 * whose score is 0 there, must not reach a sum.
 */
static void test_backward__very_low_scores_of_keys_that_fill_no_tile(void **state)
{
    (void)state;
    for (size_t n = 0; n < 2 * AF_COUNT(types); n++) {
        const int64_t keys = n % 2 == 0 ? 21 : 22;
        struct backward_case *c = case_new(12, types[n / 2]);
        case_sizes(c, 1, 1, 1, 48, keys, 16, 16);
        c->a.scale = 1;
        case_tensors(c);
        for (int64_t e = 0; e < 48 * 16; e++)
            af_convert_store(types[n / 2], c->a.q.data, e, 2.5f);
        for (int64_t e = 0; e < keys * 16; e++)
            af_convert_store(types[n / 2], c->a.k.data, e, -2.5f);
        check_case(c, 12);
    }
}

static void test_backward__large_head_sizes(void **state)
{
    (void)state;
    for (size_t n = 0; n < AF_COUNT(types); n++) {
        struct backward_case *c = case_new(9, types[n]);
        case_sizes(c, 1, 1, 1, 50, 60, 576, 257);
        c->a.causal = 1;
        case_tensors(c);
        check_case(c, 9);
    }
}

/* Fills one row of a tensor with `number`. */
static void spoil(const struct anyflash_tensor *tensor, int64_t row, int64_t dim, float number)
{
    char *at = af_row_of_tensor(tensor, af_dtype_bytes(tensor->dtype), 0, 0, row);
    for (int64_t d = 0; d < dim; d++)
        af_convert_store(tensor->dtype, at, d, number);
}

static void test_backward__what_is_hidden_may_hold_nan_and_infinity(void **state)
{
    (void)state;
    static const float numbers[] = {NAN, INFINITY};
    for (size_t n = 0; n < AF_COUNT(types) * AF_COUNT(numbers); n++) {
        struct backward_case *c = case_new(10, types[n / 2]);
        case_sizes(c, 1, 1, 1, 70, 100, 24, 16);
        c->a.causal = 1;
        c->a.align = ANYFLASH_ALIGN_TOP_LEFT;
        case_tensors(c);
        c->args.dlse = NULL;
        /* Keys that no row sees, and keys that some rows see. */
        spoil(&c->a.k, 80, 24, numbers[n % 2]);
        spoil(&c->a.v, 81, 16, numbers[n % 2]);
        spoil(&c->a.k, 60, 24, numbers[n % 2]);
        spoil(&c->a.v, 55, 16, numbers[n % 2]);
        spoil(&c->a.q, 30, 24, numbers[n % 2]);
        spoil(&c->args.dout, 12, 16, numbers[n % 2]);
        check_case(c, 10);
    }
}

/* Compares dq, dk and dv with the oracle: bound_of() counts errors of the plain formulas. */
static void check_closely(struct backward_case *c, const char *kernel)
{
    struct af_problem problem = case_problem(c);
    for (int n = CASE_DQ; n <= CASE_DV; n++) {
        const double bound = 0x1p-6 * (1 + largest(c->want[n], c->counts[n]));
        for (int64_t e = 0; e < c->counts[n]; e++) {
            bool owned;
            const double got = output_at(c, &problem, n, e, &owned);
            if (owned && !same_or_near(got, c->want[n][e], bound))
                fail_msg("%s: output %d, element %lld is %.9g, not %.9g (bound %g)", kernel, n,
                         (long long)e, got, c->want[n][e], bound);
        }
    }
}

/* Row i sees key i % keys with the lowest number, others with minus infinity or less weight. */
static void fill_extremes(const struct anyflash_tensor *bias, int64_t rows, int64_t keys,
                          float lowest)
{
    for (int64_t i = 0; i < rows; i++) {
        char *row = af_row_of_tensor(bias, af_dtype_bytes(bias->dtype), 0, 0, i);
        const float other = i % 3 == 0 ? -INFINITY : lowest;
        const float one = i % 3 == 0 ? lowest : i % 3 == 1 ? lowest / 4 : lowest * 0x1p-98f;
        for (int64_t j = 0; j < keys; j++)
            af_convert_store(bias->dtype, row, j, j == i % keys ? one : other);
    }
}

static void test_backward__only_minus_infinity_hides(void **state)
{
    (void)state;
    static const float lowest[] = {-0x1.fffffep127f, -65504, -0x1.fep127f};
    for (size_t n = 0; n < 2 * AF_COUNT(types); n++) {
        struct backward_case *c = case_new(15, types[n / 2]);
        case_sizes(c, 1, 1, 1, 70, 110, 24, 16);
        case_tensors(c);
        const int32_t of_bias = n % 2 == 0 ? ANYFLASH_F32 : types[n / 2];
        c->a.bias = case_tensor(c, of_bias, 1, 1, 70, 110, true);
        fill_extremes(&c->a.bias, 70, 110, lowest[n % 2 == 0 ? 0 : n / 2]);
        c->args.dlse = NULL;
        case_forward(c);
        case_oracle(c);
        size_t count;
        const struct af_kernel *const *kernels = af_kernels(&count);
        for (size_t k = 0; k < count; k++) {
            if (!case_is_for(kernels[k], c))
                continue;
            case_attend(contexts[0], c, kernels[k]->needs);
            check_closely(c, kernels[k]->name);
        }
        case_free(c);
    }
}

/* dS is dO.V - dO.O, which are equal, however their sums are rounded. */
static void test_backward__a_single_key_has_no_gradient(void **state)
{
    (void)state;
    for (size_t n = 0; n < 2 * AF_COUNT(types); n++) {
        struct backward_case *c = case_new(16, types[n / 2]);
        case_sizes(c, 1, 1, 3, n % 2 == 0 ? 1 : 239, 1, 64, 192);
        c->a.causal = 1;
        case_tensors(c);
        c->args.dlse = NULL;
        case_forward(c);
        case_oracle(c);
        size_t count;
        const struct af_kernel *const *kernels = af_kernels(&count);
        for (size_t k = 0; k < count; k++) {
            if (!case_is_for(kernels[k], c))
                continue;
            case_attend(contexts[0], c, kernels[k]->needs);
            struct af_problem problem = case_problem(c);
            bool owned;
            for (int64_t e = 0; e < c->counts[CASE_DQ]; e++)
                assert_true(output_at(c, &problem, CASE_DQ, e, &owned) == 0);
            for (int64_t e = 0; e < c->counts[CASE_DK]; e++)
                assert_true(output_at(c, &problem, CASE_DK, e, &owned) == 0);
            check_closely(c, kernels[k]->name);
        }
        case_free(c);
    }
}

/* The weight of the key is 0.9, the rest is the sink's; dropout multiplies it to 1 again. */
static void test_backward__a_sink_beside_a_single_key_has_a_gradient(void **state)
{
    (void)state;
    for (size_t n = 0; n < AF_COUNT(types); n++) {
        struct backward_case *c = case_new(17, types[n]);
        case_sizes(c, 1, 1, 1, 40, 1, 16, 16);
        c->sinks[0] = -2.1972246f; /* log(1 / 9) */
        c->a.sinks = c->sinks;
        c->a.dropout = 0.1f;
        case_tensors(c);
        c->args.dlse = NULL;
        for (int64_t i = 0; i < 40; i++)
            spoil(&c->a.q, i, 16, 0); /* so that scores are 0 */
        check_case(c, 17);
    }
}

static void make_positive(const struct anyflash_tensor *tensor, int64_t count)
{
    for (int64_t e = 0; e < count; e++)
        af_convert_store(tensor->dtype, tensor->data, e,
                         fabsf(af_convert_load(tensor->dtype, tensor->data, e)) + 0.25f);
}

/*
 * One number is infinite, and every row sees it. All others are positive: otherwise the
 * oracle's delta is NaN where dO.O is infinite.
 */
static void test_backward__infinity_goes_where_the_oracle_sends_it(void **state)
{
    (void)state;
    for (size_t n = 0; n < 2 * 4 * AF_COUNT(types); n++) {
        struct backward_case *c = case_new(13, types[n / 8]);
        case_sizes(c, 1, 1, 1, 64, 64, 16, 16);
        case_tensors(c);
        c->args.dlse = NULL;
        const struct anyflash_tensor of[] = {c->a.q, c->a.k, c->a.v, c->args.dout};
        for (size_t t = 0; t < AF_COUNT(of); t++)
            make_positive(&of[t], 64 * 16);
        const struct anyflash_tensor *tensor = &of[n / 2 % 4];
        af_convert_store(tensor->dtype, tensor->data, 40 * 16 + 5,
                         n % 2 == 0 ? INFINITY : -INFINITY);
        check_case(c, 13);
    }
}

/* Rows [begin, end) of a tensor with two columns become (x, y). */
static void set_rows(const struct anyflash_tensor *tensor, int64_t begin, int64_t end, float x,
                     float y)
{
    for (int64_t row = begin; row < end; row++) {
        char *at = af_row_of_tensor(tensor, af_dtype_bytes(tensor->dtype), 0, 0, row);
        af_convert_store(tensor->dtype, at, 0, x);
        af_convert_store(tensor->dtype, at, 1, y);
    }
}

/*
 * Numbers whose lower three bits decide, for kernels that multiply f16 in parts: in weights,
 * dS and what they multiply; then in q.k and dO.v, of which little is left.
 */
static void test_backward__every_bit_of_f16_counts(void **state)
{
    (void)state;
    const float x = 1 + 3 * 0x1p-10f;
    for (int n = 0; n < 2; n++) {
        struct backward_case *c = case_new(14, ANYFLASH_F16);
        case_sizes(c, 1, 1, 1, 20, 2, 2, 2);
        c->a.scale = 1;
        case_tensors(c);
        c->args.dlse = NULL;
        c->a.o = case_tensor(c, ANYFLASH_F32, 1, 1, 20, 2, true);
        c->args.dout = case_tensor(c, ANYFLASH_F32, 1, 1, 20, 2, true);
        set_rows(&c->a.k, 0, 1, 0, 0);
        set_rows(&c->a.v, 0, 1, 0, 0);
        if (n == 0) {
            set_rows(&c->a.q, 0, 20, x, 0);
            set_rows(&c->a.k, 1, 2, -0x1p-8f, x);
            set_rows(&c->a.v, 1, 2, 1, 0);
            set_rows(&c->args.dout, 0, 20, x, 0);
        } else {
            set_rows(&c->a.q, 0, 20, 32 * x, 1);
            set_rows(&c->a.k, 1, 2, 32 * x, -1030);
            set_rows(&c->a.v, 1, 2, 32 * x, -1030);
            set_rows(&c->args.dout, 0, 20, 32 * x, 1);
        }
        check_case(c, 14);
    }
}

static void test_backward__masked_keys_may_hold_nan(void **state)
{
    (void)state;
    for (size_t n = 0; n < AF_COUNT(types); n++) {
        struct backward_case *c = case_new(11, types[n]);
        case_sizes(c, 1, 1, 2, 30, 40, 16, 16);
        case_tensors(c);
        c->a.mask = case_tensor(c, ANYFLASH_BOOL, 1, 1, 1, 40, true);
        c->a.mask.head_stride = c->a.mask.row_stride = 0;
        ((char *)c->a.mask.data)[7] = 0;
        spoil(&c->a.k, 7, 16, NAN);
        spoil(&c->a.v, 7, 16, NAN);
        check_case(c, 11);
    }
}

static void test_backward__only_sinks_or_only_bias(void **state)
{
    (void)state;
    struct backward_case *c = case_new(12, ANYFLASH_F32);
    case_sizes(c, 2, 1, 2, 30, 40, 16, 16);
    case_tensors(c);
    c->a.sinks = c->sinks;
    c->a.bias = case_tensor(c, ANYFLASH_F32, 2, 2, 30, 40, true);
    c->args.dbias = c->a.bias;
    c->args.dbias.data = case_elements(c, ANYFLASH_F32, 2 * 2 * 30 * 40);
    c->args.dsinks = case_elements(c, ANYFLASH_F32, 2);
    case_forward(c);
    case_attend(contexts[1], c, af_cpu_features());
    uint64_t all = fingerprint(c);
    memset(c->args.dbias.data, 1, 2 * 2 * 30 * 40 * 4);
    memset(c->args.dsinks, 1, 2 * 4);
    struct anyflash_attend_backward_args alone = c->args;
    alone.dq.data = alone.dk.data = alone.dv.data = NULL;
    assert_int_equal(anyflash_attend_backward(contexts[1], &alone, NULL), ANYFLASH_OK);
    assert_true(fingerprint(c) == all);
    case_free(c);
}

static void *refuse_memory(size_t size_bytes, size_t align_bytes, void *user)
{
    (void)size_bytes;
    (void)align_bytes;
    (void)user;
    return NULL;
}

static void release_nothing(void *memory, void *user)
{
    (void)memory;
    (void)user;
}

static void test_backward__out_of_memory_leaves_outputs_alone(void **state)
{
    (void)state;
    struct anyflash_context_args context_args = {.struct_size = sizeof context_args,
                                                 .threads = 1,
                                                 .allocate = refuse_memory,
                                                 .release = release_nothing};
    struct anyflash_context *context;
    struct anyflash_error err = {0};
    struct backward_case *c = case_new(13, ANYFLASH_F32);
    case_sizes(c, 1, 1, 1, 20, 30, 16, 16);
    case_tensors(c);
    case_forward(c);
    assert_int_equal(anyflash_context_new(&context_args, &context, NULL), ANYFLASH_OK);
    uint64_t before = fingerprint(c);
    assert_int_equal(anyflash_attend_backward(context, &c->args, &err), ANYFLASH_E_NO_MEMORY);
    assert_true(fingerprint(c) == before);
    anyflash_context_free(context);
    af_mem_fail_nth(1, true);
    assert_int_equal(anyflash_attend_backward(NULL, &c->args, &err), ANYFLASH_E_NO_MEMORY);
    af_mem_fail_nth(0, false);
    assert_true(fingerprint(c) == before);
    case_free(c);
}

static void test_backward__empty_problems(void **state)
{
    (void)state;
    static const int64_t sizes[][3] = {{0, 5, 5}, {2, 0, 5}, {2, 5, 0}};
    for (size_t n = 0; n < AF_COUNT(sizes); n++) {
        struct backward_case *c = case_new(14, ANYFLASH_F32);
        case_sizes(c, sizes[n][0], 2, 2, sizes[n][1], sizes[n][2], 16, 16);
        case_tensors(c);
        c->args.dlse = NULL;
        check_case(c, 14);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_backward__random_features_are_near_the_oracle),
        cmocka_unit_test(test_backward__chunks_of_keys_and_passes_of_rows),
        cmocka_unit_test(test_backward__rows_that_see_no_key_of_a_chunk),
        cmocka_unit_test(test_backward__very_low_scores_of_keys_that_fill_no_tile),
        cmocka_unit_test(test_backward__large_head_sizes),
        cmocka_unit_test(test_backward__what_is_hidden_may_hold_nan_and_infinity),
        cmocka_unit_test(test_backward__only_minus_infinity_hides),
        cmocka_unit_test(test_backward__a_single_key_has_no_gradient),
        cmocka_unit_test(test_backward__a_sink_beside_a_single_key_has_a_gradient),
        cmocka_unit_test(test_backward__infinity_goes_where_the_oracle_sends_it),
        cmocka_unit_test(test_backward__every_bit_of_f16_counts),
        cmocka_unit_test(test_backward__masked_keys_may_hold_nan),
        cmocka_unit_test(test_backward__only_sinks_or_only_bias),
        cmocka_unit_test(test_backward__out_of_memory_leaves_outputs_alone),
        cmocka_unit_test(test_backward__empty_problems),
    };
    return cmocka_run_group_tests(tests, make_contexts, free_contexts);
}
