/*
 * test_wheelhouse.c: the pages of an index: what is escaped, what is left out.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "kit/base/json.h"
#include "kit/install/wheelhouse_parts.h"

#define HASH "0123456789012345678901234567890123456789012345678901234567890123"

static const struct af_wheelhouse_wheel wheels[] = {
    {.filename = "a-1.0+b-py3-none-any.whl",
     .project = "a",
     .version = "1.0+b",
     .sha256 = HASH,
     .metadata_sha256 = HASH,
     .requires_python = ">=3.9,!=\"<&>\"",
     .size_bytes = UINT64_C(5000000000)},
    {.filename = "a-1.0-variants.json", .project = "a", .version = "1.0+b", .sha256 = HASH},
    {.filename = "b-1-py3-none-any.whl",
     .project = "b",
     .version = "1",
     .sha256 = HASH,
     .metadata_sha256 = HASH}};

static void test_html__escapes_links_and_attributes(void **state)
{
    struct af_text text = {0};
    (void)state;
    af_wheelhouse_project_html(wheels, 1, &text);
    assert_non_null(strstr(af_text_get(&text),
                           "<a href=\"a-1.0%2Bb-py3-none-any.whl#sha256=" HASH "\" "
                           "data-requires-python=\"&gt;=3.9,!=&quot;&lt;&amp;&gt;&quot;\" "
                           "data-core-metadata=\"sha256=" HASH "\" "
                           "data-dist-info-metadata=\"sha256=" HASH "\">"
                           "a-1.0+b-py3-none-any.whl</a>"));
    af_text_release(&text);
}

static void test_html__names_no_metadata_of_what_has_none(void **state)
{
    struct af_text text = {0};
    (void)state;
    af_wheelhouse_project_html(&wheels[1], 1, &text);
    assert_null(strstr(af_text_get(&text), "data-"));
    af_text_release(&text);
}

static json_t *parsed(struct af_text *text)
{
    json_t *json = json_loads(af_text_get(text), JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(json);
    af_text_release(text);
    return json;
}

static void test_json__says_the_same(void **state)
{
    struct af_text text = {0};
    (void)state;
    af_wheelhouse_project_json(wheels, 2, &text);
    json_t *json = parsed(&text);
    assert_int_equal(json_array_size(json_object_get(json, "versions")), 1);
    const json_t *file = json_array_get(json_object_get(json, "files"), 0);
    assert_string_equal(json_string_value(json_object_get(file, "requires-python")),
                        wheels[0].requires_python);
    assert_string_equal(json_string_value(json_object_get(file, "url")),
                        "a-1.0%2Bb-py3-none-any.whl");
    assert_true(json_integer_value(json_object_get(file, "size")) == INT64_C(5000000000));
    assert_null(
        json_object_get(json_array_get(json_object_get(json, "files"), 1), "core-metadata"));
    json_decref(json);
}

static void test_root__names_each_project_once(void **state)
{
    struct af_text text = {0};
    (void)state;
    af_wheelhouse_root_json(wheels, AF_COUNT(wheels), &text);
    json_t *json = parsed(&text);
    assert_int_equal(json_array_size(json_object_get(json, "projects")), 2);
    json_decref(json);
    af_wheelhouse_root_html(wheels, AF_COUNT(wheels), &text);
    assert_non_null(
        strstr(af_text_get(&text), "<a href=\"a/\">a</a><br>\n<a href=\"b/\">b</a>"));
    af_text_release(&text);
}

static void test_pages__carry_the_mark_of_their_writer(void **state)
{
    struct af_text html = {0};
    struct af_text json = {0};
    (void)state;
    af_wheelhouse_root_html(wheels, 0, &html);
    af_wheelhouse_root_json(wheels, 0, &json);
    assert_non_null(strstr(af_text_get(&html), AF_WHEELHOUSE_MARK_HTML));
    assert_non_null(strstr(af_text_get(&json), AF_WHEELHOUSE_MARK_JSON));
    af_text_release(&html);
    af_text_release(&json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_html__escapes_links_and_attributes),
        cmocka_unit_test(test_html__names_no_metadata_of_what_has_none),
        cmocka_unit_test(test_json__says_the_same),
        cmocka_unit_test(test_root__names_each_project_once),
        cmocka_unit_test(test_pages__carry_the_mark_of_their_writer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
