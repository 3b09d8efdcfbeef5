/*
 * test_torch_sdpa.c: the kernels of SDPA: results, which calls are passed on to
 * torch, and no leak when torch or an allocation fails. fake_torch.c calls them
 * as torch's dispatcher does; results are compared with attention in double.
 */
#include <dlfcn.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "anyflash/anyflash_torch.h"
#include "engine/base/mem.h"
#include "fake_torch.h"

#define SDPA "_scaled_dot_product_flash_attention_for_cpu"
#define SDPA_BACKWARD "_scaled_dot_product_flash_attention_for_cpu_backward"

enum { D = 8, HEADS = 4, GROUPS = 2, ROWS = 5, KEYS = 7, STACK = 20 };

static uint64_t slot_of(const void *pointer)
{
    uint64_t slot = 0;
    memcpy(&slot, &pointer, sizeof pointer);
    return slot;
}

static struct fake_tensor *in_slot(uint64_t slot)
{
    struct fake_tensor *tensor;
    memcpy(&tensor, &slot, sizeof tensor);
    return tensor;
}

static uint64_t float_slot(double number)
{
    uint64_t slot;
    memcpy(&slot, &number, sizeof number);
    return slot;
}

static struct fake_tensor *floats(int64_t dim, const int64_t *sizes, unsigned seed)
{
    struct fake_tensor *tensor = fake_tensor_new(FAKE_F32, dim, sizes);
    int64_t count = 1;
    for (int64_t i = 0; i < dim; i++)
        count *= sizes[i];
    for (int64_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        ((float *)tensor->data)[i] = (float)(seed >> 8) / (float)(1 << 23) - 1.0f;
    }
    return tensor;
}

/* [B, H, S, D] */
struct problem {
    struct fake_tensor *q, *k, *v;
};

static struct problem sdpa_problem(void)
{
    const int64_t q[4] = {1, HEADS, ROWS, D}, k[4] = {1, GROUPS, KEYS, D};
    return (struct problem){floats(4, q, 1), floats(4, k, 2), floats(4, k, 3)};
}

static void free_problem(struct problem *p)
{
    fake_tensor_free(p->q);
    fake_tensor_free(p->k);
    fake_tensor_free(p->v);
}

static double at(const struct fake_tensor *t, int64_t row, int64_t head, int64_t d)
{
    const int64_t *strides = t->strides;
    return (
        double)((const float *)t->data)[row * strides[2] + head * strides[1] + d * strides[3]];
}

/* Probabilities of one row over the keys [first, end) that it sees; returns the logsumexp. */
static double row_weights(const struct problem *p, int64_t row, int64_t head, int64_t first,
                          int64_t end, double weights[KEYS])
{
    double sum = 0;
    for (int64_t j = first; j < end; j++) {
        double score = 0;
        for (int64_t d = 0; d < D; d++)
            score += at(p->q, row, head, d) * at(p->k, j, head / (HEADS / GROUPS), d);
        sum += weights[j] = exp(score / sqrt((double)D));
    }
    for (int64_t j = first; j < end; j++)
        weights[j] /= sum;
    return log(sum);
}

static void check_row(const struct problem *p, const struct fake_tensor *o, double lse,
                      int64_t row, int64_t head, int64_t first, int64_t end)
{
    double weights[KEYS] = {0};
    double want_lse = row_weights(p, row, head, first, end, weights);
    for (int64_t d = 0; d < D; d++) {
        double want = 0;
        for (int64_t j = first; j < end; j++)
            want += weights[j] * at(p->v, j, head / (HEADS / GROUPS), d);
        assert_true(fabs(at(o, row, head, d) - want) < 1e-5);
    }
    assert_true(fabs(lse - want_lse) < 1e-5);
}

static void push_problem(const struct problem *p, uint64_t *stack)
{
    stack[0] = slot_of(fake_tensor_view(p->q));
    stack[1] = slot_of(fake_tensor_view(p->k));
    stack[2] = slot_of(fake_tensor_view(p->v));
}

/* q, k, v, dropout, causal, no mask, no scale */
static void push_sdpa(const struct problem *p, bool causal, uint64_t *stack)
{
    push_problem(p, stack);
    stack[3] = float_slot(0.0);
    stack[4] = 0xab00u | causal; /* the other bytes of a bool are noise */
    stack[5] = stack[6] = 0;
}

static void drop_results(uint64_t *stack, int count)
{
    for (int i = 0; i < count; i++)
        if (stack[i] != 0)
            fake_tensor_free(in_slot(stack[i]));
}

static int set_up(void **state)
{
    (void)state;
    struct anyflash_error err = {0};
    void *library = dlopen(AF_FAKE_TORCH, RTLD_NOW);
    assert_non_null(library);
    fake_refuse_own(false);
    assert_int_equal(anyflash_torch_enable(library, &err), ANYFLASH_OK);
    dlclose(library);
    return 0;
}

static void test_sdpa__forward_is_attention_in_torchs_strides(void **state)
{
    (void)state;
    struct problem p = sdpa_problem();
    uint64_t stack[STACK];
    int before = fake_living();
    push_sdpa(&p, true, stack);
    assert_true(fake_call(SDPA, stack, 7, 2));
    const struct fake_tensor *o = in_slot(stack[0]), *lse = in_slot(stack[1]);
    assert_int_equal(lse->strides[1], 1);
    assert_int_equal(lse->strides[2], HEADS);
    for (int64_t i = 0; i < ROWS; i++) /* top-left: row i sees keys 0 to i */
        for (int64_t h = 0; h < HEADS; h++)
            check_row(&p, o, (double)((const float *)lse->data)[h + i * HEADS], i, h, 0, i + 1);
    drop_results(stack, 2);
    assert_int_equal(fake_living(), before);
    free_problem(&p);
}

/* Turns the results of a forward into the arguments of the backward of their sum. */
static void push_backward(const struct problem *p, uint64_t *stack)
{
    uint64_t o = stack[0], lse = stack[1];
    struct fake_tensor *dout = fake_tensor_new(FAKE_F32, 4, in_slot(o)->sizes);
    ((float *)dout->data)[0] = 1.0f;
    memset(dout->strides, 0, sizeof dout->strides);
    stack[0] = slot_of(dout);
    push_problem(p, stack + 1);
    stack[4] = o;
    stack[5] = lse;
    memset(stack + 6, 0, 4 * sizeof *stack);
}

/* dv of the engine when all rows see all keys and dout is 1 everywhere (strides of 0). */
static void test_sdpa__backward_takes_the_gradient_of_a_sum(void **state)
{
    (void)state;
    struct problem p = sdpa_problem();
    uint64_t stack[STACK];
    int before = fake_living(), own = fake_own_calls();
    push_sdpa(&p, false, stack);
    assert_true(fake_call(SDPA, stack, 7, 2));
    push_backward(&p, stack);
    assert_true(fake_call(SDPA_BACKWARD, stack, 10, 3));
    assert_int_equal(fake_own_calls(), own);
    const struct fake_tensor *dv = in_slot(stack[2]);
    assert_int_equal(dv->strides[1], D); /* [B, S, H, D] in memory */
    double sums[GROUPS][KEYS] = {{0}};
    for (int64_t h = 0; h < HEADS; h++)
        for (int64_t i = 0; i < ROWS; i++) {
            double weights[KEYS] = {0};
            row_weights(&p, i, h, 0, KEYS, weights);
            for (int64_t j = 0; j < KEYS; j++)
                sums[h / (HEADS / GROUPS)][j] += weights[j];
        }
    for (int64_t g = 0; g < GROUPS; g++)
        for (int64_t j = 0; j < KEYS; j++)
            assert_true(fabs(at(dv, j, g, 3) - sums[g][j]) < 1e-5);
    drop_results(stack, 3);
    assert_int_equal(fake_living(), before);
    free_problem(&p);
}

static void test_sdpa__what_the_engine_declines_goes_to_torch(void **state)
{
    (void)state;
    struct problem p = sdpa_problem();
    uint64_t stack[STACK], calls[2][2];
    int before = fake_living(), own = fake_own_calls();
    p.q->dtype = FAKE_F64;
    anyflash_torch_counts(&calls[0][0], &calls[0][1]);
    push_sdpa(&p, false, stack);
    assert_true(fake_call(SDPA, stack, 7, 2));
    anyflash_torch_counts(&calls[1][0], &calls[1][1]);
    assert_int_equal(fake_own_calls(), own + 1);
    assert_int_equal(calls[1][0], calls[0][0] + 1);
    assert_int_equal(calls[1][1], calls[0][1] + 1);
    drop_results(stack, 2);
    fake_refuse_own(true);
    push_sdpa(&p, false, stack);
    assert_false(fake_call(SDPA, stack, 7, 2));
    assert_non_null(strstr(fake_message(), "refused"));
    assert_int_equal(fake_living(), before);
    free_problem(&p);
}

/* Whether torch computed a call of `rows` queries and `keys` keys in f32. */
static bool torch_computes(int64_t rows, int64_t keys)
{
    const int64_t q[4] = {1, HEADS, rows, D}, k[4] = {1, GROUPS, keys, D};
    struct problem p = {floats(4, q, 1), floats(4, k, 2), floats(4, k, 3)};
    uint64_t stack[STACK];
    int own = fake_own_calls();
    push_sdpa(&p, false, stack);
    assert_true(fake_call(SDPA, stack, 7, 2));
    drop_results(stack, 2);
    free_problem(&p);
    return fake_own_calls() > own;
}

static void test_sdpa__torch_keeps_the_chosen_types(void **state)
{
    (void)state;
    const uint32_t f32 = 1u << ANYFLASH_F32, others = ~f32;
    for (unsigned kinds = 0; kinds < 8; kinds++) {
        const bool prefill = (kinds & 1) != 0, decode = (kinds & 2) != 0, few = kinds >= 4;
        anyflash_torch_choose(ANYFLASH_CPU_ALL, prefill ? f32 : others, decode ? f32 : others,
                              few ? f32 : others, 0);
        for (int64_t keys = 1; keys < 300; keys += 127)
            assert_int_equal(torch_computes(17, keys), prefill);
        for (int64_t rows = 1; rows <= 16; rows += 15) {
            assert_int_equal(torch_computes(rows, 129), decode);
            assert_int_equal(torch_computes(rows, 128), few);
            assert_int_equal(torch_computes(rows, 1), few);
        }
    }
    anyflash_torch_choose(ANYFLASH_CPU_ALL, 0, 0, 0, 0);
}

/* The kernels that a context of torch's threads would use. */
static void kernels_of(struct anyflash_context *context, char *text, size_t size_bytes)
{
    static float memory[4][16];
    struct anyflash_attend_args args = ANYFLASH_ATTEND_ARGS_INIT;
    args.batch = args.heads = args.kv_heads = args.q_len = args.k_len = 1;
    args.head_dim = args.value_dim = 16;
    args.q = anyflash_bhsd(memory[0], ANYFLASH_F32, 1, 1, 16);
    args.k = anyflash_bhsd(memory[1], ANYFLASH_F32, 1, 1, 16);
    args.v = anyflash_bhsd(memory[2], ANYFLASH_F32, 1, 1, 16);
    args.o = anyflash_bhsd(memory[3], ANYFLASH_F32, 1, 1, 16);
    assert_int_equal(anyflash_explain(context, &args, text, size_bytes, NULL), ANYFLASH_OK);
}

static void test_sdpa__kernels_are_those_of_the_chosen_level(void **state)
{
    (void)state;
    struct anyflash_context_args args = {.struct_size = sizeof args, .threads = 1};
    struct anyflash_context *own;
    void *library = dlopen(AF_FAKE_TORCH, RTLD_NOW);
    static const int32_t levels[] = {ANYFLASH_CPU_ALL, ANYFLASH_CPU_BASE, ANYFLASH_CPU_AVX2};
    fake_set_threads(1);
    for (size_t i = 0; i < AF_COUNT(levels); i++) {
        char have[2000], want[2000];
        anyflash_torch_choose(levels[i], 0, 0, 0, 0);
        args.cpu_level = levels[i];
        assert_int_equal(anyflash_context_new(&args, &own, NULL), ANYFLASH_OK);
        kernels_of(own, want, sizeof want);
        kernels_of(anyflash_torch_context(library), have, sizeof have);
        assert_string_equal(have, want);
        anyflash_context_free(own);
    }
    anyflash_torch_choose(ANYFLASH_CPU_ALL, 0, 0, 0, 0);
    dlclose(library);
}

static void test_sdpa__switched_off_is_torchs_and_not_counted(void **state)
{
    (void)state;
    struct problem p = sdpa_problem();
    uint64_t stack[STACK], calls[2][2];
    int own = fake_own_calls();
    anyflash_torch_disable();
    anyflash_torch_counts(&calls[0][0], &calls[0][1]);
    push_sdpa(&p, false, stack);
    assert_true(fake_call(SDPA, stack, 7, 2));
    anyflash_torch_counts(&calls[1][0], &calls[1][1]);
    assert_int_equal(fake_own_calls(), own + 1);
    assert_memory_equal(calls[0], calls[1], sizeof calls[0]);
    drop_results(stack, 2);
    free_problem(&p);
}

/*
 * Calls each kernel once, with everything that may fail; returns the number of
 * leaked objects.
 */
static void call_all(const struct problem *p)
{
    uint64_t stack[STACK] = {0};
    push_sdpa(p, true, stack);
    stack[6] = fake_cell(float_slot(0.5));
    if (!fake_call(SDPA, stack, 7, 2))
        return;
    push_backward(p, stack);
    if (fake_call(SDPA_BACKWARD, stack, 10, 3))
        drop_results(stack, 3);
}

static void test_every_refusal_of_torch_or_of_memory_leaves_nothing(void **state)
{
    (void)state;
    struct problem p = sdpa_problem();
    int before = fake_living();
    for (int nth = 1; nth <= 80; nth++) {
        fake_fail_nth(nth);
        call_all(&p);
        fake_fail_nth(0);
        assert_int_equal(fake_living(), before);
    }
    for (size_t nth = 1; nth <= 12; nth++) {
        fake_set_threads(nth % 2 == 0 ? 2 : 3); /* a new context each time */
        af_mem_fail_nth(nth, false);
        call_all(&p);
        af_mem_fail_nth(0, false);
        assert_int_equal(fake_living(), before);
    }
    free_problem(&p);
}

static void test_threads_are_torchs(void **state)
{
    (void)state;
    const int64_t sizes[4] = {4, HEADS, 300, D};
    struct problem p = {floats(4, sizes, 1), floats(4, sizes, 2), floats(4, sizes, 3)};
    int before = fake_parallel_calls();
    uint64_t stack[STACK];
    fake_set_threads(2);
    push_sdpa(&p, false, stack);
    assert_true(fake_call(SDPA, stack, 7, 2));
    drop_results(stack, 2);
    fake_set_threads(1);
    assert_true(fake_parallel_calls() > before);
    free_problem(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_sdpa__forward_is_attention_in_torchs_strides, set_up),
        cmocka_unit_test_setup(test_sdpa__backward_takes_the_gradient_of_a_sum, set_up),
        cmocka_unit_test_setup(test_sdpa__what_the_engine_declines_goes_to_torch, set_up),
        cmocka_unit_test_setup(test_sdpa__torch_keeps_the_chosen_types, set_up),
        cmocka_unit_test_setup(test_sdpa__kernels_are_those_of_the_chosen_level, set_up),
        cmocka_unit_test_setup(test_sdpa__switched_off_is_torchs_and_not_counted, set_up),
        cmocka_unit_test_setup(test_every_refusal_of_torch_or_of_memory_leaves_nothing, set_up),
        cmocka_unit_test_setup(test_threads_are_torchs, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
