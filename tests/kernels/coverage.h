/*
 * coverage.h: which pairs of features met which side of which guard, and an example of each
 * kind of problem that did. A pair that did not is a hole, unless the table `never` says that
 * it cannot; holes are filled by problems like the examples. Second part of pairs.h, which
 * includes it and defines run_counted().
 */
#ifndef AF_TEST_COVERAGE_H
#define AF_TEST_COVERAGE_H

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guards.h"
#include "machine.h"

#define EXAMPLES_OF_KIND 6 /* of a shape, a type, with or without NaN */
#define EXAMPLES_MAX (SHAPES * 6 * EXAMPLES_OF_KIND)
#define TRIES 1000       /* to fill a hole */
#define LIKE_EXAMPLES 24 /* problems with a guard that gives way, for each that it stopped */

struct guard_coverage {
    bool pairs[FEATURES][FEATURES];
    uint64_t examples[EXAMPLES_MAX]; /* numbers of problems */
    int example_count;
};

static struct guard_coverage covered[GUARDS_MAX][SIDES];

static inline uint64_t kind_of(uint64_t seed)
{
    return seed >> FEATURES_MAX << FEATURES_MAX << (64 - NUMBER_SHIFT) |
           (seed & BIT(NONFINITE));
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

static inline bool has_kernel(const char *part)
{
    size_t count;
    const struct af_kernel *const *kernels = af_kernels(&count);
    for (size_t k = 0; k < count; k++) {
        if (machine_runs(kernels[k]) && strstr(kernels[k]->name, part) != NULL)
            return true;
    }
    return false;
}

/* Whether the table says that no problem with these features meets this side of a guard. */
static inline bool is_excluded(int guard, int side, unsigned features)
{
    for (size_t r = 0; r < AF_COUNT(never); r++) {
        const unsigned common = never[r].features & features;
        const bool all = (never[r].features & ALL_OF) != 0;
        if (strcmp(never[r].file, guard_sites[guard].file) == 0 &&
            strncmp(never[r].condition, guard_sites[guard].condition,
                    strlen(never[r].condition)) == 0 &&
            (int)never[r].side == side &&
            (never[r].kernel == NULL || !has_kernel(never[r].kernel)) &&
            (all ? (common | ALL_OF) == never[r].features : common != 0))
            return true;
    }
    return false;
}

static inline void run_covered(uint64_t seed)
{
    memset(guard_met, 0, sizeof guard_met);
    const unsigned features = run_counted(seed);
    cover_problem(features, seed);
}

/* Makes problems like those that met a side of a guard, with the pair, until one meets it. */
static inline bool fill_hole(int guard, int side, int one, int other)
{
    static uint64_t number = 1u << 20;
    struct guard_coverage *c = &covered[guard][side];
    const unsigned pair = complete_features(BIT(one) | BIT(other));
    for (int n = 0; n < TRIES && c->example_count > 0 && !c->pairs[one][other]; n++) {
        const uint64_t example = c->examples[n % c->example_count];
        unsigned features = pair;
        for (int f = 0; f < FEATURES; f++) {
            const unsigned more = complete_features(features | BIT(f));
            if (HAS(pair_features(example), f) && features_are_legal(more) &&
                !is_excluded(guard, side, more))
                features = more;
        }
        run_covered(pair_number(++number, pair_type(example), pair_shape(example), features));
    }
    return c->pairs[one][other];
}

/* Fills the holes of a side of a guard and prints how many pairs met it; returns the rest. */
static inline int cover_guard(int guard, int side)
{
    const struct guard_site *site = &guard_sites[guard];
    int met = 0, holes = 0;
    char missing[120] = "";
    for (int one = 0; one < FEATURES; one++) {
        for (int other = 0; other < one; other++) {
            const unsigned pair = complete_features(BIT(one) | BIT(other));
            const bool may = !is_excluded(guard, side, pair);
            if (!is_wanted(one, other) || (!may && !covered[guard][side].pairs[one][other]))
                continue;
            if (may && fill_hole(guard, side, one, other))
                met++;
            else if (holes++ < 2)
                snprintf(missing + strlen(missing), sizeof missing - strlen(missing),
                         "; %s %s+%s", may ? "never" : "wrongly excluded:", feature_names[one],
                         feature_names[other]);
        }
    }
    printf("  %-24s %-5s %-58.58s %3d pairs%s\n", site->file, side ? "true" : "false",
           site->condition, met, missing);
    return holes;
}

/* Whether some problem that the guard should stop is wrong when it does not. */
static inline bool is_noticed(int guard)
{
    int status = 0;
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        if (freopen("/dev/null", "w", stdout) == NULL ||
            freopen("/dev/null", "w", stderr) == NULL)
            _exit(0);
        if (make_contexts(NULL) != 0) /* those there have no threads in this process */
            _exit(0);
        alarm(200);
        guard_forced = guard;
        const struct guard_coverage *c = &covered[guard][GUARD_FALSE];
        for (int n = 0; n < LIKE_EXAMPLES * c->example_count; n++) /* with as many threads */
            run_problem(c->examples[n / LIKE_EXAMPLES] +
                        ((uint64_t)(n % LIKE_EXAMPLES * POOLS) << NUMBER_SHIFT));
        _exit(0);
    }
    waitpid(child, &status, 0);
    return status != 0;
}

static inline int check_guards(void)
{
    int wrong = 0;
    printf("both sides of each guard, and the pairs of features that met it:\n");
    for (int n = 1; n < guard_count; n++) {
        for (int side = 0; side < SIDES; side++)
            wrong += cover_guard(n, side);
    }
    for (int n = 1; n < guard_count; n++) {
        if (guard_sites[n].is_choice || covered[n][GUARD_FALSE].example_count == 0 ||
            is_noticed(n))
            continue;
        printf("no result is wrong if this always holds: %s: %s\n", guard_sites[n].file,
               guard_sites[n].condition);
        wrong++;
    }
    return wrong;
}

#endif
