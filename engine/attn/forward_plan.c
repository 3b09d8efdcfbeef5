/*
 * forward_plan.c: chooses the kernels of a forward problem, cuts it and adds up
 * the memory. Called by attend.c and explain.c.
 */
#include "engine/attn/forward_plan.h"

#include "engine/attn/choose.h"
#include "engine/attn/prepare.h"
#include "engine/attn/split.h"

static size_t round_up(size_t bytes)
{
    return (bytes + 63) & ~(size_t)63;
}

static enum anyflash_status add_up(struct af_forward_plan *plan, int workers,
                                   struct anyflash_error *err)
{
    size_t floats, parts, scratch, front;
    plan->prepare_bytes = round_up(af_prepare_bytes(plan->schedule.problem));
    plan->worker_bytes = round_up(plan->schedule.scratch_bytes);
    if (!af_size_add(plan->o_count, plan->ml_count, &floats) ||
        !af_size_mul(floats, sizeof(float), &parts) ||
        !af_size_mul(plan->worker_bytes, (size_t)workers, &scratch) ||
        !af_size_add(plan->prepare_bytes, plan->partial_bytes = round_up(parts), &front) ||
        !af_size_add(front, scratch, &plan->total_bytes))
        return af_fail(err, ANYFLASH_E_LIMIT, "the call would need too much memory");
    return ANYFLASH_OK;
}

enum anyflash_status af_forward_plan_init(struct af_forward_plan *plan,
                                          const struct af_problem *problem,
                                          uint32_t cpu_features, int workers,
                                          struct anyflash_error *err)
{
    const struct af_kernel *tile = af_choose(problem, AF_FORWARD, cpu_features);
    if (tile == NULL)
        return af_fail(err, ANYFLASH_E_INTERNAL, "no kernel takes the problem");
    af_schedule_init(&plan->schedule, problem, tile,
                     af_choose(problem, AF_DECODE, cpu_features));
    enum anyflash_status status =
        af_split_floats(&plan->schedule, &plan->o_count, &plan->ml_count, err);
    return status != ANYFLASH_OK ? status : add_up(plan, workers, err);
}
