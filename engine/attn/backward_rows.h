/*
 * backward_rows.h: what the backward does outside its kernels: zeros where
 * nothing contributes, and the gradient of sinks.
 */
#ifndef AF_ENGINE_ATTN_BACKWARD_ROWS_H
#define AF_ENGINE_ATTN_BACKWARD_ROWS_H

#include "engine/attn/backward.h"

/* Zeros to dq rows and to dk and dv keys that a sequence owns but does not use. */
void af_backward_clear_unused(const struct af_backward_problem *problem);

/* Zeros to all of dbias, once where it is summed. */
void af_backward_clear_bias(const struct af_backward_problem *problem);

/* dsinks of one head, summed over batches and rows in their order. */
void af_backward_sink(const struct af_backward_problem *problem, int64_t head);

#endif
