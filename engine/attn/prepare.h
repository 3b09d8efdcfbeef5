/*
 * prepare.h: the steps before attention: k_new and v_new are appended to the
 * cache, and rotary embedding is applied to k_new on the way to the cache and to
 * q on the way to scratch. Afterwards the problem is plain attention over the
 * cache.
 *
 * Rotation maps a pair (x, y) to (x cos - y sin, x sin + y cos), computed in
 * float, for fp8 divided by the scale, and rounded once to the type of the cache
 * or q.
 */
#ifndef AF_ENGINE_ATTN_PREPARE_H
#define AF_ENGINE_ATTN_PREPARE_H

#include "engine/attn/problem.h"

/* Bytes of scratch for rotated queries; 0 without rotary embedding of queries. */
size_t af_prepare_bytes(const struct af_problem *problem);

/*
 * Appends the new keys and values to the cache and rotates the queries. `scratch` has
 * af_prepare_bytes() bytes, is aligned for floats, and must outlive *problem, whose q then
 * points there and which no longer asks for rotary embedding. Call it once per
 * problem.
 */
void af_prepare(struct af_problem *problem, void *scratch);

#endif
