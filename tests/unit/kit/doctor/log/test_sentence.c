/*
 * test_sentence.c: what is prose, where its sentences end, and what they say.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "kit/doctor/log/sentence.h"

#define SAID_MAX 16

static struct af_arena arena;
static struct af_sentence_words words;

/* What the sentences of one line say, in order. */
struct heard {
    uint64_t said[SAID_MAX];
    size_t count;
};

static int set_up(void **unused)
{
    struct anyflash_error err;
    (void)unused;
    af_arena_init(&arena);
    return af_sentence_words_build(&arena, &words, &err) == ANYFLASH_OK ? 0 : -1;
}

static int tear_down(void **unused)
{
    (void)unused;
    af_arena_release(&arena);
    return 0;
}

static void hear(void *context, size_t start, size_t end, uint64_t said)
{
    struct heard *heard = context;
    assert_true(start < end && heard->count < SAID_MAX);
    heard->said[heard->count++] = said;
}

static struct heard read_line(const char *text, bool begins)
{
    struct heard heard = {.count = 0};
    size_t len = strlen(text);
    char *folded = af_arena_alloc(&arena, len + 1);
    assert_non_null(folded);
    for (size_t i = 0; i <= len; i++)
        folded[i] = (char)(text[i] >= 'A' && text[i] <= 'Z' ? text[i] + 'a' - 'A' : text[i]);
    struct af_log_line line = {
        .text = text, .folded = folded, .len = len, .number = 1, .begins = begins};
    af_sentence_read(&words, &line, hear, &heard);
    return heard;
}

static bool says(uint64_t said, const char *source)
{
    struct af_sentence_rule rule;
    assert_true(af_sentence_rule_parse(source, &rule));
    return af_sentence_rule_holds(&rule, said);
}

static void rules_have_known_concepts_and_need_one(void **unused)
{
    struct af_sentence_rule rule;
    (void)unused;
    assert_true(af_sentence_rule_parse(" build  slow !machine ", &rule));
    assert_false(af_sentence_rule_parse("build slowly", &rule));
    assert_false(af_sentence_rule_parse("build !", &rule));
    assert_false(af_sentence_rule_parse("!machine", &rule));
    assert_false(af_sentence_rule_parse("", &rule));
    assert_false(af_sentence_rule_parse("a-word-of-more-than-thirty-one-bytes-in-all", &rule));
}

static void sentences_are_heard_one_by_one(void **unused)
{
    (void)unused;
    struct heard heard =
        read_line("Building the wheel hangs. Does torch 2.9 support that?", true);
    assert_int_equal(heard.count, 2);
    assert_true(says(heard.said[0], "build wheel hang !ask !torch"));
    assert_true(says(heard.said[1], "torch support ask !hang"));
}

static void words_have_endings_only_where_the_table_says_so(void **unused)
{
    (void)unused;
    assert_true(says(read_line("it was compiled on the machine", true).said[0], "build"));
    assert_true(says(read_line("I cannot import it here", true).said[0], "import not"));
    struct heard heard = read_line("a notable carder of rams", true);
    assert_int_equal(heard.count, 0);
}

static void chinese_needs_no_blanks(void **unused)
{
    (void)unused;
    struct heard heard = read_line("\xE5\xAE\x89\xE8\xA3\x85 flash attention "
                                   "\xE5\xA4\xB1\xE8\xB4\xA5\xE3\x80\x82"
                                   "\xE6\x98\xBE\xE5\x8D\xA1\xEF\xBC\x9F",
                                   true);
    assert_int_equal(heard.count, 2);
    assert_true(says(heard.said[0], "install flash fail !gpu"));
    assert_true(says(heard.said[1], "gpu ask"));
}

static void output_of_programs_says_nothing(void **unused)
{
    static const char *const lines[] = {
        "/usr/local/cuda/bin/nvcc -I/a/include -DNDEBUG --threads=4 -c /tmp/build/x_y.cu",
        "error: failed", "import"};
    (void)unused;
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        assert_int_equal(read_line(lines[i], true).count, 0);
    assert_int_equal(read_line("the build hangs for hours", false).count, 0);
}

static void long_lines_are_cut_or_left_out(void **unused)
{
    char text[1602];
    (void)unused;
    for (size_t i = 0; i + 1 < sizeof text; i++)
        text[i] = "build "[i % 6];
    text[sizeof text - 1] = '\0';
    assert_int_equal(read_line(text, true).count, 0);
    text[1500] = '\0';
    struct heard heard = read_line(text, true);
    assert_int_equal(heard.count, 3);
    assert_true(says(heard.said[2], "build"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules_have_known_concepts_and_need_one),
        cmocka_unit_test(sentences_are_heard_one_by_one),
        cmocka_unit_test(words_have_endings_only_where_the_table_says_so),
        cmocka_unit_test(chinese_needs_no_blanks),
        cmocka_unit_test(output_of_programs_says_nothing),
        cmocka_unit_test(long_lines_are_cut_or_left_out),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
