/*
 * prepare.c: append to caches and rotary embedding. See prepare.h; called by
 * the forward before its kernels, when the problem appends.
 */
#include "engine/attn/prepare.h"

#include "engine/attn/convert.h"
#include "engine/attn/mask.h"

/* Copies elements [begin, end) of a row of q's type to a row of type `dtype`, as x / scale. */
static void copy_row(const struct anyflash_attend_args *a, const char *from, int32_t dtype,
                     char *to, int64_t begin, int64_t end, float scale)
{
    size_t bytes = af_dtype_bytes(dtype);
    if (dtype == a->q.dtype) {
        memcpy(to + (size_t)begin * bytes, from + (size_t)begin * bytes,
               (size_t)(end - begin) * bytes);
        return;
    }
    for (int64_t d = begin; d < end; d++)
        af_convert_store(dtype, to, d, af_convert_load(a->q.dtype, from, d) / scale);
}

/* As copy_row() for D elements; rotates the first rotary_dim for `position`. */
static void turn_row(const struct anyflash_attend_args *a, const char *from, int32_t to_dtype,
                     char *to, float scale, int64_t position)
{
    int32_t dtype = a->q.dtype;
    int64_t half = a->rotary_dim / 2;
    const float *cosine = a->rotary_cos + position * half;
    const float *sine = a->rotary_sin + position * half;
    for (int64_t n = 0; n < half; n++) {
        int64_t at_x = a->rotary_interleaved ? 2 * n : n;
        int64_t at_y = a->rotary_interleaved ? 2 * n + 1 : n + half;
        float x = af_convert_load(dtype, from, at_x), y = af_convert_load(dtype, from, at_y);
        af_convert_store(to_dtype, to, at_x, (x * cosine[n] - y * sine[n]) / scale);
        af_convert_store(to_dtype, to, at_y, (x * sine[n] + y * cosine[n]) / scale);
    }
    copy_row(a, from, to_dtype, to, a->rotary_dim, a->head_dim, scale);
}

/* Appends the new keys and values of one batch and key head. */
static void append_keys(const struct af_problem *problem, int64_t batch, int64_t kv_head)
{
    const struct anyflash_attend_args *a = &problem->a;
    struct af_sequence sequence = af_problem_sequence(problem, batch);
    size_t bytes = problem->element_bytes;
    for (int64_t i = 0; i < a->new_len; i++) {
        int64_t j = a->seqused_k[batch] + i;
        const char *k_new = af_row_of_tensor(&a->k_new, bytes, batch, kv_head, i);
        const char *v_new = af_row_of_tensor(&a->v_new, bytes, batch, kv_head, i);
        char *k = af_row_of_key(problem, &a->k, &sequence, kv_head, j);
        char *v = af_row_of_key(problem, &a->v, &sequence, kv_head, j);
        float k_scale = af_scale_of_key(problem, a->k_scales, &sequence, kv_head, j);
        float v_scale = af_scale_of_key(problem, a->v_scales, &sequence, kv_head, j);
        if (a->rotary_cos != NULL)
            turn_row(a, k_new, a->k.dtype, k, k_scale, j);
        else
            copy_row(a, k_new, a->k.dtype, k, 0, a->head_dim, k_scale);
        copy_row(a, v_new, a->v.dtype, v, 0, a->value_dim, v_scale);
    }
}

/* Writes the rotated queries of one batch and head to `turned`. */
static void turn_queries(const struct af_problem *problem, const struct anyflash_tensor *turned,
                         int64_t batch, int64_t head)
{
    const struct anyflash_attend_args *a = &problem->a;
    struct af_sequence sequence = af_problem_sequence(problem, batch);
    for (int64_t i = 0; i < sequence.q_count; i++)
        turn_row(a, af_row_of_query(&a->q, problem->element_bytes, &sequence, head, i),
                 a->q.dtype,
                 af_row_of_query(turned, problem->element_bytes, &sequence, head, i), 1,
                 af_rotary_position(a, batch, i));
}

/* Rows of one head of q. */
static int64_t query_rows(const struct anyflash_attend_args *a)
{
    return a->cu_seqlens_q != NULL ? a->total_q : a->q_len;
}

size_t af_prepare_bytes(const struct af_problem *problem)
{
    const struct anyflash_attend_args *a = &problem->a;
    size_t bytes = (size_t)a->head_dim * problem->element_bytes;
    if (a->rotary_cos == NULL)
        return 0;
    bool fits = af_size_mul(bytes, (size_t)a->heads, &bytes) &&
                af_size_mul(bytes, (size_t)query_rows(a), &bytes) &&
                (a->cu_seqlens_q != NULL || af_size_mul(bytes, (size_t)a->batch, &bytes));
    return fits ? bytes : SIZE_MAX; /* no allocator returns this size */
}

/* Describes the rotated queries in `scratch`, which have the shape of q. */
static struct anyflash_tensor turned_tensor(const struct af_problem *problem, void *scratch)
{
    const struct anyflash_attend_args *a = &problem->a;
    struct anyflash_tensor turned =
        anyflash_bshd(scratch, a->q.dtype, a->heads, query_rows(a), a->head_dim);
    if (a->cu_seqlens_q != NULL)
        turned.batch_stride = 0;
    return turned;
}

void af_prepare(struct af_problem *problem, void *scratch)
{
    const struct anyflash_attend_args *a = &problem->a;
    bool turns = a->rotary_cos != NULL;
    struct anyflash_tensor turned = turned_tensor(problem, scratch);
    for (int64_t b = 0; b < a->batch; b++) {
        for (int64_t kv_head = 0; kv_head < a->kv_heads && a->new_len > 0; kv_head++)
            append_keys(problem, b, kv_head);
        for (int64_t head = 0; head < a->heads && turns; head++)
            turn_queries(problem, &turned, b, head);
    }
    if (turns)
        problem->a.q = turned;
}
