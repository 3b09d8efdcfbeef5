/*
 * test_toml.c: reading TOML: what is accepted, what is rejected and at which
 * position; edits that keep all other bytes.
 */
#include "kit/base/text.h"
#include "kit/formats/toml.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static enum anyflash_status parse(struct af_toml *toml, struct af_arena *arena,
                                  const char *text, struct anyflash_error *err)
{
    return af_toml_parse(toml, arena, (struct af_span){text, strlen(text)}, "a.toml", err);
}

static void test_toml__finds_values_however_the_tables_are_written(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "[a.b]\nc = 'x'\n",
        "a.b.c = \"x\"",
        "a = { b = { c = \"x\" } }\n",
        "[a]\nb.c = \"\"\"x\"\"\"\n",
        "[a]\n  \"b\" = {c='''\nx''',}\r\n",
        "[a.b.d]\n[a.b] # late\nc=\"\\u0078\"\n",
        "\xEF\xBB\xBF[ a . 'b' ]\nc = \"x\" # end",
        "[[a.list]]\nb = 1\n[[a.list]]\n[a.b]\nc = \"x\"",
        "a = {\n  b.c = \"x\", # comment\n  d = 1\n}\n",
    };
    for (size_t i = 0; i < AF_COUNT(texts); i++) {
        struct af_arena arena;
        struct af_toml toml;
        struct anyflash_error err = {0};
        af_arena_init(&arena);
        if (parse(&toml, &arena, texts[i], &err) != ANYFLASH_OK)
            fail_msg("'%s': %s", texts[i], err.message);
        const char *text = af_toml_text(&toml, AF_TOML_PATH("a", "b", "c"));
        assert_non_null(text);
        assert_string_equal(text, "x");
        af_arena_release(&arena);
    }
}

static void test_toml__knows_the_kinds_of_values(void **state)
{
    (void)state;
    static const struct {
        const char *value;
        enum af_toml_kind kind;
    } cases[] = {
        {"1", AF_TOML_INTEGER},
        {"-1_000", AF_TOML_INTEGER},
        {"0xDEAD_beef", AF_TOML_INTEGER},
        {"0b1_0", AF_TOML_INTEGER},
        {"+0.5e-3", AF_TOML_FLOAT},
        {"-inf", AF_TOML_FLOAT},
        {"5e+22", AF_TOML_FLOAT},
        {"true", AF_TOML_BOOL},
        {"1979-05-27", AF_TOML_TIME},
        {"1979-05-27T07:32:00.999-07:00", AF_TOML_TIME},
        {"1979-05-27 07:32:00Z", AF_TOML_TIME},
        {"07:32:00", AF_TOML_TIME},
        {"[]", AF_TOML_ARRAY},
        {"[ [1, 2], ['a', {b = []}], ]", AF_TOML_ARRAY},
        {"{}", AF_TOML_INLINE},
        {"''", AF_TOML_STRING},
        {"\"\"\"\"\"\"", AF_TOML_STRING},
        {"'''a'b''c'''''", AF_TOML_STRING},
        {"\"\\\\\"", AF_TOML_STRING},
    };
    for (size_t i = 0; i < AF_COUNT(cases); i++) {
        struct af_arena arena;
        struct af_toml toml;
        struct anyflash_error err = {0};
        af_arena_init(&arena);
        const char *text = af_arena_format(&arena, "a = %s # c\n", cases[i].value);
        if (parse(&toml, &arena, text, &err) != ANYFLASH_OK)
            fail_msg("'%s': %s", text, err.message);
        const struct af_toml_item *item = af_toml_get(toml.root, "a");
        assert_int_equal(item->kind, cases[i].kind);
        assert_int_equal(item->start, 4);
        assert_int_equal(item->end, 4 + strlen(cases[i].value));
        af_arena_release(&arena);
    }
}

static void test_toml__decodes_escapes_and_joined_lines(void **state)
{
    (void)state;
    struct af_arena arena;
    struct af_toml toml;
    af_arena_init(&arena);
    assert_int_equal(parse(&toml, &arena,
                           "a = \"\\t\\\"\\u00e9\\U0001F600\\x41\\e\"\n"
                           "b = \"\"\"\r\none \\  \n\n   two\\\\\"\"\"\n"
                           "c = '\\n'\n",
                           NULL),
                     ANYFLASH_OK);
    assert_string_equal(af_toml_text(&toml, AF_TOML_PATH("a")), "\t\"\xC3\xA9\xF0\x9F\x98\x80"
                                                                "A\033");
    assert_string_equal(af_toml_text(&toml, AF_TOML_PATH("b")), "one two\\");
    assert_string_equal(af_toml_text(&toml, AF_TOML_PATH("c")), "\\n");
    af_arena_release(&arena);
}

static void test_toml__refuses_with_line_and_column(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *where;
    } cases[] = {
        {"a = 1\nb\n", "line 2, column 2"},
        {"a = \n", "line 1, column 5"},
        {"a = 1 b = 2\n", "line 1, column 7"},
        {"a = 1\na = 2\n", "line 2, column 3"},
        {"[a]\n[a]\n", "line 2, column 3"},
        {"a.b = 1\n[a]\n", "line 2, column 3"},
        {"a = [1 2]\n", "line 1, column 8"},
        {"a = [,]\n", "line 1, column 6"},
        {"a = {b = 1\n", "line 2, column 1"},
        {"a = \"x\n\"", "line 1, column 7"},
        {"a = \"\\q\"", "line 1, column 7"},
        {"a = \"\\u0000\"", "line 1, column 12"},
        {"a = \"\\ud800\"", "line 1, column 12"},
        {"a = 012\n", "line 1, column 5"},
        {"a = 1__2\n", "line 1, column 5"},
        {"a = 1.\n", "line 1, column 5"},
        {"a = 2024-1-1\n", "line 1, column 5"},
        {"a = yes\n", "line 1, column 5"},
        {"a = '\x01'\n", "line 1, column 6"},
        {"# \x7F\n", "line 1, column 3"},
        {"a\r= 1\n", "line 1, column 2"},
        {"a = 1\n[a.b]\n", "line 2, column 5"},
        {"a = {}\n[a.b]\n", "line 2, column 5"},
        {"a = [{}]\n[[a]]\n", "line 2, column 4"},
        {"[[a]]\n[a]\n", "line 2, column 3"},
        {"[a.b]\n[[a]]\n", "line 2, column 4"},
        {"[a.b.c]\n[a]\nb.d = 1\n", "line 3, column 5"},
        {"a = {b = 1}\na.c = 2\n", "line 2, column 5"},
        {"[a\n", "line 1, column 3"},
        {"[[a]\n", "line 1, column 5"},
        {"= 1\n", "line 1, column 1"},
        {"\"\"\"a\"\"\" = 1\n", "line 1, column 1"},
        {"\xC3\xA9 = 1\n", "line 1, column 1"},
    };
    for (size_t i = 0; i < AF_COUNT(cases); i++) {
        struct af_arena arena;
        struct af_toml toml;
        struct anyflash_error err = {0};
        af_arena_init(&arena);
        if (parse(&toml, &arena, cases[i].text, &err) != ANYFLASH_E_DATA)
            fail_msg("'%s' was taken: %s", cases[i].text, err.message);
        if (strstr(err.message, cases[i].where) == NULL)
            fail_msg("'%s': expected %s, got %s", cases[i].text, cases[i].where, err.message);
        af_arena_release(&arena);
    }
}

static void test_toml__refuses_what_is_too_deep(void **state)
{
    (void)state;
    struct af_arena arena;
    struct af_toml toml;
    struct af_text text = {0};
    af_arena_init(&arena);
    af_text_add(&text, "a = ");
    for (int i = 0; i < 100000; i++)
        af_text_add(&text, i % 2 == 0 ? "[" : "{b=");
    assert_int_equal(parse(&toml, &arena, text.data, NULL), ANYFLASH_E_LIMIT);
    af_text_release(&text);
    af_arena_release(&arena);
}

/* The text before and after an edit. */
struct edit_case {
    const char *before;
    const char *after;
};

typedef enum anyflash_status edit(struct af_toml *toml);

static void check_edits(const struct edit_case *cases, size_t count, edit *change)
{
    for (size_t i = 0; i < count; i++) {
        struct af_arena arena;
        struct af_toml toml;
        af_arena_init(&arena);
        assert_int_equal(parse(&toml, &arena, cases[i].before, NULL), ANYFLASH_OK);
        enum anyflash_status status = change(&toml);
        if (cases[i].after == NULL) {
            assert_int_equal(status, ANYFLASH_E_DATA);
            assert_string_equal(toml.text.data, cases[i].before);
        } else {
            assert_int_equal(status, ANYFLASH_OK);
            assert_string_equal(toml.text.data, cases[i].after);
        }
        af_arena_release(&arena);
    }
}

static enum anyflash_status set_abk(struct af_toml *toml)
{
    return af_toml_set(toml, AF_TOML_PATH("a", "b", "k"), "9", NULL);
}

static void test_toml__sets_a_key_wherever_its_table_is(void **state)
{
    (void)state;
    static const struct edit_case cases[] = {
        {"", "[a.b]\nk = 9\n"},
        {"x = 1", "x = 1\n\n[a.b]\nk = 9\n"},
        {"[a.b]\nk = 1 # one\nl = 2\n", "[a.b]\nk = 9 # one\nl = 2\n"},
        {"[a.b]\nl = 2 # two\n\n# c\n[d]\n", "[a.b]\nl = 2 # two\nk = 9\n\n# c\n[d]\n"},
        {"[a.b]\r\nl = 2\r\n", "[a.b]\r\nl = 2\r\nk = 9\r\n"},
        {"[a.b]", "[a.b]\nk = 9\n"},
        {"[a]\nb = {}\n", "[a]\nb = { k = 9 }\n"},
        {"[a]\nb = { l = 2 }\n", "[a]\nb = { l = 2, k = 9 }\n"},
        {"[a]\nb = { l.m = 2 }\n", "[a]\nb = { l.m = 2, k = 9 }\n"},
        {"[a]\nb = { l = 2, k = [1] } # x\n", "[a]\nb = { l = 2, k = 9 } # x\n"},
        {"a = {c = 1}\n", "a = {c = 1, b.k = 9}\n"},
        {"a.c = 1\nd = 2\n", "a.c = 1\na.b.k = 9\nd = 2\n"},
        {"a.b.l = 1\nc = 2\n[a.b.x]\ny = 1\n", "a.b.l = 1\na.b.k = 9\nc = 2\n[a.b.x]\ny = 1\n"},
        {"[a]\nb.l = 1\nc = 2\n", "[a]\nb.l = 1\nb.k = 9\nc = 2\n"},
        {"[a]\nc = 2\n[d]\n", "[a]\nc = 2\n[d]\n\n[a.b]\nk = 9\n"},
        {"[a.b.c]\nd = 2\n# about d\n\n# about e\n[e]\n",
         "[a.b.c]\nd = 2\n# about d\n\n[a.b]\nk = 9\n\n# about e\n[e]\n"},
        {"[[a]]\n[[a]]\nx = 1\n", NULL},
        {"a = 1\n", NULL},
        {"[a.b.k]\n", NULL},
    };
    check_edits(cases, AF_COUNT(cases), set_abk);
}

static enum anyflash_status append_a(struct af_toml *toml)
{
    return af_toml_append(toml, AF_TOML_PATH("a"), "9", NULL);
}

static void test_toml__appends_in_the_layout_of_the_array(void **state)
{
    (void)state;
    static const struct edit_case cases[] = {
        {"a = []\n", "a = [9]\n"},
        {"a = [ ]\n", "a = [9]\n"},
        {"a = [1, 2]\n", "a = [1, 2, 9]\n"},
        {"a = [ 1 ] # c\n", "a = [ 1, 9 ] # c\n"},
        {"a = [1,]\n", "a = [1, 9,]\n"},
        {"a = [\n  1,\n  2, # two\n]\n", "a = [\n  1,\n  2, # two\n  9,\n]\n"},
        {"a = [\n\t1, # one\n\t2  # two\n]\n", "a = [\n\t1, # one\n\t2,  # two\n\t9\n]\n"},
        {"a = [\n  1,\n  2]\n", "a = [\n  1,\n  2, 9]\n"},
        {"a = [1,\n     2\n]\n", "a = [1,\n     2,\n     9\n]\n"},
        {"a = [\n  # none\n]\n", "a = [\n    9,\n  # none\n]\n"},
        {"a = [\n  1,\n  # end\n]\n", "a = [\n  1,\n  9,\n  # end\n]\n"},
        {"a = [\r\n  1\r\n]\r\n", "a = [\r\n  1,\r\n  9\r\n]\r\n"},
        {"a = ['x#]', [3]]\n", "a = ['x#]', [3], 9]\n"},
        {"b = 1\n", "b = 1\na = [9]\n"},
        {"a = 1\n", NULL},
    };
    check_edits(cases, AF_COUNT(cases), append_a);
}

static enum anyflash_status append_table(struct af_toml *toml)
{
    static const char *const keys[] = {"n", "m"};
    static const char *const values[] = {"1", "[]"};
    return af_toml_append_table(toml, AF_TOML_PATH("a", "b", "t"), keys, values, 2, NULL);
}

static void test_toml__appends_a_table_to_a_list_of_either_form(void **state)
{
    (void)state;
    static const struct edit_case cases[] = {
        {"", "[[a.b.t]]\nn = 1\nm = []\n"},
        {"[[a.b.t]]\nn = 0\n\n[c]\n", "[[a.b.t]]\nn = 0\n\n[[a.b.t]]\nn = 1\nm = []\n\n[c]\n"},
        {"[a.b]\nt = [{ n = 0 }]\n", "[a.b]\nt = [{ n = 0 }, { n = 1, m = [] }]\n"},
        {"[a.b]\nt = [\n  { n = 0 },\n]\n",
         "[a.b]\nt = [\n  { n = 0 },\n  { n = 1, m = [] },\n]\n"},
        {"[a]\nb = { c = 1 }\n", "[a]\nb = { c = 1, t = [{ n = 1, m = [] }] }\n"},
        {"a = { c = 1 }\n", "a = { c = 1, b.t = [{ n = 1, m = [] }] }\n"},
        {"[a.b.t]\n", NULL},
        {"[a]\nb = 1\n", NULL},
    };
    check_edits(cases, AF_COUNT(cases), append_table);
}

static enum anyflash_status remove_ab(struct af_toml *toml)
{
    return af_toml_remove(toml, af_toml_find(toml, AF_TOML_PATH("a", "b")), NULL);
}

static enum anyflash_status remove_second(struct af_toml *toml)
{
    return af_toml_remove(toml, af_toml_get(toml->root, "a")->first->next, NULL);
}

static void test_toml__removes_with_comma_or_line(void **state)
{
    (void)state;
    static const struct edit_case keys[] = {
        {"[a]\nb = 1 # c\nd = 2\n", "[a]\nd = 2\n"},
        {"[a]\nx = 0\nb = [\n 1, # one\n]\n\nd = 2", "[a]\nx = 0\n\nd = 2"},
        {"a = { b = 1 }\n", "a = { }\n"},
        {"a = { b = 1, c = 2 }\n", "a = { c = 2 }\n"},
        {"a = { c = 2, b = 1 }\n", "a = { c = 2 }\n"},
        {"[c]\n\n[a.b]\nx = 1\n\n[d]\n", "[c]\n\n[d]\n"},
        {"[a.b]\nx = 1", ""},
        {"[a.b.c]\nx = 1", NULL},
    };
    static const struct edit_case elements[] = {
        {"a = [1, 2]\n", "a = [1]\n"},
        {"a = [1, 2, 3]\n", "a = [1, 3]\n"},
        {"a = [\n  1,\n  2, # two\n  3\n]\n", "a = [\n  1,\n  3\n]\n"},
        {"a = [\n  1, # one\n  2 # two\n]\n", "a = [\n  1, # one\n # two\n]\n"},
        {"a = [1,2]\n", "a = [1]\n"},
    };
    check_edits(keys, AF_COUNT(keys), remove_ab);
    check_edits(elements, AF_COUNT(elements), remove_second);
}

static void test_toml__quotes_what_reads_back(void **state)
{
    (void)state;
    static const char hard[] = "a\"b\\c\n\t\x7F'\xC3\xA9";
    struct af_arena arena;
    struct af_toml toml;
    af_arena_init(&arena);
    const char *text = af_arena_format(&arena, "a = %s", af_toml_quote(&arena, hard));
    assert_int_equal(parse(&toml, &arena, text, NULL), ANYFLASH_OK);
    assert_string_equal(af_toml_text(&toml, AF_TOML_PATH("a")), hard);
    af_arena_release(&arena);
}

static void test_toml__a_value_that_is_none_changes_nothing(void **state)
{
    (void)state;
    struct af_arena arena;
    struct af_toml toml;
    af_arena_init(&arena);
    assert_int_equal(parse(&toml, &arena, "a = 1\n", NULL), ANYFLASH_OK);
    assert_int_equal(af_toml_set(&toml, AF_TOML_PATH("a"), "]", NULL), ANYFLASH_E_INTERNAL);
    assert_string_equal(toml.text.data, "a = 1\n");
    af_arena_release(&arena);
}

static const char long_text[] =
    "# head\n[project]\nname = \"x\" # n\ndependencies = [\n"
    "    \"torch\", # t\n]\n[tool.uv]\nsources = { a = {path = 'b'} }\n"
    "[[tool.uv.x]]\ny = 1979-05-27\n";

static void test_toml__every_cut_is_read_or_refused(void **state)
{
    (void)state;
    for (size_t len = 0; len < sizeof long_text; len++) {
        struct af_arena arena;
        struct af_toml toml;
        struct anyflash_error err = {0};
        char *exact = malloc(len + 1);
        assert_non_null(exact);
        memcpy(exact, long_text, len);
        af_arena_init(&arena);
        enum anyflash_status status =
            af_toml_parse(&toml, &arena, (struct af_span){exact, len}, "cut", &err);
        assert_true(status == ANYFLASH_OK || status == ANYFLASH_E_DATA);
        free(exact);
        af_arena_release(&arena);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_toml__finds_values_however_the_tables_are_written),
        cmocka_unit_test(test_toml__knows_the_kinds_of_values),
        cmocka_unit_test(test_toml__decodes_escapes_and_joined_lines),
        cmocka_unit_test(test_toml__refuses_with_line_and_column),
        cmocka_unit_test(test_toml__refuses_what_is_too_deep),
        cmocka_unit_test(test_toml__sets_a_key_wherever_its_table_is),
        cmocka_unit_test(test_toml__appends_in_the_layout_of_the_array),
        cmocka_unit_test(test_toml__appends_a_table_to_a_list_of_either_form),
        cmocka_unit_test(test_toml__removes_with_comma_or_line),
        cmocka_unit_test(test_toml__quotes_what_reads_back),
        cmocka_unit_test(test_toml__a_value_that_is_none_changes_nothing),
        cmocka_unit_test(test_toml__every_cut_is_read_or_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
