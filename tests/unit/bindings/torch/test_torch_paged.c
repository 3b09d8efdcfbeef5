/*
 * test_torch_paged.c: in which steps of vLLM the engine may append the new keys itself,
 * and how rows are copied to their slots.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "anyflash/anyflash_torch.h"

#define REQUESTS 3
#define PAGE 16

/* Rows of four pages, of which a step has three. */
static const int32_t table[REQUESTS][4] = {{7, 8, 9, -1}, {4, 5, 6, -1}, {1, 2, 3, -1}};
static const struct anyflash_torch_step usual = {.table = table[0],
                                                 .requests = REQUESTS,
                                                 .table_stride = 4,
                                                 .table_pages = 3,
                                                 .page_size = PAGE};

/* anyflash_torch_appends() for a step like `usual`, with these lengths and slots. */
static int32_t appends(struct anyflash_torch_step step, const int32_t *lengths,
                       const int64_t *slots, int32_t *past)
{
    step.lengths = lengths;
    step.slots = slots;
    return anyflash_torch_appends(&step, past);
}

static void test_paged__slots_after_the_keys_are_appended_to(void **state)
{
    (void)state;
    const int32_t lengths[REQUESTS] = {1, 17, 48};
    const int64_t slots[REQUESTS] = {7 * PAGE, 5 * PAGE, 3 * PAGE + 15};
    int32_t past[REQUESTS];
    assert_int_equal(appends(usual, lengths, slots, past), 1);
    for (int i = 0; i < REQUESTS; i++)
        assert_int_equal(past[i], lengths[i] - 1);
}

static void test_paged__other_slots_are_not(void **state)
{
    (void)state;
    const int32_t lengths[REQUESTS] = {1, 17, 48};
    const int64_t wrong[] = {-1, 5 * PAGE + 1, 6 * PAGE, 5 * PAGE - 1, (int64_t)5 << 36};
    for (size_t n = 0; n < sizeof wrong / sizeof *wrong; n++) {
        const int64_t slots[REQUESTS] = {7 * PAGE, wrong[n], 3 * PAGE + 15};
        int32_t past[REQUESTS];
        assert_int_equal(appends(usual, lengths, slots, past), 0);
    }
}

static void test_paged__a_missing_page_is_not(void **state)
{
    (void)state;
    static const int32_t none = -1;
    const int32_t length = PAGE;
    const int64_t slot = -1; /* row 15 of page -1, too */
    struct anyflash_torch_step step = usual;
    step.table = &none;
    step.requests = step.table_stride = step.table_pages = 1;
    int32_t past;
    assert_int_equal(appends(step, &length, &slot, &past), 0);
}

static void test_paged__lengths_outside_the_table_are_not(void **state)
{
    (void)state;
    const int32_t wrong[] = {0, -5, INT32_MIN, 3 * PAGE + 1, INT32_MAX};
    const int64_t slots[REQUESTS] = {7 * PAGE, 5 * PAGE, -1};
    for (size_t n = 0; n < sizeof wrong / sizeof *wrong; n++) {
        const int32_t lengths[REQUESTS] = {1, 17, wrong[n]};
        int32_t past[REQUESTS];
        assert_int_equal(appends(usual, lengths, slots, past), 0);
    }
}

static void test_paged__two_requests_on_one_page_are_not(void **state)
{
    (void)state;
    static const int32_t shared[REQUESTS][2] = {{7, 8}, {5, 4}, {7, 3}};
    const int32_t lengths[REQUESTS] = {1, 1, 2};
    const int64_t slots[REQUESTS] = {7 * PAGE, 5 * PAGE, 7 * PAGE + 1};
    struct anyflash_torch_step step = usual;
    step.table = shared[0];
    step.table_stride = step.table_pages = 2;
    int32_t past[REQUESTS];
    assert_int_equal(appends(step, lengths, slots, past), 0);
}

/* Two tokens and two heads of rows of 3 bytes, and three pages of 4 rows. */
#define ROW 3
#define PAGE_ROWS 4

static struct anyflash_torch_rows small_rows(const int64_t *slots, char *pages)
{
    static const char rows[] = "aaabbbcccddd";
    return (struct anyflash_torch_rows){.rows = rows,
                                        .pages = pages,
                                        .slots = slots,
                                        .tokens = 2,
                                        .heads = 2,
                                        .row_bytes = ROW,
                                        .token_stride = 2 * ROW,
                                        .head_stride = ROW,
                                        .page_count = 3,
                                        .page_size = PAGE_ROWS,
                                        .page_stride = 2 * PAGE_ROWS * ROW,
                                        .page_head_stride = PAGE_ROWS * ROW};
}

static void test_paged__rows_are_copied_to_their_slots(void **state)
{
    (void)state;
    char pages[3 * 2 * PAGE_ROWS * ROW] = {0}, expected[sizeof pages] = {0};
    const int64_t slots[] = {11, 1};
    struct anyflash_torch_rows rows = small_rows(slots, pages);
    memcpy(expected + 4 * PAGE_ROWS * ROW + 3 * ROW, "aaa", ROW);
    memcpy(expected + 5 * PAGE_ROWS * ROW + 3 * ROW, "bbb", ROW);
    memcpy(expected + 1 * ROW, "ccc", ROW);
    memcpy(expected + PAGE_ROWS * ROW + 1 * ROW, "ddd", ROW);
    assert_int_equal(anyflash_torch_write(&rows), 1);
    assert_memory_equal(pages, expected, sizeof pages);
}

static void test_paged__rows_without_a_slot_are_not_copied(void **state)
{
    (void)state;
    char pages[3 * 2 * PAGE_ROWS * ROW] = {0}, none[sizeof pages] = {0};
    const int64_t absent[] = {-1, -7}, outside[] = {0, 12}, far_outside[] = {0, INT64_MAX};
    struct anyflash_torch_rows rows = small_rows(absent, pages);
    assert_int_equal(anyflash_torch_write(&rows), 1);
    rows = small_rows(outside, pages);
    assert_int_equal(anyflash_torch_write(&rows), 0);
    rows = small_rows(far_outside, pages);
    assert_int_equal(anyflash_torch_write(&rows), 0);
    assert_memory_equal(pages, none, sizeof pages);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_paged__slots_after_the_keys_are_appended_to),
        cmocka_unit_test(test_paged__other_slots_are_not),
        cmocka_unit_test(test_paged__a_missing_page_is_not),
        cmocka_unit_test(test_paged__lengths_outside_the_table_are_not),
        cmocka_unit_test(test_paged__two_requests_on_one_page_are_not),
        cmocka_unit_test(test_paged__rows_are_copied_to_their_slots),
        cmocka_unit_test(test_paged__rows_without_a_slot_are_not_copied),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
