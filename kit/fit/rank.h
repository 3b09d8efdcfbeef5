/*
 * rank.h: the order of wheels that fit, from the one to take to the last. The
 * rules and their reasons are in docs/design/ranking.md.
 */
#ifndef AF_KIT_FIT_RANK_H
#define AF_KIT_FIT_RANK_H

#include "kit/fit/verdict.h"

/* <0 when `a` is to be taken before `b`; 0 only for the same wheel. Total. */
int af_rank_compare(const struct af_fit_context *fit, const struct af_candidate *a,
                    const struct af_candidate *b);

/*
 * Sorts candidates: those that fit, then the unknown, both by rank; then those
 * that do not fit, in no order that means anything. Counts the first two.
 */
void af_rank_sort(const struct af_fit_context *fit, struct af_candidate *candidates,
                  size_t count, size_t *fitting_out, size_t *unknown_out);

#endif
