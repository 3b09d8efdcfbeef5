/*
 * check_options.c: the numbers of a problem one by one, and options that need
 * or exclude one another; and how a refusal is worded. Called by problem.c
 * first, before any array is read.
 */
#include "engine/attn/check.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#define RULE_BYTES 200

enum anyflash_status af_refuse(struct anyflash_error *err, const char *name, int64_t value,
                               const char *rule, ...)
{
    char text[RULE_BYTES];
    va_list args;
    va_start(args, rule);
    vsnprintf(text, sizeof text, rule, args);
    va_end(args);
    return af_fail(err, ANYFLASH_E_ARGUMENT, "%s is %lld; %s", name, (long long)value, text);
}

enum anyflash_status af_refuse_at(struct anyflash_error *err, const char *name, int64_t index,
                                  int64_t value, const char *rule, ...)
{
    char text[RULE_BYTES];
    va_list args;
    va_start(args, rule);
    vsnprintf(text, sizeof text, rule, args);
    va_end(args);
    return af_fail(err, ANYFLASH_E_ARGUMENT, "%s[%lld] is %lld; %s", name, (long long)index,
                   (long long)value, text);
}

enum anyflash_status af_problem_check_within(struct anyflash_error *err, const char *name,
                                             int64_t value, int64_t min, int64_t max)
{
    if (value >= min && value <= max)
        return ANYFLASH_OK;
    return af_refuse(err, name, value, "it must be %lld to %lld", (long long)min,
                     (long long)max);
}

static enum anyflash_status check_extents(const struct anyflash_attend_args *a,
                                          struct anyflash_error *err)
{
    const struct {
        const char *name;
        int64_t value, min, max;
    } rows[] = {
        {"batch", a->batch, 0, INT32_MAX},
        {"heads", a->heads, 1, INT32_MAX},
        {"kv_heads", a->kv_heads, 1, INT32_MAX},
        {"q_len", a->q_len, 0, INT32_MAX},
        {"k_len", a->k_len, 0, INT32_MAX},
        {"head_dim", a->head_dim, 1, AF_DIM_MAX},
        {"value_dim", a->value_dim, 1, AF_DIM_MAX},
        {"total_q", a->total_q, 0, a->cu_seqlens_q != NULL ? INT32_MAX : INT64_MAX},
        {"total_k", a->total_k, 0, a->cu_seqlens_k != NULL ? INT32_MAX : INT64_MAX},
        {"new_len", a->new_len, 0, INT32_MAX},
        {"causal", a->causal, 0, 1},
        {"align", a->align, ANYFLASH_ALIGN_BOTTOM_RIGHT, ANYFLASH_ALIGN_OFFSETS},
        {"window_left", a->window_left, -1, INT64_MAX},
        {"window_right", a->window_right, -1, INT64_MAX},
        {"rotary_interleaved", a->rotary_interleaved, 0, 1},
    };
    for (size_t i = 0; i < AF_COUNT(rows); i++) {
        enum anyflash_status status =
            af_problem_check_within(err, rows[i].name, rows[i].value, rows[i].min, rows[i].max);
        if (status != ANYFLASH_OK)
            return status;
    }
    if (a->heads % a->kv_heads != 0)
        return af_refuse(err, "heads", a->heads, "it must be a multiple of kv_heads, %lld",
                         (long long)a->kv_heads);
    return ANYFLASH_OK;
}

static enum anyflash_status check_factors(const struct anyflash_attend_args *a,
                                          struct anyflash_error *err)
{
    if (!isfinite(a->scale))
        return af_fail(err, ANYFLASH_E_ARGUMENT, "scale is %g; it must be finite",
                       (double)a->scale);
    if (!(a->softcap >= 0) || isinf(a->softcap))
        return af_fail(err, ANYFLASH_E_ARGUMENT, "softcap is %g; it must be 0 or more, finite",
                       (double)a->softcap);
    if (!(a->dropout >= 0 && a->dropout < 1))
        return af_fail(err, ANYFLASH_E_ARGUMENT,
                       "dropout is %g; it must be 0 or more and below 1", (double)a->dropout);
    return ANYFLASH_OK;
}

/* Options of which one says nothing or the opposite without or with another. */
static enum anyflash_status check_combinations(const struct anyflash_attend_args *a,
                                               struct anyflash_error *err)
{
    bool paged = a->block_table != NULL;
    bool append = a->new_len > 0;
    bool rotary = a->rotary_cos != NULL || a->rotary_sin != NULL || a->rotary_dim != 0;
    const struct {
        bool wrong;
        const char *sentence;
    } rows[] = {
        {a->align == ANYFLASH_ALIGN_OFFSETS && a->causal_offsets == NULL && a->batch > 0,
         "causal_offsets is NULL; align 2 (offsets) needs it"},
        {a->align != ANYFLASH_ALIGN_OFFSETS && a->causal_offsets != NULL,
         "causal_offsets is set; it needs align 2 (offsets)"},
        {paged && a->cu_seqlens_k != NULL,
         "block_table is set; pages have no cu_seqlens_k (give the lengths as seqused_k)"},
        {paged && a->cache_batch_idx != NULL,
         "block_table is set; it already says what cache_batch_idx would"},
        {a->cache_batch_idx != NULL && a->cu_seqlens_k != NULL,
         "cache_batch_idx is set; packed keys (cu_seqlens_k) have no batch to choose"},
        {append && a->cu_seqlens_k != NULL,
         "new_len is set; packed keys (cu_seqlens_k) have no room to append to"},
        {append && a->seqused_k == NULL && a->batch > 0,
         "seqused_k is NULL; appending needs the lengths of the cache"},
        {append && a->k_new.data == NULL && a->batch > 0,
         "k_new is NULL; new_len above 0 needs it"},
        {append && a->v_new.data == NULL && a->batch > 0,
         "v_new is NULL; new_len above 0 needs it"},
        {rotary && !append, "rotary_cos or rotary_dim is set; rotary embedding is applied when "
                            "keys are appended, and new_len is 0"},
        {rotary && a->rotary_cos == NULL, "rotary_cos is NULL; rotary embedding needs it"},
        {rotary && a->rotary_sin == NULL, "rotary_sin is NULL; rotary embedding needs it"},
    };
    for (size_t i = 0; i < AF_COUNT(rows); i++) {
        if (rows[i].wrong)
            return af_fail(err, ANYFLASH_E_ARGUMENT, "%s", rows[i].sentence);
    }
    return ANYFLASH_OK;
}

static enum anyflash_status check_cache(const struct anyflash_attend_args *a,
                                        struct anyflash_error *err)
{
    enum anyflash_status status = ANYFLASH_OK;
    if (a->cache_batch_idx != NULL)
        status = af_problem_check_within(err, "cache_batch", a->cache_batch, 0, INT32_MAX);
    if (status != ANYFLASH_OK || a->block_table == NULL)
        return status;
    status = af_problem_check_within(err, "page_size", a->page_size, 1, INT32_MAX);
    if (status == ANYFLASH_OK)
        status = af_problem_check_within(err, "page_count", a->page_count, 0, INT32_MAX);
    if (status == ANYFLASH_OK)
        status = af_problem_check_within(err, "block_table_stride", a->block_table_stride, 0,
                                         INT32_MAX);
    if (status == ANYFLASH_OK && a->k_len > a->block_table_stride * a->page_size)
        status = af_refuse(err, "k_len", a->k_len,
                           "block_table_stride %lld with page_size %lld holds %lld keys",
                           (long long)a->block_table_stride, (long long)a->page_size,
                           (long long)(a->block_table_stride * a->page_size));
    return status;
}

static enum anyflash_status check_rotary(const struct anyflash_attend_args *a,
                                         struct anyflash_error *err)
{
    if (a->rotary_cos == NULL)
        return ANYFLASH_OK;
    enum anyflash_status status =
        af_problem_check_within(err, "rotary_dim", a->rotary_dim, 2, a->head_dim);
    if (status == ANYFLASH_OK && a->rotary_dim % 2 != 0)
        status = af_refuse(err, "rotary_dim", a->rotary_dim, "it must be even");
    if (status == ANYFLASH_OK)
        status = af_problem_check_within(err, "rotary_rows", a->rotary_rows, 0, INT32_MAX);
    return status;
}

enum anyflash_status af_problem_check_options(const struct anyflash_attend_args *args,
                                              struct anyflash_error *err)
{
    enum anyflash_status status = check_extents(args, err);
    if (status == ANYFLASH_OK)
        status = check_factors(args, err);
    if (status == ANYFLASH_OK)
        status = check_combinations(args, err);
    if (status == ANYFLASH_OK)
        status = check_cache(args, err);
    if (status == ANYFLASH_OK)
        status = check_rotary(args, err);
    return status;
}
