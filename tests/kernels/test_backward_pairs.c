/*
 * test_backward_pairs.c: a covering array for the backward kernels (pairs.h), at every level of
 * this machine.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "backward_check.h"
#include "backward_pair_case.h"
#include "contexts.h"

#ifdef AF_COUNT_GUARDS

#include "guards.h"

#define FEATURED (BIT(SOFTCAP) | BIT(ALIBI) | BIT(MASK) | BIT(BIAS) | BIT(DBIAS) | BIT(DROPOUT))

/*
 * With a sink and dropout a row's single key is not looked at, and dropout alone multiplies its
 * value by something else than 1. Scores with features are always masked.
 */
static const struct never_met never[] = {
    {"backward_rows_template.h", "a->sinks", GUARD_TRUE, ALL_OF | BIT(SINKS) | BIT(DROPOUT),
     NULL},
    {"backward_rows_template.h", "memcmp", GUARD_FALSE, ALL_OF | BIT(SINKS) | BIT(DROPOUT),
     NULL},
    {"backward_rows_template.h", "memcmp", GUARD_TRUE, BIT(DROPOUT), NULL},
    {"backward_template.h", "work->problem->a.mask", GUARD_TRUE, BIT(MASK), NULL},
    BOTH("backward_tile_template.h", "view->all_first", FEATURED),
    BOTH("backward_tile_template.h", "key + round_up", FEATURED),
    {"backward_rows_template.h", "count %", GUARD_FALSE, EVERY_FEATURE, "amx"},
};

#endif

static unsigned run_problem(uint64_t seed)
{
    size_t count;
    const struct af_kernel *const *kernels = af_kernels(&count);
    struct backward_case *c = pair_case(seed);
    unsigned features = pair_features(seed);
    if (c->a.causal)
        features |= BIT(CAUSAL);
    case_solve(c);
    for (size_t k = 0; k < count; k++) {
        if (!case_is_for(kernels[k], c))
            continue;
        fill_outputs(c);
        case_attend(contexts[pair_pool(seed, POOLS)], c, kernels[k]->needs);
        check_outputs(c, kernels[k]->name, seed);
        check_gaps(c, kernels[k]->name, seed);
    }
    case_free(c);
    return features;
}

#include "pairs.h"

int main(void)
{
    return run_pairs(NULL);
}
