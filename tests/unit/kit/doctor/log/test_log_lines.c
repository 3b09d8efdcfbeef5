/*
 * test_log_lines.c: what a line of a log is after cleaning, and that memory and
 * pieces do not matter.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "kit/base/text.h"
#include "kit/doctor/log/log_lines.h"

static struct af_text seen;

static void note(void *context, const struct af_log_line *line)
{
    (void)context;
    assert_true(line->len > 0 && line->len <= 4096 &&
                strnlen(line->text, line->len) == line->len);
    af_text_format(&seen, "%s%d%s:%.*s", seen.len == 0 ? "" : "\n", (int)line->number,
                   line->joint > 0 ? "+"
                   : line->begins  ? ""
                                   : "-",
                   (int)line->len, line->text);
}

/* The lines as "NUMBER:TEXT", with '+' for joined ones and '-' for pieces. */
static const char *lines_of(const char *bytes, size_t len, size_t piece)
{
    static struct af_log_lines lines;
    memset(&lines, 0, sizeof lines);
    lines.take = note;
    af_text_release(&seen);
    seen = (struct af_text){0};
    for (size_t at = 0; at < len; at += piece)
        af_log_lines_feed(&lines, bytes + at, len - at < piece ? len - at : piece);
    af_log_lines_end(&lines);
    return af_text_get(&seen);
}

static void assert_lines(const char *bytes, const char *expected)
{
    size_t len = strlen(bytes);
    assert_string_equal(lines_of(bytes, len, len + 1), expected);
    assert_string_equal(lines_of(bytes, len, 1), expected);
}

static void lines_are_numbered_and_empty_ones_left_out(void **state)
{
    (void)state;
    assert_lines("one\n\n  \ntwo", "1:one\n4:two");
    assert_lines("one\r\ntwo\r\n", "1:one\n2:two");
    assert_lines("", "");
}

static void states_of_a_progress_bar_share_a_number(void **state)
{
    (void)state;
    assert_lines("a\r 10%\r 20%\nb\n", "1:a\n1:10%\n1:20%\n2:b");
}

static void runs_of_blanks_become_one(void **state)
{
    (void)state;
    assert_lines(" \t a \t  b \xC2\xA0 c  ", "1:a b c");
}

static void escapes_are_left_out(void **state)
{
    (void)state;
    assert_lines("\033[1;31mred\033[0m \033]0;title\ablue \033(Bend\033", "1:red blue end");
    assert_lines("[31mred[0m ^[[1mbold^[[0m [1] [x]", "1:red bold [1] [x]");
    assert_lines("\033]0;no end", "");
}

static void typographic_quotes_become_plain(void **state)
{
    (void)state;
    assert_lines("\xE2\x80\x98x\xE2\x80\x99 \xE2\x80\x9Cy\xE2\x80\x9D", "1:'x' \"y\"");
}

static void bold_type_of_markdown_is_left_out(void **state)
{
    (void)state;
    assert_lines("**Error:** a * b ***c*", "1:Error: a * b *c*");
}

static void frames_and_prefixes_are_left_out(void **state)
{
    (void)state;
    assert_lines("  \xE2\x95\xB0\xE2\x94\x80\xE2\x96\xB6 text \xE2\x94\x82", "1:text");
    assert_lines("2026-01-01T00:00:00.0000000Z ##[error]text", "1:text");
    assert_lines("[2026-01-01 10:00:00,123] text", "1:text");
    assert_lines("12:34:56.789 text", "1:text");
    assert_lines("#12 34.56 text", "1:text");
    assert_lines("34.56 text", "1:text");
    assert_lines("web-1  | text", "1:text");
    assert_lines("  | text", "1:text");
    assert_lines("> > text", "1:text");
    assert_lines("[rank3]: text", "1:text");
    assert_lines("(EngineCore pid=12) text", "1:text");
}

static void what_only_looks_like_a_prefix_stays(void **state)
{
    (void)state;
    assert_lines("2.8.3 is new", "1:2.8.3 is new");
    assert_lines(">>> import torch", "1:>>> import torch");
    assert_lines("#include <cuda.h>", "1:#include <cuda.h>");
    assert_lines("[notice] new release", "1:[notice] new release");
    assert_lines("a || b", "1:a || b");
}

static void wrapped_lines_are_given_joined_too(void **state)
{
    (void)state;
    const char *start = "ImportError: a library of this extension was not found by the loader: "
                        "undefined";
    char both[300];
    char expected[600];
    snprintf(both, sizeof both, "%s\nsymbol: x\n", start);
    snprintf(expected, sizeof expected, "1:%s\n2:symbol: x\n1+:%s symbol: x", start, start);
    assert_lines(both, expected);
    assert_lines("short\nlines\n", "1:short\n2:lines");
}

static void lines_that_begin_alike_are_not_joined(void **state)
{
    (void)state;
    const char *used = "ptxas info : Used 168 registers, 616 bytes cmem[0], 24 bytes cmem[2], "
                       "8 bytes cmem[4]";
    char both[300];
    char expected[300];
    snprintf(both, sizeof both, "%s\n%s\n", used, used);
    snprintf(expected, sizeof expected, "1:%s\n2:%s", used, used);
    assert_lines(both, expected);
}

static void a_long_line_comes_in_overlapping_pieces(void **state)
{
    (void)state;
    static char bytes[9000];
    memset(bytes, 'a', sizeof bytes);
    memcpy(bytes + 3990, "across the end", 14);
    const char *lines = lines_of(bytes, sizeof bytes, sizeof bytes);
    assert_non_null(strstr(lines, "across the end"));
    assert_non_null(strstr(lines, "\n1-:aaa"));
    char *whole = strdup(lines);
    assert_string_equal(lines_of(bytes, sizeof bytes, 7), whole);
    free(whole);
}

static void nul_bytes_are_left_out(void **state)
{
    (void)state;
    static const char bytes[] = "\xFF\xFEo\0n\0e\0\n\0t\0w\0o\0\r\0\n\0";
    assert_string_equal(lines_of(bytes, sizeof bytes - 1, 100), "1:\xFF\xFEone\n2:two");
}

static int release(void **state)
{
    (void)state;
    af_text_release(&seen);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_numbered_and_empty_ones_left_out),
        cmocka_unit_test(states_of_a_progress_bar_share_a_number),
        cmocka_unit_test(runs_of_blanks_become_one),
        cmocka_unit_test(escapes_are_left_out),
        cmocka_unit_test(typographic_quotes_become_plain),
        cmocka_unit_test(bold_type_of_markdown_is_left_out),
        cmocka_unit_test(frames_and_prefixes_are_left_out),
        cmocka_unit_test(what_only_looks_like_a_prefix_stays),
        cmocka_unit_test(wrapped_lines_are_given_joined_too),
        cmocka_unit_test(lines_that_begin_alike_are_not_joined),
        cmocka_unit_test(a_long_line_comes_in_overlapping_pieces),
        cmocka_unit_test(nul_bytes_are_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, release);
}
