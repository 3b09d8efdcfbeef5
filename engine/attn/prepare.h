/*
 * prepare.h: the steps before attending: k_new and v_new go into the cache, and
 * rotary embedding turns k_new on its way there and q on its way to scratch.
 * After them a problem is plain attention over what the cache holds.
 *
 * Rotation of a pair: (x, y) becomes (x cos - y sin, x sin + y cos), computed in
 * float and rounded once to the cache's or q's type.
 */
#ifndef AF_ENGINE_ATTN_PREPARE_H
#define AF_ENGINE_ATTN_PREPARE_H

#include "engine/attn/problem.h"

/* Bytes of scratch for turned queries; 0 when nothing turns them. */
size_t af_prepare_bytes(const struct af_problem *problem);

/*
 * Does all of it, by the two steps below. `scratch` has af_prepare_bytes(),
 * aligned for floats, and must live as long as *problem, whose q then points
 * there and which asks for rotary embedding no more. Once per problem.
 */
void af_prepare(struct af_problem *problem, void *scratch);

/* Appends the new keys and values of one batch and key head. Any order, any threads. */
void af_prepare_keys(const struct af_problem *problem, int64_t batch, int64_t kv_head);

/* The tensor of turned queries in `scratch`, shaped as q. */
struct anyflash_tensor af_prepare_tensor(const struct af_problem *problem, void *scratch);

/* Writes the turned queries of one batch and head to `turned`. Any order, any threads. */
void af_prepare_queries(const struct af_problem *problem, const struct anyflash_tensor *turned,
                        int64_t batch, int64_t head);

#endif
