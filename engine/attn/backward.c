/*
 * backward.c: one backward call from arguments to gradients. Each step is a
 * call into a file of its own; after backward_problem.c nobody looks at
 * arguments again.
 */
#include "engine/attn/backward.h"

#include "engine/attn/backward_cut.h"
#include "engine/attn/backward_rows.h"
#include "engine/attn/context.h"

/* Below this many operations the caller computes alone: waking others costs more. */
#define ALONE_FLOPS 1.0e6

/* A call at work. */
struct call {
    struct af_backward_problem problem;
    struct af_backward_cut cut;
    const struct af_backward_kernel *kernel;
    float *partials;
    char *scratch; /* of worker 0; the others follow */
    size_t scratch_bytes;
    size_t partial_bytes;
    size_t total_bytes;
};

static size_t round_up(size_t bytes)
{
    return (bytes + 63) & ~(size_t)63;
}

/* The best kernel for the problem, or NULL. */
static const struct af_backward_kernel *choose(const struct af_problem *problem,
                                               uint32_t cpu_features)
{
    size_t count;
    const struct af_backward_kernel *const *kernels = af_backward_kernels(&count);
    while (count-- > 0) {
        const struct af_backward_kernel *kernel = kernels[count];
        if ((int32_t)kernel->dtype == problem->a.q.dtype &&
            (kernel->needs & cpu_features) != 0 && (problem->features & ~kernel->features) == 0)
            return kernel;
    }
    return NULL;
}

/* Settles kernel, cuts and memory. */
static enum anyflash_status plan(struct call *call, const struct anyflash_context *context,
                                 struct anyflash_error *err)
{
    call->kernel = choose(&call->problem.forward, context->cpu_features);
    if (call->kernel == NULL)
        return af_fail(err, ANYFLASH_E_INTERNAL, "no kernel takes the backward problem");
    enum anyflash_status status = af_backward_cut_init(&call->cut, &call->problem, err);
    if (status != ANYFLASH_OK)
        return status;
    size_t scratch;
    call->scratch_bytes = round_up(call->kernel->scratch_bytes(
        &call->problem, call->cut.longest_rows, call->cut.keys_per_chunk));
    if (!af_size_mul(call->cut.partial_count, sizeof(float), &call->partial_bytes) ||
        !af_size_mul(call->scratch_bytes, (size_t)af_pool_size(context->pool), &scratch) ||
        !af_size_add(round_up(call->partial_bytes), scratch, &call->total_bytes))
        return af_fail(err, ANYFLASH_E_LIMIT, "the call would need too much memory");
    return ANYFLASH_OK;
}

static void run_chain(void *context, struct af_piece piece)
{
    struct call *call = context;
    struct af_scratch scratch = {call->scratch + (size_t)piece.worker * call->scratch_bytes,
                                 call->scratch_bytes};
    for (int64_t link = 0; link < af_backward_links(&call->cut); link++) {
        struct af_backward_task task =
            af_backward_cut_task(&call->cut, piece.index, link, call->partials);
        if (task.key_begin < task.key_end)
            call->kernel->run(&task, scratch);
    }
}

static void run_merge(void *context, struct af_piece piece)
{
    struct call *call = context;
    const int64_t kv_heads = call->problem.forward.a.kv_heads;
    af_backward_cut_merge(&call->cut, call->partials, piece.index / kv_heads,
                          piece.index % kv_heads);
}

static void run_sink(void *context, struct af_piece piece)
{
    struct call *call = context;
    af_backward_sink(&call->problem, piece.index);
}

static double flops_of(const struct anyflash_attend_args *a)
{
    return 5.0 * (double)a->batch * (double)a->heads * (double)a->q_len * (double)a->k_len *
           (double)(a->head_dim + a->value_dim);
}

static void run_pieces(struct anyflash_context *context, struct call *call, int64_t count,
                       af_pool_body *body)
{
    if (flops_of(&call->problem.forward.a) >= ALONE_FLOPS) {
        af_pool_run(context->pool, count, 1, body, call);
        return;
    }
    for (int64_t index = 0; index < count; index++)
        body(call, (struct af_piece){index, index + 1, 0});
}

/* Computes in the context, whose turn the caller holds. */
static enum anyflash_status run(struct anyflash_context *context, struct call *call,
                                struct anyflash_error *err)
{
    const struct anyflash_attend_args *a = &call->problem.forward.a;
    enum anyflash_status status = plan(call, context, err);
    if (status != ANYFLASH_OK)
        return status;
    char *memory = af_context_memory(context, call->total_bytes);
    if (memory == NULL)
        return af_fail(err, ANYFLASH_E_NO_MEMORY, "cannot allocate %zu bytes of scratch",
                       call->total_bytes);
    call->partials = (float *)(void *)memory;
    call->scratch = memory + round_up(call->partial_bytes);
    af_backward_clear_unused(&call->problem);
    if (call->problem.dbias.data != NULL)
        af_backward_clear_bias(&call->problem);
    if (call->problem.dq.data != NULL || call->problem.dk.data != NULL ||
        call->problem.dbias.data != NULL)
        run_pieces(context, call, call->cut.chain_count, run_chain);
    if (call->cut.partial_count > 0)
        run_pieces(context, call, a->batch * a->kv_heads, run_merge);
    if (call->problem.dsinks != NULL)
        run_pieces(context, call, a->heads, run_sink);
    return ANYFLASH_OK;
}

enum anyflash_status anyflash_attend_backward(struct anyflash_context *context,
                                              const struct anyflash_attend_backward_args *args,
                                              struct anyflash_error *err)
{
    struct call call = {.kernel = NULL};
    struct anyflash_context *own = NULL;
    enum anyflash_status status = af_backward_problem_init(&call.problem, args, err);
    if (status == ANYFLASH_OK && context == NULL)
        status = anyflash_context_new(NULL, &own, err);
    if (status != ANYFLASH_OK)
        return status;
    struct anyflash_context *used = context == NULL ? own : context;
    pthread_mutex_lock(&used->turn);
    status = run(used, &call, err);
    pthread_mutex_unlock(&used->turn);
    anyflash_context_free(own);
    return status;
}
