/*
 * test_index_page.c: finding a file in a project's page of a package index.
 */
#include "tests/unit/every_allocation.h"

#include "kit/base/json.h"
#include "kit/catalog/listing.h"

#include <string.h>

#define HASH "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define NAME "a-1+b.whl"

static const char html[] = "<!DOCTYPE html><a href='x.whl#sha256=" HASH "'>x</a>"
                           "<a href=\"/d/a-1%2Bb.whl#sha256=" HASH "\">a short name</a>";
static const char json[] = "{\"files\":[{\"filename\":\"x.whl\"},{\"filename\":\"" NAME
                           "\",\"hashes\":{\"sha256\":\"" HASH "\"}}]}";

static struct af_arena arena;

/* "no", "yes" without a hash, or the hash. */
static const char *find(const char *page, size_t len)
{
    struct anyflash_error err;
    const char *sha256 = NULL;
    bool found = false;
    enum anyflash_status status = af_index_page_find((struct af_span){page, len}, "page", NAME,
                                                     &arena, &found, &sha256, &err);
    if (status != ANYFLASH_OK)
        return err.message[0] != '\0' ? "error" : "";
    return !found ? "no" : sha256 == NULL ? "yes" : sha256;
}

static void test_index_page__reads_both_forms(void **state)
{
    (void)state;
    assert_string_equal(find(html, sizeof html - 1), HASH);
    assert_string_equal(find(json, sizeof json - 1), HASH);
}

static void test_index_page__a_hash_may_be_missing_or_wrong(void **state)
{
    (void)state;
    static const struct {
        const char *page;
        const char *answer;
    } cases[] = {
        {"<a href=\"a-1+b.whl\">", "yes"},
        {"<a href=\"a-1+b.whl#sha256=00\">", "yes"},
        {"<a href=\"a-1+b.whl#md5=" HASH "\">", "yes"},
        {"<a href=\"aa-1+b.whl\"><a href=a-1+b.whl>", "no"},
        {"<a href=\"a-1+b.whl.metadata\">", "no"},
        {"{\"files\":[{\"filename\":\"" NAME "\",\"hashes\":{\"sha256\":7}}]}", "yes"},
        {"{\"files\":[]}", "no"},
        {"{\"files\":{}}", "error"},
        {"{\"files\":", "error"},
        {"", "no"},
    };
    for (size_t i = 0; i < AF_COUNT(cases); i++)
        assert_string_equal(find(cases[i].page, strlen(cases[i].page)), cases[i].answer);
}

static void test_index_page__no_part_of_a_page_is_misread(void **state)
{
    (void)state;
    for (size_t len = 0; len < sizeof html - 1; len++) {
        char *page = af_mem_alloc(len + 1);
        memcpy(page, html, len);
        const char *answer = find(page, len);
        assert_true(strcmp(answer, "no") == 0 || strcmp(answer, HASH) == 0);
        af_mem_free(page);
    }
    for (size_t len = 1; len < sizeof json - 1; len++)
        assert_string_equal(find(json, len), "error");
}

static void test_index_page__every_failed_allocation_is_reported(void **state)
{
    static const char *const pages[] = {html, json};
    struct anyflash_error err;
    const char *sha256;
    bool found;
    (void)state;
    for (size_t i = 0; i < AF_COUNT(pages); i++) {
        struct every_allocation each = {.nth = 0};
        while (every_allocation_next(&each)) {
            struct af_arena own;
            af_arena_init(&own);
            every_allocation_begin(&each);
            enum anyflash_status status =
                af_index_page_find((struct af_span){pages[i], strlen(pages[i])}, "page", NAME,
                                   &own, &found, &sha256, &err);
            every_allocation_end(&each);
            af_arena_release(&own);
            every_allocation_check(&each, status, &err);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_index_page__reads_both_forms),
        cmocka_unit_test(test_index_page__a_hash_may_be_missing_or_wrong),
        cmocka_unit_test(test_index_page__no_part_of_a_page_is_misread),
        cmocka_unit_test(test_index_page__every_failed_allocation_is_reported),
    };
    af_json_start();
    af_arena_init(&arena);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    af_arena_release(&arena);
    return failed;
}
