/*
 * split.h: merging the partial results of split keys, in the order of the keys.
 */
#ifndef AF_ENGINE_ATTN_SPLIT_H
#define AF_ENGINE_ATTN_SPLIT_H

#include "engine/attn/schedule.h"

/*
 * Partial results of a schedule with chunks: o [row task][chunk][row][Dv], ml
 * [row task][chunk][row][2] (maximum in log2 units, sum). Not owned.
 */
struct af_partials {
    float *o;
    float *ml;
};

/* Floats that partials.o and partials.ml need. */
enum anyflash_status af_split_floats(const struct af_schedule *schedule, size_t *o_count_out,
                                     size_t *ml_count_out, struct anyflash_error *err);

/* Points the task's partial results to its places. */
void af_split_place(const struct af_schedule *schedule, const struct af_partials *partials,
                    int64_t index, struct af_forward_task *task);

/* Merges row task `row_task` into o and lse; `line` is scratch of value_dim floats. */
void af_split_merge(const struct af_schedule *schedule, const struct af_partials *partials,
                    int64_t row_task, float *line);

#endif
