/*
 * test_selection_models.c: what the configurations of published models need for
 * training; they are shortened to the keys about attention.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "kit/base/json.h"
#include "kit/compile/offer/kernel_selection.h"

static const struct {
    const char *name, *config, *options;
} models[] = {
    {"Llama 2 7B",
     "{'model_type': 'llama', 'hidden_size': 4096, 'num_attention_heads': 32,"
     " 'num_key_value_heads': 32, 'torch_dtype': 'float16'}",
     "--head-dim 128 --dtype fp16 --features none"},
    {"Llama 3.1 8B",
     "{'model_type': 'llama', 'hidden_size': 4096, 'num_attention_heads': 32,"
     " 'num_key_value_heads': 8, 'attention_dropout': 0.0, 'torch_dtype': 'bfloat16'}",
     "--head-dim 128 --dtype bf16 --features none"},
    {"Llama 3.2 1B",
     "{'model_type': 'llama', 'hidden_size': 2048, 'num_attention_heads': 32, 'head_dim': 64,"
     " 'torch_dtype': 'bfloat16'}",
     "--head-dim 64 --dtype bf16 --features none"},
    {"Mistral 7B v0.1",
     "{'model_type': 'mistral', 'hidden_size': 4096, 'num_attention_heads': 32,"
     " 'sliding_window': 4096, 'torch_dtype': 'bfloat16'}",
     "--head-dim 128 --dtype bf16 --features window"},
    {"Mixtral 8x7B",
     "{'model_type': 'mixtral', 'hidden_size': 4096, 'num_attention_heads': 32,"
     " 'sliding_window': null, 'attention_dropout': 0.0, 'torch_dtype': 'bfloat16'}",
     "--head-dim 128 --dtype bf16 --features none"},
    {"Qwen 2.5 7B",
     "{'model_type': 'qwen2', 'hidden_size': 3584, 'num_attention_heads': 28,"
     " 'sliding_window': 131072, 'use_sliding_window': false, 'torch_dtype': 'bfloat16'}",
     "--head-dim 128 --dtype bf16 --features none"},
    {"Qwen 3 4B: the head size does not follow from the width",
     "{'model_type': 'qwen3', 'hidden_size': 2560, 'num_attention_heads': 32, 'head_dim': 128,"
     " 'sliding_window': null, 'torch_dtype': 'bfloat16'}",
     "--head-dim 128 --dtype bf16 --features none"},
    {"Qwen 2 VL 7B: the vision part's own width is embed_dim",
     "{'model_type': 'qwen2_vl', 'hidden_size': 3584, 'num_attention_heads': 28,"
     " 'use_sliding_window': false, 'sliding_window': 32768, 'torch_dtype': 'bfloat16',"
     " 'vision_config': {'embed_dim': 1280, 'num_heads': 16, 'hidden_size': 3584}}",
     "--head-dim 96,128 --dtype bf16 --features none"},
    {"Gemma 2 9B",
     "{'model_type': 'gemma2', 'hidden_size': 3584, 'num_attention_heads': 16, 'head_dim': 256,"
     " 'attn_logit_softcapping': 50.0, 'final_logit_softcapping': 30.0,"
     " 'sliding_window': 4096, 'torch_dtype': 'float32'}",
     "--head-dim 256 --dtype bf16 --features window,softcap"},
    {"Phi 2",
     "{'model_type': 'phi', 'hidden_size': 2560, 'num_attention_heads': 32,"
     " 'attention_dropout': 0.0, 'torch_dtype': 'float16'}",
     "--head-dim 96 --dtype fp16 --features none"},
    {"Phi 3 mini",
     "{'model_type': 'phi3', 'hidden_size': 3072, 'num_attention_heads': 32,"
     " 'sliding_window': 2047, 'torch_dtype': 'bfloat16'}",
     "--head-dim 96 --dtype bf16 --features window"},
    {"GPT-2", "{'model_type': 'gpt2', 'n_embd': 768, 'n_head': 12, 'attn_pdrop': 0.1}",
     "--head-dim 64 --dtype bf16 --features dropout"},
    {"gpt-oss 20B",
     "{'model_type': 'gpt_oss', 'hidden_size': 2880, 'num_attention_heads': 64,"
     " 'head_dim': 64, 'sliding_window': 128,"
     " 'layer_types': ['sliding_attention', 'full_attention'],"
     " 'quantization_config': {'quant_method': 'mxfp4'}, 'torch_dtype': 'bfloat16'}",
     "--head-dim 64 --dtype bf16 --features window"},
    {"BERT base",
     "{'model_type': 'bert', 'hidden_size': 768, 'num_attention_heads': 12,"
     " 'attention_probs_dropout_prob': 0.1}",
     "--head-dim 64 --dtype bf16 --features dropout"},
    {"ModernBERT base",
     "{'model_type': 'modernbert', 'hidden_size': 768, 'num_attention_heads': 12,"
     " 'local_attention': 128, 'attention_dropout': 0.0, 'torch_dtype': 'float32'}",
     "--head-dim 64 --dtype bf16 --features window"},
    {"BLOOM 7B",
     "{'model_type': 'bloom', 'hidden_size': 4096, 'n_head': 32, 'attention_dropout': 0.0}",
     "--head-dim 128 --dtype bf16 --features alibi"},
    {"MPT 7B",
     "{'model_type': 'mpt', 'd_model': 4096, 'n_heads': 32,"
     " 'attn_config': {'alibi': true, 'attn_pdrop': 0}, 'torch_dtype': 'bfloat16'}",
     "--head-dim 128 --dtype bf16 --features alibi"},
    {"Falcon 7B",
     "{'model_type': 'falcon', 'hidden_size': 4544, 'num_attention_heads': 71,"
     " 'alibi': false, 'attention_dropout': 0.0, 'torch_dtype': 'bfloat16'}",
     "--head-dim 64 --dtype bf16 --features none"},
    {"StarCoder 2 3B",
     "{'model_type': 'starcoder2', 'hidden_size': 3072, 'num_attention_heads': 24,"
     " 'sliding_window': 4096, 'attention_dropout': 0.1, 'torch_dtype': 'bfloat16'}",
     "--head-dim 128 --dtype bf16 --features window,dropout"},
    {"DeepSeek V2 Lite: queries and keys in two parts",
     "{'model_type': 'deepseek_v2', 'hidden_size': 2048, 'num_attention_heads': 16,"
     " 'qk_nope_head_dim': 128, 'qk_rope_head_dim': 64, 'v_head_dim': 128,"
     " 'attention_dropout': 0.0, 'torch_dtype': 'bfloat16'}",
     "--head-dim 192 --dtype bf16 --features none"},
    {"Whisper large v3",
     "{'model_type': 'whisper', 'd_model': 1280, 'encoder_attention_heads': 20,"
     " 'decoder_attention_heads': 20, 'attention_dropout': 0.0, 'torch_dtype': 'float16'}",
     "--head-dim 64 --dtype fp16 --features none"},
    {"CLIP ViT-L/14",
     "{'model_type': 'clip', 'torch_dtype': 'float32',"
     " 'text_config': {'hidden_size': 768, 'num_attention_heads': 12},"
     " 'vision_config': {'hidden_size': 1024, 'num_attention_heads': 16}}",
     "--head-dim 64 --dtype bf16 --features none"},
};

static void test_models__ask_for_what_they_use(void **state)
{
    struct af_arena arena;
    (void)state;
    af_arena_init(&arena);
    for (size_t i = 0; i < AF_COUNT(models); i++) {
        struct anyflash_error err;
        struct af_selection selection = {0};
        const char *remark;
        char *json = af_arena_text(&arena, models[i].config);
        for (char *c = json; *c != '\0'; c++)
            *c = *c == '\'' ? '"' : *c;
        if (af_selection_read_model((struct af_span){json, strlen(json)}, models[i].name, true,
                                    &selection, &remark, &err) != ANYFLASH_OK)
            fail_msg("%s", err.message);
        const char *options = af_arena_format(&arena, "--head-dim %s --dtype %s --features %s",
                                              af_selection_sizes(&selection, &arena),
                                              af_selection_dtypes(&selection),
                                              af_selection_features(&selection, &arena));
        if (strcmp(options, models[i].options) != 0)
            fail_msg("%s: %s, not %s", models[i].name, options, models[i].options);
    }
    af_arena_release(&arena);
}

/* The message about a configuration: the remark, or the failure. */
static const char *said_of(struct af_arena *arena, const char *json)
{
    struct anyflash_error err;
    struct af_selection selection = {0};
    const char *remark = NULL;
    return af_selection_read_model((struct af_span){json, strlen(json)}, "config.json", true,
                                   &selection, &remark, &err) == ANYFLASH_OK
               ? remark
               : af_arena_text(arena, err.message);
}

static void test_models__of_another_type_are_told_so(void **state)
{
    struct af_arena arena;
    (void)state;
    af_arena_init(&arena);
    assert_non_null(
        strstr(said_of(&arena, "{\"head_dim\": 128, \"torch_dtype\": \"int8\"}"),
               "flash-attn does not support the type that the configuration names"));
    assert_non_null(strstr(said_of(&arena, "{\"head_dim\": 128}"), "names no type"));
    af_arena_release(&arena);
}

static void test_models__that_add_a_position_bias_are_refused(void **state)
{
    struct af_arena arena;
    (void)state;
    af_arena_init(&arena);
    assert_non_null(strstr(said_of(&arena, "{\"model_type\": \"t5\", \"d_kv\": 64,"
                                           " \"relative_attention_num_buckets\": 32}"),
                           "relative position bias"));
    assert_non_null(strstr(said_of(&arena, "{\"hidden_size\": 768, \"num_attention_heads\": 12,"
                                           " \"position_embedding_type\": \"relative_key\"}"),
                           "relative position bias"));
    af_arena_release(&arena);
}

static void test_models__sizes_that_are_no_whole_numbers_are_told(void **state)
{
    struct af_arena arena;
    (void)state;
    af_arena_init(&arena);
    assert_non_null(
        strstr(said_of(&arena, "{\"hidden_size\": \"4096\", \"num_attention_heads\": 32}"),
               "is an integer"));
    af_arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_models__ask_for_what_they_use),
        cmocka_unit_test(test_models__of_another_type_are_told_so),
        cmocka_unit_test(test_models__that_add_a_position_bias_are_refused),
        cmocka_unit_test(test_models__sizes_that_are_no_whole_numbers_are_told)};
    af_json_start();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
