/*
 * problem_check.h: the parts of checking a problem. problem.c and
 * backward_problem.c call them in order.
 */
#ifndef AF_ENGINE_ATTN_PROBLEM_CHECK_H
#define AF_ENGINE_ATTN_PROBLEM_CHECK_H

#include "engine/attn/problem.h"

/*
 * Copies a struct of arguments that begins with its struct_size: what an older
 * header lacks becomes zero, what a newer one has must be. Fails with ARGUMENT
 * when it is shorter than the first version or absurdly long.
 */
enum anyflash_status af_copy_args(void *copy, size_t copy_bytes, const void *args,
                                  size_t first_version_bytes, struct anyflash_error *err);

/* Fails with ARGUMENT: "NAME is VALUE; RULE". */
enum anyflash_status af_refuse(struct anyflash_error *err, const char *name, int64_t value,
                               const char *rule, ...) AF_PRINTF(4, 5);

/* Fails with ARGUMENT: "NAME[INDEX] is VALUE; RULE". */
enum anyflash_status af_refuse_at(struct anyflash_error *err, const char *name, int64_t index,
                                  int64_t value, const char *rule, ...) AF_PRINTF(5, 6);

/* Refuses `value` outside [min, max]. */
enum anyflash_status af_problem_check_within(struct anyflash_error *err, const char *name,
                                             int64_t value, int64_t min, int64_t max);

/*
 * Numbers and options one by one, and options that exclude each other or need
 * one another. Looks at no array.
 */
enum anyflash_status af_problem_check_options(const struct anyflash_attend_args *args,
                                              struct anyflash_error *err);

/*
 * Where the tensors and arrays lie: element types, alignment, strides within
 * the address space, outputs apart from themselves and from all else. `args`
 * has passed af_problem_check_options() and its packed tensors have batch_stride 0.
 */
enum anyflash_status af_problem_check_layouts(const struct anyflash_attend_args *args,
                                              struct anyflash_error *err);

/*
 * What the index arrays say: lengths, rows, batches and pages that exist.
 * problem->a has passed the checks above.
 */
enum anyflash_status af_problem_check_indexes(const struct af_problem *problem,
                                              struct anyflash_error *err);

#endif
