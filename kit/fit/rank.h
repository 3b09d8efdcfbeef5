/*
 * rank.h: the order of wheels that fit, best first. The rules and why they
 * exist are in docs/design/ranking.md.
 */
#ifndef AF_KIT_FIT_RANK_H
#define AF_KIT_FIT_RANK_H

#include "kit/fit/verdict.h"

/* <0 if `a` is better than `b`; 0 only for the same wheel. A total order. */
int af_rank_compare(const struct af_fit_context *fit, const struct af_candidate *a,
                    const struct af_candidate *b);

/*
 * Sorts candidates: those that fit, then the unknown ones, both by rank; then
 * those that do not fit, in no particular order. Counts the first two groups.
 */
void af_rank_sort(const struct af_fit_context *fit, struct af_candidate *candidates,
                  size_t count, size_t *fitting_out, size_t *unknown_out);

#endif
