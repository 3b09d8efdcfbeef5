/*
 * call_check.c: the checks of a call. What flash-attn refuses is refused in flash-attn's own
 * words ("... for now" included), because programs compare them. What torch guarantees its
 * extension, such as aligned tensors, is checked here: a kernel that reads an unaligned
 * address ends the caller's whole CUDA context.
 */
#include <limits.h>
#include <string.h>

#include "engine/base/args.h"
#include "engine/gpu/launch.h"

#define HEAD_DIM_MAX 256
#define PAGE_ROWS 256       /* of which a page has a multiple */
#define TENSOR_ALIGN 16     /* bytes that kernels load at once */
#define WORKSPACE_ALIGN 256 /* bytes */
#define SPLITS_MAX 128

_Static_assert(sizeof(struct anyflash_attend_args) == 672,
               "a new option: if the CUDA kernels lack it, lacking() must name it");

/* A feature of anyflash_attend() that the kernels lack, or NULL. */
static const char *lacking(const struct anyflash_attend_args *a)
{
    bool aligned = a->align == ANYFLASH_ALIGN_BOTTOM_RIGHT;
    bool aligns =
        a->causal || a->window_left >= 0 || a->window_right >= 0 || a->alibi_slopes != NULL;
    return a->bias.data != NULL                       ? "bias"
           : a->mask.data != NULL                     ? "mask"
           : a->sinks != NULL                         ? "sinks"
           : a->seqused_q != NULL                     ? "seqused_q"
           : a->k_scales != NULL                      ? "k_scales"
           : a->v_scales != NULL                      ? "v_scales"
           : aligns && !aligned                       ? "align other than bottom right"
           : a->value_dim != a->head_dim              ? "value_dim other than head_dim"
           : a->leftpad_k && a->block_table           ? "leftpad_k with pages"
           : a->cache_batch_idx && a->block_table     ? "cache_batch_idx with pages"
           : a->k_new.data != NULL && a->cu_seqlens_q ? "k_new with cu_seqlens"
                                                      : NULL;
}

/* What the kernels for split keys, which have no dropout, are needed for; or NULL. */
static const char *without_dropout(const struct anyflash_attend_args *a,
                                   const struct anyflash_cuda_args *cuda)
{
    return a->block_table != NULL       ? "pages"
           : a->k_new.data != NULL      ? "k_new"
           : a->cache_batch_idx != NULL ? "cache_batch_idx"
           : cuda->splits > 1           ? "splits"
                                        : NULL;
}

static enum anyflash_status check_sizes(const struct anyflash_attend_args *a,
                                        struct anyflash_error *err)
{
    const struct {
        const char *name;
        int64_t value, least;
    } sizes[] = {
        {"batch", a->batch, 1},     {"heads", a->heads, 1},     {"kv_heads", a->kv_heads, 1},
        {"q_len", a->q_len, 0},     {"k_len", a->k_len, 0},     {"head_dim", a->head_dim, 1},
        {"new_len", a->new_len, 0}, {"total_q", a->total_q, 0}, {"total_k", a->total_k, 0}};
    for (size_t i = 0; i < AF_COUNT(sizes); i++)
        if (sizes[i].value < sizes[i].least || sizes[i].value > INT_MAX - 256)
            return af_fail(err, ANYFLASH_E_ARGUMENT, "%s is %lld, outside %lld to 2^31",
                           sizes[i].name, (long long)sizes[i].value, (long long)sizes[i].least);
    if (a->heads % a->kv_heads != 0)
        return af_fail(err, ANYFLASH_E_ARGUMENT,
                       "Number of heads in key/value must divide number of heads in query "
                       "(%lld, %lld)",
                       (long long)a->kv_heads, (long long)a->heads);
    if (a->head_dim > HEAD_DIM_MAX)
        return af_fail(err, ANYFLASH_E_UNSUPPORTED,
                       "FlashAttention only supports head dimension at most %d, not %lld",
                       HEAD_DIM_MAX, (long long)a->head_dim);
    if (a->head_dim % 8 != 0)
        return af_fail(err, ANYFLASH_E_UNSUPPORTED,
                       "head_size should be a multiple of 8, not %lld", (long long)a->head_dim);
    return ANYFLASH_OK;
}

/* A tensor of a call, and how many batches, heads and rows it has. */
struct operand {
    const char *name;
    const struct anyflash_tensor *tensor;
    int64_t batches, heads, rows;
};

/* Whether kernels can load 16 bytes at a time; the stride of a single row is never used. */
static enum anyflash_status check_alignment(const struct operand *operand,
                                            struct anyflash_error *err)
{
    const struct anyflash_tensor *t = operand->tensor;
    const int64_t step = TENSOR_ALIGN / 2;
    if ((uintptr_t)t->data % TENSOR_ALIGN != 0)
        return af_fail(err, ANYFLASH_E_ARGUMENT, "%s is at %p, not at a multiple of %d bytes",
                       operand->name, t->data, TENSOR_ALIGN);
    if ((operand->batches > 1 && t->batch_stride % step != 0) ||
        (operand->heads > 1 && t->head_stride % step != 0) ||
        (operand->rows > 1 && t->row_stride % step != 0))
        return af_fail(err, ANYFLASH_E_ARGUMENT,
                       "a stride of %s is no multiple of %lld elements", operand->name,
                       (long long)step);
    return ANYFLASH_OK;
}

static enum anyflash_status check_operand(const struct anyflash_attend_args *a,
                                          const struct operand *operand,
                                          struct anyflash_error *err)
{
    if (operand->tensor->data == NULL)
        return operand->rows == 0
                   ? ANYFLASH_OK
                   : af_fail(err, ANYFLASH_E_ARGUMENT, "%s is missing", operand->name);
    if (operand->tensor->dtype != a->q.dtype)
        return af_fail(err, ANYFLASH_E_UNSUPPORTED, "q and %s must have the same dtype",
                       operand->name);
    return check_alignment(operand, err);
}

static enum anyflash_status check_tensors(const struct anyflash_attend_args *a,
                                          struct anyflash_error *err)
{
    const bool appends = a->k_new.data != NULL || a->v_new.data != NULL;
    const int64_t q_batches = a->cu_seqlens_q != NULL ? 1 : a->batch;
    const int64_t k_batches = a->block_table != NULL       ? 2 /* pages */
                              : a->cu_seqlens_k != NULL    ? 1
                              : a->cache_batch_idx != NULL ? 2
                                                           : a->batch;
    const int64_t q_rows = af_launch_q_rows(a), k_rows = af_launch_k_rows(a);
    const int64_t new_rows = appends ? a->new_len : 0;
    const struct operand operands[] = {{"q", &a->q, q_batches, a->heads, q_rows},
                                       {"k", &a->k, k_batches, a->kv_heads, k_rows},
                                       {"v", &a->v, k_batches, a->kv_heads, k_rows},
                                       {"o", &a->o, q_batches, a->heads, q_rows},
                                       {"k_new", &a->k_new, a->batch, a->kv_heads, new_rows},
                                       {"v_new", &a->v_new, a->batch, a->kv_heads, new_rows}};
    enum anyflash_status status = ANYFLASH_OK;
    if (a->q.dtype != ANYFLASH_F16 && a->q.dtype != ANYFLASH_BF16)
        return af_fail(err, ANYFLASH_E_UNSUPPORTED,
                       "FlashAttention only support fp16 and bf16 data type");
    for (size_t i = 0; i < AF_COUNT(operands) && status == ANYFLASH_OK; i++)
        status = check_operand(a, &operands[i], err);
    return status;
}

/* lse has no strides in the kernels. */
static bool lse_is_contiguous(const struct anyflash_attend_args *a)
{
    int64_t rows = a->cu_seqlens_q != NULL ? a->total_q : a->q_len;
    bool one_batch = a->cu_seqlens_q != NULL || a->batch == 1;
    return a->lse == NULL || ((a->heads == 1 || a->lse_head_stride == rows) &&
                              (one_batch || a->lse_batch_stride == a->heads * rows));
}

static enum anyflash_status check_dropout(const struct anyflash_attend_args *a,
                                          const struct anyflash_cuda_args *cuda,
                                          struct anyflash_error *err)
{
    const char *name = without_dropout(a, cuda);
    if (!(a->dropout >= 0 && a->dropout < 1))
        return af_fail(err, ANYFLASH_E_ARGUMENT, "dropout is %g, outside 0 to 1",
                       (double)a->dropout);
    if (a->dropout == 0)
        return cuda->dropout_scores == NULL
                   ? ANYFLASH_OK
                   : af_fail(err, ANYFLASH_E_ARGUMENT,
                             "return_softmax is only supported when p_dropout > 0.0");
    if (a->softcap > 0)
        return af_fail(err, ANYFLASH_E_UNSUPPORTED,
                       "Softcapping does not support dropout for now");
    if (name != NULL)
        return af_fail(err, ANYFLASH_E_UNSUPPORTED,
                       "the CUDA kernels do not support dropout with %s", name);
    if (cuda->rng_state == NULL)
        return af_fail(err, ANYFLASH_E_ARGUMENT, "dropout needs rng_state");
    return ANYFLASH_OK;
}

enum anyflash_status af_launch_check_workspace(const struct anyflash_cuda_args *cuda,
                                               struct anyflash_error *err)
{
    if (cuda->workspace_bytes > 0 && cuda->workspace == NULL)
        return af_fail(err, ANYFLASH_E_ARGUMENT,
                       "workspace is NULL, and workspace_bytes is %zu", cuda->workspace_bytes);
    if ((uintptr_t)cuda->workspace % WORKSPACE_ALIGN != 0)
        return af_fail(err, ANYFLASH_E_ARGUMENT,
                       "workspace is at %p, not at a multiple of %d bytes", cuda->workspace,
                       WORKSPACE_ALIGN);
    return ANYFLASH_OK;
}

static enum anyflash_status check_options(const struct anyflash_attend_args *a,
                                          const struct anyflash_cuda_args *cuda,
                                          struct anyflash_error *err)
{
    const char *name = lacking(a);
    if (name != NULL)
        return af_fail(err, ANYFLASH_E_UNSUPPORTED, "the CUDA kernels do not support %s", name);
    if ((a->cu_seqlens_q != NULL) != (a->cu_seqlens_k != NULL))
        return af_fail(err, ANYFLASH_E_UNSUPPORTED,
                       "cu_seqlens_q and cu_seqlens_k must be given together");
    if (a->block_table != NULL && (a->page_size <= 0 || a->page_size % PAGE_ROWS != 0))
        return af_fail(err, ANYFLASH_E_UNSUPPORTED,
                       "Paged KV cache block size must be divisible by %d, not %lld", PAGE_ROWS,
                       (long long)a->page_size);
    if (cuda->splits < 0 || cuda->splits > SPLITS_MAX)
        return af_fail(err, ANYFLASH_E_UNSUPPORTED, "num_splits > %d not supported",
                       SPLITS_MAX);
    if (!lse_is_contiguous(a))
        return af_fail(err, ANYFLASH_E_UNSUPPORTED, "lse is not contiguous");
    enum anyflash_status status = af_launch_check_workspace(cuda, err);
    return status == ANYFLASH_OK ? check_dropout(a, cuda, err) : status;
}

static enum anyflash_status check_new_keys(const struct anyflash_attend_args *a,
                                           struct anyflash_error *err)
{
    if (a->k_new.data != NULL && a->seqused_k == NULL)
        return af_fail(err, ANYFLASH_E_ARGUMENT,
                       "If key is supplied, seqlens_k must also be passed in");
    if (a->k_new.data != NULL && a->q_len > a->k_len)
        return af_fail(err, ANYFLASH_E_ARGUMENT,
                       "If key is supplied, it must have seqlen <= the seqlen of the KV cache");
    if (a->rotary_cos == NULL)
        return ANYFLASH_OK;
    if (a->k_new.data == NULL || a->rotary_sin == NULL)
        return af_fail(err, ANYFLASH_E_ARGUMENT,
                       "If rotary cos/sin are provided, new key / value to be appended to KV "
                       "cache must also be provided");
    if (a->rotary_dim < 0 || a->rotary_dim > a->head_dim)
        return af_fail(err, ANYFLASH_E_ARGUMENT, "rotary_dim must be <= headdim");
    if (a->rotary_dim % 16 != 0)
        return af_fail(err, ANYFLASH_E_UNSUPPORTED,
                       "Only rotary dimensions divisible by 16 are currently supported");
    if (a->rotary_rows < a->k_len)
        return af_fail(err, ANYFLASH_E_ARGUMENT,
                       "cos/sin seqlen must be at least the seqlen of KV cache");
    if ((uintptr_t)a->rotary_cos % TENSOR_ALIGN != 0 ||
        (uintptr_t)a->rotary_sin % TENSOR_ALIGN != 0)
        return af_fail(err, ANYFLASH_E_ARGUMENT,
                       "rotary_cos or rotary_sin is not at a multiple of %d bytes",
                       TENSOR_ALIGN);
    return ANYFLASH_OK;
}

static enum anyflash_status check_common(struct af_launch_call *call,
                                         struct anyflash_error *err)
{
    const struct anyflash_attend_args *a = &call->a;
    enum anyflash_status status = check_sizes(a, err);
    if (status == ANYFLASH_OK)
        status = check_tensors(a, err);
    if (status == ANYFLASH_OK)
        status = check_options(a, &call->cuda, err);
    return status == ANYFLASH_OK ? check_new_keys(a, err) : status;
}

/* A window that reaches beyond all keys is none. */
static int64_t without_effect(int64_t window, int64_t keys)
{
    return window < 0 || window >= keys ? -1 : window;
}

/*
 * Causality, windows and grouped heads, in flash-attn's order: whether heads are grouped is
 * decided on the shortened windows by mha_fwd() only.
 */
static void settle_mask(struct af_launch_call *call)
{
    const struct anyflash_attend_args *a = &call->a;
    bool dense = !call->packed && !call->cache;
    bool one_row = !call->backward && a->q_len == 1;
    int64_t left = a->window_left, right = a->window_right;
    if (dense && !call->backward) {
        left = without_effect(left, a->k_len);
        right = without_effect(right, a->k_len);
    }
    call->causal = a->causal && !(one_row && a->alibi_slopes == NULL);
    right = call->causal ? 0 : right;
    call->grouped = one_row && a->heads > a->kv_heads && left < 0 && right < 0 &&
                    a->dropout == 0 && a->alibi_slopes == NULL &&
                    !(call->packed && a->total_q != a->batch);
    if (!dense || call->backward) {
        left = without_effect(left, a->k_len);
        right = without_effect(right, a->k_len);
    }
    call->window_left = (int32_t)left;
    call->window_right = (int32_t)right;
    call->rows = (int32_t)(call->grouped ? a->heads / a->kv_heads : a->q_len);
    call->heads = (int32_t)(call->grouped ? a->kv_heads : a->heads);
}

static enum anyflash_status begin(struct af_launch_call *call,
                                  const struct anyflash_attend_args *args,
                                  const struct anyflash_cuda_args *cuda,
                                  struct anyflash_error *err)
{
    memset(call, 0, sizeof *call);
    call->cuda = ANYFLASH_CUDA_ARGS_INIT;
    enum anyflash_status status =
        af_args_copy(&call->a, sizeof call->a, args, AF_ARGS_ATTEND_BYTES, err);
    if (status == ANYFLASH_OK && cuda != NULL)
        status = af_args_copy(&call->cuda, sizeof call->cuda, cuda, sizeof call->cuda, err);
    return status == ANYFLASH_OK ? check_common(call, err) : status;
}

static void finish(struct af_launch_call *call)
{
    const struct anyflash_attend_args *a = &call->a;
    call->packed = a->cu_seqlens_q != NULL;
    call->paged = a->block_table != NULL;
    call->cache =
        !call->packed && (call->paged || a->seqused_k != NULL || a->cache_batch_idx != NULL ||
                          a->leftpad_k != NULL || call->cuda.splits != 0);
    settle_mask(call);
}

enum anyflash_status af_launch_check_forward(struct af_launch_call *call,
                                             const struct anyflash_attend_args *args,
                                             const struct anyflash_cuda_args *cuda,
                                             struct anyflash_error *err)
{
    enum anyflash_status status = begin(call, args, cuda, err);
    if (status == ANYFLASH_OK)
        finish(call);
    return status;
}

static enum anyflash_status check_no_cache(const struct anyflash_attend_args *a,
                                           struct anyflash_error *err)
{
    const char *name = a->block_table != NULL       ? "block_table"
                       : a->cache_batch_idx != NULL ? "cache_batch_idx"
                       : a->k_new.data != NULL      ? "k_new"
                       : a->seqused_k != NULL       ? "seqused_k"
                       : a->leftpad_k != NULL       ? "leftpad_k"
                                                    : NULL;
    if (name != NULL)
        return af_fail(err, ANYFLASH_E_UNSUPPORTED,
                       "the CUDA kernels do not support %s in backward", name);
    if (a->lse == NULL && af_launch_q_rows(a) > 0)
        return af_fail(err, ANYFLASH_E_ARGUMENT, "lse is missing");
    return ANYFLASH_OK;
}

static enum anyflash_status check_gradients(const struct af_launch_call *call,
                                            struct anyflash_error *err)
{
    const struct anyflash_attend_args *a = &call->a;
    const struct anyflash_attend_backward_args *g = &call->gradients;
    const bool packed = a->cu_seqlens_q != NULL;
    const int64_t batches = packed ? 1 : a->batch;
    const int64_t q_rows = af_launch_q_rows(a), k_rows = af_launch_k_rows(a);
    const struct operand operands[] = {{"dout", &g->dout, batches, a->heads, q_rows},
                                       {"dq", &g->dq, batches, a->heads, q_rows},
                                       {"dk", &g->dk, batches, a->kv_heads, k_rows},
                                       {"dv", &g->dv, batches, a->kv_heads, k_rows}};
    enum anyflash_status status = ANYFLASH_OK;
    if (g->dbias.data != NULL || g->dsinks != NULL || g->dlse != NULL)
        return af_fail(err, ANYFLASH_E_UNSUPPORTED,
                       "the CUDA kernels do not support dbias, dsinks and dlse");
    for (size_t i = 0; i < AF_COUNT(operands) && status == ANYFLASH_OK; i++)
        status = check_operand(a, &operands[i], err);
    return status;
}

enum anyflash_status af_launch_check_backward(struct af_launch_call *call,
                                              const struct anyflash_attend_backward_args *args,
                                              const struct anyflash_cuda_args *cuda,
                                              struct anyflash_error *err)
{
    struct anyflash_attend_backward_args gradients;
    enum anyflash_status status =
        af_args_copy(&gradients, sizeof gradients, args, AF_ARGS_BACKWARD_BYTES, err);
    if (status == ANYFLASH_OK)
        status = begin(call, gradients.forward, cuda, err);
    call->gradients = gradients;
    call->backward = true;
    if (status == ANYFLASH_OK)
        status = check_no_cache(&call->a, err);
    if (status == ANYFLASH_OK)
        status = check_gradients(call, err);
    if (status == ANYFLASH_OK)
        finish(call);
    return status;
}
