/*
 * test_flash_kernel.c: kernels by name: cubins that nvcc made, and names from
 * published libraries (flash-attn 2 in vLLM's and torch's builds, flash-attn 3
 * in xFormers' and vLLM's).
 */
#include "kit/formats/flash_kernel.h"
#include "kit/system/file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define DATA AF_TEST_DATA "/data/gpu/"
#define CUBIN AF_TEST_SEEDS "/fuzz_cubin/forward.cubin"

#define TRAITS(kind, numbers, type, base, again)                                               \
    "23Flash_" kind "_kernel_traitsI" numbers "EN7cutlass" type "E19Flash_kernel_traitsI" base \
    "E" again "_EE"
#define SM90 "_ZN7cutlass13device_kernelIN5flash20enable_sm90_or_laterINS1_16FlashAttn"
#define SM80 "_ZN7cutlass13device_kernelIN5flash19enable_sm80_to_sm89INS1_16FlashAttn"

struct case_of {
    const char *name;
    const char *text;
    unsigned features;
    int sm_min;
    int sm_max;
};

static const struct case_of cases[] = {
    {"_Z16flash_fwd_kernelI" TRAITS(
         "fwd", "Li128ELi128ELi64ELi4ELb0ELb0", "6half_t", "Li128ELi128ELi64ELi4",
         "S2") "Lb0ELb1ELb0ELb0ELb0ELb1ELb1ELb0EEv16Flash_fwd_params",
     "flash_fwd hdim128 fp16", AF_FLASH_CAUSAL | AF_FLASH_SOFTCAP, 0, 0},
    {"_ZN5flash16flash_fwd_kernelI" TRAITS(
         "fwd", "Li96ELi128ELi64ELi4ELb0ELb0", "10bfloat16_t", "Li96ELi128ELi64ELi4",
         "S3") "Lb1ELb0ELb1ELb1ELb0ELb0ELb0EEEvNS_16Flash_fwd_paramsE",
     "flash_fwd hdim96 bf16", AF_FLASH_DROPOUT | AF_FLASH_LOCAL | AF_FLASH_ALIBI, 0, 0},
    {"_Z24flash_fwd_splitkv_kernelI" TRAITS(
         "fwd", "Li64ELi64ELi256ELi4ELb0ELb0", "6half_t", "Li64ELi64ELi256ELi4",
         "S2") "Lb1ELb0ELb1ELb0ELb1ELb1ELb1ELb1EEv16Flash_fwd_params",
     "flash_fwd_split hdim64 fp16",
     AF_FLASH_CAUSAL | AF_FLASH_ALIBI | AF_FLASH_SOFTCAP | AF_FLASH_APPEND, 0, 0},
    {"_Z32flash_fwd_splitkv_combine_kernelI" TRAITS("fwd", "Li192ELi64ELi64ELi4ELb0ELb0",
                                                    "6half_t", "Li192ELi64ELi64ELi4",
                                                    "S2") "Li8ELi3ELb1EEv16Flash_fwd_params",
     "flash_combine hdim192 fp16", 0, 0, 0},
    {"_ZN13pytorch_flash44flash_bwd_dq_dk_dv_loop_seqk_parallel_kernelI" TRAITS(
         "bwd", "Li256ELi64ELi64ELi8ELi4ELi2ELi2ELb1ELb1", "10bfloat16_t",
         "Li256ELi64ELi64ELi8", "S3") "Lb1ELb0ELb0ELb0ELb0ELb1ELb0EEEvNS_16Flash_bwd_paramsE",
     "flash_bwd hdim256 bf16", AF_FLASH_DROPOUT, 0, 0},
    {"_ZN13pytorch_flash25flash_bwd_dot_do_o_kernelILb1E" TRAITS(
         "bwd", "Li32ELi128ELi128ELi8ELi4ELi4ELi4ELb1ELb0", "6half_t", "Li32ELi128ELi128ELi8",
         "S3") "EEvNS_16Flash_bwd_paramsE",
     "flash_bwd_help hdim32 fp16", 0, 0, 0},
    /* Clusters and tiles of constants, written out and as substitutions. */
    {SM90
     "FwdSm90INS1_25CollectiveMainloopFwdSm90ILi2EN4cute5tupleIJNS5_1CILi1EEES8_S8_EEE"
     "NS6_IJNS7_ILi128EEENS7_ILi112EEENS7_ILi192EEEEEELi192ENS_10bfloat16_tEfNS_4arch4Sm90",
     "flash_fwd (3) hdim192 bf16", 0, 90, 90},
    {SM90 "FwdSm90INS1_25CollectiveMainloopFwdSm90ILi2EN4cute5tupleIJNS5_1CILi1EEES8_S8_EEE"
          "NS6_IJNS7_ILi128EEESA_SA_EEENS_6half_tEfNS_4arch4Sm90ELb0EEENS_10bfloat16_t",
     "flash_fwd (3) hdim128 fp16", 0, 90, 90},
    {SM90 "FwdSm90INS1_25CollectiveMainloopFwdSm90ILi2EN4cute5tupleIJNS5_1CILi1EEES8_S8_EEE"
          "NS6_IJNS7_ILi128EEESA_NS7_ILi256EEEEEELi256ENS_12float_e4m3_tEfNS_10bfloat16_t",
     "flash_fwd (3) hdim256 e4m3", 0, 90, 90},
    {SM90 "BwdSm90INS1_25CollectiveMainloopBwdSm90ILi2ELi2ELi2EN4cute5tupleIJNS5_1CILi1EEES8_"
          "S8_EEENS6_IJNS7_ILi64EEENS7_ILi128EEESB_EEENS_6half_tEfNS_4arch4Sm90ELb0ELb1",
     "flash_bwd (3) hdim128 fp16", 0, 90, 90},
    {SM80 "FwdSm80INS1_25CollectiveMainloopFwdSm80ILi8ELi1ELb1EN4cute5tupleIJNS5_1CILi128EEE"
          "NS7_ILi112EEES8_EEELi128ENS_6half_tEfNS_4arch4Sm80",
     "flash_fwd (3) hdim128 fp16", 0, 80, 89},
    {SM80 "BwdSm80INS1_25CollectiveMainloopBwdSm80ILi1ELi1EN4cute5tupleIJNS5_1CILi64EEES8_"
          "NS7_ILi256EEEEEENS_6half_tEfNS_4arch4Sm80",
     "flash_bwd (3) hdim256 fp16", 0, 80, 89},
    {"_ZN7cutlass13device_kernelIN5flash22FlashAttnBwdPreprocessIN4cute5tupleIJNS3_1CILi64EEE"
     "S6_EEENS_6half_tEfNS_4arch4Sm80ELb1ELb1EEEEEvNT_6ParamsE",
     "flash_bwd_help (3) hdim64 fp16", 0, 0, 0},
    {"_ZN7cutlass13device_kernelIN5flash19FlashAttnFwdCombineIN4cute5tupleIJNS3_1CILi8EEE"
     "NS5_ILi256EEEEEELi5ELi256ELi1ELb0ELb1ENS_10bfloat16_tEfNS_4arch4Sm80EEEEEvNT_6ParamsE",
     "flash_combine (3) bf16", 0, 0, 0},
};

static void test_flash_kernel__names_tell_what_a_kernel_is_for(void **state)
{
    (void)state;
    for (size_t i = 0; i < AF_COUNT(cases); i++) {
        struct af_flash_family family = {0};
        char text[AF_FLASH_FAMILY_TEXT];
        assert_true(af_flash_kernel_parse(cases[i].name, &family.kernel));
        assert_string_equal(af_flash_family_text(&family, text), cases[i].text);
        assert_int_equal(family.kernel.features, cases[i].features);
        assert_int_equal(family.kernel.sm_min, cases[i].sm_min);
        assert_int_equal(family.kernel.sm_max, cases[i].sm_max);
    }
}

static void test_flash_kernel__other_kernels_are_none(void **state)
{
    static const char *const names[] = {"", "apply", "_Z5scalePff",
                                        "_ZN5flash32prepare_varlen_num_blocks_kernelEii",
                                        "_Z16flash_fwd_kernelIfEvPT_"};
    struct af_flash_kernel kernel;
    (void)state;
    for (size_t i = 0; i < AF_COUNT(names); i++)
        assert_false(af_flash_kernel_parse(names[i], &kernel));
}

static void test_flash_kernel__every_cut_of_a_name_is_read_or_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < AF_COUNT(cases); i++) {
        for (size_t len = 0; len < strlen(cases[i].name); len++) {
            struct af_flash_family family = {0};
            char text[AF_FLASH_FAMILY_TEXT];
            char *cut = strndup(cases[i].name, len);
            assert_non_null(cut);
            if (af_flash_kernel_parse(cut, &family.kernel))
                af_flash_family_text(&family, text);
            free(cut);
        }
    }
}

/* The file's kernels, allocated in the arena. */
static struct af_flash_kernels kernels_of(struct af_arena *arena, const char *path)
{
    struct af_mapping mapping = {0};
    struct af_gpu_code code;
    struct af_flash_kernels kernels;
    assert_int_equal(af_file_map(path, &mapping, NULL), ANYFLASH_OK);
    assert_int_equal(
        af_gpu_code_read(arena, af_mapping_bytes(&mapping), "file", false, &code, NULL),
        ANYFLASH_OK);
    assert_int_equal(
        af_flash_kernels_read(arena, af_mapping_bytes(&mapping), "file", &code, &kernels, NULL),
        ANYFLASH_OK);
    af_file_unmap(&mapping);
    return kernels;
}

static void test_flash_kernel__a_library_tells_its_head_dimensions(void **state)
{
    struct af_arena arena;
    char text[AF_FLASH_FAMILY_TEXT];
    (void)state;
    af_arena_init(&arena);
    struct af_flash_kernels kernels = kernels_of(&arena, DATA "linked.so");
    assert_int_equal(kernels.family_count, 2);
    assert_string_equal(af_flash_family_text(&kernels.families[0], text),
                        "flash_fwd hdim64 fp16");
    assert_string_equal(af_flash_family_text(&kernels.families[1], text),
                        "flash_fwd hdim128 fp16");
    assert_int_equal(kernels.families[0].container_count, 1);
    assert_int_equal(kernels.container_count, 2); /* not the empty one */
    assert_null(kernels.problem);
    af_arena_release(&arena);
}

static bool count_kernels(void *context, const char *name)
{
    assert_non_null(strstr(name, "flash_fwd_kernel"));
    ++*(size_t *)context;
    return true;
}

static void test_flash_kernel__all_images_of_a_container_name_the_same(void **state)
{
    static const char *const files[] = {DATA "targets.fatbin", DATA "zstd.fatbin"};
    (void)state;
    for (size_t f = 0; f < AF_COUNT(files); f++) {
        struct af_arena arena;
        struct af_span bytes;
        struct af_gpu_code code;
        af_arena_init(&arena);
        assert_int_equal(af_file_read(&arena, files[f], 100000, &bytes, NULL), ANYFLASH_OK);
        assert_int_equal(af_gpu_code_read(&arena, bytes, "section", true, &code, NULL),
                         ANYFLASH_OK);
        for (size_t i = 0; i < code.image_count; i++) {
            size_t count = 0;
            if (code.images[i].kind != AF_GPU_SASS)
                continue;
            assert_int_equal(af_gpu_image_kernels(bytes, "section", &code.images[i],
                                                  count_kernels, &count, NULL),
                             ANYFLASH_OK);
            assert_int_equal(count, 1);
        }
        af_arena_release(&arena);
    }
}

static void test_flash_kernel__every_truncation_of_a_cubin_is_survived(void **state)
{
    struct af_arena arena;
    struct af_span whole;
    (void)state;
    af_arena_init(&arena);
    assert_int_equal(af_file_read(&arena, CUBIN, 100000, &whole, NULL), ANYFLASH_OK);
    for (size_t len = 0; len < whole.len; len++) {
        size_t count = 0;
        char *cut = malloc(len + 1);
        assert_non_null(cut);
        memcpy(cut, whole.data, len);
        enum anyflash_status status =
            af_cubin_kernels((struct af_span){cut, len}, "cut", count_kernels, &count, NULL);
        assert_true(status == ANYFLASH_OK || status == ANYFLASH_E_DATA);
        free(cut);
    }
    af_arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flash_kernel__names_tell_what_a_kernel_is_for),
        cmocka_unit_test(test_flash_kernel__other_kernels_are_none),
        cmocka_unit_test(test_flash_kernel__every_cut_of_a_name_is_read_or_refused),
        cmocka_unit_test(test_flash_kernel__a_library_tells_its_head_dimensions),
        cmocka_unit_test(test_flash_kernel__all_images_of_a_container_name_the_same),
        cmocka_unit_test(test_flash_kernel__every_truncation_of_a_cubin_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
