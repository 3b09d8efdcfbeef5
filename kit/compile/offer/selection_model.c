/*
 * selection_model.c: which parts of flash-attn a model needs, from its Hugging Face
 * config.json.
 *
 * A configuration is a tree: a model of text and images has a part for each
 * ("text_config", "vision_config"). Every part that states a head size, or sizes from
 * which it follows, counts. Key names are those of transformers 5 and of older models
 * (n_embd, n_head, attn_pdrop, alibi in attn_config).
 */
#include "kit/compile/offer/kernel_selection.h"

#include "kit/base/json.h"
#include "kit/base/text.h"

#include <string.h>

#define CONFIG_BYTES_MAX (4u * 1024u * 1024u)
#define PARTS_MAX 16

struct model {
    const char *name;
    struct af_selection selection;
    bool training;
    bool any_size;
    bool is_float32;
    bool is_other; /* another type that flash-attn does not support */
    const char *remark;
};

/* The first of `keys` (NULL-terminated) whose value is a whole number of at least 1; else 0. */
static json_int_t number_of(const json_t *part, const char *const *keys)
{
    for (; *keys != NULL; keys++) {
        const json_t *value = json_object_get(part, *keys);
        if (json_is_integer(value) && json_integer_value(value) >= 1)
            return json_integer_value(value);
    }
    return 0;
}

static enum anyflash_status add_size(struct model *model, const char *key, json_int_t head_dim,
                                     struct anyflash_error *err)
{
    model->any_size = true;
    if (af_selection_add_head_dim(&model->selection, head_dim))
        return ANYFLASH_OK;
    return af_fail(err, ANYFLASH_E_UNSUPPORTED,
                   "%s: %s gives head size %lld; flash-attn 2 has kernels up to 256",
                   model->name, key, (long long)head_dim);
}

static enum anyflash_status read_sizes(struct model *model, const json_t *part,
                                       struct anyflash_error *err)
{
    static const char *const stated[] = {"head_dim", "attention_head_dim", "d_kv",
                                         "kv_channels", NULL};
    /* embed_dim first: in Qwen2-VL's vision part hidden_size is the size of its output. */
    static const char *const hidden[] = {"embed_dim", "hidden_size", "n_embd",
                                         "d_model",   "dim",         NULL};
    static const char *const heads[] = {
        "num_attention_heads",     "n_head", "num_heads", "n_heads",
        "encoder_attention_heads", NULL};
    static const char *const nope[] = {"qk_nope_head_dim", NULL};
    static const char *const rope[] = {"qk_rope_head_dim", NULL};
    static const char *const other[] = {"global_head_dim", NULL};
    static const char *const layers[] = {"num_hidden_layers", NULL};
    json_int_t size = number_of(part, stated);
    json_int_t count = number_of(part, heads);
    enum anyflash_status status = ANYFLASH_OK;
    if (number_of(part, nope) > 0) /* heads have both parts; values are padded */
        return add_size(model, "qk_nope_head_dim + qk_rope_head_dim",
                        number_of(part, nope) + number_of(part, rope), err);
    if (size > 0)
        status = add_size(model, "head_dim", size, err);
    else if (count > 0 && number_of(part, hidden) >= count)
        status = add_size(model, "hidden_size / num_attention_heads",
                          number_of(part, hidden) / count, err);
    else if (number_of(part, hidden) > 0 && number_of(part, layers) > 0)
        return af_fail(err, ANYFLASH_E_DATA,
                       "%s: one section has hidden_size but not the number of heads (the "
                       "model's code sets it): use --head-dim instead of --for",
                       model->name);
    if (status == ANYFLASH_OK && number_of(part, other) > 0)
        status = add_size(model, "global_head_dim", number_of(part, other), err);
    return status;
}

static void read_dtype(struct model *model, const json_t *part)
{
    const char *text = json_string_value(json_object_get(part, "dtype"));
    if (text == NULL)
        text = json_string_value(json_object_get(part, "torch_dtype"));
    if (text == NULL)
        return;
    if (af_ends_with(text, "bfloat16"))
        model->selection.dtypes |= AF_SELECTION_BF16;
    else if (af_ends_with(text, "float16") || af_ends_with(text, "half"))
        model->selection.dtypes |= AF_SELECTION_FP16;
    else if (af_ends_with(text, "float32") || af_ends_with(text, "float"))
        model->is_float32 = true;
    else
        model->is_other = true;
}

static bool above_zero(const json_t *part, const char *key)
{
    const json_t *value = json_object_get(part, key);
    return json_is_number(value) && json_number_value(value) > 0;
}

static bool has_window(const json_t *part)
{
    const json_t *layers = json_object_get(part, "layer_types");
    const json_t *layer;
    size_t i;
    json_array_foreach(layers, i, layer)
    {
        if (json_is_string(layer) && strstr(json_string_value(layer), "sliding") != NULL)
            return true;
    }
    if (json_is_array(layers) || json_is_false(json_object_get(part, "use_sliding_window")))
        return false;
    return above_zero(part, "sliding_window") || above_zero(part, "sliding_window_size") ||
           above_zero(part, "local_attention") || above_zero(part, "window_size");
}

/* Whether a learned or relative position bias is added to the scores, as in T5 and Swin. */
static bool has_bias(const json_t *part)
{
    const char *position = json_string_value(json_object_get(part, "position_embedding_type"));
    return above_zero(part, "relative_attention_num_buckets") ||
           json_is_true(json_object_get(part, "relative_attention")) ||
           (position != NULL && af_starts_with(position, "relative"));
}

static bool has_alibi(const json_t *part)
{
    const char *type = json_string_value(json_object_get(part, "model_type"));
    const char *position = json_string_value(json_object_get(part, "position_embedding_type"));
    return json_is_true(json_object_get(part, "alibi")) || af_equal(position, "alibi") ||
           af_equal(type, "bloom") || af_equal(type, "mpt");
}

static void read_features(struct model *model, const json_t *part)
{
    static const char *const dropouts[] = {"attention_dropout", "attn_pdrop", "attn_dropout",
                                           "attention_probs_dropout_prob",
                                           "attention_dropout_p"};
    if (has_window(part))
        model->selection.features |= AF_FLASH_LOCAL;
    if (above_zero(part, "attn_logit_softcapping") || above_zero(part, "attn_soft_cap"))
        model->selection.features |= AF_FLASH_SOFTCAP;
    if (has_alibi(part))
        model->selection.features |= AF_FLASH_ALIBI;
    for (size_t i = 0; i < AF_COUNT(dropouts); i++) {
        if (model->training && above_zero(part, dropouts[i]))
            model->selection.features |= AF_FLASH_DROPOUT;
    }
}

/* Visits every part of the tree. */
static enum anyflash_status read_parts(struct model *model, const json_t *root,
                                       struct anyflash_error *err)
{
    const json_t *waiting[PARTS_MAX] = {root};
    size_t count = 1;
    for (size_t at = 0; at < count; at++) {
        void *each;
        enum anyflash_status status = read_sizes(model, waiting[at], err);
        if (status != ANYFLASH_OK)
            return status;
        if (has_bias(waiting[at]))
            return af_fail(err, ANYFLASH_E_UNSUPPORTED,
                           "%s: the model adds a relative position bias to its scores, which "
                           "flash-attn 2 does not support",
                           model->name);
        read_dtype(model, waiting[at]);
        read_features(model, waiting[at]);
        for (each = json_object_iter((json_t *)(uintptr_t)waiting[at]); each != NULL;
             each = json_object_iter_next((json_t *)(uintptr_t)waiting[at], each)) {
            const char *key = json_object_iter_key(each);
            const json_t *value = json_object_iter_value(each);
            if (!json_is_object(value) ||
                !(af_ends_with(key, "_config") || af_ends_with(key, "config")) ||
                strstr(key, "quantization") != NULL)
                continue;
            if (count == PARTS_MAX)
                return af_fail(err, ANYFLASH_E_LIMIT,
                               "%s: more than %d sections that describe a model", model->name,
                               PARTS_MAX);
            waiting[count++] = value;
        }
    }
    return ANYFLASH_OK;
}

static enum anyflash_status finish(struct model *model, struct anyflash_error *err)
{
    if (!model->any_size)
        return af_fail(err, ANYFLASH_E_DATA,
                       "%s: neither head_dim nor hidden_size with num_attention_heads is "
                       "an integer: is it a model's config.json?",
                       model->name);
    if (model->selection.dtypes == 0) {
        model->selection.dtypes = AF_SELECTION_BF16;
        model->remark =
            model->is_float32 ? "the model is stored in float32, which flash-attn does not "
                                "support: building for bf16 (change it with --dtype)"
            : model->is_other ? "flash-attn does not support the type that the configuration "
                                "names: building for bf16 (change it with --dtype)"
                              : "the configuration names no type: building for bf16 (change it "
                                "with --dtype)";
    }
    model->selection.backward = model->training;
    return ANYFLASH_OK;
}

enum anyflash_status af_selection_read_model(struct af_span json, const char *name,
                                             bool training, struct af_selection *selection,
                                             const char **remark_out,
                                             struct anyflash_error *err)
{
    json_t *root = NULL;
    struct model model = {.name = name, .selection = *selection, .training = training};
    model.selection.head_dims = model.selection.dtypes = model.selection.features = 0;
    enum anyflash_status status = af_json_parse(json, CONFIG_BYTES_MAX, name, &root, err);
    if (status == ANYFLASH_OK && !json_is_object(root))
        status = af_fail(err, ANYFLASH_E_DATA, "%s: not a JSON object", name);
    if (status == ANYFLASH_OK)
        status = read_parts(&model, root, err);
    if (status == ANYFLASH_OK)
        status = finish(&model, err);
    json_decref(root);
    if (status != ANYFLASH_OK)
        return status;
    *selection = model.selection;
    *remark_out = model.remark;
    return ANYFLASH_OK;
}
