/*
 * test_json.c: what the JSON reader rejects, and the position that it reports.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kit/base/json.h"

#include <stdlib.h>
#include <string.h>

static enum anyflash_status parse(const char *text, struct anyflash_error *err)
{
    json_t *json = NULL;
    enum anyflash_status status =
        af_json_parse((struct af_span){text, strlen(text)}, 1u << 20, "x.json", &json, err);
    json_decref(json);
    return status;
}

static void test_json__names_file_line_and_column(void **state)
{
    (void)state;
    struct anyflash_error err = {0};
    assert_int_equal(parse("{\n \"a\": }", &err), ANYFLASH_E_DATA);
    assert_non_null(strstr(err.message, "'x.json' line 2 column 7"));
}

static void test_json__refuses_duplicates_and_trailing_bytes(void **state)
{
    (void)state;
    assert_int_equal(parse("{\"a\":1,\"a\":2}", NULL), ANYFLASH_E_DATA);
    assert_int_equal(parse("{} {}", NULL), ANYFLASH_E_DATA);
    assert_int_equal(parse("", NULL), ANYFLASH_E_DATA);
    assert_int_equal(parse("{\"a\": 1e999}", NULL), ANYFLASH_E_DATA);
    assert_int_equal(parse("{\"a\": 99999999999999999999}", NULL), ANYFLASH_E_DATA);
}

static void test_json__refuses_deep_nesting(void **state)
{
    (void)state;
    char *deep = malloc(200001);
    memset(deep, '[', 200000);
    deep[200000] = '\0';
    assert_int_equal(parse(deep, NULL), ANYFLASH_E_DATA);
    free(deep);
}

static void test_json__refuses_what_is_too_large(void **state)
{
    (void)state;
    json_t *json = NULL;
    assert_int_equal(af_json_parse((struct af_span){"[1,2]", 5}, 4, "x", &json, NULL),
                     ANYFLASH_E_LIMIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json__names_file_line_and_column),
        cmocka_unit_test(test_json__refuses_duplicates_and_trailing_bytes),
        cmocka_unit_test(test_json__refuses_deep_nesting),
        cmocka_unit_test(test_json__refuses_what_is_too_large),
    };
    af_json_start();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
