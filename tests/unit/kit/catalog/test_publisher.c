/*
 * test_publisher.c: who published a wheel, by its source and by its address.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "kit/catalog/publisher.h"

static void test_publisher__of_an_address(void **unused)
{
    (void)unused;
    static const struct {
        const char *url;
        const char *publisher; /* NULL: not known */
    } cases[] = {
        {"https://github.com/Dao-AILab/flash-attention/releases/download/v2/a%2Bcu12.whl",
         "Dao-AILab"},
        {"https://GitHub.com/mjun0812/x/releases/download/v1/a.whl", "mjun0812"},
        {"https://huggingface.co/lldacing/x/resolve/main/a.whl", "huggingface:lldacing"},
        {"https://github.com/Dao-AILab/../someone/x/a.whl", NULL},
        {"https://github.com/Dao-AILab/%2E%2e/someone/x/a.whl", NULL},
        {"https://github.com/Dao-AILab", NULL},
        {"https://github.com/Dao-AILab/flash-attention/raw/0123abcd/a.whl", NULL},
        {"https://github.com/Dao-AILab/releases/download/v1/a.whl", NULL},
        {"https://huggingface.co/lldacing/x/resolve/refs%2Fpr%2F1/a.whl", NULL},
        {"https://huggingface.co/lldacing/x/resolve/main", NULL},
        {"https://github.com//x/a.whl", NULL},
        {"https://github.com/Dao-AILab@someone/x/a.whl", NULL},
        {"https://github.com.example/Dao-AILab/x/a.whl", NULL},
        {"https://someone@github.com/Dao-AILab/x/a.whl", NULL},
        {"http://github.com/Dao-AILab/x/a.whl", NULL},
        {"https://example.org/github.com/Dao-AILab/a.whl", NULL},
        {"", NULL},
    };
    struct af_arena arena;
    af_arena_init(&arena);
    for (size_t i = 0; i < AF_COUNT(cases); i++) {
        const char *publisher = af_publisher_of_url(&arena, cases[i].url);
        if (cases[i].publisher == NULL)
            assert_null(publisher);
        else
            assert_string_equal(publisher, cases[i].publisher);
    }
    af_arena_release(&arena);
}

static void test_publisher__names_that_stand_for_it(void **unused)
{
    (void)unused;
    const struct af_catalog_wheel official = {.source = "Dao-AILab/flash-attention",
                                              .official = true};
    const struct af_catalog_wheel other = {.source = "huggingface:lldacing/wheels"};
    assert_true(af_publisher_is(&official, "dao-ailab"));
    assert_true(af_publisher_is(&official, "Dao-AILab/flash-attention"));
    assert_true(af_publisher_is(&official, "official"));
    assert_false(af_publisher_is(&official, "Dao"));
    assert_false(af_publisher_is(&official, "Dao-AILab/other"));
    assert_false(af_publisher_is(&official, ""));
    assert_true(af_publisher_is(&other, "huggingface:lldacing"));
    assert_false(af_publisher_is(&other, "lldacing"));
    assert_false(af_publisher_is(&other, "official"));
}

static const struct af_catalog_wheel wheels[] = {
    {.source = "alpha/one"}, {.source = "beta/one"}, {.source = "alpha/two"}};
static const struct af_catalog catalog = {.wheels = wheels, .count = AF_COUNT(wheels)};

static void test_publisher__reads_lists(void **unused)
{
    (void)unused;
    static const struct {
        const char *text;
        bool is_project;
        enum anyflash_status status;
        size_t count;
    } cases[] = {
        {"publishers = [\"alpha\", \"beta/one\"]", false, ANYFLASH_OK, 2},
        {"[tool.anyflash]\npublishers = [\"beta\"]", true, ANYFLASH_OK, 1},
        {"", false, ANYFLASH_OK, 0},
        {"[tool.other]\nnot toml", true, ANYFLASH_OK, 0},
        {"# anyflash\n[tool.other]", true, ANYFLASH_OK, 0},
        {"publishers = []", false, ANYFLASH_E_ARGUMENT, 0},
        {"publishers = \"alpha\"", false, ANYFLASH_E_DATA, 0},
        {"publishers = [1]", false, ANYFLASH_E_DATA, 0},
        {"publisher = [\"alpha\"]", false, ANYFLASH_E_DATA, 0},
        {"[tool]\nanyflash = 1", true, ANYFLASH_E_DATA, 0},
        {"publishers = [\"gamma\"]", false, ANYFLASH_E_ARGUMENT, 0},
    };
    for (size_t i = 0; i < AF_COUNT(cases); i++) {
        struct af_arena arena;
        struct af_publishers list;
        const char *hint = NULL;
        const struct af_span text = {cases[i].text, strlen(cases[i].text)};
        af_arena_init(&arena);
        assert_int_equal(af_publishers_read_toml(&catalog, text, cases[i].is_project, "file",
                                                 &arena, &list, &hint, NULL),
                         cases[i].status);
        assert_int_equal(list.count, cases[i].count);
        af_arena_release(&arena);
    }
}

static void test_publisher__names_the_nearest(void **unused)
{
    (void)unused;
    struct af_arena arena;
    struct af_publishers list;
    const char *hint = NULL;
    af_arena_init(&arena);
    assert_int_equal(
        af_publishers_read(&catalog, "beta,alpah", "--publishers", &arena, &list, &hint, NULL),
        ANYFLASH_E_ARGUMENT);
    assert_string_equal(hint, "did you mean 'alpha'?");
    af_arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_publisher__of_an_address),
        cmocka_unit_test(test_publisher__names_that_stand_for_it),
        cmocka_unit_test(test_publisher__reads_lists),
        cmocka_unit_test(test_publisher__names_the_nearest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
