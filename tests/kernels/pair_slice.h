/*
 * pair_slice.h: which pairs of features a run of a covering array tries, and the problems that
 * have a pair.
 *
 * Included before it: pair_number.h and a file that defines enum feature with FEATURES and
 * NONFINITE, feature_names, enum shape with SHAPES, pair_is_legal(), which says whether the API
 * allows two features in one call, and complete_features(), which adds what features need.
 */
#ifndef AF_TEST_PAIR_SLICE_H
#define AF_TEST_PAIR_SLICE_H

#define SLICES 8

_Static_assert(FEATURES <= FEATURES_MAX && SHAPES <= SHAPES_MAX, "they fit a pair_number()");

static uint64_t slice; /* number of the run; 0: all pairs */

static inline uint64_t mix_bits(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* Whether this run is to cover the pair. */
static inline bool is_wanted(int one, int other)
{
    const uint64_t x = (slice * FEATURES + (uint64_t)one) * FEATURES + (uint64_t)other;
    return pair_is_legal(one, other) && (slice == 0 || mix_bits(x) % SLICES == 0);
}

/* Whether the API allows all of them in one call. */
static inline bool features_are_legal(unsigned features)
{
    for (int one = 0; one < FEATURES; one++) {
        for (int other = 0; other < one; other++) {
            if (HAS(features, one) && HAS(features, other) && !pair_is_legal(one, other))
                return false;
        }
    }
    return true;
}

/* A number for a problem with the pair; at times with a third feature. */
static inline uint64_t number_of_pair(int one, int other, int shape, size_t type,
                                      uint64_t number)
{
    unsigned features = complete_features(BIT(one) | BIT(other));
    const int third = (int)(mix_bits(number + 0x9e3779b97f4a7c15u) % (2 * FEATURES));
    if (third < FEATURES && features_are_legal(complete_features(features | BIT(third))))
        features = complete_features(features | BIT(third));
    return pair_number(number, type, shape, features);
}

#endif
