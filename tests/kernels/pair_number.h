/*
 * pair_number.h: sets of features, and the number of a problem, which says everything about it:
 * which are its features, shape and type.
 */
#ifndef AF_TEST_PAIR_NUMBER_H
#define AF_TEST_PAIR_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FEATURES_MAX 24
#define SHAPES_MAX 16
#define TYPE_SHIFT (FEATURES_MAX + 4) /* above the shape */
#define NUMBER_SHIFT (TYPE_SHIFT + 2)

#define BIT(feature) (1u << (feature))
#define HAS(features, feature) (((features)&BIT(feature)) != 0)

static inline uint64_t pair_number(uint64_t number, size_t type, int shape, unsigned features)
{
    return number << NUMBER_SHIFT | (uint64_t)type << TYPE_SHIFT |
           (uint64_t)shape << FEATURES_MAX | features;
}

static inline unsigned pair_features(uint64_t seed)
{
    return (unsigned)(seed & (BIT(FEATURES_MAX) - 1));
}

static inline int pair_shape(uint64_t seed)
{
    return (int)(seed >> FEATURES_MAX & (SHAPES_MAX - 1));
}

/* 0 to 2: f32, f16, bf16. */
static inline size_t pair_type(uint64_t seed)
{
    return seed >> TYPE_SHIFT & 3;
}

/* Which of the contexts.h runs it. */
static inline size_t pair_pool(uint64_t seed, size_t pools)
{
    return (seed >> NUMBER_SHIFT) % pools;
}

#endif
