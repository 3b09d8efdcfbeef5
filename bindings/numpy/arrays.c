/*
 * arrays.c: checks one array after the other; an error names the array. Called
 * by numpy/numpy.c and torch/ops.c.
 */
#include "bindings/numpy/arrays.h"

static bool is_float(int32_t type)
{
    return type == ANYFLASH_F32 || type == ANYFLASH_F16 || type == ANYFLASH_BF16;
}

/* The strides of an array without elements are meaningless. */
static bool is_empty(const struct af_array *array)
{
    for (int32_t i = 0; i < array->rank; i++) {
        if (array->sizes[i] == 0)
            return true;
    }
    return false;
}

static bool last_is_contiguous(const struct af_array *array)
{
    int32_t last = array->rank - 1;
    return array->strides[last] == 1 || array->sizes[last] <= 1 || is_empty(array);
}

/* The axes of batch, heads and rows; -1: none. */
struct axes {
    int32_t batch, heads, rows;
};

static struct axes axes_of(bool packed, bool heads_first)
{
    if (packed)
        return (struct axes){-1, 1, 0};
    return heads_first ? (struct axes){0, 1, 2} : (struct axes){0, 2, 1};
}

static struct anyflash_tensor tensor_of(const struct af_array *array, struct axes axes)
{
    struct anyflash_tensor tensor = ANYFLASH_TENSOR_NONE;
    tensor.data = array->data;
    tensor.dtype = array->type;
    tensor.batch_stride = axes.batch < 0 ? 0 : array->strides[axes.batch];
    tensor.head_stride = array->strides[axes.heads];
    tensor.row_stride = array->strides[axes.rows];
    return tensor;
}

static enum anyflash_status check_rows(const struct af_array *array, const char *name,
                                       bool packed, struct anyflash_error *err)
{
    int32_t rank = packed ? 3 : 4;
    if (!is_float(array->type))
        return af_fail(err, ANYFLASH_E_ARGUMENT,
                       "%s: its element type is not float32, float16 or bfloat16", name);
    if (array->rank != rank)
        return af_fail(err, ANYFLASH_E_ARGUMENT, "%s: has %d dimensions, expected %d%s", name,
                       (int)array->rank, (int)rank, packed ? " (total, heads, head size)" : "");
    if (!last_is_contiguous(array))
        return af_fail(err, ANYFLASH_E_ARGUMENT,
                       "%s: the last dimension has stride %lld, it must be contiguous", name,
                       (long long)array->strides[rank - 1]);
    return ANYFLASH_OK;
}

static enum anyflash_status check_agree(const struct af_arrays *a, struct anyflash_error *err)
{
    if (a->q.type != a->k.type || a->q.type != a->v.type)
        return af_fail(err, ANYFLASH_E_ARGUMENT, "q, k and v have different types");
    for (int32_t i = 0; i < a->k.rank - 1; i++) {
        if (a->k.sizes[i] != a->v.sizes[i])
            return af_fail(err, ANYFLASH_E_ARGUMENT,
                           "k and v: dimension %d is %lld and %lld, they must agree", (int)i,
                           (long long)a->k.sizes[i], (long long)a->v.sizes[i]);
    }
    int64_t q_dim = a->q.sizes[a->q.rank - 1];
    int64_t k_dim = a->k.sizes[a->k.rank - 1];
    if (q_dim != k_dim)
        return af_fail(err, ANYFLASH_E_ARGUMENT, "q and k: head sizes %lld and %lld differ",
                       (long long)q_dim, (long long)k_dim);
    return ANYFLASH_OK;
}

/* Reads `count` consecutive integers; NULL if not given. */
static enum anyflash_status take_integers(const struct af_array *array, const char *name,
                                          int64_t count, const int32_t **out,
                                          struct anyflash_error *err)
{
    *out = NULL;
    if (!array->given)
        return ANYFLASH_OK;
    if (array->type != AF_ARRAY_I32)
        return af_fail(err, ANYFLASH_E_ARGUMENT, "%s: its element type is not int32", name);
    if (array->rank != 1 || !last_is_contiguous(array))
        return af_fail(err, ANYFLASH_E_ARGUMENT, "%s: must be one contiguous dimension", name);
    if (array->sizes[0] != count)
        return af_fail(err, ANYFLASH_E_ARGUMENT, "%s: has %lld elements, expected %lld", name,
                       (long long)array->sizes[0], (long long)count);
    *out = array->data;
    return ANYFLASH_OK;
}

static enum anyflash_status take_table(const struct af_array *table, int64_t batch,
                                       struct anyflash_attend_args *args,
                                       struct anyflash_error *err)
{
    if (!table->given)
        return ANYFLASH_OK;
    if (table->type != AF_ARRAY_I32 || table->rank != 2 || table->sizes[0] != batch ||
        !last_is_contiguous(table))
        return af_fail(err, ANYFLASH_E_ARGUMENT,
                       "block_table: must be int32 of shape (%lld, pages), contiguous",
                       (long long)batch);
    args->block_table = table->data;
    args->block_table_stride = table->sizes[0] > 1 ? table->strides[0] : table->sizes[1];
    return ANYFLASH_OK;
}

/* Reads the lengths of sequences, and how many sequences there are. */
static enum anyflash_status take_lengths(const struct af_arrays *a, struct axes q_axes,
                                         struct axes k_axes, struct anyflash_attend_args *args,
                                         struct anyflash_error *err)
{
    bool q_packed = a->cu_seqlens_q.given, k_packed = a->cu_seqlens_k.given;
    args->batch = q_packed ? a->cu_seqlens_q.sizes[0] - 1 : a->q.sizes[0];
    if (q_packed && args->batch < 0)
        return af_fail(err, ANYFLASH_E_ARGUMENT, "cu_seqlens_q: is empty, expected B + 1");
    args->heads = a->q.sizes[q_axes.heads];
    args->kv_heads = a->k.sizes[k_axes.heads];
    args->q_len = q_packed ? a->max_seqlen_q : a->q.sizes[q_axes.rows];
    args->k_len = k_packed ? a->max_seqlen_k : a->k.sizes[k_axes.rows];
    args->total_q = q_packed ? a->q.sizes[0] : 0;
    args->total_k = k_packed ? a->k.sizes[0] : 0;
    bool own_batch = !k_packed && !a->block_table.given && !a->cache_batch_idx.given;
    if (own_batch && a->k.sizes[0] != args->batch)
        return af_fail(err, ANYFLASH_E_ARGUMENT, "k: batch %lld, expected %lld",
                       (long long)a->k.sizes[0], (long long)args->batch);
    if (!a->block_table.given)
        return ANYFLASH_OK;
    args->page_size = a->k.sizes[k_axes.rows];
    args->page_count = a->k.sizes[0];
    args->k_len = args->page_size * (a->block_table.rank == 2 ? a->block_table.sizes[1] : 0);
    return ANYFLASH_OK;
}

static enum anyflash_status take_indexes(const struct af_arrays *a,
                                         struct anyflash_attend_args *args,
                                         struct anyflash_error *err)
{
    const struct {
        const char *name;
        const struct af_array *array;
        int64_t count;
        const int32_t **out;
    } rows[] = {
        {"cu_seqlens_q", &a->cu_seqlens_q, args->batch + 1, &args->cu_seqlens_q},
        {"cu_seqlens_k", &a->cu_seqlens_k, args->batch + 1, &args->cu_seqlens_k},
        {"seqused_q", &a->seqused_q, args->batch, &args->seqused_q},
        {"seqused_k", &a->seqused_k, args->batch, &args->seqused_k},
        {"leftpad_k", &a->leftpad_k, args->batch, &args->leftpad_k},
        {"causal_offsets", &a->causal_offsets, args->batch, &args->causal_offsets},
        {"cache_batch_idx", &a->cache_batch_idx, args->batch, &args->cache_batch_idx},
    };
    for (size_t i = 0; i < AF_COUNT(rows); i++) {
        enum anyflash_status status =
            take_integers(rows[i].array, rows[i].name, rows[i].count, rows[i].out, err);
        if (status != ANYFLASH_OK)
            return status;
    }
    if (a->causal_offsets.given)
        args->align = ANYFLASH_ALIGN_OFFSETS;
    if (a->cache_batch_idx.given)
        args->cache_batch = a->k.sizes[0];
    return take_table(&a->block_table, args->batch, args, err);
}

/*
 * Reads bias or mask: adds dimensions on the left, and broadcasts 1 to any size
 * except that of keys.
 */
static enum anyflash_status take_scores(const struct af_array *array, const char *name,
                                        const struct anyflash_attend_args *args,
                                        struct anyflash_tensor *out, struct anyflash_error *err)
{
    const int64_t wanted[4] = {args->batch, args->heads, args->q_len, args->k_len};
    int64_t strides[4] = {0, 0, 0, 0};
    if (!array->given)
        return ANYFLASH_OK;
    int32_t first = 4 - array->rank;
    for (int32_t i = 0; i < array->rank; i++) {
        if (array->sizes[i] != wanted[first + i] && array->sizes[i] != 1)
            return af_fail(err, ANYFLASH_E_ARGUMENT,
                           "%s: dimension %d is %lld, it does not broadcast to %lld", name,
                           (int)i, (long long)array->sizes[i], (long long)wanted[first + i]);
        strides[first + i] = array->sizes[i] == 1 ? 0 : array->strides[i];
    }
    if (array->rank == 0 || array->sizes[array->rank - 1] != args->k_len ||
        !last_is_contiguous(array))
        return af_fail(err, ANYFLASH_E_ARGUMENT,
                       "%s: its last dimension must be %lld contiguous keys", name,
                       (long long)args->k_len);
    out->data = array->data;
    out->dtype = array->type;
    out->batch_stride = strides[0];
    out->head_stride = strides[1];
    out->row_stride = strides[2];
    return ANYFLASH_OK;
}

static enum anyflash_status take_bias_and_mask(const struct af_arrays *a,
                                               struct anyflash_attend_args *args,
                                               struct anyflash_error *err)
{
    if (a->bias.given && !is_float(a->bias.type))
        return af_fail(err, ANYFLASH_E_ARGUMENT, "bias: its element type is not a float type");
    if (a->mask.given && a->mask.type != ANYFLASH_BOOL)
        return af_fail(err, ANYFLASH_E_ARGUMENT, "mask: its element type is not bool");
    enum anyflash_status status = take_scores(&a->bias, "bias", args, &args->bias, err);
    return status == ANYFLASH_OK ? take_scores(&a->mask, "mask", args, &args->mask, err)
                                 : status;
}

static enum anyflash_status take_heads(const struct af_arrays *a,
                                       struct anyflash_attend_args *args,
                                       struct anyflash_error *err)
{
    const struct af_array *slopes = &a->alibi_slopes, *sinks = &a->sinks;
    if (slopes->given) {
        bool each = slopes->rank == 2;
        if (slopes->type != ANYFLASH_F32 || (slopes->rank != 1 && !each) ||
            slopes->sizes[slopes->rank - 1] != args->heads ||
            (each && slopes->sizes[0] != args->batch) || !last_is_contiguous(slopes))
            return af_fail(err, ANYFLASH_E_ARGUMENT,
                           "alibi_slopes: must be float32 of shape (%lld,) or (%lld, %lld)",
                           (long long)args->heads, (long long)args->batch,
                           (long long)args->heads);
        args->alibi_slopes = slopes->data;
        args->alibi_batch_stride = each ? slopes->strides[0] : 0;
    }
    if (!sinks->given)
        return ANYFLASH_OK;
    if (sinks->type != ANYFLASH_F32 || sinks->rank != 1 || sinks->sizes[0] != args->heads ||
        !last_is_contiguous(sinks))
        return af_fail(err, ANYFLASH_E_ARGUMENT, "sinks: must be float32 of shape (%lld,)",
                       (long long)args->heads);
    args->sinks = sinks->data;
    return ANYFLASH_OK;
}

enum anyflash_status af_arrays_problem(const struct af_arrays *arrays,
                                       struct anyflash_attend_args *args,
                                       struct anyflash_error *err)
{
    const struct af_arrays *a = arrays;
    bool k_packed = a->cu_seqlens_k.given;
    struct axes q_axes = axes_of(a->cu_seqlens_q.given, a->heads_first);
    struct axes k_axes = axes_of(k_packed, a->heads_first);
    enum anyflash_status status = check_rows(&a->q, "q", a->cu_seqlens_q.given, err);
    if (status == ANYFLASH_OK)
        status = check_rows(&a->k, "k", k_packed, err);
    if (status == ANYFLASH_OK)
        status = check_rows(&a->v, "v", k_packed, err);
    if (status == ANYFLASH_OK)
        status = check_agree(a, err);
    if (status == ANYFLASH_OK)
        status = take_lengths(a, q_axes, k_axes, args, err);
    if (status == ANYFLASH_OK)
        status = take_indexes(a, args, err);
    if (status == ANYFLASH_OK)
        status = take_heads(a, args, err);
    if (status == ANYFLASH_OK)
        status = take_bias_and_mask(a, args, err);
    if (status != ANYFLASH_OK)
        return status;
    args->head_dim = a->q.sizes[a->q.rank - 1];
    args->value_dim = a->v.sizes[a->v.rank - 1];
    args->q = tensor_of(&a->q, q_axes);
    args->k = tensor_of(&a->k, k_axes);
    args->v = tensor_of(&a->v, k_axes);
    return ANYFLASH_OK;
}

int32_t af_arrays_out_sizes(const struct af_arrays *arrays,
                            const struct anyflash_attend_args *args,
                            int64_t sizes[AF_ARRAY_RANK_MAX])
{
    for (int32_t i = 0; i < arrays->q.rank - 1; i++)
        sizes[i] = arrays->q.sizes[i];
    sizes[arrays->q.rank - 1] = args->value_dim;
    return arrays->q.rank;
}

int32_t af_arrays_lse_sizes(const struct anyflash_attend_args *args,
                            int64_t sizes[AF_ARRAY_RANK_MAX])
{
    if (args->cu_seqlens_q != NULL) {
        sizes[0] = args->heads;
        sizes[1] = args->total_q;
        return 2;
    }
    sizes[0] = args->batch;
    sizes[1] = args->heads;
    sizes[2] = args->q_len;
    return 3;
}

static bool same_sizes(const struct af_array *array, int32_t rank, const int64_t *sizes)
{
    if (array->rank != rank)
        return false;
    for (int32_t i = 0; i < rank; i++) {
        if (array->sizes[i] != sizes[i])
            return false;
    }
    return last_is_contiguous(array);
}

bool af_arrays_rows(const struct af_arrays *arrays, const struct anyflash_attend_args *args,
                    const struct af_array *array, int64_t dim, struct anyflash_tensor *out)
{
    int64_t sizes[AF_ARRAY_RANK_MAX];
    int32_t rank = af_arrays_out_sizes(arrays, args, sizes);
    sizes[rank - 1] = dim;
    if (!is_float(array->type) || !same_sizes(array, rank, sizes))
        return false;
    *out = tensor_of(array, axes_of(args->cu_seqlens_q != NULL, arrays->heads_first));
    return true;
}

bool af_arrays_set_lse(const struct af_array *lse, struct anyflash_attend_args *args)
{
    int64_t sizes[AF_ARRAY_RANK_MAX];
    int32_t rank = af_arrays_lse_sizes(args, sizes);
    if (lse->type != ANYFLASH_F32 || !same_sizes(lse, rank, sizes))
        return false;
    args->lse = lse->data;
    args->lse_batch_stride = rank == 3 ? lse->strides[0] : 0;
    args->lse_head_stride = lse->strides[rank - 2];
    return true;
}
