/*
 * schedule.h: a forward problem cut into tasks. Cuts depend on shapes and the
 * kernel only, never on the number of threads: so the bits of the result do not
 * depend on it either.
 *
 * Task numbers run over sequences, key heads, row blocks (last first when
 * causal: the longest first) and, where there are few of these, key chunks.
 */
#ifndef AF_ENGINE_ATTN_SCHEDULE_H
#define AF_ENGINE_ATTN_SCHEDULE_H

#include "engine/attn/kernel.h"

/* How the sequences are cut. Sequences of different lengths share the cuts. */
struct af_schedule {
    const struct af_problem *problem;
    const struct af_kernel *tile_kernel;   /* for many rows */
    const struct af_kernel *decode_kernel; /* for few rows; NULL: none takes it */
    int64_t rows_per_task;                 /* of tile_kernel */
    int64_t keys_per_chunk;                /* of a split; at least k_len: no split */
    int64_t chunks;                        /* of the longest sequence */
    int64_t blocks;                        /* row blocks of the longest sequence */
    int64_t row_tasks;                     /* batch * kv_heads * blocks */
    int64_t task_count;                    /* row_tasks * chunks */
    size_t scratch_bytes;                  /* of one worker */
    size_t partial_rows; /* rows of partial results of one row task; 0: no split */
};

void af_schedule_init(struct af_schedule *schedule, const struct af_problem *problem,
                      const struct af_kernel *tile_kernel,
                      const struct af_kernel *decode_kernel);

/*
 * Task `index`. False when it is empty (a shorter sequence has fewer blocks or
 * chunks). *kernel_out is the kernel that runs it.
 */
bool af_schedule_task(const struct af_schedule *schedule, int64_t index,
                      struct af_forward_task *task, const struct af_kernel **kernel_out);

#endif
