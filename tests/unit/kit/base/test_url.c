/*
 * test_url.c: URLs as text.
 */
#include "kit/base/url.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct af_arena arena;

static void test_url__tells_what_may_be_fetched(void **state)
{
    (void)state;
    char too_long[AF_URL_BYTES_MAX + 16] = "https://host/";
    memset(too_long + strlen(too_long), 'a', AF_URL_BYTES_MAX - strlen(too_long));
    const struct {
        const char *url;
        bool allow_http;
        enum anyflash_status status;
    } cases[] = {
        {"https://host/a", false, ANYFLASH_OK},
        {"HTTPS://host", false, ANYFLASH_OK},
        {"http://host/a", true, ANYFLASH_OK},
        {"http://host/a", false, ANYFLASH_E_UNSUPPORTED},
        {"https:///a", false, ANYFLASH_E_ARGUMENT},
        {"ftp://host/a", true, ANYFLASH_E_ARGUMENT},
        {"https://host/a b", false, ANYFLASH_E_ARGUMENT},
        {too_long, false, ANYFLASH_E_LIMIT},
    };
    for (size_t i = 0; i < AF_COUNT(cases); i++)
        assert_int_equal(af_url_check(cases[i].url, cases[i].allow_http, NULL),
                         cases[i].status);
}

/* Pairs of URLs that are equal, and pairs that are not. */
static void test_url__compares(void **state)
{
    (void)state;
    static const char *const equal[][2] = {
        {"https://h/a+b", "https://h/a%2Bb"}, /* either spelling of plus */
        {"a%2bb", "a%2Bb"},
        {"https://h/a#sha256=00", "https://h/a"}, /* without fragments */
        {"https://h/a", "https://h/a#sha256=00"},
        {"https://h/a#sha256=00", "https://h/a#sha256=11"},
    };
    static const char *const different[][2] = {
        {"a+b", "a%20b"}, {"a+", "a"}, {"a%2", "a+"}, {"https://h/a#b", "https://h/ab"}};
    for (size_t i = 0; i < AF_COUNT(equal); i++)
        assert_true(af_url_equal(equal[i][0], equal[i][1]));
    for (size_t i = 0; i < AF_COUNT(different); i++)
        assert_false(af_url_equal(different[i][0], different[i][1]));
}

static void test_url__shows_no_secrets(void **state)
{
    (void)state;
    char shown[AF_URL_SHOWN_BYTES];
    assert_string_equal(af_url_show(shown, sizeof shown, "https://u:p@x@host/a?token=1#f"),
                        "https://host/a");
    assert_string_equal(af_url_show(shown, sizeof shown, "git+https://u:p@host/a?sig=1"),
                        "git+https://host/a");
    assert_string_equal(af_url_show(shown, sizeof shown, "s3://key:secret@bucket/a.whl"),
                        "s3://bucket/a.whl");
    assert_string_equal(af_url_show(shown, sizeof shown, "folder/a@b.whl"), "folder/a@b.whl");
    assert_string_equal(af_url_without_secrets(&arena, "git+https://u:p@host/a?token=1#egg=b"),
                        "git+https://host/a#egg=b");
    assert_string_equal(af_url_without_secrets(&arena, "a@b"), "a@b");
}

static void test_url__writes_plus_as_an_escape(void **state)
{
    (void)state;
    assert_string_equal(af_url_encode_plus(&arena, "https://h/a+b+c%2Bd"),
                        "https://h/a%2Bb%2Bc%2Bd");
    assert_string_equal(af_url_encode_plus(&arena, ""), "");
    assert_null(af_url_encode_plus(&arena, NULL));
    assert_string_equal(af_url_encode_path(&arena, "/srv/a b+ü"), "/srv/a%20b%2B%C3%BC");
}

static void test_url__carries_a_hash_that_is_known(void **state)
{
    (void)state;
    assert_string_equal(af_url_with_sha256(&arena, "https://h/a", "00ff"),
                        "https://h/a#sha256=00ff");
    assert_string_equal(af_url_with_sha256(&arena, "https://h/a", NULL), "https://h/a");
}

static void test_url__finds_the_file_name(void **state)
{
    (void)state;
    static const struct {
        const char *url;
        const char *name;
    } cases[] = {
        {"https://h/d/f-1%2bcu12.whl#sha256=0/1", "f-1+cu12.whl"},
        {"https://h/f.whl?a=/b", "f.whl"},
        {"f.whl", "f.whl"},
        {"https://h/", ""},
        {"https://h/a%2Fb%00%0a%20%zz%4", "a%2Fb%00%0a%20%zz%4"},
    };
    for (size_t i = 0; i < AF_COUNT(cases); i++) {
        assert_string_equal(af_url_file_name(&arena, cases[i].url), cases[i].name);
        assert_true(af_url_names_file(cases[i].url, cases[i].name));
        assert_false(af_url_names_file(cases[i].url, "other.whl"));
    }
    assert_false(af_url_names_file("https://h/f.whl", "f.wh"));
    assert_false(af_url_names_file("https://h/f.whl", "f.whl2"));
}

static void test_url__follows_a_redirect(void **state)
{
    (void)state;
    static const char from[] = "https://h:1/a/b?c=/d/e#/f";
    const struct {
        const char *place, *joined;
    } cases[] = {
        {"http://o/x?y", "http://o/x?y"},
        {"//o/x", "https://o/x"},
        {"/x", "https://h:1/x"},
        {"x", "https://h:1/a/x"},
        {"x y\xc3\xa9", "https://h:1/a/x%20y%C3%A9"},
        {"", ""},
    };
    char joined[AF_URL_BYTES_MAX], small[16];
    for (size_t i = 0; i < AF_COUNT(cases); i++) {
        af_url_join(joined, sizeof joined, from, cases[i].place);
        assert_string_equal(joined, cases[i].joined);
    }
    af_url_join(joined, sizeof joined, "https://h?a=/b", "x");
    assert_string_equal(joined, "https://h/x");
    af_url_join(small, sizeof small, "https://h/", "12345"); /* 15 bytes fit */
    assert_string_equal(small, "https://h/12345");
    af_url_join(small, sizeof small, "https://h/", "123456");
    assert_string_equal(small, "");
    af_url_join(small, sizeof small, "https://a.long.host/", "1");
    assert_string_equal(small, "");
}

static void test_url__finds_the_path_of_a_local_file(void **state)
{
    (void)state;
    assert_string_equal(af_url_file_path(&arena, "file:///a%20b/c%2"), "/a b/c%2");
    assert_string_equal(af_url_file_path(&arena, "file:///a%00b"), "/a%00b");
    assert_null(af_url_file_path(&arena, "https://h/a"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_url__tells_what_may_be_fetched),
        cmocka_unit_test(test_url__compares),
        cmocka_unit_test(test_url__shows_no_secrets),
        cmocka_unit_test(test_url__writes_plus_as_an_escape),
        cmocka_unit_test(test_url__carries_a_hash_that_is_known),
        cmocka_unit_test(test_url__finds_the_file_name),
        cmocka_unit_test(test_url__follows_a_redirect),
        cmocka_unit_test(test_url__finds_the_path_of_a_local_file),
    };
    af_arena_init(&arena);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    af_arena_release(&arena);
    return failed;
}
