/*
 * test_layout.c: which bytes strided tensors share, compared with counting
 * every byte.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/attn/layout.h"

#include <string.h>

#define SPACE 400

static uint64_t seed = 1;

static int64_t below(int64_t limit)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((seed >> 33) % (uint64_t)limit);
}

/* Counts how often each byte of a box is touched; true if none is touched twice. */
static bool touch(const int64_t extent[3], const int64_t stride[3], int64_t run, int64_t base,
                  unsigned char counts[SPACE])
{
    bool once = true;
    memset(counts, 0, SPACE);
    for (int64_t x = 0; x < extent[0] * extent[1] * extent[2] * run; x++) {
        int64_t at = base + x / run % extent[2] * stride[2] +
                     x / run / extent[2] % extent[1] * stride[1] +
                     x / run / extent[2] / extent[1] * stride[0] + x % run;
        once = once && counts[at] == 0;
        counts[at] = 1;
    }
    return once;
}

/* Random boxes within SPACE; the second one uses the strides of the first. */
static void test_box__meets_exactly_when_bytes_are_shared(void **state)
{
    (void)state;
    unsigned char counts[2][SPACE];
    int exact = 0, meeting = 0;
    for (int round = 0; round < 100000; round++) {
        int64_t stride[3] = {below(60), below(20), below(60)}, extent[2][3], run[2];
        struct af_box box[2];
        bool once[2], shared = false;
        for (int n = 0; n < 2; n++) {
            for (int d = 0; d < 3; d++)
                extent[n][d] = 1 + below(3);
            run[n] = 1 + below(12);
            int64_t base = below(80);
            once[n] = touch(extent[n], stride, run[n], base, counts[n]);
            assert_int_equal(af_box_init(&box[n], "box", (void *)(uintptr_t)(1000 + base), 1,
                                         extent[n], stride, run[n]),
                             AF_BOX_DIMS);
            if (af_box_nests(&box[n]))
                assert_true(once[n]);
        }
        for (int at = 0; at < SPACE; at++)
            shared = shared || (counts[0][at] != 0 && counts[1][at] != 0);
        if (shared && !af_box_meets(&box[0], &box[1]))
            fail_msg("round %d: shared bytes are not seen", round);
        assert_int_equal(af_box_meets(&box[0], &box[1]), af_box_meets(&box[1], &box[0]));
        bool same_extents = memcmp(extent[0], extent[1], sizeof extent[0]) == 0;
        if (same_extents && af_box_nests(&box[0]) && af_box_nests(&box[1])) {
            if (af_box_meets(&box[0], &box[1]) != shared)
                fail_msg("round %d: the answer is not exact", round);
            exact++;
            meeting += shared;
        }
    }
    assert_true(exact > 500 && meeting > 100 && exact - meeting > 100);
}

static void test_box__backward_strides_start_below_data(void **state)
{
    (void)state;
    const int64_t extent[] = {2, 1, 3}, stride[] = {-10, INT64_MIN, 2};
    struct af_box box;
    assert_int_equal(af_box_init(&box, "x", (void *)(uintptr_t)1000, 4, extent, stride, 2),
                     AF_BOX_DIMS);
    assert_int_equal(box.low, 960);
    assert_int_equal(box.span_bytes, 40 + 16 + 8);
    assert_true(af_box_nests(&box));
}

static void test_box__names_the_stride_that_leaves_the_address_space(void **state)
{
    (void)state;
    const int64_t extent[] = {2, 2, 2};
    const int64_t wide[] = {1, INT64_MAX / 2, 1}, down[] = {1, 1, -2000};
    struct af_box box;
    void *data = (void *)(uintptr_t)1000;
    assert_int_equal(af_box_init(&box, "x", data, 4, extent, wide, 1), AF_BOX_HEAD);
    assert_true(af_box_init(&box, "x", data, 4, extent, down, 1) != AF_BOX_DIMS);
}

static void test_box__empty_meets_nothing(void **state)
{
    (void)state;
    const int64_t extent[] = {2, 0, 2}, full[] = {1, 1, 1}, stride[] = {INT64_MAX, 0, 0};
    struct af_box empty, other;
    assert_int_equal(af_box_init(&empty, "x", NULL, 4, extent, stride, 1), AF_BOX_DIMS);
    assert_int_equal(af_box_init(&other, "x", (void *)(uintptr_t)4, 4, full, stride, 1),
                     AF_BOX_DIMS);
    assert_true(af_box_nests(&empty));
    assert_false(af_box_meets(&empty, &other));
    const int64_t rows[] = {2, 1, 1};
    assert_int_equal(af_box_init(&empty, "x", NULL, 4, rows, stride, 0), AF_BOX_BATCH);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_box__meets_exactly_when_bytes_are_shared),
        cmocka_unit_test(test_box__backward_strides_start_below_data),
        cmocka_unit_test(test_box__names_the_stride_that_leaves_the_address_space),
        cmocka_unit_test(test_box__empty_meets_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
