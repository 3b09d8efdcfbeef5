/*
 * problem.c: converts the caller's arguments to a checked problem, and finds the
 * sequences of a problem. Called once per call of the API.
 */
#include "engine/attn/problem.h"

#include <math.h>
#include <string.h>

#include "engine/attn/problem_check.h"

/* The struct of the first header ends here; later ones only append. */
#define FIRST_VERSION_BYTES                                                                    \
    (offsetof(struct anyflash_attend_args, dropout_offset) + sizeof(uint64_t))
/* No version of the header will exceed this; a larger value was never set. */
#define STRUCT_BYTES_MAX 4096

/* Window that includes every pair of positions. */
#define WINDOW_ALL ((int64_t)1 << 40)

enum anyflash_status af_copy_args(void *copy, size_t copy_bytes, const void *args,
                                  size_t first_version_bytes, struct anyflash_error *err)
{
    size_t given_bytes;
    if (args == NULL)
        return af_fail(err, ANYFLASH_E_ARGUMENT, "args is NULL");
    memcpy(&given_bytes, args, sizeof given_bytes);
    if (given_bytes < first_version_bytes || given_bytes > STRUCT_BYTES_MAX)
        return af_fail(err, ANYFLASH_E_ARGUMENT,
                       "struct_size is %zu; this library knows %zu bytes", given_bytes,
                       copy_bytes);
    for (size_t i = copy_bytes; i < given_bytes; i++) {
        if (((const unsigned char *)args)[i] != 0)
            return af_fail(err, ANYFLASH_E_ARGUMENT,
                           "struct_size is %zu and an option past byte %zu is set; this "
                           "library is older than the header",
                           given_bytes, copy_bytes);
    }
    memset(copy, 0, copy_bytes);
    memcpy(copy, args, given_bytes < copy_bytes ? given_bytes : copy_bytes);
    return ANYFLASH_OK;
}

/* Sets unused strides to 0, so that one formula addresses all layouts. */
static void resolve(struct anyflash_attend_args *a)
{
    if (a->cu_seqlens_q != NULL)
        a->q.batch_stride = a->o.batch_stride = a->lse_batch_stride = 0;
    if (a->cu_seqlens_k != NULL)
        a->k.batch_stride = a->v.batch_stride = 0;
    if (a->scale == 0)
        a->scale = 1 / sqrtf((float)a->head_dim);
    if (a->window_left >= WINDOW_ALL)
        a->window_left = -1;
    if (a->window_right >= WINDOW_ALL)
        a->window_right = -1;
}

static uint32_t features_of(const struct anyflash_attend_args *a)
{
    const struct {
        bool asked;
        uint32_t feature;
    } rows[] = {
        {a->causal != 0 || a->window_right >= 0, AF_FEATURE_CAUSAL},
        {a->window_left >= 0, AF_FEATURE_WINDOW},
        {a->softcap > 0, AF_FEATURE_SOFTCAP},
        {a->alibi_slopes != NULL, AF_FEATURE_ALIBI},
        {a->bias.data != NULL, AF_FEATURE_BIAS},
        {a->mask.data != NULL, AF_FEATURE_MASK},
        {a->sinks != NULL, AF_FEATURE_SINKS},
        {a->dropout > 0, AF_FEATURE_DROPOUT},
        {a->block_table != NULL, AF_FEATURE_PAGED},
        {a->rotary_cos != NULL, AF_FEATURE_ROTARY},
        {a->cu_seqlens_q != NULL || a->cu_seqlens_k != NULL || a->seqused_q != NULL ||
             a->seqused_k != NULL || a->leftpad_k != NULL,
         AF_FEATURE_VARLEN},
    };
    uint32_t features = 0;
    for (size_t i = 0; i < AF_COUNT(rows); i++)
        features |= rows[i].asked ? rows[i].feature : 0;
    return features;
}

struct af_sequence af_problem_sequence(const struct af_problem *problem, int64_t batch)
{
    const struct anyflash_attend_args *a = &problem->a;
    const int32_t *cu_q = a->cu_seqlens_q, *cu_k = a->cu_seqlens_k;
    struct af_sequence s = {.batch = batch, .cache = batch};
    s.q_row = cu_q != NULL ? cu_q[batch] : 0;
    s.q_full = cu_q != NULL ? cu_q[batch + 1] - cu_q[batch] : a->q_len;
    s.q_count = a->seqused_q != NULL ? a->seqused_q[batch] : s.q_full;
    s.k_row = cu_k != NULL ? cu_k[batch] : 0;
    s.k_first = a->leftpad_k != NULL ? a->leftpad_k[batch] : 0;
    s.k_count = a->seqused_k != NULL ? a->seqused_k[batch] + a->new_len
                : cu_k != NULL       ? cu_k[batch + 1] - cu_k[batch]
                                     : a->k_len;
    if (a->cache_batch_idx != NULL)
        s.cache = a->cache_batch_idx[batch];
    if (a->align == ANYFLASH_ALIGN_BOTTOM_RIGHT)
        s.offset = s.k_count - s.q_count;
    else if (a->align == ANYFLASH_ALIGN_OFFSETS)
        s.offset = a->causal_offsets[batch];
    return s;
}

enum anyflash_status af_problem_init(struct af_problem *problem,
                                     const struct anyflash_attend_args *args,
                                     struct anyflash_error *err)
{
    struct af_problem checked = {0};
    enum anyflash_status status =
        af_copy_args(&checked.a, sizeof checked.a, args, FIRST_VERSION_BYTES, err);
    if (status == ANYFLASH_OK)
        status = af_problem_check_options(&checked.a, err);
    if (status != ANYFLASH_OK)
        return status;
    resolve(&checked.a);
    status = af_problem_check_layouts(&checked.a, err);
    if (status == ANYFLASH_OK)
        status = af_problem_check_indexes(&checked, err);
    if (status != ANYFLASH_OK)
        return status;
    checked.features = features_of(&checked.a);
    checked.group = checked.a.heads / checked.a.kv_heads;
    checked.element_bytes = af_dtype_bytes(checked.a.q.dtype);
    checked.key_bytes = af_dtype_bytes(checked.a.k.dtype);
    *problem = checked;
    return ANYFLASH_OK;
}
