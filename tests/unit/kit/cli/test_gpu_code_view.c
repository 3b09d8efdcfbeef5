/*
 * test_gpu_code_view.c: GPU code as text and JSON, of a library that nvcc made.
 */
#include "kit/cli/inspect_view.h"
#include "kit/system/file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define LINKED AF_TEST_DATA "/data/gpu/linked.so"

/* The library's GPU code and kernels. */
static void read_linked(struct af_arena *arena, struct af_gpu_code *code,
                        struct af_flash_kernels *kernels)
{
    struct af_mapping mapping = {0};
    assert_int_equal(af_file_map(LINKED, &mapping, NULL), ANYFLASH_OK);
    assert_int_equal(
        af_gpu_code_read(arena, af_mapping_bytes(&mapping), "file", false, code, NULL),
        ANYFLASH_OK);
    assert_int_equal(
        af_flash_kernels_read(arena, af_mapping_bytes(&mapping), "file", code, kernels, NULL),
        ANYFLASH_OK);
    af_file_unmap(&mapping);
}

static void test_gpu_code_view__says_exactly_which_kernels_are_there(void **state)
{
    struct af_arena arena;
    struct af_gpu_code code;
    struct af_flash_kernels kernels;
    struct af_text text = {0};
    struct af_screen screen = {.out = &text, .columns = 80};
    (void)state;
    af_arena_init(&arena);
    read_linked(&arena, &code, &kernels);
    af_cli_gpu_code_show(&screen, 2, &code, &kernels);
    assert_string_equal(af_text_get(&text), "  3 translation units with GPU code\n"
                                            "  SASS: sm_80 in 2\n"
                                            "  1 cubin without any kernel\n"
                                            "  FlashAttention kernels:\n"
                                            "    flash_fwd fp16: head dim 64 128; causal\n");
    af_text_release(&text);
    af_arena_release(&arena);
}

static void test_gpu_code_view__json_has_targets_and_kernels(void **state)
{
    struct af_arena arena;
    struct af_gpu_code code;
    struct af_flash_kernels kernels;
    (void)state;
    af_arena_init(&arena);
    read_linked(&arena, &code, &kernels);
    json_t *json = af_cli_gpu_code_json(&code, &kernels);
    assert_non_null(json);
    const json_t *target = json_array_get(json_object_get(json, "targets"), 0);
    assert_string_equal(json_string_value(json_object_get(target, "target")), "sm_80");
    assert_int_equal(json_integer_value(json_object_get(target, "images")), 2);
    assert_true(json_is_null(json_object_get(target, "ptx_isa")));
    const json_t *family = json_array_get(json_object_get(json, "flash_kernels"), 1);
    assert_int_equal(json_integer_value(json_object_get(family, "head_dim")), 128);
    assert_string_equal(json_string_value(json_object_get(family, "dtype")), "fp16");
    assert_int_equal(json_integer_value(json_object_get(json, "empty_images")), 1);
    json_decref(json);
    json = af_cli_gpu_code_json(&code, NULL);
    assert_true(json_is_null(json_object_get(json, "flash_kernels")));
    json_decref(json);
    af_arena_release(&arena);
}

static void test_gpu_code_view__without_gpu_code_there_is_nothing_to_say(void **state)
{
    struct af_text text = {0};
    struct af_screen screen = {.out = &text, .columns = 80};
    struct af_gpu_code none = {.wrapper_count = -1};
    (void)state;
    af_cli_gpu_code_show(&screen, 2, &none, NULL);
    assert_string_equal(af_text_get(&text), "");
    af_text_release(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gpu_code_view__says_exactly_which_kernels_are_there),
        cmocka_unit_test(test_gpu_code_view__json_has_targets_and_kernels),
        cmocka_unit_test(test_gpu_code_view__without_gpu_code_there_is_nothing_to_say),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
