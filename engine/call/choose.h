/*
 * choose.h: which kernel runs, and why others do not.
 */
#ifndef AF_ENGINE_CALL_CHOOSE_H
#define AF_ENGINE_CALL_CHOOSE_H

#include "engine/attn/kernel.h"

/* Why a kernel cannot compute a problem. */
enum af_decline {
    AF_DECLINE_NOT = 0, /* the kernel can run */
    AF_DECLINE_DTYPE,
    AF_DECLINE_CPU,
    AF_DECLINE_DROPOUT,
    AF_DECLINE_SCALE
};

/* Ends a sentence that starts with the kernel's name; static storage. */
const char *af_decline_text(enum af_decline decline);

/* Why `kernel` declines the problem on a processor with `cpu_features`, or AF_DECLINE_NOT. */
enum af_decline af_kernel_declines(const struct af_kernel *kernel,
                                   const struct af_problem *problem, uint32_t cpu_features);

/* The best kernel for the operation; NULL if there is none. */
const struct af_kernel *af_kernel_choose(const struct af_problem *problem,
                                         enum af_kernel_operation operation,
                                         uint32_t cpu_features);

#endif
