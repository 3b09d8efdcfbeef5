/*
 * forward_plan.h: what is settled before a forward call computes: its kernels,
 * its cuts and its memory. attend.c carries it out; explain.c tells it.
 *
 * Memory is one block: turned queries (prepare.h), partial results (split.h),
 * then the scratch of each worker; each part begins on a multiple of 64 bytes.
 */
#ifndef AF_ENGINE_ATTN_FORWARD_PLAN_H
#define AF_ENGINE_ATTN_FORWARD_PLAN_H

#include "engine/attn/schedule.h"

struct af_forward_plan {
    struct af_schedule schedule;
    size_t o_count;  /* floats of partial results */
    size_t ml_count; /* floats of their maxima and sums */
    size_t prepare_bytes;
    size_t partial_bytes;
    size_t worker_bytes; /* scratch of one worker */
    size_t total_bytes;
};

/*
 * Plans `problem`, which must outlive the plan, for `workers` workers on a
 * processor with `cpu_features`. Allocates nothing. Fails with LIMIT when the
 * memory would not fit an address space.
 */
enum anyflash_status af_forward_plan_init(struct af_forward_plan *plan,
                                          const struct af_problem *problem,
                                          uint32_t cpu_features, int workers,
                                          struct anyflash_error *err);

#endif
