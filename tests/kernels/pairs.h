/*
 * pairs.h: runs a covering array: each pair of features is tried in each shape and type, half
 * of them with a third feature. A slice of the pairs with a new seed each time, or all.
 *
 * Built with AF_COUNT_GUARDS it also requires that each pair meets both sides of every guard
 * of engine/attn/guard.h, or that a table says why it cannot; it makes more problems like those
 * that met a side until all do. Then it makes each guard hold in turn, and some problem must
 * be wrong (coverage.h).
 *
 * Prints how many problems had each feature.
 *
 * ANYFLASH_TEST_SLICE: which of the pairs, one in SLICES; 0: all. Otherwise others each time.
 * ANYFLASH_TEST_SEED: only the problem of this number, which a failure named.
 *
 * Included before it: what pair_slice.h needs, contexts.h, and with AF_COUNT_GUARDS the table
 * `never` of coverage.h. Its includer also defines run_problem(), which runs the problem of a
 * number at each level of this machine and returns its features.
 */
#ifndef AF_TEST_PAIRS_H
#define AF_TEST_PAIRS_H

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "pair_slice.h"

static int64_t problem_count, count_with[FEATURES];

static inline unsigned run_counted(uint64_t seed)
{
    const unsigned features = run_problem(seed);
    problem_count++;
    for (int f = 0; f < FEATURES; f++)
        count_with[f] += HAS(features, f);
    return features;
}

#ifdef AF_COUNT_GUARDS

#include "coverage.h"

#else

static inline void run_covered(uint64_t seed)
{
    run_counted(seed);
}

static inline int check_guards(void)
{
    return 0;
}

#endif

static inline void run_pair(int one, int other)
{
    static uint64_t number;
    for (int n = 0; n < SHAPES * 3; n++)
        run_covered(
            number_of_pair(one, other, n / 3, (size_t)(n % 3), slice * 10000 + ++number));
}

/* The program; `check` returns the number of other faults, and may be NULL. */
static inline int run_pairs(int check(void))
{
    const char *only = getenv("ANYFLASH_TEST_SEED"), *which = getenv("ANYFLASH_TEST_SLICE");
    const clock_t begin = clock();
    if (make_contexts(NULL) != 0)
        return 1;
    if (only != NULL) {
        run_problem(strtoull(only, NULL, 10));
        return 0;
    }
    slice = which != NULL ? strtoull(which, NULL, 10) : 1 + (uint64_t)time(NULL) % 1000000;
    printf("slice %llu\n", (unsigned long long)slice);
    for (int one = 0; one < FEATURES; one++) {
        for (int other = 0; other < one; other++) {
            if (is_wanted(one, other))
                run_pair(one, other);
        }
    }
    for (int f = 0; f < FEATURES; f++)
        printf("%s %lld%s", feature_names[f], (long long)count_with[f],
               f + 1 < FEATURES ? ", " : "\n");
    const int wrong = check_guards() + (check != NULL ? check() : 0);
    printf("%lld problems in %.1f s, %d faults\n", (long long)problem_count,
           (double)(clock() - begin) / CLOCKS_PER_SEC, wrong);
    return wrong != 0;
}

#endif
