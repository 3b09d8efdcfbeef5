/*
 * test_log_cache.c: recent lines are found with what was remembered, others are
 * not, and old ones give way to new ones.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "kit/doctor/log/log_cache.h"

static struct af_arena arena;
static struct af_log_cache cache;

static int set_up(void **unused)
{
    (void)unused;
    af_arena_init(&arena);
    memset(&cache, 0, sizeof cache);
    return 0;
}

static int tear_down(void **unused)
{
    (void)unused;
    af_arena_release(&arena);
    return 0;
}

static struct af_log_line line_of(const char *text)
{
    return (struct af_log_line){
        .text = text, .folded = text, .len = strlen(text), .number = 1, .begins = true};
}

/* Remembers one pattern for the line. */
static struct af_log_candidates *add(const struct af_log_line *line, uint32_t pattern)
{
    uint32_t one[] = {1, pattern}; /* count, then the row */
    return af_log_cache_add(&cache, line, (const struct af_log_candidates *)one, &arena);
}

static void lines_are_found_with_what_was_remembered(void **unused)
{
    struct af_log_line line = line_of("error: one");
    struct af_log_line other = line_of("error: two");
    (void)unused;
    assert_null(af_log_cache_find(&cache, &line));
    assert_non_null(add(&line, 7));
    assert_null(af_log_cache_find(&cache, &other));
    assert_non_null(add(&other, 8));
    assert_int_equal(af_log_cache_find(&cache, &line)->count, 1);
    assert_int_equal(af_log_cache_find(&cache, &line)->rows[0], 7);
    af_log_cache_find(&cache, &other)->count = 0;
    assert_int_equal(af_log_cache_find(&cache, &other)->count, 0);
}

static void pieces_and_joined_lines_are_other_lines(void **unused)
{
    struct af_log_line line = line_of("error: one");
    struct af_log_line piece = line;
    struct af_log_line joined = line;
    (void)unused;
    piece.begins = false;
    joined.joint = 7;
    assert_non_null(add(&line, 7));
    assert_null(af_log_cache_find(&cache, &piece));
    assert_null(af_log_cache_find(&cache, &joined));
}

static void old_lines_give_way_to_new_ones(void **unused)
{
    static char text[1000];
    uint32_t found = 0;
    uint32_t count = 3 * AF_LOG_CACHE_CHUNKS * AF_LOG_CACHE_CHUNK_BYTES / sizeof text;
    (void)unused;
    memset(text, 'x', sizeof text - 1);
    for (uint32_t i = 0; i < count; i++) {
        snprintf(text, 16, "%08u", i);
        text[8] = 'x';
        struct af_log_line line = line_of(text);
        assert_non_null(add(&line, i));
        assert_int_equal(af_log_cache_find(&cache, &line)->rows[0], i);
    }
    for (uint32_t i = 0; i < count; i++) {
        snprintf(text, 16, "%08u", i);
        text[8] = 'x';
        struct af_log_line line = line_of(text);
        const struct af_log_candidates *kept = af_log_cache_find(&cache, &line);
        assert_true(kept == NULL || (kept->rows[0] == i && i > count / 2));
        found += kept == NULL ? 0 : 1;
    }
    assert_in_range(found, count / 6, count / 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(lines_are_found_with_what_was_remembered, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(pieces_and_joined_lines_are_other_lines, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(old_lines_give_way_to_new_ones, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
