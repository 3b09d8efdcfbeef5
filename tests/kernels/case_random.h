/*
 * case_random.h: random numbers that a seed repeats (splitmix64).
 */
#ifndef AF_TEST_CASE_RANDOM_H
#define AF_TEST_CASE_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

static inline uint64_t random_word(uint64_t *state)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* From low to high, both included. */
static inline int64_t random_pick(uint64_t *state, int64_t low, int64_t high)
{
    return low + (int64_t)(random_word(state) % (uint64_t)(high - low + 1));
}

static inline bool random_one_in(uint64_t *state, int64_t n)
{
    return random_pick(state, 1, n) == 1;
}

#endif
