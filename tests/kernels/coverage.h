/*
 * coverage.h: which pairs of features met which side of which guard, and an example of each
 * kind of problem that did. A pair that did not is a hole, unless a table says that it cannot.
 */
#ifndef AF_TEST_COVERAGE_H
#define AF_TEST_COVERAGE_H

#include <stdio.h>
#include <string.h>

#include "guards.h"
#include "pair_case.h"

#define EXAMPLES_OF_KIND 6 /* of a shape, a type, with or without NaN */
#define EXAMPLES_MAX (SHAPES * 6 * EXAMPLES_OF_KIND)

enum side { GUARD_FALSE, GUARD_TRUE, SIDES };

/*
 * A side of a guard that no problem with one of these features can meet. `kernel`: the row is
 * for machines where no kernel has this in its name; NULL: for all.
 */
struct never_met {
    const char *file;
    const char *condition; /* or its first words */
    enum side side;
    unsigned features;
    const char *kernel;
};

#define EVERY_FEATURE UINT32_MAX

struct guard_coverage {
    bool pairs[FEATURES][FEATURES];
    uint64_t examples[EXAMPLES_MAX]; /* numbers of problems */
    int example_count;
};

static struct guard_coverage covered[GUARDS_MAX][SIDES];

static inline uint64_t kind_of(uint64_t seed)
{
    return seed >> 20 << 20 << 38 | (seed & BIT(NONFINITE));
}

static inline void cover_side(struct guard_coverage *c, unsigned features, uint64_t seed)
{
    int known = 0;
    for (int n = 0; n < c->example_count; n++)
        known += kind_of(c->examples[n]) == kind_of(seed);
    if (known < EXAMPLES_OF_KIND)
        c->examples[c->example_count++] = seed;
    for (int one = 0; one < FEATURES; one++) {
        for (int other = 0; HAS(features, one) && other < one; other++)
            c->pairs[one][other] |= HAS(features, other);
    }
}

/* Notes the guards that problem `seed`, which has `features`, has met. */
static inline void cover_problem(unsigned features, uint64_t seed)
{
    for (int n = 1; n < guard_count; n++) {
        for (int side = 0; side < SIDES; side++) {
            if ((guard_met[n] >> side & 1) != 0)
                cover_side(&covered[n][side], features, seed);
        }
    }
}

/* The features with which this side of a guard cannot be met. */
static inline unsigned features_excluded(const struct never_met *rows, size_t count, int guard,
                                         int side, bool has_kernel(const char *part))
{
    unsigned features = 0;
    for (size_t r = 0; r < count; r++) {
        const size_t length = strlen(rows[r].condition);
        if (strcmp(rows[r].file, guard_sites[guard].file) == 0 &&
            strncmp(rows[r].condition, guard_sites[guard].condition, length) == 0 &&
            (int)rows[r].side == side &&
            (rows[r].kernel == NULL || !has_kernel(rows[r].kernel)))
            features |= rows[r].features;
    }
    return features;
}

#endif
