/*
 * choose.h: which kernel takes a problem, and why the better ones do not.
 */
#ifndef AF_ENGINE_ATTN_CHOOSE_H
#define AF_ENGINE_ATTN_CHOOSE_H

#include "engine/attn/kernel.h"

/* Why `kernel` does not take the problem on a processor with `cpu_features`, or AF_TAKES_IT. */
enum af_decline af_kernel_declines(const struct af_kernel *kernel,
                                   const struct af_problem *problem, uint32_t cpu_features);

/* The best kernel for the operation, or NULL. */
const struct af_kernel *af_choose(const struct af_problem *problem,
                                  enum af_kernel_operation operation, uint32_t cpu_features);

#endif
