/*
 * philox.h: which probabilities dropout keeps. Philox-4x32-10 (Salmon, Moraes,
 * Dror, Shaw: Parallel random numbers, as easy as 1, 2, 3; 2011) is a function
 * of a counter and a key, so kernels can compute elements in any order, and the
 * backward gets the same elements as the forward.
 *
 * Element (b, h, i, j) uses word j % 4 of
 *     counter = (j / 4, i, low 32 bits of b * H + h, low 32 bits of offset)
 *     key     = (low 32 bits of seed, high of seed xor high of offset)
 * i and j count within the sequence. With queries in the lanes of a vector, the
 * four words of one call are for four keys.
 */
#ifndef AF_ENGINE_ATTN_PHILOX_H
#define AF_ENGINE_ATTN_PHILOX_H

#include "engine/attn/problem.h"

#define AF_PHILOX_ROUNDS 10
#define AF_PHILOX_M0 0xd2511f53u
#define AF_PHILOX_M1 0xcd9e8d57u
#define AF_PHILOX_W0 0x9e3779b9u
#define AF_PHILOX_W1 0xbb67ae85u

/* The smallest word whose element is kept: p * 2^32, rounded up. */
static inline uint32_t af_dropout_threshold(float dropout)
{
    double exact = (double)dropout * 0x1p32;
    uint32_t whole = (uint32_t)exact;
    return whole + (exact > (double)whole);
}

#define AF_DROPOUT_STEP 16 /* calls at a time */

/* The words of AF_DROPOUT_STEP calls, whose counters rise in the first word. */
static inline void af_philox_many(const uint32_t counter[4], uint32_t key0, uint32_t key1,
                                  uint32_t words[4][AF_DROPOUT_STEP])
{
    for (uint32_t n = 0; n < AF_DROPOUT_STEP; n++) {
        words[0][n] = counter[0] + n;
        words[1][n] = counter[1];
        words[2][n] = counter[2];
        words[3][n] = counter[3];
    }
    for (int round = 0; round < AF_PHILOX_ROUNDS; round++) {
        for (int n = 0; n < AF_DROPOUT_STEP; n++) {
            uint64_t product0 = (uint64_t)AF_PHILOX_M0 * words[0][n];
            uint64_t product1 = (uint64_t)AF_PHILOX_M1 * words[2][n];
            words[0][n] = (uint32_t)(product1 >> 32) ^ words[1][n] ^ key0;
            words[1][n] = (uint32_t)product1;
            words[2][n] = (uint32_t)(product0 >> 32) ^ words[3][n] ^ key1;
            words[3][n] = (uint32_t)product0;
        }
        key0 += AF_PHILOX_W0;
        key1 += AF_PHILOX_W1;
    }
}

/*
 * What dropout multiplies elements (sequence, head, i, j) to j + count - 1 by:
 * 1 / (1 - p) if their word reaches the threshold, else 0. Each Philox call gives four.
 */
static inline void af_dropout_factors(const struct af_problem *problem,
                                      const struct af_sequence *sequence, int64_t head,
                                      int64_t i, int64_t j, int64_t count, float *factors)
{
    const struct anyflash_attend_args *a = &problem->a;
    const uint64_t seed = a->dropout_seed, offset = a->dropout_offset;
    const uint32_t threshold = af_dropout_threshold(a->dropout);
    const float kept = 1.0f / (1.0f - a->dropout);
    uint32_t words[4][AF_DROPOUT_STEP];
    for (int64_t call = j / 4; call * 4 < j + count; call += AF_DROPOUT_STEP) {
        const uint32_t counter[4] = {(uint32_t)call, (uint32_t)i,
                                     (uint32_t)(sequence->batch * a->heads + head),
                                     (uint32_t)offset};
        af_philox_many(counter, (uint32_t)seed,
                       (uint32_t)(seed >> 32) ^ (uint32_t)(offset >> 32), words);
        int64_t at = call * 4 > j ? call * 4 : j;
        int64_t end = call * 4 + 4 * AF_DROPOUT_STEP;
        for (end = end < j + count ? end : j + count; at < end; at++)
            factors[at - j] = words[at % 4][at / 4 - call] >= threshold ? kept : 0.0f;
    }
}

#endif
