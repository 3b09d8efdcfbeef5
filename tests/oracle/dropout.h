/*
 * dropout.h: which elements dropout keeps, one at a time, for the oracle and for tests.
 * philox.h has the definition and computes the same words many at a time.
 */
#ifndef AF_TEST_DROPOUT_H
#define AF_TEST_DROPOUT_H

#include "engine/attn/philox.h"

static inline void af_philox(uint32_t counter[4], uint32_t key0, uint32_t key1)
{
    for (int round = 0; round < AF_PHILOX_ROUNDS; round++) {
        uint64_t product0 = (uint64_t)AF_PHILOX_M0 * counter[0];
        uint64_t product1 = (uint64_t)AF_PHILOX_M1 * counter[2];
        counter[0] = (uint32_t)(product1 >> 32) ^ counter[1] ^ key0;
        counter[1] = (uint32_t)product1;
        counter[2] = (uint32_t)(product0 >> 32) ^ counter[3] ^ key1;
        counter[3] = (uint32_t)product0;
        key0 += AF_PHILOX_W0;
        key1 += AF_PHILOX_W1;
    }
}

/* Whether dropout keeps element (sequence, head, i, j). */
static inline bool af_dropout_keeps(const struct af_problem *problem,
                                    const struct af_sequence *sequence, int64_t head, int64_t i,
                                    int64_t j)
{
    const struct anyflash_attend_args *a = &problem->a;
    uint64_t seed = a->dropout_seed, offset = a->dropout_offset;
    uint32_t counter[4] = {(uint32_t)(j / 4), (uint32_t)i,
                           (uint32_t)(sequence->batch * a->heads + head), (uint32_t)offset};
    af_philox(counter, (uint32_t)seed, (uint32_t)(seed >> 32) ^ (uint32_t)(offset >> 32));
    return counter[j % 4] >= af_dropout_threshold(a->dropout);
}

#endif
