/*
 * test_wheel_name.c: wheel file names, valid and hostile.
 * tests/unit/kit/catalog/test_catalog_names.c reads every name of the catalog.
 */
#include "kit/formats/wheel_name.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void assert_problem(const char *text, enum af_wheel_name_problem problem)
{
    struct af_wheel_name name = {.package = "untouched"};
    if (af_wheel_name_parse(text, strlen(text), &name) != problem)
        fail_msg("'%s'", text);
    assert_string_equal(name.package, "untouched");
}

static void test_wheel_name__five_fields(void **state)
{
    struct af_wheel_name name;
    const char *text =
        "flash_attn-2.8.3%2Bcu12torch2.8cxx11abiTRUE-cp312-cp312-linux_x86_64.whl";
    (void)state;
    assert_int_equal(af_wheel_name_parse(text, strlen(text), &name), AF_WHEEL_NAME_VALID);
    assert_string_equal(name.package, "flash_attn");
    assert_string_equal(name.version_text, "2.8.3+cu12torch2.8cxx11abiTRUE");
    assert_string_equal(name.version.local, "cu12torch2.8cxx11abitrue");
    assert_string_equal(name.build, "");
    assert_string_equal(name.python, "cp312");
    assert_string_equal(name.abi, "cp312");
    assert_string_equal(name.platform, "linux_x86_64");
    assert_string_equal(name.variant, "");
}

static void test_wheel_name__build_tag_and_variant_label(void **state)
{
    struct af_wheel_name name;
    const char *both = "torch-2.9.0-1local-cp312-cp312-manylinux_2_28_x86_64-cu128.whl";
    const char *variant = "torch-2.9.0-cp312-cp312-manylinux_2_28_x86_64-cu128.whl";
    const char *build = "torch-2.9.0-1local-cp312-cp312-manylinux_2_28_x86_64.whl";
    (void)state;
    af_wheel_name_parse(both, strlen(both), &name);
    assert_string_equal(name.build, "1local");
    assert_string_equal(name.variant, "cu128");
    af_wheel_name_parse(variant, strlen(variant), &name);
    assert_string_equal(name.build, "");
    assert_string_equal(name.python, "cp312");
    assert_string_equal(name.variant, "cu128");
    af_wheel_name_parse(build, strlen(build), &name);
    assert_string_equal(name.build, "1local");
    assert_string_equal(name.variant, "");
}

static void test_wheel_name__says_what_is_wrong(void **state)
{
    (void)state;
    assert_problem("", AF_WHEEL_NAME_NO_WHEEL);
    assert_problem(".whl", AF_WHEEL_NAME_FIELDS);
    assert_problem("flash_attn-2.8.3.tar.gz", AF_WHEEL_NAME_NO_WHEEL);
    assert_problem("flash_attn-2.8.3-cp312-cp312.whl", AF_WHEEL_NAME_FIELDS);
    assert_problem("a-1-1-py3-none-any-x-y.whl", AF_WHEEL_NAME_FIELDS);
    assert_problem("a-1-py3-none-.whl", AF_WHEEL_NAME_LETTERS);
    assert_problem("-1-py3-none-any.whl", AF_WHEEL_NAME_LETTERS);
    assert_problem("a__b-1-py3-none-any.whl", AF_WHEEL_NAME_LETTERS);
    assert_problem("a-1-py3-none-any\x1b[31m.whl", AF_WHEEL_NAME_LETTERS);
    assert_problem("../a-1-py3-none-any.whl", AF_WHEEL_NAME_LETTERS);
    assert_problem("a-1%2F2-py3-none-any.whl", AF_WHEEL_NAME_VERSION);
    assert_problem("a-latest-py3-none-any.whl", AF_WHEEL_NAME_VERSION);
    assert_problem("a-1-x1-py3-none-any-v.whl", AF_WHEEL_NAME_BUILD);
    assert_problem("a-1-py3-none-any-averyverylonglabel.whl", AF_WHEEL_NAME_LETTERS);
    assert_problem("flash_attn-2.7.4.post1-rtx5090-torch2.7.0cu128cxx11abiTRUE-cp310-"
                   "linux_x86_64.whl",
                   AF_WHEEL_NAME_BUILD);
}

static void test_wheel_name__long_names_and_nul_bytes_are_refused(void **state)
{
    struct af_wheel_name name;
    char text[2000];
    (void)state;
    memset(text, 'a', sizeof text);
    assert_int_equal(af_wheel_name_parse(text, sizeof text, &name), AF_WHEEL_NAME_TOO_LONG);
    assert_int_equal(af_wheel_name_parse("a\0-1-py3-none-any.whl", 21, &name),
                     AF_WHEEL_NAME_LETTERS);
}

static void assert_local(const char *local, enum af_formats_torch_digits digits,
                         const char *cuda, const char *torch, enum af_answer abi)
{
    struct af_wheel_local parsed_local;
    af_wheel_local_parse(local, digits, &parsed_local);
    assert_string_equal(parsed_local.cuda, cuda);
    assert_string_equal(parsed_local.torch, torch);
    assert_int_equal(parsed_local.cxx11abi, abi);
}

static void test_wheel_local__spellings_of_the_publishers(void **state)
{
    const enum af_formats_torch_digits none = AF_FORMATS_TORCH_DIGITS_NONE;
    const enum af_formats_torch_digits last = AF_FORMATS_TORCH_DIGITS_PATCH_LAST;
    const enum af_formats_torch_digits maybe = AF_FORMATS_TORCH_DIGITS_PATCH_MAYBE;
    (void)state;
    assert_local("cu12torch2.8cxx11abiTRUE", none, "12", "2.8", AF_YES);
    assert_local("cu118torch1.12cxx11abiFALSE", none, "11.8", "1.12", AF_NO);
    assert_local("cu130torch2.10", none, "13.0", "2.10", AF_UNKNOWN);
    assert_local("cu128torch2.9git1a2b3c4", none, "12.8", "2.9", AF_UNKNOWN);
    assert_local("20251124.cu130torch2100cxx11abitrue.ff2241", last, "13.0", "2.10.0", AF_YES);
    assert_local("cu126torch280", last, "12.6", "2.8.0", AF_UNKNOWN);
    assert_local("cu128.torch29", maybe, "12.8", "2.9", AF_UNKNOWN);
    assert_local("cu130.torch210", maybe, "13.0", "2.10", AF_UNKNOWN);
    assert_local("cu128.torch260", maybe, "12.8", "2.6.0", AF_UNKNOWN);
    assert_local("cu128.torch271", maybe, "12.8", "2.7.1", AF_UNKNOWN);
    assert_local("cu.12.8.torch.2.11", none, "12.8", "2.11", AF_UNKNOWN);
    assert_local("cu13torch2.10.0cx11abiTRUE", none, "13", "2.10.0", AF_YES);
    assert_local("cu130torch2.10cxx11abiTRUEfullsm80sm90sm100sm120nvcc130", none, "13.0",
                 "2.10", AF_YES);
}

static void test_wheel_local__guesses_nothing_it_was_not_told(void **state)
{
    (void)state;
    assert_local("", AF_FORMATS_TORCH_DIGITS_NONE, "", "", AF_UNKNOWN);
    assert_local("torch210", AF_FORMATS_TORCH_DIGITS_NONE, "", "", AF_UNKNOWN);
    assert_local("torch2", AF_FORMATS_TORCH_DIGITS_PATCH_LAST, "", "", AF_UNKNOWN);
    assert_local("cu1", AF_FORMATS_TORCH_DIGITS_NONE, "", "", AF_UNKNOWN);
    assert_local("cu12345torch123456.1", AF_FORMATS_TORCH_DIGITS_PATCH_MAYBE, "", "",
                 AF_UNKNOWN);
    assert_local("cutorch", AF_FORMATS_TORCH_DIGITS_NONE, "", "", AF_UNKNOWN);
    assert_local("cxx11abimaybe", AF_FORMATS_TORCH_DIGITS_NONE, "", "", AF_UNKNOWN);
}

static void test_wheel_local__rocm_is_seen(void **state)
{
    struct af_wheel_local local;
    (void)state;
    af_wheel_local_parse("rocm62torch2.5", AF_FORMATS_TORCH_DIGITS_NONE, &local);
    assert_true(local.rocm);
    assert_string_equal(local.torch, "2.5");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wheel_name__five_fields),
        cmocka_unit_test(test_wheel_name__build_tag_and_variant_label),
        cmocka_unit_test(test_wheel_name__says_what_is_wrong),
        cmocka_unit_test(test_wheel_name__long_names_and_nul_bytes_are_refused),
        cmocka_unit_test(test_wheel_local__spellings_of_the_publishers),
        cmocka_unit_test(test_wheel_local__guesses_nothing_it_was_not_told),
        cmocka_unit_test(test_wheel_local__rocm_is_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
