/*
 * test_pattern.c: what patterns match and capture, which are refused, and that
 * all words of a text are found in one pass.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "kit/doctor/log/keyword.h"
#include "kit/doctor/log/pattern.h"

static struct af_arena arena;

static int prepare(void **state)
{
    (void)state;
    af_arena_init(&arena);
    return 0;
}

static int clean_up(void **state)
{
    (void)state;
    af_arena_release(&arena);
    return 0;
}

/* The captures of the first match, joined by '|'; NULL: no match. */
static const char *captured(const char *source, const char *line)
{
    struct anyflash_error err = {0};
    struct af_pattern pattern;
    struct af_pattern_match match;
    size_t len = strlen(line);
    char *folded = af_arena_text(&arena, line);
    if (af_pattern_compile(source, &arena, &pattern, &err) != ANYFLASH_OK)
        fail_msg("%s", err.message);
    for (size_t i = 0; i < len; i++)
        folded[i] = (char)af_pattern_fold[(unsigned char)line[i]];
    if (!af_pattern_find(&pattern, line, folded, len, true, &match))
        return NULL;
    const char *text = "";
    for (size_t i = 0; i < match.capture_count; i++)
        text = af_arena_format(&arena, "%s%s%.*s", text, i == 0 ? "" : "|",
                               (int)match.captures[i].value.len, match.captures[i].value.data);
    return text;
}

static void assert_refused(const char *source, const char *why)
{
    struct anyflash_error err = {0};
    struct af_pattern pattern;
    assert_int_equal(af_pattern_compile(source, &arena, &pattern, &err), ANYFLASH_E_DATA);
    if (strstr(err.message, why) == NULL)
        fail_msg("'%s' gave '%s'", source, err.message);
}

static void a_pattern_matches_any_part_in_either_case(void **state)
{
    (void)state;
    assert_non_null(captured("no module named", "x: No Module Named 'torch'"));
    assert_null(captured("no module named", "no modul named"));
    assert_null(captured("named^", "named"));
}

static void quotes_match_each_other(void **state)
{
    (void)state;
    assert_string_equal(captured("version `{v}' not", "version \"GLIBC_2.32\" not found"),
                        "GLIBC_2.32");
}

static void the_ends_of_a_line_can_be_asked_for(void **state)
{
    (void)state;
    assert_non_null(captured("^Killed$", "Killed"));
    assert_null(captured("^Killed$", "Killed process"));
    assert_null(captured("^Killed", "was Killed"));
    assert_non_null(captured("torch*({v:version})$", "torch in /x (2.1) and (2.4.0)"));
}

static void stars_and_question_marks_match_text(void **state)
{
    (void)state;
    assert_non_null(captured("flash?attn*wheel", "flash-attn: building a wheel"));
    assert_null(captured("flash?attn", "flashattn"));
    assert_non_null(captured("wheels*", "wheels"));
    assert_non_null(captured("\\*args", "f(*args)"));
    assert_null(captured("\\*args", "f(args)"));
}

static void a_capture_is_as_short_as_the_rest_allows(void **state)
{
    (void)state;
    assert_string_equal(captured("name {a}.so", "name x.so.1.so"), "x");
    assert_string_equal(captured("symbol: {s}", "undefined symbol: _ZN3c10 (x)"), "_ZN3c10");
    assert_string_equal(captured("symbol: {s}*", "symbol: abc, def"), "abc");
    assert_null(captured("symbol: {s}", "symbol: "));
    assert_string_equal(captured("{a}: not {b}", "x y/z: not there"), "y/z|there");
}

static void a_version_is_taken_whole(void **state)
{
    (void)state;
    assert_string_equal(captured("torch=={v:version}", "torch==2.4.0+cu121."), "2.4.0+cu121");
    assert_string_equal(captured("flash_attn-{v:version}", "flash_attn-2.5.9.post1-cp310"),
                        "2.5.9.post1");
    assert_string_equal(
        captured("+cu{c:version}torch{t:version}cxx11abi", "+cu12torch2.4cxx11abiFALSE"),
        "12|2.4");
    assert_null(captured("version {v:version}", "version x1"));
    assert_string_equal(captured("failed*: {WHY:rest}", "failed to (load): it's, well: gone"),
                        "it's, well: gone");
    assert_null(captured("failed: {why:rest}now", "failed: now"));
    assert_string_equal(captured("python{v:version}/site", "/python3.11/site-packages"),
                        "3.11");
}

static void a_match_takes_linear_time(void **state)
{
    (void)state;
    char line[AF_PATTERN_LINE_MAX + 1];
    memset(line, 'a', sizeof line);
    memcpy(line, "aaaa", 4);
    line[AF_PATTERN_LINE_MAX] = '\0';
    assert_null(captured("aaaa*aaaa*aaaa*aaaa*aaaa*{a}*{b}*{c}*aaaab", line));
    memset(line, '1', AF_PATTERN_LINE_MAX);
    assert_null(captured("1111{a:version}{b:version}{c:version}{d}{e}xyz", line));
}

static void malformed_patterns_are_refused(void **state)
{
    (void)state;
    assert_refused("a*b", "at least 4");
    assert_refused("", "at least 4");
    assert_refused("text {", "malformed");
    assert_refused("text {na-me}", "malformed");
    assert_refused("text {name:number}", "malformed");
    assert_refused("text {a}{b}{c}{d}{e}{f}{g}", "malformed");
    assert_refused("text\\", "backslash");
    assert_refused("text*?*?*?*?*?*?*?*?*?*?*?*?*?*?*?*?*?*?*?*?", "too many parts");
}

struct found {
    unsigned words;
    size_t count;
};

static void note(void *context, size_t word)
{
    struct found *found = context;
    found->words |= 1u << word;
    found->count++;
}

static struct found search(const char *const *words, size_t count, const char *text)
{
    struct af_span spans[8];
    struct af_keyword_table table;
    struct found found = {0, 0};
    for (size_t i = 0; i < count; i++)
        spans[i] = (struct af_span){words[i], strlen(words[i])};
    af_keyword_table_build(spans, count, &arena, &table);
    af_keyword_search(&table, text, strlen(text), note, &found);
    return found;
}

static void every_word_is_found_also_within_others(void **state)
{
    (void)state;
    static const char *const words[] = {"hers", "shers", "hish", "hershey", "hers", "", "he"};
    struct found found = search(words, 7, "ushershey");
    assert_int_equal(found.words, 1 | 2 | 8 | 16);
    assert_int_equal(search(words, 7, "xyz").count, 0);
    assert_int_equal(search(words, 7, "hishishers").words, 1 | 2 | 4 | 16);
}

static void long_words_are_compared_to_their_ends(void **state)
{
    (void)state;
    static const char *const words[] = {"abcdefghijklmnopqrstuvwxyz"};
    assert_int_equal(search(words, 1, "abcdefghijklmnopqrstuvwxy").count, 0);
    assert_int_equal(search(words, 1, "abcdefghijklmnopqrstuvwxyz").count, 1);
}

/* What the pattern language means, in the plainest way: the end of a match, or NULL. */
static const char *plain_match(const char *pattern, const char *at)
{
    if (*pattern == '\0' || strcmp(pattern, "$") == 0)
        return *pattern == '\0' || *at == '\0' ? at : NULL;
    if (*pattern == '*') {
        const char *end = plain_match(pattern + 1, at);
        return end != NULL || *at == '\0' ? end : plain_match(pattern, at + 1);
    }
    bool same = *at != '\0' && (*pattern == '?' || *pattern == *at);
    return same ? plain_match(pattern + 1, at + 1) : NULL;
}

static void random_letters(char *text, size_t len, const char *letters, uint32_t *seed)
{
    for (size_t i = 0; i < len; i++) {
        *seed = *seed * 1664525u + 1013904223u;
        text[i] = letters[(*seed >> 8) % strlen(letters)];
    }
    text[len] = '\0';
}

static void random_patterns_match_as_the_plainest_matcher_does(void **state)
{
    uint32_t seed = 5;
    size_t matches = 0;
    (void)state;
    for (int round = 0; round < 20000; round++) {
        char before[8];
        char after[8];
        char line[40];
        struct af_pattern pattern;
        struct af_pattern_match match;
        random_letters(before, 2 + seed % 3, "ab*?", &seed);
        random_letters(after, seed % 5, "ab*?", &seed);
        const char *source =
            af_arena_format(&arena, "^%sabba%s%s", before, after, seed % 7 < 2 ? "$" : "");
        const char *used = source + (seed % 3 == 0 ? 0 : 1); /* with or without '^' */
        random_letters(line, seed % 36, "aab", &seed);
        assert_int_equal(af_pattern_compile(used, &arena, &pattern, NULL), ANYFLASH_OK);
        bool found = af_pattern_find(&pattern, line, line, strlen(line), true, &match);
        const char *start = line;
        const char *end = plain_match(source + 1, start);
        while (end == NULL && *used != '^' && *start != '\0')
            end = plain_match(source + 1, ++start);
        if (found != (end != NULL) || (found && (match.start != (size_t)(start - line) ||
                                                 match.end != (size_t)(end - line))))
            fail_msg("round %d: '%s' on '%s'", round, used, line);
        matches += found ? 1 : 0;
    }
    assert_in_range(matches, 2000, 18000);
}

static void texts_are_folded_as_bytes_are(void **state)
{
    char text[300];
    char folded[300];
    (void)state;
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)i;
    for (size_t len = 0; len < sizeof text; len += 37) {
        memset(folded, 1, sizeof folded);
        af_pattern_fold_text(text, len, folded);
        for (size_t i = 0; i < len; i++)
            assert_int_equal((unsigned char)folded[i], af_pattern_fold[i % 256]);
        assert_int_equal(folded[len], 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pattern_matches_any_part_in_either_case),
        cmocka_unit_test(quotes_match_each_other),
        cmocka_unit_test(the_ends_of_a_line_can_be_asked_for),
        cmocka_unit_test(stars_and_question_marks_match_text),
        cmocka_unit_test(a_capture_is_as_short_as_the_rest_allows),
        cmocka_unit_test(a_version_is_taken_whole),
        cmocka_unit_test(a_match_takes_linear_time),
        cmocka_unit_test(random_patterns_match_as_the_plainest_matcher_does),
        cmocka_unit_test(texts_are_folded_as_bytes_are),
        cmocka_unit_test(malformed_patterns_are_refused),
        cmocka_unit_test(every_word_is_found_also_within_others),
        cmocka_unit_test(long_words_are_compared_to_their_ends),
    };
    return cmocka_run_group_tests(tests, prepare, clean_up);
}
