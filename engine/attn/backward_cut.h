/*
 * backward_cut.h: a backward problem cut into tasks. Cuts depend on shapes
 * only, never on the number of threads.
 *
 * A task is a key head of a sequence and a chunk of its keys. Tasks that add to
 * the same elements of dbias form a chain, which one worker does in order; with
 * no such tasks every task is a chain.
 */
#ifndef AF_ENGINE_ATTN_BACKWARD_CUT_H
#define AF_ENGINE_ATTN_BACKWARD_CUT_H

#include "engine/attn/backward.h"

struct af_backward_cut {
    const struct af_backward_problem *problem;
    int64_t chunks;         /* of the longest sequence */
    int64_t keys_per_chunk; /* of every sequence */
    int64_t longest_rows;   /* q_count * group */
    int64_t batch_links;    /* batches and key heads in a chain */
    int64_t head_links;
    int64_t chain_count;
    size_t partial_count; /* floats of partial dq; 0: none */
};

/* Fails with LIMIT when partial dq cannot be counted. */
enum anyflash_status af_backward_cut_init(struct af_backward_cut *cut,
                                          const struct af_backward_problem *problem,
                                          struct anyflash_error *err);

/* Tasks in a chain. */
static inline int64_t af_backward_links(const struct af_backward_cut *cut)
{
    return cut->batch_links * cut->head_links;
}

/* Task `link` of chain `chain`. `partials` has partial_count floats, or is NULL. */
struct af_backward_task af_backward_cut_task(const struct af_backward_cut *cut, int64_t chain,
                                             int64_t link, float *partials);

/*
 * Adds the shares of one batch and key head in the order of the keys, and
 * writes dq, times scale. Nothing to do when there are no partials.
 */
void af_backward_cut_merge(const struct af_backward_cut *cut, const float *partials,
                           int64_t batch, int64_t kv_head);

#endif
