/*
 * forward_plan.h: everything decided before a forward call computes: its
 * kernels, how it is split into tasks, and its memory; also the merging of
 * partial results. attend.c executes a plan, explain.c describes it.
 *
 * Each sequence is split by its own lengths: into key heads, row blocks (last first
 * when causal, because these take longest) and, if it has more than its share of the
 * work of the call, chunks of keys. Tasks are numbered in this order, sequences with
 * many rows before those with few. There are no empty tasks. The split depends only on
 * shapes and the kernels, never on the number of threads or on where keys are stored,
 * so the result is bit-identical for every number of threads. Only the number of key heads
 * of a decode task depends on these, and it does not change results.
 *
 * Memory is one block: rotated queries (prepare.h), the list of sequences, partial
 * results, then the scratch of each worker; each part starts at a multiple of 64 bytes.
 */
#ifndef AF_ENGINE_CALL_FORWARD_PLAN_H
#define AF_ENGINE_CALL_FORWARD_PLAN_H

#include "engine/attn/kernel.h"

/* A sequence in the order of its tasks, and what is numbered before it. */
struct af_schedule_entry {
    int64_t batch;
    int64_t first_task;
    int64_t first_merge; /* rows whose keys are split */
    int64_t first_row;   /* rows of partial results */
};

struct af_schedule {
    const struct af_problem *problem;
    const struct af_kernel *tile_kernel;   /* for many rows */
    const struct af_kernel *decode_kernel; /* for few rows; NULL: no decode kernel can run */
    bool uses_tile, uses_decode;           /* whether a sequence has tasks for it */
    int64_t rows_per_task;                 /* of tile_kernel */
    int64_t heads_per_task;                /* key heads of a task for decode_kernel */
    double work;                           /* of all sequences, in bytes read */
    int64_t task_count;
    int64_t merge_count;  /* rows whose keys are split */
    int64_t partial_rows; /* rows of partial results */
    int64_t chunks;       /* most chunks of a row task */
    int64_t together;     /* adjacent tasks that read the same keys */
    size_t scratch_bytes; /* of one worker */

    /* Set by af_forward_plan_place(). Not owned. */
    const struct af_schedule_entry *entries; /* [batch] */
    float *partial_o;                        /* [partial_rows, Dv] */
    float *partial_ml;                       /* [partial_rows, 2]: maximum, sum (kernel.h) */
};

struct af_forward_plan {
    struct af_schedule schedule;
    size_t prepare_bytes;
    size_t entry_bytes;
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
 * Gives a plan its memory of total_bytes, aligned to 64 bytes, and lists the sequences
 * there. Returns the scratch of worker 0; that of the others follows.
 */
char *af_forward_plan_place(struct af_forward_plan *plan, char *memory);

/* Fills in task `index` of a plan with memory; returns the kernel that runs it. */
const struct af_kernel *af_schedule_task(const struct af_schedule *schedule, int64_t index,
                                         struct af_forward_task *task);

/*
 * Merges the chunks of row `index`, below merge_count, into o and lse; `line` is scratch
 * of value_dim floats.
 */
void af_schedule_merge(const struct af_schedule *schedule, int64_t index, float *line);

#endif
