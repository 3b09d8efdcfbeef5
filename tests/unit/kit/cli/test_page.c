/*
 * test_page.c: wrapping and shortening text, and breaking commands, within a
 * number of columns.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "kit/cli/nearest.h"
#include "kit/cli/page.h"

static struct af_text out;

static int release(void **state)
{
    (void)state;
    af_text_release(&out);
    return 0;
}

static void test_columns__count_wide_and_combining_characters(void **state)
{
    (void)state;
    assert_int_equal(af_cli_text_columns("abc", 3), 3);
    assert_int_equal(af_cli_text_columns("\xe6\xb7\xb1", 3), 2);
    assert_int_equal(af_cli_text_columns("e\xcc\x81", 3), 1);
    assert_int_equal(af_cli_text_columns("\xf0\x9f\x90\x8d", 4), 2);
    assert_int_equal(af_cli_text_columns("\xe6\xb7", 2),
                     2); /* shortened: one column per byte */
}

static void test_page__wraps_with_a_hanging_indent(void **state)
{
    (void)state;
    struct af_page page = {&out, 20, false};
    af_page_add(&page, 6, "  a", AF_TONE_STRONG, "one two three four five");
    assert_string_equal(af_text_get(&out), "  a   one two three\n      four five\n");
}

static void test_page__elides_a_word_that_is_too_long(void **state)
{
    (void)state;
    struct af_page page = {&out, 12, false};
    af_page_add(&page, 2, "", AF_TONE_PLAIN, "in /very/long/path");
    assert_string_equal(af_text_get(&out), "  in\n  /v.../path\n");
}

static void test_command__breaks_before_a_word(void **state)
{
    (void)state;
    struct af_page page = {&out, 20, false};
    af_page_command(&page, 2, "uv pip install flash-attn");
    assert_string_equal(af_text_get(&out), "  uv pip install \\\n    flash-attn\n");
}

static void test_command__breaks_a_long_word_at_a_slash(void **state)
{
    (void)state;
    struct af_page page = {&out, 20, false};
    af_page_command(&page, 2, "get https://host/folder/file");
    assert_string_equal(af_text_get(&out), "  get \\\n    https://host/\\\nfolder/file\n");
}

static void test_command__closes_quotes_at_a_break(void **state)
{
    (void)state;
    struct af_page page = {&out, 20, false};
    af_page_command(&page, 0, "run '/a b/c d/e f/g h/i j'");
    assert_string_equal(af_text_get(&out), "run \\\n  '/a b/c d/e f/g '\\\n'h/i j'\n");
}

static void test_nearest__finds_slips_of_the_hand(void **state)
{
    (void)state;
    static const char *const words[] = {"doctor", "plan", "find"};
    assert_string_equal(af_nearest("docotr", words, 3), "doctor");
    assert_string_equal(af_nearest("plam", words, 3), "plan");
    assert_string_equal(af_nearest("DOC", words, 3), "doctor");
    assert_null(af_nearest("do", words, 3));
    assert_null(af_nearest("install", words, 3));
    assert_null(af_nearest("", words, 3));
    assert_null(af_nearest("a-word-that-is-longer-than-any-name-of-ours", words, 3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_columns__count_wide_and_combining_characters, release),
        cmocka_unit_test_teardown(test_page__wraps_with_a_hanging_indent, release),
        cmocka_unit_test_teardown(test_page__elides_a_word_that_is_too_long, release),
        cmocka_unit_test_teardown(test_command__breaks_before_a_word, release),
        cmocka_unit_test_teardown(test_command__breaks_a_long_word_at_a_slash, release),
        cmocka_unit_test_teardown(test_command__closes_quotes_at_a_break, release),
        cmocka_unit_test_teardown(test_nearest__finds_slips_of_the_hand, release),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
