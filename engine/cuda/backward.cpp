/*
 * backward.cpp: the parameters of the backward kernels, as mha_bwd() and mha_varlen_bwd() of
 * flash_api.cpp fill them, their workspace, and the sum over grouped heads.
 */
#include "glue.h"

#include <cstring>

/* Rows by which packed sequences lie apart in the workspace, so that kernels need no checks. */
#define ROWS_APART 128

/* What the gradients need besides the problem. */
struct gradients {
    struct anyflash_attend_backward_args args;
    void *dk_expanded, *dv_expanded; /* of all query heads, or NULL: not grouped */
    size_t dq_accum_bytes;
};

static enum anyflash_status check_gradients(const struct anyflash_attend_backward_args *args,
                                            struct gradients *gradients,
                                            struct anyflash_error *err)
{
    if (args == NULL || args->struct_size < sizeof *args || args->forward == NULL)
        return af_glue_fail(err, ANYFLASH_E_ARGUMENT, "struct_size or forward is not set");
    memcpy(&gradients->args, args, sizeof *args);
    const int64_t rows = af_glue_rows(args->forward), keys = af_glue_keys(args->forward);
    const struct {
        const char *name;
        const struct anyflash_tensor *tensor;
        int64_t rows;
    } tensors[] = {{"dout", &args->dout, rows},
                   {"dq", &args->dq, rows},
                   {"dk", &args->dk, keys},
                   {"dv", &args->dv, keys}};
    for (const auto &row : tensors) {
        if (row.tensor->data == NULL && row.rows > 0)
            return af_glue_fail(err, ANYFLASH_E_ARGUMENT, "%s is missing", row.name);
        if (row.tensor->dtype != args->forward->q.dtype)
            return af_glue_fail(err, ANYFLASH_E_UNSUPPORTED,
                                "q and %s must have the same dtype", row.name);
    }
    if (args->dbias.data != NULL || args->dsinks != NULL || args->dlse != NULL)
        return af_glue_fail(err, ANYFLASH_E_UNSUPPORTED,
                            "the CUDA kernels do not support dbias, dsinks and dlse");
    return ANYFLASH_OK;
}

/* Rows of softmax_d and dq_accum in all, and of one batch. */
static int64_t rows_of(const struct af_glue_problem *problem)
{
    return problem->packed
               ? problem->a.total_q + ROWS_APART * problem->a.batch
               : problem->a.batch * (int64_t)af_glue_round_up(problem->a.q_len, 128);
}

static void set_tensors(const struct af_glue_problem *problem,
                        const struct gradients *gradients, af_backward_params *params)
{
    const struct anyflash_attend_args *a = &problem->a;
    const struct anyflash_attend_backward_args *g = &gradients->args;
    const bool grouped = a->heads != a->kv_heads;
    const struct anyflash_tensor expanded =
        anyflash_bshd(NULL, a->q.dtype, a->heads, a->k_len, a->head_dim);
    const struct anyflash_tensor *dk = grouped ? &expanded : &g->dk;
    const struct anyflash_tensor *dv = grouped ? &expanded : &g->dv;
    params->do_ptr = g->dout.data;
    params->dq_ptr = g->dq.data;
    params->dk_ptr = grouped ? gradients->dk_expanded : g->dk.data;
    params->dv_ptr = grouped ? gradients->dv_expanded : g->dv.data;
    params->do_row_stride = g->dout.row_stride;
    params->do_head_stride = g->dout.head_stride;
    params->dq_row_stride = g->dq.row_stride;
    params->dq_head_stride = g->dq.head_stride;
    params->dk_row_stride = dk->row_stride;
    params->dk_head_stride = dk->head_stride;
    params->dv_row_stride = dv->row_stride;
    params->dv_head_stride = dv->head_stride;
    if (problem->packed)
        return;
    params->do_batch_stride = g->dout.batch_stride;
    params->dq_batch_stride = g->dq.batch_stride;
    params->dk_batch_stride = dk->batch_stride;
    params->dv_batch_stride = dv->batch_stride;
}

static void set_workspace(const struct af_glue_problem *problem, struct gradients *gradients,
                          af_backward_params *params, struct af_glue_workspace *workspace)
{
    const struct anyflash_attend_args *a = &problem->a;
    const int64_t rows = rows_of(problem);
    const int64_t heads = a->batch * a->heads;
    const size_t dq_bytes = (size_t)(rows * a->heads * params->d_rounded) * sizeof(float);
    const int64_t splits =
        problem->cuda.deterministic ? (problem->multiprocessors + heads - 1) / heads : 1;
    const size_t expanded_bytes =
        (size_t)((problem->packed ? a->total_k : a->batch * a->k_len) * a->heads * a->head_dim *
                 2);
    params->dsoftmax_sum = problem->cuda.softmax_d;
    if (params->dsoftmax_sum == NULL)
        params->dsoftmax_sum =
            af_glue_workspace_take(workspace, (size_t)(rows * a->heads) * sizeof(float));
    gradients->dq_accum_bytes = dq_bytes * (size_t)splits;
    params->dq_accum_ptr = af_glue_workspace_take(workspace, gradients->dq_accum_bytes);
    params->dq_accum_split_stride =
        problem->cuda.deterministic ? (int64_t)(dq_bytes / sizeof(float)) : 0;
    params->deterministic = problem->cuda.deterministic != 0;
    if (a->heads == a->kv_heads)
        return;
    gradients->dk_expanded = af_glue_workspace_take(workspace, expanded_bytes);
    gradients->dv_expanded = af_glue_workspace_take(workspace, expanded_bytes);
}

/* Without queries or keys all gradients and softmax_d are 0. */
static void write_empty(const struct af_glue_problem *problem,
                        const struct gradients *gradients, const af_backward_params *params,
                        cudaStream_t stream)
{
    const struct anyflash_attend_args *a = &problem->a;
    const int64_t batch = problem->packed ? 1 : a->batch;
    const int64_t rows = af_glue_rows(a), keys = af_glue_keys(a);
    af_glue_clear(&gradients->args.dq, batch, rows, a->heads, a->head_dim, stream);
    af_glue_clear(&gradients->args.dk, batch, keys, a->kv_heads, a->head_dim, stream);
    af_glue_clear(&gradients->args.dv, batch, keys, a->kv_heads, a->head_dim, stream);
    af_glue_fill((float *)params->dsoftmax_sum, rows_of(problem) * a->heads, 0, stream);
}

static void run(const struct af_glue_problem *problem, const struct gradients *gradients,
                af_backward_params *params, cudaStream_t stream)
{
    const struct anyflash_attend_args *a = &problem->a;
    const int64_t batch = problem->packed ? 1 : a->batch;
    const int64_t keys = af_glue_keys(a);
    const int64_t group = a->heads / a->kv_heads;
    if (params->deterministic)
        C10_CUDA_CHECK(
            cudaMemsetAsync(params->dq_accum_ptr, 0, gradients->dq_accum_bytes, stream));
    af_glue_run_backward(params, stream);
    if (group == 1)
        return;
    af_glue_sum_groups(&gradients->args.dk, gradients->dk_expanded, batch, keys, a->kv_heads,
                       group, a->head_dim, stream);
    af_glue_sum_groups(&gradients->args.dv, gradients->dv_expanded, batch, keys, a->kv_heads,
                       group, a->head_dim, stream);
}

static enum anyflash_status backward(const struct af_glue_problem *problem,
                                     struct gradients *gradients, bool runs,
                                     size_t *needed_bytes, struct anyflash_error *err)
{
    const cudaStream_t stream = (cudaStream_t)problem->cuda.stream;
    struct af_glue_workspace workspace = {(char *)problem->cuda.workspace, 0};
    af_backward_params params = {};
    af_glue_common_params(problem, &params);
    set_workspace(problem, gradients, &params, &workspace);
    set_tensors(problem, gradients, &params);
    *needed_bytes = workspace.used_bytes;
    if (!runs)
        return ANYFLASH_OK;
    if (workspace.used_bytes > problem->cuda.workspace_bytes)
        return af_glue_fail(err, ANYFLASH_E_NO_MEMORY, "the workspace has %zu of %zu bytes",
                            problem->cuda.workspace_bytes, workspace.used_bytes);
    if (problem->a.q_len == 0 || problem->a.k_len == 0)
        write_empty(problem, gradients, &params, stream);
    else
        run(problem, gradients, &params, stream);
    return ANYFLASH_OK;
}

static enum anyflash_status call(const struct anyflash_attend_backward_args *args,
                                 const struct anyflash_cuda_args *cuda, bool runs,
                                 size_t *needed_bytes, struct anyflash_error *err)
{
    struct af_glue_problem problem;
    struct gradients gradients = {};
    const auto body = [&] { return backward(&problem, &gradients, runs, needed_bytes, err); };
    enum anyflash_status status = check_gradients(args, &gradients, err);
    if (status == ANYFLASH_OK)
        status = af_glue_problem_init(&problem, gradients.args.forward, cuda, true, err);
    return status != ANYFLASH_OK ? status : af_glue_on_device(&problem, body, err);
}

enum anyflash_status anyflash_cuda_attend_backward(
    const struct anyflash_attend_backward_args *args, const struct anyflash_cuda_args *cuda,
    struct anyflash_error *err)
{
    size_t needed_bytes;
    return call(args, cuda, true, &needed_bytes, err);
}

enum anyflash_status anyflash_cuda_backward_workspace_bytes(
    const struct anyflash_attend_backward_args *args, const struct anyflash_cuda_args *cuda,
    size_t *needed_bytes_out, struct anyflash_error *err)
{
    return call(args, cuda, false, needed_bytes_out, err);
}
