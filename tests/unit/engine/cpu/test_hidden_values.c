/*
 * test_hidden_values.c: a key that is hidden from a row adds nothing to it,
 * even if its value is NaN or infinite, and a row that sees it gets it, even in a task
 * that finds its keys on the scratch. Runs every kernel of the manifest.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/attn/rows.h"
#include "engine/cpu/kernels.h"
#include "tests/kernels/machine.h"

#define QUERIES 3
#define GROUP 2
#define KEYS 150
#define DIM 40
#define ROWS (QUERIES * GROUP)
#define NONFINITE_KEY (KEYS - 1) /* the last query alone sees it */

struct inputs {
    float q[ROWS * DIM];
    float k[KEYS * DIM];
    float v[KEYS * DIM];
    float o[GROUP][QUERIES][DIM];
    uint8_t mask[QUERIES * KEYS];
};

static float numbers(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return (float)(*state >> 8) * 0x1p-23f - 1.0f;
}

static int32_t type_of_queries(const struct af_kernel *kernel)
{
    return kernel->dtype != 0 ? (int32_t)kernel->dtype : ANYFLASH_F32;
}

static int32_t type_of_keys(const struct af_kernel *kernel)
{
    return kernel->reads_f8 ? ANYFLASH_F8_E5M2 : type_of_queries(kernel);
}

/* The same numbers as elements of `dtype`, in place of the floats. */
static void narrow(float *row, int64_t count, int32_t dtype)
{
    static float elements[KEYS * DIM];
    for (int64_t i = 0; i < count; i++)
        af_convert_store(dtype, elements, i, row[i]);
    memcpy(row, elements, (size_t)count * af_dtype_bytes(dtype));
}

static void fill(struct inputs *in, float nonfinite, const struct af_kernel *kernel)
{
    uint32_t state = 7;
    for (int i = 0; i < ROWS * DIM; i++)
        in->q[i] = numbers(&state);
    for (int i = 0; i < KEYS * DIM; i++) {
        in->k[i] = numbers(&state);
        in->v[i] = numbers(&state);
    }
    in->v[NONFINITE_KEY * DIM + 3] = nonfinite;
    for (int i = 0; i < QUERIES * KEYS; i++)
        in->mask[i] = i % KEYS != NONFINITE_KEY || i / KEYS == QUERIES - 1;
    narrow(in->q, ROWS * DIM, type_of_queries(kernel));
    narrow(in->k, KEYS * DIM, type_of_keys(kernel));
    narrow(in->v, KEYS * DIM, type_of_keys(kernel));
}

static void attend(const struct af_kernel *kernel, struct inputs *in, bool by_mask)
{
    static char scratch[1 << 20] __attribute__((aligned(64)));
    const int32_t of_q = type_of_queries(kernel), of_k = type_of_keys(kernel);
    struct af_problem problem = {.a = anyflash_attend_args_init(), .group = GROUP};
    struct anyflash_attend_args *a = &problem.a;
    problem.element_bytes = af_dtype_bytes(of_q);
    problem.key_bytes = af_dtype_bytes(of_k);
    problem.changes_scores = by_mask;
    a->batch = a->kv_heads = 1;
    a->heads = GROUP;
    a->q_len = QUERIES;
    a->k_len = KEYS;
    a->head_dim = a->value_dim = DIM;
    a->scale = 0.2f;
    a->causal = !by_mask;
    a->q = anyflash_bhsd(in->q, of_q, GROUP, QUERIES, DIM);
    a->k = anyflash_bhsd(in->k, of_k, 1, KEYS, DIM);
    a->v = anyflash_bhsd(in->v, of_k, 1, KEYS, DIM);
    a->o = anyflash_bhsd(in->o, ANYFLASH_F32, GROUP, QUERIES, DIM);
    if (by_mask) {
        a->mask = anyflash_bhsd(in->mask, ANYFLASH_BOOL, 1, QUERIES, KEYS);
        a->mask.head_stride = 0;
    }
    struct af_forward_task task = {
        .problem = &problem,
        .row_begin = GROUP,
        .row_end = ROWS,
        .key_end = KEYS,
        .kv_head_count = 1,
        .sequence = {
            .q_count = QUERIES, .q_full = QUERIES, .k_count = KEYS, .offset = KEYS - QUERIES}};
    assert_true(kernel->scratch_bytes(&problem, ROWS, 1) <= sizeof scratch);
    kernel->run_forward(&task, (struct af_scratch){scratch, sizeof scratch});
    /* The same keys again: first for the rows that see all of them. */
    for (int row = ROWS - GROUP; row >= 0; row -= ROWS - GROUP) {
        task.row_begin = row;
        task.row_end = row + GROUP;
        task.keys_are_kept = true;
        kernel->run_forward(&task, (struct af_scratch){scratch, sizeof scratch});
    }
}

static void check_kernel(const struct af_kernel *kernel, float nonfinite, bool by_mask)
{
    static struct inputs plain, spoiled;
    fill(&plain, 0.0f, kernel);
    fill(&spoiled, nonfinite, kernel);
    attend(kernel, &plain, by_mask);
    attend(kernel, &spoiled, by_mask);
    for (int head = 0; head < GROUP; head++) {
        for (int i = 0; i + 1 < QUERIES; i++)
            assert_memory_equal(spoiled.o[head][i], plain.o[head][i], sizeof plain.o[head][i]);
        for (int d = 0; d < DIM; d++)
            assert_int_equal(isfinite(spoiled.o[head][QUERIES - 1][d]) != 0, d != 3);
    }
}

static void check_all(bool by_mask)
{
    size_t count;
    const struct af_kernel *const *kernels = af_kernels(&count);
    for (size_t k = 0; k < count; k++) {
        if (kernels[k]->operation == AF_BACKWARD || !machine_runs(kernels[k]))
            continue;
        check_kernel(kernels[k], NAN, by_mask);
        check_kernel(kernels[k], INFINITY, by_mask);
    }
}

static void test_hidden_values__causal_rows_do_not_see_nan(void **state)
{
    (void)state;
    check_all(false);
}

static void test_hidden_values__masked_rows_do_not_see_nan(void **state)
{
    (void)state;
    check_all(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hidden_values__causal_rows_do_not_see_nan),
        cmocka_unit_test(test_hidden_values__masked_rows_do_not_see_nan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
