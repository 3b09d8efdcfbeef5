/*
 * test_known_answer.c: the engine's known answer, and comparing a text of bf16
 * values with it.
 */
#include "kit/install/verify.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void test_known_answer__the_first_row_is_the_first_value_row(void **state)
{
    (void)state;
    struct af_arena arena;
    struct af_known_answer answer;
    af_arena_init(&arena);
    assert_int_equal(af_known_answer_make(64, &arena, &answer, NULL), ANYFLASH_OK);
    /* Causal: query 0 sees key 0 alone, so o[0] is v[0]; pattern's seed of v is 2. */
    for (size_t i = 0; i < 64; i++) {
        uint64_t word = ((i + 2000006u) * UINT64_C(2654435761)) & UINT32_MAX;
        assert_true(answer.o[i] == ((float)(word >> 24) - 128.0f) / 64.0f);
    }
    /* A query that sees only one key gets no gradient. */
    for (size_t i = 0; i < 64; i++)
        assert_true(fabsf(answer.dq[i]) < 1e-6f);
    af_arena_release(&arena);
}

/* 0x3f80 is 1 and 0x4000 is 2, low byte first. */
static void test_known_answer__distance_is_relative_to_the_largest_value(void **state)
{
    (void)state;
    const float same[2] = {1.0f, 2.0f};
    const float other[2] = {1.5f, 2.0f};
    double distance = -1.0;
    assert_true(af_known_answer_distance("gD8AQA==", same, 2, &distance));
    assert_true(distance == 0.0);
    assert_true(af_known_answer_distance("gD8AQA==", other, 2, &distance));
    assert_true(distance == 0.25);
}

static void test_known_answer__nan_is_infinitely_far(void **state)
{
    (void)state;
    const float expected[2] = {1.0f, 2.0f};
    double distance = 0.0;
    assert_true(af_known_answer_distance("wH8AQA==", expected, 2, &distance));
    assert_true(isinf(distance));
}

static void test_known_answer__another_length_or_alphabet_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "", "gD8=", "gD8AQAA=", "gD8AQAAA", "!!!!!!==", "gD8AQ"};
    const float expected[2] = {1.0f, 2.0f};
    double distance;
    for (size_t i = 0; i < AF_COUNT(texts); i++)
        assert_false(af_known_answer_distance(texts[i], expected, 2, &distance));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_answer__the_first_row_is_the_first_value_row),
        cmocka_unit_test(test_known_answer__distance_is_relative_to_the_largest_value),
        cmocka_unit_test(test_known_answer__nan_is_infinitely_far),
        cmocka_unit_test(test_known_answer__another_length_or_alphabet_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
