/*
 * problem.c: converts the caller's arguments to a checked problem of the forward or the
 * backward, and finds the sequences of a problem. Called once per call of the API.
 */
#include "engine/attn/problem.h"

#include <math.h>
#include <string.h>

#include "engine/attn/layout.h"
#include "engine/attn/problem_check.h"
#include "engine/base/args.h"

/* Window that includes every pair of positions. */
#define WINDOW_ALL ((int64_t)1 << 40)

/* Sets unused strides to 0, so that one formula addresses all layouts; bounds the windows. */
static void resolve(struct anyflash_attend_args *a)
{
    if (a->cu_seqlens_q != NULL)
        a->q.batch_stride = a->o.batch_stride = a->lse_batch_stride = 0;
    if (a->cu_seqlens_k != NULL)
        a->k.batch_stride = a->v.batch_stride = 0;
    if (a->scale == ANYFLASH_SCALE_DEFAULT)
        a->scale = 1 / sqrtf((float)a->head_dim);
    if (a->window_left > WINDOW_ALL)
        a->window_left = WINDOW_ALL;
    if (a->window_right > WINDOW_ALL)
        a->window_right = WINDOW_ALL;
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
        af_args_copy(&checked.a, sizeof checked.a, args, AF_ARGS_ATTEND_BYTES, err);
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
    checked.changes_scores = checked.a.softcap > 0 || checked.a.alibi_slopes != NULL ||
                             checked.a.bias.data != NULL || checked.a.mask.data != NULL;
    checked.group = checked.a.heads / checked.a.kv_heads;
    checked.element_bytes = af_dtype_bytes(checked.a.q.dtype);
    checked.key_bytes = af_dtype_bytes(checked.a.k.dtype);
    *problem = checked;
    return ANYFLASH_OK;
}

/*
 * Checks for options without a backward, missing arguments, and gradients of
 * absent inputs.
 */
static enum anyflash_status check_backward(const struct anyflash_attend_backward_args *args,
                                           const struct anyflash_attend_args *a,
                                           struct anyflash_error *err)
{
    bool rows = a->batch > 0 && a->q_len > 0, keys = a->batch > 0 && a->k_len > 0;
    bool dq = args->dq.data != NULL, dk = args->dk.data != NULL, dv = args->dv.data != NULL;
    bool any = dq || dk || dv;
    const struct {
        bool wrong;
        enum anyflash_status status;
        const char *sentence;
    } checks[] = {
        {a->block_table != NULL, ANYFLASH_E_UNSUPPORTED,
         "block_table is set; caches have no backward"},
        {a->cache_batch_idx != NULL, ANYFLASH_E_UNSUPPORTED,
         "cache_batch_idx is set; caches have no backward"},
        {af_dtype_is_f8(a->k.dtype), ANYFLASH_E_UNSUPPORTED,
         "k.dtype is fp8; fp8 keys have no backward"},
        {a->new_len > 0, ANYFLASH_E_UNSUPPORTED, "new_len is set; caches have no backward"},
        {a->lse == NULL && rows, ANYFLASH_E_ARGUMENT,
         "forward->lse is NULL; the backward reads what the forward wrote there"},
        {any && !dq && rows, ANYFLASH_E_ARGUMENT,
         "dq is NULL; dq, dk and dv must be given together or not at all"},
        {any && !dk && keys, ANYFLASH_E_ARGUMENT,
         "dk is NULL; dq, dk and dv must be given together or not at all"},
        {any && !dv && keys, ANYFLASH_E_ARGUMENT,
         "dv is NULL; dq, dk and dv must be given together or not at all"},
        {args->dbias.data != NULL && a->bias.data == NULL, ANYFLASH_E_ARGUMENT,
         "dbias is set; the forward has no bias"},
        {args->dsinks != NULL && a->sinks == NULL, ANYFLASH_E_ARGUMENT,
         "dsinks is set; the forward has no sinks"},
    };
    for (size_t i = 0; i < AF_COUNT(checks); i++) {
        if (checks[i].wrong)
            return af_fail(err, checks[i].status, "%s", checks[i].sentence);
    }
    return ANYFLASH_OK;
}

/*
 * Extents of dbias as stored: 1 where its stride is 0, which means that the
 * gradient is summed there; this is allowed only where bias is broadcast.
 */
static enum anyflash_status stored_extents(const struct anyflash_tensor *dbias,
                                           const struct anyflash_tensor *bias,
                                           int64_t extent[AF_BOX_DIMS],
                                           struct anyflash_error *err)
{
    static const char *const names[] = {"dbias.batch_stride", "dbias.head_stride",
                                        "dbias.row_stride"};
    const int64_t stride[] = {dbias->batch_stride, dbias->head_stride, dbias->row_stride};
    const int64_t of_bias[] = {bias->batch_stride, bias->head_stride, bias->row_stride};
    for (int d = 0; d < AF_BOX_DIMS; d++) {
        if (dbias->data == NULL || stride[d] != 0 || extent[d] <= 1)
            continue;
        if (of_bias[d] != 0)
            return af_refuse(err, names[d], 0,
                             "bias is not broadcast there, its stride is %lld",
                             (long long)of_bias[d]);
        extent[d] = 1;
    }
    return ANYFLASH_OK;
}

static enum anyflash_status add_gradients(struct af_layout *layout,
                                          const struct anyflash_attend_backward_args *args,
                                          const struct anyflash_attend_args *a,
                                          struct anyflash_error *err)
{
    const bool packed = a->cu_seqlens_q != NULL, packed_k = a->cu_seqlens_k != NULL;
    const int64_t q_batch = packed ? 1 : a->batch, q_rows = packed ? a->total_q : a->q_len;
    const int64_t k_batch = packed_k ? 1 : a->batch, k_rows = packed_k ? a->total_k : a->k_len;
    const int64_t heads = a->heads, kv_heads = a->kv_heads;
    const unsigned of_q = af_dtype_bit(a->q.dtype), of_o = af_dtype_bit(a->o.dtype);
    const unsigned f32 = AF_DTYPE_BIT(ANYFLASH_F32);
    int64_t bias[AF_BOX_DIMS] = {a->batch, heads, a->q_len};
    enum anyflash_status status = stored_extents(&args->dbias, &a->bias, bias, err);
    if (status != ANYFLASH_OK)
        return status;
    /* clang-format off */
    /* name, tensor, types, needed, output, extents, elements of a row */
    const struct af_layout_tensor tensors[] = {
        {"dout", &args->dout, of_o, true, false, {q_batch, heads, q_rows}, a->value_dim},
        {"dq", &args->dq, of_q, false, true, {q_batch, heads, q_rows}, a->head_dim},
        {"dk", &args->dk, of_q, false, true, {k_batch, kv_heads, k_rows}, a->head_dim},
        {"dv", &args->dv, of_q, false, true, {k_batch, kv_heads, k_rows}, a->value_dim},
        {"dbias", &args->dbias, f32, false, true, {bias[0], bias[1], bias[2]}, a->k_len},
    };
    /* name, data, output, extents, strides, elements of a row */
    const struct af_layout_array arrays[] = {
        {"dlse", args->dlse, false, {q_batch, heads, 1},
         {a->lse_batch_stride, a->lse_head_stride, 0}, q_rows},
        {"dsinks", args->dsinks, true, {1, 1, 1}, {0}, heads},
    };
    /* clang-format on */
    status = af_layout_tensors(layout, tensors, AF_COUNT(tensors), err);
    if (status == ANYFLASH_OK)
        status = af_layout_arrays(layout, arrays, AF_COUNT(arrays), err);
    return status;
}

/*
 * Checks the layouts of gradients and that they overlap nothing the forward
 * reads or writes.
 */
static enum anyflash_status check_gradients(const struct anyflash_attend_backward_args *args,
                                            const struct anyflash_attend_args *a,
                                            struct anyflash_error *err)
{
    struct af_layout layout;
    enum anyflash_status status = af_layout_forward(&layout, a, err);
    for (size_t i = 0; status == ANYFLASH_OK && i < layout.count; i++)
        layout.output[i] = false;
    if (status == ANYFLASH_OK)
        status = add_gradients(&layout, args, a, err);
    return status == ANYFLASH_OK ? af_layout_check_apart(&layout, err) : status;
}

enum anyflash_status af_backward_problem_init(struct af_backward_problem *problem,
                                              const struct anyflash_attend_backward_args *args,
                                              struct anyflash_error *err)
{
    struct anyflash_attend_backward_args copy;
    struct af_backward_problem checked = {0};
    enum anyflash_status status =
        af_args_copy(&copy, sizeof copy, args, AF_ARGS_BACKWARD_BYTES, err);
    if (status == ANYFLASH_OK && copy.forward == NULL)
        status = af_fail(err, ANYFLASH_E_ARGUMENT, "forward is NULL; it is needed");
    if (status == ANYFLASH_OK)
        status = af_problem_init(&checked.forward, copy.forward, err);
    if (status == ANYFLASH_OK)
        status = check_backward(&copy, &checked.forward.a, err);
    if (status != ANYFLASH_OK)
        return status;
    if (checked.forward.a.cu_seqlens_q != NULL)
        copy.dout.batch_stride = copy.dq.batch_stride = 0;
    if (checked.forward.a.cu_seqlens_k != NULL)
        copy.dk.batch_stride = copy.dv.batch_stride = 0;
    status = check_gradients(&copy, &checked.forward.a, err);
    if (status != ANYFLASH_OK)
        return status;
    checked.dout = copy.dout;
    checked.dq = copy.dq;
    checked.dk = copy.dk;
    checked.dv = copy.dv;
    checked.dbias = copy.dbias;
    checked.dsinks = copy.dsinks;
    checked.dlse = copy.dlse;
    *problem = checked;
    return ANYFLASH_OK;
}
