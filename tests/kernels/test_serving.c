/*
 * test_serving.c: batches as servers have them: sequences with caches of very
 * different lengths in pages, prefill and decode in one call, latent attention whose
 * values are a part of the keys; and how such a batch is split into tasks.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

#include "forward_check.h"

/* Of the queries, and of the keys and values. */
static const int32_t types[][2] = {{ANYFLASH_F32, ANYFLASH_F32},
                                   {ANYFLASH_F16, ANYFLASH_F16},
                                   {ANYFLASH_BF16, ANYFLASH_BF16},
                                   {ANYFLASH_F32, ANYFLASH_F8_E5M2},
                                   {ANYFLASH_BF16, ANYFLASH_F8_E4M3}};

/* Queries and keys of each sequence; the arrays are of the case. */
static void set_lengths(struct forward_case *c, const int64_t (*lengths)[2], int64_t batch)
{
    struct anyflash_attend_args *a = &c->a;
    int32_t *cu_q = case_indexes(c, batch + 1), *used = case_indexes(c, batch);
    cu_q[0] = 0;
    for (int64_t b = 0; b < batch; b++) {
        cu_q[b + 1] = cu_q[b] + (int32_t)lengths[b][0];
        used[b] = (int32_t)lengths[b][1];
        a->q_len = lengths[b][0] > a->q_len ? lengths[b][0] : a->q_len;
        a->k_len = lengths[b][1] > a->k_len ? lengths[b][1] : a->k_len;
    }
    a->batch = batch;
    a->causal = 1;
    a->cu_seqlens_q = cu_q;
    a->total_q = cu_q[batch];
    a->seqused_k = used;
}

/* Pages in random order, as many as there are keys for; the rest of the table is invalid. */
static void set_pages(struct forward_case *c, int64_t page_size)
{
    struct anyflash_attend_args *a = &c->a;
    a->page_size = page_size;
    a->block_table_stride = (a->k_len + page_size - 1) / page_size;
    a->page_count = 0;
    for (int64_t b = 0; b < a->batch; b++)
        a->page_count += (a->seqused_k[b] + page_size - 1) / page_size;
    const int32_t *pages = case_permutation(c, a->page_count);
    int32_t *table = case_indexes(c, a->batch * a->block_table_stride);
    for (int64_t b = 0; b < a->batch; b++) {
        for (int64_t n = 0; n < a->block_table_stride; n++)
            table[b * a->block_table_stride + n] =
                n * page_size < a->seqused_k[b] ? *pages++ : -1;
    }
    a->block_table = table;
}

static struct forward_case *serving_case(uint64_t seed, const int32_t type[2],
                                         const int64_t (*lengths)[2], int64_t batch,
                                         int64_t kv_heads, int64_t group, int64_t dim,
                                         int64_t value_dim, int64_t page_size)
{
    struct forward_case *c = case_new(seed, type[0]);
    c->key_dtype = type[1];
    c->plain_strides = true;
    case_sizes(c, batch, kv_heads, group, 0, 0, dim, value_dim);
    set_lengths(c, lengths, batch);
    if (page_size > 0)
        set_pages(c, page_size);
    case_tensors(c);
    if (type[0] != type[1])
        case_scales(c);
    return c;
}

/* One long sequence, short ones, one without queries and one without keys. */
static const int64_t decode_lengths[][2] = {{1, 130}, {1, 5003}, {1, 17}, {0, 40},
                                            {1, 0},   {1, 16},   {2, 999}};
static const int64_t group_lengths[][2] = {{1, 130}, {1, 5003}, {1, 17},  {2, 40},
                                           {1, 1},   {1, 16},   {2, 999}, {1, 100}};
static const int64_t mixed_lengths[][2] = {{1, 700}, {90, 300}, {1, 33}, {5, 1200}, {1, 1}};
static const int64_t latent_lengths[][2] = {{1, 1700}, {2, 65}, {1, 16}};

static void test_serving__decode_in_pages_is_near_the_oracle(void **state)
{
    (void)state;
    static const int64_t groups[] = {1, 4, 8};
    static const int64_t dims[][2] = {{64, 64}, {128, 128}, {192, 128}};
    for (size_t n = 0; n < 3 * AF_COUNT(types); n++)
        check_case(serving_case(n, types[n / 3], decode_lengths, 7, 1, groups[n % 3],
                                dims[(n + n / 3) % 3][0], dims[(n + n / 3) % 3][1],
                                n % 2 == 0 ? 16 : 64));
}

/* With one key head, keys lie one after the other in each page, but not from page to page. */
static void test_serving__a_window_may_start_within_a_page(void **state)
{
    (void)state;
    static const int64_t groups[] = {4, 8, 16};
    for (size_t n = 0; n < 6 * AF_COUNT(types); n++) {
        if (machine_wants_few() && n % 2 != n / 2 % 2) /* one of the two sizes, by turns */
            continue;
        const int64_t dim = n % 2 == 0 ? 64 : 128;
        struct forward_case *c = serving_case(n, types[n / 6], decode_lengths, 7, 1,
                                              groups[n / 2 % 3], dim, dim, 16);
        c->a.window_left = 600;
        check_case(c);
    }
}

static void test_serving__prefill_and_decode_in_one_call(void **state)
{
    (void)state;
    for (size_t n = 0; n < AF_COUNT(types); n++)
        check_case(
            serving_case(n, types[n], mixed_lengths, 5, 2, n % 2 == 0 ? 4 : 8, 64, 64, 16));
}

/*
 * With one thread tasks have 8 key heads, with three at most 4; the bits must be the same. The
 * heads of a page are adjacent or, if `n` is odd, those of each row of a page. If few problems
 * are wanted, each type has one of the two, by turns.
 */
static void test_serving__several_key_heads_in_one_task(void **state)
{
    (void)state;
    static const int64_t dims[] = {128, 64, 40};
    for (size_t n = 0; n < 2 * AF_COUNT(types); n++) {
        if (machine_wants_few() && n % 2 != n / 2 % 2)
            continue;
        const int64_t dim = dims[n % AF_COUNT(dims)];
        struct forward_case *c = serving_case(n, types[n / 2], group_lengths, 8, 8,
                                              n % 3 == 0 ? 8 : 4, dim, dim, 16);
        if (n % 2 == 1) {
            c->a.k.head_stride = c->a.v.head_stride = dim;
            c->a.k.row_stride = c->a.v.row_stride = 8 * dim;
        }
        const struct af_problem problem = case_problem(c);
        for (int workers = 1; workers <= POOLS; workers++) {
            struct af_forward_plan plan;
            assert_int_equal(
                af_forward_plan_init(&plan, &problem, af_cpu_features(), workers, NULL),
                ANYFLASH_OK);
            const int64_t heads = plan.schedule.heads_per_task;
            assert_true(heads >= (workers == 1 ? 8 : 2) && heads <= (workers == 3 ? 4 : 8));
        }
        check_case(c);
    }
}

/* Values are the first 512 elements of the keys, in the same memory. */
static void test_serving__latent_attention_shares_keys_and_values(void **state)
{
    (void)state;
    for (size_t n = 0; n < AF_COUNT(types); n++) {
        struct forward_case *c =
            serving_case(n, types[n], latent_lengths, 3, 1, n % 2 == 0 ? 16 : 20, 576, 512, 16);
        c->a.v = c->a.k;
        check_case(c);
    }
}

/* Row `j` of a sequence's keys or values, in pages or not. */
static char *key_row(const struct af_problem *problem, const struct anyflash_tensor *tensor,
                     int64_t batch, int64_t head, int64_t j)
{
    struct af_sequence sequence = af_problem_sequence(problem, batch);
    return af_row_of_key(problem, tensor, &sequence, head, j);
}

static void copy_keys(const struct af_problem *from, const struct af_problem *to)
{
    const size_t bytes = from->key_bytes;
    for (int64_t b = 0; b < from->a.batch; b++) {
        const int64_t keys = af_problem_sequence(from, b).k_count;
        for (int64_t n = 0; n < from->a.kv_heads * keys; n++) {
            const int64_t head = n / keys, j = n % keys;
            memcpy(key_row(to, &to->a.k, b, head, j), key_row(from, &from->a.k, b, head, j),
                   (size_t)from->a.head_dim * bytes);
            memcpy(key_row(to, &to->a.v, b, head, j), key_row(from, &from->a.v, b, head, j),
                   (size_t)from->a.value_dim * bytes);
        }
    }
}

/* If few problems are wanted, each size of each type has one of the four batches, by turns. */
static void test_serving__pages_do_not_change_a_bit(void **state)
{
    (void)state;
    static const int64_t dims[][2] = {{64, 64}, {128, 128}, {192, 128}, {40, 24}};
    for (size_t n = 0; n < 4 * AF_COUNT(dims) * AF_COUNT(types); n++) {
        if (machine_wants_few() && n % 4 != (n / 4 + n / 16) % 4)
            continue;
        const int64_t *dim = dims[n / 4 % AF_COUNT(dims)];
        const int32_t *type = types[n / 4 / AF_COUNT(dims)];
        const bool mixed = n % 4 >= 2;
        struct forward_case *cases[2];
        struct af_problem problems[2];
        for (int p = 0; p < 2; p++) {
            cases[p] =
                serving_case(n, type, mixed ? mixed_lengths : decode_lengths, mixed ? 5 : 7, 2,
                             n % 2 == 0 ? 1 : 8, dim[0], dim[1], p == 0 ? 16 : 0);
            cases[p]->a.q = cases[0]->a.q;
            cases[p]->a.o.dtype = type[0];
            cases[p]->a.k_scales = cases[0]->a.k_scales;
            cases[p]->a.v_scales = cases[0]->a.v_scales;
            cases[p]->a.scale_stride = cases[p]->a.scale_per_page = 0;
            cases[p]->a.window_left = n % 3 == 0 ? 1000 : -1;
            problems[p] = case_problem(cases[p]);
        }
        copy_keys(&problems[0], &problems[1]);
        for (int p = 0; p < 2; p++)
            case_attend(cases[p], contexts[p], af_cpu_features());
        for (int64_t b = 0; b < problems[0].a.batch; b++) {
            struct af_sequence s = af_problem_sequence(&problems[0], b);
            for (int64_t r = 0; r < s.q_count * problems[0].a.heads; r++) {
                const size_t bytes = af_dtype_bytes(type[0]);
                const int64_t head = r % problems[0].a.heads, i = r / problems[0].a.heads;
                assert_memory_equal(af_row_of_query(&problems[0].a.o, bytes, &s, head, i),
                                    af_row_of_query(&problems[1].a.o, bytes, &s, head, i),
                                    (size_t)dim[1] * bytes);
            }
        }
        case_free(cases[0]);
        case_free(cases[1]);
    }
}

/* 63 sequences of 128 keys and one of 32768, 8 key heads of 128 elements. */
static void test_serving__a_long_sequence_is_split_and_short_ones_are_not(void **state)
{
    (void)state;
    enum { BATCH = 64, LONG = 32768, SHORT = 128, HEADS = 8, DIM = 128 };
    static int32_t used[BATCH];
    static float data[1];
    for (int b = 0; b < BATCH; b++)
        used[b] = b == 40 ? LONG : SHORT;
    struct af_problem problem = {
        .a = anyflash_attend_args_init(), .group = 8, .element_bytes = 2, .key_bytes = 2};
    problem.a.batch = BATCH;
    problem.a.heads = 8 * HEADS;
    problem.a.kv_heads = HEADS;
    problem.a.q_len = 1;
    problem.a.k_len = LONG;
    problem.a.head_dim = problem.a.value_dim = DIM;
    problem.a.scale = 1;
    problem.a.seqused_k = used;
    problem.a.q = anyflash_bhsd(data, ANYFLASH_BF16, 8 * HEADS, 1, DIM);
    struct af_forward_plan plan;
    assert_int_equal(af_forward_plan_init(&plan, &problem, af_cpu_features(), 1, NULL),
                     ANYFLASH_OK);
    char *memory = malloc(plan.total_bytes); /* its tasks are only listed */
    af_forward_plan_place(&plan, memory);
    int64_t keys = 0, longest = 0, of_short = 0;
    for (int64_t index = 0; index < plan.schedule.task_count; index++) {
        struct af_forward_task task;
        af_schedule_task(&plan.schedule, index, &task);
        const int64_t count = task.key_end - task.key_begin;
        assert_true(count > 0);
        keys += count;
        longest = count > longest ? count : longest;
        of_short += task.sequence.batch != 40;
    }
    assert_int_equal(keys, HEADS * ((BATCH - 1) * SHORT + LONG));
    assert_int_equal(of_short, HEADS * (BATCH - 1));
    assert_true(longest <= keys / 96);
    assert_true(plan.total_bytes < 4 << 20);
    free(memory);
}

/* Only those who read keys first prefetch them. */
static void test_serving__tasks_know_whether_their_keys_are_new(void **state)
{
    (void)state;
    enum { HEADS = 2, LENGTH = 2000, DIM = 64, BATCH = 2 };
    static float data[1] __attribute__((aligned(64)));
    for (int windowed = 0; windowed < 2; windowed++) {
        struct af_problem problem = {
            .a = anyflash_attend_args_init(), .group = 1, .element_bytes = 4};
        problem.a.batch = BATCH;
        problem.a.heads = problem.a.kv_heads = HEADS;
        problem.a.q_len = problem.a.k_len = LENGTH;
        problem.a.head_dim = problem.a.value_dim = DIM;
        problem.a.scale = 1;
        problem.a.causal = 1;
        problem.a.window_left = windowed ? 100 : -1;
        problem.a.q = anyflash_bhsd(data, ANYFLASH_F32, HEADS, LENGTH, DIM);
        struct af_forward_plan plan;
        assert_int_equal(af_forward_plan_init(&plan, &problem, af_cpu_features(), 1, NULL),
                         ANYFLASH_OK);
        char *memory = malloc(plan.total_bytes); /* its tasks are only listed */
        af_forward_plan_place(&plan, memory);
        int64_t fresh = 0;
        for (int64_t index = 0; index < plan.schedule.task_count; index++) {
            struct af_forward_task task;
            af_schedule_task(&plan.schedule, index, &task);
            fresh += task.keys_are_new;
        }
        assert_true(plan.schedule.task_count > BATCH * HEADS);
        assert_int_equal(fresh, windowed ? plan.schedule.task_count : BATCH * HEADS);
        free(memory);
    }
}

static struct af_schedule schedule_of(const struct af_problem *problem)
{
    struct af_forward_plan plan;
    assert_int_equal(af_forward_plan_init(&plan, problem, af_cpu_features(), 3, NULL),
                     ANYFLASH_OK);
    return plan.schedule;
}

/* One of them is planned for all; with an array of their lengths, which are equal, each is. */
static void test_serving__equal_sequences_are_split_alike(void **state)
{
    (void)state;
    enum { MOST = 300 };
    static const int64_t lengths[] = {1, 2, 17, 130, 700, 9000};
    static int32_t used[MOST];
    static float data[1];
    for (int64_t n = 0; n < 6 * 6 * 4; n++) {
        static const int64_t batches[] = {1, 3, 50, MOST};
        struct af_problem problem = {.a = anyflash_attend_args_init(),
                                     .group = 1 + n % 3,
                                     .element_bytes = 4,
                                     .key_bytes = 4};
        problem.a.batch = batches[n % 4];
        problem.a.kv_heads = 2;
        problem.a.heads = 2 * problem.group;
        problem.a.q_len = lengths[n / 4 % 6];
        problem.a.k_len = lengths[n / 24];
        problem.a.head_dim = problem.a.value_dim = 64;
        problem.a.scale = 1;
        problem.a.q = anyflash_bhsd(data, ANYFLASH_F32, 2, problem.a.q_len, 64);
        const struct af_schedule one = schedule_of(&problem);
        for (int64_t b = 0; b < problem.a.batch; b++)
            used[b] = (int32_t)problem.a.k_len;
        problem.a.seqused_k = used;
        const struct af_schedule each = schedule_of(&problem);
        assert_int_equal(one.task_count, each.task_count);
        assert_int_equal(one.merge_count, each.merge_count);
        assert_int_equal(one.partial_rows, each.partial_rows);
        assert_int_equal(one.rows_per_task, each.rows_per_task);
        assert_int_equal(one.heads_per_task, each.heads_per_task);
        assert_int_equal(one.scratch_bytes, each.scratch_bytes);
        assert_int_equal(one.together, each.together);
    }
}

/* A batch of 2^29 is planned at once, and needs the memory that it has always needed. */
static void test_serving__a_large_batch_is_planned_at_once(void **state)
{
    (void)state;
    static float data[1];
    struct anyflash_attend_args a = anyflash_attend_args_init();
    size_t bytes = 0;
    a.batch = INT32_MAX / 4;
    a.heads = a.kv_heads = a.head_dim = a.value_dim = 1;
    a.q_len = a.k_len = 4;
    a.q = a.k = a.v = anyflash_bhsd(data, ANYFLASH_F32, 1, 4, 0);
    a.q.batch_stride = a.k.batch_stride = a.v.batch_stride = 0;
    a.o = anyflash_bhsd((void *)(uintptr_t)0x100000000000, ANYFLASH_F32, 1, 4, 1);
    const clock_t begin = clock();
    assert_int_equal(anyflash_workspace_bytes(contexts[0], &a, &bytes, NULL), ANYFLASH_OK);
    assert_true(clock() - begin < CLOCKS_PER_SEC);
    assert_true(bytes / sizeof(struct af_schedule_entry) >= (size_t)a.batch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_serving__decode_in_pages_is_near_the_oracle),
        cmocka_unit_test(test_serving__a_window_may_start_within_a_page),
        cmocka_unit_test(test_serving__prefill_and_decode_in_one_call),
        cmocka_unit_test(test_serving__several_key_heads_in_one_task),
        cmocka_unit_test(test_serving__latent_attention_shares_keys_and_values),
        cmocka_unit_test(test_serving__pages_do_not_change_a_bit),
        cmocka_unit_test(test_serving__a_long_sequence_is_split_and_short_ones_are_not),
        cmocka_unit_test(test_serving__tasks_know_whether_their_keys_are_new),
        cmocka_unit_test(test_serving__equal_sequences_are_split_alike),
        cmocka_unit_test(test_serving__a_large_batch_is_planned_at_once),
    };
    return cmocka_run_group_tests(tests, make_contexts, free_contexts);
}
