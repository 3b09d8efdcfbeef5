/*
 * test_kernel_selection.c: selections of a build: their words, what they need, and what models
 * need.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "kit/base/json.h"
#include "kit/compile/offer/offer.h"

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

static void test_words_name_selections(void **state)
{
    struct af_selection selection = selection_of("128,64", "bfloat16", "softcap,window", true);
    struct anyflash_error err;
    struct af_arena arena;
    (void)state;
    af_arena_init(&arena);
    assert_string_equal(af_selection_sizes(&selection, &arena), "64,128");
    assert_string_equal(af_selection_dtypes(&selection), "bf16");
    assert_string_equal(af_selection_features(&selection, &arena), "window,softcap");
    assert_string_equal(af_selection_text(&selection, &arena),
                        "head size 64, 128, bf16, forward and backward, window, softcap");
    af_selection_all(&selection);
    assert_string_equal(af_selection_sizes(&selection, &arena), "32,64,96,128,192,256");
    assert_int_equal(af_selection_read_head_dims("257", &selection, &err), ANYFLASH_E_ARGUMENT);
    assert_non_null(strstr(err.message, "257"));
    assert_int_equal(af_selection_read_head_dims("", &selection, &err), ANYFLASH_E_ARGUMENT);
    assert_int_equal(af_selection_read_dtypes("fp8", &selection, &err), ANYFLASH_E_ARGUMENT);
    assert_int_equal(af_selection_read_features("windows", &selection, &err),
                     ANYFLASH_E_ARGUMENT);
    af_arena_release(&arena);
}

/* The options of `anyflash build` for a selection. */
static const char *options_of(const struct af_selection *selection, struct af_arena *arena)
{
    return af_arena_format(arena, "--head-dim %s --dtype %s --features %s%s",
                           af_selection_sizes(selection, arena), af_selection_dtypes(selection),
                           af_selection_features(selection, arena),
                           selection->backward ? "" : " --inference");
}

/* More of anything never needs less, and cores and memory never make it slower. */
static void test_needs_grow_with_the_selection(void **state)
{
    static const char *const features[] = {"none", "window", "window,softcap", "all"};
    const uint64_t gib = UINT64_C(1) << 30;
    struct af_offer_build_needs before = {0};
    (void)state;
    for (size_t i = 0; i < AF_COUNT(features); i++) {
        for (int backward = 0; backward < 2; backward++) {
            struct af_selection selection =
                selection_of("128", "bf16", features[i], backward == 1);
            struct af_offer_build_needs needs = af_offer_build_needs_of(&selection, 2, 0);
            struct af_selection wider = selection;
            af_selection_add_head_dim(&wider, 256);
            assert_true(backward == 0 || needs.cpu_seconds > before.cpu_seconds);
            assert_true(af_offer_build_needs_of(&wider, 2, 0).kernel_count >
                        needs.kernel_count);
            assert_true(af_offer_build_needs_of(&selection, 4, 0).wall_seconds <
                        needs.wall_seconds);
            assert_true(af_offer_build_needs_of(&selection, 2, 7 * gib).wall_seconds >
                        needs.wall_seconds);
            assert_true(af_offer_build_needs_of(&selection, 2, 5 * gib).wall_seconds == 0);
            before = needs;
        }
    }
}

/* 64 and 231 kernels; 520 CPU seconds were measured. */
static void test_needs_are_near_the_measured(void **state)
{
    static const struct {
        const char *features;
        int kernels;
    } known[] = {{"none", 64}, {"all", 231}};
    (void)state;
    for (size_t i = 0; i < AF_COUNT(known); i++) {
        struct af_selection selection = selection_of("128", "bf16", known[i].features, true);
        int count = af_offer_build_needs_of(&selection, 2, 0).kernel_count;
        assert_in_range(count, known[i].kernels * 9 / 10, known[i].kernels * 11 / 10);
    }
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
    assert_string_equal(options_of(&selection, &arena), options);
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
        cmocka_unit_test(test_words_name_selections),
        cmocka_unit_test(test_needs_grow_with_the_selection),
        cmocka_unit_test(test_needs_are_near_the_measured),
        cmocka_unit_test(test_models_say_what_they_need),
        cmocka_unit_test(test_models_that_cannot_be_served_are_named),
    };
    af_json_start();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
