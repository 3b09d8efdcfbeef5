/*
 * reference.h: the reference implementation: attention and its gradients by the
 * plain formulas in double, one row at a time. It is slow; tests compare every
 * kernel with it, and nothing else calls it.
 *
 * Inputs are read in their own type and widened, so results differ from a
 * kernel's only by the kernel's arithmetic. Results are contiguous and indexed
 * by batch, also for packed problems: row i of sequence b is row b * Sq + i;
 * rows that belong to no sequence are 0 (lse: -infinity).
 *
 * A problem with k_new or rotary embedding must have been prepared (prepare.h):
 * the reference reads the cache and q as they are.
 *
 * NaN and infinity propagate as in the formulas, to the rows that see them: a
 * hidden key is not read; a visible key whose weight is 0 is. A row whose
 * visible scores are all -infinity counts as fully masked.
 */
#ifndef AF_TEST_REFERENCE_H
#define AF_TEST_REFERENCE_H

#include "engine/attn/problem.h"

/*
 * Writes o [B, H, Sq, Dv] and lse [B, H, Sq]; either may be NULL. Fails with
 * NO_MEMORY only.
 */
enum anyflash_status af_reference_forward(const struct af_problem *problem, double *o,
                                          double *lse, struct anyflash_error *err);

/* Where gradients are written; each may be NULL. */
struct af_gradients {
    double *dq;     /* [B, H, Sq, D] */
    double *dk;     /* [B, G, Sk, D] */
    double *dv;     /* [B, G, Sk, Dv] */
    double *dbias;  /* [B, H, Sq, Sk], not summed over broadcast dimensions */
    double *dsinks; /* [H] */
};

/*
 * Computes the gradients of sum(o * dout) + sum(lse * dlse). `dout` has o's
 * layout (packed with packed queries), any float type; `dlse` is strided as lse,
 * or NULL. dk and dv are indexed by the batch of the problem, whatever cache or
 * pages k and v come from. Fails with NO_MEMORY only.
 */
enum anyflash_status af_reference_backward(const struct af_problem *problem,
                                           const struct anyflash_tensor *dout,
                                           const float *dlse,
                                           const struct af_gradients *gradients,
                                           struct anyflash_error *err);

#endif
