/*
 * test_text.c: quoting, growing text, number and line helpers.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kit/base/text.h"

#include <string.h>

static const char *quoted(const char *text, size_t len, size_t size_bytes)
{
    static char buffer[256];
    return af_text_quote(buffer, size_bytes, text, len);
}

static void test_quote__keeps_printable_utf8(void **state)
{
    (void)state;
    assert_string_equal(quoted("caf\xc3\xa9 \xe2\x82\xac", 9, 256), "caf\xc3\xa9 \xe2\x82\xac");
}

static void test_quote__escapes_terminal_sequences(void **state)
{
    (void)state;
    assert_string_equal(quoted("a\x1b[31mb\n", 8, 256), "a\\x1b[31mb\\x0a");
}

static void test_quote__escapes_what_cannot_be_seen(void **state)
{
    (void)state;
    static const char *const hidden[] = {
        "\xc2\x85",     "\xc2\xad",     "\xd8\x9c",         "\xe2\x80\x8b",
        "\xe2\x80\xae", "\xe2\x81\xa0", "\xe2\x81\xa4",     "\xe2\x81\xa6",
        "\xef\xbb\xbf", "\xe2\x80\xa8", "\xf3\xa0\x80\x81", "\xf3\xa0\x81\xbf",
    };
    for (size_t i = 0; i < AF_COUNT(hidden); i++)
        assert_int_equal(quoted(hidden[i], strlen(hidden[i]), 256)[0], '\\');
    static const char *const shown[] = {"\xc2\xa0", "\xe2\x80\x90", "\xe2\x81\x9f",
                                        "\xf0\x9f\x98\x80"};
    for (size_t i = 0; i < AF_COUNT(shown); i++)
        assert_string_equal(quoted(shown[i], strlen(shown[i]), 256), shown[i]);
}

static void test_quote__escapes_invalid_bytes_and_surrogates(void **state)
{
    (void)state;
    assert_string_equal(quoted("\xff", 1, 256), "\\xff");
    assert_string_equal(quoted("\xc0\x80", 2, 256), "\\xc0\\x80");
    assert_string_equal(quoted("\xed\xa0\x80", 3, 256), "\\xed\\xa0\\x80");
    assert_string_equal(quoted("\xf5\x80\x80\x80", 4, 256), "\\xf5\\x80\\x80\\x80");
}

static void test_quote__escapes_bidirectional_controls(void **state)
{
    (void)state;
    assert_string_equal(quoted("\xe2\x80\xae", 3, 256), "\\xe2\\x80\\xae");
    assert_string_equal(quoted("\xe2\x81\xa6", 3, 256), "\\xe2\\x81\\xa6");
    assert_string_equal(quoted("\xc2\x9b", 2, 256), "\\xc2\\x9b");
}

static void test_quote__cuts_with_dots_within_the_buffer(void **state)
{
    (void)state;
    assert_string_equal(quoted("abcdefghij", 10, 8), "abcd...");
    assert_string_equal(quoted("abcdefg", 7, 8), "abcdefg");
}

static void test_utf8__rejects_overlong_and_cut(void **state)
{
    (void)state;
    assert_true(af_text_is_utf8("\xf0\x9f\x98\x80", 4));
    assert_false(af_text_is_utf8("\xf0\x9f\x98", 3));
    assert_false(af_text_is_utf8("\xe0\x80\xaf", 3));
}

static void test_text__grows_and_formats(void **state)
{
    (void)state;
    struct af_text text = {0};
    assert_string_equal(af_text_get(&text), "");
    for (int i = 0; i < 500; i++)
        af_text_format(&text, "%d,", i);
    af_text_add(&text, "end");
    assert_int_equal(strlen(af_text_get(&text)), text.len);
    assert_non_null(strstr(af_text_get(&text), "498,499,end"));
    af_text_release(&text);
}

static void test_parse_i64__takes_whole_numbers_in_range_only(void **state)
{
    (void)state;
    int64_t number = 7;
    assert_true(af_parse_i64("-12", -20, 20, &number));
    assert_int_equal(number, -12);
    assert_false(af_parse_i64("21", -20, 20, &number));
    assert_false(af_parse_i64("99999999999999999999", 0, INT64_MAX, &number));
    assert_false(af_parse_i64("1 ", 0, 9, &number));
    assert_false(af_parse_i64("+1", 0, 9, &number));
    assert_false(af_parse_i64(" 1", 0, 9, &number));
    assert_false(af_parse_i64("", 0, 9, &number));
    assert_false(af_parse_i64(NULL, 0, 9, &number));
    assert_int_equal(number, -12);
}

static void test_line__splits_and_ends(void **state)
{
    (void)state;
    struct af_span rest = {"a\r\n\nb", 5};
    struct af_span line;
    assert_true(af_text_line(&rest, &line));
    assert_true(af_text_span_equal(af_text_trim(line), "a"));
    assert_true(af_text_line(&rest, &line));
    assert_int_equal(line.len, 0);
    assert_true(af_text_line(&rest, &line));
    assert_true(af_text_span_equal(line, "b"));
    assert_false(af_text_line(&rest, &line));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quote__keeps_printable_utf8),
        cmocka_unit_test(test_quote__escapes_terminal_sequences),
        cmocka_unit_test(test_quote__escapes_what_cannot_be_seen),
        cmocka_unit_test(test_quote__escapes_invalid_bytes_and_surrogates),
        cmocka_unit_test(test_quote__escapes_bidirectional_controls),
        cmocka_unit_test(test_quote__cuts_with_dots_within_the_buffer),
        cmocka_unit_test(test_utf8__rejects_overlong_and_cut),
        cmocka_unit_test(test_text__grows_and_formats),
        cmocka_unit_test(test_parse_i64__takes_whole_numbers_in_range_only),
        cmocka_unit_test(test_line__splits_and_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
