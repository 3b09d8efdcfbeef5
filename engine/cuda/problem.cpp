/*
 * problem.cpp: the checks of a call. What flash-attn refuses is refused in flash-attn's own
 * words ("... for now" included), because programs compare them.
 */
#include "glue.h"

#include <climits>
#include <cstdarg>
#include <cstring>

#define HEAD_DIM_MAX 256
#define PAGE_ROWS 256 /* of which a page has a multiple */

enum anyflash_status af_glue_fail(struct anyflash_error *err, enum anyflash_status status,
                                  const char *format, ...)
{
    if (err != NULL) {
        va_list values;
        va_start(values, format);
        vsnprintf(err->message, sizeof err->message, format, values);
        va_end(values);
        err->status = status;
    }
    return status;
}

enum anyflash_status af_glue_failed(struct anyflash_error *err, cudaError_t code)
{
    bool absent = code == cudaErrorNoDevice || code == cudaErrorInsufficientDriver ||
                  code == cudaErrorInvalidDevice;
    return af_glue_fail(err, absent ? ANYFLASH_E_NOT_FOUND : ANYFLASH_E_IO, "CUDA: %s",
                        cudaGetErrorString(code));
}

void *af_glue_workspace_take(struct af_glue_workspace *workspace, size_t bytes)
{
    void *block = workspace->memory == NULL ? NULL : workspace->memory + workspace->used_bytes;
    workspace->used_bytes += (bytes + 255) / 256 * 256;
    return block;
}

/* Copies a struct whose caller may know fewer members; the others keep their defaults. */
template <typename T> static bool copy_struct(T *to, const T *from)
{
    size_t size = from == NULL ? 0 : from->struct_size;
    if (size < sizeof(size_t) || size > 4096)
        return false;
    memcpy(to, from, size < sizeof *to ? size : sizeof *to);
    to->struct_size = sizeof *to;
    return true;
}

/* A feature of anyflash_attend() that the kernels lack, or NULL. */
static const char *lacking(const struct anyflash_attend_args *a)
{
    bool aligned = a->align == ANYFLASH_ALIGN_BOTTOM_RIGHT;
    bool aligns =
        a->causal || a->window_left >= 0 || a->window_right >= 0 || a->alibi_slopes != NULL;
    return a->bias.data != NULL                   ? "bias"
           : a->mask.data != NULL                 ? "mask"
           : a->sinks != NULL                     ? "sinks"
           : a->seqused_q != NULL                 ? "seqused_q"
           : a->k_scales != NULL                  ? "k_scales"
           : a->v_scales != NULL                  ? "v_scales"
           : aligns && !aligned                   ? "align other than bottom right"
           : a->value_dim != a->head_dim          ? "value_dim other than head_dim"
           : a->leftpad_k && a->block_table       ? "leftpad_k with pages"
           : a->cache_batch_idx && a->block_table ? "cache_batch_idx with pages"
                                                  : NULL;
}

static bool fits_int(int64_t value, int64_t least)
{
    return value >= least && value <= INT_MAX - 256;
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
    for (const auto &size : sizes)
        if (!fits_int(size.value, size.least))
            return af_glue_fail(err, ANYFLASH_E_ARGUMENT, "%s is %lld, outside %lld to 2^31",
                                size.name, (long long)size.value, (long long)size.least);
    if (a->heads % a->kv_heads != 0)
        return af_glue_fail(err, ANYFLASH_E_ARGUMENT,
                            "Number of heads in key/value must divide number of heads in query "
                            "(%lld, %lld)",
                            (long long)a->kv_heads, (long long)a->heads);
    if (a->head_dim > HEAD_DIM_MAX)
        return af_glue_fail(err, ANYFLASH_E_UNSUPPORTED,
                            "FlashAttention only supports head dimension at most %d, not %lld",
                            HEAD_DIM_MAX, (long long)a->head_dim);
    if (a->head_dim % 8 != 0)
        return af_glue_fail(err, ANYFLASH_E_UNSUPPORTED,
                            "head_size should be a multiple of 8, not %lld",
                            (long long)a->head_dim);
    return ANYFLASH_OK;
}

static enum anyflash_status check_types(const struct anyflash_attend_args *a,
                                        struct anyflash_error *err)
{
    const struct {
        const char *name;
        const struct anyflash_tensor *tensor;
        bool needed;
    } tensors[] = {{"q", &a->q, af_glue_rows(a) > 0},
                   {"k", &a->k, af_glue_keys(a) > 0},
                   {"v", &a->v, af_glue_keys(a) > 0},
                   {"o", &a->o, af_glue_rows(a) > 0},
                   {"k_new", &a->k_new, a->v_new.data != NULL},
                   {"v_new", &a->v_new, a->k_new.data != NULL}};
    if (a->q.dtype != ANYFLASH_F16 && a->q.dtype != ANYFLASH_BF16)
        return af_glue_fail(err, ANYFLASH_E_UNSUPPORTED,
                            "FlashAttention only support fp16 and bf16 data type");
    for (const auto &row : tensors) {
        if (row.needed && row.tensor->data == NULL)
            return af_glue_fail(err, ANYFLASH_E_ARGUMENT, "%s is missing", row.name);
        if (row.tensor->data != NULL && row.tensor->dtype != a->q.dtype)
            return af_glue_fail(err, ANYFLASH_E_UNSUPPORTED,
                                "q and %s must have the same dtype", row.name);
    }
    return ANYFLASH_OK;
}

/* lse has no strides in the kernels. */
static bool lse_is_contiguous(const struct anyflash_attend_args *a)
{
    int64_t rows = a->cu_seqlens_q != NULL ? a->total_q : a->q_len;
    bool one_batch = a->cu_seqlens_q != NULL || a->batch == 1;
    return a->lse == NULL || ((a->heads == 1 || a->lse_head_stride == rows) &&
                              (one_batch || a->lse_batch_stride == a->heads * rows));
}

static enum anyflash_status check_options(const struct anyflash_attend_args *a,
                                          const struct anyflash_cuda_args *cuda,
                                          struct anyflash_error *err)
{
    const char *name = lacking(a);
    if (name != NULL)
        return af_glue_fail(err, ANYFLASH_E_UNSUPPORTED, "the CUDA kernels do not support %s",
                            name);
    if ((a->cu_seqlens_q != NULL) != (a->cu_seqlens_k != NULL))
        return af_glue_fail(err, ANYFLASH_E_UNSUPPORTED,
                            "cu_seqlens_q and cu_seqlens_k must be given together");
    if (!(a->dropout >= 0 && a->dropout < 1))
        return af_glue_fail(err, ANYFLASH_E_ARGUMENT, "dropout is %g, outside 0 to 1",
                            (double)a->dropout);
    if (a->softcap > 0 && a->dropout > 0)
        return af_glue_fail(err, ANYFLASH_E_UNSUPPORTED,
                            "Softcapping does not support dropout for now");
    if (a->dropout > 0 && cuda->rng_state == NULL)
        return af_glue_fail(err, ANYFLASH_E_ARGUMENT, "dropout needs rng_state");
    if (a->dropout == 0 && cuda->dropout_scores != NULL)
        return af_glue_fail(err, ANYFLASH_E_ARGUMENT,
                            "return_softmax is only supported when p_dropout > 0.0");
    if (a->block_table != NULL && (a->page_size <= 0 || a->page_size % PAGE_ROWS != 0))
        return af_glue_fail(err, ANYFLASH_E_UNSUPPORTED,
                            "Paged KV cache block size must be divisible by %d, not %lld",
                            PAGE_ROWS, (long long)a->page_size);
    if (cuda->splits < 0 || cuda->splits > 128)
        return af_glue_fail(err, ANYFLASH_E_UNSUPPORTED, "num_splits > 128 not supported");
    if (!lse_is_contiguous(a))
        return af_glue_fail(err, ANYFLASH_E_UNSUPPORTED, "lse is not contiguous");
    return ANYFLASH_OK;
}

static enum anyflash_status check_new_keys(const struct anyflash_attend_args *a,
                                           struct anyflash_error *err)
{
    if (a->k_new.data != NULL && a->cu_seqlens_q != NULL)
        return af_glue_fail(err, ANYFLASH_E_UNSUPPORTED,
                            "the CUDA kernels do not support k_new with cu_seqlens");
    if (a->k_new.data != NULL && a->seqused_k == NULL)
        return af_glue_fail(err, ANYFLASH_E_ARGUMENT,
                            "If key is supplied, seqlens_k must also be passed in");
    if (a->k_new.data != NULL && a->q_len > a->k_len)
        return af_glue_fail(
            err, ANYFLASH_E_ARGUMENT,
            "If key is supplied, it must have seqlen <= the seqlen of the KV cache");
    if (a->rotary_cos == NULL)
        return ANYFLASH_OK;
    if (a->k_new.data == NULL || a->rotary_sin == NULL)
        return af_glue_fail(err, ANYFLASH_E_ARGUMENT,
                            "If rotary cos/sin are provided, new key / value to be appended to "
                            "KV cache must also be provided");
    if (a->rotary_dim < 0 || a->rotary_dim > a->head_dim)
        return af_glue_fail(err, ANYFLASH_E_ARGUMENT, "rotary_dim must be <= headdim");
    if (a->rotary_dim % 16 != 0)
        return af_glue_fail(err, ANYFLASH_E_UNSUPPORTED,
                            "Only rotary dimensions divisible by 16 are currently supported");
    if (a->rotary_rows < a->k_len)
        return af_glue_fail(err, ANYFLASH_E_ARGUMENT,
                            "cos/sin seqlen must be at least the seqlen of KV cache");
    return ANYFLASH_OK;
}

static enum anyflash_status check_backward(const struct anyflash_attend_args *a,
                                           struct anyflash_error *err)
{
    const char *name = a->block_table != NULL       ? "block_table"
                       : a->cache_batch_idx != NULL ? "cache_batch_idx"
                       : a->k_new.data != NULL      ? "k_new"
                       : a->seqused_k != NULL       ? "seqused_k"
                       : a->leftpad_k != NULL       ? "leftpad_k"
                                                    : NULL;
    if (name != NULL)
        return af_glue_fail(err, ANYFLASH_E_UNSUPPORTED,
                            "the CUDA kernels do not support %s in backward", name);
    if (a->lse == NULL && af_glue_rows(a) > 0)
        return af_glue_fail(err, ANYFLASH_E_ARGUMENT, "lse is missing");
    return ANYFLASH_OK;
}

/* The device's properties do not change: asking needs it neither current nor idle. */
static enum anyflash_status find_device(struct af_glue_problem *problem,
                                        struct anyflash_error *err)
{
    int major = 0;
    cudaError_t code = cudaSuccess;
    problem->device = problem->cuda.device;
    if (problem->device < 0)
        code = cudaGetDevice(&problem->device);
    if (code == cudaSuccess)
        code =
            cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, problem->device);
    if (code == cudaSuccess)
        code = cudaDeviceGetAttribute(&problem->multiprocessors, cudaDevAttrMultiProcessorCount,
                                      problem->device);
    if (code != cudaSuccess)
        return af_glue_failed(err, code);
    if (major < 8)
        return af_glue_fail(err, ANYFLASH_E_UNSUPPORTED,
                            "FlashAttention only supports Ampere GPUs or newer.");
    return ANYFLASH_OK;
}

/* A window that reaches beyond all keys is none. */
static int without_effect(int64_t window, int64_t keys)
{
    return window < 0 || window >= keys ? -1 : (int)window;
}

/*
 * Causality, windows and grouped heads, in flash-attn's order: whether heads are grouped is
 * decided on the shortened windows by mha_fwd() only.
 */
static void settle_mask(struct af_glue_problem *problem, bool backward)
{
    const struct anyflash_attend_args *a = &problem->a;
    bool dense = !problem->packed && !problem->cache;
    bool one_row = !backward && a->q_len == 1;
    int64_t left = a->window_left, right = a->window_right;
    if (dense && !backward) {
        left = without_effect(left, a->k_len);
        right = without_effect(right, a->k_len);
    }
    problem->causal = a->causal && !(one_row && a->alibi_slopes == NULL);
    right = problem->causal ? 0 : right;
    problem->grouped = one_row && a->heads > a->kv_heads && left < 0 && right < 0 &&
                       a->dropout == 0 && a->alibi_slopes == NULL &&
                       !(problem->packed && a->total_q != a->batch);
    if (!dense || backward) {
        left = without_effect(left, a->k_len);
        right = without_effect(right, a->k_len);
    }
    problem->window_left = (int)left;
    problem->window_right = (int)right;
    problem->rows = (int)(problem->grouped ? a->heads / a->kv_heads : a->q_len);
    problem->heads = (int)(problem->grouped ? a->kv_heads : a->heads);
}

enum anyflash_status af_glue_problem_init(struct af_glue_problem *problem,
                                          const struct anyflash_attend_args *args,
                                          const struct anyflash_cuda_args *cuda, bool backward,
                                          struct anyflash_error *err)
{
    const struct anyflash_cuda_args defaults = ANYFLASH_CUDA_ARGS_INIT;
    problem->a = ANYFLASH_ATTEND_ARGS_INIT;
    problem->cuda = defaults;
    if (!copy_struct(&problem->a, args) || (cuda != NULL && !copy_struct(&problem->cuda, cuda)))
        return af_glue_fail(err, ANYFLASH_E_ARGUMENT, "struct_size is not set");
    const struct anyflash_attend_args *a = &problem->a;
    enum anyflash_status status = check_sizes(a, err);
    if (status == ANYFLASH_OK)
        status = check_types(a, err);
    if (status == ANYFLASH_OK)
        status = check_options(a, &problem->cuda, err);
    if (status == ANYFLASH_OK)
        status = check_new_keys(a, err);
    if (status == ANYFLASH_OK && backward)
        status = check_backward(a, err);
    if (status != ANYFLASH_OK)
        return status;
    problem->packed = a->cu_seqlens_q != NULL;
    problem->paged = a->block_table != NULL;
    problem->cache = !problem->packed &&
                     (problem->paged || a->seqused_k != NULL || a->cache_batch_idx != NULL ||
                      a->leftpad_k != NULL || problem->cuda.splits != 0);
    settle_mask(problem, backward);
    status = af_glue_kernels_check(problem, backward, err);
    return status != ANYFLASH_OK ? status : find_device(problem, err);
}
