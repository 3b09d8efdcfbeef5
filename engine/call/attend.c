/*
 * attend.c: runs one forward call, one function call per step: problem.c checks,
 * forward_plan.c plans, prepare.c appends to caches, kernels compute,
 * forward_plan.c merges.
 */
#include "engine/attn/prepare.h"
#include "engine/attn/rows.h"
#include "engine/call/context.h"
#include "engine/call/forward_plan.h"

/* Rows that a worker merges at a time: their partial results are neighbours. */
#define MERGE_TOGETHER 16

/* State of one call. */
struct call {
    struct af_problem problem;
    struct af_forward_plan plan;
    char *scratch; /* of worker 0; the others follow */
};

static struct af_scratch scratch_of(const struct call *call, int worker)
{
    size_t bytes = call->plan.worker_bytes;
    return (struct af_scratch){call->scratch + (size_t)worker * bytes, bytes};
}

static void run_task(void *context, struct af_piece piece)
{
    struct call *call = context;
    const struct af_schedule *schedule = &call->plan.schedule;
    struct af_forward_task task, next;
    const struct af_kernel *kernel = af_schedule_task(schedule, piece.index, &task);
    task.keys_are_kept = piece.follows && AF_GUARD(!task.keys_are_new);
    if (kernel == schedule->tile_kernel && piece.next < schedule->task_count) {
        af_schedule_task(schedule, piece.next, &next);
        task.next = &next;
    }
    /* AF_FN(run) of cpu/forward_template.h or cpu/decode_template.h */
    kernel->run_forward(&task, scratch_of(call, piece.worker));
}

static void run_merge(void *context, struct af_piece piece)
{
    struct call *call = context;
    af_schedule_merge(&call->plan.schedule, piece.index, scratch_of(call, piece.worker).memory);
}

/* Clears rows that a sequence owns but does not use: o = 0, lse = -infinity. */
static void clear_unused(const struct af_problem *problem)
{
    const struct anyflash_attend_args *a = &problem->a;
    float zeros[AF_DIM_MAX] = {0};
    for (int64_t b = 0; b < a->batch; b++) {
        struct af_sequence sequence = af_problem_sequence(problem, b);
        for (int64_t h = 0; h < a->heads; h++) {
            for (int64_t i = sequence.q_count; i < sequence.q_full; i++) {
                float *lse = af_lse_at(problem, &sequence, h, i);
                af_convert_store_floats(&a->o, &sequence, h, i, zeros, a->value_dim);
                if (lse != NULL)
                    *lse = -INFINITY;
            }
        }
    }
}

/* Computes; af_context_call() calls it. */
static enum anyflash_status run(struct anyflash_context *context, void *state,
                                struct anyflash_error *err)
{
    struct call *call = state;
    void *memory = NULL;
    enum anyflash_status status = af_forward_plan_init(
        &call->plan, &call->problem, context->cpu_features, af_pool_size(context->pool), err);
    if (status == ANYFLASH_OK)
        status = af_context_memory(context, call->plan.total_bytes, &memory, err);
    if (status != ANYFLASH_OK)
        return status;
    const double flops = af_context_flops(&call->problem.a, 2.0);
    af_prepare(&call->problem, memory);
    call->scratch = af_forward_plan_place(&call->plan, memory);
    const struct af_schedule *schedule = &call->plan.schedule;
    af_context_run(context, flops, schedule->task_count, schedule->together, run_task, call);
    if (schedule->merge_count > 0)
        af_context_run(context, flops, schedule->merge_count, MERGE_TOGETHER, run_merge, call);
    clear_unused(&call->problem);
    return ANYFLASH_OK;
}

enum anyflash_status anyflash_attend(struct anyflash_context *context,
                                     const struct anyflash_attend_args *args,
                                     struct anyflash_error *err)
{
    struct call call;
    enum anyflash_status status = af_problem_init(&call.problem, args, err);
    return status == ANYFLASH_OK ? af_context_call(context, run, &call, err) : status;
}
