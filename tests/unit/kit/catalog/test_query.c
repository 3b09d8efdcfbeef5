/*
 * test_query.c: the language of `anyflash find` over the embedded catalog.
 */
#include "kit/base/json.h"
#include "kit/base/text.h"
#include "kit/catalog/query.h"
#include "kit/formats/version.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define FOUND_MAX 9000

/* What the last query found. */
struct found {
    struct af_catalog catalog;
    const struct af_catalog_wheel *wheels[FOUND_MAX];
    size_t count;
};

static int load(void **state)
{
    static struct found found;
    *state = &found;
    return af_catalog_load_embedded(&found.catalog, NULL) == ANYFLASH_OK ? 0 : -1;
}

static int unload(void **state)
{
    af_catalog_release(&((struct found *)*state)->catalog);
    return 0;
}

/* Runs the words of one line. */
static const struct found *find(void **state, const char *line)
{
    struct found *found = *state;
    struct af_arena arena;
    struct af_query query;
    struct anyflash_error err = {0};
    const struct af_catalog_wheel *const *wheels;
    const char *words[AF_QUERY_WORDS_MAX];
    size_t count = 0;
    af_arena_init(&arena);
    char *rest = af_arena_text(&arena, line);
    while (rest != NULL && *rest != '\0')
        words[count++] = strsep(&rest, " ");
    if (af_query_parse(words, count, &arena, &query, &err) != ANYFLASH_OK)
        fail_msg("%s", err.message);
    af_query_run(&query, &found->catalog, &arena, &wheels, &found->count);
    memcpy(found->wheels, wheels, found->count * sizeof *wheels);
    af_arena_release(&arena);
    return found;
}

static void assert_refused(const char *word, const char *message)
{
    struct af_arena arena;
    struct af_query query;
    struct anyflash_error err = {0};
    const char *words[] = {"torch=2.9", word};
    af_arena_init(&arena);
    assert_int_equal(af_query_parse(words, 2, &arena, &query, &err), ANYFLASH_E_ARGUMENT);
    if (strstr(err.message, message) == NULL)
        fail_msg("'%s' does not say '%s'", err.message, message);
    af_arena_release(&arena);
}

static void test_query__no_words_find_everything(void **state)
{
    assert_int_equal(find(state, "")->count, 8729);
}

static void test_query__a_minor_finds_its_patches(void **state)
{
    const struct found *found = find(state, "torch=2.9");
    bool minor = false, patch = false;
    for (size_t i = 0; i < found->count; i++) {
        const char *torch = found->wheels[i]->torch;
        minor |= af_equal(torch, "2.9");
        patch |= af_equal(torch, "2.9.1");
        assert_true(torch == NULL || af_starts_with(torch, "2.9"));
    }
    assert_true(minor && patch);
}

static void test_query__a_patch_finds_what_names_only_the_minor(void **state)
{
    const struct found *found = find(state, "torch=2.9.1");
    bool minor = false;
    for (size_t i = 0; i < found->count; i++) {
        minor |= af_equal(found->wheels[i]->torch, "2.9");
        assert_false(af_equal(found->wheels[i]->torch, "2.9.0"));
    }
    assert_true(minor);
}

static void test_query__a_cuda_major_finds_its_minors(void **state)
{
    const struct found *found = find(state, "cuda=12");
    bool major = false, minor = false;
    for (size_t i = 0; i < found->count; i++) {
        major |= af_equal(found->wheels[i]->cuda, "12");
        minor |= af_equal(found->wheels[i]->cuda, "12.8");
        assert_false(af_equal(found->wheels[i]->cuda, "11.8"));
    }
    assert_true(major && minor);
}

static void test_query__python_counts_the_stable_abi(void **state)
{
    const struct found *found = find(state, "python=3.12");
    bool own = false, stable = false;
    for (size_t i = 0; i < found->count; i++) {
        own |= strcmp(found->wheels[i]->abi, "cp312") == 0;
        stable |= strcmp(found->wheels[i]->abi, "abi3") == 0;
        assert_string_not_equal(found->wheels[i]->abi, "cp311");
    }
    assert_true(own && stable);
}

static void test_query__free_threaded_python_is_another(void **state)
{
    const struct found *found = find(state, "python=3.13t package=flash_attn");
    assert_true(found->count > 100);
    for (size_t i = 0; i < found->count; i++)
        assert_string_equal(found->wheels[i]->abi, "cp313t");
    found = find(state, "python=cp313 package=flash_attn");
    for (size_t i = 0; i < found->count; i++)
        assert_string_not_equal(found->wheels[i]->abi, "cp313t");
}

static void test_query__abi_is_the_real_one(void **state)
{
    const struct found *found =
        find(state, "source=official torch=2.6 version=2.8.3 abi=false");
    assert_int_equal(found->count, 0);
    assert_true(find(state, "source=official torch=2.6 version=2.8.3 abi=true")->count > 0);
}

static void test_query__platforms_by_tag_and_by_word(void **state)
{
    size_t linux_all = find(state, "platform=linux abi=true")->count;
    size_t x86 = find(state, "platform=linux_x86_64 abi=true")->count;
    size_t arm = find(state, "platform=linux_aarch64 abi=true")->count;
    const struct found *found = find(state, "platform=linux_x86_64");
    bool manylinux = false;
    for (size_t i = 0; i < found->count; i++)
        manylinux |= af_starts_with(found->wheels[i]->platform, "manylinux");
    assert_true(manylinux && arm > 0 && x86 > arm);
    assert_true(linux_all >= x86 && linux_all >= arm);
    found = find(state, "platform=windows package=flash_attn");
    assert_true(found->count > 400);
    for (size_t i = 0; i < found->count; i++)
        assert_string_equal(found->wheels[i]->platform, "win_amd64");
}

static void test_query__packages_in_any_spelling(void **state)
{
    assert_int_equal(find(state, "package=flash-attn-4")->count, 37);
    assert_int_equal(find(state, "package=FLASH_ATTN_3")->count, 159);
    assert_int_equal(find(state, "package=flash_attn")->count, 8522);
}

static void test_query__versions(void **state)
{
    const struct found *found = find(state, "version=2.8.3 package=flash_attn");
    size_t one = found->count;
    assert_true(one > 0);
    for (size_t i = 0; i < one; i++)
        assert_string_equal(found->wheels[i]->version, "2.8.3");
    assert_true(find(state, "version=2.8 package=flash_attn")->count > one);
}

static void test_query__sources(void **state)
{
    assert_int_equal(find(state, "source=official")->count, 4362);
    assert_int_equal(find(state, "source=mjun0812")->count, 3726);
}

static void test_query__gpus_by_what_their_code_serves(void **state)
{
    size_t ada = find(state, "sm=8.9")->count;
    size_t hopper = find(state, "sm=sm_90")->count;
    size_t blackwell = find(state, "sm=120")->count;
    assert_true(ada > hopper && hopper > blackwell && blackwell > 0);
    assert_int_equal(find(state, "sm=12.1")->count, blackwell);
    assert_int_equal(find(state, "sm=7.0 package=flash_attn")->count, 0);
}

static void test_query__glibc_is_what_loads_there(void **state)
{
    size_t old = find(state, "glibc=2.31")->count;
    assert_true(old > 0 && find(state, "glibc=2.35")->count > old);
    assert_int_equal(find(state, "glibc=2")->count, find(state, "glibc=2.99")->count);
}

static void test_query__free_words_are_in_the_name(void **state)
{
    const struct found *found = find(state, "CXX11ABITRUE cp312");
    assert_true(found->count > 0);
    for (size_t i = 0; i < found->count; i++)
        assert_non_null(strcasestr(found->wheels[i]->filename, "cxx11abitrue"));
}

static void test_query__dashes_and_underscores_are_one(void **state)
{
    size_t count = find(state, "flash_attn-2.8")->count;
    assert_true(count > 0);
    assert_int_equal(find(state, "flash-attn-2.8")->count, count);
}

static void test_query__a_build_of_torch_also_names_its_cuda(void **state)
{
    size_t count = find(state, "torch=2.9.1 cuda=12.8")->count;
    assert_true(count > 0 && count < find(state, "torch=2.9.1")->count);
    assert_int_equal(find(state, "torch=2.9.1+cu128")->count, count);
    assert_int_equal(find(state, "torch==2.9.1+cu128")->count, count);
    assert_int_equal(find(state, "torch=2.9.1 cuda=128")->count, count);
    assert_int_equal(find(state, "torch=2.9.1 cuda=cu128")->count, count);
    assert_int_equal(find(state, "python=312")->count, find(state, "python=3.12")->count);
    assert_int_equal(find(state, "torch==2.9")->count, find(state, "torch=2.9")->count);
}

/* The name without '_': flash_attn4 and flash_attn_4 are one package. */
static void plain_name(char plain[32], const char *package)
{
    size_t len = 0;
    for (; *package != '\0' && len < 31; package++)
        if (*package != '_')
            plain[len++] = *package;
    plain[len] = '\0';
}

static void test_query__package_by_package_newest_first_then_official(void **state)
{
    const struct found *found = find(state, "");
    for (size_t i = 1; i < found->count; i++) {
        const struct af_catalog_wheel *before = found->wheels[i - 1];
        const struct af_catalog_wheel *here = found->wheels[i];
        char names[2][32];
        plain_name(names[0], before->package);
        plain_name(names[1], here->package);
        assert_true(strcmp(names[0], names[1]) <= 0);
        if (strcmp(names[0], names[1]) != 0)
            continue;
        assert_true(before->version_rank >= here->version_rank);
        if (before->version_rank == here->version_rank)
            assert_true(before->official >= here->official);
    }
}

static void test_query__says_which_word_is_wrong(void **state)
{
    (void)state;
    assert_refused(
        "cudda=12",
        "'cudda=12': no such key; did you mean cuda? keys are torch, python, cuda, abi, "
        "platform, package, version, source, sm, glibc, gpu");
    assert_refused("=12", "no such key");
    assert_refused("cuda=", "the value is missing");
    assert_refused("cuda=twelve", "not a number");
    assert_refused("cuda=1.2.3.4", "not a number");
    assert_refused("cuda=99999999999999999999", "not a number");
    assert_refused("python>=3.9", "KEY=VALUE");
    assert_refused("tourch=2.9", "did you mean torch?");
    assert_refused("torch=two", "not a version of torch: 2.9");
    assert_refused("torch=2.9.1+cpu", "2.9.1+cu128");
    assert_refused("gpu=h100", "gpu is cuda or rocm");
    assert_refused("python=three", "not a Python");
    assert_refused("abi=maybe", "true, false, unknown");
    assert_refused("sm=hopper", "not a GPU");
    assert_refused("version=new", "not a version");
    assert_refused("version=2.8,<3", "not a version");
    assert_refused("torch!=2.9", "KEY=VALUE");
    assert_refused("", "empty");
    assert_refused("\x1b[31m=1", "\\x1b");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_query__no_words_find_everything),
        cmocka_unit_test(test_query__a_minor_finds_its_patches),
        cmocka_unit_test(test_query__a_patch_finds_what_names_only_the_minor),
        cmocka_unit_test(test_query__a_cuda_major_finds_its_minors),
        cmocka_unit_test(test_query__python_counts_the_stable_abi),
        cmocka_unit_test(test_query__free_threaded_python_is_another),
        cmocka_unit_test(test_query__abi_is_the_real_one),
        cmocka_unit_test(test_query__platforms_by_tag_and_by_word),
        cmocka_unit_test(test_query__packages_in_any_spelling),
        cmocka_unit_test(test_query__versions),
        cmocka_unit_test(test_query__sources),
        cmocka_unit_test(test_query__gpus_by_what_their_code_serves),
        cmocka_unit_test(test_query__glibc_is_what_loads_there),
        cmocka_unit_test(test_query__free_words_are_in_the_name),
        cmocka_unit_test(test_query__dashes_and_underscores_are_one),
        cmocka_unit_test(test_query__a_build_of_torch_also_names_its_cuda),
        cmocka_unit_test(test_query__package_by_package_newest_first_then_official),
        cmocka_unit_test(test_query__says_which_word_is_wrong),
    };
    return cmocka_run_group_tests(tests, load, unload);
}
