/*
 * problem_check.h: the steps of checking a problem, called in order by problem.c.
 */
#ifndef AF_ENGINE_ATTN_PROBLEM_CHECK_H
#define AF_ENGINE_ATTN_PROBLEM_CHECK_H

#include "engine/attn/problem.h"

/* Fails with ARGUMENT: "NAME is VALUE; RULE". */
enum anyflash_status af_refuse(struct anyflash_error *err, const char *name, int64_t value,
                               const char *rule, ...) AF_PRINTF(4, 5);

/*
 * Checks numbers and options one by one, and options that exclude or need each
 * other. Reads no arrays.
 */
enum anyflash_status af_problem_check_options(const struct anyflash_attend_args *args,
                                              struct anyflash_error *err);

/*
 * Checks element types, alignment and strides of tensors and arrays, and that no
 * output overlaps itself or anything else. `args` has passed
 * af_problem_check_options(), and its packed tensors have batch_stride 0.
 */
enum anyflash_status af_problem_check_layouts(const struct anyflash_attend_args *args,
                                              struct anyflash_error *err);

/*
 * Checks the contents of the index arrays: lengths, rows, batches and pages must
 * exist. problem->a has passed the checks above.
 */
enum anyflash_status af_problem_check_indexes(const struct af_problem *problem,
                                              struct anyflash_error *err);

#endif
