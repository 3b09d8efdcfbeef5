/*
 * test_screen.c: wrapping and shortening text, and breaking commands, within a
 * number of columns.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "kit/base/text.h"
#include "kit/cli/screen.h"

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

static void test_screen__wraps_with_a_hanging_indent(void **state)
{
    (void)state;
    struct af_screen screen = {&out, 20, false};
    af_screen_add(&screen, 6, "  a", AF_TONE_STRONG, "one two three four five");
    assert_string_equal(af_text_get(&out), "  a   one two three\n      four five\n");
}

static void test_screen__keeps_a_long_word_whole(void **state)
{
    (void)state;
    struct af_screen screen = {&out, 12, false};
    af_screen_add(&screen, 2, "", AF_TONE_PLAIN, "in /very/long/path it is");
    assert_string_equal(af_text_get(&out), "  in\n  /very/long/path\n  it is\n");
}

static void test_screen__keeps_a_command_in_one_line(void **state)
{
    (void)state;
    struct af_screen screen = {&out, 16, false};
    af_screen_add(&screen, 2, "", AF_TONE_PLAIN, "type `a b c d e`, or one ` two three");
    assert_string_equal(af_text_get(&out), "  type\n  `a b c d e`,\n  or one ` two\n  three\n");
}

static void test_command__breaks_between_words(void **state)
{
    (void)state;
    struct af_screen screen = {&out, 20, false};
    af_screen_command(&screen, 2, AF_SHELL_POSIX,
                      "get https://host/folder/file 'a b/c d' e\\ f");
    assert_string_equal(af_text_get(&out), "  get \\\n    https://host/folder/file \\\n"
                                           "    'a b/c d' e\\ f\n");
}

static void test_command__stays_in_one_line_for_powershell(void **state)
{
    (void)state;
    struct af_screen screen = {&out, 20, false};
    af_screen_command(&screen, 2, AF_SHELL_POWERSHELL, "uv pip install flash-attn");
    assert_string_equal(af_text_get(&out), "  uv pip install flash-attn\n");
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
        cmocka_unit_test_teardown(test_screen__wraps_with_a_hanging_indent, release),
        cmocka_unit_test_teardown(test_screen__keeps_a_long_word_whole, release),
        cmocka_unit_test_teardown(test_screen__keeps_a_command_in_one_line, release),
        cmocka_unit_test_teardown(test_command__breaks_between_words, release),
        cmocka_unit_test_teardown(test_command__stays_in_one_line_for_powershell, release),
        cmocka_unit_test_teardown(test_nearest__finds_slips_of_the_hand, release),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
