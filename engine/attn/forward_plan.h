/*
 * forward_plan.h: everything decided before a forward call computes: its
 * kernels, how it is split into tasks, and its memory; also the merging of
 * partial results. attend.c executes a plan, explain.c describes it.
 *
 * The split depends only on shapes and the kernel, never on the number of
 * threads, so the result is bit-identical for every number of threads. Task
 * numbers run over sequences, key heads, row blocks (last first when causal,
 * because these take longest) and, if there are few of these, key chunks.
 *
 * Memory is one block: rotated queries (prepare.h), partial results, then the
 * scratch of each worker; each part starts at a multiple of 64 bytes.
 */
#ifndef AF_ENGINE_ATTN_FORWARD_PLAN_H
#define AF_ENGINE_ATTN_FORWARD_PLAN_H

#include "engine/attn/kernel.h"

/* How the sequences are split. Sequences of different lengths are split alike. */
struct af_schedule {
    const struct af_problem *problem;
    const struct af_kernel *tile_kernel;   /* for many rows */
    const struct af_kernel *decode_kernel; /* for few rows; NULL: no decode kernel can run */
    int64_t rows_per_task;                 /* of tile_kernel */
    int64_t keys_per_chunk;                /* at least k_len: no split over keys */
    int64_t chunks;                        /* of the longest sequence */
    int64_t blocks;                        /* row blocks of the longest sequence */
    int64_t row_tasks;                     /* batch * kv_heads * blocks */
    int64_t task_count;                    /* row_tasks * chunks */
    size_t scratch_bytes;                  /* of one worker */
    size_t partial_rows; /* rows of partial results per row task; 0: no split */
};

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

/*
 * Fills in task `index`. False when it is empty (a shorter sequence has fewer
 * blocks or chunks). *kernel_out is the kernel that runs it.
 */
bool af_schedule_task(const struct af_schedule *schedule, int64_t index,
                      struct af_forward_task *task, const struct af_kernel **kernel_out);

/*
 * Partial results of a schedule with chunks: o [row task][chunk][row][Dv], ml
 * [row task][chunk][row][2] (maximum in log2 units, sum). Not owned.
 */
struct af_partials {
    float *o;
    float *ml;
};

/* Sets the pointers to the task's partial results. */
void af_split_place(const struct af_schedule *schedule, const struct af_partials *partials,
                    int64_t index, struct af_forward_task *task);

/* Merges row task `row_task` into o and lse; `line` is scratch of value_dim floats. */
void af_split_merge(const struct af_schedule *schedule, const struct af_partials *partials,
                    int64_t row_task, float *line);

#endif
