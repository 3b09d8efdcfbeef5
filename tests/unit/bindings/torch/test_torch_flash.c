/*
 * test_torch_flash.c: the FlashAttention kernels: packed, paged, backward, and
 * the exceptions that they throw.
 */
#include "kernel_calls.h"

static void check_packed(const struct problem *p, const struct fake_tensor *o, const float *lse)
{
    for (int b = 0; b < 2; b++) {
        int64_t q0 = cu_q_values[b], q1 = cu_q_values[b + 1];
        int64_t k0 = cu_k_values[b], k1 = cu_k_values[b + 1];
        for (int64_t i = q0; i < q1; i++) /* bottom-right: the last row sees all */
            for (int64_t h = 0; h < HEADS; h++)
                check_row(p, o, (double)lse[h * ROWS + i], i, h, k0, k1 - (q1 - 1 - i));
    }
}

static void test_flash__packed_forward_with_every_length_of_schema(void **state)
{
    (void)state;
    struct problem p = packed_problem();
    uint64_t stack[STACK];
    int before = fake_living();
    for (uint64_t count = 15; count <= 17; count++) {
        push_flash(&p, stack);
        assert_true(fake_call(FLASH, stack, count, 5));
        check_packed(&p, in_slot(stack[0]), in_slot(stack[1])->data);
        assert_int_equal(in_slot(stack[2])->sizes[0], 2);
        assert_int_equal(in_slot(stack[3])->dim, 0);
        drop_results(stack, 5);
        assert_int_equal(fake_living(), before);
    }
    free_problem(&p);
}

static void test_flash__writes_into_an_output_of_the_callers(void **state)
{
    (void)state;
    struct problem p = packed_problem();
    uint64_t stack[STACK];
    int before = fake_living();
    struct fake_tensor *o = fake_tensor_new(FAKE_F32, 3, p.q->sizes);
    push_flash(&p, stack + 1);
    stack[0] = slot_of(fake_tensor_view(o));
    assert_true(fake_call(FLASH_OUT, stack, 18, 1));
    check_packed(&p, o, in_slot(stack[0])->data);
    drop_results(stack, 1);
    push_flash(&p, stack + 1);
    stack[0] = slot_of(fake_tensor_view(o));
    in_slot(stack[0])->sizes[0]--;
    assert_false(fake_call(FLASH_OUT, stack, 18, 1));
    assert_non_null(strstr(fake_message(), "out has size"));
    fake_tensor_free(o);
    assert_int_equal(fake_living(), before);
    free_problem(&p);
}

static void test_flash__a_row_without_keys_has_plus_infinity(void **state)
{
    (void)state;
    struct problem p = packed_problem();
    const int32_t one[2] = {0, ROWS}, few[2] = {0, 3};
    uint64_t stack[STACK];
    push_flash(&p, stack);
    memcpy(in_slot(*(uint64_t *)(uintptr_t)stack[3])->data, one, sizeof one);
    memcpy(in_slot(*(uint64_t *)(uintptr_t)stack[4])->data, few, sizeof few);
    in_slot(*(uint64_t *)(uintptr_t)stack[3])->sizes[0] = 2;
    in_slot(*(uint64_t *)(uintptr_t)stack[4])->sizes[0] = 2;
    stack[5] = ROWS;
    assert_true(fake_call(FLASH, stack, 17, 5));
    const float *lse = in_slot(stack[1])->data;
    for (int64_t i = 0; i < ROWS; i++) /* five queries over three keys: two see none */
        check_row(&p, in_slot(stack[0]), (double)lse[i], i, 0, 0, i < 2 ? 0 : i - 1);
    drop_results(stack, 5);
    free_problem(&p);
}

/* The output is linear in v: <dout, o> = <dv, v>, with dropout, too. */
static void test_flash__backward_repeats_the_forwards_dropout(void **state)
{
    (void)state;
    struct problem p = packed_problem();
    uint64_t stack[STACK], results[STACK];
    push_flash(&p, results);
    results[7] = float_slot(0.4);
    assert_true(fake_call(FLASH, results, 17, 5));
    assert_int_equal(((const uint64_t *)in_slot(results[2])->data)[0], 42);
    push_backward(&p, results[0], results[1], results[2], stack);
    stack[10] = float_slot(0.4);
    const struct fake_tensor *o = in_slot(results[0]);
    struct fake_tensor *dout = fake_tensor_view(in_slot(stack[0]));
    dout->memory = in_slot(stack[0])->memory;
    in_slot(stack[0])->memory = NULL;
    assert_true(fake_call(FLASH_BACKWARD, stack, 17, 3));
    double left = 0, right = 0;
    for (int64_t h = 0; h < HEADS; h++)
        for (int64_t i = 0; i < ROWS; i++)
            for (int64_t d = 0; d < D; d++)
                left += at(dout, i, h, d) * at(o, i, h, d);
    for (int64_t g = 0; g < GROUPS; g++)
        for (int64_t j = 0; j < KEYS; j++)
            for (int64_t d = 0; d < D; d++)
                right += at(in_slot(stack[2]), j, g, d) * at(p.v, j, g, d);
    assert_true(fabs(left) > 0.01 && fabs(left - right) < 1e-4);
    drop_results(stack, 3);
    drop_results(results, 5);
    fake_tensor_free(dout);
    free_problem(&p);
}

/* Each one makes one argument of a valid call wrong; the message names it. */
static void spoil(int which, uint64_t *stack, const char **name_out)
{
    struct fake_tensor *q = in_slot(stack[0]), *k = in_slot(stack[1]);
    struct fake_tensor *cu_q = in_slot(*(uint64_t *)(uintptr_t)stack[3]);
    static const int64_t three = 3;
    *name_out = "query";
    switch (which) {
    case 0:
        q->dim = 2;
        break;
    case 1:
        q->dtype = FAKE_F64;
        break;
    case 2:
        q->strides[2] = 2;
        break;
    case 3:
        q->device = FAKE_OTHER_DEVICE;
        break;
    case 4:
        k->dtype = FAKE_BF16;
        break;
    case 5:
        k->sizes[2] = 4, *name_out = "head size";
        break;
    case 6:
        k->sizes[1] = 1, *name_out = "value";
        break;
    case 7:
        cu_q->dtype = FAKE_I64, *name_out = "cum_seq_q";
        break;
    case 8:
        ((int32_t *)cu_q->data)[1] = 99, *name_out = "cu_seqlens_q";
        break;
    case 9:
        cu_q->sizes[0] = 2, *name_out = "cum_seq_k";
        break;
    case 10:
        stack[5] = 1, *name_out = "q_len";
        break;
    case 11:
        stack[7] = float_slot(1.5), *name_out = "dropout";
        break;
    case 12:
        stack[9] = 1, *name_out = "return_debug_mask";
        break;
    case 13:
        stack[10] = fake_cell(float_slot(0.0)), *name_out = "scale";
        break;
    case 14:
        stack[13] = fake_cell(slot_of(fake_tensor_new(FAKE_I32, 1, &three)));
        *name_out = "seqused_k";
        break;
    case 15:
        stack[14] = fake_cell(slot_of(fake_tensor_new(FAKE_F32, 1, &three)));
        *name_out = "alibi_slopes";
        break;
    default:
        stack[15] = fake_cell(slot_of(fake_tensor_new(FAKE_I32, 1, &three)));
        *name_out = "key"; /* pages have four dimensions */
    }
}

static void test_flash__wrong_arguments_are_thrown_by_name(void **state)
{
    (void)state;
    struct problem p = packed_problem();
    int before = fake_living();
    for (int which = 0; which <= 16; which++) {
        uint64_t stack[STACK];
        const char *name;
        push_flash(&p, stack);
        spoil(which, stack, &name);
        assert_false(fake_call(FLASH, stack, 17, 5));
        if (strstr(fake_message(), name) == NULL)
            fail_msg("case %d: '%s' does not name %s", which, fake_message(), name);
        assert_int_equal(fake_living(), before);
    }
    free_problem(&p);
}

static void test_flash__keys_come_from_pages(void **state)
{
    (void)state;
    struct problem p = packed_problem();
    enum { PAGE = 2, PAGES = 5 };
    const int64_t sizes[4] = {PAGES, PAGE, GROUPS, D}, table_sizes[2] = {2, 2};
    const int32_t table[4] = {4, 0, 3, 1}, used[2] = {3, 4}, cu[3] = {0, 2, ROWS};
    struct fake_tensor *k = fake_tensor_new(FAKE_F32, 4, sizes);
    struct fake_tensor *v = fake_tensor_new(FAKE_F32, 4, sizes);
    size_t row_bytes = GROUPS * D * sizeof(float);
    for (int b = 0; b < 2; b++)
        for (int j = 0; j < used[b]; j++) {
            size_t from = (size_t)(cu_k_values[b] + j) * row_bytes;
            size_t to = (size_t)(table[b * 2 + j / PAGE] * PAGE + j % PAGE) * row_bytes;
            memcpy((char *)k->data + to, (char *)p.k->data + from, row_bytes);
            memcpy((char *)v->data + to, (char *)p.v->data + from, row_bytes);
        }
    struct fake_tensor *pages = fake_tensor_new(FAKE_I32, 2, table_sizes);
    memcpy(pages->data, table, sizeof table);
    uint64_t stack[STACK] = {slot_of(fake_tensor_view(p.q)), slot_of(k), slot_of(v)};
    stack[3] = fake_cell(slot_of(integers(3, cu)));
    stack[5] = 3;
    stack[8] = 1;
    stack[13] = fake_cell(slot_of(integers(2, used)));
    stack[15] = fake_cell(slot_of(pages));
    assert_true(fake_call(FLASH, stack, 17, 5));
    check_packed(&p, in_slot(stack[0]), in_slot(stack[1])->data);
    drop_results(stack, 5);
    free_problem(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_flash__packed_forward_with_every_length_of_schema, set_up),
        cmocka_unit_test_setup(test_flash__writes_into_an_output_of_the_callers, set_up),
        cmocka_unit_test_setup(test_flash__a_row_without_keys_has_plus_infinity, set_up),
        cmocka_unit_test_setup(test_flash__backward_repeats_the_forwards_dropout, set_up),
        cmocka_unit_test_setup(test_flash__wrong_arguments_are_thrown_by_name, set_up),
        cmocka_unit_test_setup(test_flash__keys_come_from_pages, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
