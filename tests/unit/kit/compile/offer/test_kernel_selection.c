/*
 * test_kernel_selection.c: selections of a source build: which files they keep, how many
 * kernels these contain, and what models need.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "kit/base/json.h"
#include "kit/compile/offer/kernel_selection.h"

static struct af_selection selection_of(const char *head_dims, const char *dtypes,
                                        const char *features, bool backward)
{
    struct anyflash_error err;
    struct af_selection selection = {.backward = backward};
    assert_int_equal(af_selection_read_head_dims(head_dims, &selection, &err), ANYFLASH_OK);
    assert_int_equal(af_selection_read_dtypes(dtypes, &selection, &err), ANYFLASH_OK);
    assert_int_equal(af_selection_read_features(features, &selection, &err), ANYFLASH_OK);
    return selection;
}

/* Counted by cuobjdump in real builds of 2.8.3.post2. */
static void test_kernels_are_counted_as_the_templates_make_them(void **state)
{
    static const struct {
        const char *features;
        int forward[2], split[2], backward[2];
    } known[] = {
        {"all", {39, 26}, {52, 28}, {42, 24}},
        {"alibi,softcap,window", {28, 16}, {52, 28}, {28, 16}},
        {"dropout,softcap,window", {27, 19}, {36, 20}, {30, 18}},
        {"dropout,alibi,window", {25, 14}, {26, 14}, {28, 16}},
        {"dropout,alibi,softcap", {22, 26}, {28, 28}, {24, 24}},
        {"window", {10, 6}, {18, 10}, {10, 6}},
        {"none", {6, 6}, {10, 10}, {6, 6}},
    };
    (void)state;
    for (size_t i = 0; i < AF_COUNT(known); i++) {
        struct af_selection selection = selection_of("128", "bf16", known[i].features, true);
        for (int causal = 0; causal < 2; causal++) {
            struct af_selection_file file = {AF_FLASH_FORWARD, 128, AF_SELECTION_BF16,
                                             causal != 0, false};
            assert_int_equal(af_selection_kernels(&selection, &file), known[i].forward[causal]);
            file.pass = AF_FLASH_FORWARD_SPLIT;
            assert_int_equal(af_selection_kernels(&selection, &file), known[i].split[causal]);
            file.pass = AF_FLASH_BACKWARD;
            assert_int_equal(af_selection_kernels(&selection, &file),
                             known[i].backward[causal]);
        }
    }
}

/* Counted in cicc's output for sm_90, with the launchers' conditions decided. */
static void test_kernels_that_no_gpu_would_run_are_left_out(void **state)
{
    static const int sms[] = {80, 86, 89, 90, 100, 120};
    (void)state;
    for (size_t i = 0; i < AF_COUNT(sms); i++) {
        struct af_selection selection = selection_of("128", "bf16", "none", true);
        struct af_selection_file file = {AF_FLASH_FORWARD, 128, AF_SELECTION_BF16, false,
                                         false};
        assert_true(af_selection_add_arch(&selection, sms[i]));
        int expected = sms[i] == 80 ? 6 : 3;
        assert_int_equal(af_selection_kernels(&selection, &file), expected);
        file.pass = AF_FLASH_BACKWARD;
        assert_int_equal(af_selection_kernels(&selection, &file), expected);
        file.pass = AF_FLASH_FORWARD_SPLIT;
        assert_int_equal(af_selection_kernels(&selection, &file), 10);
    }
}

static void test_gpus_settle_what_they_have_in_common(void **state)
{
    struct af_selection selection = {0};
    struct af_selection_gpu gpu;
    (void)state;
    af_selection_gpu(&selection, &gpu);
    assert_true(gpu.smem_per_block == 0 && gpu.is_sm8x == AF_UNKNOWN);
    assert_true(af_selection_add_arch(&selection, 89) && af_selection_add_arch(&selection, 86));
    assert_true(selection.arch_count == 1 && af_selection_target(selection.archs[0]) == 80);
    af_selection_gpu(&selection, &gpu);
    assert_true(gpu.smem_per_block == 99 * 1024 && gpu.is_sm8x == AF_YES);
    assert_true(af_selection_add_arch(&selection, 120));
    af_selection_gpu(&selection, &gpu);
    assert_true(gpu.smem_per_block == 99 * 1024 && gpu.is_sm8x == AF_UNKNOWN);
    assert_true(af_selection_add_arch(&selection, 80)); /* more shared memory: 80 replaces 86 */
    assert_true(selection.arch_count == 2 && selection.archs[0] == 80);
    assert_true(af_selection_add_arch(&selection, 86));
    assert_true(selection.arch_count == 2 && selection.archs[0] == 80);
    assert_true(af_selection_add_arch(&selection, 87)); /* Orin may not run code for 8.0 */
    assert_true(selection.arch_count == 3 && selection.archs[1] == 87);
    selection.arch_count = 0;
    assert_true(af_selection_add_arch(&selection, 101) && selection.archs[0] == 110); /* Thor */
    selection.arch_count = 0;
    assert_true(af_selection_add_arch(&selection, 100) &&
                af_selection_add_arch(&selection, 90));
    af_selection_gpu(&selection, &gpu);
    assert_true(gpu.smem_per_block == 227 * 1024 && gpu.is_sm8x == AF_NO);
    selection = selection_of("256", "bf16", "dropout",
                             true); /* 8.0 must not be left without a kernel */
    assert_true(af_selection_add_arch(&selection, 86));
    af_selection_gpu(&selection, &gpu);
    assert_true(gpu.smem_per_block == 0 && gpu.is_sm8x == AF_YES);
    selection.features = 0;
    af_selection_gpu(&selection, &gpu);
    assert_true(gpu.smem_per_block == 99 * 1024);
}

/* MiB of cicc, measured with CUDA 13.0 for sm_90; predictions are close and not lower. */
static void test_peaks_are_near_the_measured(void **state)
{
    static const struct {
        enum af_flash_operation pass;
        int head_dim;
        bool causal;
        const char *features;
        int sm; /* 0: no condition decided */
        int mib;
    } known[] = {
        {AF_FLASH_BACKWARD, 128, false, "none", 0, 5980},
        {AF_FLASH_BACKWARD, 128, false, "none", 90, 5096},
        {AF_FLASH_BACKWARD, 64, false, "none", 0, 5878},
        {AF_FLASH_BACKWARD, 64, false, "none", 90, 4158},
        {AF_FLASH_BACKWARD, 64, false, "none", 86, 4782},
        {AF_FLASH_BACKWARD, 128, false, "none", 86, 4608},
        {AF_FLASH_BACKWARD, 256, false, "none", 0, 6502},
        {AF_FLASH_BACKWARD, 256, false, "none", 90, 4639},
        {AF_FLASH_BACKWARD, 256, false, "none", 86, 5643},
        {AF_FLASH_BACKWARD, 128, false, "all", 0, 6185},
        {AF_FLASH_BACKWARD, 192, false, "none", 0, 4741},
        {AF_FLASH_BACKWARD, 192, false, "none", 90, 4731},
        {AF_FLASH_FORWARD, 128, false, "none", 0, 4116},
        {AF_FLASH_FORWARD, 128, false, "none", 90, 3533},
        {AF_FLASH_FORWARD, 128, false, "all", 0, 4239},
        {AF_FLASH_FORWARD, 128, true, "all", 0, 4741},
        {AF_FLASH_FORWARD, 64, false, "all", 0, 3717},
        {AF_FLASH_FORWARD, 256, false, "none", 0, 4260},
        {AF_FLASH_FORWARD, 256, false, "none", 90, 3287},
        {AF_FLASH_BACKWARD, 128, false, "all", 90, 5181},
        {AF_FLASH_BACKWARD, 128, true, "all", 90, 5161},
        {AF_FLASH_FORWARD, 128, false, "all", 90, 4209},
    };
    (void)state;
    for (size_t i = 0; i < AF_COUNT(known); i++) {
        struct af_selection selection = selection_of("128", "bf16", known[i].features, true);
        const struct af_selection_file file = {known[i].pass, known[i].head_dim,
                                               AF_SELECTION_BF16, known[i].causal, false};
        af_selection_add_arch(&selection, known[i].sm);
        double mib = (double)(af_selection_file_cost(&selection, &file).peak_bytes >> 20);
        assert_true(mib >= known[i].mib && mib < 1.12 * known[i].mib);
    }
}

static void test_files_are_named_as_upstream_names_them(void **state)
{
    struct af_selection selection = {0};
    struct af_selection_file files[AF_SELECTION_FILES_MAX];
    struct af_arena arena;
    (void)state;
    af_arena_init(&arena);
    af_selection_all(&selection);
    assert_int_equal(af_selection_units(&selection, files), 72);
    assert_string_equal(af_selection_file_name(&files[0], &arena),
                        "flash_bwd_hdim256_bf16_sm80.cu");
    assert_string_equal(af_selection_file_name(&files[27], &arena),
                        "flash_fwd_split_hdim256_fp16_causal_sm80.cu");
    af_arena_release(&arena);
}

static void test_least_selection_keeps_what_every_call_may_need(void **state)
{
    struct af_selection selection = selection_of("100", "bf16", "none", false);
    struct af_selection_file files[AF_SELECTION_FILES_MAX];
    const char *macros[AF_SELECTION_MACROS_MAX + 1];
    (void)state;
    assert_int_equal(af_selection_units(&selection, files), 4);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(files[i].head_dim, 128);
        assert_int_not_equal(files[i].pass, AF_FLASH_BACKWARD);
    }
    af_selection_macros(&selection, macros);
    assert_non_null(macros[3]);
    assert_null(macros[4]);
    selection.features = AF_FLASH_LOCAL | AF_FLASH_SOFTCAP;
    af_selection_macros(&selection, macros);
    assert_string_equal(macros[0], "-DFLASHATTENTION_DISABLE_ALIBI");
    assert_string_equal(macros[1], "-DFLASHATTENTION_DISABLE_DROPOUT");
    assert_null(macros[2]);
}

static void test_pairs_with_few_kernels_are_one_unit(void **state)
{
    struct af_selection selection = selection_of("64,128", "bf16", "none", true);
    struct af_selection_file units[AF_SELECTION_FILES_MAX];
    struct af_arena arena;
    (void)state;
    af_arena_init(&arena);
    assert_int_equal(af_selection_units(&selection, units), 12);
    selection.joins = true;
    assert_int_equal(af_selection_units(&selection, units), 6);
    for (size_t i = 0; i < 6; i++) {
        const char *name = af_selection_file_name(&units[i], &arena);
        struct af_selection_file plain = units[i];
        plain.joined = false;
        assert_true(units[i].joined);
        assert_non_null(strstr(name, "_both_sm80.cu"));
        assert_true(af_selection_kernels(&selection, &units[i]) >
                    af_selection_kernels(&selection, &plain));
        assert_true(af_selection_file_cost(&selection, &units[i]).cpu_seconds <
                    2 * af_selection_file_cost(&selection, &plain).cpu_seconds);
        assert_true(af_selection_file_cost(&selection, &units[i]).peak_bytes >=
                    af_selection_file_cost(&selection, &plain).peak_bytes);
    }
    selection.features = AF_SELECTION_FEATURES; /* long ones stay separate */
    assert_int_equal(af_selection_units(&selection, units), 12);
    af_arena_release(&arena);
}

static void test_a_build_that_grows_keeps_its_units(void **state)
{
    static const char *const features[] = {"none", "window", "window,softcap,alibi", "all"};
    struct af_arena arena;
    (void)state;
    af_arena_init(&arena);
    for (size_t i = 0; i < AF_COUNT(features); i++) {
        struct af_selection small = selection_of("128", "bf16", features[i], false);
        struct af_selection large = selection_of("all", "bf16,fp16", features[i], true);
        struct af_selection_file before[AF_SELECTION_FILES_MAX];
        struct af_selection_file after[AF_SELECTION_FILES_MAX];
        small.joins = large.joins = true;
        size_t before_count = af_selection_units(&small, before);
        size_t after_count = af_selection_units(&large, after);
        for (size_t at = 0; at < before_count; at++) {
            size_t same = 0;
            const char *name = af_selection_file_name(&before[at], &arena);
            while (same < after_count &&
                   strcmp(name, af_selection_file_name(&after[same], &arena)) != 0)
                same++;
            assert_true(same < after_count);
        }
    }
    af_arena_release(&arena);
}

static void test_calls_are_laid_into_cores_and_memory(void **state)
{
    const struct af_selection_cost costs[] = {{60, 6}, {40, 4}, {20, 2}, {20, 2}};
    (void)state;
    double serial = af_selection_schedule(costs, 0, 1, 10);
    double one = af_selection_schedule(costs, 4, 1, 10) - serial;
    assert_true(af_selection_schedule(costs, 4, 2, 10) - serial < one * 0.6);
    assert_true(af_selection_schedule(costs, 4, 9, 100) - serial <
                one * 0.44); /* the longest */
    assert_true(af_selection_schedule(costs, 4, 2, 6) - serial >
                one * 0.7);                                  /* nothing runs beside it */
    assert_true(af_selection_schedule(costs, 4, 2, 5) == 0); /* it never fits */
}

static void test_words_name_selections(void **state)
{
    struct af_selection selection = selection_of("128,64", "bfloat16", "softcap,window", true);
    struct anyflash_error err;
    struct af_arena arena;
    (void)state;
    af_arena_init(&arena);
    assert_true(af_selection_add_arch(&selection, 90));
    assert_true(af_selection_add_arch(&selection, 89));
    assert_true(af_selection_add_arch(&selection, 86));
    assert_false(af_selection_add_arch(&selection, 75));
    assert_int_equal(selection.arch_count, 2);
    assert_string_equal(af_selection_local(&selection, &arena),
                        "sm86.sm90.hd64.hd128.bf16.bwd.window.softcap");
    assert_string_equal(
        af_selection_options(&selection, &arena),
        "--head-dim 64,128 --dtype bf16 --features window,softcap --arch 86,90");
    assert_string_equal(af_selection_text(&selection, &arena),
                        "head size 64, 128, bf16, forward and backward, window, softcap, "
                        "SM 8.6 and 8.9, SM 9.0");
    af_selection_all(&selection);
    assert_string_equal(af_selection_local(&selection, &arena), "full.sm86.sm90");
    assert_int_equal(af_selection_read_head_dims("257", &selection, &err), ANYFLASH_E_ARGUMENT);
    assert_non_null(strstr(err.message, "257"));
    assert_int_equal(af_selection_read_head_dims("", &selection, &err), ANYFLASH_E_ARGUMENT);
    assert_int_equal(af_selection_read_dtypes("fp8", &selection, &err), ANYFLASH_E_ARGUMENT);
    assert_int_equal(af_selection_read_features("windows", &selection, &err),
                     ANYFLASH_E_ARGUMENT);
    af_arena_release(&arena);
}

/* Compared with measurements, the model's error is below a fifth. */
static void test_costs_are_near_the_measured(void **state)
{
    static const struct {
        const char *features;
        double cpu_seconds;
    } known[] = {{"all", 804}, {"none", 313}};
    (void)state;
    for (size_t i = 0; i < AF_COUNT(known); i++) {
        struct af_selection selection = selection_of("128", "bf16", known[i].features, true);
        struct af_selection_total total;
        af_selection_total(&selection, &total);
        assert_int_equal(total.file_count, 6);
        assert_true(total.cpu_seconds > known[i].cpu_seconds * 0.85);
        assert_true(total.cpu_seconds < known[i].cpu_seconds * 1.2);
        assert_true(total.peak_bytes >> 20 >= 6004 && total.peak_bytes >> 20 < 6700);
    }
}

static void test_wall_time_follows_cores_and_memory(void **state)
{
    struct af_selection selection = selection_of("128", "bf16", "all", true);
    const uint64_t gib = UINT64_C(1) << 30;
    (void)state;
    double plenty = af_selection_wall_seconds(&selection, 2, 24 * gib);
    double tight = af_selection_wall_seconds(&selection, 2, 8 * gib);
    assert_true(plenty > 380 && plenty < 560); /* 502 measured */
    assert_true(tight > plenty);
    assert_true(af_selection_wall_seconds(&selection, 1, 24 * gib) > 1.6 * plenty);
    assert_true(af_selection_wall_seconds(&selection, 2, 4 * gib) == 0);
}

static struct af_selection model_of(const char *json, bool training)
{
    struct anyflash_error err;
    struct af_selection selection = {0};
    const char *remark = NULL;
    if (af_selection_read_model((struct af_span){json, strlen(json)}, "config.json", training,
                                &selection, &remark, &err) != ANYFLASH_OK)
        fail_msg("%s", err.message);
    return selection;
}

static void expect_options(const char *json, bool training, const char *options)
{
    struct af_selection selection = model_of(json, training);
    struct af_arena arena;
    af_arena_init(&arena);
    assert_string_equal(af_selection_options(&selection, &arena), options);
    af_arena_release(&arena);
}

static void test_models_say_what_they_need(void **state)
{
    (void)state;
    expect_options("{\"model_type\":\"llama\",\"hidden_size\":4096,\"num_attention_heads\":32,"
                   "\"torch_dtype\":\"bfloat16\",\"attention_dropout\":0.0}",
                   true, "--head-dim 128 --dtype bf16 --features none");
    expect_options("{\"model_type\":\"gemma2\",\"head_dim\":256,\"hidden_size\":2304,"
                   "\"num_attention_heads\":8,\"attn_logit_softcapping\":50.0,"
                   "\"sliding_window\":4096,\"torch_dtype\":\"float32\"}",
                   false, "--head-dim 256 --dtype bf16 --features window,softcap --inference");
    expect_options(
        "{\"model_type\":\"qwen2\",\"hidden_size\":896,\"num_attention_heads\":14,"
        "\"sliding_window\":32768,\"use_sliding_window\":false,\"dtype\":\"float16\"}",
        false, "--head-dim 64 --dtype fp16 --features none --inference");
    expect_options("{\"model_type\":\"mpt\",\"d_model\":4096,\"n_heads\":32,"
                   "\"attn_config\":{\"alibi\":true},\"torch_dtype\":\"bfloat16\"}",
                   false, "--head-dim 128 --dtype bf16 --features alibi --inference");
    expect_options("{\"text_config\":{\"hidden_size\":4096,\"num_attention_heads\":32},"
                   "\"vision_config\":{\"hidden_size\":1280,\"num_heads\":16},"
                   "\"torch_dtype\":\"bfloat16\"}",
                   false, "--head-dim 96,128 --dtype bf16 --features none --inference");
    expect_options("{\"model_type\":\"gpt2\",\"n_embd\":768,\"n_head\":12,\"attn_pdrop\":0.1}",
                   true, "--head-dim 64 --dtype bf16 --features dropout");
    expect_options("{\"qk_nope_head_dim\":128,\"qk_rope_head_dim\":64,\"v_head_dim\":128,"
                   "\"hidden_size\":7168,\"num_attention_heads\":128}",
                   false, "--head-dim 192 --dtype bf16 --features none --inference");
}

static void test_models_that_cannot_be_served_are_named(void **state)
{
    static const struct {
        const char *json;
        enum anyflash_status status;
        const char *word;
    } cases[] = {
        {"{\"head_dim\":512}", ANYFLASH_E_UNSUPPORTED, "512"},
        {"{}", ANYFLASH_E_DATA, "head_dim"},
        {"[]", ANYFLASH_E_DATA, "object"},
        {"{\"head_dim\":", ANYFLASH_E_DATA, "config.json"},
        {"{\"head_dim\":64,\"text_config\":{\"hidden_size\":2560,\"num_hidden_layers\":34}}",
         ANYFLASH_E_DATA, "--head-dim"},
        {"{\"hidden_size\":64,\"num_attention_heads\":0}", ANYFLASH_E_DATA, "head_dim"},
        {"{\"hidden_size\":-64,\"num_attention_heads\":-1}", ANYFLASH_E_DATA, "head_dim"},
    };
    (void)state;
    for (size_t i = 0; i < AF_COUNT(cases); i++) {
        struct anyflash_error err;
        struct af_selection selection = {.head_dims = 1};
        const char *remark = NULL;
        struct af_span json = {cases[i].json, strlen(cases[i].json)};
        assert_int_equal(
            af_selection_read_model(json, "config.json", false, &selection, &remark, &err),
            cases[i].status);
        assert_non_null(strstr(err.message, cases[i].word));
        assert_int_equal(selection.head_dims, 1); /* untouched */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kernels_are_counted_as_the_templates_make_them),
        cmocka_unit_test(test_kernels_that_no_gpu_would_run_are_left_out),
        cmocka_unit_test(test_gpus_settle_what_they_have_in_common),
        cmocka_unit_test(test_peaks_are_near_the_measured),
        cmocka_unit_test(test_files_are_named_as_upstream_names_them),
        cmocka_unit_test(test_least_selection_keeps_what_every_call_may_need),
        cmocka_unit_test(test_pairs_with_few_kernels_are_one_unit),
        cmocka_unit_test(test_a_build_that_grows_keeps_its_units),
        cmocka_unit_test(test_calls_are_laid_into_cores_and_memory),
        cmocka_unit_test(test_words_name_selections),
        cmocka_unit_test(test_costs_are_near_the_measured),
        cmocka_unit_test(test_wall_time_follows_cores_and_memory),
        cmocka_unit_test(test_models_say_what_they_need),
        cmocka_unit_test(test_models_that_cannot_be_served_are_named),
    };
    af_json_start();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
